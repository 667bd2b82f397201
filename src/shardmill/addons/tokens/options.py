"""Options that turn texts into tokens, and the Hugging Face tokenizer.json that they name.

The tokenizer is sent to workers as text, and each process builds it once, so workers need no access to the file.
"""

import hashlib
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from shardmill.errors import UserError
from shardmill.installed import install_hint
from shardmill.text import END_MARKS
from shardmill.transforms.features.options import AddOnOptions
from shardmill.transforms.options.declare import newer_flag, newer_name_flag, read_option_file

if TYPE_CHECKING:
    from tokenizers import Tokenizer

    from shardmill.pipelines.config.records import RecordsConfig

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


def read_tokenizer(value: Any) -> Any:
    """Return the TokenizerFile at a path; raise UserError if it cannot be read, or is not a tokenizer."""
    if isinstance(value, TokenizerFile):
        return value
    return TokenizerFile.from_bytes(str(value).rpartition("/")[2], read_option_file("tokenizer", str(value)))


def _at_least(least: int) -> Any:
    return lambda number: None if number >= least else f"expected at least {least}"


@dataclass(frozen=True, kw_only=True)
class TokenOptions(AddOnOptions):
    """Flags that convert texts to token ids."""

    title: ClassVar[str] = "tokens"
    precedes: ClassVar[str] = "delimiter"
    rows: ClassVar[str] = "tokens.rows.Tokenization"
    quantity: ClassVar[str] = "tokens"
    libraries: ClassVar[tuple[str, ...]] = ("tokenizers",)
    derived: ClassVar[Mapping[str, str]] = {"tokenizer": "tokens (tokenizer)"}
    short_help: ClassVar[Mapping[str, tuple[tuple[str, ...], *tuple[str, ...]]]] = {
        "text": (
            ("tokenizer", "pack_to"),
            "--input corpus --output datasets --name blocks --tokenizer tokenizer.json --pack_to 512 --end_of_text"
            " '</s>'",
        )
    }

    tokenizer: Any = newer_flag(
        None,
        "Hugging Face tokenizer.json that turns texts into the feature input_ids",
        parse=read_tokenizer,
        reads_file=True,
        metavar="FILE",
    )
    tokenize: str | None = newer_name_flag(
        None, "Column with the texts to tokenize", default_words="text, the lines of text files"
    )
    max_length: int | None = newer_flag(
        None, "Maximum number of tokens of an example; longer texts are cut", check=_at_least(1)
    )
    pack_to: int | None = newer_flag(
        None,
        "Number of tokens of a block: texts are joined, each with an end-of-text token, and cut into"
        " blocks of this size",
        check=_at_least(2),
    )
    end_of_text: str | None = newer_flag(
        None,
        "Token that ends each text, for --pack_to",
        default_words="the tokenizer's, if it is known",
        metavar="TOKEN",
    )
    special_tokens: str = newer_flag(
        "token",
        "Encoding of special tokens in texts, such as <|endoftext|>: as the token, or as ordinary text",
        choices=("token", "text"),
    )
    keep_text: bool = newer_flag(False, "Store the text in addition to its input_ids")

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("tokenize", "max_length", "pack_to", "end_of_text", "special_tokens", "keep_text"):
            if self.tokenizer is None and getattr(self, name) not in (None, False, "token"):
                raise UserError(f"--{name} needs --tokenizer, a tokenizer.json of Hugging Face's tokenizers")
        if self.end_of_text is not None and self.pack_to is None:
            raise UserError("--end_of_text needs --pack_to: an example that is one text ends where its tokens end")
        if self.keep_text and self.pack_to is not None:
            raise UserError("--keep_text and --pack_to: a block has parts of several texts; leave one of them out")
        if self.tokenizer is not None and self.pack_to is not None:
            _ = self.end_token  # sought to be checked
        if self.max_length is not None and self.pack_to is None:
            around = self.tokenizer.load().num_special_tokens_to_add(False)
            if self.max_length <= around:
                raise UserError(
                    f"--max_length {self.max_length}: {self.tokenizer.name} puts {around} tokens around each text, so"
                    " nothing of the text is left"
                )

    @property
    def end_token(self) -> tuple[str, int]:
        """The token after each packed text, and its id; raises UserError if unknown or not in the vocabulary."""
        file: TokenizerFile = self.tokenizer
        token = self.end_of_text
        if token is None:
            known = [name for name in file.special_tokens() if name in END_MARKS]
            if len(known) != 1:
                special = file.special_tokens()
                has = f"has the special tokens {', '.join(special)}" if special else "has no special tokens"
                raise UserError(
                    f"--pack_to needs --end_of_text, the token between texts: {file.name} {has}, and none of them is"
                    " known to be the one" + (" alone" if known else "")
                )
            token = known[0]
        number = file.id_of(token)
        if number is None:
            raise UserError(f"--end_of_text {token}: {file.name} has no such token")
        if number >= file.vocabulary_size:
            raise UserError(
                f"--end_of_text {token}: its id, {number:,}, is above the vocabulary of {file.name}, whose"
                f" {file.vocabulary_size:,} tokens have the ids from 0"
            )
        return token, number

    def check(self, config: "RecordsConfig") -> None:
        if config.analysis is not None:
            flag = config.analysis.flag
            raise UserError(f"--tokenizer and {flag}: texts become tokens or what it says; leave one out")
        if self.pack_to is not None:
            self._check_packing(config)
        if config.languages and self.tokenize is not None:
            raise UserError(
                f"--tokenize {self.tokenize} and --input {config.languages[0]}=…: the texts of all files are"
                " tokenized; leave it out"
            )

    def _check_packing(self, config: "RecordsConfig") -> None:
        for other in ("label", "label_separator", "stratify_by", "line_numbers"):
            if getattr(config, other):
                raise UserError(
                    f"--pack_to and --{other}: a block joins several texts, so it has no column of one;"
                    " leave one of them out"
                )
        if config.balance == "bytes":
            raise UserError(
                f"--balance bytes: with --pack_to all examples have {self.pack_to:,} tokens, and shards are equal in"
                " these; leave it out"
            )
        if config.languages:
            raise UserError(
                f"--pack_to and --input {config.languages[0]}=…: blocks are cut from one text after the other, which"
                f" would part the {len(config.languages)} of an example that belong together; leave it out"
                " (--max_length cuts each text, shardmill.load(…, pad=True) fills each batch up to its longest), or,"
                " for a language model, write the texts of an example into one line of one file, which packs"
            )


OPTIONS = TokenOptions
