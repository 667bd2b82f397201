"""Jobs on a real Flink cluster: the bytes of the local run, and clear ends. `make check NAME=flink`.

There are two clusters, each for all tests that it is for: one with the memory that Flink comes with, and one that takes
more jobs, one right after the other, which begins with one TaskManager.
"""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import apache_beam as beam
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

import shardmill
from shardmill.pipelines.jobs.local_cluster import loopback_workers
from tests.support.clusters.flink import ROOMY, FlinkCluster, free_ports
from tests.support.clusters.installed import boot, missing
from tests.support.command import REPOSITORY, Run, tree_bytes, write_files
from tests.support.golden_cases import DIGESTS, command_from, digests, digests_in, of_any_input
from tests.support.golden_inputs import write_inputs
from tests.support.houses import check_module

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "a cluster can be started")

GOLDEN = json.loads(DIGESTS.read_text())
# Cases of golden_cases with the parallelism that they run with; those on Flink as it comes are as many as its
# TaskManagers have memory for, one right after the other, see docs/flink.md
AS_IT_COMES = (("images-stratified", 4), ("csv-label", 4), ("images-by-bytes", 3), ("reshard", 4), ("text-files", 1))
MORE = (
    ("arrays", 3),
    ("csv-by-bytes", 1),
    ("csv-transform", 4),
    ("text-packed", 4),
    ("images-coco", 4),
    ("csv-sequences", 3),
    ("csv-group", 3),
    ("webdataset", 1),
    ("images-masks", 1),
    ("images-near-duplicates", 1),
)
MOST_AT_ONCE = 3  # of exchanges that Flink writes at once: with two slots a TaskManager, its buffers are for four


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(folder)
    return folder


@pytest.fixture(scope="module")
def as_it_comes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkCluster]:
    """Two TaskManagers of two slots."""
    with FlinkCluster(tmp_path_factory.mktemp("flink") / "cluster") as started:
        yield started


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlinkCluster]:
    """One TaskManager of two slots, to begin with."""
    with FlinkCluster(tmp_path_factory.mktemp("roomy") / "cluster", 1, ROOMY) as started:
        yield started


@pytest.fixture(scope="module")
def roomy(small: FlinkCluster) -> FlinkCluster:
    """The same, with another."""
    small.add_task_manager()
    small.wait_for_slots(4)
    return small


def check(cluster: FlinkCluster, inputs: Path, case: str, flags: Sequence[str], folder: str) -> None:
    """Check that a case gives the promised bytes on the cluster."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(inputs)
        assert digests(case, *flags, output=folder) == GOLDEN[case]
    assert cluster.plan().at_once <= MOST_AT_ONCE


def in_launcher(parallelism: int) -> list[str]:
    return ["--environment_type", "LOOPBACK", "--parallelism", str(parallelism)]


@pytest.mark.parametrize(("case", "parallelism"), AS_IT_COMES)
def test_flink_as_it_comes(
    as_it_comes: FlinkCluster, inputs: Path, capfd: pytest.CaptureFixture[str], case: str, parallelism: int
) -> None:
    check(as_it_comes, inputs, case, [*as_it_comes.flags(), *in_launcher(parallelism)], "as_it_comes")
    assert "Traceback" not in capfd.readouterr().err


def test_a_pool_of_workers_beside_the_task_manager(run: Run, small: FlinkCluster, inputs: Path, tmp_path: Path) -> None:
    """Beam's own, as deploy/flink/flinkdeployment.yaml has it."""
    if (found := boot()) is None:
        pytest.skip("needs Go, which builds Beam's program of the pool")
    flags = [*small.flags(), *small.start_pool(found), "--parallelism", "2"]
    result = run(*command_from(inputs, "csv-label"), "--output", tmp_path / "out", *flags)
    assert result.status == 0, result.err
    assert of_any_input(digests_in(tmp_path / "out")) == of_any_input(GOLDEN["csv-label"])
    small.kill("pool")


@pytest.mark.parametrize(("case", "parallelism"), MORE)
def test_more_jobs(
    roomy: FlinkCluster, inputs: Path, capfd: pytest.CaptureFixture[str], case: str, parallelism: int
) -> None:
    check(roomy, inputs, case, [*roomy.flags(), *in_launcher(parallelism)], "more")
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.tensorflow
def test_what_a_module_asks_for_is_analyzed(run: Run, roomy: FlinkCluster, tmp_path: Path) -> None:
    """Two jobs, of which the first finds the graph."""
    check_module(run, tmp_path, [*roomy.flags(), *in_launcher(2)])


