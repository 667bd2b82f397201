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

import apache_beam as beam
import pyarrow as pa
import pyarrow.csv
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to

import shardmill
from shardmill.pipelines.cli import main
from tests.support.command import Run, image_tree, write_files
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
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images in `tree`, a table of words, and the lines of two languages."""
    root = tmp_path_factory.mktemp("folder")
    write_files(root / "tree", image_tree(("a", "b", "c"), 20, "png", "PNG"))
    (root / "a.csv").write_text("id,word\n" + "".join(f"{n},w{n % 5}\n" for n in range(5000)))
    for language in ("de", "en"):
        (root / f"a.{language}").write_text("".join(f"{language} {n} {'x' * (n % 50)}\n" for n in range(3000)))
    return root


PORTABLE = ("--runner", "PortableRunner", "--environment_type", "LOOPBACK", "--job_endpoint")
SPLITS = ("--splits", "train=0.7,test=0.3")
KINDS = {
    "images": ("images", "--input", "{0}/tree", "--stratify_by", "label", "--num_shards", "train=4,test=2"),
    "csv": ("csv", "--input", "{0}/a.csv", "--stratify_by", "word", "--label", "word", "--block_size", "4KiB"),
    "text": ("text", "--input", "de={0}/a.de", "--input", "en={0}/a.en", "--num_shards", "3", "--block_size", "4KiB"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_prism_writes_the_same_bytes(prism: str, folder: Path, tmp_path: Path, kind: str) -> None:
    words = [word.format(folder) for word in (*KINDS[kind], *SPLITS)]
    for name, more in (("local", ()), ("prism", (*PORTABLE, prism))):
        assert main([*words, "--output", str(tmp_path / name), "--name", "tiny", *more]) == 0
    local, remote = (tmp_path / name / "tiny" / "1.0.0" for name in ("local", "prism"))
    names = sorted(path.name for path in local.iterdir())
    assert sorted(path.name for path in remote.iterdir()) == names
    assert filecmp.cmpfiles(local, remote, names, shallow=False) == (names, [], [])


def test_mistake_found_by_a_worker_is_one_sentence(run: Run, prism: str, folder: Path, tmp_path: Path) -> None:
    labels = write_files(tmp_path, {"labels.txt": b"a\nb\n"}) / "labels.txt"
    flags = ("--output", tmp_path / "out", "--name", "tiny", "--labels_file", labels, *PORTABLE, prism)
    result = run("images", "--input", folder / "tree", *flags)
    last = result.err.strip().splitlines()[-1]  # Beam may log before
    assert result.status == 2
    assert last.startswith("shardmill: error: class 'c' is in the input but not in --labels_file")
    assert not (tmp_path / "out").exists()


def test_prism_analyzes_what_a_module_asks_for(run: Run, prism: str, tmp_path: Path) -> None:
    """The job that finds the graph is on the runner, too, as that which writes the examples."""
    check_module(run, tmp_path, [*PORTABLE, prism])


def test_prism_reads_a_data_set(prism: str, folder: Path, tmp_path: Path) -> None:
    words = [word.format(folder) for word in (*KINDS["csv"], *SPLITS)]
    assert main([*words, "--output", str(tmp_path), "--name", "tiny", "--index"]) == 0
    directory = tmp_path / "tiny" / "1.0.0"
    expected = [shardmill.info(directory).splits["train"].examples]
    with beam.Pipeline(options=PipelineOptions([*PORTABLE, prism])) as pipeline:
        for as_ in ("dicts", "examples", "batches"):
            elements = pipeline | as_ >> shardmill.beam.ReadDataset(directory, as_=as_)
            rows = elements | f"Rows {as_}" >> beam.Map(_count_rows) | f"Sum {as_}" >> beam.CombineGlobally(sum)
            assert_that(rows, equal_to(expected), f"Check {as_}")


def test_prism_writes_a_data_set(prism: str, folder: Path, tmp_path: Path) -> None:
    table = pyarrow.csv.read_csv(folder / "a.csv")
    for name, flags in (("local", ()), ("prism", (*PORTABLE, prism))):
        with beam.Pipeline(options=PipelineOptions([*flags])) as pipeline:
            for kind, elements in (("dicts", table.to_pylist()), ("batches", table.to_batches(500))):
                rows = pipeline | kind >> beam.Create(elements)
                _ = rows | f"Write {kind}" >> shardmill.beam.WriteDataset(tmp_path / name, kind, splits=SPLITS[1])
    for kind in ("dicts", "batches"):
        local, remote = (tmp_path / name / kind / "1.0.0" for name in ("local", "prism"))
        names = sorted(path.name for path in local.iterdir() if path.is_file())
        assert filecmp.cmpfiles(local, remote, names, shallow=False) == (names, [], [])


def _count_rows(element: object) -> int:
    return len(element) if isinstance(element, pa.RecordBatch) else 1
