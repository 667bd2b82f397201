"""What a format of shard files is to those that write, name, publish, verify and read shards."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar, Protocol


class ShardEncoder(Protocol):
    """Turns the records of one shard, in their order, into the bytes of its file."""

    def add(self, framed: bytes) -> bytes:
        """The bytes that follow from whole records, framed as in shardmill.records.tfrecord: so they come from every
        route, and lie in runs."""

    def end(self) -> bytes:
        """The bytes that end the file."""


@dataclass(frozen=True)
class Codec(ABC):
    """A format of shard files. Without state, so that two of a class are equal; imported with every command, so that
    its methods import what they need.

    Attributes:
      option: what --compression calls it.
      name: what manifest.json calls it.
      file_format: what stands before the shard's number in a file's name, and what TFDS calls the format.
      suffix: what stands behind that number.
      keeps_offsets: whether a record lies in the file where it lies among the framed records.
      is_read_by_tfds: whether the data set gets a dataset_info.json.
    """

    option: ClassVar[str]
    name: ClassVar[str]
    file_format: ClassVar[str] = "tfrecord"
    suffix: ClassVar[str] = ""
    keeps_offsets: ClassVar[bool] = False
    is_read_by_tfds: ClassVar[bool] = False

    @abstractmethod
    def encoder(self) -> ShardEncoder:
        """What writes one shard: the same bytes for the same records, however they are divided among calls."""

    @abstractmethod
    def records(self, file: BinaryIO, name: str) -> Iterator[bytes]:
        """The serialized examples of a shard that is open, every checksum verified.

        Raises:
          CorruptDataError: a record cannot be read; the message begins with `name` and a colon. All before it have been
            given.
        """

    @abstractmethod
    def blocks(self, file: BinaryIO, name: str) -> Iterator[list[bytes]]:
        """What `records` gives, and raises, some records at a time and several times as fast."""

    @abstractmethod
    def tensors(self, paths: Any, buffer_bytes: int) -> Any:
        """The serialized examples of the shards at `paths`, a tensor of strings or a data set of them, as a
        tf.data.Dataset."""

    @abstractmethod
    def reading_lines(self, pattern: str) -> list[str]:
        """Lines of Python that read the shards that match `pattern`, without shardmill and without TFDS."""
