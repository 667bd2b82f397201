"""Keys of rows, vectorised: from the texts of keys, from positions, and from nothing but the order of the input."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.records import spans
from shardmill.transforms.columns.buffers import data_of, offsets_of
from shardmill.transforms.contents.places import place_of
from shardmill.transforms.formats.base import FileRef


def hash_keys(texts: pa.LargeBinaryArray, seed: int) -> np.ndarray:
    """xxh3_64 of each of what transforms.columns.key_texts makes: uint64, shape (n,); that of no bytes where one is
    missing."""
    filled = pc.fill_null(texts, b"")
    offsets, data = offsets_of(filled), data_of(filled)
    return spans.hashes(data, offsets[:-1], offsets[1:], seed)


def position_ties(file: FileRef, lines: np.ndarray) -> np.ndarray:
    """A hash of each row's file and line: uint64, shape (n,), see shardmill.transforms.contents.places."""
    return place_of(file.name, lines)


def input_order(file: FileRef, lines: np.ndarray) -> np.ndarray:
    """Keys that sort as the input does: uint64, shape (n,), within the file's share of the key space.

    Where in its share a line falls is a guess (of 32 bytes a line) that need only be monotonic: it spreads keys over
    the histogram.
    """
    guess = file.size_bytes / 32 + 1
    return np.uint64(file.key_start) + (lines / (lines + guess) * file.key_span).astype(np.uint64)
