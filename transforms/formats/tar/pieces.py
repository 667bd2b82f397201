"""The samples of a tar file, or of a block of one, read as a stream: some megabytes at a time."""

from collections.abc import Iterator
from dataclasses import dataclass
from io import BufferedIOBase
from typing import BinaryIO, cast

import numpy as np

from shardmill.transforms.formats.damage import UnreadableError
from shardmill.transforms.formats.tar.heads import read_heads
from shardmill.transforms.formats.tar.members import BLOCK, Group, end_of, read_member
from shardmill.transforms.formats.tar.samples import MAX_MEMBER_BYTES, Grouping, Sample
from shardmill.transforms.formats.tar.scan import scan_members

_FEWEST, _SINGLY = 16, 256  # members: where fewer are plain than that, so many are read one by one
_MOST_KINDS = 100  # of members that are of no sample, by suffix
_BEGINNING = 8  # bytes, which tell what a file is that is no tar
_SKIP_BYTES = 1 << 20  # read at once of what is passed over


class CutError(UnreadableError):
    """A file that ends too early."""


@dataclass(slots=True, eq=False)
class TarPiece:
    """Some whole samples.

    Attributes:
      data: the bytes in which their parts lie, until the next piece is asked for.
      base: where in the file these begin.
      samples: in their order, those that are left out among them.
    """

    data: memoryview
    base: int
    samples: list[Sample]


class _MoreError(Exception):
    """What is asked for was not read yet."""


