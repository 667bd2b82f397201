"""Shard file formats: TFRecord, plain or gzipped, and ArrayRecord."""

import gzip
import io
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Protocol, cast

from shardmill.errors import CorruptDataError

if TYPE_CHECKING:
    from shardmill.data.spans import RecordBlock


class ShardEncoder(Protocol):
    """Encoder of one shard's records, in order, to the bytes of its file; zlib's compressors are some."""

    def compress(self, framed: bytes, /) -> bytes:
        """Return the file's next bytes for complete records, framed as in shardmill.data.tfrecord."""

    def flush(self) -> bytes:
        """Return the bytes that end the file."""


class _PassThroughEncoder:
    def compress(self, framed: bytes, /) -> bytes:
        return framed

    def flush(self) -> bytes:
        return b""


@dataclass(frozen=True)
class Codec:
    """A format of shard files. This base class is uncompressed TFRecord: framed records, one after another.

    Instances are stateless, so two of a class are equal. Every command imports this module, so methods import what they
    need.
    """

    option: ClassVar[str] = "none"  # value of --compression
    name: ClassVar[str] = ""  # `compression` in manifest.json
    file_format: ClassVar[str] = "tfrecord"  # in file names before the shard's number, in manifest.json and in TFDS
    suffix: ClassVar[str] = ""  # in file names after the shard's number
    keeps_offsets: ClassVar[bool] = True  # record offsets in the file equal those in the framed records
    is_read_by_tfds: ClassVar[bool] = True  # the dataset gets a dataset_info.json
    has_index: ClassVar[bool] = False  # each shard finds a record by its number
    is_read_by_tensorflow: ClassVar[bool] = True  # `tensors` reads the shards
    compression_type: ClassVar[str] = ""  # TensorFlow's name of the compression
    library: ClassVar[str] = ""  # that writes the shards, and whose release can change their bytes

    def encoder(self) -> ShardEncoder:
        """Return an encoder of one shard; how records are divided among its calls does not change the bytes."""
        return _PassThroughEncoder()

    def read_records(self, file: BinaryIO, name: str) -> Iterator[bytes]:
        """Yield the serialized examples of an open shard, as `read_blocks` does."""
        return chain.from_iterable(self.read_blocks(file, name))

    def read_blocks(self, file: BinaryIO, name: str, record: int = 0, offset: int = 0) -> Iterator["RecordBlock"]:
        """Yield the serialized examples of an open shard, some at a time, and verify every checksum.

        Errors number the records from `record` on, which begins at byte `offset`, where the file is read from. Both are
        0 unless the codec keeps offsets.

        Raises:
            CorruptDataError: if a record cannot be read, after all records before it were yielded; the message begins
                with `name` and a colon.
        """
        from shardmill.data.spans import read_blocks

        return read_blocks(file, name, index=record, offset=offset)

    def tensors(self, paths: Any, buffer_bytes: int, offset: Any = None) -> Any:
        """Return a tf.data.Dataset of the serialized examples of the shards at `paths`, a string tensor or dataset.

        With an `offset`, an int64 scalar tensor, `paths` is one path, and reading begins with the record at that byte.
        """
        from shardmill.installed import tf

        if offset is None:
            return tf.data.TFRecordDataset(paths, self.compression_type, buffer_bytes)
        records = tf.raw_ops.TFRecordDatasetV2(
            filenames=[paths], compression_type=self.compression_type, buffer_size=buffer_bytes, byte_offsets=[offset]
        )
        return tf.data.experimental.from_variant(records, tf.TensorSpec((), tf.string))

    def reading_code_lines(self, pattern: str) -> list[str]:
        """Return lines of Python that read the shards matching `pattern` without shardmill or TFDS."""
        how = f", compression_type={self.compression_type!r}" if self.compression_type else ""
        return [
            "import tensorflow as tf",
            f"files = tf.data.Dataset.list_files({pattern!r})",
            f"examples = tf.data.TFRecordDataset(files{how})",
        ]


_LEVEL = 6  # zlib's own default
_GZIP_FRAMING = 31  # zlib's wbits: a window of 2**15 bytes, and 16 for gzip's header, which zlib writes without a time


@dataclass(frozen=True)
class GzipCodec(Codec):
    """TFRecord files that are compressed with gzip as a whole."""

    option = "gzip"
    name = "gzip"
    suffix = ".gz"
    keeps_offsets = False
    is_read_by_tfds = False
    compression_type = "GZIP"

    def encoder(self) -> ShardEncoder:
        return zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP_FRAMING)

    def read_blocks(self, file: BinaryIO, name: str, record: int = 0, offset: int = 0) -> Iterator["RecordBlock"]:
        count = 0
        try:
            for block in super().read_blocks(cast(BinaryIO, _GzipFile(file)), name):
                count += len(block)
                yield block
        except _GZIP_ERRORS as error:
            raise CorruptDataError(f"{name}: the gzip stream is damaged after record {count}: {error}") from error


_GZIP_ERRORS = (EOFError, gzip.BadGzipFile, zlib.error)


class _GzipFile:
    """A gzip file whose `read` raises an error only after it returned all bytes before the damage."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = gzip.GzipFile(fileobj=file)
        self._held = b""
        self._error: Exception | None = None

    def read(self, size: int) -> bytes:
        pieces, held = [self._held], len(self._held)
        while held < size and self._error is None:
            try:
                piece = self._file.read1(io.DEFAULT_BUFFER_SIZE)
            except _GZIP_ERRORS as error:
                self._error = error
                break
            if not piece:
                break
            pieces.append(piece)
            held += len(piece)
        data = b"".join(pieces)
        self._held = data[size:]
        if self._error is not None and not data:
            raise self._error
        return data[:size]


@dataclass(frozen=True)
class ArrayRecordCodec(Codec):
    """ArrayRecord files as TFDS writes them: each record is compressed alone."""

    file_format = "array_record"
    keeps_offsets = False
    has_index = True
    is_read_by_tensorflow = False
    library = "array_record"

    def encoder(self) -> ShardEncoder:
        from shardmill.data.array_record import ArrayRecordEncoder

        return ArrayRecordEncoder()

    def read_blocks(self, file: BinaryIO, name: str, record: int = 0, offset: int = 0) -> Iterator["RecordBlock"]:
        from shardmill.data.array_record import read_blocks

        return read_blocks(file, name)

    def tensors(self, paths: Any, buffer_bytes: int, offset: Any = None) -> Any:
        raise NotImplementedError("TensorFlow has no reader of ArrayRecord files")

    def reading_code_lines(self, pattern: str) -> list[str]:
        return [
            "import glob",
            "from array_record.python.array_record_data_source import ArrayRecordDataSource",
            f"examples = ArrayRecordDataSource(sorted(glob.glob({pattern!r})))",
        ]


PLAIN_CODEC = Codec()  # what is written unless something else is asked for
_ALL_CODECS = (PLAIN_CODEC, GzipCodec(), ArrayRecordCodec())

# By file format, and by compression: in manifest.json, and in options
CODECS: Mapping[tuple[str, str], Codec] = {(codec.file_format, codec.name): codec for codec in _ALL_CODECS}
CODECS_BY_OPTION: Mapping[tuple[str, str], Codec] = {(codec.file_format, codec.option): codec for codec in _ALL_CODECS}
