"""Scan blocks of TFRecords and Examples for the spans of their payloads and values.

Positions are int64, and a span, from start to end, must be within its contiguous buffer; else it is a ValueError.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from shardmill.data.tfrecord import mask_crcs
from shardmill.errors import CorruptDataError

try:
    from shardmill import _native as _spans

    if not hasattr(_spans, "encode_images"):
        raise ImportError("it was compiled before an update; run `python setup.py build_ext --inplace`")
except ImportError:
    from shardmill.data import tfrecord as _spans  # type: ignore[no-redef]

Positions = NDArray[np.int64]
COMPILED = _spans.__name__.endswith("._native")
# What is called as it is; shardmill.data.tfrecord describes it
count, find_before, read_example = _spans.count, _spans.find_before, _spans.read_example


def checksums(data: Any, starts: Positions, ends: Positions) -> NDArray[np.uint32]:
    """Return the crc32c of each `data[start:end]`, shape (n,)."""
    crcs = np.empty(len(starts), np.uint32)
    _spans.checksums(data, _as_positions(starts), _as_positions(ends), crcs)
    return crcs


def hashes(data: Any, starts: Positions, ends: Positions, seed: int = 0) -> NDArray[np.uint64]:
    """Return the xxh3_64 (https://xxhash.com) of each `data[start:end]`, shape (n,)."""
    return hashes_by_seed(data, starts, ends, [seed])[0]


def hashes_by_seed(data: Any, starts: Positions, ends: Positions, seeds: Sequence[int]) -> NDArray[np.uint64]:
    """Return the xxh3_64 of each `data[start:end]` for each seed, shape (seeds, n); the data are read once."""
    found = np.empty((len(seeds), len(starts)), np.uint64)
    _spans.hashes_by_seed(data, _as_positions(starts), _as_positions(ends), np.array(seeds, np.uint64), found)
    return found


def frame(data: Any, offsets: Positions) -> None:
    """Write the lengths and checksums of TFRecords around payloads that are already in `data`.

    `offsets` are the start of each record and the end of the last. A record is 12 arbitrary bytes, a payload and 4
    arbitrary bytes.
    """
    _spans.frame(data, _as_positions(offsets))


def are_whole(data: NDArray[np.uint8], starts: Positions, ends: Positions) -> NDArray[np.bool_]:
    """Return True for each TFRecord data[start:end] whose payload has the checksum that follows it, shape (n,)."""
    payload_ends = ends - _FOOTER_BYTES
    found = checksums(data, starts + _HEADER_BYTES, payload_ends)
    stored = gather(data, payload_ends, np.full(len(ends), _FOOTER_BYTES, np.int64))[0].view("<u4")
    return mask_crcs(found) == stored


def copy(data: Any, starts: Positions, sizes: Positions, target: Any, places: Positions) -> None:
    """Copy `sizes` bytes each from `starts` in `data` to `places` in `target`, a writable buffer, and no other byte."""
    _spans.copy(data, _as_positions(starts), _as_positions(sizes), target, _as_positions(places))


def find(data: Any, byte: int) -> Positions:
    """Return the positions of `byte` in `data`, ascending, shape (n,)."""
    places = np.empty(count(data, byte), np.int64)
    _spans.find(data, byte, places)
    return places


def chain(data: Any, head: int, at: int, least: int) -> Positions:
    """Return the starts, ascending, of heads that are linked by the sizes of the data between them.

    Each head has `head` bytes, of which the uint32 at `at` is the size of the data between it and the next head, at
    least `least` bytes. The last head's data must end where `data` ends; else it is a ValueError.
    """
    places = np.empty(len(data) // (head + least), np.int64)
    return places[: _spans.chain(data, head, at, places)]


# (bytes of an entry between its size and its feature's, kind: tag of its list, values, offsets, which rows have one).
# Of strings, values are uint8 (bytes,) and offsets int64 (rows + 1,); else values are uint64 or float32 (rows,).
NativeColumn = tuple[bytes, int, NDArray[Any], Positions | None, NDArray[np.bool_] | None]


def size_entries(columns: list[NativeColumn], sizes: Positions) -> None:
    """Set `sizes` to the bytes of each row's entries in an Example. Only compiled.

    Raises:
        ValueError: if a column has another number of rows, or an offset outside its values.
    """
    _spans.size_entries(columns, sizes)


def encode_rows(
    columns: list[NativeColumn], entries: Positions, offsets: Positions, out: Any, headed: bool, framed: bool
) -> None:
    """Write each row's entries into `out` from its offset on, `headed` as an Example, `framed` as a TFRecord.

    Only compiled. `entries` are the sizes that `size_entries` found. `offsets` are the start of each record and the
    end of the last.

    Raises:
        ValueError: as `size_entries`, or if a record would not end where the next one begins.
    """
    _spans.encode_rows(columns, entries, offsets, out, headed, framed)


def gather(data: Any, starts: Positions, sizes: Positions) -> tuple[NDArray[np.uint8], Positions]:
    """Concatenate spans of `data`; return the bytes, and the start of each span with the end of the last, (n + 1,)."""
    offsets = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    out = np.empty(int(offsets[-1]), np.uint8)
    copy(data, starts, sizes, out, offsets[:-1])
    return out, offsets


def _as_positions(values: Positions) -> Positions:
    return np.ascontiguousarray(values, np.int64)


# Read at once: enough to outweigh the calls, few enough for the cache and for memory that is used again
_BLOCK_BYTES = 256 << 10
_HEADER_BYTES, _FOOTER_BYTES = 12, 4  # of a TFRecord
_MOST_RECORDS = 1 << 14  # in a block
_FAULTS = ("", "has a length that fails its checksum", "fails its checksum")


@dataclass(frozen=True, slots=True, eq=False)
class RecordBlock:
    """Consecutive records of a file; iterating over it yields their payloads."""

    data: bytes
    starts: Positions  # of the payloads in `data`
    ends: Positions

    def __len__(self) -> int:
        return len(self.starts)

    def __iter__(self) -> Iterator[bytes]:
        data = self.data
        return (data[start:end] for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True))

    def record(self, row: int) -> bytes:
        """Return one payload."""
        return self.data[self.starts[row] : self.ends[row]]

    def between(self, first: int, end: int) -> "RecordBlock":
        """Return the records from `first` to before `end`."""
        return RecordBlock(self.data, self.starts[first:end], self.ends[first:end])

    def every(self, first: int, step: int) -> "RecordBlock":
        """Return every `step`-th record from `first` on."""
        return self if step == 1 else RecordBlock(self.data, self.starts[first::step], self.ends[first::step])


def read_blocks(
    file: BinaryIO, name: str, block_bytes: int = _BLOCK_BYTES, index: int = 0, offset: int = 0
) -> Iterator[RecordBlock]:
    """Yield the records of an uncompressed TFRecord `file`, some at a time, and verify every checksum.

    Of a part of a file, `index` and `offset` are number and place of its first record.

    Raises:
        CorruptDataError: if a record is cut short or fails its checksum, after all records before it were yielded; the
            message names `name`, record and offset.
    """
    rest = b""
    wanted = block_bytes
    while more := file.read(wanted):
        data = rest + more if rest else more
        position, count = 0, _MOST_RECORDS
        while count == _MOST_RECORDS:
            starts, ends = np.empty(_MOST_RECORDS, np.int64), np.empty(_MOST_RECORDS, np.int64)
            count, position, missing, fault = _spans.split_records(data, position, starts, ends)
            if count:
                yield RecordBlock(data, starts[:count].copy(), ends[:count].copy())
            index += count
        if fault:
            raise CorruptDataError(f"{name}: record {index} at byte {offset + position} {_FAULTS[fault]}")
        offset += position
        rest = data[position:]
        wanted = max(missing, block_bytes)
    if rest:
        cut = f"{name}: record {index} at byte {offset} is cut short"
        if len(rest) < _HEADER_BYTES:
            raise CorruptDataError(f"{cut}: {len(rest)} of {_HEADER_BYTES} header bytes")
        size = int.from_bytes(rest[:8], "little")
        raise CorruptDataError(f"{cut}: {len(rest) - _HEADER_BYTES} of {size + _FOOTER_BYTES} bytes")


def scan_examples(
    data: Any, starts: Positions, ends: Positions, names: list[bytes], tags: bytes, out: Positions, plain: Any
) -> None:
    """Find the values of features, whose `names` are UTF-8, in the serialized Examples data[start:end].

    `tags` has two bytes a feature: the tag of its list in `message Feature`, and 1 if the list holds one bytes value.
    `out`, int64 (records, features, 3), gets start and end of the packed numbers, of the one bytes value or of the
    entries of several, and the number of values; -1 if the record does not have the feature. `plain`, uint8 (records,),
    gets 1 if the record is an Example of no other features, each at most once and encoded as shardmill and protobuf
    encode it; otherwise 0, and its places mean nothing.
    """
    _spans.scan_examples(data, _as_positions(starts), _as_positions(ends), names, tags, out, plain)


def read_examples(
    files: Positions,
    starts: Positions,
    stops: Positions,
    names: list[bytes],
    tags: bytes,
    columns: list[Any],
    rest: list[bytes | None],
) -> int:
    """Read the framed records files[start:stop]; return how many precede the first that lacks or fails a checksum.

    `files` are descriptors; `names` and `tags` are those of `scan_examples`. `columns` has for each feature None, or
    where its values go: a list for one bytes value, an array of int64 or float32 (records, …) for numbers. `rest` gets
    the payloads of records that are unusual or lack a value. Their rows in `columns` mean nothing.
    """
    return _spans.read_examples(
        _as_positions(files), _as_positions(starts), _as_positions(stops), names, tags, columns, rest
    )


def take_examples(
    data: Any,
    starts: Positions,
    ends: Positions,
    names: list[bytes],
    tags: bytes,
    columns: list[Any],
    rest: list[bytes | None],
) -> None:
    """Copy values of features out of the serialized Examples data[start:end].

    The other arguments are those of `read_examples`.
    """
    _spans.take_examples(data, _as_positions(starts), _as_positions(ends), names, tags, columns, rest)
