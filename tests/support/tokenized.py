"""Texts, a tokenizer beside them, and the command that makes token ids of the one by the other."""

from pathlib import Path

from tokenizers import Tokenizer

from tests.support.command import write_files
from tests.support.table_results import Table, convert
from tests.support.tokenizer_files import texts, tokenizer_json

TEXTS = texts(300)


def around() -> bytes:
    """A tokenizer that puts a token before and behind each text."""
    return tokenizer_json(("[CLS]", "[SEP]"), ("[CLS]", "[SEP]"))


def ids_of(text: str, data: bytes = tokenizer_json()) -> list[int]:
    """By tokenizers alone."""
    return list(Tokenizer.from_str(data.decode()).encode(text).ids)


def tokenized(source: Path, output: Path, *flags: object, command: str = "text") -> Table:
    """What a command makes of `source` by the tokenizer.json beside `output`."""
    return convert(command, source, output, "--tokenizer", output.parent / "tokenizer.json", *flags)


def write_texts(folder: Path) -> Path:
    """Two files of TEXTS in `folder/in`, which is returned, and two tokenizers in `folder`."""
    lines = {f"{name}.txt": "".join(f"{text}\n" for text in TEXTS[place::2]) for place, name in enumerate("ab")}
    write_files(folder, {"tokenizer.json": tokenizer_json(), "cls.json": around()})
    return write_files(folder / "in", {name: text.encode() for name, text in lines.items()})
