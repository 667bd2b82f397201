"""The hooks by which rows become sequences."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa

from shardmill.addons.sequences.options import SequenceOptions
from shardmill.addons.sequences.records import order_keys, row_records, row_widths
from shardmill.addons.sequences.shards import SAME_TIME, SequenceShards
from shardmill.data.features import Feature, Features, Renames
from shardmill.errors import UserError
from shardmill.flag_values import assign, quote
from shardmill.text import FIRST_UNORDERED, plural, shown_line
from shardmill.transforms.columns import text
from shardmill.transforms.columns.arrow import as_text
from shardmill.transforms.columns.conversion import find_rounded_texts
from shardmill.transforms.columns.example_bytes import frame, payload_hashes
from shardmill.transforms.columns.types import ColumnType, Inferred
from shardmill.transforms.features.rows import EncodedRows, RowAddOn, RowBatch, Written
from shardmill.transforms.findings import Finding
from shardmill.transforms.formats.format import key_column_name
from shardmill.transforms.layout.columns import Columns, suggest_column
from shardmill.transforms.layout.options import TableOptions
from shardmill.transforms.layout.tables import TableLayout
from shardmill.transforms.records.encoding import CONTENT_SEED, keys_as_stored
from shardmill.transforms.shards.balance import ShardCount, shard_count
from shardmill.transforms.shards.divisions import Division, divide_by_keys
from shardmill.transforms.times import EXAMPLE

if TYPE_CHECKING:
    from shardmill.pipelines.config.records import RecordsConfig

_ROW_FILE, _ROW_LINE, _ROW_ORDER = "\0file", "\0line", "\0order"  # of a row, in addition to its columns
_EXPECTED_TIME = f"neither a number nor a date or time {EXAMPLE}, with at most 9 decimals"


@dataclass(frozen=True, slots=True)
class MixedZones(Finding):
    """The times that order rows, with and without a zone."""

    rank: ClassVar[int] = 6
    column: str = ""
    times: int = 0
    zoned: int = 0  # of these, those with a zone

    def notices(self, flags: object, rows: int) -> Iterator[str]:
        if 0 < self.zoned < self.times:
            were = plural(self.times - self.zoned, "value without a zone was", "values without a zone were")
            yield f"--order_by {self.column}: {were} taken for UTC among {self.zoned:,} with a zone"


@dataclass(frozen=True)
class Sequences(RowAddOn):
    """The hooks of sequences, and the Assembly of the rows of each id."""

    id: str  # column whose equal values form a sequence
    time: str  # column that orders the rows
    numbers: text.NumberStyle  # of texts that order the rows
    row_identifiers: tuple[str, ...]  # features that identify a row but are not content
    renames: Renames
    by_bytes: bool  # True for shards of equally many bytes
    order: str  # of rows of one time, as text
    cuts_records: bool = False

    @classmethod
    def of(cls, options: SequenceOptions, config: "RecordsConfig") -> "Sequences":
        """Return the sequences of a job."""
        assert options.sequence_by is not None
        assert options.order_by is not None
        order = "files and lines" if config.has_files else "content"
        how, by_bytes = text.NumberStyle(config.decimal, config.thousands), config.balance == "bytes"
        return cls(options.sequence_by, options.order_by, how, config.row_identifiers, config.renames, by_bytes, order)

    @property
    def assembly(self) -> "Sequences":
        return self

    @property
    def key(self) -> tuple[str, str]:
        return "--sequence_by", self.id

    @property
    def contents(self) -> str:
        return f"sequences without {', '.join(map(repr, (self.id, *self.row_identifiers)))}"

    def restore_features(self, features: Features, schema_name: str) -> Features:
        return tuple(replace(each, shape=each.shape[1:]) if each.shape[:1] == (None,) else each for each in features)

    def change_columns(self, columns: Columns, inferred: Inferred, options: TableOptions) -> Columns:
        """Read the order as text where float32 would round it, such as seconds since 1970 with fractions."""
        known = columns.types.get(self.time)
        if known is None or known.dtype != "float32" or known.length is not None:
            return columns
        read_as = ColumnType("bytes", None, 0, is_time=True, is_counted=True)
        return replace(columns, types={**columns.types, self.time: read_as})

    def change_layout(self, layout: TableLayout, source: str) -> TableLayout:
        """Return the layout of sequences: columns become lists, except the id and labels, which have one value each."""
        names = [feature.name for feature in layout.features]
        for flag, name in (("--sequence_by", self.id), ("--order_by", self.time)):
            if name not in names:
                raise UserError(f"{flag} {name}: no such column in {source}; {suggest_column(name, names)}")
        by_name = {feature.name: feature for feature in layout.features}
        if by_name[self.id].shape:
            raise UserError(f"--sequence_by {self.id}: the column holds lists; expected one value in each row")
        if by_name[self.time].shape or by_name[self.time].kind in ("bool", "class_label"):
            raise UserError(f"--order_by {self.time}: the column orders nothing; expected numbers, or dates or times")
        constant = {self.id, *layout.required_labels, *layout.class_names, *layout.label_separators}
        features = tuple(
            _constant(each) if each.name in constant else _listed(each, layout.images) for each in layout.features
        )
        return replace(layout, features=features)

    def prepare(self, rows: RowBatch) -> None:
        """Add each row's file, line and order; reject rows without an id, a time, or a value of any other column."""
        layout, time = rows.layout, self.time
        rows.reject(rows.is_missing(key_column_name(self.id)), lambda _: f"no id: column {self.id!r} has no value")
        times, no_time = rows.batch[time], f"no time: column {time!r}"
        dtype = next(feature.dtype for feature in layout.features if feature.name == time)
        rows.reject(rows.is_missing(time), lambda _: f"{no_time} has no value")
        if dtype == "float32" and layout.types[time].dtype == "bytes":  # of more digits than float32
            texts = times.cast(pa.binary())
            values, _ = text.parse_values(texts, dtype)
            rows.set_column(time, values)
            rows.reject(
                rows.is_missing(time), lambda row: f"{no_time}: {text.misfit_reason(texts[row].as_py(), dtype)}"
            )
            rows.counters.append(partial(find_rounded_texts, time, texts, values))
            times = text.parse_exact_floats(texts)
        order, timeless, moments = order_keys(times, self.numbers)
        if moments is not None:
            zones = moments.is_time, moments.is_time & moments.has_zone
            rows.counters.append(lambda good: MixedZones(time, *(int((good & flags).sum()) for flags in zones)))
        rows.reject(timeless, lambda row: f"{no_time}: {as_text(times[row].as_py())!r} is {_EXPECTED_TIME}")
        for feature in layout.features:
            if feature.name not in layout.required_labels:
                message = (
                    f"column {feature.name!r} has no value, and a sequence has one for each of its rows;"
                    f" --fill {assign(feature.name, 'VALUE')} puts one in its place"
                )
                rows.reject(rows.is_missing(feature.name), lambda _, said=message: said)
        names = pa.array([rows.file.encode()] * len(rows.lines), pa.large_binary())
        for name, column in ((_ROW_FILE, names), (_ROW_LINE, pa.array(rows.lines)), (_ROW_ORDER, pa.array(order))):
            rows.batch = rows.batch.append_column(name, column)

    def encode(self, batch: pa.RecordBatch, helpers: Mapping[str, pa.Array], layout: TableLayout) -> EncodedRows:
        features = batch.select([feature.name for feature in layout.features])
        ids = keys_as_stored(helpers[self.id], features, self.id, layout)
        values = (ids, features.columns, row_widths(layout.features))
        lines = batch[_ROW_LINE]
        if len(lines) and shown_line(lines[0].as_py()) is None:  # rows of one time are in the order of their content
            same = pa.array(np.zeros(len(lines), np.int64))
            hashes = payload_hashes(frame(row_records(batch[_ROW_FILE], same, *values)), [CONTENT_SEED])[0]
            lines = pa.array((hashes >> np.uint64(2)).astype(np.int64) | FIRST_UNORDERED)
        records = row_records(batch[_ROW_FILE], lines, *values)
        ties, labels = batch[_ROW_ORDER].to_numpy(), features.select(list(layout.labels))
        return EncodedRows(frame(records), features, helpers, ties=ties, partial_columns=labels, is_compared=False)

    def count_shards(self, counts: Mapping[str, ShardCount], split: str, records: int, size_bytes: int) -> int:
        return shard_count(counts, split, records, size_bytes)

    def divide(self, keys: np.ndarray, ties: np.ndarray, sizes: np.ndarray, shards: int) -> Division:
        return divide_by_keys(keys, ties, sizes, shards, self.by_bytes)

    def make_shards(self, layout: TableLayout) -> SequenceShards:
        non_content = (self.id, *self.row_identifiers)
        order = self.id, self.time, self.numbers
        return SequenceShards(layout.features, *order, non_content, layout.labels, layout.target, self.renames)

    def describe(self, written: Written) -> tuple[dict[str, dict[str, int]], list[str]]:
        notices = []
        shared = sum(division.shared for division in written.divisions.values())
        same = sum(shard.notice_counts.get(SAME_TIME, 0) for shard in written.shards)
        if same:
            notices.append(
                f"{plural(same, 'row has', 'rows have')} the {self.time} of another of the same {self.id}:"
                f" such rows are in the order of their {self.order}"
            )
        if shared:
            have = plural(shared, "value of it has", "values of it have")
            notices.append(
                f"--sequence_by {self.id}: {have} rows in the folders of several splits, and a sequence in each;"
                " --splits deals whole sequences out instead"
            )
        return {}, notices


def _constant(feature: Feature) -> Feature:
    if feature.shape:
        raise UserError(
            f"--label {quote(feature.name)} holds lists, and a sequence has one; leave out --sequence_by, or --label"
        )
    return replace(feature, required=True)


def _listed(feature: Feature, images: tuple[str, ...]) -> Feature:
    is_text = feature.shape and feature.dtype == "bytes"
    lists = "lists of differing lengths" if None in feature.shape else "lists of texts" if is_text else ""
    if held := "images" if feature.name in images else lists:
        raise UserError(
            f"--sequence_by: column {feature.name!r} holds {held}, of which an example has no list; leave it out by"
            f" --drop {quote(feature.name)}"
        )
    kind = "tensor" if feature.kind == "text" else feature.kind
    return replace(feature, kind=kind, shape=(None, *feature.shape), required=True)
