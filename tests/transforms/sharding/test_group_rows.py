"""Rows of each group."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shardmill.transforms.shards.balance import rows_by_group


@given(st.lists(st.integers(0, 4)), st.integers(5, 7))
def test_rows_are_those_with_the_code(codes: list[int], groups: int) -> None:
    found = rows_by_group(np.array(codes, np.int64), groups)
    assert [rows.tolist() for rows in found] == [
        [row for row, code in enumerate(codes) if code == group] for group in range(groups)
    ]


class Counted(np.ndarray):
    """An array that counts the values that are computed with."""

    values = 0

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **more: Any) -> Any:
        Counted.values += sum(map(np.size, inputs))
        return getattr(ufunc, method)(*map(np.asarray, inputs), **more)


def test_a_thousand_groups_cost_what_one_does() -> None:
    codes = np.arange(1000).view(Counted)
    assert (codes == 1).sum() == 1
    assert Counted.values == 1001
    rows_by_group(codes, 1000)
    assert Counted.values <= 10 * 1000  # a look at all rows for each group is a million
