"""Statistics of tables, per feature, from Arrow record batches."""

import copy
from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from shardmill.quality.stats_file import FeatureSummary
from shardmill.quality.stats_values import SAMPLE_SIZE
from shardmill.transforms.statistics.images import IMAGE_METADATA, ImageColumnStats
from shardmill.transforms.statistics.sketches import DistinctValues, hash_values, mix
from shardmill.transforms.statistics.values import (
    ClassStats,
    DistinctCodes,
    MixedStats,
    NumericStats,
    RangeStats,
    StringStats,
    Ties,
    ValueStats,
    count_columns,
    summarize_numbers,
)

Hashes = NDArray[np.uint64]
Numbers = NDArray[np.int64]

MAX_PAIRS = 1024
MIN_EXAMPLES = 10  # examples of a value, of less of which its label may be chance: each of an identifier's has one
_DIGITS = 6  # of the share


class RowLabels(NamedTuple):
    """The labels of some rows."""

    codes: Numbers  # index into `ids` of each row; -1 without a label
    ids: "Numbers | Hashes"  # distinct ids: integers, or hashes of strings

    @classmethod
    def from_array(cls, labels: pa.Array, max_ids: int | None = None) -> "RowLabels | None":
        """Return the labels of rows from an Arrow array with nulls; None if more than `max_ids` are distinct."""
        # A part shows it soon where there are too many
        if max_ids is not None and len(labels[: 2 * max_ids].dictionary_encode().dictionary) > max_ids:
            return None
        encoded = labels.dictionary_encode()  # a quarter of the time that sorting them takes
        if max_ids is not None and len(encoded.dictionary) > max_ids:
            return None
        named = encoded.dictionary
        ids = named.to_numpy() if pa.types.is_int64(named.type) else hash_values(named)
        return cls(encoded.indices.fill_null(-1).to_numpy().astype(np.int64), ids)

    def select(self, rows: "slice | NDArray[np.bool_]") -> "RowLabels":
        return RowLabels(self.codes[rows], self.ids)


