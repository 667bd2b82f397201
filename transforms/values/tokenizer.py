"""A Hugging Face tokenizer.json as text, which is sent to workers.

Each process builds the tokenizer from the text once, so a cluster's workers need no access to the file.
"""

import hashlib
import json
import threading
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from shardmill.errors import UserError
from shardmill.installed import install_hint

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_lock = threading.Lock()
_loaded: dict[tuple[str, bool, int | None], "Tokenizer"] = {}  # in this process, by the digest of their text


@dataclass(frozen=True, slots=True)
class TokenizerFile:
    """The contents of a tokenizer.json."""

    name: str
    text: str
    special_as_text: bool = False  # encode special tokens that occur in a text like any other characters

    @classmethod
    def from_bytes(cls, name: str, data: bytes) -> "TokenizerFile":
        """Return the tokenizer in a file of these bytes; raise UserError if they are none, or tokenizers is missing."""
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
        return _sha256(self.text)

    @property
    def vocabulary_size(self) -> int:
        """The size of the vocabulary, including added tokens."""
        return self.load().get_vocab_size(with_added_tokens=True)

    @property
    def ignored_settings(self) -> list[str]:
        """The names of the file's settings that are ignored.

        Flags set truncation and padding. Dropout leaves out merges at random, but equal texts must give equal bytes.
        """
        content = json.loads(self.text)
        random = ["dropout"] if content["model"].get("dropout") else []
        return [name for name in ("truncation", "padding") if content.get(name) is not None] + random

    def to_json(self) -> dict[str, str]:
        return {"name": self.name, "sha256": self.sha256}

    def id_of(self, token: str) -> int | None:
        """Return the id of a token; None if it is not in the vocabulary."""
        return self.load().token_to_id(token)

    def format_token(self, number: int) -> str:
        """Return the token of an id, quoted, for messages; only the id if it has no token."""
        found = self.load().id_to_token(number)
        return f"id {number}" if found is None else f"{found!r}, id {number},"

    def special_tokens(self) -> list[str]:
        """Return the special tokens, in the order of their ids."""
        added = self.load().get_added_tokens_decoder()
        return [token.content for _, token in sorted(added.items()) if token.special]

    @property
    def special_tokens_in_texts(self) -> list[str]:
        """The special tokens whose characters in a text become that token; a word of the vocabulary always does."""
        return [token for token in self.special_tokens() if self._makes_of_text(token)]

    def _makes_of_text(self, token: str) -> bool:
        try:
            return self.id_of(token) in self.load().encode(token, add_special_tokens=False).ids
        except Exception:  # of a tokenizer without an unknown token, which refuses the text
            return False

    def load(self, max_length: int | None = None) -> "Tokenizer":
        """Return the tokenizer, built once in each process; raise UserError if the text is not a tokenizer.json.

        `max_length` limits token lists, including the special tokens around texts.
        """
        from tokenizers import Tokenizer

        key = self.sha256, self.special_as_text, max_length
        with _lock:
            if key not in _loaded:
                try:
                    tokenizer = Tokenizer.from_str(self.text)
                except Exception as error:  # tokenizers raises nothing narrower
                    message = " ".join(str(error).split())
                    raise UserError(
                        f"--tokenizer {self.name} is no tokenizer.json of Hugging Face's tokenizers: {message}"
                    ) from None
                tokenizer.encode_special_tokens = self.special_as_text
                tokenizer.no_truncation()
                tokenizer.no_padding()
                if getattr(tokenizer.model, "dropout", None):
                    tokenizer.model.dropout = None
                if max_length is not None:
                    tokenizer.enable_truncation(max_length)
                _loaded[key] = tokenizer
            return _loaded[key]


@lru_cache(maxsize=8)
def _sha256(text: str) -> str:
    """Return the SHA-256 of a text of some megabytes; cached because it is needed for each batch."""
    return hashlib.sha256(text.encode()).hexdigest()
