"""Documents packed into blocks of tokens: how a document lies in a run, which tokens each shard has, and the blocks.

A document is the record of its tokens and of the end-of-text token behind them, four bytes each: so its framed size,
which the keys of a run tell, says how many tokens it has. A split is one stream of tokens, its documents in the order
of their keys, cut into blocks of exactly so many; a shard has a number of blocks that differs from others' by one at
most, and may begin and end within a document. Pure.
"""

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from shardmill.records.tfrecord import OVERHEAD
from shardmill.transforms.columns.buffers import buffer_items, offsets_of

_DTYPE = np.dtype("<u4")  # vocabularies have far fewer than 2**32 tokens


def documents(ids: pa.LargeListArray, end: int | None) -> pa.LargeBinaryArray:
    """The record of each document: the ids in its list, and `end`, if not None."""
    offsets = offsets_of(ids)
    values = buffer_items(ids.values.buffers()[1], np.int64, ids.values.offset, len(ids.values))
    values = values[offsets[0] : offsets[-1]]
    if end is not None:
        values = np.insert(values, offsets[1:] - offsets[0], end)
        offsets = offsets + np.arange(len(offsets))
    data = values.astype(_DTYPE)
    bounds = (offsets - offsets[0]) * _DTYPE.itemsize
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(ids), buffers)


def tokens_of(sizes: np.ndarray) -> np.ndarray:
    """How many tokens documents have whose records are of these framed sizes: int64, shape (n,)."""
    return (sizes.astype(np.int64) - OVERHEAD) // _DTYPE.itemsize


def tokens_in(documents: int, size_bytes: int) -> int:
    """How many tokens so many documents have whose records are of `size_bytes` in all."""
    return (size_bytes - documents * OVERHEAD) // _DTYPE.itemsize


def token_ids(data: np.ndarray) -> np.ndarray:
    """The tokens in the bytes of some records, without their frames: int64, shape (n,)."""
    return data.view(_DTYPE).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Share:
    """What a shard has of its split's stream of tokens.

    Attributes:
      skip: tokens of its first document that are the shard's before.
      blocks: how many it has.
    """

    skip: int
    blocks: int


def shares(tokens: np.ndarray, block: int, shards: int) -> tuple[list[int], list[Share]]:
    """The documents at which all shards but the first begin, and what each shard has.

    Args:
      tokens: of each document in the order of their keys, int64, shape (documents,), positive.
      block: tokens of a block.
      shards: how many; no more than there are blocks.

    What is left behind the last block is in none.
    """
    ends = np.cumsum(tokens)
    blocks = int(ends[-1]) // block
    firsts = [index * blocks // shards for index in range(shards + 1)]
    starts = np.array(firsts[:-1], np.int64) * block
    at = np.searchsorted(ends, starts, side="right")
    skips = starts - (ends - tokens)[at]
    each = [Share(skip, after - first) for skip, first, after in zip(skips.tolist(), firsts, firsts[1:], strict=False)]
    return at[1:].tolist(), each
