"""Places: file and line are found again from their hash."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from shardmill.transforms.contents.places import find_places, hashes_of, place_of, places_of


@given(
    st.sets(st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=8), min_size=1),
    st.lists(st.integers(0, 1 << 40), unique=True),
    st.data(),
)
def test_places_are_found_again(names: set[str], lines: list[int], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(names)))
    places = place_of(name, np.array(lines, np.int64)).tolist()

    blob = "\0".join(sorted(names)).encode()
    assert find_places(places, blob) == {place: (name, line) for place, line in zip(places, lines, strict=True)}
    hashes = hashes_of([name] * len(lines) + ["another"])
    assert places_of(hashes, np.array([*lines, 7])).tolist() == [*places, *place_of("another", np.array([7]))]
