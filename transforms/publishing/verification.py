"""Verify a published version: re-read its shards and its metadata files."""

import fnmatch
import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO, NamedTuple, cast

import apache_beam as beam
import numpy as np
from google.protobuf import text_format
from google.protobuf.message import DecodeError
from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2

from shardmill.data import spans
from shardmill.data.codecs import Codec
from shardmill.data.example import FeatureValue, decode_example
from shardmill.data.example_columns import ExampleScanner, ScannedBlock
from shardmill.data.features import Feature, features_of_kind, translated_features
from shardmill.data.kinds import kind_of
from shardmill.data.shard_index import REMEDY, IndexedShard, ShardIndex, bounds_count, bounds_header, parse_index_json
from shardmill.data.spans import Positions, RecordBlock
from shardmill.data.tfrecord import OVERHEAD
from shardmill.errors import CorruptDataError, describe_damage
from shardmill.filesystem import ChecksummedFile
from shardmill.metadata import file_names, schema, tfds_metadata
from shardmill.metadata.file_names import ShardName, is_shard
from shardmill.metadata.manifest import Manifest, ShardEntry, crc32c_hex
from shardmill.metadata.schema import merge_requests, schema_requests
from shardmill.quality.stats_file import StatsFile
from shardmill.reading.dataset import Dataset
from shardmill.reading.plain_examples import ExampleDecoder
from shardmill.text import to_printable
from shardmill.transforms.execution.running import ThreadedFlatMap, Threads, find_reporter, map_in_order
from shardmill.transforms.files.image_codec import check_decodes, measure_image
from shardmill.transforms.files.image_geometry import ImageError
from shardmill.transforms.files.image_headers import check_structure, read_header
from shardmill.transforms.options.image_options import MAX_PIXELS
from shardmill.transforms.publishing.build_records import STAGED_INPUTS, STAGED_RECORD
from shardmill.transforms.publishing.catalog import is_failed_folder
from shardmill.transforms.publishing.shard_indexes import LIST_PATH, bounds_path, text_path
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.storage import raise_if_store_failed
from shardmill.transforms.workers.elements import Spread

MAX_RECORD_FAULTS = 20  # of a shard; a data set of the wrong kind has one in every record
_READ_BYTES = 1 << 20  # at once
_PIXELS = ("image", "mask")  # kinds whose values `decode` decodes


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault of one file of a data set: the file's name in the directory, and what was expected and found."""

    file: str
    message: str

    def __str__(self) -> str:
        return to_printable(f"{self.file}: {self.message}")


@dataclass(eq=False)
class VerifyShards(beam.PTransform):
    """Verify shards: (split name, ShardEntry) -> (shard file, list of Fault)."""

    dataset: Dataset  # the data set of the shards
    decode: bool = False  # decode every image
    index: Mapping[str, IndexedShard] = field(default_factory=dict)  # by shard; empty without an index
    threads: int = 0  # shards verified at a time, and threads that check records, per worker; 0 for one per core
    progress_folder: str | None = None  # of a launcher on the same machine

    def expand(self, pcoll: beam.PCollection[tuple[str, ShardEntry]]) -> beam.PCollection[tuple[str, list[Fault]]]:
        verify = _VerifyShardFn(self.dataset, self.decode, dict(self.index), self.threads, self.progress_folder)
        return pcoll | "SpreadShards" >> Spread(lambda element: element[1].file) | "VerifyShard" >> beam.ParDo(verify)


class _VerifyShardFn(ThreadedFlatMap):
    """Reads and checks several shards at a time; shared threads check their blocks of records."""

    def __init__(
        self,
        dataset: Dataset,
        decode: bool,
        index: Mapping[str, IndexedShard],
        threads: int,
        progress_folder: str | None,
    ) -> None:
        super().__init__(self._verify, Threads(threads))
        self._dataset, self._decode, self._index, self._progress_folder = dataset, decode, index, progress_folder

    def setup(self) -> None:
        super().setup()
        self._checkers = ThreadPoolExecutor(self._threads, "shardmill-verify") if self._threads > 1 else None

    def teardown(self) -> None:
        super().teardown()
        if self._checkers is not None:
            self._checkers.shutdown(cancel_futures=True)

    def _verify(self, element: tuple[str, ShardEntry]) -> list[tuple[str, list[Fault]]]:
        split_name, shard = element
        reporter = find_reporter(self._progress_folder) if self._progress_folder else None
        report, index = None if reporter is None else reporter.add, self._index.get(shard.file)
        faults = verify_shard(self._dataset, split_name, shard, self._decode, self._checkers, report, index)
        if reporter is not None:
            reporter.flush()
        return [(shard.file, faults)]


