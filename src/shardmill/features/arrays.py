"""Arrays as an Example holds them, one bytes each: raw, little-endian and row-major; bytes beside NumPy."""

import math
from typing import Any

import numpy as np

from shardmill.features.feature import Feature

# NumPy's names of the types that an array's values may have.
ELEMENTS = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)


def element_type(feature: Feature) -> np.dtype[Any]:
    """The type of an array's values as they stand in its bytes."""
    return np.dtype(feature.element).newbyteorder("<")


def fixed_sizes(feature: Feature) -> tuple[int, ...]:
    """The sizes of a feature's shape but for a first one that is not fixed."""
    return tuple(size for size in feature.shape if size is not None)


def size_bytes(feature: Feature) -> int:
    """The length of an array's bytes; where the first size is not fixed, of what there is any number of."""
    return math.prod(fixed_sizes(feature)) * element_type(feature).itemsize


def to_bytes(feature: Feature, values: np.ndarray) -> bytes:
    """The bytes of an array."""
    return np.ascontiguousarray(values, element_type(feature)).tobytes()


def from_bytes(feature: Feature, data: bytes) -> np.ndarray:
    """The array that `data` is, read-only.

    Raises:
      ValueError: it has another length; the message names the feature.
    """
    if not has_length(feature, len(data)):
        raise ValueError(
            f"feature {feature.name!r} has {len(data)} bytes; expected {expected_bytes(feature)}, "
            f"for it is an array of {feature.element} {feature.shape}"
        )
    sizes = [-1 if size is None else size for size in feature.shape]
    return np.frombuffer(data, element_type(feature)).reshape(sizes)


def has_length(feature: Feature, length: int) -> bool:
    """Whether so many bytes can be an array."""
    return length % size_bytes(feature) == 0 if None in feature.shape else length == size_bytes(feature)


def expected_bytes(feature: Feature) -> str:
    """How many bytes an array has, in words."""
    return f"{'a multiple of ' if None in feature.shape else ''}{size_bytes(feature)}"
