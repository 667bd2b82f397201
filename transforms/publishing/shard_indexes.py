"""The index of a version's records: the files in `index/`, made of what the writers of shards have noted."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import google_crc32c

from shardmill.data.shard_index import (
    BOUNDS_SUFFIX,
    INDEX_FILE,
    TEXT_SUFFIX,
    IndexedShard,
    ShardIndex,
    bounds_bytes,
    bounds_count,
    bounds_header,
    index_json,
    parse_index,
)
from shardmill.errors import CorruptDataError, JobError
from shardmill.metadata.file_names import INDEX_DIR
from shardmill.transforms.publishing import publication
from shardmill.transforms.publishing.description import PublishOptions
from shardmill.transforms.publishing.publication import Move
from shardmill.transforms.shards.sources import IndexPiece, ShardInfo
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.streams import write_stream
from shardmill.transforms.workers.running import map_in_order

LIST_PATH = f"{INDEX_DIR}/{INDEX_FILE}"
_THREADS = 16  # files that are read at once


def text_path(shard: str) -> str:
    """Return the name of a shard's text index in the version's folder."""
    return f"{INDEX_DIR}/{shard}{TEXT_SUFFIX}"


def bounds_path(split: str) -> str:
    """Return the name of a split's array in the version's folder."""
    return f"{INDEX_DIR}/{split}{BOUNDS_SUFFIX}"


def stage_index(
    shards: Sequence[ShardInfo], options: PublishOptions, folder: str
) -> tuple[dict[str, bytes], list[Move]]:
    """Stage the index of shards that were written with one in `folder`, in the version's folder.

    Returns:
        `index.json` by its name, and the moves of all other files of the index; both are empty without an index.
    """
    pieces = {str(shard.name): shard.index for shard in shards if shard.index is not None}
    if not pieces:
        return {}, []
    splits: dict[str, list[IndexedShard]] = {}
    for shard in shards:
        assert shard.index is not None
        name, bounds_crc32c = str(shard.name), f"{shard.index.bounds_crc32c:08x}"
        entry = IndexedShard(name, shard.examples, shard.size_bytes, f"{shard.crc32c:08x}", bounds_crc32c)
        splits.setdefault(shard.name.split, []).append(entry)
    files = {LIST_PATH: index_json(splits)}
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
    path: str, shards: Sequence[IndexedShard], read: Callable[[IndexedShard], ShardIndex]
) -> tuple[int, str]:
    """Write the array of a split to `path`; return its size and its crc32c.

    Args:
        read: returns the index of a shard; called in several threads.
    """
    count = bounds_count(shards)
    size_bytes = len(bounds_header(count)) + 8 * count
    checksum = 0

    def sum_up(chunks: Iterable[bytes]) -> Iterator[bytes]:
        nonlocal checksum
        for chunk in chunks:
            checksum = google_crc32c.extend(checksum, chunk)
            yield chunk

    with ThreadPoolExecutor(_THREADS, "shardmill-index") as pool:
        indexes = map_in_order(pool, read, shards, _THREADS)
        write_stream(path, sum_up(bounds_bytes(indexes, count)), size_bytes)
    return size_bytes, f"{checksum:08x}"


def _read_piece(pieces: dict[str, IndexPiece], shard: IndexedShard) -> ShardIndex:
    piece = pieces[shard.file]
    try:
        text = storage.read_bytes(piece.path)
        if google_crc32c.value(text) != piece.crc32c:
            raise CorruptDataError(f"{piece.path} has another checksum")
        return parse_index(text, piece.path, shard.size_bytes, shard.records)
    except (CorruptDataError, FileNotFoundError) as error:
        raise JobError(f"the index of {shard.file} is not what was written: {error}; nothing was published") from None
