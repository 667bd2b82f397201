"""Statistics of tables: per feature, from Arrow record batches, the same digits however rows are batched and batches
merged."""

import copy
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shardmill.statistics.feature_summary import FeatureSummary
from shardmill.transforms.statistics.hashes import hashes_of, mix
from shardmill.transforms.statistics.label_pairs import MOST_PAIRS, LabelPairs, Labels
from shardmill.transforms.statistics.pictures import PICTURE, PictureStats
from shardmill.transforms.statistics.strings import StringStats
from shardmill.transforms.statistics.values import (
    ClassStats,
    Codes,
    MixedStats,
    NumericStats,
    RangeStats,
    Ties,
    ValueStats,
)

# Values counted at once: what exact sums and `_order` take, and few enough to stay in a processor's cache.
_AT_ONCE = 1 << 16
_STRINGS = (pa.binary(), pa.large_binary(), pa.string(), pa.large_string())


@dataclass(slots=True)
class _Column:
    """Statistics of a feature: examples that have it and that lack it, how many values they have of it, and the values.

    Attributes:
      lengths: numbers of values of the examples that have the feature; None where it is no list.
      pairs: values with labels; None where there is no label.
    """

    values: ValueStats
    lengths: RangeStats | None
    pairs: LabelPairs | None = None
    present: int = 0
    missing: int = 0

    def add(self, column: pa.Array, ties: Ties, labels: Labels | None = None) -> None:
        self.present += len(column) - column.null_count
        self.missing += column.null_count
        labels = labels if self.pairs is not None else None
        if self.lengths is not None:
            lengths = pc.list_value_length(column.drop_null()).to_numpy().astype(np.int64)
            self.lengths.add(lengths)
            if column.null_count:
                valid = _is_valid(column)
                ties, labels = ties[valid], labels and labels.of_rows(valid)
            if self.pairs is not None and (lengths != 1).any():  # then a value is not an example's
                self.pairs.give_up()
                labels = None
            ties = _value_ties(ties, lengths) if isinstance(self.values, StringStats) else _no_ties(lengths)
            column = column.flatten()
        if column.null_count:
            valid = _is_valid(column)
            ties, labels = ties[valid], labels and labels.of_rows(valid)
            column = column.drop_null()
        for start in range(0, len(column), _AT_ONCE):
            rows = slice(start, start + _AT_ONCE)
            part = column[rows]
            part = part.cast(pa.large_binary()) if isinstance(self.values, StringStats) else part
            codes = self.values.add(part, ties[rows])
            if labels is not None:
                self._pair(part, codes, labels.of_rows(rows))

    def _pair(self, values: pa.Array, codes: Codes | None, labels: Labels) -> None:
        """Count some values, none of them null, with their labels; `codes` are theirs, where they were found."""
        assert self.pairs is not None
        if isinstance(self.values, NumericStats | StringStats) and self.values.distinct.counts is None:
            self.pairs.give_up()  # more than 1,024 values
        if self.pairs.counts is not None:
            if codes is None:
                encoded = values.dictionary_encode()
                codes = Codes(encoded.indices.to_numpy().astype(np.int64), hashes_of(encoded.dictionary))
            self.pairs.add(codes.codes, codes.hashes, labels)

    @property
    def kind(self) -> str:
        """What is counted, in words."""
        return ("lists of " if self.lengths is not None else "") + self.values.kind

    def merge(self, other: "_Column") -> None:
        self.present += other.present
        self.missing += other.missing
        if self.lengths is not None and other.lengths is not None:
            self.lengths.merge(other.lengths)
        if self.kind != other.kind:
            self.values, self.pairs = MixedStats(), None
            return
        self.values.merge(other.values)
        if self.pairs is not None and other.pairs is not None:
            self.pairs.merge(other.pairs)

    def summary(self, class_names: Sequence[str] | None, labels: Mapping[int, int] | None = None) -> FeatureSummary:
        return replace(
            self.values.summary(class_names),
            count=self.present,
            missing=self.missing,
            per_example=self.lengths.summary() if self.lengths is not None and self.present else None,
            label_association=self.pairs.association(labels) if self.pairs is not None and labels else None,
        )


