"""Lengths of time: a number and a unit, or nothing."""

import pytest

from shardmill.pipelines.nightly.recipe_values import format_duration, parse_days, parse_duration
from shardmill.transforms.options.declare import OptionValueError


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("30m", 1800), ("26h", 93_600), ("1.5h", 5400), ("30d", 2_592_000), ("2 w", 1_209_600)],
)
def test_units(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds
    assert parse_duration(seconds) == seconds


@pytest.mark.parametrize("text", ["26", "h", "-1h", "26 hours", "0h", "1e3h", "99999d", "1h30m", True, None])
def test_what_is_none(text: object) -> None:
    with pytest.raises(OptionValueError):
        parse_duration(text)


def test_days_are_whole() -> None:
    assert (parse_days("7d"), parse_days("1w"), parse_days("48h"), parse_days(7)) == (7, 7, 2, 7)
    with pytest.raises(OptionValueError, match="'36h' is not a number of whole days"):
        parse_days("36h")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((30, "30s"), (119, "119s"), (120, "2m"), (600, "10m"), (93_600, "26h"), (172_800, "2d"), (180_000, "50h")),
        *((216_000, "60h"), (2_592_000, "30d")),
    ],
)
def test_shown(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
