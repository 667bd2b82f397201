"""Feature kinds: booleans, texts, class labels, bounding boxes, arrays, images, masks and audio."""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal, cast

import numpy as np

from shardmill.data import feature_kind
from shardmill.data.example import FeatureValue
from shardmill.data.feature_kind import (
    Entry,
    FeatureKind,
    array_from_bytes,
    array_size_bytes,
    array_to_bytes,
    describe_array_size,
    entry_shape,
    fixed_sizes,
    has_array_length,
    make_entry,
    parse_shape_note,
)
from shardmill.data.features import MAX_PIXELS, DType, Feature, Kind
from shardmill.data.media import WavError, decode_to_array, decode_wav_tensor, mask_array, read_header, rgb_array
from shardmill.installed import tf
from shardmill.text import plural

# What TFDS cannot read out of bytes: it is tf.io.decode_raw's, but for uint64, which TFDS reads as int64 and casts.
_UNREADABLE_ELEMENTS = ("uint32",)
# What tf.io.decode_raw knows in place of what it does not; a bool's byte would be taken as it is.
_READ_AS = {"bool": "uint8", "uint32": "int32", "uint64": "int64"}


class ArrayKind(FeatureKind):
    """Feature kind: arrays of one shape, whose first size may vary."""

    name = "array"
    input_rank = 2
    in_columns = False
    bytes_are_strings = False

    def tfds_entry(self, feature: Feature) -> Entry:
        """Return a Tensor encoded as bytes if TFDS can read the element type, else an entry for plain bytes."""
        if feature.is_dense and feature.element not in _UNREADABLE_ELEMENTS:
            return feature_kind.tensor_entry(feature.shape, feature.element, "bytes")
        return super().tfds_entry(feature)

    def annotate(self, proto: Any, feature: Feature) -> None:
        proto.annotation.tag.append(f"element:{feature.element}")

    def from_schema(self, proto: Any, plain: Feature, notes: Mapping[str, str]) -> Feature | None:
        if plain.dtype != "bytes" or not {"shape", "element"} <= notes.keys():
            return None
        return replace(plain, kind=self.name, shape=parse_shape_note(notes["shape"]), element=notes["element"])

    def find_value_faults(self, feature: Feature, values: FeatureValue) -> list[str]:
        return [
            f"feature {feature.name!r} holds {len(value)} bytes; expected {describe_array_size(feature)}"
            for value in cast(Sequence[bytes], values)
            if not has_array_length(feature, len(value))
        ]

    def format_value(self, feature: Feature, value: Any) -> str | None:
        if not isinstance(value, bytes):
            return None
        first = (len(value) // array_size_bytes(feature),) if None in feature.shape else ()
        return f"{feature.element} of {' x '.join(map(str, (*first, *fixed_sizes(feature)) or (1,)))}"

    def describe(self, feature: Feature) -> str:
        return f"array of {feature.element}"

    def value_decoder(self, feature: Feature) -> Callable[[bytes], Any] | None:
        return partial(array_from_bytes, feature)

    def to_value_list(self, feature: Feature, default: Any) -> Any:
        return array_to_bytes(feature, default)

    def to_tensor(self, feature: Feature, parsed: Any) -> Any:
        """Return a batch of arrays, (batch, *shape); ragged in the second dimension if the first size varies."""
        if None in feature.shape:
            return _to_ragged(feature, parsed)
        size, shape = array_size_bytes(feature), fixed_sizes(feature)
        message = _length_message(feature, f"{shape}, {size} bytes")
        with tf.control_dependencies([tf.debugging.assert_equal(tf.strings.length(parsed), size, message)]):
            array = tf.reshape(_decode_raw(feature, parsed), (tf.size(parsed), *shape))
        array.set_shape((parsed.shape[0], *shape))
        return _cast_to_element_type(feature, array)


def _length_message(feature: Feature, size: str) -> str:
    return f"feature {feature.name!r} is an array of {feature.element} {size}; some examples have other lengths"


def _decode_raw(feature: Feature, data: Any) -> Any:
    return tf.io.decode_raw(data, _READ_AS.get(feature.element, feature.element))


def _cast_to_element_type(feature: Feature, array: Any) -> Any:
    if feature.element not in _READ_AS:
        return array
    return tf.cast(array, tf.bool) if feature.element == "bool" else tf.bitcast(array, feature.element)


def _to_ragged(feature: Feature, parsed: Any) -> Any:
    """Return the rows of all arrays of a batch, concatenated, as a ragged tensor (batch, None, *sizes)."""
    unit = tf.constant(array_size_bytes(feature), tf.int64)
    lengths = tf.cast(tf.strings.length(parsed), tf.int64)
    size = f"{feature.shape}, {array_size_bytes(feature)} bytes for each of the first size"
    message = _length_message(feature, size)
    with tf.control_dependencies([tf.debugging.assert_equal(lengths % unit, tf.zeros((), tf.int64), message)]):
        rows = tf.reshape(_decode_raw(feature, tf.strings.reduce_join(parsed)), (-1, *fixed_sizes(feature)))
    return tf.RaggedTensor.from_row_lengths(_cast_to_element_type(feature, rows), lengths // unit, validate=False)


def draw_array(feature: Feature, data: bytes) -> bytes:
    """Return a PNG of a drawable array, with black for NaN and infinities; b"" if `data` is not such an array."""
    from PIL import Image

    try:
        values = feature_kind.array_from_bytes(feature, data).astype(np.float64)
    except ValueError:
        return b""
    if values.ndim == 3 and values.shape[2] == 1:
        values = values[:, :, 0]
    finite = np.isfinite(values)
    low, high = (values[finite].min(), values[finite].max()) if finite.any() else (0.0, 0.0)
    with np.errstate(over="ignore"):
        # Divided first: the span of float64 values may be beyond float64.
        span = high / 2 - low / 2
        scaled = (np.where(finite, values, low) / 2 - low / 2) / (span or 1.0) * 255
    out = io.BytesIO()
    Image.fromarray(np.round(scaled).astype(np.uint8)).save(out, "PNG")
    return out.getvalue()


# What TFDS's decoder, pydub, makes of them: 32 bits of 24.
_INTEGERS = {"pcm8": "int8", "pcm16": "int16", "pcm24": "int32", "pcm32": "int32"}


class AudioKind(FeatureKind):
    """Feature kind: sounds of any length."""

    name = "audio"
    input_rank = 2
    in_columns = False
    bytes_are_strings = False

    def tfds_entry(self, feature: Feature) -> Entry:
        """Return TFDS's Audio entry; WAV files of mixed channels or encodings get an entry for plain bytes."""
        shape: tuple[int | None, ...] = feature.shape
        audio: dict[str, Any] = {"dtype": "float32"}
        if feature.is_wav:
            if not feature.channels or feature.encoding not in _INTEGERS:
                return super().tfds_entry(feature)
            shape = (None,) if feature.channels == 1 else (None, feature.channels)
            audio = {"dtype": _INTEGERS[feature.encoding], "fileFormat": "wav", "lazyDecode": True}
        if feature.sample_rate:
            audio["sampleRate"] = str(feature.sample_rate)
        return make_entry("audio_feature.Audio", audio={"shape": entry_shape(shape), **audio, "encoding": "none"})

    def from_schema(self, proto: Any, plain: Feature, notes: Mapping[str, str]) -> Feature | None:
        """Return None: a schema cannot express audio."""
        return None

    def find_value_faults(self, feature: Feature, values: FeatureValue) -> list[str]:
        faults = []
        for data in cast(Sequence[bytes], values) if feature.is_wav else ():
            try:
                read_header(data)
            except WavError as error:
                faults.append(f"feature {feature.name!r}: {error}")
        return faults

    def format_value(self, feature: Feature, value: Any) -> str | None:
        if not feature.is_wav or not isinstance(value, bytes):
            return None
        try:
            wav = read_header(value)
        except WavError as error:
            return str(error)
        return f"{wav.seconds:.2f} s at {wav.sample_rate:,} Hz, {plural(wav.channels, 'channel')}, {wav.encoding}"

    def describe_amount(self, feature: Feature, number: int) -> str:
        if feature.is_wav or not feature.sample_rate or not feature.channels:
            return ""
        return f"{number / feature.channels / feature.sample_rate:.2f} s at {feature.sample_rate:,} Hz"

    def is_variable(self, feature: Feature) -> bool:
        return feature.is_wav or super().is_variable(feature)

    def example_decoder(self, feature: Feature) -> Callable[[Any], Any] | None:
        return partial(decode_wav_tensor, feature) if feature.is_wav else None

    def file_decoder(self, feature: Feature, configuration: Mapping[str, Any]) -> Callable[..., Any] | None:
        return partial(decode_to_array, channels=feature.channels) if feature.is_wav else None

    def describe(self, feature: Feature) -> str:
        rate = f"{feature.sample_rate:,} Hz" if feature.sample_rate else "of several rates"
        return f"audio, {rate}" + (f", {feature.encoding or 'of several encodings'}" if feature.is_wav else "")


_FORMAT = "REL_YXYX"  # as TFDS calls it


class BBoxKind(FeatureKind):
    """Feature kind: bounding boxes of four floats in TFDS's default format: relative, upper left corner first."""

    name = "bbox"

    def tfds_entry(self, feature: Feature) -> Entry:
        return feature_kind.boxes_entry(feature)

    def annotate(self, proto: Any, feature: Feature) -> None:
        proto.annotation.tag.append(f"format:{_FORMAT}")

    def from_schema(self, proto: Any, plain: Feature, notes: Mapping[str, str]) -> Feature | None:
        is_box = plain.dtype == "float32" and notes.get("format") == _FORMAT and plain.shape[-1:] == (4,)
        return replace(plain, kind=self.name) if is_box else None

    def find_value_faults(self, feature: Feature, values: FeatureValue) -> list[str]:
        boxes = np.asarray(cast(np.ndarray, values)).reshape(-1, 4)
        good = (boxes >= 0).all(1) & (boxes <= 1).all(1) & (boxes[:, :2] <= boxes[:, 2:]).all(1)
        return [
            f"feature {feature.name!r} has the box {box.tolist()}; expected [ymin, xmin, ymax, xmax] from 0 to 1"
            for box in boxes[~good]
        ]

    def describe(self, feature: Feature) -> str:
        return "bbox, [ymin, xmin, ymax, xmax] from 0 to 1"


class BoolKind(FeatureKind):
    """Feature kind: booleans, stored as int64."""

    name = "bool"

    def tfds_member_entry(self, feature: Feature) -> Entry:
        """Return TFDS's entry of a scalar bool, as its own object datasets have it."""
        entry = super().tfds_member_entry(feature)
        entry["tensor"]["dtype"] = "bool"
        return entry

    def annotate(self, proto: Any, feature: Feature) -> None:
        proto.bool_domain.SetInParent()

    def from_schema(self, proto: Any, plain: Feature, notes: Mapping[str, str]) -> Feature | None:
        return replace(plain, kind=self.name) if proto.HasField("bool_domain") else None

    def column_type(self, feature: Feature) -> DType | Literal["bool"]:
        return "bool"


class ClassLabelKind(FeatureKind):
    """Feature kind: class ids from 0 to the number of classes minus 1."""

    name = "class_label"
    has_classes = True
    padding_value = -1  # which is no class id; 0 is one

    def tfds_entry(self, feature: Feature) -> Entry:
        """Return TFDS's ClassLabel entry, or a list of it; plain ids if some examples have none."""
        if not feature.required or len(feature.shape) > 1:
            return super().tfds_entry(feature)
        if feature.shape:
            return feature_kind.sequence_entry(self.tfds_entry(replace(feature, shape=())), feature.shape[0])
        label = {"numClasses": str(len(feature.class_names))}
        return make_entry("class_label_feature.ClassLabel", classLabel=label)

    def annotate(self, proto: Any, feature: Feature) -> None:
        proto.int_domain.min = 0
        proto.int_domain.max = len(feature.class_names) - 1
        proto.int_domain.is_categorical = True

    def from_schema(self, proto: Any, plain: Feature, notes: Mapping[str, str]) -> Feature | None:
        """Return a class label with empty names: the schema holds only their number, a labels file the names."""
        if plain.dtype != "int64" or not proto.int_domain.is_categorical:
            return None
        return replace(plain, kind=self.name, class_names=("",) * (proto.int_domain.max + 1))

    def find_value_faults(self, feature: Feature, values: FeatureValue) -> list[str]:
        classes, ids = len(feature.class_names), np.asarray(cast(np.ndarray, values))
        unknown = ids[(ids < 0) | (ids >= classes)]
        return [f"feature {feature.name!r} is {value}; expected 0 to {classes - 1}" for value in unknown.tolist()]

    def format_value(self, feature: Feature, value: Any) -> str | None:
        if isinstance(value, bytes):
            return None
        is_known = 0 <= value < len(feature.class_names)
        return f"{value} ({feature.class_names[value] if is_known else 'no such class'})"

    def describe(self, feature: Feature) -> str:
        return f"class_label, {plural(len(feature.class_names), 'class', 'classes')}"


_TFDS_ENCODINGS = ("jpeg", "png")  # those that TFDS's Image may name: image_feature.py


class ImageKind(FeatureKind):
    """Feature kind: encoded images of any size."""

    name = "image"
    input_rank = 0
    bytes_are_strings = False

    def tfds_entry(self, feature: Feature) -> Entry:
        image: Entry = {"shape": entry_shape((None, None, 3)), "dtype": "uint8"}
        if feature.encoding in _TFDS_ENCODINGS:
            image["encodingFormat"] = feature.encoding
        return make_entry("image_feature.Image", image=image)

    def annotate(self, proto: Any, feature: Feature) -> None:
        proto.image_domain.SetInParent()

    def from_schema(self, proto: Any, plain: Feature, notes: Mapping[str, str]) -> Feature | None:
        return replace(plain, dtype="bytes", kind=self.name) if proto.HasField("image_domain") else None

    def file_decoder(self, feature: Feature, configuration: Mapping[str, Any]) -> Callable[..., Any] | None:
        return partial(rgb_array, max_pixels=_max_pixels(configuration))

    def describe(self, feature: Feature) -> str:
        return f"image, {feature.encoding or 'of several formats'}"


def _max_pixels(configuration: Mapping[str, Any]) -> int:
    configured = configuration.get("max_pixels")
    return configured if isinstance(configured, int) else MAX_PIXELS


_NOTE = "format:mask"


class MaskKind(FeatureKind):
    """Feature kind: encoded masks, each as large as its image."""

    name = "mask"
    bytes_are_strings = False

    def tfds_entry(self, feature: Feature) -> Entry:
        """Return TFDS's entry of an Image with one channel, as in its own segmentation datasets."""
        image = {"shape": entry_shape((None, None, 1)), "dtype": feature.element or "uint8", "encodingFormat": "png"}
        return make_entry("image_feature.Image", image=image)

    def annotate(self, proto: Any, feature: Feature) -> None:
        """Add an image domain, and a note that the pixels are numbers, for which schemas have no field."""
        proto.image_domain.SetInParent()
        proto.annotation.tag.append(_NOTE)
        if feature.element:
            proto.annotation.tag.append(f"element:{feature.element}")

    def from_schema(self, proto: Any, plain: Feature, notes: Mapping[str, str]) -> Feature | None:
        if not proto.HasField("image_domain") or _NOTE not in proto.annotation.tag:
            return None
        return replace(plain, dtype="bytes", kind=self.name, element=notes.get("element", ""))

    def file_decoder(self, feature: Feature, configuration: Mapping[str, Any]) -> Callable[..., Any] | None:
        return partial(mask_array, max_pixels=_max_pixels(configuration))

    def describe(self, feature: Feature) -> str:
        return f"mask, a value from 0 to {65535 if feature.element else 255} a pixel, png"


class TextKind(FeatureKind):
    """Feature kind: UTF-8 strings."""

    name = "text"

    def tfds_entry(self, feature: Feature) -> Entry:
        """Return TFDS's Text entry if every example has exactly one text; TFDS has no lists of Text."""
        if feature.is_dense and not feature.shape:
            return make_entry("text_feature.Text", text={})
        return super().tfds_entry(feature)

    def from_schema(self, proto: Any, plain: Feature, notes: Mapping[str, str]) -> Feature | None:
        return replace(plain, kind=self.name) if plain.dtype == "bytes" and not plain.shape else None


# An entry of schema.pbtxt is of the first that takes it for its own; the last takes all.
_ALL_KINDS = (
    ArrayKind(),
    AudioKind(),
    MaskKind(),
    ImageKind(),
    ClassLabelKind(),
    BoolKind(),
    BBoxKind(),
    TextKind(),
    FeatureKind(),
)
KINDS: Mapping[Kind, FeatureKind] = {kind.name: kind for kind in _ALL_KINDS}


def kind_of(feature: Feature) -> FeatureKind:
    """Return the kind of a feature."""
    return KINDS[feature.kind]
