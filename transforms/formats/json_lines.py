"""JSON lines: a file of objects, one a line, as typed rows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import orjson

from shardmill.metadata.rejects import Reject
from shardmill.printable import beginning
from shardmill.transforms.columns.arrow import parse_fill
from shardmill.transforms.columns.inferred import MAX_VALUES, Inferred, ValuesOf
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.formats.base import MAX_LINES, BlockRef, FileRef, KeyColumn, Rows, no_rows
from shardmill.transforms.formats.json_objects import JsonObjects, join_rows
from shardmill.transforms.formats.line_blocks import STAGE, Piece, index_lines, line_count, read_pieces

_PARSE_BYTES = 64 << 10  # parsed at once: more Python objects than that leave the processor's cache, at half the speed
_BATCH_BYTES = 4 << 20  # of the batches that are made of these
_BATCH_PIECES = 1024  # of a batch, at most, where little of them is rows


@dataclass(frozen=True)
class JsonLinesFormat:
    """A row for each line that is not blank, which must hold an object; of a key given twice the last value counts.

    A value is a number, a string, true or false, or a list of them, or a list of lists of one length. `null` and no
    value are the same: missing. A row with a value that is none of these, or does not fit the column's type, is a
    reject, unless nobody asks for that column.

    Attributes:
      block_size: bytes of a block, about.
      fill: columns, and the text of the value that stands in them for a missing one: JSON of a number, a boolean or a
        string, or any text.
      drop: columns that are not looked at where the types of all are asked for.
    """

    block_size: int
    fill: tuple[tuple[str, str], ...] = ()
    drop: tuple[str, ...] = ()

    def index(self, file: FileRef) -> Iterator[BlockRef | Reject]:
        """Blocks of lines."""
        return index_lines(file, self.block_size)

    def header(self, file: FileRef) -> tuple[str, ...]:
        """None."""
        return ()

    def infer(
        self, block: BlockRef, columns: Iterable[str] | None, values_of: Sequence[ValuesOf]
    ) -> Iterator[Inferred]:
        """The types, as shardmill.transforms.columns.types has them; what a fill stands in for has a value."""
        wanted = None if columns is None else list(dict.fromkeys(columns))
        merged = Inferred()
        values: dict[str, set[str]] = {column.name: set() for column in values_of}
        for objects in self._objects(block):
            if isinstance(objects, JsonObjects):
                types, kept = objects.infer(wanted, self.drop)
                merged = merged.merge(Inferred(types, len(kept.objects)))
                for column in values_of:
                    if len(values[column.name]) <= MAX_VALUES:
                        values[column.name] |= kept.texts(column)
        counted = {name: frozenset(found) if len(found) <= MAX_VALUES else None for name, found in values.items()}
        yield Inferred(merged.types, merged.rows, counted)

    def read(self, block: BlockRef, types: Mapping[str, ColumnType], keys: Sequence[KeyColumn] = ()) -> Iterator[Rows]:
        """The rows, a piece at a time."""
        rows: list[Rows] = []
        size = lines = 0
        for objects in self._objects(block):
            rows.append(
                objects.read(types, keys) if isinstance(objects, JsonObjects) else no_rows(types, [objects], keys)
            )
            size += rows[-1].batch.nbytes
            lines += len(rows[-1].lines) + len(rows[-1].rejects)
            if size >= min(self.block_size, _BATCH_BYTES) or lines >= MAX_LINES or len(rows) >= _BATCH_PIECES:
                yield join_rows(rows)
                rows, size, lines = [], 0, 0
        if rows:
            yield join_rows(rows)

    def _objects(self, block: BlockRef) -> Iterator[JsonObjects | Reject]:
        fill = {column: parse_fill(text) for column, text in self.fill}
        for piece in read_pieces(block, min(self.block_size, _PARSE_BYTES)):
            yield parse(piece, block.file.name, fill) if isinstance(piece, Piece) else piece


def parse(piece: Piece, name: str, fill: Mapping[str, int | float | str]) -> JsonObjects:
    """The objects of the lines of file `name` in `piece`."""
    if not piece.data or piece.data.isspace():
        return JsonObjects(name, [], [], np.zeros(0, np.int64), fill, [], line_count(piece.data))
    lines = piece.data.split(b"\n")
    if not lines[-1]:
        lines.pop()
    numbers = np.arange(piece.first_line, piece.first_line + len(lines))
    try:
        objects = list(map(orjson.loads, lines))
    except orjson.JSONDecodeError:
        objects = []
    if objects and set(map(type, objects)) == {dict}:
        return JsonObjects(name, objects, lines, numbers, fill, [], 0)
    written = [row for row, line in enumerate(lines) if line and not line.isspace()]
    rows, objects, rejects = [], [], []
    for row in written:
        line = lines[row]
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            reason = f"not JSON: {error.msg}, at character {error.colno}"
            rejects.append(Reject(name, piece.first_line + row, STAGE, reason))
            continue
        if isinstance(value, dict):
            rows.append(row)
            objects.append(value)
        else:
            reason = f"not a JSON object, but {beginning(line.strip().decode(errors='replace'))}"
            if isinstance(value, list):
                reason += "; expected one object on each line: jq -c '.[]' makes such lines of an array"
            rejects.append(Reject(name, piece.first_line + row, STAGE, reason))
    return JsonObjects(
        name, objects, [lines[row] for row in rows], numbers[rows], fill, rejects, len(lines) - len(written)
    )
