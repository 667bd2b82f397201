"""Charts as paths, and histograms over common bins."""

import pytest

from shardmill.pipelines.reports.rows import bars_path, shares_of_bins
from shardmill.quality.stats_values import Bucket, Numbers


def test_bars() -> None:
    assert bars_path([1, 2, 0, 2]) == "M0 24H0V12H24V0H48V24H72V0H96V24"
    assert bars_path([1, 1], top=2) == "M0 24H0V12H96V24"


def test_nothing_has_no_bars() -> None:
    assert bars_path([]) == bars_path([0, 0]) == ""


def test_what_is_there_is_seen() -> None:
    assert bars_path([1_000_000, 1]) == "M0 24H0V0H48V23H96V24"


def test_histograms_of_splits_over_the_same_bins() -> None:
    one = Numbers(histogram=(Bucket(0.0, 2.0, 4), Bucket(3.0, 4.0, 4)))
    other = Numbers(histogram=(Bucket(2.0, 2.0, 5),))

    assert shares_of_bins([one, other, None], 4) == [[0.25, 0.25, 0, 0.5], [0, 0, 1, 0], []]


def test_powers_of_two_are_bins() -> None:
    one = Numbers(histogram=(Bucket.of_bits(7, 3), Bucket.of_bits(9, 1)))

    assert shares_of_bins([one, Numbers(histogram=(Bucket.of_bits(8, 2),))], 24) == [[0.75, 0, 0.25], [0, 1, 0]]


@pytest.mark.parametrize("value", [0, 7, -1.5, 1.7e308])
def test_one_value(value: float) -> None:
    assert shares_of_bins([Numbers(histogram=(Bucket(value, value, 3),))], 5) == [[0, 0, 1, 0, 0]]


def test_the_widest_range_there_is() -> None:
    (found,) = shares_of_bins([Numbers(histogram=(Bucket(-1.7e308, -1.0, 1), Bucket(1.0, 1.7e308, 1)))], 4)

    assert sum(found) == pytest.approx(1)
