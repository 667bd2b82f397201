"""Encode texts as the ids of their tokens."""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.addons.tokens.options import TokenizerFile
from shardmill.data import spans
from shardmill.transforms.columns.arrow import offsets_of, text_buffers

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_AFTER_NUMBERS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# Of the tokenizer.json of Llama 3 (OpenAI's cl100k_base) and of Qwen 2, which differ in how many digits are a token's
_EXPRESSIONS = tuple(
    rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{numbers}{_AFTER_NUMBERS}"
    for numbers in (r"\p{N}{1,3}", r"\p{N}")
)
_SPACE = ord(" ")
# White space beyond ASCII is of these first bytes in UTF-8 alone (Unicode's property White_Space: U+0085 and U+00A0,
# U+1680, U+2000 to U+205F, U+3000); no text is cut next to any of these characters
_TWO, _THREE = 0xC2, (0xE1, 0xE2, 0xE3)
_BYTES = np.arange(256)
_OF_THREE = np.isin(_BYTES, _THREE)
_SEEN = (_BYTES > _SPACE) & (_BYTES < 0x7F)
_ENDS = _SEEN | (_BYTES >= 0x80)  # what a character may end with before a cut, if its first byte is none of those
_BEGINS = _SEEN | ((_BYTES > _TWO) & ~_OF_THREE)  # and begin with behind it


class Words(NamedTuple):
    """Texts split into words."""

    distinct: pa.LargeStringArray  # the distinct words
    codes: pa.Int32Array  # index in `distinct` of each word of all texts
    text_starts: np.ndarray  # int64 (texts + 1,), start of each text in `codes`


@lru_cache(maxsize=8)  # asked for each batch
def has_separate_words(tokenizer: str) -> bool:
    """Return True if the tokens of this tokenizer.json never span a cut.

    True for byte-level BPE as in most of today's language models; False if it is not known.
    """
    content = json.loads(tokenizer)
    model, normalizer = content.get("model") or {}, content.get("normalizer")
    return (
        model.get("type") == "BPE"
        and not model.get("dropout")  # which is random
        and (normalizer is None or normalizer == {"type": "NFC"})  # a space composes with nothing before it
        and _splits_at_words(content.get("pre_tokenizer") or {})
        and not any(_spans_words(token) for token in content.get("added_tokens") or ())
    )


def _splits_at_words(pre_tokenizer: dict[str, Any]) -> bool:
    if pre_tokenizer.get("type") != "Sequence":
        return _is_byte_level(pre_tokenizer, splits=True)
    match pre_tokenizer.get("pretokenizers"):
        case [{"type": "Split", "pattern": {"Regex": regex}, "behavior": "Isolated", "invert": False}, last]:
            return regex in _EXPRESSIONS and _is_byte_level(last, splits=False)
    return False


def _is_byte_level(pre_tokenizer: dict[str, Any], splits: bool) -> bool:
    return (
        pre_tokenizer.get("type") == "ByteLevel"
        and pre_tokenizer.get("add_prefix_space") is False
        and pre_tokenizer.get("use_regex", True) is splits
    )


def _spans_words(token: dict[str, Any]) -> bool:
    """Return True if an added token may contain a cut, or consume the space after it."""
    content = token["content"]
    return bool(token.get("rstrip")) or any(before != " " and after == " " for before, after in pairwise(content))


def cut_words(texts: pa.LargeStringArray) -> Words | None:
    """Cut texts, none of them null, into words; return None if most are distinct, because then cutting saves nothing.

    A word that occurs ten thousand times in a batch is thus tokenized once. This requires a tokenizer whose tokens
    never span two words. Cuts are before a single space between two non-space characters. There the expressions in
    _EXPRESSIONS end one match and begin the next, whatever text is further away; so does the expression within
    ByteLevel.
    """
    data, bounds = text_buffers(texts)
    begins = np.concatenate((_cuts(data), bounds[:-1][np.diff(bounds) > 0], [len(data)]))
    begins.sort(kind="stable")  # of what is ascending twice, it takes no longer than to read it
    begins = begins[np.diff(begins, append=-1) != 0]
    buffers = [None, pa.py_buffer(begins), pa.py_buffer(data)]
    words = pa.Array.from_buffers(pa.large_string(), len(begins) - 1, buffers).dictionary_encode()
    if 2 * len(words.dictionary) > len(words):
        return None
    return Words(words.dictionary, words.indices, np.searchsorted(begins, bounds))


