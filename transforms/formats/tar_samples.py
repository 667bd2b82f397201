"""Members of tar files, and the WebDataset samples that they form."""

import io
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from io import BufferedIOBase
from typing import BinaryIO, Literal, NamedTuple, cast

import numpy as np

from shardmill.transforms.formats.conventions import IMAGE_SUFFIXES
from shardmill.transforms.formats.format import CutError, UnreadableError
from shardmill.transforms.workers.resources import find_memory_problem

try:
    from shardmill import _native
except ImportError:  # not compiled
    _native = None  # type: ignore[assignment]


ALL_MEMBERS, IMAGE_MEMBERS = None, f"|{IMAGE_SUFFIXES}|"  # members whose data is left out, by their suffixes


def read_heads(
    stream: io.BufferedIOBase, base: int, target: memoryview, held: int, at: int, unread: str | None
) -> int | None:
    """Fill `target` with a part of a file, except for the data of some members, whose bytes are arbitrary.

    Images are nearly all of a data set's tar files. Headers alone tell where samples begin, and members other than
    images tell the types of columns. Skipping images saves copying them to memory.

    `stream` is at the end of the bytes already read, of which `target` holds some since offset `base`; a header is at
    `at` in it. `unread` is ALL_MEMBERS or IMAGE_MEMBERS. Return the number of bytes added, fewer than fit only at the
    file's end; None if the file must be read normally.
    """
    raw = getattr(stream, "raw", None)
    if _native is None or not isinstance(raw, io.FileIO):
        return None
    filled = _native.read_heads(raw.fileno(), base, target, held, at, unread)
    if filled < 0:
        return None
    stream.seek(base + filled)
    return filled - held


BLOCK = 512  # bytes, of which a file is a multiple
_ZEROS = bytes(BLOCK)
_MAX_EXTENDED = 1 << 20  # of a header that is as long as a name, or some attributes, are
_ADLER = 65521  # adler32 has the sum of bytes, modulo this, plus 1, in its lower half (RFC 1950)
_SPACES = 8 * 0x20  # what the checksum counts its own field as
SPARSE, DIRECTORY = "a sparse file", "a directory"
# What a member is that is not a file, by its type
_OTHERS = {
    **dict.fromkeys((b"1", b"2"), "a link"),
    **dict.fromkeys((b"3", b"4"), "a device"),
    b"5": DIRECTORY,
    b"6": "a pipe",
}
_EXTENDED = (b"x", b"g", b"L", b"K", b"X")  # headers of the member that follows
_SPARSE = b"GNU.sparse."
_REAL_NAME = b"GNU.sparse.name"
_USED_ATTRIBUTES = (b"path=", b"size=", _SPARSE)  # of what an extended header may tell

# Bytes of the file by offset and number; raises where they are not there
ReadBytes = Callable[[int, int], bytes]


# Members one behind the other whose names begin alike, up to the first dot of the last part: that, "" where there is no
# such, and of each its start, the rest of its name, its size, and where its data is, as Member has them
Group = tuple[str, list[tuple[int, str, int, int]]]


class Member(NamedTuple):
    """A member of a tar file."""

    start: int  # offset of its first header, including extended headers
    name: str  # name with folders; bytes that are not UTF-8 are escaped
    size: int
    data: int  # offset of its data
    non_file: str  # "" for a file, else a description such as "a link"

    @property
    def stop(self) -> int:
        """The offset of the end of the member's data."""
        return self.data + self.size

    @property
    def end(self) -> int:
        """The offset of the next member."""
        return self.data + _padded(self.size)

    @property
    def split_name(self) -> Group:
        """A group of this member alone."""
        folder, slash, base = self.name.rpartition("/")
        stem, dot, suffix = base.partition(".")
        shared = folder + slash + stem + dot if stem and suffix else ""
        return shared, [(self.start, self.name[len(shared) :], self.size, self.data)]