@dataclass(slots=True)
class TableStats:
    """Statistics of some examples by feature.

    Attributes:
      examples: how many examples were counted.
      columns: the statistics of each feature, by name; none before the first batch.
      label: the feature that is to be predicted; None where there is none.
    """

    examples: int = 0
    columns: dict[str, _Column] = field(default_factory=dict)
    label: str | None = None

    @classmethod
    def of(
        cls, batch: pa.RecordBatch, ties: Ties, labels: Collection[str] = (), label: str | None = None
    ) -> "TableStats":
        """The statistics of a batch; see `add`."""
        stats = cls()
        stats.add(batch, ties, labels, label)
        return stats

    def add(self, batch: pa.RecordBatch, ties: Ties, labels: Collection[str] = (), label: str | None = None) -> None:
        """Count the examples of a batch.

        Args:
          batch: columns of int64, float32, binary or string (large or not), or of lists of these; of images, of
            shardmill.transforms.statistics.pictures.PICTURE; null where an example lacks the feature.
          ties: a hash of each row's position, uint64, shape (rows,), unique in practice. Samples are drawn by it.
          labels: features, of int64, that hold ids of classes: each id is counted, and nothing else.
          label: the feature that is to be predicted, whatever it holds; if None the first of `labels` that is no list,
            or else the first of all.

        Raises:
          TypeError: a column of another type.
        """
        self.label = label = label or _first_of(labels, batch)
        of_rows = _labels(batch[label], label in labels) if label in batch.schema.names else None
        untold = of_rows is None and label in batch.schema.names
        for name, array in zip(batch.schema.names, batch.columns):
            column = _column(name, array.type, name in labels)
            if label is not None and name != label and name not in labels and array.type != PICTURE:
                column.pairs = LabelPairs()
            known = self.columns.setdefault(name, replace(column, missing=self.examples))
            if known.kind == column.kind:
                known.add(array, ties, of_rows)
            else:
                column.add(array, ties)
                known.merge(column)
            if untold and known.pairs is not None:
                known.pairs.give_up()
        for name in self.columns.keys() - set(batch.schema.names):
            self.columns[name].missing += batch.num_rows
        self.examples += batch.num_rows

    def merge(self, other: "TableStats") -> None:
        """Add what `other` counted; `other` stays as it is. A column that one of them lacks is missing in its
        examples."""
        for name, column in other.columns.items():
            if name in self.columns:
                self.columns[name].merge(column)
            else:
                self.columns[name] = replace(copy.deepcopy(column), missing=column.missing + self.examples)
        for name in self.columns.keys() - other.columns.keys():
            self.columns[name].missing += other.examples
        self.examples += other.examples
        self.label = self.label or other.label

    def summary(self, class_names: Mapping[str, Sequence[str]] = {}) -> dict[str, FeatureSummary]:
        """What stands in stats.json: statistics by feature.

        Args:
          class_names: the names of classes, by id, of features that were counted as labels.

        Raises:
          ValueError: names for a feature that was not counted as a label.
        """
        for name in class_names:
            self.label_counts(name)
        labels = _counts(self.columns[self.label].values) if self.label in self.columns else None
        return {name: column.summary(class_names.get(name), labels) for name, column in self.columns.items()}

    def values_of(self, feature: str) -> int:
        """How many values the examples have of a feature whose lists were counted; none of one that is not there."""
        column = self.columns.get(feature)
        return 0 if column is None or column.lengths is None else column.lengths.sums.total

    def lacks(self, feature: str) -> bool:
        """Whether no example has a value of a feature: it is missing in all, or of none but empty lists."""
        column = self.columns.get(feature)
        return column is None or not column.present or (column.lengths is not None and column.lengths.high <= 0)

    def turned(self, feature: str) -> int:
        """How many images of a feature EXIF says to turn; 0 of a feature that was not counted as images."""
        column = self.columns.get(feature)
        return column.values.turned if column is not None and isinstance(column.values, PictureStats) else 0

    def numbers_of(self, feature: str) -> RangeStats | None:
        """Range and exact sums of the finite values of a feature that was counted as numbers; None of another."""
        column = self.columns.get(feature)
        return column.values.range if column is not None and isinstance(column.values, NumericStats) else None

    def label_counts(self, feature: str) -> Counter[int]:
        """How many values of a feature that was counted as a label have each id."""
        values = self.columns[feature].values if feature in self.columns else None
        if not isinstance(values, ClassStats):
            raise ValueError(
                f'feature "{feature}" was not counted as a label: name it in `labels` where its batches are counted'
            )
        return Counter(values.counts)


