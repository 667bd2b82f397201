"""Tests of transforms/workers/resources.py."""

import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardmill.transforms.execution.running import ThreadedFlatMap
from shardmill.transforms.workers import resources
from shardmill.transforms.workers.resources import Budget, Spool, container_bytes, core_count
from tests.support.command import Run, npy, open_files, write_files


def held_at_most(size_bytes: int, takes: list[int]) -> tuple[int, int]:
    """The most bytes, and the most threads, that held some at once; `takes` as they were asked for."""
    budget, lock = Budget(size_bytes), threading.Lock()
    now: list[int] = []
    most = [0, 0]

    def hold(wanted: int) -> None:
        with budget.take(wanted):
            with lock:
                now.append(wanted)
                most[:] = max(most[0], sum(now)), max(most[1], len(now))
            threading.Event().wait(0.002)
            with lock:
                now.remove(wanted)

    threads = [threading.Thread(target=hold, args=(wanted,)) for wanted in takes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return most[0], most[1]


def test_no_more_is_held_than_there_is() -> None:
    most, threads = held_at_most(100, [7, 30, 60, 100, 1] * 20)
    assert 30 < most <= 100
    assert threads > 1


def test_what_is_more_than_all_is_held_alone() -> None:
    most, threads = held_at_most(10, [1000] * 5)
    assert (most, threads) == (1000, 1)


def test_whoever_asks_for_much_is_not_passed_by() -> None:
    budget = Budget(10)
    order: list[int] = []

    def hold(wanted: int) -> None:
        with budget.take(wanted):
            order.append(wanted)

    with budget.take(6):
        threads = [threading.Thread(target=hold, args=(wanted,)) for wanted in (10, 1)]  # the second would fit
        for number, thread in enumerate(threads):
            thread.start()
            while len(budget._waiting) <= number and not order:
                threading.Event().wait(0.001)
        assert order == []
    for thread in threads:
        thread.join()
    assert order == [10, 1]


def test_it_is_given_back_where_work_fails() -> None:
    budget = Budget(10)
    for _ in range(3):
        with pytest.raises(OSError, match="full"), budget.take(10):
            raise OSError("full")
    with budget.take(10):
        pass


def test_none_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="expected some"):
        Budget(0)


MACHINE = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


DOCKER = {"cpu,cpuacct/docker/1/cpu.cfs_quota_us": b"200000\n", "cpu,cpuacct/docker/1/cpu.cfs_period_us": b"100000\n"}
NO_QUOTA = {"cpu/cpu.cfs_quota_us": b"-1\n", "cpu/cpu.cfs_period_us": b"100000\n"}


