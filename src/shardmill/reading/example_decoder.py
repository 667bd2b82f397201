"""tf.train.Example to NumPy values, fast where an example looks as its data set's features say it should.

What stands before a feature's values is the same in every example, but for lengths, and these follow from the length of
the whole entry. So it is looked up by that and compared in one call. An example that does not fit, because another
writer put its features in another order for instance, is decoded by shardmill.records.example, and its order expected
next time.
"""

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from shardmill.features.arrays import fixed_sizes
from shardmill.features.feature import DType, Feature, Features
from shardmill.kinds.registry import kind_of
from shardmill.records.example import decode_example, varint

Read = Callable[[bytes, int, int], Any]  # values from (record, start, end); ValueError where they are not as expected

# Field numbers in `message Feature`
_TAGS: dict[DType, bytes] = {"bytes": b"\x0a", "float32": b"\x12", "int64": b"\x1a"}
_NO_ENTRY = b"\xff"  # no entry begins like that
_KNOWN_PREFIXES = 1 << 16  # remembered: some megabytes at most
_LENGTHS_BYTES = 17  # of three lengths and two tags at most, between a name and its values
_FLOAT = struct.Struct("<f")
_SMALL = list(np.arange(0x80))  # making a NumPy scalar takes longer than all else about it


class _Prefixes(dict[int, bytes]):
    """What precedes a feature's values, by the size of the whole entry; made when first looked up."""

    def __init__(self, feature: Feature) -> None:
        self._feature = feature

    def __missing__(self, size: int) -> bytes:
        if len(self) >= _KNOWN_PREFIXES:
            self.clear()
        prefix = self[size] = _prefix(self._feature, size)
        return prefix


# Name, whether it is required, how it is read: None if it is not wanted
_Plan = tuple[str, bool, Read | None, _Prefixes]


class ExampleDecoder:
    """Decodes serialized examples of known features.

    A scalar comes as np.int64, np.float32 or bytes; a list as an array of int64 or float32, or a list of bytes; what
    has more dimensions as an array of its shape, of objects if it holds bytes; an array as one of its elements. What is
    missing is absent.
    """

    def __init__(self, features: Features, wanted: Sequence[str] | None = None) -> None:
        """Decode the features called `wanted`, in the order of `features`; None for all."""
        self._features = {item.name: item for item in features}
        self._wanted = set(self._features if wanted is None else wanted)
        self._required = frozenset(item.name for item in features if item.required) & self._wanted
        self._plans = {item.name: _plan(item, item.name in self._wanted) for item in features}
        self._order = list(self._plans.values())

    def __call__(self, record: bytes) -> dict[str, Any]:
        """The wanted features of one serialized example.

        Raises:
          ValueError: it is not one, or a feature has not the type or number of values that it should; the message says
            which.
        """
        values = self._decode(record)
        return self._decode_any(record) if values is None else values

    def _decode(self, record: bytes) -> dict[str, Any] | None:
        """The fast way; None where an example is not as expected."""
        end = len(record)
        size, position = _length(record, 1, end)
        if end == 0 or record[0] != 0x0A or position + size != end:
            return None
        values: dict[str, Any] = {}
        try:
            for name, required, read, prefixes in self._order if position < end else ():
                size, start = record[position + 1], position + 2
                if size > 0x7F:
                    size, start = _length(record, position + 1, end)
                prefix = prefixes[size]
                if record.startswith(prefix, position):
                    stop = start + size
                    if read is not None:
                        values[name] = read(record, position + len(prefix), stop)
                    position = stop
                elif required:
                    return None
                if position >= end:
                    break
        except (IndexError, ValueError):
            return None
        return values if position == end and self._required <= values.keys() else None

    def _decode_any(self, record: bytes) -> dict[str, Any]:
        """The slow way, in whatever order the features come, which is the one expected from now on."""
        found = decode_example(record)
        order = [self._plans[name] for name in found if name in self._plans]
        if order != [plan for plan in self._order if plan[0] in found]:
            self._order = order + [plan for name, plan in self._plans.items() if name not in found]
        values = {}
        for name in self._plans:
            if name in self._wanted and name in found and (len(found[name]) or None in self._features[name].list_shape):
                values[name] = _checked(self._features[name], found[name])
            elif name in self._wanted and self._features[name].required:
                raise ValueError(f"feature {name!r} is missing")
        return values


def _checked(feature: Feature, values: Any) -> Any:
    """Values as shardmill.records.example decodes them, in their feature's form."""
    dtype = values.dtype.name if isinstance(values, np.ndarray) else "bytes"
    if len(values) and dtype != feature.dtype:
        raise ValueError(f"feature {feature.name!r} holds {dtype}; expected {feature.dtype}")
    count = 1 if _is_single(feature) else math.prod(fixed_sizes(feature))
    if None not in feature.list_shape and len(values) != count:
        raise ValueError(f"feature {feature.name!r} has {len(values)} values; expected {count}")
    if len(values) % max(count, 1):
        raise ValueError(f"feature {feature.name!r} has {len(values)} values; expected a multiple of {count}")
    if _is_single(feature):
        unpack = kind_of(feature).unpacker(feature)
        return values[0] if unpack is None else unpack(values[0])
    if len(feature.shape) == 1:
        return values if feature.dtype == "bytes" or len(values) else np.empty(0, feature.dtype)
    return _shaped(feature, values)


