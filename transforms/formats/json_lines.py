"""JSON objects as typed rows, and JSON Lines files."""

import ast
import json
import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import reduce
from itertools import chain
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from shardmill.flag_values import assign, quote
from shardmill.metadata.manifest import Reject
from shardmill.text import shorten
from shardmill.transforms.columns import conversion
from shardmill.transforms.columns.arrow import arrow_type, as_text, split_text, to_batch
from shardmill.transforms.columns.nested import NO_NESTING, FlatObject, Nesting, dotted_prefixes, is_list_of_objects
from shardmill.transforms.columns.text import find_odd_texts, key_texts_of_values
from shardmill.transforms.columns.types import (
    MAX_VALUES,
    ColumnError,
    ColumnNames,
    ColumnType,
    ColumnTypes,
    DeclaredColumn,
    DeclaredObjects,
    Inferred,
    NestedValues,
    ValuesOf,
    leaf_values,
    preview_value,
    value_type,
)
from shardmill.transforms.encodings import encoding_name, invalid_byte
from shardmill.transforms.findings import (
    Findings,
    IgnoredNames,
    OddTexts,
    OddValues,
    PassedOver,
    Remarks,
    RoundedNumbers,
    Undecodable,
    first_names,
    merged,
)
from shardmill.transforms.formats import format as formats
from shardmill.transforms.formats.format import BOX, OBJECTS, STAGE, BlockRef, Keys, Rows
from shardmill.transforms.formats.line_blocks import Piece
from shardmill.transforms.formats.lines import LinesFormat

_TEXT_TYPES = {str, bytes, NoneType}
REPEATED_KEYS = "object names a key again, and the last counts\nobjects name a key again, and the last counts"


class ColumnRows(Sequence[dict[str, Any]]):
    """Objects with the same keys that are held as columns, at least one; each is made when it is asked for."""

    def __init__(self, names: Sequence[str], columns: Sequence[Sequence[Any]]) -> None:
        self.columns = dict(zip(names, columns, strict=True))

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def __getitem__(self, row: Any) -> Any:
        return {name: column[row] for name, column in self.columns.items()}


