"""Real worker processes: they end with their launcher, however that ends, and say nothing of their own."""

import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from shardmill.pipelines.jobs.runner import WorkerProcesses
from shardmill.pipelines.jobs.worker import HOST
from tests.support.command import REPOSITORY, SOURCE, Process, image, write_files

PROGRESS = "n: "  # every ten seconds where stderr is no terminal
SAID = "shardmill: interrupted; nothing was published"
# Runs as each Python starts: in worker processes, for the launcher has started. A worker hangs as it imports Beam, or
# at its first rename, with a lock that the system takes back when it has ended, by whatever.
HANGS = """
import fcntl, os, sys, threading

def hang(*_, **__):
    lock = open(os.environ["SIGN"] + ".lock", "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    with open(os.environ["SIGN"], "w") as sign:
        sign.write(str(os.getpid()))
    threading.Event().wait()

class HangingFinder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "apache_beam.runners.worker.sdk_worker_main":
            hang()

if os.environ["MOMENT"] == "starting":
    sys.meta_path.insert(0, HangingFinder)
os.replace = hang
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    return write_files(folder / "in", {f"{'ab'[n % 2]}/{n}.png": image(n, "PNG") for n in range(6)})


def flags(source: Path, output: Path) -> tuple[object, ...]:
    where = ("images", "--input", source, "--output", output, "--name", "n", "--num_shards", "2")
    return (*where, "--direct_running_mode", "multi_processing")


def lead(folder: Path, moment: str) -> None:
    """Let the workers of this process hang, and lack Google's clients."""
    lacking = b"raise ImportError('as where it is not installed')"
    write_files(folder, {"path/sitecustomize.py": HANGS.encode(), "path/apitools/__init__.py": lacking})
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder / "path"), str(SOURCE)])
    os.environ["MOMENT"] = moment
    os.environ["SIGN"] = str(folder / "sign")


@pytest.fixture
def hanging(source: Path, tmp_path: Path, moment: str) -> Iterator[Process]:
    """A command whose worker hangs; whatever is left of that is killed."""
    process = Process(tmp_path / "process", *flags(source, tmp_path / "out"), before=partial(lead, tmp_path, moment))
    sign = tmp_path / "sign"
    while process.is_alive() and not (sign.exists() and sign.read_text()):
        time.sleep(0.01)
    yield process
    if is_locked(tmp_path):
        os.kill(int(sign.read_text()), signal.SIGKILL)


def is_locked(folder: Path) -> bool:
    """Whether the worker that hangs is alive."""
    with open(folder / "sign.lock") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@pytest.mark.parametrize("moment", ["publishing"])
def test_interrupted_alone_it_has_ended_them_and_they_say_nothing(tmp_path: Path, hanging: Process) -> None:
    assert is_locked(tmp_path)
    hanging.send_signal(signal.SIGTERM)  # to the launcher, not to its group

    result = hanging.result()
    assert not is_locked(tmp_path)
    assert result.status == 143
    assert [line for line in result.err.splitlines() if not line.startswith(PROGRESS)] == [SAID], result.err
    assert not list((tmp_path / "out" / "n" / "1.0.0").glob("*"))


@pytest.mark.parametrize("moment", ["starting"])  # a worker that Beam has begun to talk to ends for want of that
def test_killed_alone_it_takes_them_with_it(tmp_path: Path, hanging: Process) -> None:
    hanging.send_signal(signal.SIGKILL)

    assert hanging.result().status == -signal.SIGKILL
    end = time.monotonic() + 20  # which passes only where they stay
    while is_locked(tmp_path) and time.monotonic() < end:
        time.sleep(0.01)
    assert not is_locked(tmp_path)


def test_one_without_a_launcher_ends_at_once() -> None:
    with socket.create_server((HOST, 0)) as server:
        port = server.getsockname()[1]
    done = subprocess.run(
        [sys.executable, "-m", "shardmill.pipelines.jobs.worker", str(port)], cwd=REPOSITORY, timeout=300
    )

    assert done.returncode == 0  # Beam's would fail: it is not told of any job


def test_those_that_have_ended_are_not_waited_for() -> None:
    with WorkerProcesses() as workers:
        port = int(workers.command.split()[-1])
        socket.create_connection((HOST, port)).close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection((HOST, port))
