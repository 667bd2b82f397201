"""Keys of rows, vectorised: from a column's values, from positions, and from nothing but the order of the input."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from shardmill import spans
from transforms.blocks import FileRef
from transforms.value_hashes import offsets_and_data

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


def hash_values(column: pa.Array, seed: int) -> np.ndarray:
    """xxh3_64 of each value as text: uint64, shape (n,); that of no bytes where one is missing."""
    offsets, data = offsets_and_data(pc.fill_null(as_text(column), b""))
    return spans.hashes(data, offsets[:-1], offsets[1:], seed)


def as_text(column: pa.Array) -> pa.Array:
    """The values as bytes: numbers as Arrow writes them, a list by its only value or else by its values with commas between."""
    if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
        values = column.values if column.offset == 0 else pc.list_flatten(column)
        strings = as_text(values).cast(pa.string())
        lists = pa.LargeListArray.from_arrays(_list_offsets(column), strings)
        joined = pc.binary_join(lists, ",").cast(pa.large_binary())
        return pc.if_else(pc.is_valid(column), joined, pa.scalar(None, pa.large_binary()))
    if pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type):
        return column.cast(pa.large_binary())
    return column.cast(pa.string()).cast(pa.large_binary())


def _list_offsets(column: pa.Array) -> pa.Array:
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    return pa.array(np.concatenate(([0], np.cumsum(lengths, dtype=np.int64))), pa.int64())


def position_ties(file: FileRef, lines: np.ndarray) -> np.ndarray:
    """A hash of each row's file and line: uint64, shape (n,).

    splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014), a bijection, so that no two
    rows of a file share one.
    """
    start = np.uint64(xxhash.xxh3_64_intdigest(file.name.encode()))
    with np.errstate(over="ignore"):
        mixed = start + lines.astype(np.uint64) * _GOLDEN
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def input_order(file: FileRef, lines: np.ndarray) -> np.ndarray:
    """Keys that sort as the input does: uint64, shape (n,), within the file's share of the key space.

    Where in its share a line falls is a guess (of 32 bytes a line) that need only be monotonic: it spreads keys over the histogram.
    """
    guess = file.size_bytes / 32 + 1
    return np.uint64(file.key_start) + (lines / (lines + guess) * file.key_span).astype(np.uint64)
