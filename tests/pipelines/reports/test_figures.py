"""Tests of pipelines/reports/summary.py.

* Figures as a person reads them
* Tables as plain text
* What a job is to do, in words
"""

import math

import pytest
from rich.table import Table

from shardmill.pipelines.reports.summary import (
    JobWork,
    format_distinct,
    format_number,
    format_range,
    format_share,
    human_size,
    main_numbers,
    table_text,
)
from shardmill.quality.stats_file import FeatureSummary
from shardmill.quality.stats_values import Distinct, Numbers
from shardmill.text import plural


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, ""),
        (0, "0"),
        (1234567, "1,234,567"),
        (-1700000000, "-1,700,000,000"),
        (0.5, "0.5"),
        (-3.2799, "-3.28"),
        (1234.5678, "1,235"),
        (83124.24, "83,124"),
        (1e15, "1e+15"),
        (1.5e-7, "1.5e-07"),
        (math.inf, "inf"),
        (math.nan, "nan"),
    ],
)
def test_figure(value: float | None, shown: str) -> None:
    assert format_number(value) == shown


@pytest.mark.parametrize(
    ("size_bytes", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_999, "1.0 MB"),
        (10**9 - 1, "1.0 GB"),
        (10**15, "1000.0 TB"),
    ],
)
def test_a_size_is_below_a_thousand_of_its_unit(size_bytes: int, shown: str) -> None:
    assert human_size(size_bytes) == shown


@pytest.mark.parametrize(
    ("part", "whole", "shown"),
    [
        (0, 0, "0 %"),
        (0, 9, "0 %"),
        (1, 3, "33.3 %"),
        (3, 3, "100 %"),
        (99_999, 100_000, "99.9 %"),  # not all
        (1, 1_000_000, "under 0.1 %"),  # not none
    ],
)
def test_share(part: int, whole: int, shown: str) -> None:
    assert format_share(part, whole) == shown


def test_distinct_words() -> None:
    assert [format_distinct(one) for one in (None, Distinct(1234), Distinct(1234, 0.03))] == ["", "1,234", "~1,234"]


def test_measured() -> None:
    numbers = Numbers(minimum=1)

    assert main_numbers(FeatureSummary(numbers=numbers)) == ("", numbers)
    assert main_numbers(FeatureSummary(values=numbers)) == ("all values", numbers)
    assert main_numbers(FeatureSummary(length_bytes=numbers)) == ("length in bytes", numbers)
    assert main_numbers(FeatureSummary(size_bytes=numbers)) == ("size in bytes", numbers)
    assert main_numbers(FeatureSummary(classes={"cat": 1})) == ("", None)


def test_a_span_of_one_number_is_that_number() -> None:
    assert format_range([1617, 1618]) == "1,617 to 1,618"
    assert format_range([1618, 1618]) == "1,618"
    assert format_range([1_000_000, 1_000_001], human_size) == "1.0 MB"


def test_one_is_called_as_one() -> None:
    assert [plural(number, "class", "classes") for number in (0, 1, 1000)] == ["0 classes", "1 class", "1,000 classes"]
    assert [plural(number, "row") for number in (1, 2)] == ["1 row", "2 rows"]


def test_a_table_has_neither_colours_nor_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("[b]split")
    table.add_column(":cat:")
    table.add_row("train", "1")

    assert table_text(table) == "[b]split  :cat:\ntrain     1"


def test_a_table_is_as_wide_as_it_may_be() -> None:
    table = Table(box=None, pad_edge=False)
    table.add_column("x" * 30)

    assert all(len(line) <= 20 for line in table_text(table, 20).splitlines())


def test_whole_files() -> None:
    work = JobWork(40, 40, 1_000, size_bytes=5_000_000)
    assert list(work.sentences(0)) == [
        "Work: 40 tasks, 40 shards",
        "Temporary space: the shards themselves, about 5.0 MB",
    ]


def test_records_go_through_runs() -> None:
    work = JobWork(64, 10, 129, runs=64)
    assert list(work.sentences(0)) == [
        "Work: 64 tasks, 64 runs, at most 640 slices, about 10 shards",
        "Temporary space: as large as all shards, for runs",
    ]


def test_requests_are_counted_of_what_lies_in_a_store() -> None:
    read, written = (JobWork(1, 10, 129, runs=4, is_remote=remote) for remote in ((True, False), (False, True)))
    assert read.requests == 129
    assert "Requests to stores: about 129" in list(read.sentences(0))
    assert JobWork(1, 10, 129, runs=4, is_remote=(True, True)).requests == read.requests + written.requests
    assert JobWork(1, 10, 129, runs=4).requests == 0


def test_fewer_shards_than_keep_all_slots_at_work_are_said() -> None:
    said = list(JobWork(8, 8, 8, size_bytes=1).sentences(3))
    assert said[-1] == (
        "NOTE: 8 shards for 3 workers at once: expected 12 at least (--num_shards, or a smaller --shard_size), or some"
        " are idle while the last shards are written"
    )
    assert list(JobWork(8, 8, 8, size_bytes=1).sentences(2)) == said[:-1]


def test_one_worker_alone_is_at_work_whatever_the_shards() -> None:
    assert list(JobWork(1, 1, 1, size_bytes=1).sentences(1)) == list(JobWork(1, 1, 1, size_bytes=1).sentences(0))
