"""Rows of each group."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from transforms.sharding.group_rows import rows_of


@given(st.lists(st.integers(0, 4)), st.integers(5, 7))
def test_rows_are_those_with_the_code(codes: list[int], groups: int) -> None:
    found = rows_of(np.array(codes, np.int64), groups)
    assert [rows.tolist() for rows in found] == [
        [row for row, code in enumerate(codes) if code == group] for group in range(groups)
    ]
