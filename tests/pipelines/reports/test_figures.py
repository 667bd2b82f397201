"""Figures as a person reads them."""

import math

import pytest

from shardmill.pipelines.reports.summary import (
    format_distinct,
    format_number,
    format_range,
    format_share,
    human_size,
    main_numbers,
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
