"""TFRecord files, as TensorFlow and TFDS read them."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar

from shardmill.codecs.base import Codec, ShardEncoder


class _AsTheyAre:
    """Records that are framed already."""

    def add(self, framed: bytes) -> bytes:
        return framed

    def end(self) -> bytes:
        return b""


@dataclass(frozen=True)
class TFRecords(Codec):
    """Framed records one behind the other.

    Attributes:
      compression_type: what TensorFlow calls the compression of the file.
    """

    option = "none"
    name = ""
    keeps_offsets = True
    is_read_by_tfds = True
    compression_type: ClassVar[str] = ""

    def encoder(self) -> ShardEncoder:
        """Nothing is done to framed records."""
        return _AsTheyAre()

    def records(self, file: BinaryIO, name: str) -> Iterator[bytes]:
        """As the base says."""
        from shardmill.records.tfrecord import read_records

        return read_records(file, name)

    def blocks(self, file: BinaryIO, name: str) -> Iterator[list[bytes]]:
        """As the base says."""
        from shardmill.records.blocks import read_blocks

        return read_blocks(file, name)

    def tensors(self, paths: Any, buffer_bytes: int) -> Any:
        """As the base says."""
        from shardmill.installation.lazy_tensorflow import tf

        return tf.data.TFRecordDataset(paths, self.compression_type, buffer_bytes)

    def reading_lines(self, pattern: str) -> list[str]:
        """By tf.data."""
        how = f", compression_type={self.compression_type!r}" if self.compression_type else ""
        return [
            "import tensorflow as tf",
            f"files = tf.data.Dataset.list_files({pattern!r})",
            f"examples = tf.data.TFRecordDataset(files{how})",
        ]