@dataclass(frozen=True, slots=True, eq=False)
class JsonObjects:
    """JSON objects of a file, one a row."""

    name: str  # name of the file
    objects: Sequence[dict[str, Any]]  # the parsed objects
    lines: Sequence[bytes]  # their text; () of objects that were never text, so that their numbers are exact
    line_numbers: npt.NDArray[np.int64]  # int64 (objects,), their line numbers
    fill: Mapping[str, int | float | str]  # fill value by column
    rejects: list[Reject]  # lines that hold no object
    findings: Findings = field(default_factory=Findings)  # of the lines
    nesting: Nesting | None = None  # None if no flag about nested values exists
    lengths: Sequence[Mapping[str, int]] = ()  # by row, the lengths of lists of objects that `nesting` flattened
    _columns: list[Mapping[str, Sequence[Any]]] = field(default_factory=list, init=False)  # once they were needed

    def infer(
        self, columns: Sequence[str] | None, drop: Sequence[str]
    ) -> tuple[dict[str, ColumnType], "JsonObjects", dict[str, NestedValues]]:
        """Return the types of `columns` (None: all except `drop`), the rows that can be read, and the nested values."""
        names = columns
        types: dict[str, ColumnType] = {}
        if names is None:
            every = dict.fromkeys(chain(self._transpose() or chain.from_iterable(self.objects), self.fill))
            names = [name for name in every if name not in drop]
            # Of a type without a value: only the columns' existence is reported.
            types = {name: ColumnType("bytes", None, 0) for name in every}
        refused: dict[int, str] = {}
        nested: dict[str, NestedValues] = {}
        for name in names:
            values = self.column_values(name)
            if is_parallel := self._is_parallel(name):
                values = _replace_nulls(values)
            try:
                column = conversion.column_type(values)
            except ColumnError:
                column = self._infer_by_value(name, values, refused, nested)
                # Of a type without a value, so that `read` looks at the column even if no row has a good value of it.
                types[name] = ColumnType("bytes", None, 0)
            if column is not None:
                types[name] = replace(column, length=-1) if is_parallel else column
        if not refused:
            return types, self, nested
        good, valid, more = self.without_rows(refused, []).infer(columns, drop)
        absent = {name: replace(column, present=0) for name, column in types.items() if name not in good}
        return absent | good, valid, merged(nested, more)

    def read(self, types: ColumnTypes, keys: Keys) -> Rows:
        """Return the rows that fit `types` and have valid keys; the others become rejects."""
        refused: dict[int, str] = {}
        arrays: dict[str, pa.Array] = {}
        odd: dict[str, OddValues] = {}
        for name, column in types.items():
            values = self.column_values(name, "" if column.dtype == "bytes" else None)
            if (mixed := self._mixed_values(column, values)) is not None:
                odd[name] = mixed
            array = conversion.column_array(values, column)
            if array is None:
                converted = []
                for row, value in enumerate(values):
                    try:
                        converted.append(conversion.convert_value(self._exact(row, name, value), column))
                    except ColumnError as error:
                        remedy = self._remedy(row, name, value)
                        if not remedy and "64-bit" in str(error):
                            remedy = f"; --json_columns {quote(name)} stores such numbers as text"
                        refused.setdefault(row, f"column {name!r}: {error}{remedy}")
                array = pa.array(converted, arrow_type(column)) if not refused else None
            arrays[name] = array
        for key in keys:
            arrays[formats.key_column_name(key.name)] = key_texts_of_values(self._key_values(key.name, refused))
        if refused:
            rejects = [Reject(self.name, int(self.line_numbers[row]), STAGE, refused[row]) for row in sorted(refused)]
            return self.without_rows(refused, rejects).read(types, keys)
        names = set(self._transpose() or chain.from_iterable(self.objects))
        others = frozenset(names.difference(types, (key.name for key in keys)))
        if self.nesting is not None and self.nesting.flatten:  # an empty list of objects is no other column
            others -= {prefix for name in types for prefix in dotted_prefixes(name)}
        numbers = [name for name, column in types.items() if column.dtype in ("int64", "float32")]
        limit = conversion.sample_limit(sum(types[name].dtype == "float32" for name in numbers))
        rounded = {name: conversion.rounded_values(self.column_values(name), arrays[name], limit) for name in numbers}
        return Rows(
            to_batch(arrays, len(self.objects)),
            self.line_numbers,
            self.rejects,
            self.findings.merge(Findings.of(IgnoredNames(first_names(others)), RoundedNumbers(rounded), OddTexts(odd))),
        )

    def _mixed_values(self, column: ColumnType, values: Sequence[Any]) -> OddValues | None:
        """Return the numbers and booleans among the values of a column of texts; None if there are none."""
        if column.dtype != "bytes" or column.is_time:
            return None
        are_lists = set(map(type, values)) <= {list}
        kinds = set(map(type, chain.from_iterable(values) if are_lists else values))
        if kinds <= _TEXT_TYPES and (are_lists or column.length is None):
            return None
        rows = [row for row, value in enumerate(values) if not set(map(type, leaf_values(value))) <= _TEXT_TYPES]
        if not rows:
            return None
        first = (self.name, int(self.line_numbers[rows[0]]), preview_value(values[rows[0]]))
        return OddValues(mixed=len(rows), firsts={"mixed": first})

    def column_values(self, name: str, missing_item: str | None = None) -> list[Any]:
        """Return the values of a column, None for missing ones without a fill.

        In parallel lists, a missing item becomes the fill, or else `missing_item`.
        """
        columns = self._transpose()
        values = list(columns[name]) if name in columns else [row.get(name) for row in self.objects]
        if self._is_parallel(name):
            item = self.fill.get(name, missing_item)
            for row, count in enumerate(self._lengths_of(name)):
                found = [None] * count if values[row] is None else values[row]
                if count and isinstance(found, list):
                    values[row] = [item if value is None else value for value in found]
        fill = self.fill.get(name)
        return values if fill is None else [fill if value is None else value for value in values]

    def _transpose(self) -> Mapping[str, Sequence[Any]]:
        """Return the values of each column if all objects have the same keys in the same order; else no columns."""
        if isinstance(self.objects, ColumnRows):
            return self.objects.columns
        if not self._columns:
            is_uniform = len(set(map(tuple, self.objects))) == 1
            columns = zip(*map(dict.values, self.objects), strict=True) if is_uniform else ()
            self._columns.append(dict(zip(self.objects[0], columns, strict=True)) if is_uniform else {})
        return self._columns[0]

    def _is_parallel(self, name: str) -> bool:
        return bool(self.lengths) and any(self._lengths_of(name))

    def _lengths_of(self, name: str) -> list[int]:
        """Return, the length of the list of objects that a column is a field of, by row; 0 without one."""
        prefixes = dotted_prefixes(name)
        return [next((row[prefix] for prefix in prefixes if prefix in row), 0) for row in self.lengths]

    def _remedy(self, row: int, name: str, value: Any) -> str:
        items = value if isinstance(value, list) else [value]
        if self.nesting is None:
            return f"; --drop {quote(name)} leaves the column out" if isinstance(value, dict) else ""
        if self.lengths and self._lengths_of(name)[row] and None in items:
            return f"; --fill {assign(name, 'VALUE')} is for objects without this field"
        if not {dict, list} & set(map(type, items)):
            return ""
        return f"; {self.nesting.remedy({name: _has_objects(value)})}"

    def _key_values(self, name: str, refused: dict[int, str]) -> list[Any]:
        values = self.column_values(name)
        if set(map(type, values)) <= {str, int, bool, NoneType}:
            return values
        for row, value in enumerate(values):
            try:
                values[row] = self._exact(row, name, value)
                if not isinstance(values[row], int):  # one of any size is a key
                    value_type(values[row], is_text=False)
            except ColumnError as error:
                refused.setdefault(row, f"column {name!r}: {error}")
                values[row] = None
        return values

    def without_rows(self, rows: Iterable[int], rejects: Sequence[Reject]) -> "JsonObjects":
        """Return the JSON objects without `rows`, with `rejects` added to the rejected ones."""
        left_out = set(rows)
        remaining = [row for row in range(len(self.objects)) if row not in left_out]
        objects = [self.objects[row] for row in remaining]
        lines = [self.lines[row] for row in remaining] if self.lines else ()
        merged = sorted([*self.rejects, *rejects], key=lambda reject: reject.line or 0)
        lengths = [self.lengths[row] for row in remaining] if self.lengths else ()
        numbers = self.line_numbers[remaining]
        return replace(self, objects=objects, lines=lines, line_numbers=numbers, rejects=merged, lengths=lengths)

    def remark_repeats(self, values: Sequence[dict[str, Any]]) -> "JsonObjects":
        """Add a remark about the lines whose objects, `values`, name a key again; return these objects."""
        text = b"".join(self.lines)
        with suppress(TypeError):  # of nesting that orjson reads, and does not write
            if text.count(b'"') == orjson.dumps(values).count(b'"') and b"\\u0022" not in text:
                return self  # no quote is missing; to parse again in Python takes ten times as long
        rows = [row for row, line in enumerate(self.lines) if _repeats_key(line)]
        self.findings.add(Remarks.of_lines({REPEATED_KEYS: self.line_numbers[rows]}, self.name))
        return self

    def _infer_by_value(
        self, name: str, values: Sequence[Any], refused: dict[int, str], nested: dict[str, NestedValues]
    ) -> ColumnType | None:
        types: dict[str, ColumnType] = {}
        for row, value in enumerate(values):
            try:
                found = value_type(self._exact(row, name, value), is_text=False)
            except ColumnError as error:
                refused.setdefault(row, str(error))
                if isinstance(value, dict | list):
                    first = (self.name, int(self.line_numbers[row]), preview_value(value))
                    merged(nested, {name: NestedValues(1, first, _has_objects(value))})
                continue
            types = merged(types, {name: found}) if found is not None else types
        return types.get(name)

    def _exact(self, row: int, name: str, value: Any) -> Any:
        """Return the exact value of a row; integers beyond 64 bits, of which orjson makes floats, are parsed again."""
        if not self.lines or next(conversion.inexact_floats(value), None) is None:
            return value
        try:
            exact = json.loads(self.lines[row])
            return (exact if self.nesting is None else self.nesting.flatten_object(exact).values).get(name, value)
        except (ValueError, RecursionError):  # an integer of thousands of digits
            raise ColumnError(f"{value} does not fit a 64-bit integer") from None

    def texts(self, column: ValuesOf) -> set[str]:
        """Return the distinct values of a column, as texts."""
        values = self.column_values(column.name)
        items = [item for item in leaf_values(values) if item is not None]
        texts = {as_text(value) for _, value in set(zip(map(type, items), items))}  # True is 1, but another text
        return {part for text in texts for part in split_text(text, column.separator)} if column.separator else texts


