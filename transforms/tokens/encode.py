"""The tokens that a tokenizer makes of texts."""

import os
from collections.abc import Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from transforms.tokens.tokenizer import TokenizerFile

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Of tokenizers, whether one call uses all cores. Here each thread has a batch of its own, so cores are busy already.
_PARALLELISM = "TOKENIZERS_PARALLELISM"


class Tokens(NamedTuple):
    """The tokens of some texts.

    Attributes:
      ids: int64 lists, one a text.
      lost: int64, shape (texts,), how many were cut off each.
      highest: int64, shape (texts,), the highest id of each; -1 where there is none.
    """

    ids: pa.LargeListArray
    lost: np.ndarray
    highest: np.ndarray


def encode(file: TokenizerFile, texts: Sequence[str], special: bool, most: int | None = None) -> Tokens:
    """The tokens of `texts`, with the `special` ones that the tokenizer puts around each text or without; of each
    at most as many as `most`."""
    os.environ.setdefault(_PARALLELISM, "false")
    lists = _ids(file.load(), texts, special)
    sizes = _sizes(lists)
    lost = np.zeros(len(lists), np.int64) if most is None else np.maximum(sizes - most, 0)
    long = np.flatnonzero(lost).tolist()
    for place, ids in zip(long, _ids(file.load(most), [texts[place] for place in long], special), strict=True):
        lists[place] = ids
    sizes = _sizes(lists)
    flat = np.fromiter(chain.from_iterable(lists), np.int64, int(sizes.sum()))
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(sizes)))
    highest = _highest(flat, offsets)
    return Tokens(pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(flat)), lost, highest)


def _ids(tokenizer: "Tokenizer", texts: Sequence[str], special: bool) -> list[list[int]]:
    encodings: list[Any] = tokenizer.encode_batch_fast(list(texts), add_special_tokens=special) if texts else []
    return [encoding.ids for encoding in encodings]


def _sizes(lists: Sequence[list[int]]) -> np.ndarray:
    return np.fromiter(map(len, lists), np.int64, len(lists))


def _highest(flat: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The highest of each list; -1 of an empty one."""
    found = np.full(len(offsets) - 1, -1, np.int64)
    full = np.flatnonzero(np.diff(offsets))
    if len(full):
        found[full] = np.maximum.reduceat(flat, offsets[:-1][full])
    return found
