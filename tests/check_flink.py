"""Jobs on a real Flink cluster, with the memory that Flink comes with: the bytes of the local run, and clear ends."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clusters.flink import FlinkCluster, free_ports
from tests.support.clusters.installed import missing
from tests.support.command import Run, write_files
from tests.support.golden_cases import write_inputs

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "a cluster can be started")

SPLITS = ("--splits", "train=0.6,test=0.4")
JOBS = {
    "images": ("images", "--input", "{inputs}/images", *SPLITS, "--max_reject_fraction", "0.5"),
    "csv": ("csv", "--input", "{inputs}/tables/rows.csv", "--block_size", "1KiB", "--num_shards", "3", *SPLITS),
}


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


def portable(cluster: FlinkCluster, parallelism: int) -> list[str]:
    """Flags of a job; a busy machine takes more than a minute to start what a first job needs."""
    endpoint = ["--runner", "PortableRunner", "--job_endpoint", cluster.job_endpoint, "--job_server_timeout", "500"]
    return [*endpoint, "--environment_type", "LOOPBACK", "--parallelism", str(parallelism)]


def contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder, but for the records of builds, which hold times."""
    files = (path for path in folder.rglob("*") if path.is_file() and "builds" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize(("job", "parallelism"), [("csv", 4), ("images", 3)])
def test_the_bytes_of_the_local_run(
    run: Run, cluster: FlinkCluster, inputs: Path, tmp_path: Path, job: str, parallelism: int
) -> None:
    words = [word.format(inputs=inputs) for word in JOBS[job]]
    for place, more in (("local", []), ("flink", portable(cluster, parallelism))):
        result = run(*words, "--output", tmp_path / place, "--name", "d", *more)
        assert result.status == 0, result.err
    assert contents(tmp_path / "flink") == contents(tmp_path / "local")


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
    endpoint = ["--runner", "PortableRunner", "--job_endpoint", cluster.job_endpoint, "--job_server_timeout", "15"]
    result = run(*words, *endpoint, *flags)
    assert result.status == 1
    assert "no worker has begun within 15 seconds; expected 9 free slots" in result.err.splitlines()[-1]
    assert not (tmp_path / "out").exists()
    cluster.wait_for_slots(4)  # for it was cancelled
