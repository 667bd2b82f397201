"""The tokens of words that this process has met: what stands in one batch of a data set mostly stands in the next.

Of each tokenizer some megabytes of words are kept. Tokens depend on the word alone, so whatever is kept, the same come
out.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MOST_BYTES = 32 << 20  # of a tokenizer's words and their tokens; where they are more, those of the last batch stay

Encode = Callable[[pa.LargeStringArray], pa.LargeListArray]


@dataclass(frozen=True, slots=True, eq=False)
class _Known:
    """Words, each once, and their tokens."""

    words: pa.LargeStringArray
    tokens: pa.LargeListArray

    @property
    def size_bytes(self) -> int:
        return self.words.nbytes + self.tokens.nbytes


_NONE = _Known(pa.array([], pa.large_string()), pa.array([], pa.large_list(pa.int64())))
# By what the tokens depend on. What threads put here at once is one thread's: the others' words are met again
_known: dict[str, _Known] = {}


def tokens_of(words: pa.LargeStringArray, key: str, encode: Encode) -> pa.LargeListArray:
    """The tokens of each of `words`, all of which differ: int64 lists.

    Args:
      words: none of them null.
      key: equal where `encode` gives the same tokens.
      encode: gives the tokens of words that are not known.
    """
    known = _known.get(key, _NONE)
    places = pc.index_in(words, value_set=known.words)
    new = places.is_null()
    different = words.filter(new)
    learned = _Known(pa.concat_arrays([known.words, different]), pa.concat_arrays([known.tokens, encode(different)]))
    at = places.fill_null(0).to_numpy().astype(np.int64)
    at[new.to_numpy(zero_copy_only=False)] = len(known.words) + np.arange(len(different))
    found = learned.tokens.take(pa.array(at))
    if learned.size_bytes > MOST_BYTES:
        learned = _Known(words, found)
    if learned.size_bytes <= MOST_BYTES:
        _known[key] = learned
    return found
