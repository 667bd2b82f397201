"""Records taken out of the shards of an older version: many in one read, each under its checksum."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from shardmill.records import tfrecord
from shardmill.transforms.files.encode import Remembered
from shardmill.transforms.files.former import Former
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.failures import raise_if_store_failed

_GAP_BYTES = 256 << 10  # between two records: to read that much costs less than to ask again
_TASK_BYTES = 2 << 20  # of records read by one task, about

Task = tuple[pa.RecordBatch, pa.RecordBatch]


@dataclass(slots=True)
class _Read:
    """One range of a shard, and the rows whose records lie in it: (row, offset in the shard, length)."""

    shard: int
    start: int
    stop: int
    rows: list[tuple[int, int, int]]

    def takes(self, shard: int, offset: int) -> bool:
        """Whether a record that begins at `offset` is near enough behind."""
        return shard == self.shard and 0 <= offset - self.stop <= _GAP_BYTES


def tasks(batch: pa.RecordBatch, stored: pa.RecordBatch, reads: int) -> Iterator[Task]:
    """The files of a shard, some consecutive ones at a time, with their STORED rows.

    Each part takes at most `reads` reads, of a file or of a range of records, and about two mebibytes, so that what is
    in flight is bounded in both.
    """
    start = asked = size = 0
    last: _Read | None = None
    columns = (stored["shard"], stored["offset"], stored["length"], stored["reason"], batch["size"])
    for row, (shard, offset, length, reason, planned) in enumerate(
        zip(*(column.to_pylist() for column in columns), strict=True)
    ):
        more = _size(shard, length, reason, planned)
        asks = _asks(last, shard, offset, reason)
        if row > start and (asked + asks > reads or size + more > _TASK_BYTES):
            yield batch.slice(start, row - start), stored.slice(start, row - start)
            start, asked, size, last = row, 0, 0, None
            asks = _asks(last, shard, offset, reason)
        if shard is not None and reason is None:
            last = _Read(shard, offset, offset + length, [])
        asked += asks
        size += more
    if start < len(batch):
        yield batch.slice(start), stored.slice(start)


def size_bytes(task: Task) -> int:
    """Return the bytes of the files and records that are read for `task`."""
    batch, stored = task
    columns = (stored["shard"], stored["length"], stored["reason"], batch["size"])
    return sum(map(_size, *(column.to_pylist() for column in columns)))


def _size(shard: int | None, length: int, reason: str | None, planned: int) -> int:
    """Return the bytes that are read for one file: its own, those of its record, or none of a known reject."""
    if shard is None:
        return planned
    return length if reason is None else 0


def _asks(last: _Read | None, shard: int | None, offset: int, reason: str | None) -> int:
    """How many reads a row takes beside those before it."""
    if shard is not None and reason is not None:
        return 0
    return 0 if shard is not None and last is not None and last.takes(shard, offset) else 1


def take(former: Former, stored: pa.RecordBatch) -> tuple[list[Remembered | None], int]:
    """What is known of each file of STORED rows, None of one that has to be read; and how many of those should have
    been known, but their records are gone, or fail their checksums.

    Raises:
      OSError: a store failed; a runner tries again.
    """
    known: list[Remembered | None] = [None] * len(stored)
    values = list(zip(*(stored[name].to_pylist() for name in ("value_offset", "value_length", "seen")), strict=True))
    for row, reason in enumerate(stored["reason"].to_pylist()):
        if reason is not None:
            known[row] = Remembered(reason=reason)
    damaged = 0
    for read in _reads(stored):
        data = _read(former.shard(read.shard), read.start, read.stop - read.start)
        for row, offset, length in read.rows:
            record = data[offset - read.start : offset - read.start + length]
            start, size, seen = values[row]
            if len(record) == length and tfrecord.is_whole(record) and start + size <= length:
                known[row] = Remembered(record[start : start + size], seen, record=record)
            else:
                damaged += 1
    return known, damaged


def _reads(stored: pa.RecordBatch) -> Sequence[_Read]:
    reads: list[_Read] = []
    columns = (stored[name].to_pylist() for name in ("shard", "offset", "length"))
    for row, (shard, offset, length) in enumerate(zip(*columns, strict=True)):
        if shard is None or offset is None:
            continue
        if not reads or not reads[-1].takes(shard, offset):
            reads.append(_Read(shard, offset, offset, []))
        reads[-1].rows.append((row, offset, length))
        reads[-1].stop = offset + length
    return reads


def _read(path: str, offset: int, length: int) -> bytes:
    """The bytes of a range; none where it cannot be read: its files are read instead."""
    try:
        return storage.read_range(path, offset, length)
    except (FileNotFoundError, EOFError):
        return b""
    except OSError as error:
        raise_if_store_failed(error, path)
        return b""