def _cuts(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.int64]:
    """Return the positions, ascending, at which texts are cut into words: single spaces between other characters."""
    spaces = spans.find(data, _SPACE)
    spaces = spaces[np.searchsorted(spaces, 1) : np.searchsorted(spaces, len(data) - 1)]
    before = data[spaces - 1]
    good = _BEGINS[data[spaces + 1]] & _ENDS[before]
    high = np.flatnonzero(good & (before >= 0x80))  # the last bytes of characters of two or more
    at = spaces[high]
    good[high] = (data[at - 2] != _TWO) & ~_OF_THREE[data[np.maximum(at - 3, 0)]]
    return spaces[good]


MOST_BYTES = 32 << 20  # of a tokenizer's words and their tokens; where they are more, those of the last batch stay

Encode = Callable[[pa.LargeStringArray], pa.LargeListArray]


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    words: pa.LargeStringArray
    tokens: pa.LargeListArray

    @property
    def size_bytes(self) -> int:
        return self.words.nbytes + self.tokens.nbytes


_EMPTY = _Known(pa.array([], pa.large_string()), pa.array([], pa.large_list(pa.int64())))
# By what the tokens depend on. What threads put here at once is one thread's: the others' words are met again
_known: dict[str, _Known] = {}


def cached_tokens(words: pa.LargeStringArray, key: str, encode: Encode) -> pa.LargeListArray:
    """Return the tokens of distinct `words`, from the cache where possible: int64 lists.

    Most words in one batch of a data set occur in the next. Some megabytes of words are kept for each `key`, which
    names a tokenizer and its settings. `encode` is called for new words. Tokens depend on the word alone, so the cache
    never changes the result.
    """
    known = _known.get(key, _EMPTY)
    indices = pc.index_in(words, value_set=known.words)
    new = indices.is_null()
    different = words.filter(new)
    new_tokens = _Known(pa.concat_arrays([known.words, different]), pa.concat_arrays([known.tokens, encode(different)]))
    at = indices.fill_null(0).to_numpy().astype(np.int64)
    at[new.to_numpy(zero_copy_only=False)] = len(known.words) + np.arange(len(different))
    found = new_tokens.tokens.take(pa.array(at))
    if new_tokens.size_bytes > MOST_BYTES:
        new_tokens = _Known(words, found)
    if new_tokens.size_bytes <= MOST_BYTES:
        _known[key] = new_tokens
    return found


# Of tokenizers, whether one call uses all cores. Here each thread has a batch of its own, so cores are busy already.
_PARALLELISM = "TOKENIZERS_PARALLELISM"


class Tokens(NamedTuple):
    """The token ids of some texts."""

    ids: pa.LargeListArray  # int64 lists, one a text
    cut_tokens: np.ndarray  # int64 (texts,), tokens cut off each text
    max_ids: np.ndarray  # int64 (texts,), highest id of each text; -1 without tokens
    errors: Mapping[int, str] = {}  # the tokenizer's error, by index of the text


class _RefusedError(Exception):
    """The tokenizer's error for one of many texts."""


def encode(
    file: TokenizerFile, texts: pa.LargeStringArray, add_special_tokens: bool, max_tokens: int | None = None
) -> Tokens:
    """Encode `texts`, none of them null, to at most `max_tokens` each, with the special tokens around them if asked."""
    os.environ.setdefault(_PARALLELISM, "false")
    try:
        return _encode(file, texts, add_special_tokens, max_tokens)
    except _RefusedError:
        errors = _find_errors(file, texts, add_special_tokens)
    are_refused = np.zeros(len(texts), bool)
    are_refused[list(errors)] = True
    accepted = pc.if_else(pa.array(are_refused), "", texts)
    return _encode(file, accepted, add_special_tokens, max_tokens)._replace(errors=errors)


def _find_errors(file: TokenizerFile, texts: pa.LargeStringArray, add_special_tokens: bool) -> dict[int, str]:
    """Return the tokenizer's errors by index, such as of a word that is unknown to it, without an unknown token."""
    errors = {}
    for index, text in enumerate(texts):
        try:
            _encode_whole_texts(file.load(), pa.array([text.as_py()], pa.large_string()), add_special_tokens)
        except _RefusedError as error:
            errors[index] = str(error)
    return errors


