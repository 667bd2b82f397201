"""Nested values as columns: fields of objects, parallel lists of fields, and JSON text."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.errors import UserError
from shardmill.flag_values import assign, quote
from shardmill.transforms.columns.arrow import as_text, decode_array, is_list, parse_fill
from shardmill.transforms.columns.conversion import UnsupportedTypeError, arrow_scalar_type, to_strings

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FlatObject:
    """The columns of a JSON object, and the lengths of its lists of objects by name."""

    values: Json
    lengths: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Nesting:
    """The options about nested values.

    * With `flatten`, the field `source` of the object `meta` is the column `meta.source`.
    * A list of objects becomes one list for each field, all of its length. Lists in its objects become JSON text.
    * A map of Arrow or Avro is a list of objects with the fields `key` and `value`.
    * An object that lacks a field, or has null there, gives the value of --fill, or else an empty text in texts. In
    other lists the null remains, which no feature can hold.
    """

    flatten: bool = False  # make columns of the fields of objects
    json_columns: tuple[str, ...] = ()  # columns, or fields with `flatten`, that are stored as JSON text
    drop: tuple[str, ...] = ()  # columns that are left out, and so remain as they are
    fill: tuple[tuple[str, str], ...] = ()  # (column, text) of fill values

    @property
    def is_used(self) -> bool:
        """True if some value may change."""
        return self.flatten or bool(self.json_columns)

    def flatten_object(self, row: Json) -> FlatObject:
        """Return the columns of a parsed JSON object."""
        if not self.flatten:
            as_json = self.json_columns
            return FlatObject({name: _json_or_none(row[name]) if name in as_json else row[name] for name in row})
        values: Json = {}
        lengths: dict[str, int] = {}
        for name, value in row.items():
            self._add_value(name, value, values, lengths)
        return FlatObject(values, lengths)

    def _add_value(self, name: str, value: Any, values: Json, lengths: dict[str, int]) -> None:
        if value is None:
            return
        if name in self.json_columns:
            self._put(name, to_json(value), values)
        elif name in self.drop:
            self._put(name, value, values)
        elif isinstance(value, dict):
            for key, item in value.items():
                self._add_value(f"{name}.{key}", item, values, lengths)
        elif isinstance(value, list) and is_list_of_objects(value):
            lengths[name] = len(value)
            lists: dict[str, list[Any]] = {}
            for position, item in enumerate(value):
                fields: Json = {}
                for key, inner in (item or {}).items():
                    self._add_item(f"{name}.{key}", inner, fields)
                for column, inner in fields.items():
                    lists.setdefault(column, [None] * len(value))[position] = inner
            for column, items in lists.items():
                self._put(column, items, values)
        else:
            self._put(name, value, values)

    def _add_item(self, name: str, value: Any, fields: Json) -> None:
        if isinstance(value, list) or name in self.json_columns or name in self.drop:
            self._put(name, _json_or_none(value), fields)
        elif isinstance(value, dict):
            for key, item in value.items():
                self._add_item(f"{name}.{key}", item, fields)
        else:
            self._put(name, value, fields)

    def _put(self, name: str, value: Any, values: Json) -> None:
        if name in values:
            raise _same_name_error(name)
        values[name] = value

    def flatten_types(self, types: Mapping[str, pa.DataType]) -> "dict[str, FlatColumnType]":
        """Return the columns of a file whose columns have these Arrow types."""
        found: dict[str, FlatColumnType] = {}
        for name, kind in types.items():
            for column, array, is_parallel in self.flatten_array(name, pa.nulls(0, kind)):
                if column in found and column != name:
                    raise _same_name_error(column)
                found[column] = FlatColumnType(name, array.type, is_parallel)
        return found

    def flatten_array(self, name: str, array: pa.Array) -> Iterator[tuple[str, pa.Array, bool]]:
        """Yield the columns of an Arrow column: name, values, and True if it is one of several parallel lists."""
        if name in self.json_columns:
            yield name, json_array(array), False
            return
        decoded = decode_array(array) if self.flatten and name not in self.drop else array
        if not self.flatten or name in self.drop or not _holds_structs(decoded.type):
            yield name, array, False
        elif pa.types.is_struct(decoded.type):
            for key, values in _fields(decoded):
                yield from self.flatten_array(f"{name}.{key}", values)
        else:
            items, offsets = list_items(decoded)
            nulls = decoded.is_null() if decoded.null_count else None
            for key, values in _fields(decode_array(items)):
                for column, inner in self._flatten_items(f"{name}.{key}", values):
                    yield column, pa.LargeListArray.from_arrays(offsets, inner, mask=nulls), True

    def _flatten_items(self, name: str, items: pa.Array) -> Iterator[tuple[str, pa.Array]]:
        """Yield the columns of a field of structs that are in lists, without nulls where that is possible."""
        decoded = decode_array(items)
        if name in self.json_columns or name in self.drop or is_list(decoded.type) or pa.types.is_map(decoded.type):
            yield name, self._fill_items(name, json_array(items))
        elif pa.types.is_struct(decoded.type):
            for key, values in _fields(decoded):
                yield from self._flatten_items(f"{name}.{key}", values)
        else:
            yield name, self._fill_items(name, decoded)

    def _fill_items(self, name: str, items: pa.Array) -> pa.Array:
        if not items.null_count or pa.types.is_null(items.type):
            return items
        text = dict(self.fill).get(name)
        if arrow_scalar_type(items.type) == "bytes":
            strings = to_strings(items)
            return pc.fill_null(strings, pa.scalar(text or "", pa.string()).cast(strings.type))
        try:
            return items if text is None else pc.fill_null(items, pa.scalar(parse_fill(text)).cast(items.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            raise UserError(
                f"--fill {assign(name, text or '')}: {name!r} holds {items.type}; give a value of that type"
            ) from None

    def remedy(self, columns: Mapping[str, bool]) -> str:
        """Return the flags that help with columns which no feature can hold; True for those that `flatten` divides."""
        others = [name for name, is_flattenable in columns.items() if not is_flattenable]
        choices = []
        if len(others) < len(columns) and not self.flatten:
            also = f" --json_columns {quote(*self.json_columns, *others)}" if others else ""
            choices.append(f"--flatten{also} makes columns of the fields of objects")
        choices.append(f"--json_columns {quote(*self.json_columns, *columns)} stores JSON text")
        which = "the column" if len(columns) == 1 else "the columns"
        choices.append(f"--drop {quote(*self.drop, *columns)} leaves {which} out")
        return ", ".join(choices[:-1]) + f", and {choices[-1]}"


NO_NESTING = Nesting()


@dataclass(frozen=True, slots=True)
class FlatColumnType:
    """A column that an Arrow column, or a field in it, becomes."""

    source: str  # the column of the file
    kind: pa.DataType
    is_parallel: bool = False  # True if it is one of several lists of one length
    description: str = ""  # name of the type in messages; "" for that of Arrow

    @property
    def has_objects(self) -> bool:
        """True if --flatten makes columns that features can hold of it."""
        try:
            flat = Nesting(flatten=True).flatten_types({"": self.kind})
            for column in flat.values():
                arrow_scalar_type(column.kind)
        except (UnsupportedTypeError, UserError):
            return False
        return list(flat) != [""]


def _same_name_error(name: str) -> UserError:
    return UserError(
        f"--flatten: two fields become the column {name!r}; store the object that holds one of them as JSON text with"
        " --json_columns, or leave it out with --drop"
    )


def dotted_prefixes(name: str) -> list[str]:
    """Return the names of the objects that a flattened column may be a field of."""
    parts = name.split(".")
    return [".".join(parts[:count]) for count in range(1, len(parts))]


def is_list_of_objects(value: Sequence[Any]) -> bool:
    """Return True if a list holds objects, or objects and nulls."""
    kinds = set(map(type, value))
    return dict in kinds and kinds <= {dict, type(None)}


def to_json(value: Any) -> str:
    """Return a parsed JSON value as text without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=as_text)