@dataclass(slots=True)
class LabelPairs:
    """Counts of each pair of a feature's value and a label."""

    # by (hash of the value, label); None if there are more than MAX_PAIRS
    counts: dict[tuple[int, int], int] | None = field(default_factory=dict)

    def add(self, codes: Numbers, hashes: Hashes, labels: RowLabels) -> None:
        """Count pairs of value and label of some rows; `codes` is each row's value, as an index into `hashes`."""
        if self.counts is None or len(hashes) > MAX_PAIRS:
            self.counts = None
            return
        width, known = len(labels.ids), labels.codes >= 0
        if not known.all():
            codes, labels = codes[known], labels.select(known)
        if not len(codes):
            return
        pairs, numbers = _count_pairs(codes * width + labels.codes, len(hashes) * width)
        if len(pairs) > MAX_PAIRS:
            self.counts = None
            return
        values, ids = hashes[pairs // width].tolist(), labels.ids[pairs % width].tolist()
        self._take(dict(zip(zip(values, ids, strict=True), numbers.tolist(), strict=True)))

    def stop_counting(self) -> None:
        """Stop counting pairs of value and label, because there are too many or values are lists."""
        self.counts = None

    def merge(self, other: "LabelPairs") -> None:
        if other.counts is None:
            self.counts = None
        else:
            self._take(other.counts)

    def _take(self, counts: dict[tuple[int, int], int]) -> None:
        if self.counts is None:
            return
        if not self.counts:
            self.counts = dict(counts)
            return
        for pair, number in counts.items():
            self.counts[pair] = self.counts.get(pair, 0) + number
        if len(self.counts) > MAX_PAIRS:
            self.counts = None

    def association(self, labels: Mapping[int, int]) -> float | None:
        """Return how well a feature's values predict the label, 0 to 1, given the number of examples by label.

        A missing value counts as a value. A value with fewer than MIN_EXAMPLES examples predicts nothing.
        Without values, with too many pairs or with fewer than two labels, the result is None.
        """
        if not self.counts or sum(number > 0 for number in labels.values()) < 2:
            return None
        of_value: dict[int | None, Counter[int]] = defaultdict(Counter)
        missing = Counter(labels)
        for (value, label), number in self.counts.items():
            of_value[value][label] += number
            missing[label] -= number
        of_value[None] = missing
        usual = min(labels, key=lambda label: (-labels[label], label))
        total, most = sum(labels.values()), labels[usual]
        right = sum(
            max(found.values()) if found.total() >= MIN_EXAMPLES else found[usual] for found in of_value.values()
        )
        return round((right - most) / (total - most), _DIGITS)


def _count_pairs(pairs: Numbers, most: int) -> tuple[Numbers, Numbers]:
    if most > max(4 * len(pairs), MAX_PAIRS):
        return np.unique(pairs, return_counts=True)
    counts = np.bincount(pairs, minlength=most)
    found = np.flatnonzero(counts)
    return found, counts[found]


# Values counted at once: what exact sums and `_order` take, and few enough to stay in a processor's cache.
_VALUES_AT_ONCE = 1 << 16
_NUMBERS_AT_ONCE = 1 << 18  # of several columns
_NO_TIES = np.zeros(0, np.uint64)  # of numbers, of which no sample is drawn
_STRINGS = (pa.binary(), pa.large_binary(), pa.string(), pa.large_string())


@dataclass(slots=True)
class _ColumnStats:
    """Statistics of a feature: its values, examples that have or lack it, and numbers of values per example."""

    values: ValueStats
    lengths: RangeStats | None  # values per example; None if the feature is no list
    pairs: LabelPairs | None = None  # values with labels; None if there is no label
    present: int = 0
    missing: int = 0

    def add(self, column: pa.Array, ties: Ties, labels: RowLabels | None = None) -> None:
        self.present += len(column) - column.null_count
        self.missing += column.null_count
        labels = labels if self.pairs is not None else None
        if self.lengths is not None:
            lengths = pc.list_value_length(column.drop_null()).to_numpy().astype(np.int64)
            self.lengths.add(lengths)
            if column.null_count:
                valid = _is_valid(column)
                ties, labels = ties[valid], labels and labels.select(valid)
            if self.pairs is not None and (lengths != 1).any():  # then a value is not an example's
                self.pairs.stop_counting()
                labels = None
            if isinstance(self.values, StringStats):
                starts = np.cumsum(lengths) - lengths
                places = np.arange(int(lengths.sum()), dtype=np.int64) - np.repeat(starts, lengths)
                ties = mix(np.repeat(ties, lengths) + mix(places.view(np.uint64)))  # of the row, and of the place in it
            else:  # of which no sample is drawn: zeros that take no memory
                ties = np.broadcast_to(np.uint64(0), (int(lengths.sum()),))
            column = column.flatten()
        if column.null_count:
            valid = _is_valid(column)
            ties, labels = ties[valid], labels and labels.select(valid)
            column = column.drop_null()
        for start in range(0, len(column), _VALUES_AT_ONCE):
            rows = slice(start, start + _VALUES_AT_ONCE)
            part = column[rows]
            part = part.cast(pa.large_binary()) if isinstance(self.values, StringStats) else part
            codes = self.values.add(part, ties[rows])
            if labels is not None:
                self.count_label_pairs(part, codes, labels.select(rows))

    def count_label_pairs(self, values: pa.Array, codes: DistinctCodes | None, labels: RowLabels) -> None:
        """Count values together with the labels of their rows; `codes` are the values' codes, if already computed."""
        assert self.pairs is not None
        if isinstance(self.values, NumericStats | StringStats) and self.values.distinct.counts is None:
            self.pairs.stop_counting()  # more than 1,024 values
        if self.pairs.counts is not None:
            if codes is None:
                encoded = values.dictionary_encode()
                codes = DistinctCodes(encoded.indices.to_numpy().astype(np.int64), hash_values(encoded.dictionary))
            self.pairs.add(codes.codes, codes.hashes, labels)

    def leave_out_known(self, known: "_ColumnStats") -> None:
        """Leave out the hashes and samples that do not change `known`, into which this is merged before it is used."""
        values, found = self.values, known.values
        if known.kind != self.kind or not isinstance(found, NumericStats | StringStats):
            return
        assert isinstance(values, NumericStats | StringStats)
        has_pairs = known.pairs is not None and known.pairs.counts is not None
        if found.distinct.counts is None and not has_pairs:  # as long as there are pairs, all values are counted
            values.distinct = DistinctValues(found.distinct.hashes, None)
        if isinstance(values, StringStats) and isinstance(found, StringStats) and len(found.sample.ties) == SAMPLE_SIZE:
            values.sample.bound = found.sample.ties[-1]

    @property
    def kind(self) -> str:
        return ("lists of " if self.lengths is not None else "") + self.values.kind

    def merge(self, other: "_ColumnStats") -> None:
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

    def summary(self, values: FeatureSummary, labels: Mapping[int, int] | None = None) -> FeatureSummary:
        """Return the statistics of the `values` with those of the examples that have them."""
        return replace(
            values,
            count=self.present,
            missing=self.missing,
            per_example=self.lengths.summary() if self.lengths is not None and self.present else None,
            label_association=self.pairs.association(labels) if self.pairs is not None and labels else None,
        )


_ROWS_AT_ONCE = 4096  # examples that are counted at once
_BYTES_AT_ONCE = 32 << 20  # of them, if they are large
_RAW_BYTES = 2048  # of a column's values: statistics of more of them take less space than the values


class _Pending(NamedTuple):
    batch: pa.RecordBatch
    ties: Ties
    labels: tuple[str, ...]
    label: str | None


@dataclass(slots=True)
class TableStats:
    """Statistics of examples by feature.

    Batches of few examples wait until there are more, for a count of a column takes long however few its values are.
    """

    examples: int = 0  # number of examples
    counted: dict[str, _ColumnStats] = field(default_factory=dict)  # by feature; without what waits
    label: str | None = None  # feature to predict, or None
    pending: list[_Pending] = field(default_factory=list)  # batches of one schema
    pending_rows: int = 0
    pending_bytes: int = 0
    known: "TableStats | None" = None  # as of `from_batch`, while a batch is counted

    @classmethod
    def from_batch(
        cls,
        batch: pa.RecordBatch,
        ties: Ties,
        labels: Collection[str] = (),
        label: str | None = None,
        known: "TableStats | None" = None,
    ) -> "TableStats":
        """Return the statistics of one Arrow batch of examples.

        With `known` statistics, into which they will be merged, they lack what does not change those. This saves the
        smallest hashes and a sample of each batch. Another thread may add to `known` meanwhile.
        """
        stats = cls(known=known)
        stats.add(batch, ties, labels, label)
        stats.known = None
        return stats

    def add(self, batch: pa.RecordBatch, ties: Ties, labels: Collection[str] = (), label: str | None = None) -> None:
        """Count the examples of a batch of int64, float32, binary or string (large or not), or of lists of these.

        Columns of images are those of transforms.statistics.images.IMAGE_METADATA. Null means that the example lacks
        the feature. `ties` is a hash of each row's position, uint64, unique in practice, by which samples are drawn. Of
        `labels`, which hold class ids, only the ids are counted. `label` is the feature to predict, by default the
        first of `labels` that is no list, or else the first of all. Raise a TypeError if a column has another type.
        """
        scalars = (name for name in batch.schema.names if name in labels and not _is_list(batch[name].type))
        label = label or next(scalars, next(iter(labels), None))
        for name, dtype in {
            dtype: (name, dtype) for name, dtype in zip(batch.schema.names, batch.schema.types)
        }.values():
            _make_column_stats(name, dtype, False)
        for name in labels:
            if name in batch.schema.names:
                _make_column_stats(name, batch.schema.field(name).type, True)
        self._wait(_Pending(batch, ties, tuple(labels), label))

    def _wait(self, batch: _Pending) -> None:
        last = self.pending[-1] if self.pending else batch
        if last[2:] != batch[2:] or not last.batch.schema.equals(batch.batch.schema):  # they cannot be counted as one
            self._count_pending()
        self.label = batch.label or self.label
        self.examples += batch.batch.num_rows
        self.pending.append(batch)
        self.pending_rows += batch.batch.num_rows
        if self.pending_rows < _ROWS_AT_ONCE:
            self.pending_bytes += batch.batch.nbytes
        if self.pending_rows >= _ROWS_AT_ONCE or self.pending_bytes >= _BYTES_AT_ONCE:
            self._count_pending()

    def _count_pending(self) -> None:
        if not self.pending:
            return
        first, rows = self.pending[0], self.pending_rows
        batch = first.batch if len(self.pending) == 1 else pa.concat_batches([each.batch for each in self.pending])
        ties = np.concatenate([each.ties for each in self.pending])
        self.pending, self.pending_rows, self.pending_bytes = [], 0, 0
        self._count(batch, ties, first.labels, first.label, self.examples - rows)

    def _count(
        self, batch: pa.RecordBatch, ties: Ties, labels: Collection[str], label: str | None, counted: int
    ) -> None:
        names = set(batch.schema.names)
        of_rows = _find_row_labels(batch[label], label in labels) if label in names else None
        untold = of_rows is None and label in names
        numeric: dict[pa.DataType, list[tuple[NumericStats, pa.Array]]] = {}
        for name, array in zip(batch.schema.names, batch.columns):
            column = _make_column_stats(name, array.type, name in labels)
            if label is not None and name != label and name not in labels and array.type != IMAGE_METADATA:
                column.pairs = LabelPairs()
            column.missing = counted
            if self.known is not None and (before := self.known.counted.get(name)) is not None:
                column.leave_out_known(before)
            known = self.counted.setdefault(name, column)
            values = column.values
            is_full_scalar = column.lengths is None and not array.null_count
            if known is column and len(batch) <= _ROWS_AT_ONCE and is_full_scalar and isinstance(values, NumericStats):
                numeric.setdefault(array.type, []).append((values, array))
                column.present += len(batch)
                if of_rows is not None and column.pairs is not None:
                    column.count_label_pairs(array, None, of_rows)
            elif known.kind == column.kind:
                known.add(array, ties, of_rows)
            else:
                column.missing = 0
                column.add(array, ties)
                known.merge(column)
            if untold and known.pairs is not None:
                known.pairs.stop_counting()
        for columns in numeric.values():
            _count_together(columns)
        for name in self.counted.keys() - names:
            self.counted[name].missing += batch.num_rows

    @property
    def columns(self) -> dict[str, _ColumnStats]:
        """The statistics of all batches by feature; empty before the first batch."""
        self._count_pending()
        return self.counted

    def merge(self, other: "TableStats") -> None:
        """Add the counts of `other`, which is not changed; a column that one lacks is missing in its examples."""
        if other.counted:
            self._count_pending()
            for name, column in other.counted.items():
                if name in self.counted:
                    self.counted[name].merge(column)
                else:
                    self.counted[name] = replace(copy.deepcopy(column), missing=column.missing + self.examples)
            counted = other.examples - other.pending_rows
            for name in self.counted.keys() - other.counted.keys():
                self.counted[name].missing += counted
            self.examples += counted
        for batch in other.pending:
            self._wait(batch)
        self.label = self.label or other.label

    def __getstate__(self) -> tuple[Any, ...]:
        state = self.examples, self.counted, self.label
        if not self.pending or self.pending_bytes > _RAW_BYTES * self.pending[0].batch.num_columns:
            self._count_pending()
            return *state, None
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, self.pending[0].batch.schema) as writer:
            for each in self.pending:
                writer.write_batch(each.batch)
        return *state, (sink.getvalue().to_pybytes(), [each[1:] for each in self.pending])

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.examples, self.counted, self.label, waiting = state
        self.pending, self.pending_rows, self.pending_bytes, self.known = [], 0, 0, None
        if waiting is not None:
            batches, arguments = pa.ipc.open_stream(waiting[0]), waiting[1]
            self.pending = [_Pending(batch, *rest) for batch, rest in zip(batches, arguments)]
            self.pending_rows = sum(len(each.batch) for each in self.pending)
            self.pending_bytes = sum(each.batch.nbytes for each in self.pending)

    def summary(self, class_names: Mapping[str, Sequence[str]] = {}) -> dict[str, FeatureSummary]:
        """Return the statistics by feature, for stats.json.

        `class_names` are in the order of ids, by feature; raises ValueError if one was not counted as a label.
        """
        for name in class_names:
            self.label_counts(name)
        labels = _label_counts(self.columns[self.label].values) if self.label in self.columns else None
        of_numbers: dict[str, FeatureSummary] = {}
        for kind in ("int64", "float32"):
            numeric = {
                name: column.values
                for name, column in self.columns.items()
                if isinstance(column.values, NumericStats) and column.values.kind == kind
            }
            of_numbers |= zip(numeric, summarize_numbers(list(numeric.values())))
        return {
            name: column.summary(of_numbers.get(name) or column.values.summary(class_names.get(name)), labels)
            for name, column in self.columns.items()
        }

    def count_values(self, feature: str) -> int:
        """Return the number of values of a list feature in all examples; 0 if there is no such feature."""
        column = self.columns.get(feature)
        return 0 if column is None or column.lengths is None else column.lengths.sums.total

    def is_empty(self, feature: str) -> bool:
        """Return True if no example has a value of the feature: it is missing or an empty list in all of them."""
        column = self.columns.get(feature)
        return column is None or not column.present or (column.lengths is not None and column.lengths.high <= 0)

    def count_rotated(self, feature: str) -> int:
        """Return the number of a feature's images to turn by EXIF; 0 if it was not counted as images."""
        column = self.columns.get(feature)
        return column.values.rotated if column is not None and isinstance(column.values, ImageColumnStats) else 0

    def numeric_range(self, feature: str) -> RangeStats | None:
        """Return range and exact sums of a feature's finite values; None if it was not counted as numbers."""
        column = self.columns.get(feature)
        return column.values.range if column is not None and isinstance(column.values, NumericStats) else None

    def label_counts(self, feature: str) -> Counter[int]:
        """Return the number of values by class id, of a feature that was counted as a label."""
        values = self.columns[feature].values if feature in self.columns else None
        if not isinstance(values, ClassStats):
            raise ValueError(
                f'feature "{feature}" was not counted as a label: name it in `labels` where its batches are counted'
            )
        return Counter(values.counts)


