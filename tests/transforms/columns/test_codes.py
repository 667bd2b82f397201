"""Codes in few bytes."""

import numpy as np
import pytest

from shardmill.transforms.columns.arrow import narrow_codes


@pytest.mark.parametrize(("groups", "size"), [(0, 1), (1, 1), (256, 1), (257, 2), (1 << 16, 2), ((1 << 16) + 1, 4)])
def test_codes_stay_and_take_as_few_bytes_as_hold_them(groups: int, size: int) -> None:
    codes = np.array([0, groups - 1] if groups else [], np.int64)

    assert narrow_codes(codes, groups).tolist() == codes.tolist()
    assert narrow_codes(codes, groups).itemsize == size
