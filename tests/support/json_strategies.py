"""Values of JSON for property tests: common ones, and those at the edges of types."""

from typing import Any

from hypothesis import strategies as st

NUMBERS = st.one_of(
    st.integers(-3, 3),
    st.integers(-(1 << 70), 1 << 70),
    st.sampled_from([(1 << 63) - 1, 1 << 63, -(1 << 63), -(1 << 63) - 1, 1e38, 4e38, 1e19, 9.3e18, 0.1, -0.0, 1e300]),
)
SCALARS = st.one_of(NUMBERS, st.booleans(), st.sampled_from(["", "a", "ä\0", "1"]))
ODD: list[Any] = [{}, [None], [[1]], [[2]], [[1, 2]], [[1], [2]], [[1], 2], [[]], [{}]]
VALUES: st.SearchStrategy[Any] = st.one_of(
    SCALARS, SCALARS, st.none(), st.lists(SCALARS, max_size=3), st.sampled_from(ODD)
)
