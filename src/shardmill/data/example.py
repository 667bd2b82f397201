"""Encode and decode serialized tf.train.Example messages without TensorFlow."""

from collections.abc import Callable, Collection, Iterable, Sequence
from functools import lru_cache

import numpy as np

FeatureValue = Sequence[bytes] | np.ndarray

BYTES, FLOAT, _INT64 = 1, 2, 3  # field numbers in `message Feature`
LIST_TAGS = {"bytes": 0x0A, "float32": 0x12, "int64": 0x1A}  # of those fields, by the dtype of their values
_VARINT, _DELIMITED, _FOUR_BYTES = 0, 2, 5  # wire types: protobuf.dev/programming-guides/encoding
_FIXED_BYTES = {_FOUR_BYTES: 4, 1: 8}  # by wire type
_ONE_BYTE = tuple(bytes((value,)) for value in range(0x80))  # varints below 128, by their value


def encode_varint(value: int) -> bytes:
    """Return the base-128 varint of an unsigned 64-bit `value`."""
    if value < 0x80:
        return _ONE_BYTE[value]
    if value < 1 << 14:  # the sizes of most images have two bytes or three: twice as fast without a loop
        return bytes((value & 0x7F | 0x80, value >> 7))
    if value < 1 << 21:
        return bytes((value & 0x7F | 0x80, value >> 7 & 0x7F | 0x80, value >> 14))
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _delimited(field: int, payload: bytes) -> bytes:
    return _ONE_BYTE[field << 3 | 2] + encode_varint(len(payload)) + payload


def encode_bytes_feature(values: Iterable[bytes]) -> bytes:
    """Return a serialized `Feature` with a bytes_list."""
    return _delimited(BYTES, b"".join(_delimited(1, value) for value in values))


def encode_int64_feature(values: Iterable[int]) -> bytes:
    """Return a serialized `Feature` with a packed int64_list; negative values take ten bytes, as in protobuf."""
    packed = b"".join(encode_varint(value & 0xFFFFFFFFFFFFFFFF) for value in values)
    return _delimited(_INT64, _delimited(1, packed) if packed else b"")


def encode_entry(name: str, feature: bytes) -> bytes:
    """Return one entry of `Features.feature`: `name` and a serialized `Feature`."""
    return _delimited(1, _key(name) + _delimited(2, feature))


def bytes_entry_header(name: str, size: int, field: int = BYTES) -> bytes:
    """Return the bytes before the payload in an entry whose bytes_list holds one value of `size` bytes.

    `bytes_entry_header(name, len(value)) + value == entry(name, bytes_feature([value]))`, without copying `value`.
    """
    value = encode_varint(size)
    size += 1 + len(value)  # from here on, the size of an enclosing message
    values = encode_varint(size)
    size += 1 + len(values)
    feature = encode_varint(size)
    key = _key(name)
    size += len(key) + 1 + len(feature)
    return b"".join(
        (b"\x0a", encode_varint(size), key, b"\x12", feature, _ONE_BYTE[field << 3 | 2], values, b"\x0a", value)
    )


@lru_cache(maxsize=4096)
def _key(name: str) -> bytes:
    return _delimited(1, name.encode())


def entry_prefix(name: str) -> bytes:
    """Return the bytes between the sizes of a feature's entry and of the feature."""
    return _key(name) + b"\x12"


def example_header(entries_size: int) -> bytes:
    """Return the bytes before `entries_size` bytes of entries in a serialized Example."""
    return b"\x0a" + encode_varint(entries_size)


def decode_example(record: bytes | memoryview, feature_names: Collection[str] | None = None) -> dict[str, FeatureValue]:
    """Parse a serialized Example to lists of bytes, int64 arrays and float32 arrays by feature name.

    As in protobuf, a later entry of a name replaces an earlier one, and unknown fields are skipped. A feature without a
    kind is absent, because TensorFlow's parsers treat it as missing.

    None as `feature_names` parses all. Raise a ValueError if `record` is not a serialized Example.
    """
    view = memoryview(record)
    features: dict[str, FeatureValue] = {}
    for field, payload in _delimited_fields(view):
        if field != 1:
            continue
        for inner_field, item in _delimited_fields(payload):
            if inner_field == 1:
                name, value = _decode_entry(item, feature_names)
                if value is None:
                    features.pop(name, None)
                else:
                    features[name] = value
    return features


EXAMPLE, SEQUENCE_EXAMPLE = "tf.train.Example", "tf.train.SequenceExample"
EXAMPLE_LIST = "tensorflow.serving.ExampleListWithContext"  # ELWC, as TensorFlow Ranking has it


