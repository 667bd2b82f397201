"""Record files of anyone as a data set of ours: open them for readers, and verify them."""

import io
import os
import posixpath
import zlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, BinaryIO, cast

import numpy as np

from shardmill.addons.view.files import ARRAY_RECORD, Damage, RecordFile, RecordFiles, find_record_files, inflate
from shardmill.addons.view.inspection import RecordsInspection, name_of, take_sample
from shardmill.data import spans
from shardmill.data.codecs import CODECS, Codec
from shardmill.data.example import EXAMPLE, LIST_TAGS, SEQUENCE_EXAMPLE, decode_example, message_kind
from shardmill.data.media import open_image
from shardmill.data.shard_index import INDEX_FILE, INDEX_FOLDER, IndexedShard, parse_index_json
from shardmill.data.spans import RecordBlock
from shardmill.errors import CorruptDataError
from shardmill.filesystem import ChecksummedFile, Files, LocalFiles, read_if_exists
from shardmill.metadata.manifest import Manifest, ShardEntry, SplitEntry, crc32c_hex
from shardmill.reading.dataset import Dataset

_THREADS = 32  # that read objects in a store
_MOST_NAMES = 20_000  # of features, which the compiled check of messages knows


@dataclass(frozen=True)
class _FilesCodec(Codec):
    """A codec of files that are compressed by zlib, or some of them one way and some another."""

    name = "zlib or mixed"
    keeps_offsets = False
    is_read_by_tfds = False
    compressions: Mapping[str, str] = field(default_factory=dict, hash=False)  # of each file, by name

    compression_type = "ZLIB"

    @property
    def is_read_by_tensorflow(self) -> bool:  # type: ignore[override]
        return set(self.compressions.values()) == {"zlib"}

    def read_blocks(self, file: BinaryIO, name: str, record: int = 0, offset: int = 0) -> Iterator[RecordBlock]:
        compression = self.compressions[name]
        if compression not in ("gzip", "zlib"):
            yield from CODECS["array_record" if compression == ARRAY_RECORD else "tfrecord", ""].read_blocks(file, name)
            return
        try:
            yield from super().read_blocks(inflate(file), name)
        except (EOFError, zlib.error) as error:
            raise CorruptDataError(f"{name}: the {compression} stream is damaged: {error}") from error


@dataclass(frozen=True, slots=True)
class _FilesManifest(Manifest):
    """A manifest that was made up from record files."""

    files_codec: Codec | None = None

    @property
    def codec(self) -> Codec:
        return self.files_codec or CODECS[self.file_format, self.compression]


@dataclass(frozen=True, slots=True)
class Foreign:
    """Record files that have no manifest, for readers and commands."""

    found: RecordFiles

    def open(self) -> Dataset:
        """Return the files as a data set, see `open_record_files`."""
        return open_record_files(self.found)

    def inspect(self, split: str | None, examples: int, read_all: bool) -> RecordsInspection:
        """Describe the files, see `shardmill.inspect`."""
        found = self.found.select(split)
        return RecordsInspection(found, take_sample(found, examples, read_all))

    def verify(self, decode: bool, notices: Sequence[str]) -> Any:
        """Read all files, and return the Verification."""
        from shardmill.pipelines.commands.verify import Verification  # late: it imports Beam
        from shardmill.transforms.publishing.verification import Fault

        records, faults, more = verify_record_files(self.found, decode)
        found, where = [Fault(file, message) for file, message in faults], ", ".join(self.found.given)
        return Verification(where, records, len(self.found.shards), tuple(found), (*notices, *more), True)

    def by_folder(self) -> dict[str, dict[str, list[str]]]:
        """Return the names of the files by folder and split."""
        folders: dict[str, dict[str, list[str]]] = {}
        for shard in self.found.shards:
            folder = folders.setdefault(posixpath.dirname(shard.path) or ".", {})
            folder.setdefault(shard.split, []).append(shard.name)
        return folders


def find_foreign(paths: Any, files: Files | None = None) -> Foreign | None:
    """Return the record files at `paths`, see `find_record_files`."""
    found = find_record_files(paths, files)
    return None if found is None else Foreign(found)


def open_record_files(found: RecordFiles) -> Dataset:
    """Return record files as a data set; all are read, unless an index of `shardmill index` lists them.

    Raises:
        CorruptDataError: if a record is damaged.
    """
    sample = take_sample(found, 0)
    names = {shard.path: _relative(shard.path, found.directory) for shard in found.shards}
    compressions = {name: shard.compression for shard, name in zip(found.shards, names.values(), strict=True)}
    kinds = set(compressions.values())
    codec: Codec | None = None if len(kinds) == 1 and kinds <= {"", "gzip", ARRAY_RECORD} else _FilesCodec(compressions)
    indexed = _read_index(found)
    at_once = (os.cpu_count() or 1) if isinstance(found.shards[0].files, LocalFiles) else _THREADS
    with ThreadPoolExecutor(at_once, "shardmill-count") as pool:
        entries = list(
            pool.map(lambda shard: indexed.get(names[shard.path]) or _count(shard, names[shard.path]), found.shards)
        )
    by_path = dict(zip(names, entries, strict=True))
    splits = tuple(
        SplitEntry(split, tuple(by_path[shard.path] for shard in shards)) for split, shards in found.splits.items()
    )
    manifest = _FilesManifest(
        name=name_of(found),
        version="without a manifest",
        compression="gzip" if kinds == {"gzip"} else "",
        features=sample.features,
        splits=splits,
        configuration={} if sample.kind == EXAMPLE else {"record_type": "raw"},
        file_format=ARRAY_RECORD if kinds == {ARRAY_RECORD} else "tfrecord",
        files_codec=codec,
    )
    return Dataset(found.directory, manifest, found.shards[0].files, crc32c_hex(repr(entries).encode()))


