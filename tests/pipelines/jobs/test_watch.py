"""What a launcher sees of a job on a cluster, and when it gives up."""

import os
import signal
import subprocess
import sys
import sysconfig
import threading
from pathlib import Path
from typing import Any

import pytest
from apache_beam.internal import pickler
from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.errors import JobError, UserError
from shardmill.pipelines.jobs import launch
from shardmill.pipelines.jobs.launch import JobWatch, error_to_raise
from shardmill.transforms.execution.running import STARTED_SUFFIX, Failure, ThreadedFlatMap, write_failure

FLAGS = ["--runner", "PortableRunner", "--environment_type", "EXTERNAL", "--environment_config", "here:50000"]
AT_ONCE = ["--job_server_timeout", "0"]


def environment(kind: str) -> list[str]:
    return ["--runner", "PortableRunner", "--environment_type", kind]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "WATCH_INTERVAL_S", -1.0)


def look(folder: Path, *flags: str, asked: bool = False) -> JobError | Failure | None:
    event = threading.Event()
    if asked:
        event.set()
    return JobWatch(str(folder / "failure"), PipelineOptions(list(flags)), event).look()


def test_no_worker_begins(tmp_path: Path) -> None:
    gave_up = str(look(tmp_path, *FLAGS, "--parallelism", "8", *AT_ONCE))
    assert gave_up.startswith("no worker has begun within 0 seconds; expected 8 free slots, as --parallelism asks")
    assert "workers at here:50000 that have apache-beam 2." in gave_up
    # The environment of workers is not said
    config = '{"command": "/opt/boot", "env": {"TOKEN": "secret"}}'
    gave_up = str(look(tmp_path, *environment("PROCESS"), "--environment_config", config, *AT_ONCE))
    assert "and workers that have apache-beam" in gave_up
    assert "TOKEN" not in gave_up


def test_a_job_that_may_take_its_time(tmp_path: Path) -> None:
    assert look(tmp_path, *FLAGS) is None  # a worker may take a minute
    assert look(tmp_path, *environment("DOCKER"), *AT_ONCE) is None  # and an image longer
    assert look(tmp_path, *environment("LOOPBACK"), *AT_ONCE, asked=True) is None  # the cluster has slots
    Path(f"{tmp_path}/failure{STARTED_SUFFIX}").touch()
    assert look(tmp_path, *FLAGS, *AT_ONCE) is None  # it has begun


def test_a_mistake_is_not_tried_again_and_a_fault_is(tmp_path: Path) -> None:
    path = str(tmp_path / "failure")
    Path(f"{path}{STARTED_SUFFIX}").touch()
    looking = JobWatch(path, PipelineOptions(FLAGS), threading.Event())
    write_failure(path, Failure("Read", "", "OSError: the store is away"))
    assert looking.look() is None
    write_failure(path, Failure("Layout", UserError.__name__, "no label"))
    assert looking.look() == Failure("Layout", "UserError", "no label")


OTHER_FLINK = (
    "java.io.InvalidClassException: org.apache.flink.api.common.Plan; local class incompatible: stream classdesc"
    " serialVersionUID = 1, local class serialVersionUID = 2"
)
NO_BUFFERS = "java.io.IOException: Insufficient number of network buffers: required 512, but only 9"


@pytest.mark.parametrize(
    ("of_flink", "setting"),
    [
        (NO_BUFFERS, "memory.network.max"),
        ("java.lang.OutOfMemoryError: Direct buffer memory. The direct", "memory.framework.off-heap.size"),
        ("java.lang.OutOfMemoryError: Metaspace. The", "memory.jvm-metaspace.size"),
        (OTHER_FLINK, "job server is for another version of Flink"),
        ("ModuleNotFoundError: No module named 'apache_beam'", "its workers have no Beam; let their image"),
        ("java.net.ConnectException: finishConnect(..) failed: Connection refused", "start a pool of workers at --env"),
        ("org.apache.flink.NoResourceAvailableException: Could not acquire", "taskmanager.numberOfTaskSlots"),
    ],
)
def test_what_flink_lacks_is_a_setting_of_it(of_flink: str, setting: str) -> None:
    check_remedy(of_flink, setting)


def check_remedy(of_flink: str, setting: str) -> None:
    said = f"Pipeline x failed in state FAILED: {of_flink}\n\tat org.apache.y(Z.java:1)"
    error = error_to_raise(RuntimeError(said), None)
    assert isinstance(error, JobError)
    assert setting in str(error)
    assert "java" not in str(error)


# A worker whose Python has no shardmill: without `site`, nothing adds the folder of an editable installation
_WORKER = """
import sys
sys.path += sys.argv[1:]
from apache_beam.internal import pickler
pickler.loads(sys.stdin.buffer.read())
"""


def test_a_worker_without_shardmill_has_a_remedy() -> None:
    step = pickler.dumps(ThreadedFlatMap(str.split))
    packages = list(dict.fromkeys(sysconfig.get_paths()[name] for name in ("purelib", "platlib")))
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    worker = subprocess.run(
        [sys.executable, "-S", "-c", _WORKER, *packages], input=step, env=environment, cwd="/", capture_output=True
    )
    said = worker.stderr.decode().splitlines()[-1]
    assert worker.returncode == 1
    check_remedy(
        f"RuntimeError: {said}", "its workers have no shardmill; let their image, or their pool's Python, have"
    )


class Waiting:
    """A job on a cluster that nobody works on: it ends when it is cancelled."""

    def __init__(self, is_interrupted: bool = False) -> None:
        self.is_interrupted, self.is_cancelled = is_interrupted, threading.Event()

    def run(self) -> "Waiting":
        return self

    def wait_until_finish(self) -> None:
        if self.is_interrupted:
            os.kill(os.getpid(), signal.SIGINT)
        assert self.is_cancelled.wait()

    def cancel(self) -> None:
        self.is_cancelled.set()


def test_a_job_without_workers_is_cancelled(tmp_path: Path) -> None:
    options = PipelineOptions([*FLAGS, "--job_server_timeout", "0"])
    path = str(tmp_path / "failure")
    job: Any = Waiting()
    with pytest.raises(JobError, match="no worker has begun within 0 seconds; expected 1 free slot,"):
        launch._run_with_progress(job, None, path, lambda: JobWatch(path, options, threading.Event()), options)
    assert job.is_cancelled.is_set()


@pytest.mark.parametrize(("environment", "ends"), [("LOOPBACK", True), ("EXTERNAL", False)])
def test_an_interrupt_cancels_a_job_whose_workers_are_here(tmp_path: Path, environment: str, ends: bool) -> None:
    options = PipelineOptions([*FLAGS[:2], "--environment_type", environment, "--environment_config", "here:50000"])
    path = str(tmp_path / "failure")
    job: Any = Waiting(is_interrupted=True)
    with pytest.raises(KeyboardInterrupt):
        launch._run_with_progress(job, None, path, lambda: JobWatch(path, options, threading.Event()), options)
    assert job.is_cancelled.is_set() is ends
    job.cancel()