def test_a_job_server_that_the_command_starts(
    roomy: FlinkCluster, inputs: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    check(roomy, inputs, "images-splits", [*roomy.flags_of_own_server(), *in_launcher(2)], "own")
    said = capfd.readouterr().err
    assert "Traceback" not in said
    assert "WARNING" not in said


def test_a_mistake_that_workers_find_is_said_once(run: Run, roomy: FlinkCluster, inputs: Path, tmp_path: Path) -> None:
    write_files(tmp_path, {"labels.txt": b"cat\n"})
    words = ["images", "--input", inputs / "images", "--labels_file", tmp_path / "labels.txt"]
    result = run(*words, "--output", tmp_path / "out", "--name", "d", *roomy.flags(), *in_launcher(1))
    assert result.status == 2
    assert "in the input but not in --labels_file" in result.err.splitlines()[-1]
    assert not (tmp_path / "out").exists()


def test_no_worker_begins_where_nobody_starts_one(run: Run, roomy: FlinkCluster, inputs: Path, tmp_path: Path) -> None:
    words = ["csv", "--input", inputs / "tables" / "rows.csv", "--output", tmp_path / "out", "--name", "d"]
    words += [*roomy.flags(), "--environment_type", "EXTERNAL", "--parallelism", "9"]
    (nobody,) = free_ports(1)
    refused = run(*words, "--environment_config", f"localhost:{nobody}")
    assert refused.status == 1
    assert "nobody listens where its workers are to be started" in refused.err.splitlines()[-1]
    with socket.create_server(("localhost", 0)) as silent:  # takes the request, and does not answer it
        place = f"localhost:{silent.getsockname()[1]}"
        waited = run(*words, "--environment_config", place, "--job_server_timeout", "15")
    assert waited.status == 1
    assert "no worker has begun within 15 seconds; expected 9 free slots" in waited.err.splitlines()[-1]
    assert not (tmp_path / "out").exists()
    roomy.wait_for_slots(4)  # for it was cancelled


def test_what_is_killed_changes_no_byte() -> None:
    """SIGKILL, at moments that the seed says; tests/support/clusters/runs.py has the ends that are good."""
    what = ["taskmanager", *(["worker"] if boot() is not None else [])]  # Go builds Beam's program of workers
    program = [sys.executable, "-m", "tests.support.clusters.runs", str(3 * len(what)), "--seed", "7"]
    done = subprocess.run(
        [*program, *(word for one in what for word in ("--kill", one))], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    for one in what:
        assert f"equal though a {one} was killed" in done.stdout


def test_pipelines_read_and_write_data_sets(roomy: FlinkCluster, inputs: Path, tmp_path: Path) -> None:
    """A copy has the shards of the data set whose examples are read."""
    original = shardmill.convert(
        "csv", input=inputs / "tables" / "rows.csv", output=tmp_path / "a", name="d", index=True
    )
    flags = [*roomy.flags(), *in_launcher(2)]
    # In Beam's own pool the worker of one TaskManager ends that of another
    with loopback_workers(PipelineOptions(flags), threading.Event()) as options, beam.Pipeline(options=options) as job:
        examples = job | shardmill.beam.ReadDataset(original.directory, as_="examples")
        _ = examples | shardmill.beam.WriteDataset(tmp_path / "copy", "d")
    shardmill.convert("reshard", input=original.directory, output=tmp_path / "c", name="d")
    found, expected = (tree_bytes(tmp_path / name / "d" / "1.0.0") for name in ("copy", "c"))
    names = [name for name in expected if ".tfrecord" in name]
    assert names
    assert {name: found[name] for name in names} == {name: expected[name] for name in names}
    assert shardmill.verify(tmp_path / "copy" / "d").ok


def test_a_function_of_the_user(run: Run, roomy: FlinkCluster, inputs: Path, tmp_path: Path) -> None:
    write_files(tmp_path, {"own.py": b"def same(row):\n    return row\n"})
    words = ["csv", "--input", inputs / "tables" / "rows.csv", "--name", "d", "--map", f"{tmp_path}/own.py:same"]
    for name, flags in (("local", []), ("flink", [*roomy.flags(), *in_launcher(2)])):
        result = run(*words, "--output", tmp_path / name, *flags)
        assert result.status == 0, result.err
    found, expected = (digests_in(tmp_path / name) for name in ("flink", "local"))
    assert of_any_input(found) == of_any_input(expected)
