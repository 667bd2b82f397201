"""Jobs on a real Flink cluster, with the memory that Flink comes with: the bytes of the local run, and clear ends."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clusters.flink import FlinkCluster, free_ports
from tests.support.clusters.installed import missing
from tests.support.command import Run, write_files
from tests.support.golden_cases import DIGESTS, digests
from tests.support.golden_inputs import write_inputs

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "a cluster can be started")

GOLDEN = json.loads(DIGESTS.read_text())
# Cases of golden_cases by the parallelism that they run with, on a cluster each
CASES = {
    4: ("images-stratified", "csv-label", "csv-transform", "reshard", "images-coco", "text-packed"),
    3: ("images-by-bytes", "arrays", "csv-group", "parquet", "text-files", "csv-sequences"),
    1: ("images-near-duplicates", "csv-by-bytes", "avro", "jsonl", "audio", "webdataset", "images-masks"),
}
MOST_AT_ONCE = 3  # of exchanges that Flink writes at once: with two slots a TaskManager, its buffers are for four


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(folder)
    return folder


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkCluster]:
    """Two TaskManagers of two slots."""
    with FlinkCluster(tmp_path_factory.mktemp("flink") / "cluster") as started:
        yield started


@pytest.fixture(scope="module")
def golden_cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkCluster]:
    """One for the cases of one parallelism: a TaskManager keeps some memory of each job for a while."""
    with FlinkCluster(tmp_path_factory.mktemp(f"flink{request.param}") / "cluster") as started:
        yield started


def portable(cluster: FlinkCluster, parallelism: int) -> list[str]:
    """Flags of a job; a busy machine takes more than a minute to start what a first job needs."""
    endpoint = [*cluster.flags(), "--job_server_timeout", "500"]
    return [*endpoint, "--environment_type", "LOOPBACK", "--parallelism", str(parallelism)]


@pytest.mark.parametrize(
    ("golden_cluster", "parallelism", "case"),
    [(parallelism, parallelism, case) for parallelism, cases in CASES.items() for case in cases],
    indirect=["golden_cluster"],
    ids=[f"{case}-{parallelism}" for parallelism, cases in CASES.items() for case in cases],
)
def test_the_golden_digests(
    golden_cluster: FlinkCluster,
    inputs: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    parallelism: int,
    case: str,
) -> None:
    monkeypatch.chdir(inputs)
    flags = portable(golden_cluster, parallelism)
    assert digests(case, *flags, output=f"flink{parallelism}") == GOLDEN[case]
    assert golden_cluster.plan().at_once <= MOST_AT_ONCE
    assert "Traceback" not in capfd.readouterr().err


def test_a_mistake_that_workers_find_is_said_once(
    run: Run, cluster: FlinkCluster, inputs: Path, tmp_path: Path
) -> None:
    write_files(tmp_path, {"labels.txt": b"cat\n"})
    words = ["images", "--input", inputs / "images", "--labels_file", tmp_path / "labels.txt"]
    result = run(*words, "--output", tmp_path / "out", "--name", "d", *portable(cluster, 1))
    assert result.status == 2
    assert "in the input but not in --labels_file" in result.err.splitlines()[-1]
    assert not (tmp_path / "out").exists()


def test_no_worker_begins_where_nobody_starts_one(
    run: Run, cluster: FlinkCluster, inputs: Path, tmp_path: Path
) -> None:
    (nobody,) = free_ports(1)
    flags = ["--environment_type", "EXTERNAL", "--environment_config", f"localhost:{nobody}", "--parallelism", "9"]
    words = ["csv", "--input", inputs / "tables" / "rows.csv", "--output", tmp_path / "out", "--name", "d"]
    endpoint = [*cluster.flags(), "--job_server_timeout", "15"]
    result = run(*words, *endpoint, *flags)
    assert result.status == 1
    assert "no worker has begun within 15 seconds; expected 9 free slots" in result.err.splitlines()[-1]
    assert not (tmp_path / "out").exists()
    cluster.wait_for_slots(4)  # for it was cancelled
