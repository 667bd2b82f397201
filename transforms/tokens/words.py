"""Text cut before words, where a tokenizer's tokens never reach from one word into the next: a word that stands in a
batch ten thousand times is then tokenized once.

Cut is before a single space between two characters that are none: there the expressions below end one match and begin
the next whatever lies further away, and so does the expression within ByteLevel. Pure.
"""

import json
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardmill.records import spans
from shardmill.transforms.columns.buffers import text_buffers

_CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_AFTER_NUMBERS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# Of the tokenizer.json of Llama 3 (OpenAI's cl100k_base) and of Qwen 2, which differ in how many digits are a token's
_EXPRESSIONS = tuple(
    rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{numbers}{_AFTER_NUMBERS}"
    for numbers in (r"\p{N}{1,3}", r"\p{N}")
)
_SPACE = ord(" ")
# White space beyond ASCII is of these first bytes in UTF-8 alone (Unicode's property White_Space: U+0085 and U+00A0,
# U+1680, U+2000 to U+205F, U+3000); no text is cut beside any character of theirs
_TWO, _THREE = 0xC2, (0xE1, 0xE2, 0xE3)
_BYTES = np.arange(256)
_OF_THREE = np.isin(_BYTES, _THREE)
_SEEN = (_BYTES > _SPACE) & (_BYTES < 0x7F)
_ENDS = _SEEN | (_BYTES >= 0x80)  # what a character may end with before a cut, if its first byte is none of those
_BEGINS = _SEEN | ((_BYTES > _TWO) & ~_OF_THREE)  # and begin with behind it


class Words(NamedTuple):
    """Texts as words.

    Attributes:
      different: each word once, large strings.
      codes: int32, the places in `different` of the words of all texts, one behind the other.
      firsts: int64, shape (texts + 1,), where the words of each text begin in `codes`.
    """

    different: pa.LargeStringArray
    codes: pa.Int32Array
    firsts: np.ndarray


def are_apart(tokenizer: str) -> bool:
    """Whether tokens never reach over a cut, by the text of a tokenizer.json: true of byte-level BPE as most language
    models of today have it; false wherever that is not known."""
    content = json.loads(tokenizer)
    model, normalizer = content.get("model") or {}, content.get("normalizer")
    return (
        model.get("type") == "BPE"
        and not model.get("dropout")  # which is random
        and (normalizer is None or normalizer == {"type": "NFC"})  # a space composes with nothing before it
        and _splits_at_words(content.get("pre_tokenizer") or {})
        and not any(_reaches_over(token) for token in content.get("added_tokens") or ())
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


def _reaches_over(token: dict[str, Any]) -> bool:
    """Whether an added token may have a cut within it, or take the space behind it."""
    content = token["content"]
    return bool(token.get("rstrip")) or any(before != " " and after == " " for before, after in pairwise(content))


def cut(texts: pa.LargeStringArray) -> Words | None:
    """The words of texts, none of them null; None where most words are different, as in languages without spaces:
    there is nothing to be had by it."""
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
    """Where cuts are, ascending: at spaces that stand alone."""
    spaces = spans.find(data, _SPACE)
    spaces = spaces[np.searchsorted(spaces, 1) : np.searchsorted(spaces, len(data) - 1)]
    before = data[spaces - 1]
    good = _BEGINS[data[spaces + 1]] & _ENDS[before]
    high = np.flatnonzero(good & (before >= 0x80))  # the last bytes of characters of two or more
    at = spaces[high]
    good[high] = (data[at - 2] != _TWO) & ~_OF_THREE[data[np.maximum(at - 3, 0)]]
    return spaces[good]
