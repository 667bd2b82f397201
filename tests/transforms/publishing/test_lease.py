"""One job has a version directory, until it gives it up, ends, or has not been heard of for long."""

import json
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from shardmill.errors import LockedError
from shardmill.metadata import file_names
from shardmill.transforms.publishing import lease
from shardmill.transforms.publishing.lease import Owner
from shardmill.transforms.stores import local, storage
from tests.support.faults import in_child

pytestmark = pytest.mark.slow

ELSEWHERE = {"host": "web7", "boot": "another kernel"}


@pytest.fixture
def directory(tmp_path: Path) -> str:
    return str(tmp_path / "n" / "1.0.0")


def take(directory: str, job: str, seconds: float = lease.LEASE_SECONDS) -> lease.Lease:
    return lease.take_lease(directory, file_names.temporary_folder("n", job), job, seconds)


def write_lock(directory: str, age: float = 0, **changes: Any) -> Path:
    """A LOCK as another left it so many seconds ago."""
    os.makedirs(directory, exist_ok=True)
    owner = json.loads(Owner.this_process("theirs", lease.LEASE_SECONDS).to_json())
    path = Path(directory) / file_names.LOCK
    path.write_text(json.dumps({**owner, **changes}))
    os.utime(path, (time.time() - age,) * 2)
    return path


def test_one_at_a_time(directory: str) -> None:
    first = take(directory, "first")
    assert lease.is_lease_held(directory, "first")
    with pytest.raises(LockedError, match=rf"is being built by process {os.getpid()} of \S+ on \S+ since .*Z; nothing"):
        take(directory, "second")
    assert sorted(os.listdir(directory)) == [file_names.LOCK, "beam-temp-n-first"]
    first.release()
    first.release()
    assert os.listdir(directory) == []
    take(directory, "second").release()


def test_of_many_at_once_one_has_it(directory: str) -> None:
    """New, and as they come upon that of a dead process."""
    for _ in range(5):
        barrier = threading.Barrier(8)

        def attempt(number: int, barrier: threading.Barrier = barrier) -> lease.Lease | None:
            barrier.wait()
            try:
                return take(directory, f"job{number}")
            except LockedError:
                return None

        with ThreadPoolExecutor(8) as pool:
            (won,) = filter(None, pool.map(attempt, range(8)))
        assert sum(lease.is_lease_held(directory, f"job{number}") for number in range(8)) == 1
        won.leave()


def test_nobody_waits_for_a_process_that_was_killed(directory: str) -> None:
    def die() -> None:
        take(directory, "killed")
        os._exit(9)

    assert in_child(die) == 9
    assert lease.is_lease_held(directory, "killed")
    take(directory, "next").release()
    assert [name for name in os.listdir(directory) if name == file_names.LOCK] == []


@pytest.mark.parametrize(("age", "free"), [(0, False), (200, False), (400, True)])
@pytest.mark.parametrize("content", [ELSEWHERE, {"format": 7}, {"job": 3}, {"more": 1}])
def test_of_another_machine_only_its_time_is_known(
    directory: str, age: float, free: bool, content: dict[str, Any]
) -> None:
    path = write_lock(directory, age, **content)
    before = path.read_bytes()
    if free:
        take(directory, "mine").release()
        return
    with pytest.raises(LockedError, match="if it is dead, its lease ends 300 s after it was last renewed"):
        take(directory, "mine")
    assert path.read_bytes() == before
    assert os.listdir(directory) == [file_names.LOCK]


HOURS = 3600.0
DETACHED = {"detached": True, "seconds": lease.DETACHED_LEASE_SECONDS}


@pytest.mark.parametrize(
    ("lock", "file", "lives"), [(1, None, True), (7, None, False), (7, 5, True), (7, 7, False), (40, 1, True)]
)
def test_a_cluster_s_job_lives_as_long_as_it_writes(
    directory: str, lock: float, file: float | None, lives: bool
) -> None:
    """The hours since its launcher renewed LOCK, and since one of its workers wrote a file."""
    write_lock(directory, lock * HOURS, **DETACHED, **ELSEWHERE)
    run = Path(directory, file_names.temporary_folder("n", "theirs"), "runs", "1")
    other = Path(directory, file_names.temporary_folder("n", "another"), "runs", "1")
    for path, hours in ((run, file), (other, 0)):
        if hours is not None:
            path.parent.mkdir(parents=True)
            path.touch()
            os.utime(path, (time.time() - hours * HOURS,) * 2)

    assert lease.is_maybe_building(directory) == lives
    if not lives:
        take(directory, "mine").release()
        return
    with pytest.raises(LockedError, match="ends 6 h after the job last wrote anything; if it was cancelled, delete "):
        take(directory, "mine")
    assert lease.is_lease_held(directory, "theirs")


