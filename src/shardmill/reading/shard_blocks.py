"""The examples of a shard, some at a time, and whether it is the shard that was written."""

from collections.abc import Iterator
from typing import BinaryIO, cast

import google_crc32c

from shardmill.errors import CorruptDataError
from shardmill.metadata.manifest import ShardEntry
from shardmill.reading.dataset import Dataset
from shardmill.reading.shard_checks import replaced


def read_shard(dataset: Dataset, shard: ShardEntry) -> Iterator[list[bytes]]:
    """The serialized examples of a shard, some at a time; every checksum is verified, and the file's at the end.

    Raises:
      CorruptDataError: the shard is missing or not what was written; the message names it and the record.
    """
    try:
        raw = _Summed(dataset.files.open(dataset.path(shard)))
    except FileNotFoundError as error:
        raise CorruptDataError(f"{shard.file} is missing") from error
    count = 0
    with raw.file:
        for records in dataset.manifest.codec.blocks(cast(BinaryIO, raw), shard.file):
            count += len(records)
            yield records
    if count != shard.examples:
        raise CorruptDataError(f"{shard.file} holds {count} records; the manifest says {shard.examples}")
    if f"{raw.crc:08x}" != shard.crc32c:
        raise replaced(shard, raw.crc)


class _Summed:
    """A file being read, and the crc32c of what has been read of it."""

    def __init__(self, file: BinaryIO) -> None:
        self.file, self.crc = file, 0

    def read(self, size: int = -1) -> bytes:
        data = self.file.read(size)
        self.crc = google_crc32c.extend(self.crc, data)
        return data