def verify_shard(
    dataset: Dataset,
    split_name: str,
    shard: ShardEntry,
    decode: bool,
    pool: Executor | None = None,
    report: Callable[[int, int], None] | None = None,
    index: IndexedShard | None = None,
) -> list[Fault]:
    """Read one shard once, as a stream, and compare it with its entry in the manifest, and with its index; raise
    OSError if an object store fails, so that a runner tries again.

    Args:
        decode: decode every image.
        pool: executor that checks blocks of records, or None for this thread.
        report: called with the number of records and bytes of each block that was checked.
        index: the shard in the list of the index; None without an index.
    """
    try:
        check = _BlockChecker(dataset.manifest, decode)
        messages = _check_shard(dataset, split_name, shard, check, pool, report, index)
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
    check: "_BlockChecker",
    pool: Executor | None,
    report: Callable[[int, int], None] | None,
    index: IndexedShard | None,
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
        counted = ChecksummedFile(raw)
        file = cast(BinaryIO, io.BufferedReader(counted, _READ_BYTES))
        blocks = _ReadableBlocks(codec, file, shard.file, index is not None)
        found: list[str] = []
        hidden = first = 0
        for checked in map_in_order(pool, check, blocks, 2):
            for row, messages in checked.faults:
                shown = messages[: MAX_RECORD_FAULTS - len(found)]
                found += [f"record {first + row}: {message}" for message in shown]
                hidden += len(messages) - len(shown)
            first += checked.records
            if report is not None:
                report(checked.records, checked.size_bytes)
        while file.read(_READ_BYTES):  # size and checksum are those of the whole file, however early its records ended
            pass
    if hidden:
        found.append(f"and {hidden} more faults in its records")
    if counted.size_bytes != shard.size_bytes:  # then the checksum differs as a matter of course
        found.insert(0, f"has {counted.size_bytes} bytes; the manifest says {shard.size_bytes}")
    elif f"{counted.crc32c:08x}" != shard.crc32c:
        found.insert(0, f"has crc32c {counted.crc32c:08x}; the manifest says {shard.crc32c}")
    if blocks.fault:
        found.append(blocks.fault)
    elif first != shard.examples:
        found.append(f"holds {first} records; the manifest says {shard.examples}")
    elif index is not None:
        found += _check_index(dataset, split_name, shard, index, blocks.index())
    return found


def _check_index(
    dataset: Dataset, split_name: str, shard: ShardEntry, listed: IndexedShard, expected: ShardIndex
) -> list[str]:
    found = []
    if listed.bounds_crc32c != f"{expected.crc32c:08x}":
        found.append(f"its positions in {bounds_path(split_name)} are not those of its records; {REMEDY}")
    name = text_path(shard.file)
    try:
        if storage.read_bytes(storage.join(dataset.directory, name)) != expected.to_text():
            found.append(f"{name} does not list the positions of its records; {REMEDY}")
    except FileNotFoundError:
        found.append(f"{name} is missing; {REMEDY}")
    return found


class _ReadableBlocks:
    """The blocks of records of a file up to the first unreadable one, which is stored as `fault` instead of raised.

    An exception would overtake the blocks still being checked in a pool.
    """

    def __init__(self, codec: Codec, file: BinaryIO, name: str, has_index: bool) -> None:
        self._codec, self._file, self._name, self._has_index = codec, file, name, has_index
        self._sizes: list[Positions] = [np.zeros(1, np.int64)]
        self.fault = ""

    def __iter__(self) -> Iterator[RecordBlock]:
        try:
            for block in self._codec.read_blocks(self._file, self._name):
                if self._has_index:
                    self._sizes.append(block.ends - block.starts + OVERHEAD)
                yield block
        except CorruptDataError as error:
            self.fault = str(error).removeprefix(f"{self._name}: ")

    def index(self) -> ShardIndex:
        """Return the index of the records that were read."""
        return ShardIndex(np.cumsum(np.concatenate(self._sizes)))