@pytest.mark.parametrize(
    ("limit", "own", "files", "expected"),
    [
        (container_bytes, "0::/\n", {"memory.max": b"1048576\n"}, 1 << 20),  # a container of its own
        (container_bytes, "0::/\n", {"memory.max": b"max\n"}, MACHINE),
        # of the pod
        (container_bytes, "0::/pod/main\n", {"pod/memory.max": b"2097152", "pod/main/memory.max": b"max"}, 2 << 20),
        (container_bytes, "0::/pod/main\n", {"memory.max": b"4096"}, 4096),  # its own folder is mounted in place of all
        (
            *(container_bytes, "9:memory:/docker/1\n0::/\n"),
            *({"memory/docker/1/memory.limit_in_bytes": b"3145728\n"}, 3 << 20),
        ),
        # none, in version 1
        (container_bytes, "9:memory:/\n", {"memory/memory.limit_in_bytes": b"9223372036854771712\n"}, MACHINE),
        # of another controller
        (container_bytes, "4:cpu:/\n", {"memory/memory.limit_in_bytes": b"4096\n"}, MACHINE),
        (container_bytes, "", {}, MACHINE),
        (core_count, "0::/\n", {"cpu.max": b"300000 100000\n"}, 3),  # a container of its own
        (core_count, "0::/\n", {"cpu.max": b"50000 100000\n"}, 1),  # half a core
        (core_count, "0::/\n", {"cpu.max": b"150000 100000\n"}, 2),
        (core_count, "0::/\n", {"cpu.max": b"max 100000\n"}, 8),
        (core_count, "0::/\n", {"cpu.max": b"6400000 100000\n"}, 8),  # more than there are
        # of the pod
        (core_count, "0::/pod/main\n", {"pod/cpu.max": b"200000 100000", "pod/main/cpu.max": b"max 100000"}, 2),
        (core_count, "0::/pod/main\n", {"cpu.max": b"400000 100000"}, 4),  # its own folder is mounted in place of all
        # without a period
        (core_count, "4:cpu,cpuacct:/docker/1\n", {"cpu,cpuacct/docker/1/cpu.cfs_quota_us": b"200000\n"}, 8),
        (core_count, "12:memory:/docker/1\n4:cpu,cpuacct:/docker/1\n0::/\n", DOCKER, 2),
        (core_count, "1:cpu:/\n", NO_QUOTA, 8),
        (core_count, "", {}, 8),
    ],
)
def test_the_least_limit_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: Any, own: str, files: dict[str, bytes], expected: int
) -> None:
    """Of the memory of a container, and of the cores of a process that is bound to eight."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)
    write_files(tmp_path, {"own": own.encode(), **{f"cgroup/{name}": data for name, data in files.items()}})
    monkeypatch.setattr(resources, "CGROUPS", tmp_path / "cgroup")
    monkeypatch.setattr(resources, "PROCESS_CGROUPS", tmp_path / "own")
    assert limit.__wrapped__() == expected


def test_threads_are_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardmill.transforms.execution.running.core_count", lambda: 3)
    mapped = ThreadedFlatMap(lambda item: [item])
    mapped.setup()
    assert mapped._threads == 3
    mapped.teardown()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux binds processes to cores")
def test_a_process_that_is_bound_to_one_core_has_one() -> None:
    script = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    script += "from shardmill.transforms.workers.resources import core_count; print(core_count())"
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert said.stdout == "1\n"


@pytest.mark.parametrize(
    ("command", "more"), [("csv", ("--block_size", "1MiB")), ("arrays", ()), ("arrays", ("--reuse", "record"))]
)
def test_a_job_keeps_to_what_it_is_given(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    more: tuple[str, ...],
    arrays_of_a_mebibyte: Path,
) -> None:
    """Four threads go on at once where there is room for their blocks, and in turns where there is none."""
    source = arrays_of_a_mebibyte if command == "arrays" else tmp_path / "in"
    write_files(tmp_path / "in", {f"{n}.csv": b"x,y\n" + b"1,2\n" * 50 for n in range(12)})
    monkeypatch.setattr(resources, "LEAST_BYTES", 4 << 20)
    take = Budget.take
    held: list[int] = []

    @contextmanager
    def counted(budget: Budget, size_bytes: int) -> Iterator[None]:
        with take(budget, size_bytes):
            held.append(min(size_bytes, budget.size_bytes))
            most.append(sum(held))
            time.sleep(0.01)
            yield
            held.remove(min(size_bytes, budget.size_bytes))

    monkeypatch.setattr(Budget, "take", counted)
    found = []
    for number, given in enumerate(("1KiB", "8GiB")):
        most: list[int] = []
        words = ("--input", source, "--output", tmp_path / str(number), "--name", "n", "--num_shards", 2)
        result = run(command, *words, *more, "--threads", 4, "--worker_memory", given)
        assert result.status == 0, result.err
        found.append(max(most))
    assert found[0] <= 4 << 20 < found[1], found


@pytest.fixture
def arrays_of_a_mebibyte(tmp_path: Path) -> Path:
    return write_files(tmp_path / "arrays", {f"{n}.npy": npy(np.zeros(1 << 18, np.float32)) for n in range(12)})


def test_a_spool_leaves_no_file_and_closes_with_its_last_reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    spool = Spool()
    spool.write(0, b"abc")
    assert list(tmp_path.iterdir()) == []
    assert open_files(tmp_path) == 1
    with pytest.raises(EOFError):
        spool.read_into(1, memoryview(bytearray(3)))
    del spool
    gc.collect()
    assert open_files(tmp_path) == 0


@pytest.mark.parametrize("most", [1, 2, 3, 100])
def test_what_was_written_comes_in_chunks(most: int) -> None:
    spool = Spool()
    spool.write(0, b"abcdefg")
    assert b"".join(spool.chunks(1, 5, most)) == b"bcdef"
    assert max(map(len, spool.chunks(1, 5, most))) <= most
    assert list(spool.chunks(7, 0, most)) == []
