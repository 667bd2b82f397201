"""What a job over parallel text files is told: a file for each language, whose lines belong together."""

import glob
import os
import re
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from shardmill.errors import UserError
from shardmill.features.translation import LANGUAGES
from shardmill.pipelines.config.records import RecordsConfig
from shardmill.transforms.options.declare import ValueMistake, flag
from shardmill.transforms.options.output import parse_path

if TYPE_CHECKING:
    from shardmill.transforms.inputs.record_files import RecordFiles
    from shardmill.transforms.layout.table_options import TableOptions

_NAMED = re.compile(r"([\w.-]+)=(.+)", re.DOTALL)
_TAKEN = ("label", "filename", "line_number")  # what shardmill calls features of its own


def parse_inputs(value: Any) -> tuple[tuple[str, str], ...]:
    """(name, folder, file or glob) of each `de=train.de`, of several; ("", path) of one; or pairs, or a mapping.

    Raises:
      ValueMistake: one of several has no name, or two have one, or one is no path.
    """
    items = tuple(value.items()) if isinstance(value, dict) else (value,) if isinstance(value, str) else tuple(value)
    if len(items) == 1:
        return (("", parse_path(_only(items[0]))),)
    pairs = [_named(item) if isinstance(item, str) else tuple(item) for item in items]
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise ValueMistake(f"{name}= is there twice; each of the parallel files is a feature of its own")
        if name in _TAKEN:
            raise ValueMistake(f"{name}= is what shardmill calls a feature of its own; give another name")
    return tuple((name, parse_path(path)) for name, path in pairs)


def _only(item: Any) -> Any:
    """The path of one input, which has no name; raises ValueMistake."""
    name, path = ("", item) if isinstance(item, str) else tuple(item)
    found = _NAMED.fullmatch(item) if isinstance(item, str) and not _is_there(item) else None
    if found is not None and (_is_there(found[2]) or "://" in found[2]):
        name, path = found[1], found[2]
    if name:
        raise ValueMistake(
            f"{name}={path} alone has no file that its lines belong to; give the other parallel files, too, such as"
            f" --input en=PATH, or --input {path} for a text without others"
        )
    return path


def _is_there(path: str) -> bool:
    """Whether a path is a file or a folder, or a glob that matches one."""
    return os.path.lexists(path) or next(glob.iglob(path), None) is not None


def _named(text: str) -> tuple[str, str]:
    found = None if os.path.lexists(text) else _NAMED.fullmatch(text)
    if found is None:
        raise ValueMistake(
            f"{text} is one of several inputs and has no name; expected NAME=PATH of each, such as de=train.de, for"
            " parallel files, or one folder or glob for all files"
        )
    return found[1], found[2]


@dataclass(frozen=True, kw_only=True)
class ParallelConfig(RecordsConfig):
    """What `shardmill text` is told of parallel files."""

    texts: tuple[tuple[str, str], ...] = flag((), "the parallel files", parse=parse_inputs, hidden=True, shapes=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        said = f"--input {self.texts[0][0]}=…"
        if self.pack_to is not None:
            raise UserError(
                f"--pack_to and {said}: blocks are cut from one text after the other, which would part the"
                f" {len(self.texts)} of an example that belong together; leave it out (--max_length cuts each text,"
                " shardmill.load(…, pad=True) fills each batch up to its longest), or, for a language model, write the"
                " texts of an example into one line of one file, which packs"
            )
        if self.tokenize is not None:
            raise UserError(
                f"--tokenize {self.tokenize} and {said}: the texts of all files are tokenized; leave it out"
            )

    @property
    def languages(self) -> tuple[str, ...]:
        """What the texts are called, by the names of the input."""
        return tuple(name for name, _ in self.texts)

    @property
    def tokenized(self) -> tuple[str, ...]:
        """As the base says."""
        return self.languages

    @property
    def inputs(self) -> tuple[str, ...]:
        """As the base says."""
        return tuple(path for _, path in self.texts)

    @property
    def files(self) -> "RecordFiles":
        """As the base says."""
        from shardmill.transforms.inputs.record_files import ParallelInput

        return ParallelInput(self.texts)

    @property
    def source(self) -> str:
        """As the base says."""
        return " ".join(f"--input {name}={path}" for name, path in self.texts)

    @cached_property
    def root(self) -> str:
        """The folder that the names of the first files are relative to."""
        from shardmill.transforms.inputs.listing import input_root

        return input_root(self.texts[0][1])

    @property
    def table_options(self) -> "TableOptions":
        """As the base says."""
        return replace(super().table_options, texts=self.languages)

    def to_json(self) -> dict[str, Any]:
        """As the base says, and what the texts are called, or their tokens."""
        how = self.tokenization
        return super().to_json() | {LANGUAGES: list(self.languages if how is None else how.ids.values())}
