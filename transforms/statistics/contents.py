"""Hashes of examples' contents, in temporary files."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
import xxhash
from numpy.typing import NDArray

from shardmill.data import spans
from shardmill.text import shown_line
from shardmill.transforms.columns.arrow import narrow_codes
from shardmill.transforms.statistics.sketches import make_empty_hashes, mix, unmix
from shardmill.transforms.stores import storage

Hashes = NDArray[np.uint64]
SEEDS = (0x2545F4914F6CDD1D, 0xD6E8FEB86659FD93)  # any two; results are compared within one job alone


@dataclass(frozen=True, slots=True, eq=False)
class Contents:
    """Hashes of the contents and positions of some examples: columns of uint64, shape (n,)."""

    high: Hashes = field(default_factory=make_empty_hashes)  # halves of the hashes
    low: Hashes = field(default_factory=make_empty_hashes)
    positions: Hashes = field(default_factory=make_empty_hashes)  # hash of file and line; orders equal contents
    labels: Hashes | None = None  # class id + 1, or 0 without a class; None if part of the content

    def __len__(self) -> int:
        return len(self.high)

    @property
    def columns(self) -> list[Hashes]:
        """The columns in the order of the fields, without labels if there are none."""
        return [self.high, self.low, self.positions, *([] if self.labels is None else [self.labels])]

    def take(self, rows: NDArray[np.int64]) -> "Contents":
        return Contents(*(column.take(rows) for column in self.columns))

    def slice(self, start: int, stop: int) -> "Contents":
        """Return the contents of rows `start` to `stop`, without copying."""
        return Contents(*(column[start:stop] for column in self.columns))

    @classmethod
    def concatenate(cls, parts: Sequence["Contents"]) -> "Contents":
        """Concatenate contents; without labels unless all parts have them."""
        return cls(*map(np.concatenate, zip(*(part.columns for part in parts))))


def digest_content(*parts: bytes) -> bytes:
    """Return the xxh3_128, 16 bytes, of the parts of an example's content."""
    if len(parts) == 1:
        return xxhash.xxh3_128_digest(parts[0])
    hashed = xxhash.xxh3_128(parts[0])
    for part in parts[1:]:
        hashed.update(part)
    return hashed.digest()


def contents_of_digests(digests: bytes, positions: Hashes, labels: Hashes | None = None) -> Contents:
    """Return the contents of examples whose 16-byte digests `digest_content` made."""
    halves = np.frombuffer(digests, ">u8").reshape(-1, 2).astype(np.uint64)
    return Contents(halves[:, 0].copy(), halves[:, 1].copy(), positions, labels)


_GOLDEN = 0x9E3779B97F4A7C15  # 2**64 divided by the golden ratio, odd: splitmix64's increment
_LAST_SHIFT = np.uint64(31)  # bits, of splitmix64's finalizer, whose other steps are `mix`