def _replace_nulls(lists: Sequence[Any]) -> list[Any]:
    found = next((item for items in lists if isinstance(items, list) for item in items if item is not None), None)
    if found is None:
        return [None] * len(lists)
    return [[found if item is None else item for item in items] if type(items) is list else items for items in lists]


def _has_objects(value: Any) -> bool:
    return isinstance(value, dict) or is_list_of_objects(value)


def is_objects_value(value: Any) -> bool:
    """Return True if a value is objects in an image: an object of lists, a list of objects with boxes, or empty."""
    items = value if isinstance(value, list) else [value]
    if not all(isinstance(item, dict) for item in items):
        return False
    return value in ([], {}) or any(BOX in item for item in items)


@dataclass(slots=True)
class ObjectFields:
    """The field names and classes of the objects in some samples' images."""

    _keys: set[str] = field(default_factory=set)
    _classes: dict[bool, set[str]] = field(default_factory=dict)  # ids (True) and names (False)
    _locations: dict[bool | None, str] = field(default_factory=dict)  # of the first ids, names, or neither

    def add(self, value: Any, location: str) -> str | None:
        """Record the objects in `value`, and return its JSON, None without objects; errors give the `location`."""
        self._locations.setdefault(None, location)
        items = value if isinstance(value, list) else [value]
        for item in items:
            self._keys.update(item)
            label = item.get(formats.label_key(item))
            for name in label if isinstance(label, list) else [label]:
                if type(name) in (str, int):  # no bool
                    self._classes.setdefault(type(name) is int, set()).add(str(name))
                    self._locations.setdefault(type(name) is int, location)
        if not value or (isinstance(value, dict) and not value.get(BOX) and not value.get(formats.label_key(value))):
            return None
        return orjson.dumps(value).decode()

    @property
    def declared_column(self) -> DeclaredColumn | None:
        """The metadata of the column of objects; None if no sample has objects."""
        if not self._keys:
            return None
        keys, kinds = tuple(sorted(self._keys)), self._classes or (None,)
        found = (DeclaredObjects(keys, kind, varies_by_row=True, location=self._locations[kind]) for kind in kinds)
        return DeclaredColumn("bbox", objects=frozenset(found))

    @property
    def classes(self) -> frozenset[str] | None:
        """The names or ids of classes, as texts; None if there are too many."""
        found = frozenset().union(*self._classes.values())
        return found if len(found) <= MAX_VALUES else None


