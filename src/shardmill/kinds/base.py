"""What a kind of feature is to all who write, describe, check or read one; and the plain kind, `tensor`."""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from shardmill.features.feature import DType, Feature, Kind
from shardmill.kinds import tfds_entries
from shardmill.records.example import FeatureValue

Entry = dict[str, Any]


class FeatureKind:
    """A kind: this one takes the values as they stand in the list. Another overrides what is different about it.

    Attributes:
      name: as it stands in manifest.json.
      input_rank: which feature is the input of TFDS's `as_supervised=True`: that of the least rank; None for one that
        is not an input by its kind alone.
      in_columns: whether a column of a table can hold one.
      has_classes: whether the values are ids of classes that have names, numbers only in how they are stored.
      bytes_are_strings: whether bytes are values to be read and compared, rather than a file or numbers.
    """

    name: Kind = "tensor"
    input_rank: int | None = None
    in_columns: bool = True
    has_classes: bool = False
    bytes_are_strings: bool = True

    def tfds(self, feature: Feature) -> Entry:
        """The feature's entry in TFDS's features.json."""
        return tfds_entries.plain(feature)

    def tfds_member(self, feature: Feature) -> Entry:
        """The entry in TFDS's features.json of what one object of a sequence has of the feature."""
        return self.tfds(replace(feature, shape=feature.shape[1:], required=True))

    def annotate(self, proto: Any, feature: Feature) -> None:
        """Write into a feature of schema.pbtxt, complete but for its kind, what tells the kind."""

    def from_schema(self, proto: Any, plain: Feature, notes: Mapping[str, str]) -> Feature | None:
        """The feature of this kind that an entry of schema.pbtxt describes; None where it is of another.

        Args:
          proto: the entry.
          plain: the feature by all that the entry says but its kind.
          notes: what its annotation says, as shardmill.kinds.notes has it.
        """
        return plain

    def faults(self, feature: Feature, values: FeatureValue | None) -> list[str]:
        """What is wrong with a feature's values as an example holds them; None where it holds none."""
        if values is None:
            return [f"has no feature {feature.name!r}"] if feature.required else []
        held = _dtype(values)
        if held is not None and held != feature.dtype:
            return [f"feature {feature.name!r} holds {held}; expected {feature.dtype}"]
        if message := _number_fault(feature, len(values)):
            return [f"feature {feature.name!r} holds {message}"]
        return self.value_faults(feature, values)

    def value_faults(self, feature: Feature, values: FeatureValue) -> list[str]:
        """What is wrong with values that are of the feature's type and number."""
        return []

    @property
    def own_name(self) -> str:
        """The name, to be said beside the type of the values; "" for plain values, of which the type says all."""
        return "" if self.name == FeatureKind.name else self.name

    def words(self, feature: Feature) -> str:
        """The kind in words, for the table of features."""
        return f"time in {feature.time}" if feature.time else self.name

    def column_type(self, feature: Feature) -> DType | Literal["bool"]:
        """The type of a table's column that holds such values."""
        return feature.dtype

    def unpacker(self, feature: Feature) -> Callable[[bytes], Any] | None:
        """What makes a NumPy value of the one bytes in the list; None where the list's values are those of the
        feature."""
        return None

    def shown(self, feature: Feature, value: Any) -> str | None:
        """What a value is, in words, to which `inspect` adds the size of bytes; None where it is shown as it stands, as
        one is that is not of the feature's type."""
        return None

    def amount(self, feature: Feature, number: int) -> str:
        """What so many values come to, in words; "" where only their number is known."""
        return ""

    @property
    def padding(self) -> Any:
        """What `load` fills lists up with where nobody says it; None for TensorFlow's own, 0 or ""."""
        return None

    def is_variable(self, feature: Feature) -> bool:
        """Whether the feature's tensors differ in shape from example to example."""
        return None in feature.shape

    def single(self, feature: Feature) -> Callable[[Any], Any] | None:
        """What `load` makes a tensor with, of the one bytes of one example; None where whole batches are parsed. Images
        are not among them, whose decoder the reader's own options make."""
        return None

    def opened(self, feature: Feature, configuration: Mapping[str, Any]) -> Callable[[bytes], Any] | None:
        """What makes a NumPy value of the file that the one bytes in the list are; None where they are no file. It
        raises ValueError.

        Args:
          feature: of this kind.
          configuration: of the data set's manifest.
        """
        return None

    def stored(self, feature: Feature, default: Any) -> Any:
        """What stands for a missing value as the list would hold it, of a default as check_defaults has it."""
        return default

    def to_tensor(self, feature: Feature, parsed: Any) -> Any:
        """A batch of values for `load`, of what TensorFlow parsed of their lists; imports TensorFlow where it needs
        it."""
        return parsed


def _dtype(values: FeatureValue) -> DType | None:
    """The type of a decoded list; None for an empty one, which does not tell."""
    if isinstance(values, np.ndarray):
        return "float32" if np.issubdtype(values.dtype, np.floating) else "int64"
    return "bytes" if len(values) else None


def _number_fault(feature: Feature, number: int) -> str:
    """What is wrong with the number of a feature's values; "" if nothing is."""
    size = math.prod(filter(None, feature.list_shape))
    if None not in feature.list_shape:
        return "" if number == size else f"{number} values; expected {size}"
    return "" if number % size == 0 else f"{number} values; expected a multiple of {size}"
