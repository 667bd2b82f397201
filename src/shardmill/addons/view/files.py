"""Record files that have no manifest: find them, read them in order or at any record, and find damaged places."""

import glob
import io
import json
import os
import posixpath
import re
import threading
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import BinaryIO, NamedTuple, cast

import numpy as np

from shardmill.data import array_record
from shardmill.data.features import Features
from shardmill.data.shard_index import ALL
from shardmill.data.spans import RecordBlock, read_blocks
from shardmill.data.tfrecord import OVERHEAD, record_header
from shardmill.errors import CorruptDataError, UserError
from shardmill.filesystem import Files, LocalFiles
from shardmill.metadata import file_names
from shardmill.metadata.manifest import Reject, SplitEntry
from shardmill.metadata.versions import find_interrupted_publications
from shardmill.reading.dataset import Dataset

ARRAY_RECORD, MISSING = "array_record", "missing"  # in place of a compression
_HEAD_BYTES, _HEADER = 4096, 12  # more than zlib takes for a record's first bytes; bytes before a payload
_RAW_BYTES = 64 << 10  # of a compressed file that are decompressed together
_STATE_BYTES = 16 << 20  # between two kept states of a decompressor, of 40 KB each
_MARK_BYTES = 256 << 10  # between two known positions of records
_TOGETHER = 256  # records of an ArrayRecord file that are read together
_PLACE = re.compile(r": record \d+ at byte \d+ (.*)\Z", re.DOTALL)  # in an error of `read_blocks`
_PAYLOAD = "fails its checksum"  # after which the next record is known to begin
_SUFFIXES = r"(?:tfrecords?|tfr|array_record)(?:-\d+(?:-of-\d+)?)?(?:\.gz)?"
_AT_ONCE = 16  # files whose first bytes are read


class Piece(NamedTuple):
    """Consecutive sound records of a file; the first is record `number`, at byte `offset` of the decompressed file."""

    number: int
    offset: int
    block: RecordBlock


class Damage(NamedTuple):
    """A place of a file that cannot be read: a record, or with `is_end` all that follows."""

    file: str
    number: int
    offset: int
    reason: str
    is_end: bool

    def __str__(self) -> str:
        rest = "; what follows is lost" if self.is_end else ""
        return f"record {self.number:,} at byte {self.offset:,} {self.reason}{rest}"


