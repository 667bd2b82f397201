"""Bad nights, one a row: what is published then, the exit status, and the sentence."""

import gzip
import json
import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from shardmill.addons.nightly import planning
from shardmill.addons.nightly.inputs import find_inputs
from shardmill.metadata.versions import BuildRecord
from tests.support.command import Run
from tests.support.nights import KINDS, recipe, rows, write


@dataclass(frozen=True)
class Night:
    """What happens, and what comes of it.

    Attributes:
      happens: to the input or the recipe.
      status: of the command.
      says: what stands in its last sentences.
      latest: what LATEST names then.
      flags: of the command.
    """

    happens: Callable[[], object]
    status: int
    says: str
    latest: str = "1.0.0"
    flags: tuple[str, ...] = field(default=())


def truncated() -> None:
    data = Path("in/a.csv").read_bytes()
    Path("in/a.csv").unlink()
    packed = gzip.compress(data)
    Path("in/a.csv.gz").write_bytes(packed[: len(packed) // 2])


def stopped() -> None:
    recipe("freshness: {warn_after: 26h, error_after: 50h}\n")
    os.utime("in/a.csv", (time.time() - 60 * 3600,) * 2)


def in_the_future() -> None:
    recipe("freshness: {warn_after: 26h, error_after: 50h}\n")
    write(rows(601))
    os.utime("in/a.csv", (time.time() + 5 * 3600,) * 2)


def missing_baseline() -> None:
    recipe("baseline: 9.9.9\n")
    write(rows(610))


def new_class() -> None:
    write(rows(kinds=(*KINDS, "like")))


def new_class_where_labels_are_kept() -> None:
    recipe("labels: keep\n")
    new_class()


def expected_amounts() -> None:
    recipe("checks: {columns: {amount: {numeric_drift: off, numeric_skew: off}}}\n")
    write([[*line[:2], str(float(line[2]) * 100), line[3]] for line in rows()])


NIGHTS = {
    "nothing new, for Airflow": Night(lambda: None, 99, "unchanged since", flags=("--unchanged_status", "99")),
    "nothing new, and a version that is asked for": Night(
        lambda: None,
        *(0, "unchanged since 1.0.0: 1 file; 0.9.0 would be the same and is not built, --force builds it"),
        flags=("--version", "0.9.0"),
    ),
    "a few rows more": Night(lambda: write(rows(610)), 0, "events 1.0.1 is published", "1.0.1"),
    "a column new": Night(
        lambda: write([[*line, "1"] for line in rows()], "id,kind,amount,city,age"),
        0,
        "warning: events: columns_new: 1 feature new since 1.0.0: age",
        "1.0.1",
    ),
    "a class vanished": Night(lambda: write(rows(kinds=("buy", "view"))), 3, "1 class is gone since 1.0.0: 'click'"),
    "a class new, labels kept": Night(
        new_class_where_labels_are_kept,
        *(2, "is in the input but not in the kept labels of version 1.0.0; give --on_new_label append"),
    ),
    "40 % of the rows": Night(lambda: write(rows(240)), 3, "examples_under: there are 240 examples, 600 in 1.0.0"),
    "no rows": Night(lambda: write([]), 2, "events.yaml line 4: --input in has no rows"),
    "no files": Night(lambda: Path("in/a.csv").unlink(), 2, "events.yaml line 4: no CSV files in --input in"),
    "all rejected": Night(lambda: write([[*one[:3], '"x"y'] for one in rows()]), 1, "600 of 600 records were rejected"),
    "amounts times 100": Night(
        lambda: write([[*line[:2], str(float(line[2]) * 100), line[3]] for line in rows()]),
        3,
        "if that is intended, accept it in the recipe: `checks: {columns: {amount: {numeric_drift: off}}}`",
    ),
    "amounts times 100, as the recipe expects": Night(expected_amounts, 0, "events 1.0.1 is published", "1.0.1"),
    "a file truncated": Night(truncated, 1, "a.csv.gz"),
    "the source stopped": Night(stopped, 3, "has the source stopped? Nothing was published"),
    "a clock is wrong": Night(in_the_future, 0, "a clock is wrong", "1.0.1"),
    "a typo in the recipe": Night(
        lambda: recipe("retian: {}\n"), 2, "line 7: unknown key 'retian'; did you mean retain?"
    ),
    "nothing new, and a runner that there is not": Night(
        lambda: None, 2, "error: --runner: Unexpected pipeline runner: Nope.", flags=("--runner", "Nope")
    ),
    "nothing new, and a baseline that there is not": Night(lambda: recipe("baseline: good\n"), 2, "'good'"),
    "a baseline that there is not": Night(missing_baseline, 2, "9.9.9 is not a data set"),
    "a version that is published": Night(
        lambda: write(rows(610)),
        2,
        "error: events: events.yaml line 3: sets/events/1.0.0 is a published data set; give",
        flags=("--version", "1.0.0"),
    ),
    "a backfill": Night(
        lambda: write(rows(610)),
        *(0, "; compared with 1.0.0, which is newer: `baseline:` in a recipe names another; "),
        flags=("--version", "0.9.0"),
    ),
    "a backfill of a day with fewer rows": Night(
        lambda: write(rows(240)),
        *(3, "; compared with 1.0.0, which is newer: `baseline:` in a recipe names another; nothing was"),
        flags=("--version", "0.9.0"),
    ),
    "a backfill that is to be used": Night(
        *(lambda: write(rows(610)), 0, "events 0.9.0 is published", "0.9.0", ("--version", "0.9.0", "--set_latest"))
    ),
}


@pytest.mark.parametrize("night", NIGHTS)
def test_a_night(run: Run, here: Path, night: str) -> None:
    expected = NIGHTS[night]
    expected.happens()

    result = run("rebuild", "events.yaml", *expected.flags)

    assert (result.status, expected.says in result.out + result.err) == (expected.status, True), result
    assert Path("sets/events/LATEST").read_text().strip() == expected.latest
    if expected.status in (1, 2, 3):
        assert result.err.count("shardmill: error: ") == 1
        assert sorted(path.name for path in Path("sets/events").glob("?.?.?")) == ["1.0.0"]
    if expected.status in (1, 2) and not expected.flags and "retian" not in result.err:
        record = BuildRecord.from_json(Path("sets/events/builds/1.0.1.json").read_bytes(), "record")
        assert (record.status, f"shardmill: error: events: {record.reason}\n") == ("failed", result.err)
        assert not Path("sets/events/builds/1.0.1.html").exists()
    if expected.status == 3 and re.search("checks? failed", result.err) and not expected.flags:
        record = BuildRecord.from_json(Path("sets/events/builds/1.0.1.json").read_bytes(), "record")
        assert record.status == "checks_failed"
        assert any(check["severity"] == "error" for check in record.checks)
        assert Path("sets/events/failed/1.0.1/anomalies.pbtxt").exists()
        page = Path("sets/events/builds/1.0.1.html").read_text()
        assert ">bad</span> Checked as it was to be published, against 1.0.0, and not published." in page
    made = expected.says.removesuffix(" is published").rpartition(" ")[2]
    if " is published" in expected.says:
        page = Path(f"sets/events/builds/{made}.html").read_text()
        assert "Checked before it was published, against 1.0.0." in page
        assert "Since 1.0.0" in page


def test_what_nobody_expected_ends_one_recipe_alone(run: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = Path("events.yaml").read_text()
    Path("all").mkdir()
    Path("all/first.yaml").write_text(text.replace("name: events", "name: first"))
    Path("all/second.yaml").write_text(text)

    def defective(config: Any, *more: Any) -> Any:
        if config.name == "first":
            raise KeyError("a defect")
        return find_inputs(config, *more)

    monkeypatch.setattr(planning, "find_inputs", defective)
    result = run("rebuild", "all", "--json")

    assert result.status == 1
    assert [json.loads(line)["status"] for line in result.out.splitlines()] == ["failed", "unchanged"]
    assert "error: first: KeyError: 'a defect'; nobody expected that: --debug shows where it happened\n" in result.err
    assert result.err.endswith("2 recipes: 1 failed, 1 unchanged\n")


def test_what_the_sentence_of_a_check_says_lets_it_pass(run: Run, here: Path) -> None:
    write(rows(kinds=("buy", "view")))
    failed = run("rebuild", "events.yaml")
    assert failed.status == 3
    found = re.search(r"\n  accept:  (checks: .*)  # in the recipe, lets it pass always\n", failed.err)
    assert found is not None, failed.err

    recipe(f"{found[1]}\n")
    result = run("rebuild", "events.yaml")

    assert result.status == 0, result.err
    assert "warning: events: classes_gone: 1 class is gone since 1.0.0: 'click'" in result.err


def test_a_recipe_that_cannot_be_followed_has_a_record_on_stdout(run: Run, here: Path) -> None:
    """As each other has: who reads stdout finds a line for every recipe."""
    recipe("retian: {}\n")

    result = run("rebuild", "events.yaml", "--json")

    record = BuildRecord.from_json(result.out, "stdout")
    assert (result.status, record.name, record.status) == (2, "events.yaml", "failed")
    assert result.err == f"shardmill: error: {record.reason}\n"