def _join_rows(parts: Sequence[Rows], types: Mapping[str, ColumnType], source: str) -> Rows:
    rejects = list(chain.from_iterable(part.rejects for part in parts))
    lines = np.concatenate([part.lines for part in parts])
    batch = pa.concat_batches([part.batch for part in parts]) if len(parts) > 1 else parts[0].batch
    findings = reduce(Findings.merge, (part.findings for part in parts))
    findings.add(find_odd_texts(batch, types, source, lines))
    return Rows(batch, lines, rejects, findings)


_PARSE_BYTES = 64 << 10  # parsed at once: more Python objects than that leave the processor's cache, at half the speed
_OUTPUT_BYTES = 4 << 20  # of the batches that are made of these
_BATCH_PIECES = 1024  # of a batch, at most, where little of them is rows


class ObjectsInference:
    """Types and values inferred from objects, which are added some at a time."""

    def __init__(self, columns: Iterable[str] | None, drop: Sequence[str], values_of: Sequence[ValuesOf]) -> None:
        """Start without objects; `columns` and `values_of` are those of `RecordFormat.infer`."""
        self.wanted = None if columns is None else list(dict.fromkeys(columns))
        self.drop, self._values_of, self._merged = drop, values_of, Inferred()
        self._values: dict[str, set[str]] = {column.name: set() for column in values_of}

    def add(self, found: Inferred, kept: JsonObjects, seen: ObjectFields) -> None:
        """Add what was found in the rows `kept`, and the objects seen in images."""
        for column in self._values_of:
            if len(self._values[column.name]) <= MAX_VALUES:
                self._values[column.name] |= kept.texts(column)
        if (declared := seen.declared_column) is not None and OBJECTS in found.types and OBJECTS not in self.drop:
            found = replace(found, values={OBJECTS: seen.classes}, declared={**found.declared, OBJECTS: declared})
        self._merged = self._merged.merge(found)

    def result(self) -> Inferred:
        """Return what is known of all objects added."""
        counted = {name: frozenset(found) if len(found) <= MAX_VALUES else None for name, found in self._values.items()}
        return replace(self._merged, values={**counted, **self._merged.values})