def message_kind(record: bytes | memoryview) -> str:
    """Return the name of the message that a record is: of an Example, or one of those made of its parts; "" for others.

    protobuf parses a SequenceExample, an ELWC and others as an Example, of wrong features or of none, because it skips
    fields that it does not know.
    """
    view = memoryview(record)
    try:
        fields = [(field if wire == _DELIMITED else 0, payload) for field, wire, payload in fields_of(view)]
        parts = [[payload for field, payload in fields if field == number] for number in (1, 2)]
        is_known = len(fields) == sum(map(len, parts))
        if is_known and not parts[1] and all(map(_is_feature_map, parts[0])):
            return EXAMPLE
        if is_known and all(_has_only(part, _is_feature_map) for part in (*parts[0], *parts[1])):
            return EXAMPLE_LIST
        if parts[1]:
            return SEQUENCE_EXAMPLE if is_known and all(map(_is_feature_map, parts[0])) else ""
        return EXAMPLE if decode_example(view) else ""
    except ValueError:
        return ""


def _is_feature_map(view: memoryview) -> bool:
    """Return True if these are the features of an Example: entries of a name and a feature each."""
    return _has_only(view, lambda entry: [field for field, _, _ in fields_of(entry)] == [1, 2])


def _has_only(view: memoryview, is_right: Callable[[memoryview], bool]) -> bool:
    try:
        return all(field == 1 and wire == _DELIMITED and is_right(payload) for field, wire, payload in fields_of(view))
    except ValueError:
        return False


def _decode_entry(item: memoryview, feature_names: Collection[str] | None) -> tuple[str, FeatureValue | None]:
    name, value = "", memoryview(b"")
    for field, payload in _delimited_fields(item):
        if field == 1:
            name = str(payload, "utf-8")
        elif field == 2:
            value = payload
    result: FeatureValue | None = None
    if feature_names is not None and name not in feature_names:
        return name, None
    for kind, payload in _delimited_fields(value):
        if kind in (BYTES, FLOAT, _INT64):
            result = _decode_list(kind, payload)
    return name, result


def _decode_list(kind: int, payload: memoryview) -> FeatureValue:
    if kind == BYTES:
        return [bytes(value) for field, value in _delimited_fields(payload) if field == 1]
    wires = (_DELIMITED, _FOUR_BYTES if kind == FLOAT else _VARINT)  # a packed list, or single numbers
    packed = b"".join(bytes(value) for field, wire, value in fields_of(payload) if field == 1 and wire in wires)
    return np.frombuffer(packed, dtype="<f4") if kind == FLOAT else unpack_varints(packed)


def unpack_varints(packed: bytes | memoryview | np.ndarray) -> np.ndarray:
    """Decode packed base-128 varints to int64, shape (values,).

    Raise a ValueError if the last one is incomplete, or one has more than ten bytes.
    """
    data = np.frombuffer(packed, np.uint8)
    last = data < 0x80
    if last.all():
        return data.astype(np.int64)
    ends = np.flatnonzero(last) + 1
    if not last[-1]:
        raise ValueError("not a serialized Example: a varint without end")
    starts = np.zeros_like(ends)
    starts[1:] = ends[:-1]
    lengths = ends - starts
    if lengths.max() > 10:
        raise ValueError("not a serialized Example: a varint of more than ten bytes")
    shifts = (7 * (np.arange(len(data)) - np.repeat(starts, lengths))).astype(np.uint64)
    return np.add.reduceat((data & 0x7F).astype(np.uint64) << shifts, starts).view(np.int64)


def _delimited_fields(view: memoryview) -> Iterable[tuple[int, memoryview]]:
    """Yield the length-delimited fields of a message as (number, payload).

    protobuf treats a field whose wire type differs from its declaration as unknown and skips it.
    """
    return ((field, payload) for field, wire, payload in fields_of(view) if wire == _DELIMITED)


def fields_of(view: memoryview) -> Iterable[tuple[int, int, memoryview]]:
    """Yield the fields of a message as (number, wire type, payload); unpacked numbers are a varint, or 4 or 8 bytes."""
    position, end = 0, len(view)
    while position < end:
        tag, position = read_varint(view, position)
        wire = tag & 7
        if wire == _DELIMITED:
            size, position = read_varint(view, position)
        elif wire in _FIXED_BYTES:
            size = _FIXED_BYTES[wire]
        elif wire == _VARINT:
            _, stop = read_varint(view, position)
            size = stop - position
        else:
            raise ValueError(f"not a serialized Example: wire type {wire}")
        if position + size > end:
            raise ValueError(f"not a serialized Example: a field of {size} bytes where {end - position} are left")
        yield tag >> 3, wire, view[position : position + size]
        position += size


def read_varint(view: memoryview | bytes, position: int) -> tuple[int, int]:
    """Return the varint at a position, and the position after it; raise a ValueError if it has no end."""
    value = shift = 0
    while True:
        if position >= len(view) or shift > 63:
            raise ValueError("not a serialized Example: a varint without end")
        byte = view[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, position
        shift += 7
