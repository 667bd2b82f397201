"""FeatureStats.pb, read by TFDV itself, by `make check NAME=tfdv`, whose environment has another
TensorFlow than the other tests.

TFDV_PYTHON names the interpreter.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import REPOSITORY
from tests.support.many_pages import PAGES

_KINDS = ("images", "table", "boxes", "masks", "tars", "sequences", "tokens", "text", "audio", "arrays")
NAMES = (*_KINDS, "odd", "hostile")


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The output of TFDV for each kind of data set, by its name."""
    folder = tmp_path_factory.mktemp("sets")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in NAMES:
            PAGES[name][0]()
    command = [os.environ["TFDV_PYTHON"], str(REPOSITORY / "tests/support/tfdv_says.py")]
    directories = {str(folder / "sets" / name / "1.0.0"): name for name in NAMES}
    done = subprocess.run([*command, *directories], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return {directories[path]: found for path, found in json.loads(done.stdout).items()}


@pytest.mark.parametrize("name", NAMES)
def test_tfdv_finds_nothing_wrong_by_our_schema(said: dict[str, Any], name: str) -> None:
    assert set(map(str, said[name]["anomalies"].values())) == {"{}"}


@pytest.mark.parametrize("name", NAMES)
def test_tfdv_infers_our_types_and_draws_its_page(said: dict[str, Any], name: str) -> None:
    assert said[name]["types"] == {}
    assert said[name]["page"] > 1000


def test_what_is_wrong_would_be_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A schema whose label has one class less."""
    monkeypatch.chdir(tmp_path)
    PAGES["images"][0]()
    directory = tmp_path / "sets/images/1.0.0"
    schema = (directory / "schema.pbtxt").read_text()
    assert "max: 1" in schema
    (directory / "schema.pbtxt").write_text(schema.replace("max: 1", "max: 0"))
    command = [os.environ["TFDV_PYTHON"], str(REPOSITORY / "tests/support/tfdv_says.py"), str(directory)]
    (found,) = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout).values()

    assert "label" in found["anomalies"]["train"]