@dataclass(frozen=True)
class ObjectsFormat(formats.RecordFormat):
    """Base of formats whose records are objects, by the rules of JsonObjects."""

    block_size: int  # approximate bytes of a block
    fill: tuple[tuple[str, str], ...] = ()  # (column, text) of fill values: JSON scalar or any text
    nesting: Nesting = NO_NESTING  # how nested values are stored

    lock_share = 0.7

    @abstractmethod
    def parts(self, block: BlockRef) -> Iterator[tuple[JsonObjects | Reject, ObjectFields]]:
        """Yield some objects of a block at a time, or a Reject, and the objects seen in their images."""

    def objects(self, block: BlockRef) -> Iterator[JsonObjects | Reject]:
        """Yield the objects of a block in pieces, and a Reject for what cannot be read."""
        return (objects for objects, _ in self.parts(block))

    def infer(self, block: BlockRef, columns: ColumnNames, values_of: Sequence[ValuesOf]) -> Iterator[Inferred]:
        inference = ObjectsInference(columns, self.nesting.drop, values_of)
        for objects, seen in self.parts(block):
            if isinstance(objects, JsonObjects):
                types, kept, nested = objects.infer(inference.wanted, inference.drop)
                found = Inferred(types, len(kept.objects), nested=nested, findings=objects.findings)
                inference.add(found, kept, seen)
        yield inference.result()

    def read(self, block: BlockRef, types: ColumnTypes, keys: Keys = ()) -> Iterator[Rows]:
        rows: list[Rows] = []
        size = lines = 0
        for objects in self.objects(block):
            rows.append(
                objects.read(types, keys)
                if isinstance(objects, JsonObjects)
                else formats.empty_rows(types, [objects], keys)
            )
            size += rows[-1].batch.nbytes
            lines += len(rows[-1].lines) + len(rows[-1].rejects)
            if size >= min(self.block_size, _OUTPUT_BYTES) or lines >= formats.MAX_LINES or len(rows) >= _BATCH_PIECES:
                yield _join_rows(rows, types, block.file.name)
                rows, size, lines = [], 0, 0
        if rows:
            yield _join_rows(rows, types, block.file.name)


@dataclass(frozen=True)
class JsonLinesFormat(ObjectsFormat):
    """A row for each line that is not blank, which must hold an object; of a repeated key the last value counts.

    A value is a number, a string, true, false, a list of these, or nested lists of one length. `null` and an absent key
    both mean a missing value. A row is a reject if a requested column holds another value or one that does not fit its
    type.
    """

    encoding: str = "utf-8"  # Python's name

    def __post_init__(self) -> None:
        encoding_name(self.encoding)  # raises the ValueError of a name that is none

    def index(self, file: formats.FileRef) -> Iterator[BlockRef | Reject]:
        return LinesFormat(self.block_size, self.encoding).index(file)

    def parts(self, block: BlockRef) -> Iterator[tuple[JsonObjects | Reject, ObjectFields]]:
        fill = formats.parse_fills(self.fill)
        piece: Piece | JsonObjects | Reject
        for piece in LinesFormat(min(self.block_size, _PARSE_BYTES), self.encoding).pieces(block):
            if isinstance(piece, Piece):
                piece = with_nesting(parse_lines(piece, block.file.name, fill), self.nesting)
            yield piece, ObjectFields()


_LARGE_INTEGER = re.compile(rb"[0-9]{19}")  # orjson makes floats of those beyond 64 bits