def read_member(get: ReadBytes, offset: int) -> Member | None:
    """Read the member whose first header is at `offset`; return None for zeros, which end the file.

    Source: POSIX.1-2017, pax, "ustar Interchange Format" and "pax Extended Header"; GNU tar's manual, "Basic Tar
    Format". Python's tarfile takes some 60 microseconds a member, and a data set of images has two or three members an
    example.

    Raises:
        UnreadableError: if there is no valid header.
        Exception: whatever `get` raises.
    """
    start, name, attributes = offset, b"", dict[bytes, bytes]()
    while True:
        head = get(offset, BLOCK)
        if head == _ZEROS and offset == start:
            return None
        size = _size(head, offset)
        kind = head[156:157]
        if kind not in _EXTENDED:
            break
        if size > _MAX_EXTENDED:
            raise UnreadableError(f"the extended header at byte {offset:,} has {size:,} bytes; expected a name")
        if kind == b"L":
            name = get(offset + BLOCK, size).split(b"\0", 1)[0]
        elif kind == b"x" or kind == b"X":
            body = get(offset + BLOCK, size)
            if any(key in body for key in _USED_ATTRIBUTES):  # most tell a time alone
                attributes |= _attributes(body, offset)
        offset += BLOCK + _padded(size)
    data, what = offset + BLOCK, ""
    if kind != b"0":
        what = _OTHERS.get(kind, "")
        if kind == b"S":
            what, more = SPARSE, head[482]
            while more:
                more, data = get(data, BLOCK)[504], data + BLOCK
    if attributes:
        if any(key.startswith(_SPARSE) for key in attributes):
            what = SPARSE
        size = _number(attributes.get(b"size", b"%d" % size), 10, offset)
        name = attributes.get(_REAL_NAME, attributes.get(b"path", name))  # a sparse file's path is made up
    name = name or _name(head)
    if not what and name.endswith(b"/"):
        what = DIRECTORY  # as tar had it before there were types
    return Member(start, name.decode(errors="backslashreplace"), 0 if kind in _OTHERS else size, data, what)


def _size(head: bytes, offset: int) -> int:
    field = head[148:156]
    try:  # as almost all write them: octal digits, then a zero
        stated, size = int(field[:6], 8), int(head[124:135], 8)
    except ValueError:
        stated = _number(field, 8, offset)
        # GNU's way with sizes from 8 GiB
        size = int.from_bytes(head[125:136], "big") if head[124] & 0x80 else _number(head[124:136], 8, offset)
    rest, expected = sum(field) - _SPACES + 1, zlib.adler32(head) & 0xFFFF
    if (stated + rest) % _ADLER != expected and (_number(field, 8, offset) + rest) % _ADLER != expected:
        raise UnreadableError(f"no header of a member at byte {offset:,}: its checksum is wrong")
    if size < 0:
        raise UnreadableError(f"no header of a member at byte {offset:,}: a size of {size:,}")
    return size


def _number(field: bytes, base: int, offset: int) -> int:
    digits = field.split(b"\0", 1)[0].strip()
    with suppress(ValueError):
        if digits[:1] != b"-":
            return int(digits or b"0", base)
    raise UnreadableError(f"no header of a member at byte {offset:,}: {digits[:16]!r} is no number")


def _name(head: bytes) -> bytes:
    name = head[:100].split(b"\0", 1)[0]
    prefix = head[345:500].split(b"\0", 1)[0] if head[257:263] == b"ustar\0" else b""
    return prefix + b"/" + name if prefix else name


def _attributes(body: bytes, offset: int) -> dict[bytes, bytes]:
    """Parse the attributes in an extended header, each `length key=value` and a line feed."""
    found: dict[bytes, bytes] = {}
    position = 0
    while position < len(body) and body[position]:
        length, _, _ = body[position : position + 20].partition(b" ")
        size = _number(length, 10, offset)
        key, equals, value = body[position + len(length) + 1 : position + size].partition(b"=")
        if not equals or value[-1:] != b"\n" or position + size > len(body):
            raise UnreadableError(f"the extended header at byte {offset:,} is damaged")
        found[key] = value[:-1]
        position += size
    return found


