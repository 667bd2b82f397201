"""Find the values of features in blocks of serialized tf.train.Examples, all records of a block at once."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from shardmill.data import spans
from shardmill.data.example import LIST_TAGS, FeatureValue, read_varint, unpack_varints
from shardmill.data.feature_kind import fixed_sizes
from shardmill.data.features import Feature, Features
from shardmill.data.spans import Positions, RecordBlock

# Values by feature name, lists of bytes or arrays of numbers; and by row, the payloads of records to be decoded
ReadColumns = tuple[dict[str, list[bytes] | np.ndarray], dict[int, bytes]]

_SPAN = 3  # start, end, count


class ColumnReader:
    """Read features of records at known places in open files, each with a fixed number of values.

    Attributes:
        features: the features that are read.
        has_scalars_only: True if each has one value, so that `one` may be called.
    """

    def __init__(self, features: Features, names: Sequence[str]) -> None:
        """Set up a reader of the features named in `names`; raise a ValueError if `can_read` is False for one."""
        self._names = [feature.name.encode() for feature in features]
        self._tags = _make_tags(features)
        self._wanted = [number for number, feature in enumerate(features) if feature.name in names]
        self.features = tuple(features[number] for number in self._wanted)
        if not all(map(self.can_read, self.features)):
            raise ValueError("a feature has any number of values")
        self.has_scalars_only = not any(feature.list_shape for feature in self.features)

    @staticmethod
    def can_read(feature: Feature) -> bool:
        """Return True if a feature is one bytes value, or a fixed number of numbers."""
        return None not in feature.list_shape and not (feature.dtype == "bytes" and feature.list_shape)

    def one(self, file: int, start: int, stop: int) -> list[Any] | bytes | None:
        """Return the values of a record, its payload if it has to be decoded, or None if it is damaged."""
        return spans.read_example(file, start, stop, self._names, self._tags, self._wanted)

    def read(self, files: Positions, starts: Positions, stops: Positions) -> ReadColumns | None:
        """Return values by feature name, and the payloads of the rows that have to be decoded; None if one is damaged.

        Values are lists of bytes, or arrays of int64 and float32, (records, *shape).
        """
        columns, places, rest = self._make_columns(len(files))
        if spans.read_examples(files, starts, stops, self._names, self._tags, places, rest) < len(files):
            return None
        return columns, _by_row(rest)

    def take(self, block: RecordBlock) -> ReadColumns:
        """Return the same of the records of a block."""
        columns, places, rest = self._make_columns(len(block))
        spans.take_examples(block.data, block.starts, block.ends, self._names, self._tags, places, rest)
        return columns, _by_row(rest)

    def _make_columns(self, count: int) -> tuple[dict[str, list[bytes] | np.ndarray], list[Any], list[bytes | None]]:
        """Return columns to be filled by name, the same with None for other features, and payloads to be filled."""
        columns: dict[str, list[Any] | np.ndarray] = {}
        places: list[Any] = [None] * len(self._names)
        for number, feature in zip(self._wanted, self.features, strict=True):
            if feature.dtype == "bytes":
                columns[feature.name] = [None] * count
            else:
                columns[feature.name] = np.zeros((count, *fixed_sizes(feature)), feature.dtype)
            places[number] = columns[feature.name]
        return columns, places, [None] * count


def _by_row(rest: list[bytes | None]) -> dict[int, bytes]:
    if rest.count(None) == len(rest):
        return {}
    return {row: payload for row, payload in enumerate(rest) if payload is not None}


def _make_tags(features: Features) -> bytes:
    return bytes(
        byte for item in features for byte in (LIST_TAGS[item.dtype], item.dtype == "bytes" and not item.list_shape)
    )


class ExampleScanner:
    """Find the values of known features in blocks of serialized examples."""

    def __init__(self, features: Features) -> None:
        self.features = features
        self._names = [feature.name.encode() for feature in features]
        self._tags = _make_tags(features)
        self._sizes = np.array([max(math.prod(filter(None, item.list_shape)), 1) for item in features], np.int64)
        self._is_variable = np.array([None in item.list_shape for item in features], bool)
        self._is_optional = np.array([not item.required for item in features], bool)

    def scan(self, block: RecordBlock) -> "ScannedBlock":
        """Find the values of all features in the records of a block."""
        places = np.empty((len(block), len(self.features), _SPAN), np.int64)
        plain = np.empty(len(block), np.uint8)
        spans.scan_examples(block.data, block.starts, block.ends, self._names, self._tags, places, plain)
        counts = places[:, :, 2]
        present = counts >= 0
        has_right_count = np.where(self._is_variable, counts % self._sizes == 0, counts == self._sizes)
        fits = plain.astype(bool) & np.where(present, has_right_count, self._is_optional).all(1)
        return ScannedBlock(self.features, block, places, present, fits)


@dataclass(frozen=True, slots=True)
class ScannedBlock:
    """The places of values in the records of a block."""

    features: Features
    block: RecordBlock
    places: Positions  # start, end and number of values, (records, features, 3)
    present: NDArray[np.bool_]  # True where a record has a feature, (records, features)
    # True for records that hold nothing but these features, all required ones, each with its kind and a right number of
    # values. Others, and some that are encoded in an unusual way, must be parsed by `decode_example`. (records,)
    fits: NDArray[np.bool_]

    def values(self, column: int, rows: Positions) -> FeatureValue:
        """Return the values of a feature in records that fit and have it, one record's after another's."""
        feature, starts, ends = self.features[column], *self._spans(column, rows)
        if feature.dtype == "bytes" and feature.list_shape:
            return [value for values in self.value_lists(column, rows) for value in values]
        if feature.dtype == "bytes":
            data = self.block.data
            return [data[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]
        packed, _ = spans.gather(self.block.data, starts, ends - starts)
        return unpack_varints(packed) if feature.dtype == "int64" else packed.view("<f4")

    def value_lists(self, column: int, rows: Positions) -> list[list[bytes]]:
        """Return the bytes values of a list feature in records that fit and have it."""
        starts, ends = (places.tolist() for places in self._spans(column, rows))
        return [_split_bytes_list(self.block.data, start, end) for start, end in zip(starts, ends, strict=True)]

    def _spans(self, column: int, rows: Positions) -> tuple[Positions, Positions]:
        return self.places[rows, column, 0], self.places[rows, column, 1]


def _split_bytes_list(data: bytes, start: int, end: int) -> list[bytes]:
    values = []
    while start < end:
        size, first = data[start + 1], start + 2
        if size > 0x7F:
            size, first = read_varint(data, start + 1)
        start = first + size
        values.append(data[first:start])
    return values
