"""Parquet files as typed rows: a row group is a block."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from shardmill.errors import UserError
from shardmill.metadata.rejects import Reject
from shardmill.transforms.columns.inferred import Inferred, Told, Values, ValuesOf, merge_values
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.formats.arrow_rows import (
    STAGE,
    distinct_values,
    merge_present,
    parse_fills,
    present_type,
    spelled_fill,
    typed_rows,
)
from shardmill.transforms.formats.base import BlockRef, FileRef, KeyColumn, Rows, no_rows
from shardmill.transforms.formats.damage import UnreadableError, unread_file, why_unreadable
from shardmill.transforms.formats.image_heads import looks_like_image
from shardmill.transforms.formats.parquet.file import OpenedParquet
from shardmill.transforms.formats.parquet.huggingface import OBJECTS


@dataclass(frozen=True)
class ParquetFormat:
    """A row for each row of a Parquet file.

    Integers become int64, floats float32, strings and binary bytes; dates, times, timestamps, durations and decimals
    become text as Arrow casts them to strings; lists of these become lists, and lists of lists too. A row with a value
    that does not fit, such as an unsigned integer beyond int64, a finite number beyond float32 or inner lists of two
    lengths, is a reject. Structs and maps cannot be read, only dropped, but for what Hugging Face has: of files their
    bytes, of images, as its metadata, --image or the first bytes of the first one say; of objects in images the JSON.

    Attributes:
      fill: columns, and the text of the value that stands in them for a missing one: JSON of a number or a string, true
        or false, or any text.
      drop: columns that are not looked at where the types of all are asked for.
      images: columns that are known to be images.
    """

    fill: tuple[tuple[str, str], ...] = ()
    drop: tuple[str, ...] = ()
    images: tuple[str, ...] = ()

    def index(self, file: FileRef) -> Iterator[BlockRef | Reject]:
        """The row groups: `offset` is the number of one, `first_line` that of its first row, `length` its compressed
        bytes.

        Raises:
          UserError: a column is there twice.
          OSError: the file cannot be read.
        """
        try:
            opened = OpenedParquet(file)
        except UnreadableError as error:
            yield unread_file(file.name, file.size_bytes, "index", str(error))
            return
        with opened:
            row = 1
            for number in range(opened.metadata.num_row_groups):
                group = opened.metadata.row_group(number)
                if group.num_rows:
                    yield BlockRef(file, number, opened.size_bytes(number), row, opened.columns, group.num_rows)
                row += group.num_rows

    def header(self, file: FileRef) -> tuple[str, ...]:
        """The columns of the file's schema; () if that cannot be read."""
        try:
            with OpenedParquet(file) as opened:
                return opened.columns
        except UnreadableError:
            return ()

    def infer(
        self, block: BlockRef, columns: Iterable[str] | None, values_of: Sequence[ValuesOf]
    ) -> Iterator[Inferred]:
        """The types, from the schema; only lists, columns whose nulls were not counted, and `values_of` are read.

        Rows that `read` will reject for a value that does not fit are among them.

        Raises:
          UserError: one of `columns` is a struct or a map.
        """
        try:
            with OpenedParquet(block.file) as opened:
                yield self._infer(opened, block, columns, values_of)
        except (UnreadableError, OSError) as error:
            why_unreadable(error, block.file.path)  # `read` rejects the rows

    def read(self, block: BlockRef, types: Mapping[str, ColumnType], keys: Sequence[KeyColumn] = ()) -> Iterator[Rows]:
        """The rows, in batches that fit into memory; what cannot be decoded is one reject.

        Raises:
          UserError: one of `types` is a struct or a map.
        """
        row = block.first_line
        try:
            with OpenedParquet(block.file) as opened:
                wanted = list(dict.fromkeys([*types, *(key.name for key in keys)]))
                for name in wanted:
                    opened.spelled(name)
                fills = parse_fills(self.fill)
                for batch in opened.batches(block, wanted):
                    numbers = np.arange(row, row + len(batch))
                    yield typed_rows(block.file.name, batch, numbers, types, keys, fills)
                    row += len(batch)
                rows, expected = row - block.first_line, opened.metadata.row_group(block.offset).num_rows
                if rows != expected:
                    raise UnreadableError(f"there are {rows:,} rows in it, where the footer says {expected:,}")
        except (UnreadableError, OSError) as error:
            why = why_unreadable(error, block.file.path)
            reason = f"row group {block.offset} cannot be read from row {row:,} on, all of which is lost: {why}"
            yield no_rows(types, [_lost_rows(block, row, reason)], keys)

    def _infer(
        self, opened: OpenedParquet, block: BlockRef, columns: Iterable[str] | None, values_of: Sequence[ValuesOf]
    ) -> Inferred:
        fills = parse_fills(self.fill)
        every = [name for name in (*opened.columns, *fills) if name not in self.drop]
        wanted = list(dict.fromkeys(every if columns is None else columns))
        group = opened.metadata.row_group(block.offset)
        found: dict[str, ColumnType | None] = dict.fromkeys(wanted)
        nulls = dict.fromkeys(wanted, group.num_rows)
        unknown = []
        paths: dict[str, Told] = {}
        for name in wanted:
            dtype, count = opened.spelled(name), opened.null_count(block, name)
            if dtype is None:
                continue
            if opened.is_file(name) and count in (None, group.num_rows):
                data, path = opened.first_file(block, name)
                if data is None and path is not None:
                    paths[name] = Told("image", path=path)
            if count is None:
                unknown.append(name)
            elif count < group.num_rows:
                found[name] = ColumnType(dtype, None, group.num_rows - count)
                nulls[name] = count
        values: Values = {}
        try:
            read = [*unknown, *(column.name for column in values_of)]
            for batch in opened.batches(block, read) if read else ():
                for name in unknown:
                    found[name] = merge_present(found[name], present_type(batch[name], opened.spelled(name)))
                    nulls[name] -= len(batch) - batch[name].null_count
                values = merge_values(values, distinct_values(batch, values_of, fills))
            if OBJECTS in wanted and (of_objects := opened.told.get(OBJECTS)) and not of_objects.names:
                values = {**values, OBJECTS: opened.object_classes(block)}
        except UnreadableError:  # the columns must be asked for nevertheless, so that `read` rejects the rows
            for name in unknown:
                found[name] = merge_present(found[name], opened.guess(name, nulls[name]))
        for name, fill in fills.items():
            if nulls.get(name):
                found[name] = merge_present(found[name], ColumnType(spelled_fill(fill), None, nulls[name]))
        types = {name: column for name, column in found.items() if column is not None}
        told = paths | {name: what for name, what in opened.told.items() if name in types}
        for name in types:
            if opened.is_file(name) and name not in self.images and name not in told:
                told |= self._guessed(opened, block, name)
        return Inferred(types, group.num_rows, values, told)

    def _guessed(self, opened: OpenedParquet, block: BlockRef, name: str) -> dict[str, Told]:
        """What a column of files is, by the first of them."""
        data, _ = opened.first_file(block, name)
        if data is None:
            return {}
        if not looks_like_image(data):
            raise UserError(
                f"{block.file.name}: column {name!r} holds files as Hugging Face has them, and no metadata says of what"
                f" kind; give --image {name} if they are images, or leave it out with --drop {name}"
            )
        said = f"column {name!r} is taken for images, by the first bytes of its first value; --image {name} says it is"
        return {name: Told("image", is_complete=True, said=said)}


def _lost_rows(block: BlockRef, row: int, reason: str) -> Reject:
    """The Reject of the rows of a row group from `row` on, as many as the footer promises."""
    promised = block.records or 1
    lost = max(promised - (row - block.first_line), 1)
    return Reject(block.file.name, row, STAGE, reason, lost, max(block.length * lost // promised, 1))
