"""Figures, tables, lines of the log, and what a job is to do, as a person reads them."""

import math
from pathlib import Path

import pytest
from rich.table import Table

from shardmill.filesystem import LocalFiles
from shardmill.metadata.manifest import Manifest
from shardmill.pipelines.reports import log
from shardmill.pipelines.reports.inspection import column_lines, statistics_table
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
from shardmill.quality.stats_file import FeatureSummary, SplitSummary
from shardmill.quality.stats_values import Distinct, Numbers
from shardmill.reading.dataset import Dataset
from shardmill.text import plural

NUMBERS: dict[float | None, str] = {
    **{None: "", 0: "0", 1234567: "1,234,567", -1700000000: "-1,700,000,000", 0.5: "0.5", -3.2799: "-3.28"},
    **{1234.5678: "1,235", 83124.24: "83,124", 1e15: "1e+15", 1.5e-7: "1.5e-07", math.inf: "inf", math.nan: "nan"},
}
SIZES = {
    **{0: "0 B", 999: "999 B", 1000: "1.0 kB", 999_949: "999.9 kB", 999_999: "1.0 MB", 1_234_567: "1.2 MB"},
    **{10**9 - 1: "1.0 GB", 5 * 10**9: "5.0 GB", 10**12: "1.0 TB", 10**15: "1000.0 TB", 25 * 10**14: "2500.0 TB"},
}
# The fourth is not all, and the last is not none
SHARES = {
    **{(0, 0): "0 %", (0, 9): "0 %", (1, 3): "33.3 %", (99_999, 100_000): "99.9 %", (3, 3): "100 %"},
    (1, 1_000_000): "under 0.1 %",
}


def test_figures() -> None:
    assert {value: format_number(value) for value in NUMBERS} == NUMBERS
    assert {size: human_size(size) for size in SIZES} == SIZES
    assert {share: format_share(*share) for share in SHARES} == SHARES
    assert [format_distinct(one) for one in (None, Distinct(1234), Distinct(1234, 0.03))] == ["", "1,234", "~1,234"]
    assert format_range([1617, 1618]) == "1,617 to 1,618"
    assert format_range([1618, 1618]) == "1,618"
    assert format_range([1_000_000, 1_000_001], human_size) == "1.0 MB"
    assert [plural(number, "class", "classes") for number in (0, 1, 1000)] == ["0 classes", "1 class", "1,000 classes"]
    assert [plural(number, "row") for number in (1, 2)] == ["1 row", "2 rows"]


def test_measured() -> None:
    numbers = Numbers(minimum=1)

    assert main_numbers(FeatureSummary(numbers=numbers)) == ("", numbers)
    assert main_numbers(FeatureSummary(values=numbers)) == ("all values", numbers)
    assert main_numbers(FeatureSummary(length_bytes=numbers)) == ("length in bytes", numbers)
    assert main_numbers(FeatureSummary(size_bytes=numbers)) == ("size in bytes", numbers)
    assert main_numbers(FeatureSummary(classes={"cat": 1})) == ("", None)


def test_a_table_has_neither_colours_nor_markup_and_is_as_wide_as_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    table, wide = (Table(box=None, pad_edge=False, header_style="bold") for _ in range(2))
    table.add_column("[b]split")
    table.add_column(":cat:")
    table.add_row("train", "1")
    wide.add_column("x" * 30)

    assert table_text(table) == "[b]split  :cat:\ntrain     1"
    assert all(len(line) <= 20 for line in table_text(wide, 20).splitlines())


@pytest.mark.parametrize(
    ("work", "tasks", "space"),
    [
        (JobWork(40, 40, 1_000, size_bytes=5_000_000), "40 tasks, 40 shards", "the shards themselves, about 5.0 MB"),
        (
            JobWork(64, 10, 129, runs=64),
            "64 tasks, 64 runs, at most 640 slices, about 10 shards",
            "as large as all shards, for runs",
        ),
    ],
)
def test_work(work: JobWork, tasks: str, space: str) -> None:
    assert list(work.sentences(0)) == [f"Work: {tasks}", f"Temporary space: {space}"]


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
    # One worker alone is at work whatever the shards
    assert list(JobWork(1, 1, 1, size_bytes=1).sentences(1)) == list(JobWork(1, 1, 1, size_bytes=1).sentences(0))


def features_table(**features: FeatureSummary) -> str:
    one = SplitSummary(4_000, 1, 0, features=features)
    return statistics_table({"train": one, "test": SplitSummary(0, 0, 0, features={})})


def test_a_row_a_feature() -> None:
    age = Numbers(minimum=0, maximum=1_999, quantiles={"0.05": 3, "0.25": 9, "0.5": 31, "0.95": 90})
    table = features_table(
        age=FeatureSummary(count=3_000, missing=1_000, distinct=Distinct(100), numbers=age),
        id=FeatureSummary(distinct=Distinct(4_003, 0.03), numbers=Numbers(minimum=-0.5, maximum=0.25)),
        note=FeatureSummary(missing=0, length_bytes=Numbers(minimum=2, maximum=70)),
        label=FeatureSummary(classes={"cat": 4_000}),
    )

    assert [" ".join(line.split()) for line in table.splitlines()] == [
        "feature split missing distinct min 5 % 50 % 95 % max of",
        "age train 1,000 100 0 3 31 90 1,999",
        "id train ~4,003 -0.5 0.25",
        "note train 0 2 70 length in bytes",
    ]
    assert features_table(label=FeatureSummary(classes={"cat": 1})) == ""
    # Names are not markup
    assert "[red]x :cat: \\x1b  train" in features_table(**{"[red]x :cat: \x1b": FeatureSummary(missing=7)})


def test_records_that_are_not_parsed_have_no_columns(tmp_path: Path) -> None:
    assert column_lines(Dataset(str(tmp_path), Manifest("n", "1.0.0", "", (), ()), LocalFiles()), None) == []


def test_what_is_said_of_data_cannot_move_a_terminal_s_cursor(capsys: pytest.CaptureFixture[str]) -> None:
    log.set_up()
    for speak in (log.info, log.log_progress, log.warn, log.error):
        speak("a class '\x1b[2J'\nand more")
    log.print_result("a class '\x1b[2J'\nand more")
    found = capsys.readouterr()
    shown = r"a class '\x1b[2J'"
    assert found.err.splitlines() == [
        rf"{before}{shown}\nand more" for before in ("shardmill: ", "", "shardmill: warning: ", "shardmill: error: ")
    ]
    assert found.out.splitlines() == [shown, "and more"]