def _padded(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


MemberContent = Literal["image", "class", "text", "members"]
# A member of a sample: its content, offset in the file, and size in bytes
SamplePart = tuple[MemberContent, int, int]
KEY = "filename"  # the column of a sample's key
MAX_MEMBER_BYTES = (1 << 31) - (1 << 20)  # an example with its other features has less than 2 GiB
_COPIES = 12  # of a member at once: one of 200 MB took 2.6 GB
# By the last part of a member's name, in lower case
_CONTENTS: dict[str, MemberContent] = {"cls": "class", "txt": "text", "text": "text"}
_CONTENTS |= dict.fromkeys(IMAGE_SUFFIXES.split("|"), "image")
_NO_KEY = "member whose name has no key and suffix"
_NAMES: dict[MemberContent, str] = {"image": "image", "class": "label", "text": "text"}


_ALWAYS_READ = 1 << 20  # bytes, for which there is always memory


def _is_large(size: int) -> bool:
    return size > MAX_MEMBER_BYTES or find_memory_problem(size, _COPIES) != ""


@dataclass(slots=True)
class Sample:
    """A WebDataset sample."""

    key: str  # name prefix that its members share
    number: int  # number in its file, from 1
    start: int  # offset of its first member
    # members by their column; "" for the members of a JSON object
    parts: dict[str, SamplePart] = field(default_factory=dict)
    problem: str = ""  # reason to leave it out; "" if it is valid

    def reject(self, name: str, size: int, non_file: str, column: str) -> None:
        """Mark the sample as invalid, because a member cannot become its column."""
        if non_file:
            reason = f"{name!r} is {non_file}; expected a file with its bytes"
        elif size > MAX_MEMBER_BYTES:
            reason = f"{name!r} has {size:,} bytes; an example holds 2 GB at most"
        elif problem := find_memory_problem(size, _COPIES):
            reason = f"{name!r} has {problem}"
        else:
            twice = f"becomes {column!r}" if column else "is its .json"
            reason = f"a second member {twice}: {name!r}"
        self.problem = self.problem or reason


@lru_cache(maxsize=1024)
def column_of(suffix: str) -> tuple[str, MemberContent] | None:
    """Return the column and the content of a member whose name ends in `suffix`; None for other members.

    `jpg` becomes `image`, `cls` becomes `label`, `txt` becomes `text`; `left.jpg` becomes `left`.
    """
    before, _, last = suffix.rpartition(".")
    last = last.lower()
    if last == "json":
        return None if before else ("", "members")
    holds = _CONTENTS.get(last)
    return None if holds is None else (before or _NAMES[holds], holds)


def scan_members(data: bytes | memoryview, base: int, position: int) -> list[Group]:
    """Return the plain members from `position` on, up to the first one that is not plain or not completely in `data`.

    Almost all members are plain; `read_member` reads the others, and one at a time. `base` is the offset of `data` in
    the file, `position` that of a header. Without the C extension, no members are found.
    """
    return _native.scan_members(data, base, position - base) if _native is not None else []


_FEWEST, _SINGLY = 16, 256  # members: where fewer are plain than that, so many are read one by one
_MOST_KINDS = 100  # of members that are of no sample, by suffix
_BEGINNING = 8  # bytes, which tell what a file is that is no tar
_SKIP_BYTES = 1 << 20  # read at once of skipped members


@dataclass(slots=True, eq=False)
class TarPiece:
    """Consecutive whole samples of a tar file."""

    data: memoryview  # bytes that hold their parts; valid until the next piece
    base: int  # offset of data in the file
    samples: list[Sample]  # samples in order, including invalid ones


class _MoreError(Exception):
    """The requested bytes were not read yet."""


class TarReader:
    """Reads the samples of a tar file forwards, in pieces.

    Consecutive members of one key are a sample. The key is the name up to the first dot of its last part, as WebDataset
    defines it, or up to the last dot if that is requested. Source: the webdataset library, `base_plus_ext` and
    `group_by_keys` in webdataset/tariterators.py.

    Attributes:
        position: offset after the members read so far
        number: number of the first sample not yet returned whole
        members: number of members found
        beginning: first bytes of the file
        skipped_members: count and first name of members of no sample, by kind
    """

    def __init__(
        self,
        stream: BinaryIO,
        offset: int,
        length: int | None,
        first: int,
        piece_size: int,
        *unread: str | None,
        until_last_dot: bool = False,
    ) -> None:
        """Start reading a `stream` at a sample, at `offset`; `first` is its number.

        Args:
            length: number of bytes to read; None for all.
            piece_size: approximate bytes of a piece.
            unread: members whose data is not needed, see `read_heads`; if absent, all data is read.
            until_last_dot: True if keys end at the last dot of a name, not at the first.
        """
        self._unread, self._until_last_dot = unread, until_last_dot
        self._stream, self._left, self._piece_size = cast(BufferedIOBase, stream), length, piece_size
        # One buffer for all pieces: a new one each time costs more than to read into it
        self._buffer = memoryview(b"")
        self._data, self._base, self.position = self._buffer, offset, offset
        self.members, self.beginning = 0, b""
        self.skipped_members: dict[str, tuple[int, str]] = {}
        self._shared = ""  # by the names of the members of `_open`
        self._open: Sample | None = None  # the sample that the next member may belong to
        self._next = self.number = first
        self._whole, self._ended = list[Sample](), False
        self._singly = 0  # how many are read one by one before it is tried to read many

    def pieces(self, is_end: bool) -> Iterator[TarPiece]:
        """Yield all pieces; `is_end` is True if they reach the end of the file, which zeros mark.

        Raises:
            UnreadableError: if no more can be read, after all preceding samples were returned.
            OSError: if the file cannot be read, also after all preceding samples were returned.
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
            is_large = _is_large(member.size)
            if member.stop > self._stop and not (is_large or self._ended):
                yield from self._fill()
                continue
            self._take(member.split_name, member.non_file)
            there = self._stop
            if member.stop > there and is_large:
                yield self._piece()
                there = self._skip_to(member.end)
            if member.stop > there:
                self._open = None
                have = max(there - member.data, 0)
                raise CutError(f"cut short: {member.name!r} has {have:,} of its {member.size:,} bytes")
            self.position = member.end
        self._finish_sample()
        yield self._piece()
        if is_end and not at_zeros:
            raise CutError("cut short: the zeros that end a tar file are missing")

    def _take_plain(self) -> bool:
        """Take the next plain members that were read completely; return True if there are any."""
        if self._singly:
            self._singly -= 1
            return False
        before = self.members
        groups = scan_members(self._data, self._base, self.position)
        for group in groups:
            self._take(group)
        if groups:
            _, _, size, data = groups[-1][1][-1]
            self.position = data + _padded(size)
        self._singly = _SINGLY if self.members - before < _FEWEST else 0
        return bool(groups)

    def _take(self, group: Group, non_file: str = "") -> None:
        """Add the next members to their sample; they are files unless `non_file` describes them otherwise."""
        shared, members = group
        if self._until_last_dot and shared and any("." in suffix for _, suffix, _, _ in members):
            for start, suffix, size, data in members:
                more, dot, last = suffix.rpartition(".")
                self._take((shared + more + dot, [(start, last, size, data)]), non_file)
            return
        self.members += len(members)
        is_other = shared != self._shared or self._open is None
        if non_file == DIRECTORY and is_other:
            return
        for start, suffix, size, data in members:
            found = column_of(suffix) if shared else None
            if found is None:
                self._pass_over(f".{suffix.rpartition('.')[2].lower()} member" if shared else _NO_KEY, shared + suffix)
                continue
            if is_other:
                self._finish_sample()
                self._open, self._shared, is_other = Sample(shared[:-1], self._next, start), shared, False
                self._next += 1
            assert self._open is not None
            column, holds = found
            if non_file or (size > _ALWAYS_READ and _is_large(size)) or column in self._open.parts:
                self._open.reject(shared + suffix, size, non_file, column)
            else:
                self._open.parts[column] = (holds, data, size)

    @property
    def _stop(self) -> int:
        return self._base + len(self._data)

    def _pass_over(self, description: str, name: str) -> None:
        if description not in self.skipped_members and len(self.skipped_members) >= _MOST_KINDS:
            description = "other member"
        number, first = self.skipped_members.get(description, (0, name))
        self.skipped_members[description] = (number + 1, min(first, name))

    def _finish_sample(self) -> None:
        if self._open is not None:
            self._whole.append(self._open)
            self.number = self._open.number + 1
        self._open = None

    def _piece(self) -> TarPiece:
        piece, self._whole = TarPiece(self._data, self._base, self._whole), []
        return piece

    def _get(self, offset: int, size: int) -> bytes:
        start = offset - self._base
        if start + size > len(self._data):
            raise _MoreError
        return bytes(self._data[start : start + size])

    def _fill(self) -> Iterator[TarPiece]:
        """Read more bytes; yield whole samples first and forget their bytes, unless everything was read already."""
        if self._left == 0:
            self._ended = True
            return
        if self._whole:
            yield self._piece()
        kept = self.position if self._open is None else self._open.start
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
        """Fill `target` after the `held` bytes, without unneeded data where possible; return the bytes added."""
        if self._unread:
            target = target if self._left is None else target[: held + self._left]
            at = self.position - self._base
            number = read_heads(self._stream, self._base, target, held, at, *self._unread) if at >= 0 else None
            if number is not None:
                return self._mark_read(number)
        return self._read_into(target[held:])

    def _read_into(self, target: memoryview) -> int:
        return self._mark_read(self._stream.readinto(target if self._left is None else target[: self._left]))

    def _mark_read(self, number: int) -> int:
        self._ended = not number  # a stream may give less than it is asked for, before an error for instance
        if self._left is not None:
            self._left -= number
        return number

    def _skip_to(self, end: int) -> int:
        """Skip the bytes before `end`; return the offset reached, which is smaller if the file ends earlier."""
        at = self._stop
        self._data = self._data[:0]
        buffer = memoryview(bytearray(_SKIP_BYTES))
        while at < end and not self._ended:
            at += self._read_into(buffer[: end - at])
        self._base = at
        return at
