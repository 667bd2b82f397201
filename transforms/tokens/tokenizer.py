"""A Hugging Face tokenizer.json as text, which is what travels to workers, and the tokens that it makes of texts.

Each process makes the tokenizer anew of that text, once: whatever is told on this machine holds on a cluster's.
"""

import hashlib
import json
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pyarrow as pa

from shardmill.errors import UserError
from shardmill.installation.extras import install_hint

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Of tokenizers, whether one call uses all cores. Here each thread has a batch of its own, so cores are busy already.
_PARALLELISM = "TOKENIZERS_PARALLELISM"
_lock = threading.Lock()
_loaded: dict[tuple[str, int | None], "Tokenizer"] = {}  # in this process, by the digest of their text


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


@dataclass(frozen=True, slots=True)
class TokenizerFile:
    """A tokenizer.json.

    Attributes:
      name: of the file.
      text: of it.
    """

    name: str
    text: str

    @classmethod
    def of(cls, name: str, data: bytes) -> "TokenizerFile":
        """The tokenizer in a file of these bytes; raises a UserError where they are none, or tokenizers is not
        installed."""
        if find_spec("tokenizers") is None:
            raise UserError(f"--tokenizer needs Hugging Face's tokenizers; {install_hint('tokenizers')}")
        try:
            file = cls(name, data.decode())
        except UnicodeDecodeError as error:
            raise UserError(
                f"--tokenizer {name} is no text in UTF-8: {error}; expected a tokenizer.json, as Hugging Face's"
                " tokenizers saves it"
            ) from None
        file.load()
        return file

    @property
    def sha256(self) -> str:
        """Of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def size(self) -> int:
        """How many tokens its vocabulary has, those that were added to it too."""
        return self.load().get_vocab_size(with_added_tokens=True)

    @property
    def unheeded(self) -> list[str]:
        """What the file says of the lengths of lists, which flags say here."""
        content = json.loads(self.text)
        return [name for name in ("truncation", "padding") if content.get(name) is not None]

    def to_json(self) -> dict[str, str]:
        """As it stands in manifest.json."""
        return {"name": self.name, "sha256": self.sha256}

    def id_of(self, token: str) -> int | None:
        """The id of a token; None where the vocabulary has none of that name."""
        return self.load().token_to_id(token)

    def token(self, number: int) -> str:
        """The token of an id, in quotes; only the id where it has none."""
        found = self.load().id_to_token(number)
        return f"id {number}" if found is None else f"{found!r}, id {number},"

    def special_tokens(self) -> list[str]:
        """The tokens that stand for no text, by their ids."""
        added = self.load().get_added_tokens_decoder()
        return [token.content for _, token in sorted(added.items()) if token.special]

    def load(self, most: int | None = None) -> "Tokenizer":
        """The tokenizer, which a process makes once, and which cuts lists at `most` tokens, those that it puts around
        texts among them; raises a UserError where the text is none."""
        from tokenizers import Tokenizer

        key = self.sha256, most
        with _lock:
            if key not in _loaded:
                try:
                    made = Tokenizer.from_str(self.text)
                except Exception as error:  # tokenizers raises nothing narrower
                    said = " ".join(str(error).split())
                    raise UserError(
                        f"--tokenizer {self.name} is no tokenizer.json of Hugging Face's tokenizers: {said}"
                    ) from None
                made.no_truncation()
                made.no_padding()
                if most is not None:
                    made.enable_truncation(most)
                _loaded[key] = made
            return _loaded[key]

    def encode(self, texts: Sequence[str], special: bool, most: int | None = None) -> Tokens:
        """The tokens of `texts`, with the `special` ones that the tokenizer puts around each text or without; of each
        at most as many as `most`."""
        os.environ.setdefault(_PARALLELISM, "false")
        lists = _ids(self.load(), texts, special)
        sizes = _sizes(lists)
        lost = np.zeros(len(lists), np.int64) if most is None else np.maximum(sizes - most, 0)
        long = np.flatnonzero(lost).tolist()
        for place, ids in zip(long, _ids(self.load(most), [texts[place] for place in long], special), strict=True):
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
