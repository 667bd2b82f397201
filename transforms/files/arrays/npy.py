"""Arrays in NumPy's format, .npy: their type, and their values as raw bytes, little-endian and row-major. Pure.

Source: numpy.lib.format, whose reader of headers this uses. Pickles are never loaded.
"""

import io
import math
import warnings
from dataclasses import dataclass

import numpy as np
from numpy.lib import format as npy

from shardmill.transforms.columns.nested import in_words
from shardmill.transforms.files.arrays.limits import ELEMENTS, MAX_DIMENSIONS
from shardmill.transforms.stores.error_text import error_text

HEADER_BYTES = 1 << 16  # a header of numbers is 128; one of 10,000 is refused by NumPy
_SHOWN = 20  # bytes of what is no .npy file


class NpyError(ValueError):
    """A file that holds no array that can be read, as it will stand in rejects/."""


@dataclass(frozen=True, slots=True)
class ArrayType:
    """What all arrays of a data set are: `element`, one of ELEMENTS, and shape, whose first size may be None where it
    differs."""

    element: str
    shape: tuple[int | None, ...]

    def __str__(self) -> str:
        return f"{self.element} of {in_words(self.shape)}" if self.shape else f"a single {self.element}"

    @property
    def sizes(self) -> tuple[int, ...]:
        """The shape without a first size that differs."""
        return tuple(size for size in self.shape if size is not None)

    @property
    def size_bytes(self) -> int:
        """Of the values; where the first size differs, of what there is any number of."""
        return math.prod(self.sizes) * np.dtype(self.element).itemsize

    def holds(self, other: "ArrayType") -> bool:
        """Whether an array of type `other` is one of these."""
        if None not in self.shape:
            return self == other
        return self.element == other.element and len(other.shape) > 0 and (None, *other.shape[1:]) == self.shape


@dataclass(frozen=True, slots=True)
class Header:
    """What a .npy file says of the values behind its header.

    Attributes:
      type: theirs.
      dtype: theirs as stored, in either order of bytes.
      column_major: whether they are in Fortran's order.
      offset: where they begin.
    """

    type: ArrayType
    dtype: "np.dtype[np.generic]"
    column_major: bool
    offset: int


def read_header(data: bytes) -> Header:
    """The header of a .npy file that begins with `data`, HEADER_BYTES of it or all.

    Raises:
      NpyError: it is none, or of an array that cannot be in a data set.
    """
    if not data.startswith(npy.MAGIC_PREFIX):
        raise NpyError(_what_else(data))
    file = io.BytesIO(data)
    try:
        with warnings.catch_warnings(action="ignore"):  # of headers that Python 2 wrote
            version = npy.read_magic(file)
            if version not in ((1, 0), (2, 0), (3, 0)):
                raise NpyError(f".npy of version {version[0]}.{version[1]}; expected 1.0, 2.0 or 3.0")
            # Version 3 differs from 2 in the names of structured types alone, which are refused.
            read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
            shape, column_major, dtype = read(file)
    except NpyError:
        raise
    except Exception as error:  # NumPy evaluates the header as Python, which fails in many ways
        raise NpyError(f"its header cannot be read: {error_text(error)[:100]}") from None
    return Header(_checked_type(dtype, shape), dtype, column_major, file.tell())


def expected_in_words(expected: ArrayType, example: str) -> str:
    """What is expected, and why: by the file called `example`, or, where that is "", by the user's word."""
    return f"expected {expected}, as {f'in {example}' if example else '--shape and --dtype say'}"


def read_array(data: bytes, expected: ArrayType | None = None, example: str = "") -> bytes:
    """The values of the array in a .npy file, little-endian and row-major.

    Args:
      data: the whole file.
      expected: the type it must have; None for any.
      example: as expected_in_words has it.

    Raises:
      NpyError: there is no such array in it.
    """
    header = read_header(data)
    if expected is not None and not expected.holds(header.type):
        raise NpyError(f"{header.type}; {expected_in_words(expected, example)}")
    more = len(data) - header.offset - header.type.size_bytes
    if more < 0:
        raise NpyError(f"truncated: {-more:,} of the {header.type.size_bytes:,} bytes of {header.type} are missing")
    if more:
        raise NpyError(f"{more:,} bytes follow {header.type}; expected one array and no more")
    wanted = header.dtype.newbyteorder("<")
    if header.dtype == wanted and not (header.column_major and len(header.type.shape) > 1):
        return data[header.offset :]
    array = np.frombuffer(data, header.dtype, offset=header.offset)
    shaped = array.reshape(header.type.sizes, order="F" if header.column_major else "C")
    return shaped.astype(wanted, order="C").tobytes()


def _checked_type(dtype: "np.dtype[np.generic]", shape: tuple[int, ...]) -> ArrayType:
    if dtype.kind not in "biufc" or dtype.subdtype is not None:
        raise NpyError(f"an array of dtype {str(dtype)[:40]}; only numbers and booleans can be read")
    if dtype.name not in ELEMENTS:
        raise NpyError(
            f"an array of {dtype.name}, which tf.io.decode_raw does not read; expected one of {', '.join(ELEMENTS)}"
        )
    found = ArrayType(dtype.name, tuple(map(int, shape)))
    if any(size < 0 for size in found.sizes):
        raise NpyError(f"its header claims {found}")
    if len(found.shape) > MAX_DIMENSIONS:
        raise NpyError(f"an array of {len(found.shape)} dimensions; expected {MAX_DIMENSIONS} at most")
    if 0 in found.shape:
        raise NpyError(f"{found} holds no values")
    return found


def _what_else(data: bytes) -> str:
    """What a file is that is no .npy."""
    if not data:
        return "the file is empty"
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return "not .npy, but .npz or another archive; save each array in a file of its own"
    if data.startswith(b"\x80") and data[1:2] <= b"\x05":
        return "not .npy, but a pickle, which may run code and is never loaded; save the array with numpy.save"
    return f"not .npy: it begins with {ascii(data[:_SHOWN])[1:]}"