def _json_or_none(value: Any) -> str | None:
    return None if value is None else to_json(value)


def json_array(array: pa.Array) -> pa.Array:
    """Return the JSON text of each value of an Arrow array; null for null."""
    valid = array.is_valid().to_pylist()
    texts = [text if is_valid else None for text, is_valid in zip(_json_texts(array), valid, strict=True)]
    return pa.array(texts, pa.large_string())


def _json_texts(array: pa.Array) -> list[str]:
    array = decode_array(array)
    array = array.cast(pa.int64()) if pa.types.is_duration(array.type) else array
    kind = array.type
    if pa.types.is_struct(kind):
        fields = [[f"{to_json(key)}:{text}" for text in _json_texts(values)] for key, values in _fields(array)]
        texts = [f"{{{','.join(pairs)}}}" for pairs in zip(*fields, strict=True)] if fields else ["{}"] * len(array)
    elif is_list(kind) or pa.types.is_map(kind):
        items, offsets = list_items(array)
        if pa.types.is_map(kind):
            keys, values = (_json_texts(pc.struct_field(items, [index])) for index in (0, 1))
            names = [key if key.startswith('"') else to_json(key) for key in keys]
            found = [f"{name}:{value}" for name, value in zip(names, values, strict=True)]
        else:
            found = _json_texts(items)
        left, right = "{}" if pa.types.is_map(kind) else "[]"
        bounds = offsets.to_pylist()
        texts = [left + ",".join(found[start:stop]) + right for start, stop in pairwise(bounds)]
    elif any(test(kind) for test in (pa.types.is_boolean, pa.types.is_integer, pa.types.is_floating, pa.types.is_null)):
        return list(map(to_json, array.to_pylist()))
    else:
        return [to_json(value if value is None else as_text(value)) for value in to_strings(array).to_pylist()]
    return [text if valid else "null" for text, valid in zip(texts, array.is_valid().to_pylist(), strict=True)]


def _holds_structs(kind: pa.DataType) -> bool:
    if is_list(kind):
        return bool(pa.types.is_struct(decode_array(pa.nulls(0, kind.value_type)).type))
    return bool(pa.types.is_struct(kind) or pa.types.is_map(kind))


def _fields(array: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    for index in range(array.type.num_fields):
        yield array.type.field(index).name, pc.struct_field(array, [index])


def list_items(array: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the items of lists, or the pairs of maps as structs `key` and `value`, and their int64 offsets."""
    if not pa.types.is_map(array.type):
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        return array.flatten(), pa.array(np.concatenate(([0], np.cumsum(lengths))).astype(np.int64))
    bounds = array.offsets.to_numpy().astype(np.int64)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    starts, sizes = bounds[:-1], np.where(valid, np.diff(bounds), 0)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    taken = pa.array(np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], sizes))
    pairs = [array.keys.take(taken), array.items.take(taken)]
    return pa.StructArray.from_arrays(pairs, ["key", "value"]), pa.array(offsets.astype(np.int64))
