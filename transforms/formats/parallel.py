"""Parallel text files: line n of each is the same in another language, as corpora of translations are laid out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shardmill.errors import UserError
from shardmill.metadata.rejects import Reject
from shardmill.transforms.columns.arrow import missing_values, slices, to_batch
from shardmill.transforms.columns.inferred import Inferred, ValuesOf
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.formats.base import BlockRef, FileRef, KeyColumn, Rows, no_rows
from shardmill.transforms.formats.encodings import is_utf8
from shardmill.transforms.formats.line_blocks import STAGE, LineWalker, Piece
from shardmill.transforms.formats.line_ranges import Flags, Positions, blank_lines, invalid_lines, line_ranges
from shardmill.transforms.formats.lines import LINE_NUMBER, LinesFormat
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.compressed import is_compressed


@dataclass(frozen=True)
class ParallelFormat:
    """A row for each line, with a column for each of several files that are read together.

    A line that is blank in all of them is blank; one that is blank, or not valid, in some is a reject.

    Attributes:
      lines: how each file is read; its block size is that of one of them.
      names: of the columns, in the order of the parts of each file.
    """

    lines: LinesFormat
    names: tuple[str, ...]

    def index(self, file: FileRef) -> Iterator[BlockRef]:
        """Blocks of the same lines of every part; all of them at once where the lines of a part are not found without
        decoding.

        Raises:
          UserError: the parts have different numbers of lines; where they are one block, `read` finds that.
        """
        if not self.lines.has_plain_ends or any(is_compressed(part.name) for part in file.parts):
            if file.size_bytes:
                yield _block(file, [BlockRef(part, 0, part.size_bytes) for part in file.parts])
            return
        with ExitStack() as stack:
            walkers = [
                LineWalker(stack.enter_context(storage.open_read(part.path, part.size_bytes))) for part in file.parts
            ]
            for part, walker in zip(file.parts, walkers, strict=True):
                self.lines.check_start(walker.peek(), part.name)
            yield from self._cut(file, walkers)

    def _cut(self, file: FileRef, walkers: Sequence[LineWalker]) -> Iterator[BlockRef]:
        first, *others = walkers
        more = True
        while more:
            starts, line = [walker.offset for walker in walkers], first.lines + 1
            more = first.pass_bytes(self.lines.block_size)
            for walker in others:
                walker.pass_lines(first.lines - walker.lines if more else None)
            if any(walker.lines != first.lines for walker in others):
                for walker in walkers:
                    walker.pass_lines(None)
                raise _uneven(file, self.names, [walker.lines for walker in walkers])
            blocks = [
                BlockRef(part, start, walker.offset - start, line)
                for part, start, walker in zip(file.parts, starts, walkers, strict=True)
            ]
            if any(block.length for block in blocks):
                yield _block(file, blocks)

    def header(self, file: FileRef) -> tuple[str, ...]:
        """None."""
        return ()

    def infer(
        self, block: BlockRef, columns: Iterable[str] | None, values_of: Sequence[ValuesOf]
    ) -> Iterator[Inferred]:
        """The rows, counted."""
        names = [name for name in self.names if columns is None or name in set(columns)]
        for rows in self.read(block, {}):
            number = len(rows.lines)
            yield Inferred({name: ColumnType("bytes", None, number) for name in names}, number)

    def read(self, block: BlockRef, types: Mapping[str, ColumnType], keys: Sequence[KeyColumn] = ()) -> Iterator[Rows]:
        """The lines, some at a time; a column that is none of `names`, nor `line_number`, is null.

        Raises:
          UserError: a part has lines where another has none left.
        """
        streams = [self._texts(part) for part in block.parts]
        texts: list[_Texts | Reject | None] = [next(stream, None) for stream in streams]
        while any(text is not None for text in texts):
            lost = next((text for text in texts if isinstance(text, Reject)), None)
            if lost is not None:  # all that follows is, for nobody knows what belongs together
                yield no_rows(types, [lost])
                return
            found = [text for text in texts if isinstance(text, _Texts)]
            if len(found) < len(texts):
                ends = [_last_line(text, stream) for text, stream in zip(texts, streams, strict=True)]
                raise _uneven(block.file, self.names, [end or _before(block, found) for end in ends])
            size = min(len(text.starts) for text in found)
            yield self._rows([text.first(size) for text in found], block.file.name, types)
            rests = [text.rest(size) for text in found]
            texts = [rest or next(stream, None) for rest, stream in zip(rests, streams, strict=True)]

    def _texts(self, block: BlockRef) -> Iterator["_Texts | Reject"]:
        """The lines of a part; a Reject where all that follows in it is lost, and then nothing more."""
        for piece in self.lines.pieces(block):
            if isinstance(piece, Piece):
                if piece.data:
                    yield _Texts.of(piece, self.lines.encoding)
            elif piece.is_loss:
                yield piece
                return
            else:
                assert piece.line is not None
                yield _Texts.bad(piece.line, piece.reason)

    def _rows(self, texts: Sequence["_Texts"], source: str, types: Mapping[str, ColumnType]) -> Rows:
        blank, wrong = np.array([text.blank for text in texts]), np.array([text.wrong for text in texts])
        kept = ~(blank | wrong).any(axis=0)
        empty = blank.all(axis=0)
        first_line = texts[0].first_line
        rejects = [
            Reject(source, first_line + row, STAGE, self._reason(texts, row))
            for row in np.flatnonzero(~kept & ~empty).tolist()
        ]
        numbers = np.flatnonzero(kept) + first_line
        arrays = {name: missing_values(column, len(numbers)) for name, column in types.items()}
        for name, text in zip(self.names, texts, strict=True):
            if name in types:
                arrays[name] = slices(text.data, text.starts, text.stops, kept)
        if LINE_NUMBER in types and self.lines.with_numbers:
            arrays[LINE_NUMBER] = pa.array(numbers)
        return Rows(to_batch(arrays, len(numbers)), numbers, rejects, int(empty.sum()))

    def _reason(self, texts: Sequence["_Texts"], row: int) -> str:
        """What is wrong with a line, by the first of its texts that is."""
        for name, text in zip(self.names, texts, strict=True):
            if text.wrong[row]:
                return f"{name!r}: {text.reasons[text.first_line + row]}"
        blank = {name: bool(text.blank[row]) for name, text in zip(self.names, texts, strict=True)}
        empty = next(name for name, is_blank in blank.items() if is_blank)
        full = next(name for name, is_blank in blank.items() if not is_blank)
        return f"an empty text: the line is blank in {empty!r}, and not in {full!r}"


@dataclass(frozen=True, slots=True, eq=False)
class _Texts:
    """Consecutive lines of one part.

    Attributes:
      data: UTF-8, but for the lines that are wrong.
      starts, stops: int64, shape (lines,), of each line without its end.
      blank, wrong: bool, shape (lines,), those that are; no line is both.
      first_line: the number of the first.
      reasons: why lines are wrong, by their number.
    """

    data: bytes
    starts: Positions
    stops: Positions
    blank: Flags
    wrong: Flags
    first_line: int
    reasons: dict[int, str]

    @classmethod
    def of(cls, piece: Piece, encoding: str) -> "_Texts":
        """The lines of `piece`, which has one at least."""
        starts, stops = line_ranges(piece.data)
        wrong = np.zeros(len(starts), bool)
        reasons = {}
        if not is_utf8(piece.data):
            for row, reason in invalid_lines(piece.data, starts, stops, encoding):
                wrong[row] = True
                reasons[piece.first_line + row] = reason
        blank = blank_lines(piece.data, starts, stops, ~wrong)
        return cls(piece.data, starts, stops, blank, wrong, piece.first_line, reasons)

    @classmethod
    def bad(cls, line: int, reason: str) -> "_Texts":
        """One line that is left out unread."""
        nothing = np.zeros(1, np.int64)
        return cls(b"", nothing, nothing, np.zeros(1, bool), np.ones(1, bool), line, {line: reason})

    def first(self, size: int) -> "_Texts":
        """The first lines."""
        return self._part(slice(0, size))

    def rest(self, size: int) -> "_Texts | None":
        """All but the first lines, if there are others."""
        return self._part(slice(size, None)) if size < len(self.starts) else None

    def _part(self, rows: slice) -> "_Texts":
        first = self.first_line + rows.start
        return _Texts(
            self.data, self.starts[rows], self.stops[rows], self.blank[rows], self.wrong[rows], first, self.reasons
        )


def _block(file: FileRef, parts: Sequence[BlockRef]) -> BlockRef:
    offset, length = sum(part.offset for part in parts), sum(part.length for part in parts)
    return BlockRef(file, offset, length, parts[0].first_line, parts=tuple(parts))


def _last_line(text: "_Texts | Reject | None", stream: Iterator["_Texts | Reject"]) -> int:
    """The number of the last line of a part, of which `text` and `stream` are left; 0 where nothing is."""
    last = 0
    while isinstance(text, _Texts):
        last = text.first_line + len(text.starts) - 1
        text = next(stream, None)
    return last


def _before(block: BlockRef, found: Sequence["_Texts"]) -> int:
    """The number of the last line that was read of all parts."""
    return min((text.first_line for text in found), default=block.first_line) - 1


def _uneven(file: FileRef, names: Sequence[str], lines: Sequence[int]) -> UserError:
    said = [
        f"{name}={part.name} has {number:,} line{'' if number == 1 else 's'}"
        for name, part, number in zip(names, file.parts, lines, strict=True)
    ]
    return UserError(
        f"{' and '.join(said)}: line n of the one belongs to line n of the other, so they must have as many lines each"
    )
