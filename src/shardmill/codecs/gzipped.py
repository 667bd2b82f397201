"""TFRecord files that gzip compressed as a whole, as TFX writes them; TFDS does not read them."""

import gzip
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO, TypeVar, cast

from shardmill.codecs.base import ShardEncoder
from shardmill.codecs.tfrecords import TFRecords
from shardmill.errors import CorruptDataError

_LEVEL = 6  # zlib's own default
_GZIP_FRAMING = 31  # zlib's wbits: a window of 2**15 bytes, and 16 for gzip's header, which zlib writes without a time
T = TypeVar("T")


class _Compressing:
    """zlib's compressor, which gives the same bytes however its input is divided."""

    def __init__(self) -> None:
        self._zlib = zlib.compressobj(_LEVEL, zlib.DEFLATED, _GZIP_FRAMING)

    def add(self, framed: bytes) -> bytes:
        return self._zlib.compress(framed)

    def end(self) -> bytes:
        return self._zlib.flush()


@dataclass(frozen=True)
class GzippedTFRecords(TFRecords):
    """The bytes of TFRecords, compressed."""

    option = "gzip"
    name = "gzip"
    suffix = ".gz"
    keeps_offsets = False
    is_read_by_tfds = False
    compression_type = "GZIP"

    def encoder(self) -> ShardEncoder:
        """As the base says."""
        return _Compressing()

    def records(self, file: BinaryIO, name: str) -> Iterator[bytes]:
        """As the base says."""
        return _uncompressed(super().records, file, name, lambda _: 1)

    def blocks(self, file: BinaryIO, name: str) -> Iterator[list[bytes]]:
        """As the base says."""
        return _uncompressed(super().blocks, file, name, len)


def _uncompressed(
    read: Callable[[BinaryIO, str], Iterable[T]], file: BinaryIO, name: str, number: Callable[[T], int]
) -> Iterator[T]:
    """What `read` finds in the compressed `file`; `number` says how many records are in what it gives at once."""
    count = 0
    try:
        for found in read(cast(BinaryIO, gzip.GzipFile(fileobj=file)), name):
            count += number(found)
            yield found
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise CorruptDataError(f"{name}: the gzip stream is damaged after record {count}: {error}") from error
