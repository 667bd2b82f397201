"""When expired versions are deleted: at the end of each night but one that another job has, before a build, and by
`shardmill retain`."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shardmill.pipelines import cli
from shardmill.transforms.publishing import lease
from tests.addons.nightly.nights.conftest import in_copy
from tests.support.command import Process, Run, tree_bytes
from tests.support.nights import Rows, recipe, rows, write
from tests.support.processes import SmallDisk

RETAIN = "retain: {min_versions: 1, max_age: 5d}\n"
OLD, TENTH = Path("sets/events/1.0.0"), 10 * 86_400


def age(*versions: str) -> None:
    """Let the publication of these versions be ten days ago."""
    for version in versions:
        path = Path("sets/events", version, "_SUCCESS")
        os.utime(path, (path.stat().st_mtime - TENTH,) * 2)


def rebuild(lines: Rows, status: int = 0) -> None:
    write(lines)
    assert cli.main(["rebuild", "events.yaml"]) == status


@pytest.fixture(scope="module")
def old_night(good_night: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A night with 1.0.0, which has expired, and 1.0.1."""
    with in_copy(good_night, tmp_path_factory.mktemp("old") / "night") as folder:
        rebuild(rows(610))
        recipe(RETAIN)
        age("1.0.0")
    return folder


@pytest.fixture
def old(old_night: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of that."""
    with in_copy(old_night, tmp_path / "night") as folder:
        yield folder


DELETED = "deleted 1.0.0, which is older than 5d; the newest stays\n"
NIGHTS: dict[str, tuple[Callable[[], object], int]] = {
    "unchanged": (lambda: None, 0),
    "published": (lambda: write(rows(620)), 0),
    "failed its checks": (lambda: write(rows(200)), 3),
    "failed": (lambda: write([[*line[:3], '"x"y'] for line in rows()]), 1),
}


@pytest.mark.parametrize("night", NIGHTS)
def test_a_night_deletes_what_has_expired(run: Run, old: Path, night: str) -> None:
    happens, status = NIGHTS[night]
    happens()
    result = run("rebuild", "events.yaml")
    assert (result.status, f"events: {DELETED}" in result.out, OLD.exists()) == (status, True, False), result


def test_a_night_that_another_job_has_deletes_nothing(run: Run, old: Path) -> None:
    write(rows(620))
    with lease.hold_lease("sets/events/1.0.2", "beam-temp-events-other", "other"):
        assert run("rebuild", "events.yaml").status == 4
        unchanged = run("retain", "events.yaml")
    assert OLD.exists()
    assert "1.0.2 is being built, or its job was interrupted, and may read older versions: nothing" in unchanged.out


def test_what_a_build_reads_stays(run: Run, old: Path) -> None:
    """Before the build too: it is compared with a version that would have expired."""
    recipe(f"{RETAIN}baseline: 1.0.0\n")
    write(rows(620))
    assert run("rebuild", "events.yaml").status == 0
    assert run("retain", "events.yaml").out == "events: nothing to delete\n"
    assert OLD.exists()


PAGE_BYTES = 4096  # a file on a tmpfs takes whole pages


@pytest.mark.slow
@pytest.mark.parametrize("filled", [False, True])
def test_a_full_disk_heals(run: Run, here: Path, filled: bool) -> None:
    """There is room for the new version only where the old one was, and not even for a LOCK if the disk is full."""
    recipe("checks: {string_drift: off}\n")
    for version, times in ("1.0.1", 200), ("1.0.2", 1):
        write([[*line[:3], line[3] * times] for line in rows()])
        assert run("rebuild", "events.yaml", "--version", version).status == 0
    age("1.0.0", "1.0.1")
    write(rows(620))
    sizes = [path.stat().st_size for path in (here / "sets").rglob("*") if path.is_file()]
    used = sum(-(-size // PAGE_BYTES) * PAGE_BYTES for size in sizes)
    disk = SmallDisk(here / "sets", used + 4 * PAGE_BYTES, here / "left.json", filled)

    without = Process(here / "without", "rebuild", here / "events.yaml", before=disk).result()
    (here / "sets-before").rename(here / "moved")
    Path("events.yaml").write_text(Path("events.yaml").read_text() + RETAIN)
    result = Process(here / "with", "rebuild", here / "events.yaml", before=disk).result()

    assert (without.status, result.status) == (1, 0), (without, result)
    assert "deleted 1.0.1, which is older" in result.out
    left = json.loads((here / "left.json").read_text())
    assert {name.split("/")[1] for name in left if name.endswith("_SUCCESS")} == {"1.0.2", "1.0.3"}


def expired_failure() -> None:
    rebuild(rows(200), 3)
    mark = next(Path("sets/events/failed").glob("*/_FAILED"))
    mark.write_text(json.dumps({**json.loads(mark.read_text()), "until": "2020-01-01T00:00:00Z"}))


@pytest.fixture(scope="module")
def night_of_remains(good_night: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An expired version and an expired failure; the LOCK and folders of jobs that have ended."""
    with in_copy(good_night, tmp_path_factory.mktemp("remains") / "night") as folder:
        expired_failure()
        rebuild(rows(610))
        expired_failure()
        age("1.0.0")
        for version in ("1.0.1", "1.0.9"):
            held = lease.take_lease(f"sets/events/{version}", "beam-temp-events-0123", "0123")
            Path(f"sets/events/{version}/beam-temp-events-0123").mkdir(exist_ok=True)
            Path(f"sets/events/{version}/beam-temp-events-0123/part").touch()
            held.leave()
    return folder


@pytest.fixture
def remains(night_of_remains: Path, tmp_path: Path) -> Iterator[Path]:
    """A copy of that."""
    with in_copy(night_of_remains, tmp_path / "night") as folder:
        yield folder


LEFT = (
    "{0}: {1} sets/events/failed/1.0.2, which `keep_failed` keeps no longer\n",
    "{0}: {1} 1.0.0, which is older than 5d; the newest stays\n",
    "{0}: {1} what a job that has ended left of 1.0.1: LOCK\n",
    "{0}: {1} what a job that has ended left of 1.0.9, which it did not publish\n",
)
FLAGS = ("--min_versions", "1", "--max_age", "5d")
COMMANDS: dict[str, tuple[tuple[str, ...], bool]] = {
    "a recipe": (("events.yaml",), True),
    "a data set": (("sets/events/", *FLAGS), True),
    "a data set, without flags": (("sets/events",), False),
}


@pytest.mark.parametrize("case", COMMANDS)
def test_the_command(run: Run, remains: Path, case: str) -> None:
    """The command deletes exactly what --dry_run listed; nothing is left to delete."""
    recipe(RETAIN)
    arguments, expires = COMMANDS[case]
    name = "events" if "recipe" in case else "sets/events"
    before = tree_bytes(Path("sets"))
    expected = [LEFT[0], *LEFT[1:2][: int(expires)], *LEFT[2:]]
    hint = "" if expires else f"{name}: no version expires: give --min_versions and --max_age\n"

    planned = run("retain", *arguments, "--dry_run")
    assert planned == (0, "".join(line.format(name, "would delete") for line in expected) + hint, "")
    assert tree_bytes(Path("sets")) == before
    assert run("retain", *arguments) == (0, "".join(line.format(name, "deleted") for line in expected) + hint, "")
    assert OLD.exists() != expires
    assert sorted(path.name for path in Path("sets/events").glob("?.?.?")) == ["1.0.0", "1.0.1"][int(expires) :]
    assert not [name for name in tree_bytes(Path("sets")) if "LOCK" in name or "beam-temp" in name or "failed/" in name]
    assert run("retain", *arguments).out == (hint or f"{name}: nothing to delete\n")
    assert run("verify", "sets/events/1.0.1").status == 0


MISTAKES: dict[str, tuple[tuple[str, ...], str]] = {
    "nothing": (("nowhere",), "nowhere is no recipe, no folder of recipes, and has no version of a data set"),
    "a version": (("sets/events/1.0.0",), "is one version; give the folder of all of them, sets/events"),
    "one flag": (("sets/events", "--max_age", "5d"), "give --min_versions and --max_age"),
    "flags of a recipe": (("events.yaml", *FLAGS), "have no meaning with the recipe events.yaml"),
    "a recipe with a mistake": (("wrong.yaml",), "wrong.yaml line 1: unknown key 'retian'"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes(run: Run, here: Path, case: str) -> None:
    Path("wrong.yaml").write_text("retian: {}\n" + Path("events.yaml").read_text())
    arguments, sentence = MISTAKES[case]
    result = run("retain", *arguments)
    assert (result.status, sentence in result.err, result.out) == (2, True, ""), result
    assert OLD.exists()


def test_what_cannot_be_deleted_is_status_1(run: Run, remains: Path) -> None:
    Path("sets/events/TAGS").mkdir()
    Path("sets/events/TAGS/odd").write_text("whatever\n")
    result = run("retain", "sets/events", *FLAGS)
    assert (result.status, "TAGS/odd names 'whatever', which is no version" in result.err) == (1, True), result
    assert OLD.exists()


def dies_when_published() -> None:
    from shardmill.pipelines.jobs import job
    from tests.support.faults import kill

    setattr(job, "open_published", lambda _: kill())  # noqa: B010


@pytest.mark.slow
@pytest.mark.parametrize("remedy", [("rebuild", "events.yaml"), ("verify", "--repair", "sets/events")])
def test_the_lock_of_a_job_that_was_killed_at_its_end(run: Run, here: Path, remedy: tuple[str, ...]) -> None:
    """It is no fault of the version, and goes with the next night or a repair."""
    write(rows(610))
    assert Process(here / "p", "rebuild", here / "events.yaml", before=dies_when_published).result().status == 9
    lock = Path("sets/events/1.0.1/LOCK")
    owner = lease.read_holder(str(lock.parent))

    verified = run("verify", "sets/events")
    said = f"shardmill: {lock} is left by {owner}, which has ended; --repair or the next rebuild deletes it"
    assert (verified.status, said in verified.err, lock.exists()) == (0, True, True), verified
    assert run(*remedy).status == 0
    assert not lock.exists()
    assert run("verify", "sets/events").err == ""


@pytest.mark.parametrize("repair", [(), ("--repair",)])
def test_the_lock_of_a_living_job_is_no_fault_and_stays(run: Run, here: Path, repair: tuple[str, ...]) -> None:
    with lease.hold_lease("sets/events/1.0.0", "beam-temp-events-other", "other"):
        verified = run("verify", *repair, "sets/events")
        assert lease.is_lease_held("sets/events/1.0.0", "other")
    assert verified.status == 0
    assert f"LOCK is held by process {os.getpid()} of " in verified.err
    assert "which builds this version now" in verified.err