def with_nesting(parsed: JsonObjects, nesting: Nesting) -> JsonObjects:
    """Return objects as rows, in which nested values are stored as `nesting` says."""
    if not nesting.is_used:
        return replace(parsed, nesting=nesting)
    flat = []
    for row, line in zip(parsed.objects, parsed.lines or [b""] * len(parsed.objects), strict=True):
        exact = row
        if _LARGE_INTEGER.search(line):
            with suppress(ValueError, RecursionError):
                exact = json.loads(line)
        try:
            flat.append(nesting.flatten_object(exact))
        except RecursionError:  # remains nested, and so becomes a reject
            flat.append(FlatObject(row))
    lengths = [row.lengths for row in flat] if any(row.lengths for row in flat) else ()
    return replace(parsed, objects=[row.values for row in flat], lengths=lengths, nesting=nesting)


_ARRAY_HINT = "; expected one object on each line: jq -c '.[]' makes such lines of an array"


def _hint(line: bytes) -> str:
    """Return what makes JSON lines of a line that is not JSON: part of a longer text, a Python literal, or NaN."""
    if line.startswith(b"\x1e"):
        return "; it begins with the mark of JSON text sequences (RFC 7464): tr -d '\\036' makes lines of them"
    if b"\r" in line:
        return "; its lines end in CR alone: tr '\\r' '\\n' mends them"
    if line.startswith((b"[", b"]", b"}", b'"')) or line.endswith((b",", b"{", b"[")):
        return f"{_ARRAY_HINT}, jq -c . of objects over several lines, sed 's/,$//' of lines with a comma behind each"
    with suppress(ValueError, SyntaxError, MemoryError, RecursionError, TypeError):
        text = line.decode()
        literal = ast.literal_eval(text)
        is_printed = repr(literal).replace(" ", "") == text.replace(" ", "")  # else a comma too many is read, too
        if isinstance(literal, dict) and is_printed and json.dumps(literal):
            return "; it is a literal of Python: json.dumps(ast.literal_eval(line)) makes JSON of it"
    return "; NaN and Infinity are not JSON, null is" if b"NaN" in line or b"Infinity" in line else ""


def parse_lines(piece: Piece, name: str, fill: Mapping[str, int | float | str]) -> JsonObjects:
    """Parse the lines of `piece`, which belongs to file `name`, as objects."""
    lines = piece.data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    numbers = np.arange(piece.first_line, piece.first_line + len(lines))
    try:
        objects = list(map(orjson.loads, lines))
    except orjson.JSONDecodeError:
        objects = []
    if objects and set(map(type, objects)) == {dict}:
        findings = Findings.of(Undecodable(has_utf8=not piece.data.isascii()), piece.remarks)
        return JsonObjects(name, objects, lines, numbers, fill, [], findings).remark_repeats(objects)
    rows, objects, rejects, blank, encodings = [], [], [], 0, Undecodable()
    for row, line in enumerate(lines):
        if not line or line.isspace():
            blank += 1
            continue
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            reason = f"not JSON: {error.msg}, at character {error.colno}{_hint(line.strip())}"
            try:
                line.decode()
            except UnicodeDecodeError as undecodable:
                reason = f"not JSON: {invalid_byte(undecodable)} is not utf-8"
                encodings = encodings.merge(Undecodable.of_record(line, name, piece.first_line + row))
        else:
            if isinstance(value, dict):
                rows.append(row)
                objects.append(value)
                encodings = encodings if line.isascii() else encodings.merge(Undecodable(has_utf8=True))
                continue
            reason = f"not a JSON object, but {shorten(line.strip().decode(errors='replace'))}"
            if isinstance(value, list):
                reason += _ARRAY_HINT
        if row == len(lines) - 1:
            reason += formats.describe_cut_end(piece.data)
        rejects.append(Reject(name, piece.first_line + row, STAGE, reason))
    findings = Findings.of(encodings, PassedOver({"blank line": blank}), piece.remarks)
    kept = [lines[row] for row in rows]
    return JsonObjects(name, objects, kept, numbers[rows], fill, rejects, findings).remark_repeats(objects)


def _repeats_key(line: bytes) -> bool:
    repeats: list[int] = []
    with suppress(ValueError, RecursionError):
        json.loads(line, object_pairs_hook=lambda pairs: repeats.append(len(pairs) - len(dict(pairs))))
    return any(repeats)
