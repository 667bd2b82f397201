"""The tokens that a tokenizer makes of texts."""

import os
from collections.abc import Mapping
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.transforms.columns.buffers import offsets_of
from shardmill.transforms.tokens.known_words import tokens_of
from shardmill.transforms.tokens.tokenizer import TokenizerFile
from shardmill.transforms.tokens.words import are_apart, cut

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
      refused: why the tokenizer makes no list of some, by their places.
    """

    ids: pa.LargeListArray
    lost: np.ndarray
    highest: np.ndarray
    refused: Mapping[int, str] = {}


class _RefusedError(Exception):
    """What tokenizers says of a text, among many, that it makes no tokens of."""


def encode(file: TokenizerFile, texts: pa.LargeStringArray, special: bool, most: int | None = None) -> Tokens:
    """The tokens of `texts`, none of them null, with the `special` ones that the tokenizer puts around each text or
    without; of each at most as many as `most`."""
    os.environ.setdefault(_PARALLELISM, "false")
    try:
        return _encode(file, texts, special, most)
    except _RefusedError:
        refused = _refused(file, texts, special)
    are_refused = np.zeros(len(texts), bool)
    are_refused[list(refused)] = True
    others = pc.if_else(pa.array(are_refused), "", texts)
    return _encode(file, others, special, most)._replace(refused=refused)


def _refused(file: TokenizerFile, texts: pa.LargeStringArray, special: bool) -> dict[int, str]:
    """Which texts are refused, and why: a word that is in no vocabulary, say, where no token stands for such."""
    refused = {}
    for place, text in enumerate(texts):
        try:
            _ids(file.load(), pa.array([text.as_py()], pa.large_string()), special)
        except _RefusedError as error:
            refused[place] = str(error)
    return refused


def _encode(file: TokenizerFile, texts: pa.LargeStringArray, special: bool, most: int | None) -> Tokens:
    found = _lists(file, texts, special)
    sizes = np.diff(found.offsets)
    lost = np.zeros(len(sizes), np.int64) if most is None else np.maximum(sizes - most, 0)
    long = np.flatnonzero(lost)
    if len(long):
        found = _replaced(found, long, _ids(file.load(most), texts.take(pa.array(long)), special))
    highest = _highest(found.flat, found.offsets)
    return Tokens(_array(found), lost, highest)


class _Lists(NamedTuple):
    """Lists one behind the other, int64, and where each begins; a last offset where the last ends."""

    flat: np.ndarray
    offsets: np.ndarray


def _lists(file: TokenizerFile, texts: pa.LargeStringArray, special: bool) -> _Lists:
    """The tokens of whole texts: of each word once, where tokens do not reach from word to word, and of none again that
    this process has met."""
    tokenizer = file.load()
    around = special and tokenizer.num_special_tokens_to_add(False)
    words = cut(texts) if _are_apart(file.text) and not around else None
    if words is None:
        return _ids(tokenizer, texts, special)
    key = f"{file.sha256} {special}"
    known = tokens_of(words.different, key, lambda new: _array(_ids(tokenizer, new, special)))
    lists = known.take(words.codes)
    return _Lists(lists.values.to_numpy(), offsets_of(lists)[words.firsts])


_are_apart = lru_cache(maxsize=8)(are_apart)  # asked for each batch


def _ids(tokenizer: "Tokenizer", texts: pa.LargeStringArray, special: bool) -> _Lists:
    try:
        encodings: list[Any] = tokenizer.encode_batch_fast(texts.to_pylist(), add_special_tokens=special)
    except Exception as error:  # tokenizers raises nothing narrower
        raise _RefusedError(" ".join(str(error).split())) from error
    lists = [encoding.ids for encoding in encodings]
    offsets = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(ids) for ids in lists], out=offsets[1:])
    return _Lists(np.fromiter(chain.from_iterable(lists), np.int64, int(offsets[-1])), offsets)


def _array(lists: _Lists) -> pa.LargeListArray:
    return pa.LargeListArray.from_arrays(pa.array(lists.offsets), pa.array(lists.flat))


def _replaced(lists: _Lists, places: np.ndarray, by: _Lists) -> _Lists:
    """`lists` with those at `places`, which ascend, replaced."""
    chosen = np.arange(len(lists.offsets) - 1)
    chosen[places] = len(chosen) + np.arange(len(places))
    offsets = np.concatenate((lists.offsets[:-1], lists.offsets[-1] + by.offsets))
    taken = _array(_Lists(np.concatenate((lists.flat, by.flat)), offsets)).take(pa.array(chosen))
    return _Lists(taken.values.to_numpy(), offsets_of(taken))


def _highest(flat: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The highest of each list; -1 of an empty one."""
    found = np.full(len(offsets) - 1, -1, np.int64)
    full = np.flatnonzero(np.diff(offsets))
    if len(full):
        found[full] = np.maximum.reduceat(flat, offsets[:-1][full])
    return found
