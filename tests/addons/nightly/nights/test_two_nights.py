"""Two nights on one recipe at once, and a night whose version is published already: the status, the sentence, and what
is published."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from shardmill.metadata.versions import BuildRecord
from shardmill.reading.dataset import open_dataset
from tests.support.command import Process, Run
from tests.support.nights import rows, write
from tests.support.processes import stop_at, wait_for

# Where the loser stands while the other night is built from beginning to end
LOSER_STOPS = {
    "listing the input": ("shardmill.addons.nightly.planning", "find_inputs"),
    "decided": ("shardmill.addons.nightly.build", "find_kept_settings"),
    "taking the lease": ("shardmill.pipelines.jobs.outcome", "take_lease"),
}
# Where the winner stands while the loser is run
WINNER_STOPS = {
    "writing": ("shardmill.transforms.publishing.publish", "check_counts"),
    "publishing": ("shardmill.transforms.publishing.publication", "_move_into_place"),
    "naming": ("shardmill.transforms.publishing.publication", "_update_names"),
    "published": ("shardmill.pipelines.jobs.job", "open_published"),
}
VERSIONS = {
    "auto": "auto",
    "late data, overwritten": "1.0.{YYYY}{MM}{DD}\non_published: overwrite",
    "late data, next": "1.{YYYY}{MM}{DD}.0\non_published: next",
}
DAY = ("--date", "2026-11-20")


@pytest.fixture(params=VERSIONS)
def night(request: pytest.FixtureRequest, run: Run, here: Path) -> Path:
    """A folder where a night has something to build, with a version of each kind."""
    recipe = Path("events.yaml")
    recipe.write_text(recipe.read_text().replace("csv:", f"version: {VERSIONS[request.param]}\ncsv:", 1))
    if request.param.startswith("late data"):
        write(rows(605))
        assert run("rebuild", recipe, *DAY).status == 0
    write(rows(610))
    return here


def versions_and_examples() -> dict[str, int]:
    found = (open_dataset(str(path.parent)).manifest for path in Path("sets/events").glob("*/_SUCCESS"))
    return {manifest.version: sum(split.examples for split in manifest.splits) for manifest in found}


def built_last() -> int:
    """Return the number of examples of the newest version; what was built before the test has fewer than 610."""
    return max(versions_and_examples().values())


def count_builds() -> int:
    return sum(number >= 610 for number in versions_and_examples().values())


@pytest.mark.slow
@pytest.mark.parametrize("stop", LOSER_STOPS)
def test_the_other_is_faster(run: Run, night: Path, stop: str) -> None:
    """The input is the same, so there is nothing left to do."""
    before = partial(stop_at, *LOSER_STOPS[stop], night / "reached", night / "go on")
    loser = Process(night / "p", "rebuild", night / "events.yaml", *DAY, "--unchanged_status", 99, before=before)
    wait_for(night / "reached", loser.is_alive)
    winner = run("rebuild", "events.yaml", *DAY)
    (night / "go on").touch()
    result = loser.result()

    assert (winner.status, result.status, result.err) == (0, 99, ""), result
    assert "events: unchanged since 1." in result.out
    assert (built_last(), count_builds()) == (610, 1)
    assert [path.name for path in Path("sets/events/builds").glob("*.failed.*")] == []


@pytest.mark.slow
@pytest.mark.parametrize("stop", ["decided", "taking the lease"])
def test_the_other_is_faster_and_read_another_input(run: Run, night: Path, stop: str) -> None:
    """The slower night keeps the published version; the next night builds the input that it had not read."""
    before = partial(stop_at, *LOSER_STOPS[stop], night / "reached", night / "go on")
    loser = Process(night / "p", "rebuild", night / "events.yaml", *DAY, before=before)
    wait_for(night / "reached", loser.is_alive)
    assert run("rebuild", "events.yaml", *DAY).status == 0
    write(rows(620))
    (night / "go on").touch()
    result = loser.result()

    assert (result.status, result.err.count("\n")) == (4, 1)
    assert "was published meanwhile by another job, and a build would now differ: 0 files new, 1 changed" in result.err
    assert (built_last(), count_builds()) == (610, 1)


@pytest.mark.slow
@pytest.mark.parametrize("stop", WINNER_STOPS)
def test_the_other_is_at_it(run: Run, night: Path, stop: str) -> None:
    before = partial(stop_at, *WINNER_STOPS[stop], night / "reached", night / "go on")
    winner = Process(night / "p", "rebuild", night / "events.yaml", *DAY, before=before)
    wait_for(night / "reached", winner.is_alive)
    result = run("rebuild", "events.yaml", *DAY)
    (night / "go on").touch()

    assert winner.result().status == 0
    unchanged = result.status == 0 and "unchanged since 1." in result.out
    assert unchanged or (result.status == 4 and "is being built by process" in result.err), result
    assert (built_last(), count_builds()) == (610, 1)


def dated(more: str = "", version: str = "1.0.{YYYY}{MM}{DD}") -> None:
    path = Path("events.yaml")
    path.write_text(path.read_text().replace("csv:", f"version: {version}\n{more}csv:", 1))


def test_late_data_has_its_own_status(run: Run, here: Path) -> None:
    dated()
    write(rows(605))
    assert run("rebuild", "events.yaml", *DAY).status == 0
    write(rows(610))
    for flags in ((), ("--dry_run",)):
        late = run("rebuild", "events.yaml", *DAY, *flags)
        assert late.status == 5
        assert "1.0.20261120 is published and is kept, although a build would now differ: 0 files new, 1 changed" in (
            late.err
        )
    assert versions_and_examples() == {"1.0.0": 600, "1.0.20261120": 605}
    written = Path("sets/events/builds/1.0.20261120.failed.json").read_bytes()
    assert BuildRecord.from_json(written, "record").status == "outdated"

    for remedy in ("--overwrite",), ():  # as the sentence says
        if not remedy:
            path = Path("events.yaml")
            path.write_text(path.read_text().replace("csv:", "on_published: overwrite\ncsv:", 1))
            write(rows(615))
        assert run("rebuild", "events.yaml", *DAY, *remedy).status == 0
        assert versions_and_examples()["1.0.20261120"] == (610 if remedy else 615)
        assert run("rebuild", "events.yaml", *DAY, "--unchanged_status", 99).status == 99


def test_late_data_of_a_day_before_the_latest(run: Run, here: Path) -> None:
    """It differs from LATEST, too, but what counts is how it differs from its own day."""
    dated()
    shutil.move("in/a.csv", "a.csv")
    text = Path("events.yaml").read_text().replace("input: in", "input: in/{DD}.csv")
    Path("events.yaml").write_text(text)
    for day, number in ("20", 605), ("21", 607):
        write(rows(number), name=f"{day}.csv")
        assert run("rebuild", "events.yaml", "--date", f"2026-11-{day}").status == 0
    write(rows(610), name="20.csv")

    late = run("rebuild", "events.yaml", *DAY)

    assert (late.status, "differ: 0 files new, 1 changed, 0 gone; `" in late.err) == (5, True), late
    assert Path("sets/events/LATEST").read_text() == "1.0.20261121\n"


def test_late_data_gets_the_next_number(run: Run, here: Path) -> None:
    dated("on_published: next\n", "1.{YYYY}{MM}{DD}.0")
    for number, version in (605, "1.20261120.0"), (610, "1.20261120.1"), (615, "1.20261120.2"):
        write(rows(number))
        planned = run("rebuild", "events.yaml", *DAY, "--dry_run")
        assert f": {version} would be built\n" in planned.out
        result = run("rebuild", "events.yaml", *DAY)
        assert (result.status, f"events {version} is published" in result.out) == (0, True), result
        assert run("rebuild", "events.yaml", *DAY, "--unchanged_status", 99).status == 99
    assert run("rollback", "sets/events", "1.0.0").status == 0
    assert run("rebuild", "events.yaml", *DAY, "--unchanged_status", 99).status == 99
    assert run("rebuild", "events.yaml", "--date", "2026-11-21", "--force").status == 0
    assert sorted(versions_and_examples().values()) == [600, 605, 610, 615, 615]


MISTAKES: dict[str, tuple[Callable[[], None], str]] = {
    "no number to count": (
        lambda: dated("on_published: next\n"),
        "on_published: next counts up the last number, which in version: 1.0.{YYYY}{MM}{DD} is a date",
    ),
    "always a new number": (
        lambda: dated("on_published: overwrite\n", "auto"),
        "on_published: overwrite has no meaning with version: auto",
    ),
    "another word": (lambda: dated("on_published: fail\n"), "expected one of keep, overwrite, next"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(run: Run, here: Path, mistake: str) -> None:
    write_recipe, sentence = MISTAKES[mistake]
    write_recipe()
    result = run("rebuild", "events.yaml")
    assert (result.status, sentence in result.err) == (2, True), result