class _CheckedBlock(NamedTuple):
    records: int
    size_bytes: int
    faults: list[tuple[int, list[str]]]  # row in the block, and messages as from `check_example`


class _BlockChecker:
    """Finds the faults of all records of a block: by columns, and by `check_example` in records that have some."""

    def __init__(self, manifest: Manifest, decode: bool) -> None:
        self._manifest = manifest
        self._scanner = ExampleScanner(manifest.features)
        self._decoder = ExampleDecoder(manifest.features)
        self._columns = [
            (column, feature) for column, feature in enumerate(manifest.features) if kind_of(feature).checks_values
        ]
        # Decoding takes so long that columns would save nothing
        self._decode = decode and any(feature.kind in _PIXELS for feature in manifest.features)

    def __call__(self, block: RecordBlock) -> _CheckedBlock:
        checked = (
            (row, check_example(self._manifest, self._decode, block.record(row))) for row in self._suspects(block)
        )
        faults = [(row, messages) for row, messages in checked if messages]
        return _CheckedBlock(len(block), int((block.ends - block.starts).sum()), faults)

    def _suspects(self, block: RecordBlock) -> Iterable[int]:
        if self._manifest.has_raw_records:
            return ()
        if self._decode:
            return range(len(block))
        if not spans.COMPILED:
            return [row for row, record in enumerate(block) if not self._is_sound(record)]
        scanned = self._scanner.scan(block)
        is_suspect = ~scanned.fits
        for column, feature in self._columns:
            rows = np.flatnonzero(scanned.fits & scanned.present[:, column])
            is_suspect[_find_faulty_rows(scanned, column, feature, rows)] = True
        return np.flatnonzero(is_suspect).tolist()

    def _is_sound(self, record: bytes) -> bool:
        """Return True if a record certainly has no fault; ten times as fast as `check_example` in Python."""
        values = self._decoder.decode_plain(record)
        if values is None:
            try:
                self._decoder(record)  # which learns another order of features
            except ValueError:
                return False
            values = self._decoder.decode_plain(record)
        return values is not None and not any(
            kind_of(feature).find_value_faults(feature, value if isinstance(value, list | np.ndarray) else [value])
            for _, feature in self._columns
            if (value := values.get(feature.name)) is not None and not feature.is_packed  # the decoder checks sizes
        )


def _find_faulty_rows(scanned: ScannedBlock, column: int, feature: Feature, rows: Positions) -> list[int]:
    if not len(rows) or not kind_of(feature).find_value_faults(feature, scanned.values(column, rows)):
        return []
    if len(rows) == 1:
        return [int(rows[0])]
    halves = np.array_split(rows, 2)
    return [row for half in halves for row in _find_faulty_rows(scanned, column, feature, half)]


def check_example(manifest: Manifest, decode: bool, record: bytes) -> list[str]:
    """Return the faults of a record, by feature; none if it is an example as `manifest` describes it."""
    if manifest.has_raw_records:
        return []
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
    faults = kind_of(feature).find_faults(feature, values)
    if faults or values is None or max_pixels is None or feature.kind not in _PIXELS:
        return faults
    # Not checked by the kind itself: readers, which know the kinds, do without the modules that take images apart
    messages = [_check_image(image, max_pixels) for image in cast(Sequence[bytes], values)]
    return [f"feature {feature.name!r}: {message}" for message in messages if message]


def _check_image(image: bytes, max_pixels: int) -> str:
    try:
        _, width, height = measure_image(image)
        if width * height > max_pixels:  # not decoded: a few bytes can ask for all memory there is
            return f"{width} x {height} pixels are more than the {max_pixels} that the data set was made with"
        check_structure(image, read_header(image))
        check_decodes(image)
    except ImageError as error:
        return str(error)
    return ""