def _encode(
    file: TokenizerFile, texts: pa.LargeStringArray, add_special_tokens: bool, max_tokens: int | None
) -> Tokens:
    ids = _encode_lists(file, texts, add_special_tokens)
    sizes = np.diff(offsets_of(ids))
    lost = np.zeros(len(sizes), np.int64) if max_tokens is None else np.maximum(sizes - max_tokens, 0)
    long = np.flatnonzero(lost)
    if len(long):
        cut = _encode_whole_texts(file.load(max_tokens), texts.take(pa.array(long)), add_special_tokens)
        chosen = np.arange(len(ids))
        chosen[long] = len(ids) + np.arange(len(long))
        ids = pa.concat_arrays([ids, cut]).take(pa.array(chosen))
    return Tokens(ids, lost, _max_per_list(ids))


def _encode_lists(file: TokenizerFile, texts: pa.LargeStringArray, add_special_tokens: bool) -> pa.LargeListArray:
    """Return the tokens of whole texts.

    If tokens never span two words, each distinct word is tokenized once, and words known to this process not at all.
    """
    tokenizer = file.load()
    around = add_special_tokens and tokenizer.num_special_tokens_to_add(False)
    words = cut_words(texts) if has_separate_words(file.text) and not around else None
    if words is None:
        return _encode_whole_texts(tokenizer, texts, add_special_tokens)
    key = f"{file.sha256} {file.special_as_text} {add_special_tokens}"
    known = cached_tokens(words.distinct, key, lambda new: _encode_whole_texts(tokenizer, new, add_special_tokens))
    lists = known.take(words.codes)
    return pa.LargeListArray.from_arrays(pa.array(offsets_of(lists)[words.text_starts]), lists.values)


def _encode_whole_texts(
    tokenizer: "Tokenizer", texts: pa.LargeStringArray, add_special_tokens: bool
) -> pa.LargeListArray:
    try:
        encodings: list[Any] = tokenizer.encode_batch_fast(texts.to_pylist(), add_special_tokens=add_special_tokens)
    except Exception as error:  # tokenizers raises nothing narrower
        raise _RefusedError(" ".join(str(error).split())) from error
    lists = [encoding.ids for encoding in encodings]
    offsets = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(ids) for ids in lists], out=offsets[1:])
    flat = np.fromiter(chain.from_iterable(lists), np.int64, int(offsets[-1]))
    return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(flat))


def _max_per_list(ids: pa.LargeListArray) -> np.ndarray:
    offsets = offsets_of(ids)
    flat = ids.values.to_numpy()[: offsets[-1]]
    found = np.full(len(ids), -1, np.int64)
    full = np.flatnonzero(np.diff(offsets))
    if len(full):
        found[full] = np.maximum.reduceat(flat, offsets[:-1][full])
    return found


def find_special_tokens(file: TokenizerFile, column: pa.Array) -> list[tuple[int, str]]:
    """Return the row and name of each special token that is written in a text, and so becomes that token."""
    pattern = special_token_pattern(file)
    if not pattern:
        return []
    texts = column.cast(pa.large_binary())
    rows = np.flatnonzero(pc.match_substring_regex(texts, pattern).fill_null(False).to_numpy(zero_copy_only=False))
    return [
        (row, token.decode()) for row in rows.tolist() for token in re.findall(pattern.encode(), texts[row].as_py())
    ]


@lru_cache(maxsize=8)
def special_token_pattern(file: TokenizerFile) -> str:
    """Return a regular expression, for RE2 and Python, of the special tokens that texts can contain; "" without."""
    tokens = sorted(filter(None, file.special_tokens_in_texts), key=len, reverse=True)
    return "|".join(re.sub(r"([!-/:-@[-`{-~])", r"\\\1", token) for token in tokens)


def decode_texts(column: pa.Array) -> tuple[pa.LargeStringArray, np.ndarray]:
    """Return texts, "" where missing or not UTF-8, and flags of those that are not UTF-8: bool, shape (rows,)."""
    filled = column.cast(pa.large_binary()).fill_null(b"")
    try:
        return filled.cast(pa.large_string()), np.zeros(len(column), bool)
    except pa.ArrowInvalid:
        # Other bytes replace those that are not UTF-8
        invalid = np.array([data.decode(errors="replace").encode() != data for data in filled.to_pylist()])
    return pc.if_else(pa.array(invalid), b"", filled).cast(pa.large_string()), invalid