@dataclass(eq=False)
class RecordFile:
    """A file of records, with the positions that are known by now."""

    path: str
    split: str
    files: Files = field(repr=False)
    size_bytes: int = 0
    compression: str = ""  # "", gzip, zlib or array_record
    known: int | None = None  # records, as metadata says
    marks: list[tuple[int, int]] = field(default_factory=lambda: [(0, 0)])  # (record, offset), ascending
    damages: list[Damage] = field(default_factory=list)
    count: int | None = None  # records, once the file was read to its end
    states: list[tuple[int, int, "zlib._Decompress"]] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def records(self) -> int | None:
        """Return the number of records; None before anybody knows."""
        return self.known if self.count is None else self.count

    @property
    def name(self) -> str:
        """Return the last part of the path."""
        return posixpath.basename(self.path)

    def probe(self) -> "RecordFile":
        """Find size and compression, by the first bytes."""
        head = b""
        try:
            with self.files.open(self.path) as file:
                while len(head) < _HEAD_BYTES and (more := file.read(_HEAD_BYTES - len(head))):
                    head += more
        except FileNotFoundError:
            self.compression = MISSING
            return self
        size = getattr(self.files, "size", None)
        self.size_bytes = len(head) if size is None else size(self.path)
        self.compression = find_compression(head)
        return self

    def open(self) -> BinaryIO:
        """Open the file, decompressed."""
        file = self.files.open(self.path)
        return cast(BinaryIO, _Inflated(file, self.states)) if self.compression in ("gzip", "zlib") else file

    def scan(self, number: int = 0, offset: int = 0) -> Iterator[Piece | Damage]:
        """Yield the records in order from one whose position is known on, and the damaged places among them."""
        scan = self._scan_array_record(number) if self.compression == ARRAY_RECORD else self._scan(number, offset)
        for item in scan:
            with self.lock:
                if isinstance(item, Damage) and item not in self.damages:
                    self.damages.append(item)
                elif item.number > self.marks[-1][0] and item.offset - self.marks[-1][1] >= _MARK_BYTES:
                    self.marks.append((item.number, item.offset))
            number = item.number + (len(item.block) if isinstance(item, Piece) else not item.is_end)
            yield item
        self.count = number

    def _scan(self, number: int, offset: int) -> Iterator[Piece | Damage]:
        if self.compression == MISSING:
            yield Damage(self.path, 0, 0, "is missing: there is no such file, and TFDS's metadata lists it", True)
            return
        with self.open() as stream:
            while True:
                if offset:
                    stream.seek(offset)
                reason = ""
                try:
                    for block in read_blocks(stream, self.path, index=number, offset=offset):
                        yield Piece(number, offset, block)
                        number += len(block)
                        offset += int((block.ends - block.starts).sum()) + OVERHEAD * len(block)
                except (CorruptDataError, zlib.error, EOFError) as error:
                    found = _PLACE.search(str(error))
                    reason = found[1] if found else f"is lost: the {self.compression} stream is damaged: {error}"
                    if not offset and reason != _PAYLOAD and (kind := self._name_content()):
                        reason = f"is no record: the file begins as {kind} do"
                if not reason:
                    return
                yield Damage(self.path, number, offset, reason, reason != _PAYLOAD)
                if reason != _PAYLOAD:
                    return
                stream.seek(offset)
                number, offset = number + 1, offset + OVERHEAD + int.from_bytes(stream.read(8), "little")

    def _name_content(self) -> str:
        """Return what a file that is no TFRecord begins like, in plural; "" if that is not known."""
        from shardmill.transforms.formats.tfrecords import kind_of_data  # late: it imports pyarrow

        with self.files.open(self.path) as file:
            return kind_of_data(file.read(_HEAD_BYTES)) if not self.compression else ""

    def _scan_array_record(self, number: int) -> Iterator[Piece | Damage]:
        try:
            if not isinstance(self.files, LocalFiles) and "://" in self.path:
                with self.files.open(self.path) as file:
                    first = 0
                    for block in array_record.read_blocks(file, self.path):
                        if first + len(block) > number:
                            yield Piece(max(first, number), 0, block.between(max(number - first, 0), len(block)))
                        first += len(block)
                return
            reader = array_record.open_reader(self.path, self.path)
            for first in range(number, reader.num_records(), _TOGETHER):
                stop = min(first + _TOGETHER, reader.num_records())
                records = [array_record.read_record(reader, at, self.path) for at in range(first, stop)]
                ends = np.cumsum([len(record) for record in records], dtype=np.int64)
                yield Piece(first, 0, RecordBlock(b"".join(records), np.append(np.int64(0), ends[:-1]), ends))
                number = stop
        except CorruptDataError as error:
            yield Damage(self.path, number, 0, str(error).removeprefix(f"{self.path}: "), True)

    def read(self, first: int, count: int) -> list[bytes | Damage]:
        """Return records from number `first` on, fewer at the end of the file; of a damaged one, what is wrong."""
        with self.lock:
            mark = (first, 0) if self.compression == ARRAY_RECORD else None
            mark = mark or self.marks[bisect_right(self.marks, (first, 1 << 62)) - 1]
        found: list[bytes | Damage] = []
        for item in self.scan(*mark):
            if isinstance(item, Damage):
                found += [item] if first <= item.number < first + count else []
            else:
                start, stop = max(first - item.number, 0), min(first + count - item.number, len(item.block))
                found += item.block.between(start, stop) if start < stop else []
            if len(found) >= count:
                break
        return found


def find_compression(head: bytes) -> str:
    """Return the compression of a file by its first bytes: "", gzip, zlib or array_record."""
    if len(head) >= _HEADER and head[:_HEADER] == record_header(int.from_bytes(head[:8], "little")):
        return ""
    if head.startswith(array_record.SIGNATURE):
        return ARRAY_RECORD
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    try:
        inflated = zlib.decompressobj().decompress(head, _HEADER)
    except zlib.error:
        return ""
    return "zlib" if inflated == record_header(int.from_bytes(inflated[:8], "little")) else ""


