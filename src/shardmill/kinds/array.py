"""`array`: numbers of one type and shape as one bytes, raw, little-endian and row-major."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

from shardmill.features.arrays import expected_bytes, fixed_sizes, from_bytes, has_length, size_bytes, to_bytes
from shardmill.features.feature import Feature
from shardmill.installation.lazy_tensorflow import tf
from shardmill.kinds import tfds_entries
from shardmill.kinds.base import Entry, FeatureKind
from shardmill.kinds.notes import shape_of
from shardmill.records.example import FeatureValue

# What TFDS cannot read out of bytes: it is tf.io.decode_raw's, but for uint64, which TFDS reads as int64 and casts.
_UNREADABLE_ELEMENTS = ("uint32",)
# What tf.io.decode_raw knows in place of what it does not; a bool's byte would be taken as it is.
_READ_AS = {"bool": "uint8", "uint32": "int32", "uint64": "int64"}


class ArrayKind(FeatureKind):
    """Arrays of one shape, whose first size may differ."""

    name = "array"
    input_rank = 2
    in_columns = False
    bytes_are_strings = False

    def tfds(self, feature: Feature) -> Entry:
        """A Tensor encoded as bytes, where TFDS can read its type; else the bytes."""
        if feature.is_dense and feature.element not in _UNREADABLE_ELEMENTS:
            return tfds_entries.tensor(feature.shape, feature.element, "bytes")
        return super().tfds(feature)

    def annotate(self, proto: Any, feature: Feature) -> None:
        """The type of the values, which no field is for."""
        proto.annotation.tag.append(f"element:{feature.element}")

    def from_schema(self, proto: Any, plain: Feature, notes: Mapping[str, str]) -> Feature | None:
        """Bytes noted to have a shape and a type."""
        if plain.dtype != "bytes" or not {"shape", "element"} <= notes.keys():
            return None
        return replace(plain, kind=self.name, shape=shape_of(notes["shape"]), element=notes["element"])

    def value_faults(self, feature: Feature, values: FeatureValue) -> list[str]:
        """Bytes of another length."""
        return [
            f"feature {feature.name!r} holds {len(value)} bytes; expected {expected_bytes(feature)}"
            for value in cast(Sequence[bytes], values)
            if not has_length(feature, len(value))
        ]

    def shown(self, feature: Feature, value: Any) -> str | None:
        """The type and shape of the values."""
        if not isinstance(value, bytes):
            return None
        first = (len(value) // size_bytes(feature),) if None in feature.shape else ()
        return f"{feature.element} of {' x '.join(map(str, (*first, *fixed_sizes(feature)) or (1,)))}"

    def words(self, feature: Feature) -> str:
        """The type of the values."""
        return f"array of {feature.element}"

    def unpacker(self, feature: Feature) -> Callable[[bytes], Any] | None:
        """The array in the bytes."""
        return partial(from_bytes, feature)

    def stored(self, feature: Feature, default: Any) -> Any:
        """The bytes of the default."""
        return to_bytes(feature, default)

    def to_tensor(self, feature: Feature, parsed: Any) -> Any:
        """A batch of arrays, (batch, *shape); ragged in the second dimension where the first size differs."""
        if None in feature.shape:
            return _ragged(feature, parsed)
        size, shape = size_bytes(feature), fixed_sizes(feature)
        message = (
            f"feature {feature.name!r} is an array of {feature.element} {shape}, {size} bytes; some examples have other"
            " lengths"
        )
        with tf.control_dependencies([tf.debugging.assert_equal(tf.strings.length(parsed), size, message)]):
            array = tf.reshape(_raw(feature, parsed), (tf.size(parsed), *shape))
        array.set_shape((parsed.shape[0], *shape))
        return _typed(feature, array)


def _raw(feature: Feature, data: Any) -> Any:
    return tf.io.decode_raw(data, _READ_AS.get(feature.element, feature.element))


def _typed(feature: Feature, array: Any) -> Any:
    """An array in its type, of what decode_raw knows in its place."""
    if feature.element not in _READ_AS:
        return array
    return tf.cast(array, tf.bool) if feature.element == "bool" else tf.bitcast(array, feature.element)


def _ragged(feature: Feature, parsed: Any) -> Any:
    """The rows of all arrays of a batch, one behind the other, (batch, None, *sizes)."""
    unit = tf.constant(size_bytes(feature), tf.int64)
    lengths = tf.cast(tf.strings.length(parsed), tf.int64)
    message = (
        f"feature {feature.name!r} is an array of {feature.element} {feature.shape}, {size_bytes(feature)} bytes for"
        " each of the first size; some examples have other lengths"
    )
    with tf.control_dependencies([tf.debugging.assert_equal(lengths % unit, tf.zeros((), tf.int64), message)]):
        rows = tf.reshape(_raw(feature, tf.strings.reduce_join(parsed)), (-1, *fixed_sizes(feature)))
    return tf.RaggedTensor.from_row_lengths(_typed(feature, rows), lengths // unit, validate=False)
