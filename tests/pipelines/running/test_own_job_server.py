"""The job server that a runner starts itself: of a jar, by Java, of which a program of ours has the place."""

import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.runners.runner import create_runner

from shardmill.errors import UserError
from shardmill.pipelines.jobs.local_cluster import own_job_server
from tests.support.command import Run, check_mistake, write_files
from tests.support.processes import is_there

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
    ("runner", "more"),
    [
        ("FlinkRunner", ["--job_endpoint", "localhost:1"]),
        ("FlinkRunner", ["--flink_submit_uber_jar"]),
        ("PrismRunner", []),
    ],
)
def test_others_are_not_started(tmp_path: Path, runner: str, more: list[str]) -> None:
    made = create_runner(runner)
    with own_job_server(made, options_of(tmp_path, "FlinkRunner", *java(tmp_path, "#!/bin/sh\nexit 1\n"), *more)):
        assert "default_job_server" not in vars(made)


def test_what_a_server_that_does_not_start_says(tmp_path: Path) -> None:
    words = java(tmp_path, "#!/bin/sh\necho once\necho Invalid or corrupt jarfile\nexit 1\n")
    options = options_of(tmp_path, "FlinkRunner", *words)
    sentence = "^--runner FlinkRunner: its job server does not start: .*Invalid or corrupt jarfile$"
    with pytest.raises(UserError, match=sentence), own_job_server(create_runner("FlinkRunner"), options):
        pass


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ["--flink_job_server_jar", "none.jar"],
            '--runner FlinkRunner: there is no jar of its job server (Unable to parse jar URL "none.jar".',
        ),
        (
            ["--flink_job_server_jar", "{here}", "--job_server_java_launcher", "no-such-java"],
            "--runner FlinkRunner: its job server does not start: [Errno 2] No such file or directory: 'no-such-java'",
        ),
    ],
)
def test_a_job_that_has_no_server(run: Run, tmp_path: Path, words: list[str], sentence: str) -> None:
    write_files(tmp_path, {"a.csv": b"a,b\n1,2\n", "here.jar": b""})
    given = [word.format(here=tmp_path / "here.jar") for word in words]
    command = ["csv", "--input", tmp_path / "a.csv", "--output", tmp_path / "out", "--name", "n"]
    result = run(*command, "--runner", "FlinkRunner", "--environment_type", "LOOPBACK", *given)
    check_mistake(result, sentence)
    assert not (tmp_path / "out").exists()
