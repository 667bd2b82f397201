"""Rows that a Python program holds, as Arrow batches or as an iterator of dictionaries.

pandas, polars, datasets and pyarrow.dataset are imported by the program that gives their objects, and never here.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date, time
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shardmill.errors import JobError, UserError
from shardmill.metadata.file_names import is_split_name
from shardmill.text import listed, plural, shorten
from shardmill.transforms.formats.format import check_unique_names
from shardmill.transforms.inputs.folders import normalize_split
from shardmill.transforms.rows.values import row_of
from shardmill.transforms.stores.protocol import error_text

KINDS = (
    "a pandas or polars DataFrame, a pyarrow Table, RecordBatchReader or Dataset, a Hugging Face Dataset or"
    " DatasetDict, a dictionary of NumPy arrays, or an iterable of dictionaries"
)
_BATCH_ROWS = 1 << 16  # at most
_BATCH_BYTES = 16 << 20  # of NumPy arrays, about
_MEDIA_ROWS = 32  # of a batch with images or sounds, whose files are read then


class Batches(NamedTuple):
    """Arrow batches of one schema, which can be read once."""

    schema: pa.Schema
    batches: Iterable[pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class RowSource:
    """Rows that a Python program holds, in splits or not."""

    description: str  # in messages, such as "the pandas DataFrame"
    name: str  # in rejects, next to the number of a row, such as "DataFrame"
    # Rows by split, as batches or as an iterator of dictionaries; the only split is "" if the data names none
    splits: Mapping[str, Batches | Iterator[Any]]

    @property
    def has_splits(self) -> bool:
        """Return True if the data names splits."""
        return "" not in self.splits


def is_read_once(data: Any) -> bool:
    """Return True if reading `data` uses it up, as a generator's rows."""
    return isinstance(data, Iterator)


def open_rows(data: Any) -> RowSource:
    """Return the rows of `data`, which is not read yet, except for the first row of an iterable.

    Raises:
        UserError: if `data` is not of a kind that is read, or can be read in two ways.
    """
    if (found := _open_table(data)) is not None:
        description, name, rows = found
        return RowSource(description, name, {"": rows})
    if isinstance(data, Mapping):
        return _open_mapping(data)
    _refuse_others(data)
    try:
        rows = iter(data)
    except TypeError:
        raise UserError(f"data is {type(data).__name__}, which is not read; expected {KINDS}") from None
    description = f"the {type(data).__name__}"
    return RowSource(description, "rows", {"": _check_first(rows, description)})


def iterator_error(description: str, error: Exception, rows: int) -> JobError:
    """Return the error for an iterator that raised `error` after some rows."""
    reason = f"{type(error).__name__}: {error}".splitlines()[0].removesuffix(": ")
    return JobError(f"{description} raised {reason}, after {plural(rows, 'row')}; nothing was published")


def _open_mapping(data: Mapping[Any, Any]) -> RowSource:
    tables = {split: _open_table(value) for split, value in data.items()}
    if data and all(found is not None for found in tables.values()):
        names: dict[str, str] = {}
        for split in data:
            if not isinstance(split, str) or not is_split_name(split):
                raise UserError(f"split {split!r} of the data: expected letters, digits and '_' only; rename the split")
            if (other := names.setdefault(normalize_split(split), split)) != split:
                raise UserError(f"splits {other!r} and {split!r} of the data have one meaning; rename one of them")
        found = [table for table in tables.values() if table is not None]
        kinds = list(dict.fromkeys(table[0] for table in found))
        splits = {split: table[2] for split, table in zip(data, found, strict=True)}
        return RowSource(f"the splits of {listed(kinds, 3)}" if kinds else "the splits", found[0][1], splits)
    if data and all(isinstance(value, np.ndarray) for value in data.values()):
        return RowSource("the dictionary of arrays", "arrays", {"": _open_arrays(data)})
    if any(isinstance(value, np.ndarray | list | tuple) for value in data.values()):
        name, value = next(item for item in data.items() if not isinstance(item[1], np.ndarray))
        raise UserError(
            f"data is a dictionary whose value of {name!r} is a {type(value).__name__}, not a NumPy array: it may be"
            " one row or hold columns; give [data] for one row, or pyarrow.table(data) for columns"
        )
    raise UserError("data is a single dictionary; give [data] for one row, or a dictionary of NumPy arrays for columns")


_REMEDIES = (
    ("pandas", "Series", "to_frame()"),
    ("polars", "Series", "to_frame()"),
    ("polars", "LazyFrame", "collect()"),
)