def _count_together(columns: Sequence[tuple[NumericStats, pa.Array]]) -> None:
    """Count columns of numbers of one type, of as many examples, none of which is missing."""
    rows = len(columns[0][1])
    at_once = max(1, _NUMBERS_AT_ONCE // max(rows, 1))
    for start in range(0, len(columns) if rows else 0, at_once):
        part = columns[start : start + at_once]
        numbers = np.stack([array.to_numpy() for _, array in part])
        is_finite = np.isfinite(numbers).all(axis=1)
        for index in np.flatnonzero(~is_finite).tolist():
            part[index][0].add(part[index][1], _NO_TIES)
        if is_finite.any():
            counted = [stats for (stats, _), finite in zip(part, is_finite.tolist()) if finite]
            count_columns(counted, numbers if is_finite.all() else numbers[is_finite])


def _make_column_stats(name: str, dtype: pa.DataType, is_label: bool) -> _ColumnStats:
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
        values = NumericStats.for_floats()
    elif value in _STRINGS:
        values = StringStats()
    elif value == IMAGE_METADATA:
        values = ImageColumnStats()
    else:
        raise TypeError(
            f'feature "{name}": no statistics of {dtype}, only of int64, float32, binary or string and lists of them'
        )
    return _ColumnStats(values, RangeStats() if is_list else None)


def _find_row_labels(column: pa.Array, is_class: bool) -> RowLabels | None:
    """Return the label of each row, or None if rows have several labels, or too many distinct ones."""
    if _is_list(column.type):
        if (pc.list_value_length(column.drop_null()).to_numpy() != 1).any():
            return None
        valid = _is_valid(column)
        column = column.flatten().take(pa.array(np.cumsum(valid) - 1, mask=~valid))
    if pa.types.is_int64(column.type):
        return RowLabels.from_array(column, max_ids=None if is_class else MAX_PAIRS)
    return RowLabels.from_array(column.cast(pa.large_binary()), MAX_PAIRS) if column.type in _STRINGS else None


def _label_counts(values: ValueStats) -> dict[int, int] | None:
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