def _relative(path: str, directory: str) -> str:
    return path.removeprefix(f"{directory.rstrip('/')}/") if directory else path


def _read_index(found: RecordFiles) -> dict[str, ShardEntry]:
    """Return the entries of the shards that an index next to them lists with the size that they have."""
    path = posixpath.join(found.directory, INDEX_FOLDER, INDEX_FILE)
    text = read_if_exists(found.shards[0].files, path) if found.directory else None
    listed: list[IndexedShard] = [one for many in parse_index_json(text, path).values() for one in many] if text else []
    sizes = {shard.name: shard.size_bytes for shard in found.shards}
    return {
        one.file: ShardEntry(one.file, one.records, one.size_bytes, one.crc32c)
        for one in listed
        if sizes.get(one.file) == one.size_bytes
    }


def _count(shard: RecordFile, name: str) -> ShardEntry:
    """Read a file to its end; raise a CorruptDataError if a record is damaged."""
    with shard.files.open(shard.path) as raw:
        file = ChecksummedFile(raw)
        codec = _FilesCodec({shard.path: shard.compression})
        records = sum(len(block) for block in codec.read_blocks(cast(BinaryIO, file), shard.path))
        while file.read(io.DEFAULT_BUFFER_SIZE):
            pass
    return ShardEntry(name, records, file.size_bytes, f"{file.crc32c:08x}")


def verify_record_files(found: RecordFiles, decode: bool) -> tuple[int, list[tuple[str, str]], list[str]]:
    """Read all record files; return the number of sound records, faults as (file, message), and notices."""
    with ThreadPoolExecutor(os.cpu_count() or 1, "shardmill-verify") as pool:
        results = list(pool.map(lambda shard: _verify(shard, decode), found.shards))
    kinds = sorted({kind for _, _, kind in results if kind not in (EXAMPLE, SEQUENCE_EXAMPLE)})
    notices = [f"records are {kind or 'of an unknown kind'}: only lengths and checksums were checked" for kind in kinds]
    faults = [(_relative(path, found.directory), message) for _, messages, _ in results for path, message in messages]
    return sum(records for records, _, _ in results), faults, notices


def _verify(shard: RecordFile, decode: bool) -> tuple[int, list[tuple[str, str]], str]:
    """Return the number of sound records of a file, its faults, and the kind of its first record."""
    faults, records, kind = list[tuple[str, str]](), 0, EXAMPLE
    check: _MessageCheck | None = None
    for item in shard.scan():
        if isinstance(item, Damage):
            faults.append((shard.path, str(item)))
            continue
        if check is None:
            check = _MessageCheck(item.block.record(0))
            kind = check.kind or check.name
        for row, reason in check.find_faults(item.block, decode):
            faults.append((shard.path, f"record {item.number + row:,} {reason}"))
        records += len(item.block)
    return records, faults, kind


class _MessageCheck:
    """Checks that all records are messages of the kind of the first one."""

    def __init__(self, first: bytes) -> None:
        from shardmill.transforms.formats.tfrecords import kind_of_record  # late: it imports pyarrow

        self.kind = message_kind(first)
        self.name = kind_of_record(first)
        self._names: dict[str, bytes] = {}  # of features, with the tags of the compiled check

    def find_faults(self, block: RecordBlock, decode: bool) -> Iterator[tuple[int, str]]:
        """Yield the rows that are no such message, or with `decode` hold a damaged image, each with the reason."""
        for row in range(len(block)) if decode or self.kind != EXAMPLE else self._unusual_rows(block):
            record = block.record(row)
            kind = message_kind(record) if self.kind else ""
            if kind != self.kind:
                yield row, f"is {f'a {kind}' if kind else 'no such message'}; expected a {self.kind}"
            elif kind == EXAMPLE:
                try:
                    values = decode_example(record)
                except ValueError as error:
                    yield row, f"is {error}"
                    continue
                self._learn(values)
                for name, reason in _image_faults(values) if decode else ():
                    yield row, f"feature {name!r} holds an image that does not decode: {reason}"

    def _unusual_rows(self, block: RecordBlock) -> list[int]:
        """Return the rows that the compiled check does not know as Examples of the features seen so far."""
        names = [name.encode() for name in self._names]
        out = np.empty((len(block), len(names), 3), np.int64)
        plain = np.zeros(len(block), np.uint8)
        spans.scan_examples(block.data, block.starts, block.ends, names, b"".join(self._names.values()), out, plain)
        return [int(row) for row in np.flatnonzero(plain == 0)]

    def _learn(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items() if len(self._names) < _MOST_NAMES else ():
            is_bytes = isinstance(value, list)
            self._names.setdefault(
                name, bytes((LIST_TAGS["bytes" if is_bytes else value.dtype.name], is_bytes and len(value) == 1))
            )


def _image_faults(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the features whose images do not decode, with the reason."""
    from shardmill.addons.view.values import IMAGES, look

    for name, many in values.items():
        for value in many if isinstance(many, list) else ():
            if look(value[:64]) in IMAGES:
                try:
                    open_image(value).load()
                except Exception as error:  # whatever Pillow raises
                    yield name, str(error)
