"""Worker processes: when they start, what they return, and how they end."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.errors import JobError, UserError
from shardmill.transforms.execution import pool as pools
from shardmill.transforms.execution.pool import WorkerPool, offload, open_workers, worker_count
from shardmill.transforms.stores.beam_filesystems import process_options
from shardmill.transforms.stores.clients import using_options
from shardmill.transforms.workers.resources import BASE_BYTES, container_bytes, core_count, memory_budget

MODULES = (__name__,)
GIB = 1 << 30


def where(value: int) -> tuple[int, int]:
    time.sleep(0.05)  # so that calls overlap
    return value, os.getpid()


def refuse(value: int) -> None:
    raise UserError(f"--value {value}: expected less")


class _TwoPartsError(Exception):
    def __init__(self, one: str, other: str) -> None:
        super().__init__(f"{one} and {other}")


def fail_oddly(value: int) -> None:
    raise _TwoPartsError("one", str(value))


def kill_own_process(value: int) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def is_running(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize(
    ("requested", "cores", "memory", "count"),
    [
        pytest.param(0, 1, 64 * GIB, 1, id="one-core"),
        pytest.param(0, 2, 64 * GIB, 2, id="two-cores"),
        pytest.param(0, 64, 64 * GIB, 64, id="many-cores"),
        pytest.param(0, 64, 4 * GIB, 12, id="little-memory"),
        pytest.param(0, 64, GIB // 4, 1, id="hardly-any-memory"),
        pytest.param(1, 64, 64 * GIB, 1, id="none-requested"),
        pytest.param(5, 2, GIB, 5, id="more-requested-than-cores"),
    ],
)
def test_number_of_workers(requested: int, cores: int, memory: int, count: int) -> None:
    assert worker_count(requested, cores, memory) == count


def secret_of_stores() -> str | None:
    return process_options().get_all_options()["s3_secret_access_key"]


@pytest.fixture
def timeout_of_sockets() -> Iterator[None]:
    """A default of the process, as some libraries set it."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(5)
    yield
    socket.setdefaulttimeout(before)


def budget_bytes() -> int:
    return memory_budget().size_bytes


def test_more_processes_than_cores_share_the_memory() -> None:
    with open_workers(core_count() + 5, MODULES):
        assert offload(budget_bytes, 0.5)() == container_bytes() // (core_count() + 5) - BASE_BYTES


@pytest.mark.usefixtures("timeout_of_sockets")
def test_processes_from_their_start_to_their_end() -> None:
    secret = "-secret"  # which no command line could give
    with (
        using_options(PipelineOptions(s3_secret_access_key=secret)),
        open_workers(2, MODULES),
        ThreadPoolExecutor(2) as threads,
    ):
        pool = pools._pool
        assert pool is not None
        with pool._changed:
            assert pool._changed.wait_for(lambda: pool._ready or pool._failure is not None, 200)
        assert pool._failure is None
        found = list(threads.map(offload(where, 0.5), range(20)))
        pids = {pid for _, pid in found}
        assert [value for value, _ in found] == list(range(20))
        assert len(pids) == 2
        assert offload(secret_of_stores, 0.5)() == secret
        assert os.getpid() not in pids

        with pytest.raises(UserError, match=r"^--value 3: expected less$"):
            offload(refuse, 0.5)(3)
        with pytest.raises(RuntimeError, match=r"^_TwoPartsError: one and 3$"):  # which cannot be pickled
            offload(fail_oddly, 0.5)(3)
        assert offload(where, 0.5)(1)[1] in pids

        for _ in range(2):  # the second call finds no process killed, but a job that has failed
            with pytest.raises(JobError, match="a worker process ended before it answered"):
                offload(kill_own_process, 0.5)(1)
        assert any(map(is_running, pids))
    assert not any(map(is_running, pids))


@pytest.mark.parametrize(
    ("cores", "lock_share", "spent_s", "has_started"),
    [
        pytest.param(4, 0.5, 1e-9, True, id="enough-work"),
        pytest.param(4, 0.5, 3600, False, id="little-work"),
        pytest.param(2, 0.35, 1e-9, False, id="threads-use-all-cores"),
        pytest.param(3, 0.35, 1e-9, True, id="threads-do-not"),
        pytest.param(1, 1.0, 1e-9, False, id="one-core"),
    ],
)
def test_processes_that_the_job_chooses(
    monkeypatch: pytest.MonkeyPatch, cores: int, lock_share: float, spent_s: float, has_started: bool
) -> None:
    started = []
    monkeypatch.setattr(pools, "core_count", lambda: cores)
    monkeypatch.setattr(pools, "START_AFTER_S", spent_s)
    monkeypatch.setattr(WorkerPool, "_start", lambda pool: started.append(pool.count))
    with open_workers(0, MODULES):
        call = offload(where, lock_share)
        assert call(1) == (1, os.getpid())

    assert started == ([cores] if has_started else [])


def test_a_process_is_forked_only_if_no_thread_would_be_lost() -> None:
    ask = "import threading; from shardmill.transforms.execution.pool import _has_one_thread as has; print(has())\n"
    ask += "threading.Thread(target=threading.Event().wait, daemon=True).start(); print(has())"
    told = subprocess.check_output(
        [sys.executable, "-c", ask], env={**os.environ, "OPENBLAS_NUM_THREADS": "1"}, text=True
    )
    assert told == "True\nFalse\n"


def test_without_workers_a_function_is_its_own() -> None:
    with open_workers(1, MODULES):
        assert offload(where, 1.0) is where
    assert offload(where, 1.0) is where