_REJECTS_PATH = f"{file_names.REJECTS_DIR}/{file_names.REJECTS_FILE}"
MANY_REJECTS = 10_000  # which are read as they come, not held

_Check = Callable[[bytes, Manifest], Iterable[str]]


def find_dataset_faults(dataset: Dataset) -> list[Fault]:
    """Return the faults of a data set's metadata files, and of missing or unexpected files."""
    manifest = dataset.manifest
    checks = _choose_metadata_checks(manifest)
    names = [name for name in sorted({*checks, *manifest.files}) if not name.startswith(f"{file_names.INDEX_DIR}/")]
    faults = [Fault(name, message) for name in names for message in _check_file_content(dataset, name, checks)]
    faults += _find_index_faults(dataset)
    is_failed = is_failed_folder(dataset.directory)
    if not is_failed and manifest.files and not storage.size(storage.join(dataset.directory, file_names.SUCCESS)):
        faults.append(Fault(file_names.SUCCESS, "is empty; expected the checksum of the manifest"))
    if storage.exists(storage.join(dataset.directory, file_names.PUBLISHING)):
        faults.append(
            Fault(file_names.PUBLISHING, "an earlier run was interrupted while it published; --repair completes it")
        )
    return [*faults, *(fault for fault in find_unlisted_files(dataset) if fault.message)]


def find_unlisted_files(dataset: Dataset) -> Iterator[Fault]:
    """Yield the files that the manifest does not list; the message is "" for those that no reader takes for its own."""
    manifest = dataset.manifest
    listed = {shard.file for split in manifest.splits for shard in split.shards}
    listed |= {*_choose_metadata_checks(manifest), *manifest.files}
    found = sorted(name for name, _ in storage.list_files(dataset.directory))
    if LIST_PATH in found:  # which `shardmill index` wrote after the manifest
        listed |= {LIST_PATH, *(bounds_path(split.name) for split in manifest.splits), *map(text_path, listed)}
    listed |= {file_names.MANIFEST, file_names.SUCCESS, file_names.PUBLISHING, file_names.LOCK}
    if is_failed_folder(dataset.directory):
        listed |= {file_names.FAILED_MARK, file_names.ANOMALIES, STAGED_RECORD, STAGED_INPUTS}
    globs = [
        file_names.shards_glob(manifest.name, split.name, manifest.codec, manifest.file_template)
        for split in manifest.splits
    ]
    for name in found:
        if name in listed or name.startswith(file_names.TEMP_PREFIX):  # which the next run deletes
            continue
        glob = next((glob for glob in globs if fnmatch.fnmatchcase(name, glob)), None)
        message = ""
        if file_names.is_shard(name, manifest.file_template) or file_names.ShardName.parse(name) is not None:
            message = "is a shard that the manifest does not list"
        elif glob is not None:
            message = f"is a file that the manifest does not list, and readers of {glob} read it"
        elif name.startswith(f"{file_names.INDEX_DIR}/"):
            is_complete = LIST_PATH in found
            message = "is no part of the index" if is_complete else f"is of an index that is not complete; {REMEDY}"
        elif file_names.is_dataset_file(name, manifest.name) and not name.endswith(file_names.TEMP_SUFFIX):
            message = "is a file that the manifest does not list"
        yield Fault(name, message)


def read_index_list(dataset: Dataset) -> dict[str, IndexedShard]:
    """Return the shards in the index of a data set by file name; empty if it has none that can be read."""
    try:
        text = storage.read_bytes(storage.join(dataset.directory, LIST_PATH))
        return {shard.file: shard for shards in parse_index_json(text, LIST_PATH).values() for shard in shards}
    except (FileNotFoundError, CorruptDataError):  # which `find_dataset_faults` reports
        return {}


