"""Which versions go: both min_versions and max_age must allow it, and nothing may name or build them."""

import shutil
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest

from shardmill.addons.nightly.recipe import RetainOptions
from shardmill.addons.nightly.retention import find_deletable_versions, retain
from shardmill.errors import JobError, UserError
from shardmill.pipelines.commands.pointers import rollback, set_tag
from shardmill.reading.dataset import open_dataset
from shardmill.transforms.publishing import lease
from shardmill.transforms.publishing.catalog import VersionState, find_damage
from shardmill.transforms.stores import storage
from shardmill.transforms.stores import storage as conditional
from tests.addons.nightly.retained import CASES, check_retained
from tests.support.buckets import Disk
from tests.support.command import write_files
from tests.support.faults import fail, faulty, in_child, kill
from tests.support.small_data_set import make_version

pytestmark = pytest.mark.slow

DAY = 86_400.0
OPTIONS, FOUR = (RetainOptions(min_versions=number, max_age=DAY) for number in (1, 4))
LEFT = ["1.0.1", "1.0.2", "1.0.3", "1.0.4"]  # what FOUR leaves


def days(*ages: float) -> list[VersionState]:
    """Published versions 1.0.<index>, so many days old."""
    return [VersionState(f"1.0.{index}", True, (1000 - age) * DAY) for index, age in enumerate(ages)]


@pytest.mark.parametrize(
    ("states", "min_versions", "max_age", "named", "gone"),
    [
        (days(), 1, 1, [], []),
        (days(0), 1, 0, [], []),
        (days(90, 60, 40, 20, 0), 1, 30, [], [0, 1, 2]),
        (days(90, 60, 40, 20, 0), 4, 30, [], [0]),  # min_versions forbids
        (days(90, 60, 40, 20, 0), 1, 70, [], [0]),  # max_age forbids
        (days(90, 60, 40, 20, 0), 5, 0, [], []),
        (days(20, 0, 0), 1, 0, [], [0, 1]),  # all but the newest
        (days(90, 60, 40, 20, 0), 1, 90, [], []),  # exactly as old
        (days(90, 60, 40, 20, 0), 1, 30, ["1.0.1"], [0, 2]),
        (days(0, 60, 40, 20, 90), 1, 30, [], [1, 2]),  # the first, a backfill, is young, and the last is the newest
        (days(900, 860, 840), 1, 30, [], [0]),  # ages are those at the newest publication
    ],
)
def test_both_must_allow_it(
    states: list[VersionState], min_versions: int, max_age: float, named: list[str], gone: list[int]
) -> None:
    for order in (states, states[::-1]):
        found = find_deletable_versions(order, named, min_versions, max_age * DAY)
        assert [state.version for state in found] == [f"1.0.{index}" for index in gone]


def test_versions_are_ordered_by_their_numbers_and_what_a_deletion_left_is_none_of_those_that_stay() -> None:
    states = [VersionState(version, True, 0.0) for version in ("1.0.9", "1.0.10", "1.10.0", "1.9.0")]
    states.append(VersionState("2.0.0", True, 9 * DAY))
    left = VersionState("1.0.5", False, 0.0)

    assert [state.version for state in find_deletable_versions(states, [], 2, DAY)] == ["1.0.9", "1.0.10", "1.9.0"]
    assert find_deletable_versions([*days(90, 60, 0), left], [], 2, 30 * DAY) == [days(90)[0], left]
    assert find_deletable_versions([*days(90, 60, 0), left], ["1.0.5"], 3, 30 * DAY) == []


@pytest.fixture
def parent(tmp_path: Path) -> Path:
    """Five versions of 0 to 40 days; the tag `good` names the second oldest."""
    for index in range(5):
        make_version(tmp_path / "n", f"1.0.{index}", latest=True, age=(4 - index) * 10 * DAY)
    write_files(tmp_path / "n", {"TAGS/good": b"1.0.1\n"})
    return tmp_path / "n"


def kept(parent: Path) -> list[str]:
    return sorted(path.name for path in parent.iterdir() if path.name.startswith("1."))


@pytest.mark.parametrize("is_publishing", [True, False])
def test_an_interrupted_publication_keeps_what_completes_it(parent: Path, is_publishing: bool) -> None:
    owner = lease.Owner.this_process("0123", 60.0)  # which has no lock on the file: the job has ended
    files = {"manifest.json": b"{}", "beam-temp-n-0123/shard": b"x", "LOCK": owner.to_json().encode()}
    write_files(parent / "1.0.5", files | ({"_PUBLISHING": b"{}"} if is_publishing else {}))
    retain(str(parent), RetainOptions())

    assert (parent / "1.0.5/beam-temp-n-0123/shard").exists() is is_publishing


@pytest.mark.parametrize("case", CASES)
def test_what_goes_and_what_stays(tmp_path: Path, case: str) -> None:
    """On a disk as on object stores (tests/end_to_end/stores/test_versions.py)."""
    check_retained(Disk(tmp_path), CASES[case])


@pytest.mark.parametrize(
    ("name", "content"), [("TAGS/odd", b"whatever\n"), ("TAGS/odd", b""), ("LATEST", b"\xff\xfe"), ("LATEST", b"1.0")]
)
def test_nothing_goes_while_nobody_knows_what_is_named(parent: Path, name: str, content: bytes) -> None:
    write_files(parent, {name: content})
    (sentence,) = retain(str(parent), OPTIONS)

    assert len(kept(parent)) == 5
    assert sentence.startswith(f"{name} names")
    assert "nothing is deleted" in sentence


