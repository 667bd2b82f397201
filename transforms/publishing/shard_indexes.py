"""The index of a folder's records: the files in `index/`, made as a version is published, or for shards that exist."""

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from io import BufferedReader
from typing import BinaryIO, cast

import google_crc32c
import numpy as np

from shardmill.data import shard_index
from shardmill.data.array_record import SIGNATURE as ARRAY_RECORD_SIGNATURE
from shardmill.data.tfrecord import OVERHEAD
from shardmill.errors import CorruptDataError, JobError, LockedError, UserError
from shardmill.filesystem import ChecksummedFile
from shardmill.metadata import file_names
from shardmill.metadata.file_names import INDEX_DIR
from shardmill.reading.dataset import Dataset, open_dataset, read_shard
from shardmill.transforms.execution.running import map_in_order
from shardmill.transforms.publishing import lease, publication
from shardmill.transforms.publishing.description import PublishOptions
from shardmill.transforms.publishing.publication import Move
from shardmill.transforms.shards.sources import IndexPiece, ShardInfo
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.streams import write_stream
from shardmill.transforms.workers.resources import core_count

LIST_PATH = f"{INDEX_DIR}/{shard_index.INDEX_FILE}"
_THREADS = 16  # files that are read at once


def text_path(shard: str) -> str:
    """Return the name of a shard's text index in the version's folder."""
    return f"{INDEX_DIR}/{shard}{shard_index.TEXT_SUFFIX}"


def bounds_path(split: str) -> str:
    """Return the name of a split's array in the version's folder."""
    return f"{INDEX_DIR}/{split}{shard_index.BOUNDS_SUFFIX}"


def stage_index(
    shards: Sequence[ShardInfo], options: PublishOptions, folder: str
) -> tuple[dict[str, bytes], list[Move]]:
    """Stage the index of shards that were written with one in `folder`, in the version's folder.

    Returns:
        `index.json` by its name, and the moves of all other files of the index.
    """
    pieces = {str(shard.name): shard.index for shard in shards if shard.index is not None}
    splits: dict[str, list[shard_index.IndexedShard]] = {}
    for shard in shards:
        assert shard.index is not None
        name, bounds_crc32c = str(shard.name), f"{shard.index.bounds_crc32c:08x}"
        entry = shard_index.IndexedShard(name, shard.examples, shard.size_bytes, f"{shard.crc32c:08x}", bounds_crc32c)
        splits.setdefault(shard.name.split, []).append(entry)
    files = {LIST_PATH: shard_index.index_json(splits)}
    journal = publication.read_journal(options.directory)
    if journal is not None and journal.job == options.job:  # of an earlier attempt, which may have moved the pieces
        return files, [
            move for move in journal.moves if move.file.startswith(f"{INDEX_DIR}/") and move.file not in files
        ]
    above = f"{options.directory}/"
    moves = [
        Move(piece.path.removeprefix(above), text_path(name), piece.size_bytes, f"{piece.crc32c:08x}")
        for name, piece in pieces.items()
    ]
    for split, entries in splits.items():
        staged = f"{folder}/{bounds_path(split)}"
        indexes = partial(_read_piece, pieces)
        size_bytes, crc32c = write_bounds(options.path(staged), entries, indexes)
        moves.append(Move(staged, bounds_path(split), size_bytes, crc32c))
    return files, moves


def write_bounds(
    path: str,
    shards: Sequence[shard_index.IndexedShard],
    read: Callable[[shard_index.IndexedShard], shard_index.ShardIndex],
) -> tuple[int, str]:
    """Write the array of a split to `path`; return its size and its crc32c.

    Args:
        read: returns the index of a shard; called in several threads.
    """
    count = shard_index.bounds_count(shards)
    size_bytes = len(shard_index.bounds_header(count)) + 8 * count
    checksum = 0

    def sum_up(chunks: Iterable[bytes]) -> Iterator[bytes]:
        nonlocal checksum
        for chunk in chunks:
            checksum = google_crc32c.extend(checksum, chunk)
            yield chunk

    with ThreadPoolExecutor(_THREADS, "shardmill-index") as pool:
        indexes = map_in_order(pool, read, shards, _THREADS)
        write_stream(path, sum_up(shard_index.bounds_bytes(indexes, count)), size_bytes)
    return size_bytes, f"{checksum:08x}"


