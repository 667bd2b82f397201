"""The .npy reader beside NumPy's own writer, and everything that is no array of numbers."""

import io
import pickle
import struct
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from shardmill.transforms.files.arrays import HEADER_BYTES, ArrayType, NpyError, read_array, read_header
from shardmill.transforms.options.image_options import ELEMENTS


def npy(array: Any, version: tuple[int, int] | None = None, allow_pickle: bool = False) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asanyarray(array), version, allow_pickle)
    return out.getvalue()


def with_header(text: str, version: int = 1, data: bytes = b"") -> bytes:
    """A .npy file with a header of one's own."""
    header = text.encode("latin-1")
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(header)) + header + data


@given(
    st.sampled_from(ELEMENTS).flatmap(
        lambda name: arrays.arrays(np.dtype(name), arrays.array_shapes(min_dims=0, max_dims=4, min_side=1, max_side=4))
    ),
    st.sampled_from("CF"),
    st.sampled_from("<>"),
    st.sampled_from([(1, 0), (2, 0), (3, 0)]),
)
@settings(max_examples=100, deadline=None)
def test_any_array_in_any_order_of_axes_and_bytes(
    array: np.ndarray, axes: Any, order: Any, version: tuple[int, int]
) -> None:
    data = npy(np.asarray(array, array.dtype.newbyteorder(order), order=axes), version)
    header = read_header(data[:HEADER_BYTES])

    assert header.type == ArrayType(array.dtype.name, array.shape)
    assert header.type.size_bytes == array.nbytes
    assert read_array(data, header.type) == read_array(data) == array.astype(array.dtype.newbyteorder("<")).tobytes("C")


def test_tensorflow_reads_each_type() -> None:
    import tensorflow as tf

    for element in ELEMENTS:
        array = np.array([[0, 1, 1], [1, 0, 1]], element)
        decoded = tf.reshape(
            tf.io.decode_raw(read_array(npy(np.asfortranarray(array))), tf.as_dtype(element)), array.shape
        )
        assert np.array_equal(decoded.numpy(), array)


@pytest.mark.parametrize(
    ("array_type", "words", "size"),
    [
        (ArrayType("float32", (64, 64)), "float32 of 64 x 64", 16384),
        (ArrayType("int64", (3,)), "int64 of 3", 24),
        (ArrayType("bool", ()), "a single bool", 1),
    ],
)
def test_words(array_type: ArrayType, words: str, size: int) -> None:
    assert (str(array_type), array_type.size_bytes) == (words, size)


class Bomb:
    """What must never be unpickled."""

    def __reduce__(self) -> Any:
        return pytest.fail, ("a pickle was loaded",)


