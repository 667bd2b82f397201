"""Indexes of TFRecord shards: where each record begins and ends.

`index/<shard>.idx` is the text that NVIDIA DALI's `tfrecord2idx` writes: a line `offset length` for each record, where
the length includes the framing. `index/<split>.npy` holds the same numbers of all shards of a split as one NumPy array,
which a reader maps into memory. `index/index.json` lists the shards, and is written last.
"""

import io
import json
import mmap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from shardmill.errors import CorruptDataError, describe_damage
from shardmill.filesystem import Files, LocalFiles, read_range

Positions = NDArray[np.int64]

INDEX_FOLDER = "index"  # next to the shards; no glob of shards matches it
INDEX_FILE = "index.json"
TEXT_SUFFIX, BOUNDS_SUFFIX = ".idx", ".npy"
ALL = "all"  # what files without a split's name are listed as; TFDS gives it no other meaning
REMEDY = "`shardmill index FOLDER` writes a new index"
FORMAT = 1  # raised when a reader of the previous format would misread the files
_OVERHEAD = 16  # bytes of framing a record
_BOUNDS_HEADER = 128  # bytes before the numbers of a .npy file
_BOUND = np.dtype("<i8")
_MOST = 1 << 60  # records or bytes of a shard
_ROWS = 8192  # formatted at a time, so that they stay in the processor's cache


@dataclass(frozen=True, slots=True, eq=False)
class ShardIndex:
    """The positions of a shard's records: record i is the bytes from `bounds[i]` to `bounds[i + 1]`, with framing."""

    bounds: Positions  # from 0 to the size of the shard, ascending; one more than there are records

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @property
    def offsets(self) -> Positions:
        """Return where each record begins."""
        return self.bounds[:-1]

    @property
    def lengths(self) -> Positions:
        """Return the bytes of each record, with its framing of 16 bytes."""
        return np.diff(self.bounds)

    @property
    def shard_size(self) -> int:
        """Return the size of the shard in bytes."""
        return int(self.bounds[-1])

    @property
    def crc32c(self) -> int:
        """Return the crc32c of `bounds` as they are in a .npy file."""
        return google_crc32c.value(self.bounds.astype(_BOUND, copy=False).tobytes())

    def to_text(self) -> bytes:
        """Return the lines `offset length` of DALI's tfrecord2idx."""
        return b"".join(
            _format_rows(self.bounds[row : row + _ROWS + 1]) for row in range(0, len(self.bounds) - 1, _ROWS)
        )

    def check(self, name: str, shard_size: int, records: int | None = None) -> "ShardIndex":
        """Return the index if it fits a shard of `shard_size` bytes and `records` records, as far as is known.

        Raises:
            CorruptDataError: if it does not; the message begins with `name`.
        """
        sizes = np.diff(self.bounds)
        if not len(self.bounds) or self.bounds[0] != 0:
            raise CorruptDataError(f"{name}: its first record does not begin at byte 0; {REMEDY}")
        # The difference of any two numbers may overflow, that of two which ascend from 0 cannot
        if (wrong := np.flatnonzero((sizes < _OVERHEAD) | (self.bounds[1:] < self.bounds[:-1]))).size:
            record = int(wrong[0])
            raise CorruptDataError(
                f"{name} is out of order: record {record} begins at byte {self.bounds[record]} and ends at byte"
                f" {self.bounds[record + 1]}; a record has {_OVERHEAD} bytes or more; {REMEDY}"
            )
        if self.shard_size != shard_size:
            what = "is cut short" if self.shard_size < shard_size else "is of another build"
            raise CorruptDataError(
                f"{name} does not fit its shard: its last record ends at byte {self.shard_size}, the shard has"
                f" {shard_size} bytes; the index {what}, or the shard is another one; {REMEDY}"
            )
        if records is not None and len(self) != records:
            raise CorruptDataError(
                f"{name} does not fit its shard: it lists {len(self)} records, the shard has {records}; {REMEDY}"
            )
        return self


def _format_rows(bounds: Positions) -> bytes:
    """Return the lines of the records between `bounds`; five times as fast as Python's own formatting."""
    values = np.empty((len(bounds) - 1, 2), np.uint64)
    values[:, 0], values[:, 1] = bounds[:-1], np.diff(bounds)
    left = values.reshape(-1)
    digits = len(str(int(bounds[-1])))
    text = np.empty((len(left), digits + 1), np.uint8)
    text[0::2, digits], text[1::2, digits] = ord(" "), ord("\n")
    is_kept = np.ones(text.shape, bool)
    for column in range(digits - 1, -1, -1):
        is_kept[:, column] = left > 0
        rest = left // np.uint64(10)
        text[:, column] = left - rest * np.uint64(10) + np.uint64(ord("0"))
        left = rest
    is_kept[:, digits - 1] = True  # the digit of 0
    return text[is_kept].tobytes()


