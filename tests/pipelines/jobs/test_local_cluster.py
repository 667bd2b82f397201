"""Workers in the launcher, asked for by several TaskManagers, and the job server that a runner starts itself."""

import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from apache_beam.options.pipeline_options import PipelineOptions, PortableOptions
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc, endpoints_pb2
from apache_beam.runners.runner import create_runner

from shardmill.errors import UserError
from shardmill.pipelines.jobs.local_cluster import loopback_workers, own_job_server
from shardmill.pipelines.jobs.runner import WORKER_EXIT_TIMEOUT_S
from tests.support.command import Run, check_mistake, write_files
from tests.support.processes import is_there

FLAGS = ["--runner", "PortableRunner", "--job_endpoint", "localhost:1", "--environment_type", "LOOPBACK"]


class TaskManager(beam_fn_api_pb2_grpc.BeamFnControlServicer):
    """The side of a TaskManager: workers report to it; `ended` says when one has gone."""

    def __init__(self, pool: str) -> None:
        self.ended: queue.Queue[str] = queue.Queue()
        self.begun: queue.Queue[str] = queue.Queue()
        self._done: queue.Queue[None] = queue.Queue()
        self.server = grpc.server(ThreadPoolExecutor(4))
        beam_fn_api_pb2_grpc.add_BeamFnControlServicer_to_server(self, self.server)
        self._port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()
        self._channel = grpc.insecure_channel(pool, [("grpc.use_local_subchannel_pool", 1)])
        self.pool = beam_fn_api_pb2_grpc.BeamFnExternalWorkerPoolStub(self._channel)

    def Control(self, request_iterator: Any, context: Any) -> Iterator[Any]:
        """Give no work; wait for the worker to go, or for the end."""
        worker = dict(context.invocation_metadata())["worker_id"]
        self.begun.put(worker)
        for _ in request_iterator:
            pass
        self.ended.put(worker)
        return iter(())

    def start_worker(self, name: str) -> None:
        control = endpoints_pb2.ApiServiceDescriptor(url=f"127.0.0.1:{self._port}")
        request = beam_fn_api_pb2.StartWorkerRequest(worker_id=name, control_endpoint=control)
        assert self.pool.StartWorker(request).error == ""
        assert self.begun.get(timeout=60) == name

    def stop_worker(self, name: str) -> None:
        assert self.pool.StopWorker(beam_fn_api_pb2.StopWorkerRequest(worker_id=name)).error == ""

    def close(self) -> None:
        self._channel.close()
        self.server.stop(None).wait()


@contextmanager
def task_managers(pool: str) -> Iterator[tuple[TaskManager, TaskManager]]:
    both = (TaskManager(pool), TaskManager(pool))
    try:
        yield both
    finally:
        for one in both:
            one.close()


def test_a_task_manager_stops_its_own_worker_alone() -> None:
    options = PipelineOptions(FLAGS)
    asked = threading.Event()
    with loopback_workers(options, asked) as external:
        portable = external.view_as(PortableOptions)
        assert portable.environment_type == "EXTERNAL"
        assert portable.environment_config.startswith("127.0.0.1:")  # localhost: two
        with task_managers(portable.environment_config) as (one, other):
            assert not asked.is_set()
            one.start_worker("1-1")
            assert asked.is_set()
            other.start_worker("1-1")
            one.stop_worker("1-1")
            assert one.ended.get(timeout=60) == "1-1"
            assert other.ended.empty()
            one.stop_worker("1-1")  # has gone: nobody else's goes
            other.stop_worker("1-1")
            assert other.ended.get(timeout=60) == "1-1"
    assert options.view_as(PortableOptions).environment_type == "LOOPBACK"


def test_streams_that_a_cluster_keeps_open_are_not_waited_for() -> None:
    """Flink keeps them for a minute: each held the command's end up for ten seconds."""
    closed = threading.Event()
    reader = threading.Thread(target=closed.wait, name="read_grpc_client_inputs", daemon=True)
    reader.start()
    began = time.monotonic()
    with loopback_workers(PipelineOptions(FLAGS), threading.Event()):
        pass
    assert time.monotonic() - began < WORKER_EXIT_TIMEOUT_S
    assert reader.is_alive()
    closed.set()
    reader.join()


def test_other_workers_are_left_to_beam() -> None:
    for flags in ([*FLAGS[:-1], "DOCKER"], [*FLAGS, "--experiments", "use_loopback_process_worker"], []):
        options = PipelineOptions(flags)
        with loopback_workers(options, threading.Event()) as same:
            assert same is options


# A thread that fails says so in the midst of what a job says
pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")