def _read_piece(pieces: dict[str, IndexPiece], shard: shard_index.IndexedShard) -> shard_index.ShardIndex:
    piece = pieces[shard.file]
    try:
        text = storage.read_bytes(piece.path)
        if google_crc32c.value(text) != piece.crc32c:
            raise CorruptDataError(f"{piece.path} has another checksum")
        return shard_index.parse_index(text, piece.path, shard.size_bytes, shard.records)
    except (CorruptDataError, FileNotFoundError) as error:
        raise JobError(f"the index of {shard.file} is not what was written: {error}; nothing was published") from None


_GZIP = b"\x1f\x8b"  # with which such a file begins
_COMPRESSED = "one record of a compressed shard cannot be read alone; `shardmill reshard --compression none --index`"
Read = Callable[[str], tuple[shard_index.ShardIndex, str]]  # a shard's index and its crc32c, given its file name


def index_version(dataset: Dataset) -> int:
    """Write the index of a published version, whose shards are all read and checked; return the number of records.

    The manifest is not changed: `index.json` has the checksums of the shards, and is written last.

    Raises:
        UserError: if the shards are compressed, or ArrayRecord files.
        CorruptDataError: if a shard is missing or differs from what was written.
        LockedError: if a job builds or publishes the version.
    """
    manifest, directory = dataset.manifest, dataset.directory
    if manifest.codec.has_index:
        raise UserError(
            f"{directory} has {manifest.file_format} shards, which have an index at their end: shardmill.source and"
            " Grain read any record as they are"
        )
    if not manifest.codec.keeps_offsets:
        raise UserError(f"{directory} has {manifest.codec.option} shards: {_COMPRESSED} writes a version with an index")
    shards = {shard.file: shard for split in manifest.splits for shard in split.shards}

    def read(name: str) -> tuple[shard_index.ShardIndex, str]:
        sizes = [block.ends - block.starts + OVERHEAD for block in read_shard(dataset, shards[name])]
        return shard_index.ShardIndex(np.cumsum(np.concatenate([np.zeros(1, np.int64), *sizes]))), shards[name].crc32c

    job = uuid.uuid4().hex
    temporary = file_names.temporary_folder(manifest.name, job)
    with lease.hold_lease(directory, temporary, job):
        if open_dataset(directory, storage.StorageFiles()).manifest_crc32c != dataset.manifest_crc32c:
            raise LockedError(f"{directory} was replaced while this command began; run it again")
        splits = {split.name: [shard.file for shard in split.shards] for split in manifest.splits if split.shards}
        records = write_index(directory, splits, read, temporary)
        parts = {
            LIST_PATH,
            *map(bounds_path, splits),
            *(text_path(name) for names in splits.values() for name in names),
        }
        found = {f"{INDEX_DIR}/{name}" for name, _ in storage.list_files(storage.join(directory, INDEX_DIR))}
        storage.delete(storage.join(directory, name) for name in sorted(found - parts))
        return records


def index_folder(folder: str, splits: Mapping[str, Sequence[str]]) -> int:
    """Write the index of TFRecord files in `folder` that no manifest lists; return the number of records.

    Raises:
        UserError: if a file is compressed, or an ArrayRecord file.
        CorruptDataError: if a file is cut short or a record fails a checksum.
    """

    def read(name: str) -> tuple[shard_index.ShardIndex, str]:
        path = storage.join(folder, name)
        with storage.open_read(path) as raw:
            first = cast(BufferedReader, raw).peek(len(ARRAY_RECORD_SIGNATURE))
            if first.startswith(ARRAY_RECORD_SIGNATURE):
                raise UserError(f"{path} is an ArrayRecord file, which has an index at its end: Grain reads any record")
            if first.startswith(_GZIP):
                raise UserError(f"{path} is compressed: {_COMPRESSED} writes shards with an index")
            file = ChecksummedFile(raw)
            return shard_index.build_index(cast(BinaryIO, file), path), f"{file.crc32c:08x}"

    return write_index(folder, splits, read, f"{file_names.TEMP_PREFIX}{INDEX_DIR}")