def test_nothing_goes_while_another_build_may_read_it(parent: Path) -> None:
    with lease.hold_lease(str(parent / "1.0.5"), "beam-temp-n-0123", "0123"):
        (said,) = retain(str(parent), OPTIONS)
    assert said.startswith("1.0.5 is being built")
    assert len(kept(parent)) == 6

    assert len(retain(str(parent), OPTIONS)) == 3
    assert kept(parent) == ["1.0.1", "1.0.4"]


def test_wherever_it_is_killed_the_next_leaves_nothing(parent: Path, tmp_path: Path) -> None:
    """Not even a folder with a lease in it: from the deletion of the manifest on nobody lists it as a version."""
    whole = Path(shutil.copytree(parent, tmp_path / "copy" / "n"))
    with faulty(None, kill) as counted:
        retain(str(parent), FOUR)
    assert kept(parent) == LEFT
    left = set()
    for at in range(counted.count):
        again = Path(shutil.copytree(whole, tmp_path / str(at) / "n"))

        def killed(again: Path = again, at: int = at) -> None:
            with faulty(at, kill):
                retain(str(again), FOUR)

        in_child(killed)
        files = {path.name for path in (again / "1.0.0").rglob("*") if path.is_file()}
        left.add("husk" if (again / "1.0.0").exists() and files <= {"LOCK"} else "other")
        retain(str(again), FOUR)
        assert kept(again) == LEFT, at
    assert left == {"husk", "other"}


def test_a_disk_that_fails_is_told_and_the_next_build_goes_on(parent: Path) -> None:
    with faulty(None, fail) as counted:
        retain(str(parent), RetainOptions(min_versions=5, max_age=DAY))
    with faulty(counted.count + 20, fail):
        said = retain(str(parent), FOUR)
    assert "could not be deleted" in said[0]

    retain(str(parent), FOUR)
    assert kept(parent) == LEFT


def test_a_version_that_a_job_begins_to_build_is_not_deleted(parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backfill that takes the lease after it was looked whether anybody builds, and a new version."""
    directory = str(parent / "1.0.0")
    monkeypatch.setattr("shardmill.addons.nightly.retention.version_under_way", lambda parent: "")
    with (
        lease.hold_lease(directory, "beam-temp-n-0123", "0123"),
        lease.hold_lease(str(parent / "1.0.5"), "beam-temp-n-0123", "0123"),
    ):
        (said,) = retain(str(parent), FOUR)
        assert lease.is_lease_held(str(parent / "1.0.5"), "0123")

    assert said.startswith("1.0.0 is not deleted now: ")
    assert "is being built by process" in said
    assert find_damage(directory) == ""
    assert retain(str(parent), FOUR)[0].startswith("deleted 1.0.0")
    assert kept(parent) == LEFT


def test_a_tag_that_is_given_as_its_version_is_withdrawn_keeps_it(
    parent: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deletion looks again once nobody opens the version any more."""
    delete = storage.delete

    def given(paths: Iterable[str]) -> None:
        paths = list(paths)
        if paths == [f"{parent}/1.0.0/_SUCCESS"]:
            set_tag(str(parent), "1.0.0", "new", move=False)
        delete(paths)

    monkeypatch.setattr(storage, "delete", given)
    retain(str(parent), OPTIONS)

    assert "1.0.0" in kept(parent)
    assert open_dataset(parent, version="new").manifest.version == "1.0.0"


NAMING: dict[str, Callable[[str], object]] = {
    "a tag": lambda parent: set_tag(parent, "1.0.0", "new", move=False),
    "LATEST": lambda parent: rollback(parent, "1.0.0"),
}


@pytest.mark.parametrize("what", NAMING)
def test_what_comes_after_the_deletion_has_looked_names_nothing(
    parent: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Who lets a file name a version looks whether it is still there."""
    write: dict[str, Callable[..., None]] = {"create": conditional.create, "replace": conditional.replace}
    before = (parent / "LATEST").read_text()

    def after_the_deletion(how: str, *arguments: Any) -> None:
        monkeypatch.undo()
        retain(str(parent), OPTIONS)
        write[how](*arguments)

    for how in write:
        monkeypatch.setattr(conditional, how, partial(after_the_deletion, how))
    said = r"a deletion of .*/1[.]0[.]0 had begun; (new names nothing now|LATEST names 1.0.4)"
    with pytest.raises(JobError, match=said):
        NAMING[what](str(parent))

    assert "1.0.0" not in kept(parent)
    assert not (parent / "TAGS/new").exists()
    assert (parent / "LATEST").read_text() == before


def test_a_tag_and_a_deletion_at_once_leave_what_is_whole(parent: Path, tmp_path: Path) -> None:
    """Both may stand back, but a tag names no version that is gone, and who polls LATEST never fails."""
    for number in range(20):
        copy = Path(shutil.copytree(parent, tmp_path / str(number) / "n"))
        barrier, ended = Barrier(3), Event()

        def tag(copy: Path = copy, barrier: Barrier = barrier) -> None:
            barrier.wait()
            with suppress(JobError, UserError):
                set_tag(str(copy), "1.0.0", "new", move=False)

        def poll(copy: Path = copy, barrier: Barrier = barrier, ended: Event = ended) -> None:
            barrier.wait()
            while not ended.is_set():
                assert open_dataset(copy).manifest.version == "1.0.4"

        with ThreadPoolExecutor(2) as pool:
            others = [pool.submit(tag), pool.submit(poll)]
            barrier.wait()
            retain(str(copy), OPTIONS)
            others[0].result()
            ended.set()
            others[1].result()
        if (copy / "TAGS/new").exists():
            assert open_dataset(copy, version="new").manifest.version == "1.0.0"
        if (copy / "1.0.0").exists():
            assert not find_damage(str(copy / "1.0.0"))
