"""Re-read shards and say what is wrong with them: file, checksums, records, features and, if asked, pixels."""

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, cast

import apache_beam as beam
import google_crc32c

from shardmill.codecs.base import Codec
from shardmill.errors import CorruptDataError
from shardmill.features.feature import Feature, Kind
from shardmill.kinds.registry import kind_of
from shardmill.metadata.manifest import Manifest, ShardEntry
from shardmill.metadata.naming import ShardName, is_shard
from shardmill.printable import printable
from shardmill.reading.dataset import Dataset
from shardmill.records.example import FeatureValue, decode_example
from shardmill.transforms.files.images.codec import check_decodes, measure
from shardmill.transforms.files.images.errors import ImageError
from shardmill.transforms.files.images.header import check_structure, read_header
from shardmill.transforms.files.images.limits import MAX_PIXELS
from shardmill.transforms.stores.failures import raise_if_store_failed
from shardmill.transforms.workers.spread import Spread
from shardmill.transforms.workers.threads import map_in_order

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

RECORD_FAULTS_SHOWN = 20  # of a shard; a data set of the wrong kind has one in every record
_READ_BYTES = 1 << 20  # at once


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with one file of a data set: its name in the data set's directory, and what was expected and
    found."""

    file: str
    message: str

    def __str__(self) -> str:
        return printable(f"{self.file}: {self.message}")


@dataclass(eq=False)
class VerifyShards(beam.PTransform):
    """Verify each shard of a PCollection of (split name, ShardEntry); (shard file, its faults) of every one comes out.

    Attributes:
      dataset: the data set they are of.
      decode: whether every image is decoded.
      threads: that decode, in each worker.
    """

    dataset: Dataset
    decode: bool = False
    threads: int = 1

    def expand(self, pcoll: beam.PCollection[tuple[str, ShardEntry]]) -> beam.PCollection[tuple[str, list[Fault]]]:
        """(split name, ShardEntry) -> (shard file, list of Fault)."""
        return (
            pcoll
            | "SpreadShards" >> Spread(_name_of)
            | "VerifyShard" >> beam.ParDo(_VerifyShardFn(self.dataset, self.decode, self.threads))
        )


def _name_of(element: tuple[str, ShardEntry]) -> str:
    return element[1].file


class _VerifyShardFn(beam.DoFn):
    """Holds the thread pool that decodes; the checks that take no decoding hold the interpreter's lock and gain
    nothing."""

    def __init__(self, dataset: Dataset, decode: bool, threads: int) -> None:
        self._dataset, self._decode, self._threads = dataset, decode, threads

    def setup(self) -> None:
        threaded = self._decode and self._threads > 1
        self._pool = ThreadPoolExecutor(self._threads, "shardmill-verify") if threaded else None

    def teardown(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def process(self, element: tuple[str, ShardEntry]) -> Iterator[tuple[str, list[Fault]]]:
        split_name, shard = element
        yield shard.file, verify_shard(self._dataset, split_name, shard, self._decode, self._pool, 2 * self._threads)


def verify_shard(
    dataset: Dataset, split_name: str, shard: ShardEntry, decode: bool, pool: Executor | None = None, window: int = 1
) -> list[Fault]:
    """Re-read one shard, once and as a stream, and compare it with its manifest.

    Args:
      dataset: the data set, opened.
      split_name: the split whose shard it is.
      shard: what the manifest says of it.
      decode: whether every image is decoded.
      pool: where records are checked, or None for this thread.
      window: how many records may be in memory.

    Raises:
      OSError: an object store failed; a runner tries again.
    """
    try:
        messages = _check_shard(
            dataset, split_name, shard, partial(check_example, dataset.manifest, decode), pool, window
        )
    except FileNotFoundError:
        messages = ["is missing"]
    except OSError as error:
        raise_if_store_failed(error, dataset.directory)
        messages = [f"cannot be read: {error.strerror or error}"]
    return [Fault(shard.file, message) for message in messages]


def _check_shard(
    dataset: Dataset,
    split_name: str,
    shard: ShardEntry,
    check: "partial[list[str]]",
    pool: Executor | None,
    window: int,
) -> list[str]:
    codec = dataset.manifest.codec
    name, template = dataset.manifest.name, dataset.manifest.file_template
    if not is_shard(shard.file, template, name, split_name) or not shard.file.endswith(codec.suffix):
        # Not opened: a manifest may have come from anywhere, and its names may lead out of the directory.
        return [
            "is in the manifest, but is not the name of a shard such as "
            f"{ShardName(name, split_name, 0, 1, codec, template)}"
        ]
    with dataset.files.open(dataset.path(shard)) as raw:
        counted = _Checksummed(raw)
        file = cast(BinaryIO, io.BufferedReader(counted, _READ_BYTES))
        records = _Records(codec, file, shard.file)
        found: list[str] = []
        hidden = 0
        for index, messages in enumerate(map_in_order(pool, check, records, window)):
            shown = messages[: RECORD_FAULTS_SHOWN - len(found)]
            found += [f"record {index}: {message}" for message in shown]
            hidden += len(messages) - len(shown)
        while file.read(_READ_BYTES):  # size and checksum are those of the whole file, however early its records ended
            pass
    if hidden:
        found.append(f"and {hidden} more faults in its records")
    return [*_check_file(counted, shard), *found, *_check_end(records, shard)]


def _check_file(found: "_Checksummed", shard: ShardEntry) -> list[str]:
    if found.size_bytes != shard.size_bytes:  # then the checksum differs as a matter of course
        return [f"has {found.size_bytes} bytes; the manifest says {shard.size_bytes}"]
    if f"{found.crc32c:08x}" != shard.crc32c:
        return [f"has crc32c {found.crc32c:08x}; the manifest says {shard.crc32c}"]
    return []


def _check_end(records: "_Records", shard: ShardEntry) -> list[str]:
    if records.fault:
        return [records.fault]
    if records.count != shard.examples:
        return [f"holds {records.count} records; the manifest says {shard.examples}"]
    return []


class _Checksummed(io.RawIOBase):
    """A file whose bytes are counted and checksummed while they are read."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size_bytes = self.crc32c = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: "WriteableBuffer") -> int:
        target = memoryview(buffer)
        data = self._file.read(len(target))
        target[: len(data)] = data
        self.size_bytes += len(data)
        self.crc32c = google_crc32c.extend(self.crc32c, data)
        return len(data)


