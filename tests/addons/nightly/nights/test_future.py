"""Dates ahead of the clock, which stop, and nights after one that was published all the same: LATEST stays there."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import apache_beam as beam
import pytest

import shardmill
from shardmill.beam import WriteDataset
from shardmill.errors import UserError
from shardmill.transforms.publishing.catalog import check_not_ahead
from tests.addons.nightly.test_rebuild import hook
from tests.support.command import Run, check_mistake
from tests.support.nights import recipe, rows, write


@pytest.mark.parametrize("days", [-400, 0, 2])
def test_a_day_that_clocks_may_differ_by(days: int) -> None:
    day = datetime.now(UTC).date() + timedelta(days=days)
    check_not_ahead("1.0.0", day, is_allowed=False)
    check_not_ahead(f"{day.year}.{day.month}.{day.day}", None, is_allowed=False)


@pytest.mark.parametrize("version", ["3000.13.1", "20621128.0.0", f"{10**30}.1.1", "1.2.3"])
def test_versions_that_are_no_dates(version: str) -> None:
    check_not_ahead(version, None, is_allowed=False)


@pytest.mark.parametrize(
    "more", [("--date", "2062-11-28"), ("--version", "2062.11.28"), ("--version", "2062.11.28", "--dry_run")]
)
def test_a_date_in_the_future_stops(more: tuple[str, ...], here: Path, run: Run) -> None:
    write(rows(610))

    check_mistake(run("rebuild", "events.yaml", *more), "2062", "days ahead of this machine's clock", "--allow_future")
    assert Path("sets/events/LATEST").read_text() == "1.0.0\n"


def test_plain_commands_stop_as_nights_do(here: Path, run: Run) -> None:
    write(rows(610))
    words = ("csv", "--input", "in", "--output", "sets", "--name", "events", "--version", "2062.11.28")

    check_mistake(run(*words), "version 2062-11-28 is", "days ahead of this machine's clock", "--allow_future")
    with pytest.raises(UserError, match="2062-11-28"), beam.Pipeline() as pipeline:
        _ = pipeline | beam.Create([{"x": 1}]) | WriteDataset("sets", "events", version="2062.11.28")
    assert run(*words, "--allow_future", "--quiet")[:2] == (0, "")


def test_nights_after_one_in_the_future_say_so_and_rollback_helps(here: Path, run: Run) -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    with hook(answer) as (url, sent):
        recipe(f"version: '{{YYYY}}.{{MM}}.{{DD}}'\non_failure: {{webhook: {url}}}\n")
        write(rows(610))
        assert run("rebuild", "events.yaml", "--date", "2062-11-28", "--allow_future", "--quiet")[:2] == (0, "")
        assert sent == []

        write(rows(620))
        night = run("rebuild", "events.yaml", "--quiet", "--date", "2026-11-20")

    notice = "LATEST was not moved: it names 2062.11.28, which is newer; `shardmill rollback sets/events 2026.11.20`"
    assert (night.status, night.out) == (0, "")
    assert notice in night.err
    assert notice in sent[0].decode()
    assert notice in json.loads(Path("sets/events/builds/2026.11.20.json").read_text())["notices"][-1]
    assert notice in Path("sets/events/builds/2026.11.20.html").read_text()
    assert run("rollback", "sets/events", "2026.11.20").status == 0
    write(rows(630))
    later = run("rebuild", "events.yaml", "--quiet", "--date", "2026-11-21")
    assert (later.status, later.err) == (0, "")
    assert Path("sets/events/LATEST").read_text() == "2026.11.21\n"


def test_from_python(here: Path) -> None:
    with pytest.raises(UserError, match="ahead of this machine's clock"):
        shardmill.rebuild("events.yaml", date="2062-11-28")
    write(rows(610))
    assert shardmill.rebuild("events.yaml", date="2062-11-28", allow_future=True).ok
