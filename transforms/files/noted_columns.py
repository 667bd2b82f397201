"""A manifest's columns as Arrow columns, from the entries that they became: what statistics count."""

from collections.abc import Sequence

import pyarrow as pa

from shardmill.features.feature import DType, Feature
from shardmill.features.renames import Renames
from shardmill.reading.example_decoder import ExampleDecoder
from shardmill.records.example import example_header
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.sharding.keys import hash_strings
from shardmill.transforms.statistics.gathered import GatheredStats

Columns = tuple[tuple[str, ColumnType], ...]  # by name
_ARROW: dict[DType, pa.DataType] = {"int64": pa.int64(), "float32": pa.float32(), "bytes": pa.large_binary()}
_LABEL = "label"


def noted_columns(columns: Columns, renames: Renames, entries: Sequence[bytes]) -> pa.RecordBatch:
    """What a manifest says of some files, by the names of its columns.

    Args:
      columns: of the manifest.
      renames: what they are called in `entries`.
      entries: what shardmill.transforms.files.manifest_columns made of each row.
    """
    decode = ExampleDecoder(tuple(_flat(renames(name), column) for name, column in columns))
    rows = [decode(example_header(len(entry)) + entry) for entry in entries]
    return pa.record_batch(
        {name: pa.array([row.get(renames(name)) for row in rows], _arrow(column)) for name, column in columns}
    )


def noted_stats(
    columns: pa.RecordBatch, labels: Sequence[int | None], names: Sequence[str], lines: Sequence[int | None]
) -> GatheredStats:
    """The statistics of what a manifest says of some files.

    Args:
      columns: as `noted_columns` has them.
      labels: the class id of each; all None where files have no label.
      names, lines: of each file, and of the manifest.
    """
    if not columns.num_rows:
        return GatheredStats()
    is_labelled = any(label is not None for label in labels)
    if is_labelled:
        columns = columns.append_column(_LABEL, pa.array(labels, pa.int64()))
    ties = hash_strings([f"{name}\0{line}" for name, line in zip(names, lines, strict=True)], 0)
    return GatheredStats.of(columns, ties, [_LABEL] if is_labelled else ())


def _dtype(column: ColumnType) -> DType:
    return "int64" if column.dtype == "bool" else column.dtype


def _flat(name: str, column: ColumnType) -> Feature:
    """A column as a feature of one value, or of a list of any length."""
    return Feature(name, _dtype(column), shape=() if column.length is None else (None,), required=False)


def _arrow(column: ColumnType) -> pa.DataType:
    return _ARROW[_dtype(column)] if column.length is None else pa.large_list(_ARROW[_dtype(column)])