def _refuse_others(data: Any) -> None:
    if isinstance(data, str | os.PathLike):
        raise UserError(
            f"data is the path {os.fspath(data)!r}, and shardmill.write takes rows; shardmill.convert reads files:"
            ' shardmill.convert("csv", input=…), or another command'
        )
    if isinstance(data, np.ndarray):
        raise UserError('data is a NumPy array, whose columns have no names; give a dictionary: {"x": data}')
    for module, name, remedy in _REMEDIES:
        if _is_of(data, module, name):
            raise UserError(f"data is a {module} {name}, not a DataFrame; give data.{remedy}")


def _open_table(data: Any) -> tuple[str, str, Batches | Iterator[Any]] | None:
    if (found := _find_table(data)) is not None and isinstance(found[2], Batches):
        _check_columns(found[0], found[2].schema)
    return found


def _find_table(data: Any) -> tuple[str, str, Batches | Iterator[Any]] | None:
    if _is_of(data, "pandas", "DataFrame"):
        return "the pandas DataFrame", "DataFrame", _open_pandas(data)
    if _is_of(data, "polars", "DataFrame"):
        return "the polars DataFrame", "DataFrame", _open_polars(data)
    if _is_of(data, "datasets", "Dataset"):
        return "the Hugging Face Dataset", "Dataset", _open_hugging_face(data)
    if _is_of(data, "datasets", "IterableDataset"):
        description = "the Hugging Face IterableDataset"
        rows = _check_first(iter(data), description) if data.features is None else _open_hugging_face(data)
        return description, "IterableDataset", rows
    if _is_of(data, "pyarrow.dataset", "Dataset"):
        data = data.scanner()
    if _is_of(data, "pyarrow.dataset", "Scanner"):
        return "the Arrow Dataset", "Dataset", Batches(data.projected_schema, data.to_batches())
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if isinstance(data, pa.Table):
        return "the Arrow Table", "Table", Batches(data.schema, data.to_batches(_BATCH_ROWS))
    if isinstance(data, pa.RecordBatchReader):
        return "the RecordBatchReader", "RecordBatchReader", Batches(data.schema, data)
    return None


def _is_of(data: Any, module: str, name: str) -> bool:
    """Return True if `data` is an instance of a class of a library; False if the program has not imported that."""
    kind = getattr(sys.modules.get(module), name, None)
    return isinstance(kind, type) and isinstance(data, kind)


def _check_first(rows: Iterator[Any], description: str) -> Iterator[Any]:
    """Return `rows`, of which the first one must be a dictionary; raises UserError, and JobError if `rows` fails."""
    try:
        head = list(islice(rows, 1))
    except Exception as error:
        raise iterator_error(description, error, 0) from error
    for first in head:
        if row_of(first) is None:
            named = isinstance(first, list | tuple)
            remedy = "; name the values of each row: dict(zip(names, row))" if named else f"; expected {KINDS}"
            raise UserError(f"the first row of the data is {type(first).__name__}, not a dictionary{remedy}")
    return chain(head, rows)


def _open_pandas(data: Any) -> Batches:
    source = "the pandas DataFrame"
    if data.columns.nlevels > 1:
        raise UserError(
            f"{source} has columns of {data.columns.nlevels} levels; give each one name, such as data.columns ="
            " ['_'.join(map(str, names)) for names in data.columns]"
        )
    for name in data.columns:
        if not isinstance(name, str):
            raise UserError(
                f"{source}: the name of column {name!r} is not a string; data.columns = data.columns.map(str) makes"
                " strings of all names"
            )
    check_unique_names(source, list(data.columns))
    named = [name for name in data.index.names if name is not None]
    if len(data) and (named or not _is_of(data.index, "pandas", "RangeIndex")):
        called = f"an index called {listed(list(map(repr, named)), 3)}" if named else "an index that is not a range"
        raise UserError(
            f"{source} has {called}, and it may be data; give data.reset_index() to store it, or"
            " data.reset_index(drop=True) to leave it out"
        )
    columns = {}
    for name in data.columns:
        with _report_column(source, name, data[name].dtype):
            columns[name] = pa.Table.from_pandas(data[[name]], preserve_index=False)[0]
            _check_times(data[name], columns[name])
    table = pa.table(columns)
    return Batches(table.schema, table.to_batches(_BATCH_ROWS))


def _check_times(values: Any, stored: pa.Array | pa.ChunkedArray) -> None:
    """Raise a ValueError where Arrow stores another time: it takes the kind of all from the first."""
    if values.dtype == object and re.search("date|time", str(stored.type)):
        for row, (value, found) in enumerate(zip(values, stored.to_pylist(), strict=True), 1):
            if _is_changed(value, found):
                raise ValueError(f"row {row} would become {shorten(str(found))}, and is {shorten(str(value))}")


def _is_changed(value: Any, stored: Any) -> bool:
    if isinstance(stored, list):
        return any(map(_is_changed, value, stored))
    if isinstance(stored, dict):
        return any(_is_changed(value.get(key), item) for key, item in stored.items())
    return isinstance(value, date | time) and stored is not None and bool(value != stored)


