"""The headers of many members at once, in NumPy: of plain ones, as almost all are. Pure.

`transforms.formats.tar.members` has them one at a time, and all others.
"""

import numpy as np

from transforms.formats.tar.members import ASKED, BLOCK, Member

_PATH, _SIZE_KEY, _SPARSE = ASKED

_MAGIC = int.from_bytes(b"usta", "little")  # at the beginning of `ustar`, which every header has since 1988
_MAGIC_AT = 257
_SIZE, _SUM, _SUM_FIELD = slice(124, 135), slice(148, 154), slice(148, 156)
_SPACES = 8 * 0x20
_FILES, _EXTENDED = (ord("0"), 0), ord("x")


def scan_members(data: bytes | memoryview, base: int, position: int) -> list[Member]:
    """The members from `position` on that are plain, up to the first that is not, or whose bytes are not all there.

    Args:
      data: a part of the file.
      base: where it begins.
      position: of a header.
    """
    first = position - base
    blocks = (len(data) - first) // BLOCK
    if blocks <= 0:
        return []
    magic = np.ndarray((blocks,), "<u4", data, first + _MAGIC_AT, (BLOCK,))
    heads = np.flatnonzero(magic == _MAGIC)
    if not len(heads) or heads[0]:
        return []
    found = np.frombuffer(data, np.uint8, blocks * BLOCK, first).reshape(blocks, BLOCK)[heads]
    sizes, sized = _octal(found[:, _SIZE])
    sums, summed = _octal(found[:, _SUM])
    told = found.sum(1, dtype=np.int64) - found[:, _SUM_FIELD].sum(1, dtype=np.int64) + _SPACES
    kinds = found[:, 156]
    files = np.isin(kinds, _FILES)
    good = (sized & summed & (told == sums) & (files | (kinds == _EXTENDED))).tolist()
    names, prefixes = _texts(found, 0, 100), _texts(found, 345, 500)
    posix, sizes, files = (found[:, 262] == 0).tolist(), sizes.tolist(), files.tolist()
    members: list[Member] = []
    at = start = 0  # in blocks: of a header, and of the first one of its member
    for place, head in enumerate(heads.tolist()):
        if head < at:  # in the data of a member
            continue
        if head > at or not good[place]:
            break
        begin, size = first + (at + 1) * BLOCK, sizes[place]
        at += 1 + -(-size // BLOCK)
        if begin + size > len(data):
            break
        if not files[place]:
            body = bytes(data[begin : begin + size])
            if start != head or _PATH in body or _SIZE_KEY in body or _SPARSE in body:
                break
            continue
        name = names[place]
        if b"\0" in name:
            name = name.partition(b"\0")[0]
        if posix[place] and prefixes[place]:
            name = prefixes[place].split(b"\0", 1)[0] + b"/" + name
        if name.endswith(b"/"):
            break
        text = name.decode(errors="backslashreplace")
        members.append(Member(position + start * BLOCK, text, size, base + begin, ""))
        start = at
    return members


def _octal(digits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The number in each row of octal digits, and whether they are: int64 and bool, shape (rows,)."""
    values = digits.astype(np.int64) - ord("0")
    powers = 8 ** np.arange(digits.shape[1] - 1, -1, -1)
    in_range = np.asarray(((values >= 0) & (values < 8)).all(1))
    return values @ powers, in_range


def _texts(rows: np.ndarray, start: int, stop: int) -> list[bytes]:
    """A field of each row, without the zeros at its end."""
    return np.ascontiguousarray(rows[:, start:stop]).view(f"S{stop - start}").ravel().tolist()
