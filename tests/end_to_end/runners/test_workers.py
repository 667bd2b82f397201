"""--workers: the bytes do not depend on it, a killed process publishes nothing, and none outlives its job."""

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from shardmill.transforms.execution import pool as pools
from shardmill.transforms.execution.pool import WorkerPool
from tests.support.command import Process, Run, image_tree, write_files
from tests.support.golden_cases import digests_in
from tests.support.processes import is_there

pytestmark = pytest.mark.slow
# A worker process is forked from the launcher, or one whose program was given by -c
MODULE = """
import multiprocessing, os, re, signal, sys, time

is_worker = bool(multiprocessing.parent_process()) or sys.argv[0] == "-c" or sys.argv[0].endswith("worker.py")

def kill(row):
    if is_worker:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.02)
    return row

def hold(row):
    if is_worker:
        open(f"FOLDER/pid-{os.getpid()}", "w").close()
        re.match("(a|aa)+$", "a" * 60 + "b")  # keeps Python's lock for years
    time.sleep(0.02)
    return row

def wait(row):
    if is_worker:
        open(f"FOLDER/pid-{os.getpid()}", "w").close()
        time.sleep(600)
    time.sleep(0.02)
    return row
"""


def test_any_number_of_workers_writes_the_same_bytes(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    started, calls = list[int](), list[int]()
    start, call = WorkerPool._start, pools._Worker.call

    def start_and_wait(pool: WorkerPool) -> None:
        started.append(pool.count)
        start(pool)
        with pool._changed:
            assert pool._changed.wait_for(lambda: pool._ready, 200)

    def count_call(*words: Any) -> Any:
        calls.append(len(started))
        return call(*words)

    monkeypatch.setattr(WorkerPool, "_start", start_and_wait)
    monkeypatch.setattr(pools._Worker, "call", count_call)
    monkeypatch.setattr(pools, "core_count", lambda: 3)
    monkeypatch.setattr(pools, "START_AFTER_S", 1e-9)
    images = write_files(tmp_path / "images", image_tree(("cat", "dog"), 80))
    (tmp_path / "rows.csv").write_text("n,word\n" + "".join(f"{n},w{n % 3}\n" for n in range(4000)))
    (tmp_path / "user.py").write_text("def double(row):\n    return {**row, 'n': 2 * row['n']}\n")
    resize = ("--folders", "label", "--resize", "6x6", "--splits", "train=0.8,test=0.2")
    double = ("--map", f"{tmp_path}/user.py:double", "--block_size", "1KiB")
    commands = {
        "resized": ("images", "--input", images, *resize),
        "mapped": ("csv", "--input", tmp_path / "rows.csv", *double),
    }
    one_thread = ("--threads", "1")  # others would go on in the launcher while it waits for the processes
    for name, command in commands.items():
        started.clear()
        calls.clear()
        found = []
        for workers in ("1", "2", "auto"):
            output = tmp_path / name / workers
            assert run(*command, "--output", output, "--name", "n", "--workers", workers, *one_thread).status == 0
            found.append(digests_in(output))

        assert found[1:] == found[:1] * 2, name
        assert started == [2, 3], name
        assert set(calls) == {1, 2}, name  # processes of both jobs were called


def make_command(folder: Path, function: str, *more: str) -> tuple[object, ...]:
    (folder / "user.py").write_text(MODULE.replace("FOLDER", str(folder)))
    (folder / "rows.csv").write_text("n\n" + "".join(f"{n}\n" for n in range(8000)))
    words = ("csv", "--input", folder / "rows.csv", "--map", f"{folder}/user.py:{function}", "--block_size", "1KiB")
    return (*words, "--output", folder / "out", "--name", "n", *(more or ("--workers", "2")))


def test_a_killed_worker_fails_the_job(tmp_path: Path) -> None:
    result = Process(tmp_path / "process", *make_command(tmp_path, "kill")).result()

    assert result.status == 1
    assert result.err.count("\n") == 1
    assert "a worker process ended before it answered: it was killed" in result.err
    assert not (tmp_path / "out/n/LATEST").exists()
    assert not list(tmp_path.glob("out/n/1.0.0/*"))


_BEAMS = ("--direct_running_mode", "multi_processing", "--direct_num_workers", "2")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize(("function", "more"), [("wait", ()), ("hold", ()), ("hold", _BEAMS)])
def test_no_worker_outlives_the_job(tmp_path: Path, function: str, more: tuple[str, ...], number: int) -> None:
    process = Process(tmp_path / "process", *make_command(tmp_path, function, *more))
    while not (found := list(tmp_path.glob("pid-*"))):
        assert process.is_alive(), process.result()
        time.sleep(0.05)
    process.send_signal(number)
    result = process.result()

    assert result.status == {signal.SIGINT: 130, signal.SIGTERM: 143}.get(signal.Signals(number), -number)
    time.sleep(1)
    assert not [path.name for path in found if is_there(int(path.name.removeprefix("pid-")))]
