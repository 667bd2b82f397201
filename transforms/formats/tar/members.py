"""The members of a tar file: their headers, one after the other. Pure.

Source: POSIX.1-2017, pax, "ustar Interchange Format" and "pax Extended Header"; GNU tar's manual, "Basic Tar Format".
Python's tarfile takes some 60 microseconds a member, of which a data set of images has two or three an example.
"""

import zlib
from collections.abc import Callable
from typing import NamedTuple

from shardmill.transforms.formats.damage import UnreadableError

BLOCK = 512  # bytes, of which a file is a multiple
_ZEROS = bytes(BLOCK)
_MAX_EXTENDED = 1 << 20  # of a header that is as long as a name, or some attributes, are
_ADLER = 65521  # adler32 has the sum of bytes, modulo this, plus 1, in its lower half (RFC 1950)
_SPACES = 8 * 0x20  # what the checksum counts its own field as
# What a member is that is not a file, by its type
_OTHERS = {
    b"1": "a link",
    b"2": "a link",
    b"3": "a device",
    b"4": "a device",
    b"5": "a directory",
    b"6": "a pipe",
}
_EXTENDED = (b"x", b"g", b"L", b"K", b"X")  # headers of the member that follows
_SPARSE = b"GNU.sparse."
_REAL_NAME = b"GNU.sparse.name"
ASKED = (b"path=", b"size=", _SPARSE)  # of what an extended header may tell
SPARSE, DIRECTORY = "a sparse file", "a directory"

# Bytes of the file by offset and number; raises where they are not there
Get = Callable[[int, int], bytes]


# Members one behind the other whose names begin alike, up to the first dot of the last part: that, "" where there is no
# such, and of each its start, the rest of its name, its size, and where its data is, as Member has them
Group = tuple[str, list[tuple[int, str, int, int]]]


class Member(NamedTuple):
    """A member.

    Attributes:
      start: where its first header is, one that tells a long name included.
      name: of the file, with folders; bytes that are not UTF-8 are escaped.
      size: in bytes.
      data: where these are.
      what: "" of a file, else what it is, in words.
    """

    start: int
    name: str
    size: int
    data: int
    what: str

    @property
    def stop(self) -> int:
        """Where its data ends."""
        return self.data + self.size

    @property
    def end(self) -> int:
        """Where the next member is."""
        return end_of(self.data, self.size)

    @property
    def group(self) -> Group:
        """It alone."""
        folder, slash, base = self.name.rpartition("/")
        stem, dot, suffix = base.partition(".")
        shared = folder + slash + stem + dot if stem and suffix else ""
        return shared, [(self.start, self.name[len(shared) :], self.size, self.data)]


def end_of(data: int, size: int) -> int:
    """Where the next member is after `size` bytes at `data`."""
    return data + _padded(size)


def read_member(get: Get, offset: int) -> Member | None:
    """The member whose first header is at `offset`; None where there are zeros, which end the file.

    Raises:
      UnreadableError: there is none.
      Exception: what `get` raises.
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
            if any(key in body for key in ASKED):  # most tell a time alone
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
    """The size in a header, whose checksum is right."""
    field = head[148:156]
    try:  # as almost all write them: octal digits, then a zero
        said, size = int(field[:6], 8), int(head[124:135], 8)
    except ValueError:
        said = _number(field, 8, offset)
        # GNU's way with sizes from 8 GiB
        size = int.from_bytes(head[125:136], "big") if head[124] & 0x80 else _number(head[124:136], 8, offset)
    if (said + sum(field) - _SPACES + 1) % _ADLER != zlib.adler32(head) & 0xFFFF:
        said = _number(field, 8, offset)
        if (said + sum(field) - _SPACES + 1) % _ADLER != zlib.adler32(head) & 0xFFFF:
            raise UnreadableError(f"no header of a member at byte {offset:,}: its checksum is wrong")
    if size < 0:
        raise UnreadableError(f"no header of a member at byte {offset:,}: a size of {size:,}")
    return size


def _number(field: bytes, base: int, offset: int) -> int:
    digits = field.split(b"\0", 1)[0].strip()
    try:
        return int(digits or b"0", base) if digits[:1] != b"-" else _refuse()
    except ValueError:
        raise UnreadableError(f"no header of a member at byte {offset:,}: {digits[:16]!r} is no number") from None


def _refuse() -> int:
    raise ValueError


def _name(head: bytes) -> bytes:
    name = head[:100].split(b"\0", 1)[0]
    prefix = head[345:500].split(b"\0", 1)[0] if head[257:263] == b"ustar\0" else b""
    return prefix + b"/" + name if prefix else name


def _attributes(body: bytes, offset: int) -> dict[bytes, bytes]:
    """The attributes in an extended header, each `length key=value` and a line feed."""
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
