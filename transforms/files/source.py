"""Shards of records that are files: the files of a shard in the order of their keys, some at a time."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from shardmill.transforms.files.encode import FileEncoder
from shardmill.transforms.files.references import sorted_by_key
from shardmill.transforms.workers.memory import budget
from shardmill.transforms.writing.source import EncodedChunk

_CHUNK_BYTES = 1 << 20  # of files encoded at once, about
HELD = 3  # times the size of files: as they were read, as they are stored, and framed


@dataclass(frozen=True)
class FileShards:
    """A shardmill.transforms.writing.source.ShardSource over PLANNED files.

    Attributes:
      encoder: of the files.
      files_per_task: how many files a thread takes at once, at most.
    """

    encoder: FileEncoder
    files_per_task: int = 64

    def plan(self, parts: Iterable[pa.RecordBatch]) -> tuple[int, Iterable[pa.RecordBatch]]:
        """The number of files, and batches of them."""
        batch = self.encoder.prepare(sorted_by_key(parts))
        return len(batch), chunks(batch, self.files_per_task)

    def encode(self, task: pa.RecordBatch) -> EncodedChunk:
        """The records of some files."""
        with budget().take(HELD * sum(task["size"].to_pylist())):
            return self.encoder.encode_batch(task, [None] * len(task))[0]


def chunks(batch: pa.RecordBatch, rows: int) -> Iterator[pa.RecordBatch]:
    """Slices of at most `rows` rows and about a mebibyte, so that what is in flight is bounded in both."""
    start = size = 0
    for row, row_size in enumerate(batch["size"].to_pylist()):
        if row > start and (row - start == rows or size + row_size > _CHUNK_BYTES):
            yield batch.slice(start, row - start)
            start, size = row, 0
        size += row_size
    if start < len(batch):
        yield batch.slice(start)