def _is_single(feature: Feature) -> bool:
    """Whether a feature's list holds one value."""
    return not feature.list_shape


def _shaped(feature: Feature, values: Any) -> np.ndarray:
    array: np.ndarray = np.array(values, object) if feature.dtype == "bytes" else np.asarray(values, feature.dtype)
    return array.reshape([-1 if size is None else size for size in feature.shape])


def _plan(feature: Feature, wanted: bool) -> _Plan:
    return feature.name, feature.required, _reader(feature) if wanted else None, _Prefixes(feature)


def _prefix(feature: Feature, size: int) -> bytes:
    """What precedes the values in an entry of `size` bytes: of a scalar's or an array's packed list, or a list of
    bytes."""
    listed = feature.dtype == "bytes" and not _is_single(feature)
    name = feature.name.encode()
    key = b"\x0a" + varint(len(name)) + name + b"\x12"
    most = size - len(key)
    for count in range(max(most - _LENGTHS_BYTES, 0), most + 1):
        inner = b"" if listed or (count == 0 and not _is_single(feature)) else b"\x0a" + varint(count)
        value = _TAGS[feature.dtype] + varint(len(inner) + count) + inner
        head = key + varint(len(value) + count) + value
        if len(head) + count == size:
            return b"\x0a" + varint(size) + head
    return _NO_ENTRY


def _length(record: bytes, position: int, end: int) -> tuple[int, int]:
    """The varint at `position`, and where it ends; (-1, end) where there is none."""
    value = shift = 0
    while position < end and shift < 35:
        byte = record[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
    return -1, end


def _reader(feature: Feature) -> Read:
    unpack = kind_of(feature).unpacker(feature)
    if unpack is not None:
        return lambda record, start, end: unpack(record[start:end])
    if not feature.shape:
        return _SCALARS[feature.dtype]
    count = None if None in feature.shape else math.prod(fixed_sizes(feature))
    values = partial(_LISTS[feature.dtype], count)
    return (
        values if len(feature.shape) == 1 else lambda record, start, end: _shaped(feature, values(record, start, end))
    )


def _one_bytes(record: bytes, start: int, end: int) -> bytes:
    return record[start:end]


def _one_float(record: bytes, start: int, end: int) -> Any:
    if end - start != 4:
        raise ValueError("not one float")
    return np.float32(_FLOAT.unpack_from(record, start)[0])


def _one_int(record: bytes, start: int, end: int) -> Any:
    if end - start == 1 and record[start] < 0x80:
        return _SMALL[record[start]]
    value = shift = 0
    for byte in record[start:end]:
        value |= (byte & 0x7F) << shift
        shift += 7
    # One value: only its last byte has no continuation bit.
    if end == start or end - start > 10 or record[end - 1] > 0x7F or min(record[start : end - 1]) < 0x80:
        raise ValueError("not one integer")
    value &= 0xFFFFFFFFFFFFFFFF
    return np.int64(value - (1 << 64) if value >> 63 else value)


def _floats(count: int | None, record: bytes, start: int, end: int) -> np.ndarray:
    values = np.frombuffer(record[start:end], "<f4")
    if count is not None and len(values) != count:
        raise ValueError("another number of floats")
    return values


def _ints(count: int | None, record: bytes, start: int, end: int) -> np.ndarray:
    values = unpack_varints(record[start:end])
    if count is not None and len(values) != count:
        raise ValueError("another number of integers")
    return values


def _strings(count: int | None, record: bytes, start: int, end: int) -> list[bytes]:
    values = []
    while start < end:
        size, first = _length(record, start + 1, end)
        if record[start] != 0x0A or size < 0 or first + size > end:
            raise ValueError("not a list of bytes")
        start = first + size
        values.append(record[first:start])
    if count is not None and len(values) != count:
        raise ValueError("another number of strings")
    return values


_SCALARS: Mapping[DType, Read] = {"bytes": _one_bytes, "float32": _one_float, "int64": _one_int}
_LISTS: Mapping[DType, Callable[..., Any]] = {"bytes": _strings, "float32": _floats, "int64": _ints}


def unpack_varints(packed: bytes) -> np.ndarray:
    """Packed base-128 varints as int64 (values,).

    Raises:
      ValueError: the last one has no end, or one has more than ten bytes.
    """
    data = np.frombuffer(packed, np.uint8)
    last = data < 0x80
    if last.all():
        return data.astype(np.int64)
    ends = np.flatnonzero(last) + 1
    if not last[-1]:
        raise ValueError("a varint without end")
    starts = np.zeros_like(ends)
    starts[1:] = ends[:-1]
    lengths = ends - starts
    if lengths.max() > 10:
        raise ValueError("a varint of more than ten bytes")
    shifts = (7 * (np.arange(len(data)) - np.repeat(starts, lengths))).astype(np.uint64)
    return np.add.reduceat((data & 0x7F).astype(np.uint64) << shifts, starts).view(np.int64)