def write_index(folder: str, splits: Mapping[str, Sequence[str]], read: Read, temporary: str) -> int:
    """Write the index of the shards in `folder`, by split; return the number of records.

    Splits that an earlier index lists are kept if their shards exist and none of them is written now. An index that
    exists stays as it is until all files of the new one are written, in the folder `temporary` inside `folder`. While
    they take its place there is no `index.json`, so that readers find no index.
    """
    list_path, above = storage.join(folder, LIST_PATH), storage.join(folder, temporary)
    old: dict[str, tuple[shard_index.IndexedShard, ...]] = {}
    with suppress(FileNotFoundError, CorruptDataError):
        old = shard_index.parse_index_json(storage.read_bytes(list_path), list_path)
    new = {name for names in splits.values() for name in names}
    kept = {split: shards for split, shards in old.items() if split not in splits and _is_intact(folder, shards, new)}

    def write_text(name: str) -> shard_index.IndexedShard:
        index, crc32c = read(name)
        storage.write_bytes(storage.join(above, text_path(name)), index.to_text(), sync=False)
        return shard_index.IndexedShard(name, len(index), index.shard_size, crc32c, f"{index.crc32c:08x}")

    def read_text(shard: shard_index.IndexedShard) -> shard_index.ShardIndex:
        path = storage.join(above, text_path(shard.file))
        return shard_index.parse_index(storage.read_bytes(path), path, shard.size_bytes, shard.records)

    listed: dict[str, tuple[shard_index.IndexedShard, ...]] = {}
    with storage.cleaning_up(lambda: storage.delete_tree(above)):
        with ThreadPoolExecutor(threads := core_count(), "shardmill-index") as pool:
            for split, names in splits.items():
                listed[split] = tuple(map_in_order(pool, write_text, names, 2 * threads))
        for split, shards in listed.items():
            write_bounds(storage.join(above, bounds_path(split)), shards, read_text)
        written = sorted(_index_names(listed))
        staged, paths = ([storage.join(parent, name) for name in written] for parent in (above, folder))
        storage.sync_files(staged)
        if storage.exists(list_path):
            storage.delete([list_path])
            storage.sync_directories(publication.list_folders_of([list_path], folder))
        storage.rename(staged, paths)
    stale = _index_names(old) - _index_names(kept | listed)
    storage.delete(storage.join(folder, name) for name in sorted(stale))
    storage.sync_directories(publication.list_folders_of(paths, folder))
    storage.write_bytes(list_path, shard_index.index_json(kept | listed))
    return sum(shard.records for shards in listed.values() for shard in shards)


def _is_intact(folder: str, shards: Sequence[shard_index.IndexedShard], new: set[str]) -> bool:
    """Return True if a split's shards exist, with their sizes, and none of them is in `new`."""
    paths = {storage.join(folder, shard.file): shard for shard in shards if file_names.is_file_name(shard.file)}
    if len(paths) < len(shards) or not new.isdisjoint(shard.file for shard in shards):
        return False
    with suppress(FileNotFoundError):
        return all(storage.size(path) == shard.size_bytes for path, shard in paths.items())
    return False


def _index_names(splits: Mapping[str, Iterable[shard_index.IndexedShard]]) -> set[str]:
    texts = {text_path(shard.file) for shards in splits.values() for shard in shards}
    return {name for name in {*texts, *map(bounds_path, splits)} if file_names.is_inside(name)}
