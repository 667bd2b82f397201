"""Observations of images: texts that an add-on computes as images are encoded, and searches before publication."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from shardmill.quality.stats_file import StatsSection
from shardmill.transforms.stores import storage

SCHEMA = pa.schema(
    {
        "text": pa.string(),  # observed of the image
        "digest": pa.binary(),  # of its content, made by `digest_content`
        "name": pa.string(),  # of its file
        "line": pa.int64(),  # of a manifest that names the file, or null
        "offset": pa.int64(),  # of its framed record in the shard
        "length": pa.int64(),
    }
)


@dataclass(frozen=True, slots=True)
class ObservedShard:
    """The file with the observations of a shard's images."""

    split: str
    shard: str  # name of the shard
    path: str

    @classmethod
    def write(cls, parts: Sequence[tuple[int, pa.RecordBatch]], path: str, split: str, shard: str) -> "ObservedShard":
        """Write the batches of a shard to `path`, a new file; each begins at a byte of the shard."""
        place, sink = SCHEMA.get_field_index("offset"), pa.BufferOutputStream()
        batches = [part.set_column(place, SCHEMA.field(place), pc.add(part["offset"], start)) for start, part in parts]
        pq.write_table(pa.Table.from_batches(batches, SCHEMA), sink, compression="zstd")
        storage.write_parts(path, [sink.getvalue()])
        return cls(split, shard, path)

    def read(self, columns: Sequence[str]) -> pa.Table:
        """Return columns of the observations, in the order of records."""
        return pq.read_table(pa.BufferReader(storage.read_bytes(self.path)), columns=columns)


class ImageObserver(ABC):
    """Something that an add-on looks for in images; it travels to workers inside the encoder."""

    key: str  # of its section of stats.json

    @property
    @abstractmethod
    def version(self) -> str:
        """Versions of the libraries that observe; a text of other versions is not taken over from an older build."""

    @abstractmethod
    def observe(self, image: bytes) -> str:
        """Return the text that is observed of an encoded image, without blanks."""

    @abstractmethod
    def search(self, shards: Iterable[ObservedShard]) -> StatsSection:
        """Return the result of the search in the observations of all shards."""
