"""Shards against their manifest, before anything is read from them: there, and as long as they were written; or every
byte."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import google_crc32c

from shardmill.errors import CorruptDataError
from shardmill.metadata.manifest import ShardEntry
from shardmill.reading.dataset import Dataset

_THREADS = 32  # an object store answers a request in some 50 ms
_BLOCK_BYTES = 8 << 20  # read at once, as in shardmill.tensors.records


def check_sizes(dataset: Dataset, shards: Sequence[ShardEntry]) -> None:
    """Check that each shard is there and has the size that the manifest says.

    A file system whose `Files` has no `size` is not asked.

    Raises:
      CorruptDataError: one is missing, truncated or another; the message names it.
    """
    size: Any = getattr(dataset.files, "size", None)
    if size is None:
        return

    def check(shard: ShardEntry) -> None:
        try:
            found = size(dataset.path(shard))
        except FileNotFoundError:
            raise CorruptDataError(f"{dataset.path(shard)} is missing; the manifest lists it") from None
        if found != shard.size_bytes:
            raise CorruptDataError(
                f"{dataset.path(shard)} has {found:,} bytes; the manifest says {shard.size_bytes:,}: it was cut short"
                " or replaced"
            )

    _for_each(check, shards)


def check_contents(dataset: Dataset, shards: Sequence[ShardEntry]) -> None:
    """Read each shard and check that its bytes are those that the manifest says.

    Raises:
      CorruptDataError: one is not what was written; the message names it, and the record if a record is damaged.
    """
    _for_each(lambda shard: check_content(dataset, shard), shards)


def check_content(dataset: Dataset, shard: ShardEntry, block_bytes: int = _BLOCK_BYTES) -> None:
    """Read a shard, `block_bytes` at a time, and check that its bytes are those that the manifest says.

    Raises:
      CorruptDataError: it is missing or not what was written; the message names it, and the record if a record is
        damaged.
    """
    crc = 0
    try:
        with dataset.files.open(dataset.path(shard)) as file:
            while block := file.read(block_bytes):
                crc = google_crc32c.extend(crc, block)
    except FileNotFoundError:
        raise CorruptDataError(f"{dataset.path(shard)} is missing; the manifest lists it") from None
    if f"{crc:08x}" != shard.crc32c:
        for _ in dataset.records(shard):  # which says more, if it is a record that is damaged
            pass
        raise replaced(shard, crc)


def replaced(shard: ShardEntry, crc: int) -> CorruptDataError:
    """The error that a shard of sound records is not the one that was written."""
    return CorruptDataError(
        f"{shard.file} is not the file that was written: its crc32c is {crc:08x}, the manifest says {shard.crc32c}; "
        "every record in it is sound, so it may be another data set's shard"
    )


def _for_each(check: Callable[[ShardEntry], None], shards: Sequence[ShardEntry]) -> None:
    with ThreadPoolExecutor(min(_THREADS, len(shards)) or 1, "shardmill-check") as pool:
        for _ in pool.map(check, shards):
            pass
