"""JSON objects as typed rows: what formats that hold such objects share."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import chain
from types import NoneType
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardmill.metadata.rejects import Reject
from shardmill.transforms.columns.arrow import as_text, to_batch
from shardmill.transforms.columns.inferred import ValuesOf
from shardmill.transforms.columns.json_values import array_of, column_array, column_type, convert, floats_from
from shardmill.transforms.columns.key_texts import key_texts_of_values
from shardmill.transforms.columns.nested import ColumnError, leaves
from shardmill.transforms.columns.rounded import merge_rounded, rounded_values
from shardmill.transforms.columns.separated import parts_of
from shardmill.transforms.columns.types import ColumnType, merge_types, value_type
from shardmill.transforms.formats.base import KeyColumn, Rows, key_column

STAGE = "read"


@dataclass(frozen=True, slots=True, eq=False)
class JsonObjects:
    """Some JSON objects of a file, which are rows.

    Attributes:
      name: of the file.
      objects: as parsed.
      lines: their text.
      numbers: int64, shape (objects,), of their lines.
      fill: what stands for a missing value, by column.
      rejects: of lines that hold no object.
      blank: lines that hold nothing.
    """

    name: str
    objects: Sequence[dict[str, Any]]
    lines: Sequence[bytes]
    numbers: npt.NDArray[np.int64]
    fill: Mapping[str, int | float | str]
    rejects: list[Reject]
    blank: int

    def infer(self, columns: Sequence[str] | None, drop: Sequence[str]) -> tuple[dict[str, ColumnType], "JsonObjects"]:
        """The types of `columns`, or of all, those in `drop` without a look at them, and the rows that can be read."""
        names = columns
        types: dict[str, ColumnType] = {}
        if names is None:
            every = dict.fromkeys(chain(chain.from_iterable(self.objects), self.fill))
            names = [name for name in every if name not in drop]
            # Of a type without a value: that there are such columns is all that is said of them.
            types = {name: ColumnType("bytes", None, 0) for name in drop if name in every}
        refused: dict[int, str] = {}
        for name in names:
            values = self.values(name)
            try:
                column = column_type(values)
            except ColumnError:
                column = self._refuse(name, values, refused)
                # Of a type without a value, so that `read` looks at the column even if no row has a good value of it.
                types[name] = ColumnType("bytes", None, 0)
            if column is not None:
                types[name] = column
        if not refused:
            return types, self
        good, kept = self.without(refused, []).infer(columns, drop)
        return {
            **{name: replace(column, present=0) for name, column in types.items() if name not in good},
            **good,
        }, kept

    def read(self, types: Mapping[str, ColumnType], keys: Sequence[KeyColumn]) -> Rows:
        """The rows that fit `types`, and whose keys are values."""
        refused: dict[int, str] = {}
        arrays: dict[str, pa.Array] = {}
        for name, column in types.items():
            values = self.values(name)
            array = column_array(values, column)
            if array is None:
                converted = []
                for row, value in enumerate(values):
                    try:
                        converted.append(convert(self._exact(row, name, value), column))
                    except ColumnError as error:
                        remedy = f"; --drop {name} leaves the column out" if isinstance(value, dict) else ""
                        refused.setdefault(row, f"column {name!r}: {error}{remedy}")
                array = array_of(converted, column) if not refused else None
            arrays[name] = array
        for key in keys:
            arrays[key_column(key.name)] = key_texts_of_values(self._key_values(key.name, refused))
        if refused:
            return self.without(refused, self._rejects(refused)).read(types, keys)
        others = frozenset(set[str]().union(*self.objects).difference(types, (key.name for key in keys)))
        floats = [name for name, column in types.items() if column.dtype == "float32"]
        rounded = {name: found for name in floats if (found := rounded_values(self.values(name), arrays[name]))}
        return Rows(to_batch(arrays, len(self.objects)), self.numbers, self.rejects, self.blank, others, rounded)

    def values(self, name: str) -> list[Any]:
        """A column; None where a value is missing."""
        values = [row.get(name) for row in self.objects]
        if name in self.fill:
            fill = self.fill[name]
            return [fill if value is None else value for value in values]
        return values

    def _key_values(self, name: str, refused: dict[int, str]) -> list[Any]:
        """A column that is a key; rows whose value is none that a feature could hold are added to `refused`."""
        values = self.values(name)
        if set(map(type, values)) <= {str, int, bool, NoneType}:
            return values
        for row, value in enumerate(values):
            try:
                values[row] = self._exact(row, name, value)
                if not isinstance(values[row], int):  # one of any size is a key
                    value_type(values[row], textual=False)
            except ColumnError as error:
                refused.setdefault(row, f"column {name!r}: {error}")
                values[row] = None
        return values

    def without(self, rows: Iterable[int], rejects: Sequence[Reject]) -> "JsonObjects":
        """All but some rows, and some more rejects."""
        left_out = set(rows)
        kept = [row for row in range(len(self.objects)) if row not in left_out]
        objects, lines = [self.objects[row] for row in kept], [self.lines[row] for row in kept]
        merged = sorted([*self.rejects, *rejects], key=lambda reject: reject.line or 0)
        return JsonObjects(self.name, objects, lines, self.numbers[kept], self.fill, merged, self.blank)

    def _refuse(self, name: str, values: Sequence[Any], refused: dict[int, str]) -> ColumnType | None:
        """The type of a column, value by value; rows that cannot be read are added to `refused`."""
        types: dict[str, ColumnType] = {}
        for row, value in enumerate(values):
            try:
                found = value_type(self._exact(row, name, value), textual=False)
            except ColumnError as error:
                refused.setdefault(row, str(error))
                continue
            types = merge_types(types, {name: found}) if found is not None else types
        return types.get(name)

    def _rejects(self, refused: Mapping[int, str]) -> list[Reject]:
        return [Reject(self.name, int(self.numbers[row]), STAGE, reason) for row, reason in sorted(refused.items())]

    def _exact(self, row: int, name: str, value: Any) -> Any:
        """The value of a row; orjson makes floats of the integers that do not fit 64 bits."""
        if next(floats_from(value), None) is None:
            return value
        try:
            return json.loads(self.lines[row]).get(name, value)
        except (ValueError, RecursionError):  # an integer of thousands of digits
            raise ColumnError(f"{value} does not fit a 64-bit integer") from None

    def texts(self, column: ValuesOf) -> set[str]:
        """The texts that the values of a column are where it is one of strings."""
        values = self.values(column.name)
        items = [item for item in leaves(values) if item is not None]
        texts = {as_text(value) for _, value in set(zip(map(type, items), items))}  # True is 1, but another text
        return {part for text in texts for part in parts_of(text, column.separator)} if column.separator else texts


def join_rows(parts: Sequence[Rows]) -> Rows:
    """All rows of `parts`, at least one, in one."""
    if len(parts) == 1:
        return parts[0]
    rejects = list(chain.from_iterable(part.rejects for part in parts))
    lines = np.concatenate([part.lines for part in parts])
    blank, others = sum(part.blank for part in parts), frozenset[str]().union(*(part.others for part in parts))
    rounded = reduce(merge_rounded, (part.rounded for part in parts))
    return Rows(pa.concat_batches([part.batch for part in parts]), lines, rejects, blank, others, rounded)