class _Inflated(io.RawIOBase):
    """The decompressed bytes of a gzip or zlib file; to seek, the state of the decompressor is kept now and then."""

    def __init__(self, file: BinaryIO, states: list[tuple[int, int, "zlib._Decompress"]]) -> None:
        self._file, self._states = file, states
        self._inflate = zlib.decompressobj(32 + zlib.MAX_WBITS)
        self._made = self._taken = 0  # bytes that were decompressed, and those that they took
        self._held, self._error = b"", ""

    def close(self) -> None:
        self._file.close()
        super().close()

    def read(self, size: int = -1) -> bytes:
        pieces, held = [self._held], len(self._held)
        while held < size and not self._error and (piece := self._next()):
            pieces.append(piece)
            held += len(piece)
        data = b"".join(pieces)
        self._held = data[size:]
        if self._error and not data:
            raise EOFError(self._error)
        return data[:size]

    def _next(self) -> bytes:
        data = b""
        while not data:
            raw = self._file.read(_RAW_BYTES)
            if not raw:
                if not self._inflate.eof and self._taken:
                    self._error = "it is cut short"
                return b""
            self._taken += len(raw)
            try:
                data = self._inflate.decompress(raw)
                while self._inflate.eof and (rest := self._inflate.unused_data.lstrip(b"\0")):  # one member more
                    self._inflate = zlib.decompressobj(32 + zlib.MAX_WBITS)
                    data += self._inflate.decompress(rest)
            except zlib.error as error:
                self._error = str(error)
                return data
            self._made += len(data)
        if self._made - (self._states[-1][0] if self._states else 0) >= _STATE_BYTES:
            self._states.append((self._made, self._taken, self._inflate.copy()))
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        before = [state for state in list(self._states) if state[0] <= offset]
        made, taken, inflate = before[-1] if before else (0, 0, zlib.decompressobj(32 + zlib.MAX_WBITS))
        self._file.seek(taken)
        self._made, self._taken, self._inflate = made, taken, inflate.copy()
        self._held, self._error = b"", ""
        skipped = made
        while skipped < offset and (data := self.read(min(offset - skipped, _STATE_BYTES))):
            skipped += len(data)
        return skipped


def inflate(file: BinaryIO) -> BinaryIO:
    """Return the decompressed bytes of a gzip or zlib file."""
    return cast(BinaryIO, _Inflated(file, []))


@dataclass(eq=False)
class RecordFiles:
    """Files of records in the order of their splits, as one list of records."""

    directory: str  # that the paths of the files are relative to; "" if they are as they were given
    shards: tuple[RecordFile, ...]
    given: tuple[str, ...] = ()  # the paths that were asked for
    features: Features = ()  # as features.json of TFDS describes them

    @property
    def splits(self) -> dict[str, list[RecordFile]]:
        """Return the files of each split."""
        splits: dict[str, list[RecordFile]] = {}
        for shard in self.shards:
            splits.setdefault(shard.split, []).append(shard)
        return splits

    @property
    def size_bytes(self) -> int:
        """Return the bytes of all files."""
        return sum(shard.size_bytes for shard in self.shards)

    def select(self, split: str | None) -> "RecordFiles":
        """Return the files of one split, or all; raise a UserError if there is no such split."""
        if split is None:
            return self
        if split not in self.splits:
            raise UserError(f"--split {split}: there is no such split; there are {', '.join(self.splits)}")
        return replace(self, shards=tuple(self.splits[split]))

    def read(self, first: int, count: int) -> Iterator[tuple[int, RecordFile, int, bytes | Damage]]:
        """Yield (number, file, number in the file, record) from record `first` of all files on."""
        start = 0
        for shard in self.shards:
            if count <= 0:
                return
            if shard.records is None or first < start + shard.records:
                for at, record in enumerate(shard.read(max(first - start, 0), count), max(first - start, 0)):
                    yield start + at, shard, at, record
                    count -= 1
            if shard.records is None:  # it was read, but not to its end
                return
            start += shard.records
            first = max(first, start)


def files_of(dataset: Dataset, splits: Sequence[SplitEntry]) -> RecordFiles:
    """Return the shards of a data set of ours."""
    compression = {"": "", "gzip": "gzip"}[dataset.manifest.compression]
    kind = ARRAY_RECORD if dataset.manifest.file_format == ARRAY_RECORD else compression
    shards = [
        RecordFile(dataset.path(shard), split.name, dataset.files, shard.size_bytes, kind, shard.examples)
        for split in splits
        for shard in split.shards
    ]
    return RecordFiles(dataset.directory, tuple(shards))