def _column(name: str, dtype: pa.DataType, is_label: bool) -> _Column:
    is_list = _is_list(dtype)
    value = dtype.value_type if is_list else dtype
    values: ValueStats
    if is_label and not pa.types.is_int64(value):
        raise TypeError(f'feature "{name}": a label has ids of type int64, not {value}')
    if is_label:
        values = ClassStats()
    elif pa.types.is_int64(value):
        values = NumericStats()
    elif pa.types.is_float32(value):
        values = NumericStats.of_floats()
    elif value in _STRINGS:
        values = StringStats()
    elif value == PICTURE:
        values = PictureStats()
    else:
        raise TypeError(
            f'feature "{name}": no statistics of {dtype}, only of int64, float32, binary or string and lists of them'
        )
    return _Column(values, RangeStats() if is_list else None)


def _first_of(labels: Collection[str], batch: pa.RecordBatch) -> str | None:
    scalars = (name for name in batch.schema.names if name in labels and not _is_list(batch[name].type))
    return next(scalars, next(iter(labels), None))


def _labels(column: pa.Array, is_class: bool) -> Labels | None:
    """The label of each row; None where a row has another number of them than one, or where too many of them differ
    for any to be told."""
    if _is_list(column.type):
        if (pc.list_value_length(column.drop_null()).to_numpy() != 1).any():
            return None
        valid = _is_valid(column)
        column = column.flatten().take(pa.array(np.cumsum(valid) - 1, mask=~valid))
    if pa.types.is_int64(column.type):
        return Labels.of(column, most=None if is_class else MOST_PAIRS)
    return Labels.of(column.cast(pa.large_binary()), MOST_PAIRS) if column.type in _STRINGS else None


def _counts(values: ValueStats) -> dict[int, int] | None:
    """How many examples have each label, called as Labels calls it; None where that is not known."""
    if isinstance(values, ClassStats):
        return dict(values.counts)
    if not isinstance(values, NumericStats | StringStats) or values.distinct.counts is None:
        return None
    called = values.distinct.hashes if isinstance(values, StringStats) else values.integers()
    return dict(zip(called.tolist(), values.distinct.counts.tolist(), strict=True))


def _is_list(dtype: pa.DataType) -> bool:
    return pa.types.is_list(dtype) or pa.types.is_large_list(dtype)


def _is_valid(column: pa.Array) -> NDArray[np.bool_]:
    return column.is_valid().to_numpy(zero_copy_only=False)


def _no_ties(lengths: NDArray[np.int64]) -> Ties:
    """For the values of lists of which no sample is drawn; no memory."""
    return np.broadcast_to(np.uint64(0), (int(lengths.sum()),))


def _value_ties(ties: Ties, lengths: NDArray[np.int64]) -> Ties:
    """A tie for each value of lists, from that of its row and its place in the list."""
    starts = np.cumsum(lengths) - lengths
    places = np.arange(int(lengths.sum()), dtype=np.int64) - np.repeat(starts, lengths)
    return mix(np.repeat(ties, lengths) + mix(places.view(np.uint64)))
