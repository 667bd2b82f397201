"""The texts of columns as lists of token ids: what a user asks for, and what becomes of a batch of rows. Pure."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.transforms.tokens.encode import Tokens, encode
from shardmill.transforms.tokens.tokenizer import TokenizerFile

INPUT_IDS = "input_ids"  # as Hugging Face's models call them
TOKENS, CUT, LOST = "tokens", "cut", "lost"  # what is counted: tokens that are left, texts that are cut, tokens lost
Reject = Callable[[np.ndarray, Callable[[int], str]], None]


@dataclass(frozen=True, slots=True)
class Tokenization:
    """What becomes of texts.

    Attributes:
      file: the tokenizer.
      columns: that hold the texts: one, or those of parallel texts.
      max_length: tokens of an example, at most.
      pack_to: tokens of each block that documents are packed into; None where each example is one text.
      end: the id of the token behind each document, where they are packed.
      keep_text: whether the text stays beside its tokens.
    """

    file: TokenizerFile
    columns: tuple[str, ...]
    max_length: int | None = None
    pack_to: int | None = None
    end: int | None = None
    keep_text: bool = False

    @property
    def is_packed(self) -> bool:
        """Whether examples are blocks of documents."""
        return self.pack_to is not None

    @property
    def ids(self) -> dict[str, str]:
        """What the tokens of each column are called."""
        if len(self.columns) == 1:
            return {self.columns[0]: INPUT_IDS}
        return {column: f"{INPUT_IDS}_{column}" for column in self.columns}


@dataclass(frozen=True, slots=True, eq=False)
class Tokenized:
    """The rows of a batch with their tokens.

    Attributes:
      batch: with the columns of tokens beside.
      lost: by what these are called, tokens cut off each text: int64, shape (rows,).
    """

    batch: pa.RecordBatch
    lost: dict[str, np.ndarray]

    def counts(self, good: np.ndarray) -> Counter[str]:
        """What is counted of those rows that are good, bool of shape (rows,)."""
        counts: Counter[str] = Counter()
        for name, every in self.lost.items():
            lost, sizes = every[good], pc.list_value_length(self.batch[name]).to_numpy()
            counts.update({TOKENS: int(sizes[good].sum()), CUT: int((lost > 0).sum()), LOST: int(lost.sum())})
        return counts


def tokenize(batch: pa.RecordBatch, how: Tokenization, reject: Reject) -> Tokenized:
    """Add the tokens of each row; `reject` is told which rows have none, and why.

    A row without text is left empty and rejected; so is one whose text is not UTF-8, of which no token is made, or one
    of whose tokens has an id that the vocabulary does not reach, for which a model has no embedding.
    """
    lost = {}
    for column, name in how.ids.items():
        made = _tokens(batch[column], column, how, reject)
        batch = batch.append_column(name, made.ids)
        lost[name] = made.lost
    return Tokenized(batch, lost)


def _tokens(column: pa.Array, name: str, how: Tokenization, reject: Reject) -> Tokens:
    missing = column.is_null().to_numpy(zero_copy_only=False)
    reject(missing, lambda _: f"no text: column {name!r} has no value")
    texts, invalid = _texts(column)
    reject(invalid, lambda _: f"the text in column {name!r} is not UTF-8, which a tokenizer reads")
    made = encode(how.file, texts, special=not how.is_packed, most=how.max_length)
    vocabulary = how.file.size
    said = f"{name!r}: " if len(how.columns) > 1 else ""
    refused = np.zeros(len(texts), bool)
    refused[list(made.refused)] = True
    reject(refused, lambda row: f"{said}{how.file.name} makes no tokens of the text: {made.refused[row]}")
    reject(made.highest < 0, lambda _: f"{said}an empty text: {how.file.name} makes no token of it")
    reject(
        made.highest >= vocabulary,
        lambda row: (
            f"{said}{how.file.token(int(made.highest[row]))} is above the vocabulary of {how.file.name}, whose"
            f" {vocabulary:,} tokens have the ids from 0"
        ),
    )
    return made


def _texts(column: pa.Array) -> tuple[pa.LargeStringArray, np.ndarray]:
    """Texts, "" where there is none, and where they are not UTF-8: bool, shape (rows,)."""
    filled = column.cast(pa.large_binary()).fill_null(b"")
    try:
        return filled.cast(pa.large_string()), np.zeros(len(column), bool)
    except pa.ArrowInvalid:
        invalid = np.array([not _is_text(data) for data in filled.to_pylist()])
    return pc.if_else(pa.array(invalid), b"", filled).cast(pa.large_string()), invalid


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
