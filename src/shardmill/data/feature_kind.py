"""Interface of feature kinds: their entries in features.json, annotations in schemas, and bytes of arrays."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from shardmill.data.example import FeatureValue
from shardmill.data.features import DType, Feature, Kind

Entry = dict[str, Any]  # of features.json
# As TFDS's own data sets call [ymin, xmin, ymax, xmax] relative to the image; also objects/bbox
_BOXES = ("bbox", "bboxes")


def _plain_entry(feature: Feature) -> Entry:
    if _is_box(feature):
        return boxes_entry(feature)
    dtype = "string" if feature.dtype == "bytes" else feature.dtype
    shape = feature.list_shape
    if feature.required and not shape:
        return make_entry("scalar.Scalar", tensor={"shape": {}, "dtype": dtype, "encoding": "none"})
    return tensor_entry(shape if feature.required else (None, *shape[1:]), dtype, "none")


def make_entry(class_name: str, **content: Any) -> Entry:
    """Return an entry of TFDS's features.json: the class of a feature, and its one field."""
    return {"pythonClassName": f"tensorflow_datasets.core.features.{class_name}", **content}


def tensor_entry(shape: tuple[int | None, ...], dtype: str, encoding: str) -> Entry:
    """Return the entry of a Tensor in TFDS's features.json."""
    return make_entry(
        "tensor_feature.Tensor", tensor={"shape": entry_shape(shape), "dtype": dtype, "encoding": encoding}
    )


def entry_shape(shape: Sequence[int | None]) -> Entry:
    """Return a shape as TFDS's features.json has it."""
    return {"dimensions": ["-1" if size is None else str(size) for size in shape]} if shape else {}


def _is_box(feature: Feature) -> bool:
    if feature.name.rsplit("/", 1)[-1] not in _BOXES or feature.dtype != "float32":
        return False
    # Where it is missing, a list of boxes is empty, but a box cannot be.
    return feature.shape == (None, 4) or (feature.required and feature.shape == (4,))


def boxes_entry(feature: Feature) -> Entry:
    """Return the entry in TFDS's features.json of one box, or of a list of boxes."""
    box = {"shape": entry_shape((4,)), "dtype": "float32", "bboxFormat": "REL_YXYX"}
    entry = make_entry("bounding_boxes.BBoxFeature", boundingBox=box)
    return entry if feature.shape == (4,) else sequence_entry(entry)


def sequence_entry(entry: Entry, length: int | None = None) -> Entry:
    """Return the entry in features.json of a list of `length` values (None: any number), described by `entry`."""
    content = {"feature": entry, "length": "-1" if length is None else str(length)}
    return make_entry("sequence_feature.Sequence", sequence=content)


def features_dict_entry(entries: dict[str, Entry]) -> Entry:
    """Return the entry in TFDS's features.json of several named features."""
    return make_entry("features_dict.FeaturesDict", featuresDict={"features": entries})


class FeatureKind:
    """A kind of feature: how it is described, checked and decoded. This base class is the plain kind `tensor`."""

    name: Kind = "tensor"  # as in manifest.json
    # least rank wins as input of TFDS's `as_supervised=True`; None: not an input by kind alone
    input_rank: int | None = None
    in_columns: bool = True  # True if a table's column can hold it
    has_classes: bool = False  # True if the values are ids of named classes
    bytes_are_strings: bool = True  # True if bytes are readable values, not a file or numbers
    padding_value: Any = None  # with which `load` pads lists by default; None for TensorFlow's own, 0 or ""

    def tfds_entry(self, feature: Feature) -> Entry:
        """Return the feature's entry in TFDS's features.json; for this kind, values stored unencoded in its list."""
        return _plain_entry(feature)

    def tfds_member_entry(self, feature: Feature) -> Entry:
        """Return the entry in TFDS's features.json of the feature's value for one object of a sequence."""
        return self.tfds_entry(replace(feature, shape=feature.shape[1:], required=True))

    def annotate(self, proto: Any, feature: Feature) -> None:
        """Mark the kind in a feature of schema.pbtxt that is otherwise complete."""

    def from_schema(self, proto: Any, plain: Feature, notes: Mapping[str, str]) -> Feature | None:
        """Return the feature that an entry of schema.pbtxt describes, or None if it is of another kind.

        `plain` has everything that the entry tells except the kind; `notes` are its annotations, see `read_notes`.
        """
        return plain

    def find_faults(self, feature: Feature, values: FeatureValue | None) -> list[str]:
        """Return the faults of a feature's values in one example; `values` is None if it has none."""
        if values is None:
            return [f"has no feature {feature.name!r}"] if feature.required else []
        held = _dtype(values)
        if held is not None and held != feature.dtype:
            return [f"feature {feature.name!r} holds {held}; expected {feature.dtype}"]
        if message := _count_fault(feature, len(values)):
            return [f"feature {feature.name!r} holds {message}"]
        return self.find_value_faults(feature, values)

    def find_value_faults(self, feature: Feature, values: FeatureValue) -> list[str]:
        """Return the faults of values that have the right type and number, of one example or several together."""
        return []

    @property
    def checks_values(self) -> bool:
        """Return True if values of the right type and number may have faults."""
        return type(self).find_value_faults is not FeatureKind.find_value_faults

    @property
    def display_name(self) -> str:
        """Return the kind's name, to show next to the dtype; "" for plain values, which the dtype describes fully."""
        return "" if self.name == FeatureKind.name else self.name

    def describe(self, feature: Feature) -> str:
        """Return the kind as text, for the table of features."""
        return f"time in {feature.time}" if feature.time else self.name

    def column_type(self, feature: Feature) -> DType | Literal["bool"]:
        """Return the type of a table's column that holds such values."""
        return feature.dtype

    def value_decoder(self, feature: Feature) -> Callable[[bytes], Any] | None:
        """Return a function that decodes the single bytes value to a NumPy value; None for a list of plain values."""
        return None

    def format_value(self, feature: Feature, value: Any) -> str | None:
        """Return a value as text, to which `inspect` adds the size in bytes; None to show it unchanged."""
        return None

    def describe_amount(self, feature: Feature, number: int) -> str:
        """Return the meaning of `number` values as text, such as a duration; "" if only their number is known."""
        return ""

    def is_variable(self, feature: Feature) -> bool:
        """Return True if the feature's tensors differ in shape between examples."""
        return None in feature.shape

    def example_decoder(self, feature: Feature) -> Callable[[Any], Any] | None:
        """Return a function with which `load` decodes one example's bytes to a tensor; None if it parses whole batches.

        Images return None, too: the reader's options determine their decoder.
        """
        return None

    def file_decoder(self, feature: Feature, configuration: Mapping[str, Any]) -> Callable[..., Any] | None:
        """Return a function that decodes the file in the bytes value to a NumPy value; None if the bytes are no file.

        It raises ValueError for files that it cannot decode. `configuration` is the manifest's. Images and masks may be
        scaled: see `rgb_array` and `mask_array`.
        """
        return None

    def to_value_list(self, feature: Feature, default: Any) -> Any:
        """Return `default` (validated by check_defaults) as a feature's value list."""
        return default

    def to_tensor(self, feature: Feature, parsed: Any) -> Any:
        """Return a batch of values for `load`, from the lists that TensorFlow parsed; import it only if needed."""
        return parsed