@contextmanager
def _report_column(source: str, name: str, kind: Any) -> Iterator[None]:
    try:
        yield
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        reason = str(error.args[0]) if isinstance(error, pa.ArrowException) else error_text(error, lines=1)
        without = {
            "the pandas DataFrame": f": data.drop(columns=[{name!r}])",
            "the polars DataFrame": f": data.drop({name!r})",
        }
        raise UserError(
            f"{source}: column {name!r} of type {kind} cannot be stored: {reason.splitlines()[0].rstrip('.')}; convert"
            f" its values, or give the data without the column{without.get(source, '')}"
        ) from None


def _check_columns(source: str, schema: pa.Schema) -> None:
    if not schema.names:
        raise UserError(f"{source} has no columns")
    check_unique_names(source, schema.names)
    for field in schema:
        with _report_column(source, field.name, field.type):  # some types fail with their first row
            pq.write_table(pa.table({field.name: pa.nulls(1, field.type)}), pa.BufferOutputStream())


def _open_polars(data: Any) -> Batches:
    source = "the polars DataFrame"
    polars = sys.modules["polars"]
    oldest = {"compat_level": polars.CompatLevel.oldest()}  # views of texts are not stored in Parquet
    empty = data.clear()
    for name, kind in data.schema.items():
        with _report_column(source, name, kind):
            if kind == polars.Object:
                raise ValueError("it holds Python objects")
            empty.select(name).to_arrow(**oldest)
    parts = (part.to_arrow(**oldest) for part in data.iter_slices(_BATCH_ROWS))
    return Batches(empty.to_arrow(**oldest).schema, chain.from_iterable(part.to_batches() for part in parts))


def _open_hugging_face(data: Any) -> Batches:
    """Return the rows in the order of `select` and `shuffle`, with the files of images and sounds in them."""
    if getattr(data, "format", {}).get("type") == "custom":
        raise UserError(
            "the Hugging Face Dataset has a function of with_transform or set_transform, which is applied when rows are"
            " read; give data.map(function) to store its values, or data.with_format(None) to store those before it"
        )
    table_module = sys.modules["datasets.table"]
    features = data.features
    has_media = any(sys.modules["datasets.features.features"].require_storage_embed(item) for item in features.values())
    schema = features.arrow_schema

    def read() -> Iterator[pa.RecordBatch]:
        for table in data.with_format("arrow").iter(_MEDIA_ROWS if has_media else _BATCH_ROWS):
            typed = table_module.table_cast(table, schema)
            yield from (table_module.embed_table_storage(typed) if has_media else typed).to_batches()

    return Batches(schema, read())


def _open_arrays(data: Mapping[Any, np.ndarray]) -> Batches:
    source = "the dictionary of arrays"
    for name, array in data.items():
        if not isinstance(name, str):
            raise UserError(f"{source}: the name {name!r} is not a string; give each array a string as its name")
        if not array.ndim:
            raise UserError(f"{source}: {name!r} is a single value; expected an array with a value for each row")
    (first, rows), *others = ((name, len(array)) for name, array in data.items())
    for name, length in others:
        if length != rows:
            raise UserError(
                f"{source}: {first!r} has {rows:,} rows, and {name!r} has {length:,}; expected arrays of equal length"
            )
    types = {}
    for name, array in data.items():
        with _report_column(source, name, array.dtype):
            found = _to_arrow(array if array.dtype.hasobject else array[:1])
            _check_times(array, found)
            types[name] = found.type
    row_bytes = sum(array[:1].nbytes for array in data.values())
    size = min(max(_BATCH_BYTES // max(row_bytes, 1), 1), _BATCH_ROWS)
    schema = pa.schema(types)

    def read() -> Iterator[pa.RecordBatch]:
        for start in range(0, rows, size):
            parts = [_to_arrow(array[start : start + size], schema.field(name).type) for name, array in data.items()]
            yield pa.RecordBatch.from_arrays(parts, schema=schema)

    return Batches(schema, read())


def _to_arrow(array: np.ndarray, kind: pa.DataType | None = None) -> pa.Array:
    """Return an array as Arrow; each row of one with several dimensions becomes nested lists of its shape."""
    if array.ndim > 1:
        if np.ma.isMaskedArray(array):
            raise ValueError("a masked array of several dimensions; data.filled(value) replaces the masked values")
        items = array.reshape(array.shape[0] * array.shape[1], *array.shape[2:])
        return pa.FixedSizeListArray.from_arrays(_to_arrow(items, kind and kind.value_type), array.shape[1])
    native = array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))
    if native.dtype.kind == "M" and np.datetime_data(native.dtype)[0] in ("h", "m"):
        native = native.astype("datetime64[s]")  # the coarsest times that Arrow has
    return pa.array(native, kind)
