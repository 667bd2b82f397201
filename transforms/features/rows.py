"""Hooks of add-ons that change how rows become examples, and the rows that they are given."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardmill.data.features import Features
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.arrow import as_text
from shardmill.transforms.columns.example_decoding import Kinds
from shardmill.transforms.columns.types import ColumnType, Inferred
from shardmill.transforms.findings import Finding, Findings
from shardmill.transforms.formats.format import Rows
from shardmill.transforms.layout.columns import Columns
from shardmill.transforms.layout.options import TableOptions
from shardmill.transforms.layout.tables import TableLayout
from shardmill.transforms.shards.balance import ShardCount
from shardmill.transforms.shards.divisions import Division, Divisions
from shardmill.transforms.shards.sources import ShardInfo, ShardSource
from shardmill.transforms.statistics.tables import TableStats

ENCODE_STAGE = "encode"
PICTURES = "\0pictures:"  # how the column of a batch begins that holds the metadata of images of a column
Flags = npt.NDArray[np.bool_]


@dataclass(slots=True, eq=False)
class RowBatch:
    """The rows of a block on their way to examples: steps replace columns and reject rows."""

    batch: pa.RecordBatch
    lines: np.ndarray  # number of each row in its file: int64, shape (rows,)
    file: str  # its name
    layout: TableLayout
    is_good: Flags = field(init=False)  # rows that are not rejected: shape (rows,)
    rejects: list[Reject] = field(default_factory=list)
    counters: list[Callable[[Flags], Finding]] = field(default_factory=list)  # return the finding in the good rows

    def __post_init__(self) -> None:
        self.is_good = np.ones(len(self.batch), bool)

    def reject(self, bad: Flags, reason: Any) -> None:
        """Reject the rows that are `bad` and were good; `reason` is a function that returns why, given a row."""
        column = self.layout.row_name_column
        for row in np.flatnonzero(bad & self.is_good).tolist():
            name = f"{as_text(self.batch[column][row].as_py())}: " if column else ""
            self.rejects.append(Reject(self.file, int(self.lines[row]), ENCODE_STAGE, name + reason(row)))
        self.is_good[bad] = False

    def set_column(self, name: str, values: pa.Array) -> None:
        """Replace a column."""
        self.batch = self.batch.set_column(self.batch.schema.get_field_index(name), name, values)

    def is_missing(self, name: str) -> Flags:
        """Return the rows without a value in a column."""
        return np.asarray(self.batch[name].is_null().to_numpy(zero_copy_only=False))

    def find(self) -> Findings:
        """Return the findings in the good rows."""
        findings = Findings()
        for count in self.counters:
            findings.add(count(self.is_good))
        return findings


@dataclass(frozen=True, slots=True, eq=False)
class EncodedRows:
    """Encoded rows, with the values that decide their shard and order."""

    framed: pa.LargeBinaryArray  # records as in a TFRecord file
    features: pa.RecordBatch  # features as encoded
    helpers: Mapping[str, pa.Array]  # texts of keys, groups and strata by column, see transforms.columns.text
    inferred: Inferred = field(default_factory=Inferred)  # column types, if not known before
    kinds: Kinds = field(default_factory=dict)  # feature kinds of existing records
    # image metadata by image column, see transforms.statistics.images
    pictures: Mapping[str, pa.Array] = field(default_factory=dict)
    ties: np.ndarray | None = None  # uint64, shape (rows,): replaces PreparedRows.ties
    # columns to count of rows that are not yet examples; None if rows are examples
    partial_columns: pa.RecordBatch | None = None
    is_compared: bool = True  # False for rows that are only parts of the examples to compare for duplicates
    # dtype REFERENCE, shape (rows,), without file numbers: the images that are in the rows' files as they are
    references: np.ndarray | None = None

    @property
    def counted_columns(self) -> pa.RecordBatch:
        """The columns that statistics count; in place of each image column, one of the images' sizes and formats."""
        if self.partial_columns is not None:
            return self.partial_columns
        batch = self.features
        for name, pictures in self.pictures.items():
            batch = batch.set_column(batch.schema.get_field_index(name), name, pictures)
        return batch