def _dtype(values: FeatureValue) -> DType | None:
    """Return the dtype of a decoded list; None if it is empty and therefore has none."""
    if isinstance(values, np.ndarray):
        return "float32" if np.issubdtype(values.dtype, np.floating) else "int64"
    return "bytes" if len(values) else None


def _count_fault(feature: Feature, number: int) -> str:
    size = math.prod(filter(None, feature.list_shape))
    if None not in feature.list_shape:
        return "" if number == size else f"{number} values; expected {size}"
    return "" if number % size == 0 else f"{number} values; expected a multiple of {size}"


# NumPy's names of the types that an array's values may have.
ELEMENT_TYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)


def element_type(feature: Feature) -> np.dtype[Any]:
    """Return the NumPy type of an array's values in its bytes, little-endian."""
    return np.dtype(feature.element).newbyteorder("<")


def fixed_sizes(feature: Feature) -> tuple[int, ...]:
    """Return the fixed sizes of a feature's shape, without a variable first one."""
    return tuple(size for size in feature.shape if size is not None)


def array_size_bytes(feature: Feature) -> int:
    """Return the size in bytes of an array, or of one row if the first dimension varies."""
    return math.prod(fixed_sizes(feature)) * element_type(feature).itemsize


def array_to_bytes(feature: Feature, values: np.ndarray) -> bytes:
    """Return the bytes of an array."""
    return np.ascontiguousarray(values, element_type(feature)).tobytes()


def array_from_bytes(feature: Feature, data: bytes) -> np.ndarray:
    """Return the read-only array that `data` encodes.

    Raises:
        ValueError: if `data` has the wrong length; the message names the feature.
    """
    if not has_array_length(feature, len(data)):
        raise ValueError(
            f"feature {feature.name!r} has {len(data)} bytes; expected {describe_array_size(feature)}, "
            f"for it is an array of {feature.element} {feature.shape}"
        )
    sizes = [-1 if size is None else size for size in feature.shape]
    return np.frombuffer(data, element_type(feature)).reshape(sizes)


def has_array_length(feature: Feature, length: int) -> bool:
    """Return True if an array can have `length` bytes."""
    return length % array_size_bytes(feature) == 0 if None in feature.shape else length == array_size_bytes(feature)


def describe_array_size(feature: Feature) -> str:
    """Return the expected number of bytes of an array, as text."""
    return f"{'a multiple of ' if None in feature.shape else ''}{array_size_bytes(feature)}"


NOTE_PATTERN = re.compile(rf"shape:(-1|\d+)?(,\d+)*|element:({'|'.join(ELEMENT_TYPES)})|format:(REL_YXYX|mask)")


def read_notes(proto: Any) -> dict[str, str]:
    """Return the notes in a schema feature's annotation, by key; other annotations are ignored."""
    return dict(tag.split(":", 1) for tag in proto.annotation.tag if NOTE_PATTERN.fullmatch(tag))


def shape_note(feature: Feature) -> str:
    """Return the text that notes a feature's shape in schema.pbtxt."""
    return "shape:" + ",".join("-1" if size is None else str(size) for size in feature.shape)


def parse_shape_note(note: str) -> tuple[int | None, ...]:
    """Return the shape in a text that `shape_note` made."""
    return tuple(None if size == "-1" else int(size) for size in note.split(",") if size)