def hash_lines(name: str, lines: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the position of each line of the file `name`, as one hash: uint64, shape (n,)."""
    return combine_with_lines(hash_file_names([name]), lines)


def hash_file_names(names: Sequence[str]) -> NDArray[np.uint64]:
    """Return the hash of each file name, for `combine_with_lines`: uint64, shape (n,)."""
    return np.array([xxhash.xxh3_64_intdigest(name.encode()) for name in names], np.uint64)


def combine_with_lines(hashes: NDArray[np.uint64], lines: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return the position of each line, a hash of the hash of its file's name and its number: uint64, shape (n,)."""
    mixed = mix(hashes + lines.astype(np.uint64) * np.uint64(_GOLDEN))
    return mixed ^ (mixed >> _LAST_SHIFT)


def invert_positions(positions: Iterable[int], names: bytes) -> Mapping[int, tuple[str, int]]:
    """Return the file and line from which each position, a 64-bit hash of both, was computed.

    For each file name, inverting the hash gives a line number. A wrong name gives an arbitrary number below 2^64, so
    the right file is the one with the smallest line number. `names` are separated by NUL.
    """
    ends = np.append(spans.find(names, 0), len(names))
    starts = np.concatenate(([0], ends[:-1] + 1))
    hashes = spans.hashes(names, starts, ends)
    step = np.uint64(pow(_GOLDEN, -1, 1 << 64))
    found = {}
    for position in positions:
        mixed = np.array([position], np.uint64)
        # Undoes x ^ x >> shift: 3 * shift is above 64
        mixed ^= (mixed >> _LAST_SHIFT) ^ (mixed >> np.uint64(2) * _LAST_SHIFT)
        lines = (unmix(mixed) - hashes) * step
        least = int(np.argmin(lines))
        found[position] = (names[starts[least] : ends[least]].decode(), int(lines[least]))
    return found


PART_BITS = 8  # of a hash, the highest: which part of a section it is in
_PARTS = 1 << PART_BITS
_STARTS_BYTES = 4 * (_PARTS + 1)  # where parts begin, and where the last one ends: uint32
_ITEM_BYTES = 8  # bytes of a uint64
SEPARATOR = b"\0"


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a temporary file with the hashes of some examples' contents, ordered for the search for duplicates."""

    split: str  # split of the examples
    path: str
    offset: int  # start of the section in the file
    examples: int  # number of examples
    names_bytes: int  # bytes of the file names
    first_line: int = 0  # line number of a file's first line: 1 if 0 means the whole file
    columns: int = 3  # 4 with labels, else 3

    @property
    def size_bytes(self) -> int:
        return self._locate_column(self.columns) - self.offset + self.names_bytes

    def _locate_column(self, number: int) -> int:
        return self.offset + _STARTS_BYTES + number * self.examples * _ITEM_BYTES

    def rows(self, first: int, last: int) -> tuple[int, int]:
        """Return the range of rows of the parts from `first` to before `last`."""
        if (first, last) == (0, _PARTS):
            return 0, self.examples
        starts = np.frombuffer(storage.read_range(self.path, self.offset, _STARTS_BYTES), "<u4")
        return int(starts[first]), int(starts[last])

    def read_high_halves(self, start: int, stop: int) -> Hashes:
        return self._read(0, start, stop)

    def read_contents(self, start: int, stop: int) -> Contents:
        return Contents(*(self._read(number, start, stop) for number in range(self.columns)))

    def _read(self, number: int, start: int, stop: int) -> Hashes:
        at = self._locate_column(number) + start * _ITEM_BYTES
        return np.frombuffer(storage.read_range(self.path, at, (stop - start) * _ITEM_BYTES), "<u8")

    def find_sources(self, positions: Iterable[int]) -> dict[int, tuple[str, int | None]]:
        """Return the file and line of each position; the line is None if the example is a whole file."""
        return {
            position: (name, None if line < self.first_line else shown_line(line - self.first_line))
            for position, (name, line) in invert_positions(positions, self.read_names()).items()
        }

    def read_names(self) -> bytes:
        """Return the names of the examples' files, as `encode_names` joined them."""
        return bytes(storage.read_range(self.path, self._locate_column(self.columns), self.names_bytes))


def encode_names(names: Iterable[str]) -> bytes:
    """Return the names of input files as bytes, to be kept with hashes of their contents."""
    return SEPARATOR.decode().join(names).encode()


def sort_by_split(contents: Contents, splits: NDArray[np.int64], number: int) -> list[Contents]:
    """Divide contents by split, and sort each split's by hash, with a single sort.

    `splits` are the split numbers of each, shape (n,), below `number`; some splits may be empty.
    """
    parts = number << PART_BITS
    code = narrow_codes((splits << PART_BITS) + (contents.high >> np.uint64(64 - PART_BITS)).astype(np.int64), parts)
    order = np.argsort(code, kind="stable")
    ordered, bounds = contents.take(order), np.searchsorted(code.take(order), np.arange(0, parts + 1, _PARTS)).tolist()
    return [ordered.slice(start, stop) for start, stop in pairwise(bounds)]


def make_section(
    contents: Contents, split: str, path: str, offset: int, names: bytes, first_line: int = 0
) -> tuple[Section, list[object]]:
    """Return the description of sorted contents, and their bytes in pieces, to be written at that place."""
    # Parts lie one behind the other, so the first of each is found by halving
    first_bits = (contents.high >> np.uint64(64 - PART_BITS)).astype(np.int64)
    starts = np.searchsorted(first_bits, np.arange(_PARTS + 1)).astype("<u4")
    columns = [column.astype("<u8", copy=False) for column in contents.columns]
    section = Section(split, path, offset, len(contents), len(names), first_line, len(columns))
    return section, [starts, *columns, names]


def count_ranges(examples: int, max_examples: int) -> int:
    """Return the number of hash ranges, a power of 2, so that about `max_examples` examples at most are in each."""
    number = 1
    while number * max_examples < examples:
        number *= 2
    return number


def range_bounds(index: int, number: int) -> tuple[int, int]:
    """Return the smallest and the largest upper half of the hashes in one of `number` equal ranges."""
    step = (1 << 64) // number
    return index * step, (index + 1) * step - 1


_FIRST_LINE_NUMBER = 1  # a file that is no line of a manifest has 0


@dataclass(frozen=True, slots=True, eq=False)
class FileContents:
    """Digests of the contents of some files or sequences; positions are hashed for a whole shard at once."""

    digests: bytes  # 16 bytes each
    names: bytes  # file names, encoded as in a section
    hashes: NDArray[np.uint64]  # hash of each one's file name: uint64, shape (n,)
    lines: NDArray[np.int64]  # in the manifest, or in that file: int64, shape (n,)
    labels: NDArray[np.uint64]  # class id + 1, or 0 without a class: uint64, shape (n,)

    @classmethod
    def from_digests(
        cls, names: Sequence[str], lines: Sequence[int | None], digests: Sequence[bytes], labels: Sequence[int | None]
    ) -> "FileContents":
        """Return the contents of at least one file.

        `lines` are those of the manifest that names each, or None; `labels` are class ids, or None.
        """
        numbers = np.array([0 if line is None else line + _FIRST_LINE_NUMBER for line in lines], np.int64)
        ids = np.array([0 if label is None else label + 1 for label in labels], np.uint64)
        return cls(b"".join(digests), encode_names(names), hash_file_names(names), numbers, ids)

    @classmethod
    def from_hashes(
        cls, hashes: NDArray[np.uint64], names: Sequence[str], files: NDArray[np.integer], lines: NDArray[np.int64]
    ) -> "FileContents":
        """Return the contents of at least one example whose labels are part of its content.

        `hashes` has the halves of the hashes, shape (2, n). `files` are indices into the distinct `names`, and `lines`
        are lines in these files: shape (n,) each.
        """
        digests = np.ascontiguousarray(hashes.T.astype(">u8")).tobytes()
        labels = np.zeros(len(lines), np.uint64)
        return cls(digests, encode_names(names), hash_file_names(names)[files], lines + _FIRST_LINE_NUMBER, labels)


class ContentsWriter:
    """Writer of the hashes of one shard's contents."""

    def __init__(self) -> None:
        self._parts: list[FileContents] = []

    def add(self, part: FileContents | None) -> None:
        """Add the contents of more files, unless None."""
        if part is not None:
            # Nearly all are zeros, or a few classes
            lines, labels = (column.astype(np.min_scalar_type(column.max())) for column in (part.lines, part.labels))
            self._parts.append(replace(part, lines=lines, labels=labels))

    def write(self, path: str, split: str) -> Section | None:
        """Write the hashes to the new file `path` and return their description; None if there are none."""
        if not self._parts:
            return None
        held, self._parts = self._parts, []
        columns = ([getattr(part, name) for part in held] for name in ("hashes", "lines", "labels"))
        hashes, lines, labels = map(np.concatenate, columns)
        lines, labels = lines.astype(np.int64), labels.astype(np.uint64)
        digests, names = b"".join(part.digests for part in held), b"\0".join(part.names for part in held)
        contents = contents_of_digests(digests, combine_with_lines(hashes, lines), labels if labels.any() else None)
        del held, columns, hashes, lines, labels, digests  # before the rest is copied once more
        (ordered,) = sort_by_split(contents, np.zeros(len(contents), np.int64), 1)
        section, parts = make_section(ordered, split, path, 0, names, _FIRST_LINE_NUMBER)
        storage.write_parts(path, parts)
        return section
