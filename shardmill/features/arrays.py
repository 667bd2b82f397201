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
    """The length of an array's bytes."""
    return math.prod(fixed_sizes(feature)) * element_type(feature).itemsize


def to_bytes(feature: Feature, values: np.ndarray) -> bytes:
    """The bytes of an array."""
    return np.ascontiguousarray(values, element_type(feature)).tobytes()


def from_bytes(feature: Feature, data: bytes) -> np.ndarray:
    """The array that `data` is, read-only.

    Raises:
      ValueError: it has another length; the message names the feature.
    """
    if len(data) != size_bytes(feature):
        raise ValueError(
            f"feature {feature.name!r} has {len(data)} bytes; expected {size_bytes(feature)}, "
            f"for it is an array of {feature.element} {feature.shape}"
        )
    return np.frombuffer(data, element_type(feature)).reshape(fixed_sizes(feature))
