"""Find where the records of a version's shards begin: in its index, or by reading the shards."""

import os
import posixpath
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from shardmill.data import shard_index
from shardmill.data.tfrecord import OVERHEAD
from shardmill.errors import CorruptDataError
from shardmill.filesystem import LocalFiles
from shardmill.metadata.manifest import ShardEntry
from shardmill.reading.dataset import Dataset, read_shard
from shardmill.reading.slices import ShardSlice

_THREADS = 32  # that read objects in a store


class IndexPlace(NamedTuple):
    """The place of a shard's index: a .npy file, the shards that it is of, and the shard's number among them."""

    path: str
    shards: tuple[shard_index.IndexedShard, ...]
    number: int


def find_index(dataset: Dataset, shards: Sequence[ShardEntry]) -> dict[ShardEntry, IndexPlace] | None:
    """Return the place of the index of each shard; None if the data set has no index.

    Raises:
        CorruptDataError: if the index is damaged, or of another build.
    """
    folder = posixpath.join(dataset.directory, shard_index.INDEX_FOLDER)
    path = posixpath.join(folder, shard_index.INDEX_FILE)
    try:
        text = dataset.metadata(f"{shard_index.INDEX_FOLDER}/{shard_index.INDEX_FILE}")
    except FileNotFoundError:
        return None
    known = {
        (one.file, one.records, one.size_bytes, one.crc32c): IndexPlace(
            posixpath.join(folder, split + shard_index.BOUNDS_SUFFIX), entries, number
        )
        for split, entries in shard_index.parse_index_json(text, path).items()
        for number, one in enumerate(entries)
    }
    found = {}
    for shard in shards:
        place = known.get((shard.file, shard.examples, shard.size_bytes, shard.crc32c))
        if place is None:
            raise CorruptDataError(
                f"{path} does not list {shard.file} as the manifest does: it is of another build; {shard_index.REMEDY}"
            )
        found[shard] = place
    return found


def open_indexes(
    dataset: Dataset, shards: Sequence[ShardEntry]
) -> tuple[list[shard_index.Positions | range | None], list[tuple[shard_index.SplitIndex, int]]]:
    """Return the bounds of the records of each shard; or, for each shard, the index of its split, and its place in it.

    Without an index in the data set, all shards are read. In shards with an index of their own, bounds are the numbers
    of the records. Raise a CorruptDataError if the index is damaged or of another build, or a shard is damaged.
    """
    if dataset.manifest.codec.has_index:
        return [range(shard.examples + 1) for shard in shards], []
    places = find_index(dataset, shards)
    if places is None:
        at_once = (os.cpu_count() or 1) if isinstance(dataset.files, LocalFiles) else _THREADS
        with ThreadPoolExecutor(at_once, "shardmill-index") as pool:
            return list(pool.map(lambda shard: _find_bounds(dataset, shard), shards)), []
    files = {place.path: place.shards for place in places.values()}
    opened = {path: shard_index.SplitIndex(path, entries, dataset.files) for path, entries in files.items()}
    return [None] * len(shards), [(opened[places[shard].path], places[shard].number) for shard in shards]


def find_offsets(dataset: Dataset, slices: Sequence[ShardSlice]) -> dict[ShardSlice, int]:
    """Return at which byte of its shard each slice begins, except those that begin with it; none without an index.

    Raises:
        CorruptDataError: if the index is damaged or of another build.
    """
    later = [piece for piece in dict.fromkeys(slices) if piece.start]
    if not later or not dataset.manifest.codec.keeps_offsets:
        return {}
    places = find_index(dataset, [piece.shard for piece in later])
    if places is None:
        return {}

    def find(piece: ShardSlice) -> int:
        return int(shard_index.read_shard_index(*places[piece.shard], dataset.files).bounds[piece.start])

    with ThreadPoolExecutor(_THREADS, "shardmill-index") as pool:
        return dict(zip(later, pool.map(find, later), strict=True))


def _find_bounds(dataset: Dataset, shard: ShardEntry) -> shard_index.Positions:
    """Return where each record of a shard begins, and the end of the last; the shard is read and verified."""
    sizes = [block.ends - block.starts + OVERHEAD for block in read_shard(dataset, shard)]
    return np.cumsum(np.concatenate([np.zeros(1, np.int64), *sizes]))