def _find_index_faults(dataset: Dataset) -> Iterator[Fault]:
    """Yield the faults of `index.json` and of the arrays; `verify_shard` compares the positions with the records."""
    expected = dataset.manifest.files.get(LIST_PATH)
    try:
        text = storage.read_bytes(storage.join(dataset.directory, LIST_PATH))
    except FileNotFoundError:
        if expected is not None:
            yield Fault(LIST_PATH, f"is missing; {REMEDY}")
        return
    if expected is not None and (crc32c := crc32c_hex(text)) != expected:
        yield Fault(LIST_PATH, f"has crc32c {crc32c}; the manifest says {expected}; {REMEDY}")
        return
    try:
        splits = parse_index_json(text, LIST_PATH)
    except CorruptDataError as error:
        yield Fault(LIST_PATH, str(error).removeprefix(f"{LIST_PATH} "))
        return
    for split in dataset.manifest.splits:
        entries = [(shard.file, shard.records, shard.size_bytes, shard.crc32c) for shard in splits.get(split.name, ())]
        if entries != [(shard.file, shard.examples, shard.size_bytes, shard.crc32c) for shard in split.shards]:
            yield Fault(LIST_PATH, f"lists other shards of split {split.name!r} than the manifest; {REMEDY}")
        elif entries and (message := _check_bounds(dataset, bounds_path(split.name), splits[split.name])):
            yield Fault(bounds_path(split.name), f"{message}; {REMEDY}")


def _check_bounds(dataset: Dataset, name: str, shards: Sequence[IndexedShard]) -> str:
    """Return what differs between an array of positions and its shards in `index.json`, or ""."""
    header = bounds_header(bounds_count(shards))
    try:
        with storage.open_read(storage.join(dataset.directory, name)) as file:
            if file.read(len(header)) != header:
                return f"is not an array of the positions of {sum(shard.records for shard in shards)} records"
            for shard in shards:
                if crc32c_hex(file.read(8 * (shard.records + 1))) != shard.bounds_crc32c:
                    return f"is damaged at the positions of {shard.file}"
            return "has more positions than its shards have records" if file.read(1) else ""
    except FileNotFoundError:
        return "is missing"


def _choose_metadata_checks(manifest: Manifest) -> dict[str, _Check]:
    checks: dict[str, _Check] = {file_names.SCHEMA: _check_schema, file_names.STATS: _check_stats}
    if not manifest.has_raw_records:
        checks[file_names.FEATURES] = _check_features
    for feature in features_of_kind(manifest.features, "class_label"):
        checks[file_names.labels_file(feature.stem)] = partial(_check_labels, feature)
    if manifest.is_read_by_tfds:
        checks[file_names.DATASET_INFO] = _check_dataset_info
    if manifest.rejects.get("records"):
        checks[_REJECTS_PATH] = _check_rejects
    if file_names.FEATURE_STATS in manifest.files:  # which data sets made before there was it have not
        checks[file_names.FEATURE_STATS] = _check_feature_stats
    return {name: check for name, check in checks.items() if file_names.is_inside(name)}


_MALFORMED = (AttributeError, KeyError, TypeError, ValueError, RecursionError)  # of content that is not as expected


def _check_file_content(dataset: Dataset, name: str, checks: Mapping[str, _Check]) -> list[str]:
    """Return the faults of a metadata file; a wrong checksum is only reported if there is no other fault."""
    try:
        manifest = dataset.manifest
        if name == _REJECTS_PATH and manifest.files and manifest.rejects.get("records", 0) > MANY_REJECTS:
            return _check_lines(dataset, name)
        data = storage.read_bytes(storage.join(dataset.directory, name))
        found = list(checks[name](data, manifest)) if name in checks else []
        crc32c = crc32c_hex(data)
        expected = manifest.files.get(name, crc32c)
        if crc32c != expected and not found:
            return [f"has crc32c {crc32c}; the manifest says {expected}"]
        return found
    except FileNotFoundError:
        return ["is missing"]
    except OSError as error:
        raise_if_store_failed(error, dataset.directory)
        return [f"cannot be read: {error.strerror or error}"]
    except text_format.ParseError as error:
        return [f"is not such a file: {' '.join(str(error).split())[:150]}"]
    except (*_MALFORMED, DecodeError) as error:
        return [f"is not such a file: {describe_damage(error)}"]


def _check_lines(dataset: Dataset, name: str) -> list[str]:
    """Return the faults of a file of very many lines, which is streamed; raises as `Dataset.lines`."""
    try:
        for _ in dataset.lines(name):
            pass
    except CorruptDataError as error:
        return [str(error)]
    return []


