"""Where the records of a shard come from: what shardmill.transforms.writing.shards asks of each route."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import pyarrow as pa

from shardmill.metadata.rejects import Reject
from shardmill.transforms.contents.looks import Looks
from shardmill.transforms.contents.of_files import FileContents
from shardmill.transforms.statistics.files import SplitStats


@dataclass(slots=True)
class EncodedChunk:
    """Some consecutive records of a shard: their framed bytes, how many there are, and what was left out.

    Attributes:
      remembered: for the next build, rows of transforms.writing.remembered.REMEMBERED, offsets from the first record.
      reused: files whose records, or rejects, came from an older version.
      contents: what the files hold, where that is gathered as shards are written.
      looks: how pictures look, where anybody asked.
      columns: what a manifest says of the files, where it says anything.
      made_of: records of the input that are in the examples; None where that is one each.
      noted: what is counted for what the user is told, where `made_of` is not None.
      damaged: files whose records should have come from there, but were not whole.
    """

    framed: Any  # a bytes-like object
    examples: int
    rejects: list[Reject] = field(default_factory=list)
    stats: SplitStats | None = None  # where they are gathered as shards are written
    remembered: pa.RecordBatch | None = None
    reused: int = 0
    damaged: int = 0
    made_of: int | None = None
    noted: Counter[str] = field(default_factory=Counter)
    contents: FileContents | None = None
    looks: Looks | None = None
    columns: pa.RecordBatch | None = None


class ShardSource(Protocol):
    """Turns what was planned of a shard into tasks, and each task, in any thread, into framed records."""

    def plan(self, parts: Iterable[pa.RecordBatch]) -> tuple[int, Iterable[Any]]:
        """The number of records planned, and the tasks in the order of their records."""

    def encode(self, task: Any) -> EncodedChunk:
        """The records of one task."""
