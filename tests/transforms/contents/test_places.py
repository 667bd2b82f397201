"""Places: file and line are found again from their hash."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from transforms.contents.places import find_place, place_of, places_of


@given(st.sets(st.text(max_size=8), min_size=1), st.integers(0, 1 << 40), st.data())
def test_a_place_is_found_again(names: set[str], line: int, data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(names)))
    (place,) = place_of(name, np.array([line])).tolist()

    assert find_place(place, names) == (name, line)
    assert places_of([name, "another"], np.array([line, 7])).tolist() == [place, *place_of("another", np.array([7]))]
