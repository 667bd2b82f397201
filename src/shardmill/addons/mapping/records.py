"""Call a user's function with each record of the input, and spool what it returns."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import TaggedOutput

from shardmill.addons.mapping.findings import MapCalls
from shardmill.addons.mapping.function import FunctionError, UserFunction, is_same, is_sampled, record_seed
from shardmill.addons.mapping.spool import MappedSpool, UnorderedSpool
from shardmill.data.example import decode_example
from shardmill.errors import UserError
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.arrow import as_text, to_batch
from shardmill.transforms.columns.conversion import find_signed
from shardmill.transforms.columns.text import misfit_reason, parse_exact_floats, parse_values
from shardmill.transforms.columns.types import ColumnType, Inferred, ScalarType
from shardmill.transforms.findings import Findings, OddTexts, Rounded, RoundedNumbers
from shardmill.transforms.formats.avro import AvroFormat
from shardmill.transforms.formats.csv import CsvFormat
from shardmill.transforms.formats.format import (
    BlockRef,
    PartitionedFormat,
    RecordFormat,
    Rows,
    check_unchanged,
)
from shardmill.transforms.formats.json_lines import JsonLinesFormat
from shardmill.transforms.formats.parquet import ParquetFormat
from shardmill.transforms.formats.tar import TarFormat
from shardmill.transforms.formats.tfrecords import RECORD, TFRecordFormat
from shardmill.transforms.inputs.findings import REJECTS
from shardmill.transforms.inputs.record_blocks import Task, total_bytes
from shardmill.transforms.rows.formats import DictionariesFormat, SpooledFormat, name_rejects
from shardmill.transforms.rows.values import RefusedRow, describe_row, image_columns, to_plain_rows
from shardmill.transforms.workers.rejects import RejectsWriter

STAGE = "map"  # of the rejects of records on which the function failed
FINDINGS = "findings"  # the tag of Findings
_SAMPLED_ROWS = 64  # of the first batch of a file, with which the function of batches is called again


def needs_types(format_: RecordFormat, as_batches: bool) -> bool:
    """Return True if `read_records` needs the types of columns over all rows."""
    if isinstance(format_, PartitionedFormat):
        return True
    if isinstance(format_, TFRecordFormat):
        return False
    return (
        as_batches
        if isinstance(format_, JsonLinesFormat | SpooledFormat)
        else not isinstance(format_, AvroFormat | ParquetFormat)
    )


class Records(NamedTuple):
    """Records of one block, as a function gets them, and what was found as they were read."""

    values: Sequence[dict[str, Any]] | pa.RecordBatch
    lines: np.ndarray  # int64 (records,): first line of each
    rejects: Sequence[Reject] = ()
    findings: Findings = Findings()


def read_records(
    format_: RecordFormat, block: BlockRef, types: Mapping[str, ColumnType], as_batches: bool
) -> Iterator[Records]:
    """Yield the records of a block: RecordBatches, or dictionaries.

    * CSV has columns of int, float (64 bits), bool and str, which `types` decides over all rows; None where a value is
      missing. Lines of text are str.
    * JSON lines, Parquet, Avro, samples of WebDataset and rows of programs and queries are as they are given, with
      nested values.
    * tf.train.Examples have a list for each feature.
    * A batch of JSON objects or samples has columns of `types`, too.
    """
    if isinstance(format_, PartitionedFormat):
        yield from _with_folders(format_, block, types, as_batches)
    elif isinstance(format_, SpooledFormat):
        yield from read_records(format_.format_of(block.file), block, types, as_batches)
    elif isinstance(format_, (ParquetFormat, AvroFormat)):
        for part in format_.raw_batches(block):
            if isinstance(part, Reject):
                yield Records((), np.zeros(0, np.int64), [part])
            else:
                yield Records(part.batch if as_batches else part.batch.to_pylist(), part.lines)
    elif isinstance(format_, (JsonLinesFormat, TarFormat, DictionariesFormat)):
        for objects in format_.objects(block):
            if isinstance(objects, Reject):
                yield Records((), np.zeros(0, np.int64), [objects])
                continue
            names = dict.fromkeys(types)
            values: Any = objects.objects
            if as_batches:
                values = to_batch({name: _make_column(name, values, types[name]) for name in names}, len(values))
            else:
                values = [{**dict.fromkeys(names), **row} for row in values] if names else values
            yield Records(values, objects.line_numbers, objects.rejects, objects.findings)
    elif isinstance(format_, TFRecordFormat):
        for rows in format_.read(block, {}):
            yield _decode_examples(rows, block)
    else:
        # Numbers with a fraction are read as their texts, for float32 rounds them
        texts = {name for name, column in types.items() if column.dtype == "float32" and column.length is None}
        exact = {name: replace(each, dtype="bytes") if name in texts else each for name, each in types.items()}
        for rows in format_.read(block, exact):
            found = _to_native(rows, types, format_, block)
            yield found if as_batches else found._replace(values=found.values.to_pylist())  # type: ignore[union-attr]


def _decode_examples(rows: Rows, block: BlockRef) -> Records:
    examples, good, rejects = [], np.ones(len(rows.lines), bool), list(rows.rejects)
    for number, record in enumerate(rows.batch[RECORD].to_pylist()):
        try:
            decoded = decode_example(record)
            examples.append({name: np.asarray(values, object).tolist() for name, values in decoded.items()})
        except ValueError as error:
            good[number] = False
            rejects.append(Reject(block.file.name, int(rows.lines[number]), "read", f"no tf.train.Example: {error}"))
    return Records(examples, rows.lines[good], rejects, rows.findings)


_ARROW = {"bool": pa.bool_(), "int64": pa.int64(), "float32": pa.float64(), "bytes": pa.string()}


def _make_column(name: str, rows: Sequence[Mapping[str, Any]], column: ColumnType) -> pa.Array:
    """Return a column of Arrow of JSON objects, for --map_batches; raises UserError if it holds what Arrow cannot."""
    values = [row.get(name) for row in rows]
    if any(isinstance(value, bytes) for value in values):
        return pa.array(values, pa.binary())
    if column.dtype == "bytes" and column.length is None:
        values = [value if value is None or isinstance(value, str) else as_text(value) for value in values]
    kind = _ARROW[column.dtype]
    for _ in column.shape:
        kind = pa.list_(kind)
    try:
        return pa.array(values, kind)
    except (pa.ArrowException, OverflowError, TypeError) as error:
        raise UserError(
            f"--map_batches: column {name!r} cannot be a column of Arrow: {error}; give the function to --map, which"
            " takes each object as it is"
        ) from None


def _to_native(rows: Rows, types: Mapping[str, ColumnType], format_: RecordFormat, block: BlockRef) -> Records:
    """Return rows as columns of int64, double, bool, string and lists of these; rows that do not fit are rejects."""
    arrays: dict[str, pa.Array] = {}
    problems: dict[int, str] = {}
    # What these texts are is for the function; what it returns is looked at as any other rows are
    findings = rows.findings.without(OddTexts)
    for name, column in types.items():
        values = rows.batch[name]
        if column.dtype == "float32" and column.length is None:
            texts = values.cast(pa.binary())
            if isinstance(format_, CsvFormat) and not format_.numbers.is_plain:
                texts = format_.numbers.rewrite(texts)[0]
            arrays[name] = parse_exact_floats(texts)
            findings.add(RoundedNumbers({name: Rounded(signed=find_signed(values.cast(pa.binary()), arrays[name]))}))
            if arrays[name].null_count > texts.null_count:
                misfits = pc.and_(pc.is_valid(texts), pc.is_null(arrays[name])).to_numpy(zero_copy_only=False)
                for row in np.flatnonzero(misfits).tolist():
                    reason = misfit_reason(texts[row].as_py(), "float32")
                    problems.setdefault(row, f"column {name!r}: {reason}")
        elif column.length is not None:
            kind = _ARROW[column.dtype]
            arrays[name] = values.cast(pa.large_list(kind))
        elif column.dtype == "bytes":
            arrays[name] = _as_strings(values)
        else:
            arrays[name] = values.cast(_ARROW[column.dtype])
    for name in block.columns:  # without a value in any row
        arrays.setdefault(name, pa.nulls(len(rows.batch), pa.string()))
    if getattr(format_, "with_numbers", False):
        arrays["filename"] = pa.repeat(pa.scalar(block.file.name), len(rows.batch))
    found = replace(rows, batch=to_batch(arrays, len(rows.batch))).without(problems, block.file.name)
    return Records(found.batch, found.lines, found.rejects, findings)


def _as_strings(values: pa.Array) -> pa.Array:
    try:
        return values.cast(pa.string())
    except pa.ArrowInvalid:  # bytes that are no text
        return values


def _with_folders(
    format_: PartitionedFormat, block: BlockRef, types: Mapping[str, ColumnType], as_batches: bool
) -> Iterator[Records]:
    constants = {}
    for name, text in format_.folder_texts(block.file, 1)[0].items():
        dtype: ScalarType = types[name].dtype if name in types else "bytes"
        value = parse_values(text, dtype)[0].cast(_ARROW[dtype])[0]
        constants[name] = value
    own = {name: column for name, column in types.items() if name not in constants}
    for part in read_records(format_.inner, block, own, as_batches):
        values: Any = part.values
        if isinstance(values, pa.RecordBatch):
            columns = {name: values[name] for name in values.schema.names}
            columns |= {name: pa.repeat(value, len(values)) for name, value in constants.items()}
            yield part._replace(values=to_batch(columns, len(values)))
        else:
            plain = {name: value.as_py() for name, value in constants.items()}
            yield part._replace(values=[{**row, **plain} for row in values])


@dataclass(frozen=True)
class RecordMap:
    """Parameters of `map_task`: how records are read, and the function."""

    function: UserFunction
    format: RecordFormat  # of the input
    seed: int  # of random numbers
    types: tuple[tuple[str, str], ...] = ()  # types of columns that are not inferred, by name


def map_task(mapping: RecordMap, temporary: str, task: Task, inferred: Inferred) -> list[Any]:
    """Return one task of what the function returns for the records of a task, its rejects, and its findings."""
    types = {name: column.settle() for name, column in inferred.types.items()}
    for name, dtype in mapping.types:
        if name in types:
            types[name] = replace(types[name], dtype=cast(ScalarType, dtype))
    found, rejects = MapCalls(str(mapping.function), columns=frozenset(types)), RejectsWriter(temporary)
    findings = Findings()
    is_ordered = task[0].file.is_ordered
    spool = MappedSpool(temporary) if is_ordered else UnorderedSpool(temporary, mapping.format, task)
    input_bytes = total_bytes(task[0].file)
    as_batches = mapping.function.is_of_batches
    with mapping.function.calling() as call:
        for block in task:
            for records in read_records(mapping.format, block, types, as_batches):
                unread = list(records.rejects)
                left_out = unread if block.file.is_ordered else name_rejects(block, unread)
                findings = findings.merge(records.findings)
                if isinstance(records.values, pa.RecordBatch):
                    left_out += _map_batch(call, records, block, spool, found)
                else:
                    left_out += _map_rows(call, records, block, spool, found, mapping.seed, input_bytes)
                rejects.add(left_out)
                found.rejected += sum(reject.counted_records for reject in left_out)
    check_unchanged(block.file for block in task)
    blocks = spool.close()
    out: list[Any] = [tuple(blocks)] if blocks else []
    return [
        *out,
        *(TaggedOutput(REJECTS, part) for part in rejects.close()),
        TaggedOutput(FINDINGS, findings.merge(Findings.of(found))),
    ]


Call = Callable[..., list[Any]]
Spool = MappedSpool | UnorderedSpool


def _map_rows(
    call: Call, records: Records, block: BlockRef, spool: Spool, found: MapCalls, seed: int, input_bytes: int
) -> list[Reject]:
    rejects = []
    for row, line in zip(records.values, records.lines.tolist(), strict=True):
        if block.file.is_ordered:
            name, at = place = (block.file.name, line)
            record = record_seed(name, line, seed)
        else:  # how rows are divided among workers must not show
            name, at = place = (describe_row(row), 0)
            record = record_seed(repr(sorted(row.items())), 0, seed)
        try:
            again = call(deepcopy(row), record) if is_sampled(record, input_bytes) else None
            returned = call(row, record)
        except FunctionError as error:
            rejects.append(Reject(name, at or None, STAGE, str(error)))
            continue
        rows = to_plain_rows(returned) if returned else []
        if (refused := next((each for each in rows if isinstance(each, RefusedRow)), None)) is not None:
            rejects.append(Reject(name, at or None, STAGE, refused.reason))
            continue
        if again is not None:
            found.count_repeated(place, is_same(again, returned))
        found.count(place, len(rows))
        spool.add_rows(block.file, line, rows, image_columns(returned))
    return rejects


def _map_batch(call: Call, records: Records, block: BlockRef, spool: Spool, found: MapCalls) -> list[Reject]:
    batch, lines, name = records.values, records.lines, block.file.name
    assert isinstance(batch, pa.RecordBatch)
    if not len(batch):
        return []
    place = (name, int(lines[0])) if block.file.is_ordered else ("", 0)
    try:
        if (
            max(block.first_line, lines[0]) <= block.file.first_line + 1
        ):  # the first rows of a file, which may begin with a header
            first, half = batch.slice(0, _SAMPLED_ROWS), min(len(batch), _SAMPLED_ROWS) // 2
            parts = [*call(first.slice(0, half)), *call(first.slice(half))] if half else call(first)
            found.count_repeated(place, _are_equal(call(first), parts), len(first))
        returned = call(batch)
    except FunctionError as error:
        if len(batch) == 1:
            reject = Reject(name, int(lines[0]), STAGE, str(error))
            return [reject] if block.file.is_ordered else name_rejects(block, [reject])
        half = len(batch) // 2
        halves = [slice(0, half), slice(half, len(batch))]
        parts = [records._replace(values=batch[part], lines=lines[part]) for part in halves]
        return [reject for part in parts for reject in _map_batch(call, part, block, spool, found)]
    rows = sum(map(len, returned))
    found.count(place, rows, len(batch))
    places = lines[np.arange(rows) * len(lines) // max(rows, 1)]
    start = 0
    for part in returned:
        spool.add_batch(block.file, places[start : start + len(part)], part)
        start += len(part)
    return []


def _are_equal(one: Sequence[pa.RecordBatch], other: Sequence[pa.RecordBatch]) -> bool:
    try:
        first, second = pa.Table.from_batches(one), pa.Table.from_batches(other)
    except (pa.ArrowInvalid, ValueError):  # no batches, or of several schemas
        return sum(map(len, one)) == sum(map(len, other)) == 0
    return first.equals(second) or is_same(first.to_pylist(), second.to_pylist())
