"""shardmill.transforms.values.sequences: integers that sort as numbers and times do."""

import numpy as np
import pyarrow as pa
import pytest

from shardmill.transforms.values.sequences import order_keys

_LIMIT = 1 << 63


@pytest.mark.parametrize(
    "column",
    [
        pa.array([-_LIMIT, -5, -1, 0, 1, 7, _LIMIT - 1]),
        pa.array([-np.inf, -3e38, -1.5, -1e-45, 0, 1e-45, 2, np.inf], pa.float32()),
        pa.array([-np.inf, -1e300, -5e-324, 0, 5e-324, 1.7e9, 1.7e9 + 0.1, np.inf]),
        pa.array(
            [
                *(b"0001-01-01", b"1969-12-31T23:59:59.999999Z", b"1970-01-01", b"1970-01-01 00:00:00.000001"),
                *(b"2024-02-29T09:05", b"2024-02-29 09:05:00.5", b"2024-02-29T09:05:01Z", b"9999-12-31"),
            ],
            pa.large_binary(),
        ),
    ],
)
def test_they_sort_as_times_do(column: pa.Array) -> None:
    keys, none = order_keys(column)

    assert not none.any()
    assert (keys[1:] > keys[:-1]).all()


def test_equal_times_are_equal_however_they_are_spelled() -> None:
    texts = [b"2024-01-31", b"2024-01-31T00:00", b"2024-01-31 00:00:00Z", b"2024-01-31T00:00:00.000"]
    assert len(set(order_keys(pa.array(texts, pa.large_binary()))[0].tolist())) == 1
    zeros = order_keys(pa.array([0.0, -0.0], pa.float32()))[0]
    assert zeros[0] == zeros[1]


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"yesterday",
        b"12",
        b"2024-02-30",
        b"2024-1-5",
        b"2024-01-05T09:00+02:00",
        b"2024-01-05T25:00",
        b"05/01/2024",
    ],
)
def test_what_is_no_time(text: bytes) -> None:
    assert order_keys(pa.array([text, None], pa.large_binary()))[1].tolist() == [True, True]


def test_nan_is_no_time() -> None:
    assert order_keys(pa.array([1.0, np.nan, None], pa.float32()))[1].tolist() == [False, True, True]
