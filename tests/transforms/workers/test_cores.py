"""As many threads as a process has cores: those it is bound to, and no more than its container's quota."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from shardmill.transforms.workers.resources import core_count
from shardmill.transforms.workers.running import ThreadedFlatMap
from tests.support.command import write_files

NO_LIMIT = {"cpu.max": b"max 100000\n"}


def asked(folder: Path, own: str, files: dict[str, bytes]) -> int:
    write_files(folder, {"own": own.encode(), **{f"cgroup/{name}": data for name, data in files.items()}})
    return core_count(folder / "cgroup", folder / "own")


@pytest.fixture(autouse=True)
def bound_to_eight(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)), raising=False)


@pytest.mark.parametrize(
    ("own", "files", "expected"),
    [
        ("0::/\n", {"cpu.max": b"300000 100000\n"}, 3),  # a container of its own
        ("0::/\n", {"cpu.max": b"50000 100000\n"}, 1),  # half a core
        ("0::/\n", {"cpu.max": b"150000 100000\n"}, 2),
        ("0::/\n", NO_LIMIT, 8),
        ("0::/\n", {"cpu.max": b"6400000 100000\n"}, 8),  # more than there are
        ("0::/pod/main\n", {"pod/cpu.max": b"200000 100000", "pod/main/cpu.max": b"max 100000"}, 2),  # of the pod
        ("0::/pod/main\n", {"cpu.max": b"400000 100000"}, 4),  # its own folder is mounted in place of all
        ("4:cpu,cpuacct:/docker/1\n", {"cpu,cpuacct/docker/1/cpu.cfs_quota_us": b"200000\n"}, 8),  # without a period
        (
            "12:memory:/docker/1\n4:cpu,cpuacct:/docker/1\n0::/\n",
            {
                "cpu,cpuacct/docker/1/cpu.cfs_quota_us": b"200000\n",
                "cpu,cpuacct/docker/1/cpu.cfs_period_us": b"100000\n",
            },
            2,
        ),
        ("1:cpu:/\n", {"cpu/cpu.cfs_quota_us": b"-1\n", "cpu/cpu.cfs_period_us": b"100000\n"}, 8),
        ("", {}, 8),
    ],
)
def test_the_least_limit_counts(tmp_path: Path, own: str, files: dict[str, bytes], expected: int) -> None:
    assert asked(tmp_path, own, files) == expected


def test_threads_are_as_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardmill.transforms.workers.running.core_count", lambda: 3)
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
