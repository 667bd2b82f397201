"""Times of S3's answers: what botocore makes of them, in less time."""

from datetime import UTC, datetime

import pytest
from botocore.utils import parse_timestamp

from shardmill.transforms.stores.s3 import parse_time


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-19T02:03:04.000Z",
        "2026-11-19T02:03:04Z",
        "2026-11-19T02:03:04.567+01:00",
        "Thu, 19 Nov 2026 02:03:04 GMT",
        "19 November 2026 02:03:04 UTC",
        1_795_053_784,
    ],
)
def test_it_is_what_botocore_makes_of_it(text: str | int) -> None:
    assert parse_time(text) == parse_timestamp(text)
    assert parse_time(text).tzinfo is not None


def test_a_time_is_the_moment_it_names() -> None:
    for text in ("2026-11-19T02:03:04.000Z", "Thu, 19 Nov 2026 02:03:04 GMT"):
        assert parse_time(text) == datetime(2026, 11, 19, 2, 3, 4, tzinfo=UTC)


def test_what_is_no_time_is_refused() -> None:
    with pytest.raises(ValueError, match="Invalid timestamp"):
        parse_time("yesterday")