class IndexBuilder:
    """Builds the index of a shard from its framed records, in the order in which they are written."""

    def __init__(self) -> None:
        self._size = 0
        self._starts: list[Positions] = []

    def add(self, framed: Any) -> None:
        """Add complete framed records, one after another; raise ValueError if they are none."""
        from shardmill.data import spans

        if len(framed):
            self._starts.append(spans.chain(framed, _OVERHEAD, 0, 0) + self._size)
            self._size += len(framed)

    def build(self) -> ShardIndex:
        """Return the index of all records that were added."""
        return ShardIndex(np.concatenate([*self._starts, np.array([self._size], np.int64)]))


def build_index(file: BinaryIO | bytes, name: str) -> ShardIndex:
    """Return the index of an uncompressed TFRecord file, which is read to its end, and verify every checksum.

    Raises:
        CorruptDataError: if a record is cut short or fails a checksum; the message names `name`, record and offset.
    """
    from shardmill.data.spans import read_blocks

    sizes = [np.zeros(1, np.int64)]
    for block in read_blocks(io.BytesIO(file) if isinstance(file, bytes) else file, name):
        sizes.append(block.ends - block.starts + _OVERHEAD)
    return ShardIndex(np.cumsum(np.concatenate(sizes)))


def parse_index(text: bytes, name: str, shard_size: int, records: int | None = None) -> ShardIndex:
    """Return the index in the `text` of DALI's tfrecord2idx, called `name` in errors.

    Raises:
        CorruptDataError: if it is none, or does not fit a shard of `shard_size` bytes and `records` records.
    """
    if text.translate(None, b"0123456789 \r\n") or (text and not text.endswith(b"\n")):
        raise CorruptDataError(f"{name} is cut short or not an index: expected lines of offset and length; {REMEDY}")
    numbers = np.fromstring(text.decode(), np.int64, sep=" ") if text.strip() else np.empty(0, np.int64)
    if len(numbers) != 2 * text.count(b"\n"):
        raise CorruptDataError(f"{name} is not an index: expected an offset and a length on each line; {REMEDY}")
    offsets, lengths = numbers[0::2], numbers[1::2]
    bounds = np.append(offsets, offsets[-1:] + lengths[-1:] if len(offsets) else 0)
    if (wrong := np.flatnonzero(np.diff(bounds) != lengths)).size:
        record = int(wrong[0])
        end = int(offsets[record]) + int(lengths[record])
        raise CorruptDataError(
            f"{name} is out of order: record {record} ends at byte {end}, and the next begins at byte"
            f" {bounds[record + 1]}; {REMEDY}"
        )
    return ShardIndex(bounds).check(name, shard_size, records)


@dataclass(frozen=True, slots=True)
class IndexedShard:
    """A shard as `index.json` lists it."""

    file: str
    records: int
    size_bytes: int
    crc32c: str  # of the shard, 8 hex digits; "" of files that no manifest lists
    bounds_crc32c: str  # of its numbers in the .npy file


def bounds_header(count: int) -> bytes:
    """Return the 128 bytes with which a .npy file of `count` int64 begins, the same with every release of NumPy."""
    text = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({count},), }}".encode()
    return b"\x93NUMPY\x01\x00" + (_BOUNDS_HEADER - 10).to_bytes(2, "little") + text.ljust(_BOUNDS_HEADER - 11) + b"\n"


def bounds_bytes(indexes: Iterable[ShardIndex], count: int) -> Iterator[bytes]:
    """Yield the bytes of a .npy file with the bounds of some shards, `count` numbers altogether."""
    yield bounds_header(count)
    for index in indexes:
        yield index.bounds.astype(_BOUND, copy=False).tobytes()


def bounds_count(shards: Sequence[IndexedShard]) -> int:
    """Return the length of the array of a split: a number more for each shard than it has records."""
    return sum(shard.records for shard in shards) + len(shards)


def index_json(splits: Mapping[str, Sequence[IndexedShard]]) -> bytes:
    """Return the text of `index.json`."""
    parts = []
    for split, shards in sorted(splits.items()):
        rows = ([one.file, one.records, one.size_bytes, one.crc32c, one.bounds_crc32c] for one in shards)
        parts.append(f"{json.dumps(split)}: [\n" + ",\n".join(map(json.dumps, rows)) + "\n]")
    return (f'{{"format": {FORMAT}, "splits": {{' + ", ".join(parts) + "}}\n").encode()