GOOD = npy(np.arange(12, dtype=np.int64).reshape(3, 4))
ZIPPED = io.BytesIO()
np.savez(ZIPPED, a=np.zeros(3))
BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "the file is empty"),
    "text": (b"hello\nworld", "not .npy: it begins with 'hello\\nworld'"),
    "a JPEG": (b"\xff\xd8\xff\xe0" + bytes(100), "not .npy: it begins with '\\xff\\xd8\\xff\\xe0"),
    "npz": (ZIPPED.getvalue(), "not .npy, but .npz or another archive"),
    "a pickle": (pickle.dumps(Bomb()), "not .npy, but a pickle"),
    "magic alone": (GOOD[:6], "its header cannot be read"),
    "half a header": (GOOD[:40], "its header cannot be read"),
    "another version": (b"\x93NUMPY\x07\x00" + GOOD[8:], ".npy of version 7.0; expected 1.0, 2.0 or 3.0"),
    "cut off": (GOOD[:-1], "truncated: 1 of the 96 bytes of int64 of 3 x 4 are missing"),
    "no values": (GOOD[:128], "truncated: 96 of the 96 bytes"),
    "two arrays": (GOOD + GOOD, f"{len(GOOD)} bytes follow int64 of 3 x 4; expected one array and no more"),
    "objects": (
        npy(np.array([Bomb()], object), allow_pickle=True),
        "an array of dtype object; only numbers and booleans",
    ),
    "strings": (npy(np.array(["a", "bc"])), "an array of dtype <U2; only numbers and booleans"),
    "bytes": (npy(np.array([b"a"])), "an array of dtype |S1; only"),
    "dates": (npy(np.array(["2024-02-29"], "M8[D]")), "an array of dtype datetime64[D]; only"),
    "a structure": (npy(np.zeros(2, "i4,f4")), "an array of dtype [('f0', '<i4'), ('f1', '<f4')]; only"),
    "names beyond latin-1": (npy(np.zeros(2, [("ж", "i4")]), (3, 0)), "an array of dtype [("),
    "uint32": (
        npy(np.zeros(2, np.uint32)),
        "an array of uint32, which tf.io.decode_raw does not read; expected one of float16",
    ),
    "uint64": (npy(np.zeros(2, np.uint64)), "an array of uint64, which"),
    "longdouble": (npy(np.zeros(2, np.longdouble)), "an array of float128, which"),
    "no size": (npy(np.zeros((0, 4), np.float32)), "float32 of 0 x 4 holds no values"),
    "a claim": (
        with_header("{'descr': '<f4', 'fortran_order': True, 'shape': (1000000, 1000000)}"),
        "truncated: 4,000,000,000,000 of the 4,000,000,000,000 bytes of float32 of 1000000 x 1000000",
    ),
    "less than nothing": (
        with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (-1, 4)}"),
        "its header claims float32 of -1",
    ),
    "dimensions": (
        with_header(f"{{'descr': '<f4', 'fortran_order': False, 'shape': {(1,) * 99}}}"),
        "an array of 99 dimensions",
    ),
    "code": (with_header("__import__('os').system('false')"), "its header cannot be read"),
    "nesting": (with_header("(" * 9000), "its header cannot be read"),
    "unbalanced": (with_header("{'descr': ("), "its header cannot be read"),
    "other keys": (with_header("{'shape': (1,)}"), "its header cannot be read"),
    "a size that is no number": (
        with_header("{'descr': '<f4', 'fortran_order': False, 'shape': ('a',)}"),
        "its header cannot",
    ),
    "no type": (with_header("{'descr': '<q9', 'fortran_order': False, 'shape': (1,)}"), "its header cannot be read"),
    "a long header": (with_header(" " * 60_000), "its header cannot be read"),
    "a header of 4 GB": (b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}", "its header cannot be read"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_array(name: str) -> None:
    data, sentence = BAD[name]

    with pytest.raises(NpyError) as error:
        read_array(data)
    assert str(error.value).startswith(sentence), str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "array", [np.zeros((64, 65), np.float32), np.zeros((64, 64), np.float64), np.zeros(4096, np.float32)]
)
def test_arrays_of_another_type(array: np.ndarray) -> None:
    shape = " x ".join(map(str, array.shape))

    with pytest.raises(NpyError, match=f"^{array.dtype} of {shape}; expected float32 of 64 x 64, as in a.npy$"):
        read_array(npy(array), ArrayType("float32", (64, 64)), "a.npy")


def test_a_header_of_python_2(recwarn: pytest.WarningsRecorder) -> None:
    data = with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2L,)}", data=bytes(8))

    assert read_header(data).type == ArrayType("float32", (2,))
    assert not recwarn.list


@given(st.binary(max_size=60), st.integers(1, 3))
@settings(max_examples=100, deadline=None)
def test_noise_behind_the_magic(noise: bytes, version: int) -> None:
    begun, disturbed = b"\x93NUMPY" + bytes([version, 0]) + noise, GOOD[:20] + noise + GOOD[20 + len(noise) :]
    for data in (noise, b"\x93NUMPY" + noise, begun, disturbed):
        with suppress(NpyError):
            assert isinstance(read_array(data), bytes)
