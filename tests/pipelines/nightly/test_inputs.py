"""How old the newest input may be."""

import pytest

from shardmill.errors import ChecksError
from shardmill.pipelines.nightly.inputs import check_freshness
from shardmill.pipelines.nightly.recipe import FreshnessOptions

HOUR = 3600.0
NOW = 500_000 * HOUR
OPTIONS = FreshnessOptions(warn_after=26 * HOUR, error_after=50 * HOUR)


@pytest.mark.parametrize(
    ("age", "said"),
    [
        (0, None),
        (26 * HOUR, None),
        (26 * HOUR + 1, " UTC, 26h ago, more than freshness: warn_after 26h"),
        (50 * HOUR, "50h ago, more than freshness: warn_after 26h"),
        (-200, None),  # of a clock a little ahead of ours
        (-3 * HOUR, "3h from now: a clock is wrong"),
    ],
)
def test_what_is_said_of_its_age(age: float, said: str | None) -> None:
    found = check_freshness(NOW - age, OPTIONS, NOW)

    assert found is None if said is None else said in (found or "")


def test_a_source_that_stopped_is_an_error() -> None:
    with pytest.raises(ChecksError, match=r"ago; freshness: error_after .* has the source stopped\?"):
        check_freshness(NOW - 50 * HOUR - 1, OPTIONS, NOW)


@pytest.mark.parametrize("options", [FreshnessOptions(), FreshnessOptions(error_after=720_000 * HOUR)])
def test_nobody_asked(options: FreshnessOptions) -> None:
    assert check_freshness(NOW - 400_000 * HOUR, options, NOW) is None
    assert check_freshness(None, OPTIONS, NOW) is None
