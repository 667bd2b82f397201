"""Contents in the order of sections."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shardmill.transforms.statistics.contents import PART_BITS, Contents, make_section, sort_by_split

ROW = st.tuples(st.integers(0, 299), st.integers(0, (1 << 64) - 1))  # more splits than a byte counts


@given(st.lists(ROW), st.booleans())
def test_contents_by_split_and_part(rows: list[tuple[int, int]], labelled: bool) -> None:
    places = np.arange(len(rows), dtype=np.uint64)
    high = np.array([value for _, value in rows], np.uint64)
    contents = Contents(high, ~high, places, places + np.uint64(1) if labelled else None)

    for split, mine in enumerate(sort_by_split(contents, np.array([split for split, _ in rows], np.int64), 300)):
        expected = sorted(
            ((value >> 64 - PART_BITS, place) for place, (other, value) in enumerate(rows) if other == split)
        )
        assert [
            (value >> 64 - PART_BITS, place) for value, place in zip(mine.high.tolist(), mine.positions.tolist())
        ] == expected
        assert mine.low.tolist() == (~mine.high).tolist()
        assert (mine.labels is None) is not labelled
        assert mine.labels is None or (mine.labels - 1).tolist() == mine.positions.tolist()
        if expected:
            section, parts = make_section(mine, "train", "path", 0, b"")
            begin = np.frombuffer(memoryview(parts[0]), "<u4").tolist()  # type: ignore[arg-type]
            assert begin == [sum(part < number for part, _ in expected) for number in range((1 << PART_BITS) + 1)]
            assert section.examples == len(expected)
