"""Shard file formats: TFRecord, plain or gzipped."""

import gzip
import zlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO, ClassVar, Protocol, TypeVar, cast

from shardmill.errors import CorruptDataError


class ShardEncoder(Protocol):
    """Encoder of one shard's records, in order, to the bytes of its file."""

    def add(self, framed: bytes) -> bytes:
        """Return the file's next bytes for complete records that are framed as in shardmill.data.tfrecord, as in
        runs.
        """

    def end(self) -> bytes:
        """Return the bytes that end the file."""


@dataclass(frozen=True)
class Codec(ABC):
    """A format of shard files.

    Instances are stateless, so two of a class are equal. Every command imports this module, so methods import what they
    need.
    """

    option: ClassVar[str]  # value of --compression
    name: ClassVar[str]  # as in manifest.json
    file_format: ClassVar[str] = "tfrecord"  # in file names before the shard's number, and in TFDS
    suffix: ClassVar[str] = ""  # in file names after the shard's number
    keeps_offsets: ClassVar[bool] = False  # record offsets in the file equal those in the framed records
    is_read_by_tfds: ClassVar[bool] = False  # the dataset gets a dataset_info.json

    @abstractmethod
    def encoder(self) -> ShardEncoder:
        """Return an encoder of one shard. The same records give the same bytes, however they are divided among
        calls.
        """

    @abstractmethod
    def read_records(self, file: BinaryIO, name: str) -> Iterator[bytes]:
        """Yield the serialized examples of an open shard and verify every checksum.

        Raises:
            CorruptDataError: if a record cannot be read, after all records before it were yielded; the message begins
                with `name` and a colon.
        """

    @abstractmethod
    def read_blocks(self, file: BinaryIO, name: str) -> Iterator[list[bytes]]:
        """Yield what `read_records` yields, some records at a time and several times as fast; raise the same errors."""

    @abstractmethod
    def tensors(self, paths: Any, buffer_bytes: int) -> Any:
        """Return a tf.data.Dataset of the serialized examples of the shards at `paths`, a string tensor or a dataset of
        strings.
        """

    @abstractmethod
    def reading_code_lines(self, pattern: str) -> list[str]:
        """Return lines of Python that read the shards matching `pattern` without shardmill or TFDS."""


class _PassThroughEncoder:
    """Pass framed records through unchanged."""

    def add(self, framed: bytes) -> bytes:
        return framed

    def end(self) -> bytes:
        return b""


@dataclass(frozen=True)
class TFRecords(Codec):
    """Uncompressed TFRecord files: framed records, one after another."""

    option = "none"
    name = ""
    keeps_offsets = True
    is_read_by_tfds = True
    compression_type: ClassVar[str] = ""  # TensorFlow's name of the compression

    def encoder(self) -> ShardEncoder:
        return _PassThroughEncoder()

    def read_records(self, file: BinaryIO, name: str) -> Iterator[bytes]:
        from shardmill.data.tfrecord import read_records

        return read_records(file, name)

    def read_blocks(self, file: BinaryIO, name: str) -> Iterator[list[bytes]]:
        from shardmill.data.spans import read_blocks

        return read_blocks(file, name)

    def tensors(self, paths: Any, buffer_bytes: int) -> Any:
        from shardmill.installed import tf

        return tf.data.TFRecordDataset(paths, self.compression_type, buffer_bytes)

    def reading_code_lines(self, pattern: str) -> list[str]:
        how = f", compression_type={self.compression_type!r}" if self.compression_type else ""
        return [
            "import tensorflow as tf",
            f"files = tf.data.Dataset.list_files({pattern!r})",
            f"examples = tf.data.TFRecordDataset(files{how})",
        ]


_LEVEL = 6  # zlib's own default
_GZIP_FRAMING = 31  # zlib's wbits: a window of 2**15 bytes, and 16 for gzip's header, which zlib writes without a time
T = TypeVar("T")


class _GzipEncoder:
    """Compress with zlib; the bytes do not depend on how the input is divided."""

    def __init__(self) -> None:
        self._zlib = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP_FRAMING)

    def add(self, framed: bytes) -> bytes:
        return self._zlib.compress(framed)

    def end(self) -> bytes:
        return self._zlib.flush()


@dataclass(frozen=True)
class GzippedTFRecords(TFRecords):
    """TFRecord files that are compressed with gzip as a whole."""

    option = "gzip"
    name = "gzip"
    suffix = ".gz"
    keeps_offsets = False
    is_read_by_tfds = False
    compression_type = "GZIP"

    def encoder(self) -> ShardEncoder:
        return _GzipEncoder()

    def read_records(self, file: BinaryIO, name: str) -> Iterator[bytes]:
        return _read_compressed(super().read_records, file, name, lambda _: 1)

    def read_blocks(self, file: BinaryIO, name: str) -> Iterator[list[bytes]]:
        return _read_compressed(super().read_blocks, file, name, len)


def _read_compressed(
    read: Callable[[BinaryIO, str], Iterable[T]], file: BinaryIO, name: str, number: Callable[[T], int]
) -> Iterator[T]:
    """Yield what `read` yields from the compressed `file`; `number` counts the records in each item."""
    count = 0
    try:
        for found in read(cast(BinaryIO, gzip.GzipFile(fileobj=file)), name):
            count += number(found)
            yield found
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise CorruptDataError(f"{name}: the gzip stream is damaged after record {count}: {error}") from error


PLAIN_CODEC = TFRecords()  # what is written unless something else is asked for
_ALL_CODECS: tuple[Codec, ...] = (PLAIN_CODEC, GzippedTFRecords())

CODECS: Mapping[str, Codec] = {codec.name: codec for codec in _ALL_CODECS}  # by the name in manifest.json
CODECS_BY_OPTION: Mapping[str, Codec] = {codec.option: codec for codec in _ALL_CODECS}
