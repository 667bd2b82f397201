"""Encode tf.train.Example in plain Python, apart from the compiled encoder that jobs use."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from shardmill.data import example


def encode_float_feature(values: Iterable[float]) -> bytes:
    """Return a serialized `Feature` with a packed float_list (float32, little-endian)."""
    packed = np.asarray(list(values), dtype="<f4").tobytes()
    value = b"\x0a" + example.encode_varint(len(packed)) + packed if packed else b""
    return b"\x12" + example.encode_varint(len(value)) + value


def encode_example(features: Mapping[str, Sequence[bytes] | Sequence[int] | Sequence[float] | np.ndarray]) -> bytes:
    """Serialize an Example from lists of bytes, and arrays of integers or floats, by feature name.

    Raises:
        TypeError: if a feature has another type; the message names it.
    """
    entries = b"".join(example.encode_entry(name, _encode_feature(name, values)) for name, values in features.items())
    return example.example_header(len(entries)) + entries


def _encode_feature(name: str, values: Sequence[bytes] | Sequence[int] | Sequence[float] | np.ndarray) -> bytes:
    if len(values) and isinstance(values[0], bytes):
        return example.encode_bytes_feature(values)  # type: ignore[arg-type]
    array = np.asarray(values)
    if array.dtype.kind in "iub":
        return example.encode_int64_feature(int(value) for value in array)
    if array.dtype.kind == "f":
        return encode_float_feature(array.tolist())
    raise TypeError(f"feature {name!r} holds {array.dtype}; expected bytes, integers or floats")