class Assembly(Protocol):
    """The making of examples from several records, or from parts of them, while shards are written."""

    @property
    def contents(self) -> str:
        """The name of what is compared to find duplicates."""

    @property
    def cuts_records(self) -> bool:
        """True if an example may have parts of records, which are compared in its place."""

    @property
    def key(self) -> tuple[str, str] | None:
        """The flag and the column whose equal values make one example; None for the stream of all records."""

    def encode(self, batch: pa.RecordBatch, helpers: Mapping[str, pa.Array], layout: TableLayout) -> EncodedRows:
        """Encode prepared rows as records."""

    def count_shards(self, counts: Mapping[str, ShardCount], split: str, records: int, size_bytes: int) -> int:
        """Return the number of shards of a split, given the requested counts; raises UserError."""

    def divide(self, keys: np.ndarray, ties: np.ndarray, sizes: np.ndarray, shards: int) -> Division:
        """Divide the records of a split among shards."""

    def make_shards(self, layout: TableLayout) -> ShardSource:
        """Return what makes the examples of a shard."""


@dataclass(frozen=True, slots=True)
class Written:
    """The results of a job over rows, which an add-on describes."""

    stats: Mapping[str, TableStats]  # of staged rows, by split
    shards: Sequence[ShardInfo]
    divisions: Divisions


class RowAddOn:
    """Hooks of an add-on that changes how rows become examples; each of them changes nothing by default.

    The hooks are called in their order in this class. They travel to workers, so they pickle.
    """

    def restore_features(self, features: Features, schema_name: str) -> Features:
        """Return the features of the input's rows, given those of a --schema of examples; raises UserError."""
        return features

    def rename_texts(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """Return the names of the features that columns of parallel texts become."""
        return columns

    def change_columns(self, columns: Columns, inferred: Inferred, options: TableOptions) -> Columns:
        """Return the columns to read, given those that flags and a schema choose; raises UserError."""
        return columns

    def change_layout(self, layout: TableLayout, source: str) -> TableLayout:
        """Return the layout of examples, given that of rows of `source`; raises UserError."""
        return layout

    def prepare(self, rows: RowBatch) -> None:
        """Change the columns of rows and reject rows, after labels were converted."""

    @property
    def assembly(self) -> Assembly | None:
        """The making of examples from records; None if each record is one. At most one add-on of a job has it."""
        return None

    @property
    def weigh(self) -> Callable[[pa.RecordBatch], np.ndarray] | None:
        """The function that returns each record's weight, given features, if shards are to be equal in weights."""
        return None

    def describe(self, written: Written) -> tuple[Mapping[str, Mapping[str, int]], list[str]]:
        """Return further counts of what was written, by unit and split, and notices."""
        return {}, []


def lay_out_rows(
    add_ons: Sequence[RowAddOn], options: TableOptions, types: dict[str, ColumnType], inferred: Inferred
) -> tuple[dict[str, ColumnType], dict[str, ColumnType], Callable[[Rows, str], Rows]]:
    """Return the types of a manifest's columns as read and as stored, and the change of its rows; raises UserError.

    The change is a function of rows and the name of their file. Manifests are read in a room below this one.
    """
    features = (column.feature(name, inferred.rows) for name, column in types.items() if column.present)
    columns = Columns(types, tuple(features))
    for add_on in add_ons:
        columns = add_on.change_columns(columns, inferred, options)
    units = {feature.name: feature.time for feature in columns.features if feature.time}
    stored = {name: ColumnType("int64", None, 0, time=unit) for name, unit in units.items()}
    layout = TableLayout(columns.types, columns.features, (), {}, (), None)
    return columns.types, types | stored, partial(_prepare_rows, add_ons, layout)


def _prepare_rows(add_ons: Sequence[RowAddOn], layout: TableLayout, rows: Rows, file: str) -> Rows:
    found = RowBatch(rows.batch, rows.lines, file, layout)
    for add_on in add_ons:
        add_on.prepare(found)
    good, rejects = found.is_good, [*rows.rejects, *found.rejects]
    return Rows(found.batch.filter(pa.array(good)), rows.lines[good], rejects, rows.findings.merge(found.find()))
