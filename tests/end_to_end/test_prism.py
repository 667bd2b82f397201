"""The graph on Prism, Beam's portable local runner, in a process of its own: same bytes as on the in-process runner."""

import filecmp
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from shardmill.pipelines.cli import main
from tests.support.command import Run
from tests.support.houses import check_module

pytestmark = pytest.mark.slow

_PRISM = "github.com/apache/beam/sdks/v2/go/cmd/prism@v2.77.0"


@pytest.fixture(scope="module")
def prism() -> Iterator[str]:
    """The address of a job server, built from source where there is a Go toolchain: Beam's own download needs the
    network."""
    if shutil.which("go") is None:
        pytest.skip("needs a Go toolchain to build Prism")
    folder = Path(sys.prefix) / "prism"
    if not (folder / "prism").exists():
        subprocess.run(["go", "install", _PRISM], env={**os.environ, "GOBIN": str(folder)}, check=True)
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    server = subprocess.Popen([folder / "prism", f"--job_port={port}", "--serve_http=false"], stderr=subprocess.DEVNULL)
    try:
        _wait_for(port)
        yield f"localhost:{port}"
    finally:
        server.terminate()
        server.wait()


def _wait_for(port: int) -> None:
    for _ in range(200):
        with socket.socket() as client:
            if client.connect_ex(("localhost", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"no server on port {port}")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    rng = np.random.default_rng(0)
    for index in range(60):
        folder = root / f"class_{index % 3}"
        folder.mkdir(exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), np.uint8)).save(folder / f"{index}.png")
    return root


def _arguments(tree: Path, output: Path, *more: str) -> list[str]:
    splits = ["--splits", "train=0.7,test=0.3", "--stratify_by", "label", "--num_shards", "train=4,test=2"]
    return ["images", "--input", str(tree), "--output", str(output), "--name", "tiny", *splits, *more]


def test_prism_writes_the_same_bytes(prism: str, tree: Path, tmp_path: Path) -> None:
    portable = ["--runner", "PortableRunner", "--job_endpoint", prism, "--environment_type", "LOOPBACK"]
    assert main(_arguments(tree, tmp_path / "local")) == 0
    assert main(_arguments(tree, tmp_path / "prism", *portable)) == 0
    local, remote = (tmp_path / name / "tiny" / "1.0.0" for name in ("local", "prism"))
    names = sorted(path.name for path in local.iterdir())
    assert sorted(path.name for path in remote.iterdir()) == names
    assert filecmp.cmpfiles(local, remote, names, shallow=False) == (names, [], [])


def test_prism_writes_the_same_table(prism: str, tmp_path: Path) -> None:
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.csv").write_text("id,word\n" + "".join(f"{n},w{n % 5}\n" for n in range(5000)))
    portable = ["--runner", "PortableRunner", "--job_endpoint", prism, "--environment_type", "LOOPBACK"]
    splits = ["--splits", "train=0.8,test=0.2", "--stratify_by", "word"]
    flags = [*splits, "--label", "word", "--num_shards", "3", "--block_size", "4KiB"]
    for name, more in (("local", []), ("prism", portable)):
        assert (
            main(["csv", "--input", str(source), "--output", str(tmp_path / name), "--name", "tiny", *flags, *more])
            == 0
        )
    local, remote = (tmp_path / name / "tiny" / "1.0.0" for name in ("local", "prism"))
    names = sorted(path.name for path in local.iterdir())
    assert sorted(path.name for path in remote.iterdir()) == names
    assert filecmp.cmpfiles(local, remote, names, shallow=False) == (names, [], [])


def test_prism_pairs_the_same_lines(prism: str, tmp_path: Path) -> None:
    for language in ("de", "en"):
        (tmp_path / f"a.{language}").write_text("".join(f"{language} {n} {'x' * (n % 50)}\n" for n in range(3000)))
    portable = ["--runner", "PortableRunner", "--job_endpoint", prism, "--environment_type", "LOOPBACK"]
    inputs = [word for language in ("de", "en") for word in ("--input", f"{language}={tmp_path}/a.{language}")]
    flags = ["--splits", "train=0.8,test=0.2", "--num_shards", "3", "--block_size", "4KiB"]
    for name, more in (("local", []), ("prism", portable)):
        assert main(["text", *inputs, "--output", str(tmp_path / name), "--name", "tiny", *flags, *more]) == 0
    local, remote = (tmp_path / name / "tiny" / "1.0.0" for name in ("local", "prism"))
    names = sorted(path.name for path in local.iterdir())
    assert sorted(path.name for path in remote.iterdir()) == names
    assert filecmp.cmpfiles(local, remote, names, shallow=False) == (names, [], [])


def test_mistake_found_by_a_worker_is_one_sentence(
    prism: str, tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("class_0\nclass_1\n")
    portable = ["--runner", "PortableRunner", "--job_endpoint", prism, "--environment_type", "LOOPBACK"]
    assert main(_arguments(tree, tmp_path / "out", "--labels_file", str(labels), *portable)) == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert last.startswith("shardmill: error: class 'class_2'")
    assert "is in the input but not in --labels_file" in last
    assert not (tmp_path / "out").exists()


def test_prism_analyzes_what_a_module_asks_for(run: Run, prism: str, tmp_path: Path) -> None:
    """The job that finds the graph is on the runner, too, as that which writes the examples."""
    check_module(
        run, tmp_path, ["--runner", "PortableRunner", "--job_endpoint", prism, "--environment_type", "LOOPBACK"]
    )
