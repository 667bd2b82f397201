"""Arrays as raw bytes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

from shardmill.data.feature_kind import ELEMENT_TYPES, array_from_bytes, array_size_bytes, array_to_bytes, element_type
from shardmill.data.features import Feature


@given(st.data(), st.sampled_from(ELEMENT_TYPES), st_numpy.array_shapes(min_dims=0, min_side=0))
def test_round_trip(data: st.DataObject, element: str, shape: tuple[int, ...]) -> None:
    feature = Feature("a", "bytes", "array", shape, element=element)
    array = data.draw(st_numpy.arrays(element, shape))

    raw = array_to_bytes(feature, array)
    found = array_from_bytes(feature, raw)

    assert (found.dtype.name, found.shape, len(raw)) == (element, shape, array_size_bytes(feature))
    assert found.tobytes() == array.tobytes()


def test_bytes_are_little_endian_and_row_major() -> None:
    feature = Feature("a", "bytes", "array", (2, 2), element="uint16")
    expected = bytes([1, 0, 2, 0, 3, 0, 4, 1])

    for array in (np.array([[1, 2], [3, 260]], ">u2"), np.asfortranarray(np.array([[1, 2], [3, 260]], "<u2"))):
        assert array_to_bytes(feature, array) == expected
    assert array_from_bytes(feature, expected).tolist() == [[1, 2], [3, 260]]
    assert element_type(feature) == np.dtype("<u2")


@pytest.mark.parametrize("data", [b"", b"1234567", b"123456789"])
def test_another_length_is_an_error(data: bytes) -> None:
    with pytest.raises(
        ValueError, match=rf"feature 'a' has {len(data)} bytes; expected 8, for it is an array of uint16 \(2, 2\)"
    ):
        array_from_bytes(Feature("a", "bytes", "array", (2, 2), element="uint16"), data)