class TarReader:
    """Reads pieces, forwards.

    Attributes:
      position: how far members were read.
      number: of the first sample that was not given whole.
      members: how many were found.
      beginning: the first bytes.
      others: members that are of no sample, by what they are: how many, and the first by name.
    """

    def __init__(
        self, stream: BinaryIO, offset: int, length: int | None, first: int, piece_size: int, *unread: str | None
    ) -> None:
        """Args:

        stream: at `offset`.
        offset: where the first sample begins.
        length: of the bytes to read; None for all.
        first: number of the first sample.
        piece_size: bytes of a piece, about.
        unread: of what members the data is not looked at, as transforms.formats.tar.heads has it; none where all is.
        """
        self._unread = unread
        self._stream, self._left, self._piece_size = cast(BufferedIOBase, stream), length, piece_size
        # One buffer for all pieces: a new one each time costs more than to read into it
        self._buffer = memoryview(b"")
        self._data, self._base, self.position = self._buffer, offset, offset
        self.members, self.beginning = 0, b""
        self.others: dict[str, tuple[int, str]] = {}
        self._grouping, self._whole = Grouping(first), list[Sample]()
        self._ended, self.number = False, first
        self._singly = 0  # how many are read one by one before it is tried to read many

    def pieces(self, is_end: bool) -> Iterator[TarPiece]:
        """All of them; `is_end` says whether they reach to the end of the file, which zeros mark.

        Raises:
          UnreadableError: no more can be read, after all that precedes has been given.
          OSError: nor can the file.
        """
        try:
            yield from self._pieces(is_end)
        except (UnreadableError, OSError):
            yield self._piece()
            raise

    def _pieces(self, is_end: bool) -> Iterator[TarPiece]:
        at_zeros = False
        while True:
            if self._take_plain():
                at_zeros = False
            try:
                member = read_member(self._get, self.position)
            except _MoreError:
                if not self._ended:
                    yield from self._fill()
                elif self.position < self._stop:
                    raise CutError("cut short in the header of a member") from None
                else:
                    break
                continue
            at_zeros = member is None
            if member is None:
                self.position += BLOCK
                continue
            is_large = member.size > MAX_MEMBER_BYTES
            if member.stop > self._stop and not (is_large or self._ended):
                yield from self._fill()
                continue
            self._take(member.group, member.what)
            there = self._stop
            if member.stop > there and is_large:
                yield self._piece()
                there = self._skip_to(member.end)
            if member.stop > there:
                self._grouping.open = None
                have = max(there - member.data, 0)
                raise CutError(f"cut short: {member.name!r} has {have:,} of its {member.size:,} bytes")
            self.position = member.end
        if self._grouping.open is not None:
            self._give(self._grouping.open)
            self._grouping.open = None
        yield self._piece()
        if is_end and not at_zeros:
            raise CutError("cut short: the zeros that end a tar file are missing")

    def _take_plain(self) -> bool:
        """Take the plain members that come next, all of whose bytes were read; whether there are any."""
        if self._singly:
            self._singly -= 1
            return False
        before = self.members
        groups = scan_members(self._data, self._base, self.position)
        for group in groups:
            self._take(group)
        if groups:
            _, _, size, data = groups[-1][1][-1]
            self.position = end_of(data, size)
        self._singly = _SINGLY if self.members - before < _FEWEST else 0
        return bool(groups)

    def _take(self, group: Group, what: str = "") -> None:
        self.members += len(group[1])
        before = self._grouping.open
        for other, name in self._grouping.add(group, what):
            self._pass_over(other, name)
        if before is not None and self._grouping.open is not before:
            self._give(before)

    @property
    def _stop(self) -> int:
        """The end of what was read."""
        return self._base + len(self._data)

    def _pass_over(self, what: str, name: str) -> None:
        what = what if what in self.others or len(self.others) < _MOST_KINDS else "other member"
        number, first = self.others.get(what, (0, name))
        self.others[what] = (number + 1, min(first, name))

    def _give(self, sample: Sample) -> None:
        self._whole.append(sample)
        self.number = sample.number + 1

    def _piece(self) -> TarPiece:
        piece, self._whole = TarPiece(self._data, self._base, self._whole), []
        return piece

    def _get(self, offset: int, size: int) -> bytes:
        start = offset - self._base
        if start + size > len(self._data):
            raise _MoreError
        return bytes(self._data[start : start + size])

    def _fill(self) -> Iterator[TarPiece]:
        """Read on; what is whole is given before, and its bytes are forgotten, unless all that there is was read."""
        if self._left == 0:
            self._ended = True
            return
        if self._whole:
            yield self._piece()
        kept = self.position if self._grouping.open is None else self._grouping.open.start
        rest = self._data[max(kept - self._base, 0) :]
        self._base = max(kept, self._base)
        held, more = len(rest), max(self._piece_size, len(rest))
        if self._left is not None and self._left < 2 * more:
            more = self._left  # a block is one piece: what is put together of two is copied once more
        buffer = self._buffer if held + more <= len(self._buffer) else np.empty(held + more, np.uint8).data
        buffer[:held] = rest
        self._buffer, self._data = buffer, buffer[:held]  # what is left may be asked for, if reading fails
        self._data = buffer[: held + self._read_members(buffer[: held + more], held)]
        self._singly, self.beginning = 0, self.beginning or bytes(self._data[:_BEGINNING])

    def _read_members(self, target: memoryview, held: int) -> int:
        """Fill `target`, the bytes from `base` on, behind what it holds; how many came, without what is not looked at
        where that can be left out."""
        if self._unread:
            target = target if self._left is None else target[: held + self._left]
            at = self.position - self._base
            number = read_heads(self._stream, self._base, target, held, at, *self._unread) if at >= 0 else None
            if number is not None:
                return self._came(number)
        return self._read_into(target[held:])

    def _read_into(self, target: memoryview) -> int:
        return self._came(self._stream.readinto(target if self._left is None else target[: self._left]))

    def _came(self, number: int) -> int:
        self._ended = not number  # a stream may give less than it is asked for, before an error for instance
        if self._left is not None:
            self._left -= number
        return number

    def _skip_to(self, end: int) -> int:
        """Pass over the bytes before `end`; where they end, if that is before."""
        at = self._stop
        self._data = self._data[:0]
        buffer = memoryview(bytearray(_SKIP_BYTES))
        while at < end and not self._ended:
            at += self._read_into(buffer[: end - at])
        self._base = at
        return at
