"""Days in inputs and versions."""

from datetime import date
from pathlib import Path

import pytest

from shardmill.addons.nightly import recipe_values
from shardmill.flag_values import OptionValueError
from tests.support.later import Later

tfds_version = Later("tensorflow_datasets.core.utils.version")

DAY = date(2026, 3, 1)


def test_a_window_ends_with_its_day() -> None:
    assert [str(day) for day in recipe_values.days_up_to(DAY, 3)] == ["2026-02-27", "2026-02-28", "2026-03-01"]
    assert recipe_values.days_up_to(DAY, 1) == [DAY]


@pytest.mark.parametrize(
    ("text", "days", "glob"),
    [
        ("dt={YYYY}-{MM}-{DD}/*.csv", 1, "dt=2026-03-01/*.csv"),
        ("dt={YYYY}-{MM}-{DD}/*.csv", 2, "dt={2026-02-28,2026-03-01}/*.csv"),
        ("{YYYY}/{MM}/a-{DD}.csv", 2, "{2026/02/a-28,2026/03/a-01}.csv"),
        ("{YYYY}/*.csv", 2, "2026/*.csv"),
        ("photos", 2, "photos"),
    ],
)
def test_globs(text: str, days: int, glob: str) -> None:
    assert recipe_values.dated_glob(text, recipe_values.days_up_to(DAY, days)) == glob


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("1.0.{YYYY}{MM}{DD}", "1.0.20260301"),
        ("{YYYY}.{MM}.{DD}", "2026.3.1"),
        ("1.{YYYY}.{MM}{DD}", "1.2026.301"),
        ("1.0.3", "1.0.3"),
        ("auto", "auto"),
    ],
)
def test_versions_are_those_that_tfds_reads(text: str, version: str, tmp_path: Path) -> None:
    assert recipe_values.dated_version(text, DAY) == version
    if version != "auto":
        assert str(tfds_version.Version(version)) == version


def test_days_of_a_flag_and_what_is_no_part_of_a_date() -> None:
    assert recipe_values.unknown_date_word("dt={YYYY}-{M}/{a,b}/*") == "{M}"
    assert recipe_values.unknown_date_word("dt={YYYY}-{MM}/{a,b}/*") is None
    assert recipe_values.parse_date("2026-03-01") == DAY
    for text in ("2026-02-30", "20260301", "yesterday", ""):
        with pytest.raises(OptionValueError, match="is not a day; expected year, month and day"):
            recipe_values.parse_date(text)