def _check_features(data: bytes, manifest: Manifest) -> Iterator[str]:
    right = tfds_metadata.to_features_json(manifest.features, translated_features(manifest.configuration))
    return _find_differences("feature", *(_index_features(json.loads(content)) for content in (data.decode(), right)))


def _index_features(content: dict[str, Any]) -> dict[str, Any]:
    if "translation" in content:
        return dict.fromkeys(content["translation"]["languages"], content["pythonClassName"])
    return dict(content["featuresDict"]["features"])


def _check_schema(data: bytes, manifest: Manifest) -> Iterator[str]:
    text = data.decode()
    found = text_format.Parse(text, schema_pb2.Schema())
    # It may ask for what it likes
    expected = merge_requests(schema.to_schema(manifest.features), schema_requests(text))
    return _find_differences(
        "feature", *({feature.name: feature for feature in proto.feature} for proto in (found, expected))
    )


def _check_labels(feature: Feature, data: bytes, _: Manifest) -> Iterator[str]:
    found = data.decode().split("\n")[:-1]
    if len(found) != len(feature.class_names):
        yield f"has {len(found)} lines; the manifest has {len(feature.class_names)} classes"
    for index, (name, expected) in enumerate(zip(found, feature.class_names, strict=False)):
        if name != expected:
            yield f"class {index} is {name!r}; the manifest says {expected!r}"
            return  # the names after it are most likely only shifted


def _check_rejects(data: bytes, manifest: Manifest) -> Iterator[str]:
    found, expected = data.decode().count("\n"), manifest.rejects["records"]
    # Of data sets made when each line was one record, and no checksum was kept
    if not manifest.files and found != expected:
        yield f"has {found} lines; the manifest counts {expected} rejected"


def _check_stats(data: bytes, manifest: Manifest) -> Iterator[str]:
    splits = StatsFile.from_json(data.decode(), file_names.STATS).splits
    keys = ("examples", "size_bytes", "rejected")
    found, expected = (
        {name: {key: getattr(split, key) for key in keys} for name, split in pairs}
        for pairs in (splits.items(), ((split.name, split) for split in manifest.splits))
    )
    yield from _find_differences("split", found, expected)
    for name, split in splits.items():
        for feature, of_feature in split.features.items():
            counts = of_feature.classes
            lists = of_feature.per_example
            values = split.examples if lists is None else round((lists.mean or 0) * split.examples)
            if counts is not None and sum(counts.values()) != values:
                yield f"split {name!r}: the classes of {feature!r} add up to {sum(counts.values())}; expected {values}"


def _check_feature_stats(data: bytes, manifest: Manifest) -> Iterator[str]:
    datasets = statistics_pb2.DatasetFeatureStatisticsList.FromString(data).datasets
    found = {dataset.name: dataset.num_examples for dataset in datasets}
    yield from _find_differences("split", found, {split.name: split.examples for split in manifest.splits})
    known = {feature.name for feature in manifest.features}
    for dataset in datasets:
        for feature in dataset.features:
            if (name := ".".join(feature.path.step)) not in known:
                yield f"split {dataset.name!r} has feature {name!r}, which is not in the manifest"


def _check_dataset_info(data: bytes, manifest: Manifest) -> Iterator[str]:
    content = json.loads(data.decode())
    expected = {"name": manifest.name, "version": manifest.version}
    yield from _find_differences("field", {key: content.get(key) for key in expected}, expected)
    found = {split["name"]: (split["shardLengths"], split["numBytes"]) for split in content["splits"]}
    splits = {
        split.name: ([str(shard.examples) for shard in split.shards], str(split.size_bytes))
        for split in manifest.splits
        if split.shards
    }
    yield from _find_differences("split", found, splits)


def _find_differences(what: str, found: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence for each key whose value is missing, unexpected, or different from the manifest's."""
    for name in expected:
        if name not in found:
            yield f"lacks {what} {name!r} of the manifest"
        elif found[name] != expected[name]:
            yield f"disagrees with the manifest on {what} {name!r}"
    yield from (f"has {what} {name!r}, which is not in the manifest" for name in found if name not in expected)
