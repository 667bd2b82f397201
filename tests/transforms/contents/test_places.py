"""Places: file and line are found again from their hash."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shardmill.transforms.statistics.contents import combine_with_lines, hash_file_names, hash_lines, invert_positions


@given(
    st.sets(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8), min_size=1),
    st.lists(st.integers(0, 1 << 40), unique=True),
    st.data(),
)
def test_places_are_found_again(names: set[str], lines: list[int], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(names)))
    places = hash_lines(name, np.array(lines, np.int64)).tolist()

    blob = "\0".join(sorted(names)).encode()
    assert invert_positions(places, blob) == {place: (name, line) for place, line in zip(places, lines, strict=True)}
    hashes = hash_file_names([name] * len(lines) + ["another"])
    assert combine_with_lines(hashes, np.array([*lines, 7])).tolist() == [
        *places,
        *hash_lines("another", np.array([7])),
    ]