def test_a_cluster_s_job_outlives_its_launcher_until_it_has_published(directory: str) -> None:
    def die() -> None:
        lease.take_lease(directory, "beam-temp-n-far", "far", lease.DETACHED_LEASE_SECONDS, detached=True)
        lease.shorten_lease(directory, "far")  # whose launcher lives, and has the lock of the file
        os._exit(9)

    assert in_child(die) == 9
    assert lease.is_maybe_building(directory)
    with pytest.raises(LockedError, match="its job may go on without that process"):
        take(directory, "next")

    lease.shorten_lease(directory, "another")
    assert lease.is_maybe_building(directory)
    lease.shorten_lease(directory, "far")
    assert lease.is_lease_held(directory, "far")
    take(directory, "next").release()


def test_time_is_that_of_the_disk(directory: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """However wrong the clock of this machine goes."""
    write_lock(directory, 0, **ELSEWHERE)
    monkeypatch.setattr(time, "time", lambda: 4e9)
    with pytest.raises(LockedError, match="web7"):
        take(directory, "mine")


@pytest.mark.parametrize("jump", [-1e9, 0, 1e9], ids=["back", "none", "ahead"])
def test_a_living_process_keeps_it_whatever_the_clocks_say(
    directory: str, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    """Its file may have been written at a time long gone, or yet to come."""
    held = take(directory, "mine")
    os.utime(Path(directory) / file_names.LOCK, (time.time() + jump,) * 2)
    monkeypatch.setattr(time, "time", lambda: 4e9)
    assert lease.is_maybe_building(directory)
    with pytest.raises(LockedError, match=f"process {os.getpid()} of"):
        take(directory, "another")
    held.release()
    take(directory, "another").release()


def test_it_is_renewed(directory: str) -> None:
    held = take(directory, "mine", seconds=0.05)
    path = Path(directory) / file_names.LOCK
    before = path.stat().st_mtime_ns
    while path.stat().st_mtime_ns == before:
        time.sleep(0.005)
    held.leave()
    assert lease.is_lease_held(directory, "mine")


def test_what_was_taken_over_is_neither_renewed_nor_given_up(directory: str) -> None:
    held = take(directory, "mine", seconds=0.05)
    write_lock(directory, 1000, **ELSEWHERE)
    path = Path(directory) / file_names.LOCK
    before = path.stat().st_mtime_ns, path.read_bytes()
    time.sleep(0.1)
    held.release()
    assert (path.stat().st_mtime_ns, path.read_bytes()) == before
    with pytest.raises(LockedError, match=r"has lost the lease of .* to process .* on web7 since"):
        lease.check_lease(directory, "mine")


def test_it_waits_for_another_that_takes_over_from_a_dead_process(directory: str) -> None:
    held = storage.hold_lock(str(write_lock(directory, started="1")))
    threading.Timer(0.1, storage.release_lock, [held]).start()
    take(directory, "mine").release()


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b"\xff", b'{"format": 1}'])
def test_what_is_no_owner(text: bytes) -> None:
    assert Owner.from_json(text) is None


def test_a_process_is_known_by_more_than_its_number() -> None:
    mine = Owner.this_process("job", 1)
    assert Owner.from_json(mine.to_json().encode()) == mine
    assert mine.is_alive()
    ended = os.fork()
    if ended == 0:
        os._exit(0)
    os.waitid(os.P_PID, ended, os.WEXITED | os.WNOWAIT)
    changed = {"started": "1", "pid": ended, "processes": "pid:[1]", "boot": "other", "beat": 1}
    content = json.loads(mine.to_json())
    lives = {}
    for name, value in changed.items():
        owner = Owner.from_json(json.dumps({**content, name: value}).encode())
        assert owner is not None
        lives[name] = owner.is_alive()
    os.waitpid(ended, 0)
    assert lives == {"started": False, "pid": False, "processes": None, "boot": None, "beat": True}


@pytest.mark.parametrize(("module", "name"), [(local, "link"), (storage, "delete")])
def test_interrupted_as_it_is_taken_it_is_nobodys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str
) -> None:
    """By Ctrl-C behind the step that gives LOCK its name, or the one that clears up after that."""
    done = getattr(module, name)
    interrupted: list[bool] = []

    def step(*arguments: object) -> None:
        done(*arguments)
        if not interrupted:
            interrupted.append(True)
            raise KeyboardInterrupt

    monkeypatch.setattr(module, name, step)
    with pytest.raises(KeyboardInterrupt):
        lease.take_lease(str(tmp_path / "1.0.0"), "beam-temp-x", "job")
    assert lease.read_holder(str(tmp_path / "1.0.0")) is None