class _Records:
    """The records of a file up to the first that cannot be read, which ends them as `fault` instead of an exception.

    An exception would overtake the records still being checked in a pool.
    """

    def __init__(self, codec: Codec, file: BinaryIO, name: str) -> None:
        self._codec, self._file, self._name = codec, file, name
        self.count, self.fault = 0, ""

    def __iter__(self) -> Iterator[bytes]:
        try:
            for record in self._codec.records(self._file, self._name):
                self.count += 1
                yield record
        except CorruptDataError as error:
            self.fault = str(error).removeprefix(f"{self._name}: ")


def check_example(manifest: Manifest, decode: bool, record: bytes) -> list[str]:
    """What is wrong with a record, feature by feature; nothing if it is an example as `manifest` describes it."""
    try:
        values = decode_example(record)
    except ValueError as error:
        return [f"does not parse: {error}"]
    features = {feature.name: feature for feature in manifest.features}
    max_pixels = manifest.configuration.get("max_pixels", MAX_PIXELS) if decode else None
    return [
        *(
            message
            for name, feature in features.items()
            for message in _check_feature(feature, values.get(name), max_pixels)
        ),
        *(f"has a feature {name!r} that the manifest does not know" for name in values if name not in features),
    ]


def _check_feature(feature: Feature, values: FeatureValue | None, max_pixels: int | None) -> list[str]:
    faults = kind_of(feature).faults(feature, values)
    check = _CONTENT_CHECKS.get(feature.kind)
    if faults or values is None or check is None or max_pixels is None:
        return faults
    contents = cast(Sequence[bytes], values)
    return [f"feature {feature.name!r}: {message}" for content in contents if (message := check(content, max_pixels))]


def _check_image(image: bytes, max_pixels: int) -> str:
    try:
        _, width, height = measure(image)
        if width * height > max_pixels:  # not decoded: a few bytes can ask for all memory there is
            return f"{width} x {height} pixels are more than the {max_pixels} that the data set was made with"
        check_structure(image, read_header(image))
        check_decodes(image)
    except ImageError as error:
        return str(error)
    return ""


# Of the kinds whose bytes are a file, what is wrong with such a file; "" if nothing is. A kind cannot say it itself:
# what takes images apart is of this package, which shardmill's readers do without.
_CONTENT_CHECKS: Mapping[Kind, Callable[[bytes, int], str]] = {"image": _check_image, "mask": _check_image}
