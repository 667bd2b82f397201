"""What a launcher sees of a job on a cluster, and when it gives up."""

import os
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.errors import JobError, UserError
from shardmill.pipelines.jobs import launch
from shardmill.pipelines.jobs.launch import JobWatch, error_to_raise
from shardmill.transforms.workers.running import Failure, started_path, write_failure

FLAGS = ["--runner", "PortableRunner", "--environment_type", "EXTERNAL", "--environment_config", "here:50000"]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch, "_WATCH_INTERVAL_S", -1.0)


def test_no_worker_begins(tmp_path: Path) -> None:
    flags = [*FLAGS, "--parallelism", "8", "--job_server_timeout", "0"]
    gave_up = JobWatch(str(tmp_path / "failure"), PipelineOptions(flags), threading.Event()).look()
    assert isinstance(gave_up, JobError)
    assert str(gave_up).startswith("no worker has begun within 0 seconds; expected 8 free slots, as --parallelism asks")
    assert "workers at here:50000 that have apache-beam 2." in str(gave_up)


def test_the_environment_of_workers_is_not_said(tmp_path: Path) -> None:
    config = '{"command": "/opt/boot", "env": {"TOKEN": "secret"}}'
    process = ["--environment_type", "PROCESS", "--environment_config", config, "--job_server_timeout", "0"]
    gave_up = JobWatch(str(tmp_path / "failure"), PipelineOptions([*FLAGS[:2], *process]), threading.Event()).look()
    assert isinstance(gave_up, JobError)
    assert "and workers that have apache-beam" in str(gave_up)
    assert "TOKEN" not in str(gave_up)


def test_a_worker_may_take_a_minute_and_an_image_longer(tmp_path: Path) -> None:
    path = str(tmp_path / "failure")
    assert JobWatch(path, PipelineOptions(FLAGS), threading.Event()).look() is None
    docker = ["--runner", "PortableRunner", "--environment_type", "DOCKER", "--job_server_timeout", "0"]
    assert JobWatch(path, PipelineOptions(docker), threading.Event()).look() is None


def test_a_job_that_has_begun_may_take_its_time(tmp_path: Path) -> None:
    path = str(tmp_path / "failure")
    Path(started_path(path)).touch()
    assert JobWatch(path, PipelineOptions([*FLAGS, "--job_server_timeout", "0"]), threading.Event()).look() is None


def test_a_cluster_that_has_asked_for_a_worker_has_slots(tmp_path: Path) -> None:
    asked = threading.Event()
    asked.set()
    loopback = [*FLAGS[:2], "--environment_type", "LOOPBACK", "--job_server_timeout", "0"]
    assert JobWatch(str(tmp_path / "failure"), PipelineOptions(loopback), asked).look() is None


def test_a_mistake_is_not_tried_again_and_a_fault_is(tmp_path: Path) -> None:
    path = str(tmp_path / "failure")
    Path(started_path(path)).touch()
    looking = JobWatch(path, PipelineOptions(FLAGS), threading.Event())
    write_failure(path, Failure("Read", "", "OSError: the store is away"))
    assert looking.look() is None
    write_failure(path, Failure("Layout", UserError.__name__, "no label"))
    assert looking.look() == Failure("Layout", "UserError", "no label")


@pytest.mark.parametrize(
    ("of_flink", "setting"),
    [
        ("java.io.IOException: Insufficient number of network buffers: required 512, but only 9", "memory.network.max"),
        ("java.lang.OutOfMemoryError: Direct buffer memory. The direct", "memory.framework.off-heap.size"),
        ("java.lang.OutOfMemoryError: Metaspace. The", "memory.jvm-metaspace.size"),
        (
            "java.io.InvalidClassException: org.apache.flink.api.common.Plan; local class incompatible: stream"
            " classdesc serialVersionUID = 1, local class serialVersionUID = 2",
            "job server is for another version of Flink",
        ),
        ("RuntimeError: ModuleNotFoundError: No module named 'transforms'", "its workers have no shardmill"),
        ("ModuleNotFoundError: No module named 'apache_beam'", "its workers have no Beam; let their image"),
        ("java.net.ConnectException: finishConnect(..) failed: Connection refused", "start a pool of workers at --env"),
        ("org.apache.flink.NoResourceAvailableException: Could not acquire", "taskmanager.numberOfTaskSlots"),
    ],
)
def test_what_flink_lacks_is_a_setting_of_it(of_flink: str, setting: str) -> None:
    error = error_to_raise(
        RuntimeError(f"Pipeline x failed in state FAILED: {of_flink}\n\tat org.apache.y(Z.java:1)"), None
    )
    assert isinstance(error, JobError)
    assert setting in str(error)
    assert "java" not in str(error)


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
    with pytest.raises(JobError, match="no worker has begun within 0 seconds"):
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