def parse_index_json(text: bytes, name: str) -> dict[str, tuple[IndexedShard, ...]]:
    """Return the shards of each split in the `text` of index.json, called `name` in errors; else CorruptDataError."""
    try:
        content = json.loads(text)
        if content["format"] != FORMAT:
            raise CorruptDataError(f"{name} was written by a newer shardmill; {REMEDY}")
        splits = {
            str(split): tuple(IndexedShard(str(file), int(records), int(size), str(crc), str(bounds))
                              for file, records, size, crc, bounds in shards)
            for split, shards in content["splits"].items()
        }  # fmt: skip
        numbers = [number for shards in splits.values() for one in shards for number in (one.records, one.size_bytes)]
        if not 0 <= min(numbers, default=0) <= max(numbers, default=0) <= _MOST:
            raise ValueError(f"expected numbers of records and bytes from 0 to {_MOST}")
    except CorruptDataError:
        raise
    except (ArithmeticError, AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise CorruptDataError(f"{name} is not the list of an index: {describe_damage(error)}; {REMEDY}") from None
    return splits


class SplitIndex:
    """The positions of all records of a split, mapped into memory; 8 bytes a record.

    It is pickled without the positions, which are mapped again. The numbers of each shard are checked when the first
    record of the shard is looked up.

    Attributes:
        shards: the shards in order, as `index.json` lists them.
        firsts: the position in the split of each shard's first record, and the number of records, (shards + 1,).
    """

    def __init__(self, path: str, shards: Sequence[IndexedShard], files: Files) -> None:
        """Open the .npy file at `path`; raise CorruptDataError if it is missing or has another length."""
        self._path, self._files = path, files
        self.shards = tuple(shards)
        self.firsts = np.zeros(len(shards) + 1, np.int64)
        np.cumsum(np.fromiter((shard.records for shard in shards), np.int64, len(shards)), out=self.firsts[1:])
        self._map()

    def _map(self) -> None:
        count = bounds_count(self.shards)
        size = _BOUNDS_HEADER + count * _BOUND.itemsize
        try:
            with self._files.open(self._path) as file:
                if isinstance(self._files, LocalFiles):
                    found = file.seek(0, io.SEEK_END)
                    data: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if found else b""
                else:
                    data = file.read()
                    found = len(data)
        except FileNotFoundError:
            raise CorruptDataError(f"{self._path} is missing; {REMEDY}") from None
        if found != size or data[:_BOUNDS_HEADER] != bounds_header(count):
            raise CorruptDataError(
                f"{self._path} is not the index that {INDEX_FILE} describes: it has {found} bytes, expected {size}"
                f" for {len(self)} records in {len(self.shards)} shards; {REMEDY}"
            )
        self._bounds = np.frombuffer(data, _BOUND, count, _BOUNDS_HEADER)
        self._is_checked = np.zeros(len(self.shards), bool)

    def __len__(self) -> int:
        return int(self.firsts[-1])

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_bounds", "_is_checked")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._map()

    def shard(self, number: int) -> ShardIndex:
        """Return the index of a shard, by its number from 0; raise CorruptDataError if it is damaged."""
        entry, first = self.shards[number], int(self.firsts[number]) + number
        index = ShardIndex(self._bounds[first : first + entry.records + 1])
        if not self._is_checked[number]:
            _check_entry(index, entry, self._path)
            self._is_checked[number] = True
        return index

    def locate(self, shards: Positions, records: Positions) -> tuple[Positions, Positions]:
        """Return the first byte of records and their ends, by the number of each one's shard and its own in the shard.

        Raise CorruptDataError if the index of a shard is damaged.
        """
        is_checked = self._is_checked[shards]
        if not is_checked.all():
            for number in np.unique(shards[~is_checked]).tolist():
                self.shard(number)
        places = self.firsts[shards] + shards + records  # each shard before has one more number than records
        return self._bounds[places], self._bounds[places + 1]


def _check_entry(index: ShardIndex, entry: IndexedShard, path: str) -> ShardIndex:
    name = f"{path}: the index of {entry.file}"
    index.check(name, entry.size_bytes, entry.records)
    if f"{index.crc32c:08x}" != entry.bounds_crc32c:
        raise CorruptDataError(f"{name} fails its checksum; {REMEDY}")
    return index


def read_shard_index(path: str, shards: Sequence[IndexedShard], number: int, files: Files) -> ShardIndex:
    """Read the index of one of the `shards` of the .npy file at `path`, and no other part of the file.

    Raises:
        CorruptDataError: if it is missing or damaged.
    """
    start = _BOUNDS_HEADER + bounds_count(shards[:number]) * _BOUND.itemsize
    size = bounds_count(shards[number : number + 1]) * _BOUND.itemsize
    try:
        data = read_range(files, path, start, size)
    except (EOFError, FileNotFoundError) as error:
        missing = "is cut short" if isinstance(error, EOFError) else "is missing"
        raise CorruptDataError(f"{path} {missing}; {REMEDY}") from None
    whole = data[: len(data) - len(data) % _BOUND.itemsize]
    return _check_entry(ShardIndex(np.frombuffer(whole, _BOUND)), shards[number], path)