# Serves at --job-port, and says with what words it was started, in which process
SERVER = """#!{python}
import os, sys, time
from concurrent.futures import ThreadPoolExecutor
import grpc
with open({said!r}, "w") as file:
    file.write("\\n".join([str(os.getpid()), *sys.argv[1:]]))
server = grpc.server(ThreadPoolExecutor(1))
server.add_insecure_port("localhost:" + sys.argv[sys.argv.index("--job-port") + 1])
server.start()
time.sleep(600)
"""
RUNNERS = [
    ("FlinkRunner", "flink", ["--flink_master", "host:8081"], ["--flink-master", "http://host:8081"]),
    ("SparkRunner", "spark", ["--spark_master_url", "spark://host:7077"], ["--spark-master-url", "spark://host:7077"]),
]


def options_of(folder: Path, runner: str, *words: str) -> PipelineOptions:
    """Of a job whose server's jar is there."""
    jar = write_files(folder, {"server.jar": b""}) / "server.jar"
    return PipelineOptions(["--runner", runner, f"--{runner[:5].lower()}_job_server_jar", str(jar), *words])


def java(folder: Path, program: str) -> list[str]:
    """What stands for Java."""
    path = folder / "java"
    path.write_text(program)
    path.chmod(0o755)
    return ["--job_server_java_launcher", str(path)]


@pytest.mark.parametrize(("name", "short", "given", "told"), RUNNERS)
@pytest.mark.parametrize("in_main_thread", [True, False])
def test_it_runs_while_the_job_does(
    tmp_path: Path, name: str, short: str, given: list[str], told: list[str], in_main_thread: bool
) -> None:
    said = tmp_path / "said"
    seen: list[Any] = []
    words = java(tmp_path, SERVER.format(python=sys.executable, said=str(said)))
    options = options_of(tmp_path, name, *given, *words)
    on_interrupt = signal.getsignal(signal.SIGINT)

    def start() -> None:
        runner = create_runner(name)
        with own_job_server(runner, options):
            pid, *arguments = said.read_text().split("\n")
            os.kill(int(pid), 0)
            one, other = (runner.default_job_server(options).start() for _ in range(2))
            seen.extend([pid, arguments, one is other])

    if in_main_thread:
        start()
    else:
        (thread := threading.Thread(target=start)).start()
        thread.join()
    pid, arguments, is_one = seen
    assert is_one
    assert arguments[arguments.index("-jar") :][:4] == ["-jar", str(tmp_path / "server.jar"), *told]
    assert signal.getsignal(signal.SIGINT) is on_interrupt
    while is_there(int(pid)):  # it was told to end
        time.sleep(0.05)


@pytest.mark.parametrize(
    "words", ["FlinkRunner --job_endpoint localhost:1", "FlinkRunner --flink_submit_uber_jar", "PrismRunner"]
)
def test_others_are_not_started(tmp_path: Path, words: str) -> None:
    name, *more = words.split()
    made = create_runner(name)
    with own_job_server(made, options_of(tmp_path, "FlinkRunner", *java(tmp_path, "#!/bin/sh\nexit 1\n"), *more)):
        assert "default_job_server" not in vars(made)


def test_what_a_server_that_does_not_start_says(tmp_path: Path) -> None:
    words = java(tmp_path, "#!/bin/sh\necho once\necho Invalid or corrupt jarfile\nexit 1\n")
    options = options_of(tmp_path, "FlinkRunner", *words)
    sentence = "^--runner FlinkRunner: its job server does not start: .*Invalid or corrupt jarfile$"
    with pytest.raises(UserError, match=sentence), own_job_server(create_runner("FlinkRunner"), options):
        pass


NO_JAR = 'there is no jar of its job server (Unable to parse jar URL "none.jar".'
NO_JAVA = "its job server does not start: [Errno 2] No such file or directory: 'no-such-java'"


@pytest.mark.parametrize(
    ("jar", "words", "sentence"),
    [("none.jar", [], NO_JAR), ("here.jar", ["--job_server_java_launcher", "no-such-java"], NO_JAVA)],
)
def test_a_job_that_has_no_server(run: Run, tmp_path: Path, jar: str, words: list[str], sentence: str) -> None:
    write_files(tmp_path, {"a.csv": b"a,b\n1,2\n", "here.jar": b""})
    given = tmp_path / jar if jar == "here.jar" else jar
    command = ["csv", "--input", tmp_path / "a.csv", "--output", tmp_path / "out", "--name", "n"]
    flink = ["--runner", "FlinkRunner", "--environment_type", "LOOPBACK", "--flink_job_server_jar", given]
    check_mistake(run(*command, *flink, *words), f"--runner FlinkRunner: {sentence}")
    assert not (tmp_path / "out").exists()
