"""A Hugging Face tokenizer.json as text, which is what travels to workers.

Each process makes the tokenizer anew of that text, once: whatever is told on this machine holds on a cluster's.
"""

import hashlib
import json
import threading
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from shardmill.errors import UserError
from shardmill.installation.extras import install_hint

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_lock = threading.Lock()
_loaded: dict[tuple[str, int | None], "Tokenizer"] = {}  # in this process, by the digest of their text


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
        return _sha256(self.text)

    @property
    def size(self) -> int:
        """How many tokens its vocabulary has, those that were added to it too."""
        return self.load().get_vocab_size(with_added_tokens=True)

    @property
    def unheeded(self) -> list[str]:
        """What the file says that is passed over: of the lengths of lists, which flags say here; and of merges that are
        left out at random, for the same texts give the same bytes."""
        content = json.loads(self.text)
        random = ["dropout"] if content["model"].get("dropout") else []
        return [name for name in ("truncation", "padding") if content.get(name) is not None] + random

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
                if getattr(made.model, "dropout", None):
                    made.model.dropout = None
                if most is not None:
                    made.enable_truncation(most)
                _loaded[key] = made
            return _loaded[key]


@lru_cache(maxsize=8)
def _sha256(text: str) -> str:
    """Asked for each batch, of some megabytes."""
    return hashlib.sha256(text.encode()).hexdigest()
