"""How an extra is added to the installation that runs; never from a package index, where the name may be another's."""

import json
import re
import shlex
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import shardmill
from shardmill.errors import UserError
from shardmill.installed import _LazyTensorFlow, hint_from_direct_url, install_hint
from tests.support.command import REPOSITORY

FOLDER = "in shardmill's folder, run: pip install '.[gcp]'"


NOWHERE: tuple[object, ...] = (
    *({}, None, [], {"url": 7}, {"url": "file:///no/such/folder", "dir_info": {}}),
    {"url": "https://host/shardmill.whl", "archive_info": {}},
    {"url": "https://host/shardmill.git", "vcs_info": None},
)


@pytest.mark.parametrize("direct_url", NOWHERE)
def test_where_nobody_knows_it_is_the_folder(direct_url: object) -> None:
    assert hint_from_direct_url(direct_url, "gcp") == FOLDER


@pytest.mark.parametrize(
    ("info", "flag"), [({}, ""), ({"editable": True}, "-e "), ({"editable": False}, ""), (None, "")]
)
@pytest.mark.parametrize("name", ["plain", "with space", "it's"])
def test_the_folder_or_wheel_that_pip_was_given(tmp_path: Path, name: str, info: object, flag: str) -> None:
    folder = tmp_path / name
    folder.mkdir()
    hint = hint_from_direct_url({"url": folder.as_uri(), "dir_info": info}, "aws")
    assert hint.startswith(f"run: pip install {flag}'")
    assert shlex.split(hint)[-1] == f"{folder}[aws]"


def test_the_repository_that_pip_was_given() -> None:
    url = {"url": "https://host/x.git", "vcs_info": {"vcs": "git", "commit_id": "abc", "requested_revision": "main"}}
    assert hint_from_direct_url(url, "gcp") == "run: pip install 'shardmill[gcp] @ git+https://host/x.git@abc'"


def test_what_pip_wrote_down_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a distribution as pip leaves it, found before the one that is installed."""
    info = tmp_path / "madeup-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: madeup\nVersion: 1.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert metadata.version("madeup") == "1.0"
    assert install_hint("gcp", "madeup") == FOLDER
    for text, hint in (("{", FOLDER), (json.dumps({"url": tmp_path.as_uri()}), f"run: pip install '{tmp_path}[gcp]'")):
        (info / "direct_url.json").write_text(text)
        assert install_hint("gcp", "madeup") == hint
    assert install_hint("gcp", "no-such-project") == FOLDER


def test_who_lacks_tensorflow_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorflow", None)
    sentence = f"^reading into tensors needs TensorFlow; {re.escape(install_hint('tensorflow'))}$"
    with pytest.raises(UserError, match=sentence):
        _ = _LazyTensorFlow().nn


def test_who_lacks_pytorch_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "shardmill.torch", raising=False)
    with pytest.raises(UserError, match=rf"^shardmill\.torch needs PyTorch; {re.escape(install_hint('torch'))}$"):
        _ = shardmill.torch


def test_no_sentence_names_a_project_of_an_index() -> None:
    """The name is only in the requirement of a repository, which has the address beside it."""
    for path in (REPOSITORY / folder for folder in ("src/shardmill", "transforms", "pipelines")):
        for file in path.rglob("*.py"):
            for line in file.read_text().splitlines():
                assert "shardmill[" not in line or " @ " in line, f"{file}: {line}"


def test_beam_for_local_files_is_imported_without_extras_that_others_can_import() -> None:
    program = """
import gc, importlib.util, logging, sys
from shardmill import installed
with installed.importing_beam(True):  # in a process of others
    assert not gc.isenabled()
    assert importlib.util.find_spec("requests")
assert gc.isenabled() and not gc.get_freeze_count() and len(gc.get_objects(0)) < len(gc.get_objects(2))
installed.run_one_command()
with installed.importing_beam(True):
    assert not gc.isenabled()
    import apache_beam
    assert apache_beam.io.mongodbio.MongoClient is None
    try:
        import requests
    except ModuleNotFoundError as error:
        assert error.name == "requests"
assert gc.isenabled() and gc.get_freeze_count() and not logging.root.manager.disable
before = set(sys.modules)
for name in ("pandas", "pymongo", "requests"):
    assert name not in before and importlib.import_module(name)
stub = sys.modules["httplib2"]
assert "pyparsing" not in sys.modules and stub.Http(timeout=1).timeout == 1 and "pyparsing" in sys.modules
assert importlib.import_module("httplib2").Http is stub.Http
with installed.importing_beam(True):
    assert gc.isenabled()  # Beam is imported already
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