def find_record_files(paths: str | os.PathLike[str] | Sequence[str], files: Files | None = None) -> RecordFiles | None:
    """Return the record files at paths: files, globs, or folders; None if there are none, or a folder is a data set.

    Splits come from TFDS's dataset_info.json, from folders such as `Split-train`, or from names of files.
    """
    given = [os.fspath(paths)] if isinstance(paths, str | os.PathLike) else list(map(os.fspath, paths))
    found: dict[str, RecordFile] = {}
    features: Features = ()
    for path in given:
        listed, features = _list(path.rstrip("/") or "/", files, isinstance(paths, str | os.PathLike))
        if listed is None:
            return None
        found.update((shard.path, shard) for shard in listed)
    shards = list(found.values())
    if not shards and isinstance(paths, str | os.PathLike):
        return None
    if not shards:
        raise UserError(f"{', '.join(given)}: no TFRecord files there")
    with ThreadPoolExecutor(min(_AT_ONCE, len(shards)), "shardmill-probe") as pool:
        list(pool.map(RecordFile.probe, shards))
    if any(not shard.split for shard in shards):
        for shard in shards:
            shard.split = ALL
    folders = {posixpath.dirname(shard.path) for shard in shards}
    directory = os.path.commonpath(folders) if len(folders) > 1 and "://" not in shards[0].path else ""
    order = {split: place for place, split in enumerate(dict.fromkeys(shard.split for shard in shards))}
    shards.sort(key=lambda shard: order[shard.split])
    directory = folders.pop() if len(folders) == 1 else directory
    return RecordFiles(directory, tuple(shards), tuple(given), features if len(given) == 1 else ())


# In a folder of ours that does not open
_TROUBLES = (file_names.MANIFEST, file_names.PUBLISHING, file_names.LATEST, file_names.LOCK)


def _list(path: str, files: Files | None, is_alone: bool) -> tuple[list[RecordFile] | None, Features]:
    """Return the files at a path, and the features in TFDS's metadata; None if the path is a data set of ours."""
    is_local = "://" not in path
    if is_local and os.path.isfile(path):
        return [RecordFile(path, split_of(path), files or LocalFiles())], ()
    if is_local and not os.path.isdir(path):
        names = [name for name in sorted(glob.glob(path, recursive=True)) if os.path.isfile(name)]
        if names or "{" not in path:
            return [RecordFile(name, split_of(name), files or LocalFiles()) for name in names], ()
    from shardmill.pipelines.config.data_sets import find_data_set
    from shardmill.transforms.inputs.folders import FileKind
    from shardmill.transforms.inputs.listing import find_names, input_root, list_input
    from shardmill.transforms.stores import storage

    used = files or storage.StorageFiles()
    success = storage.join(path, file_names.SUCCESS)
    try:
        is_ours = any(used.exists(storage.join(path, name)) for name in _TROUBLES)
        if is_ours or find_interrupted_publications(used, path):
            return None, ()
        if used.exists(success) and storage.read_bytes(success):  # Spark writes an empty one
            return None, ()
        described = find_data_set(path)
    except (OSError, UserError):  # a folder of versions, no client, no permission: the reader's own sentence says more
        if not is_alone:
            raise
        return None, ()
    if described is not None:
        if posixpath.basename(described.metadata) == file_names.MANIFEST:
            return None, ()
        info = json.loads(storage.read_bytes(storage.join(described.directory, file_names.DATASET_INFO)))
        counts = [int(count) for split in info["splits"] for count in split["shardLengths"]]
        return [
            RecordFile(storage.join(described.directory, name), split, used, known=count)
            for (split, name), count in zip(described.shards, counts, strict=True)
        ], described.features
    root = input_root(path)
    for item in (listed := list(list_input(path, FileKind("TFRecord files", _SUFFIXES, has_signature=True)))):
        if isinstance(item, Reject):
            raise UserError(f"{storage.join(root, item.source)} {item.reason}")
    names = [storage.join(root, name) for name in find_names(listed)]
    return [RecordFile(name, split_of(name), used) for name in names], ()


def split_of(path: str) -> str:
    """Return the split that a file's folder or name gives; "" if neither does."""
    from shardmill.transforms.inputs.folders import SPLIT_FOLDERS, split_of_file

    folder = posixpath.basename(posixpath.dirname(path)).lower()
    return SPLIT_FOLDERS.get(folder) or split_of_file(path) or ""
