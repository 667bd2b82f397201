"""A format of records inside files, as commands have it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from shardmill.features.renames import Renames
from shardmill.transforms.inputs.file_kind import FileKind

if TYPE_CHECKING:
    from shardmill.pipelines.config.record_options import RecordOptions
    from shardmill.transforms.formats.base import RecordFormat
    from shardmill.transforms.layout.table_layout import MakeLayout
    from shardmill.transforms.records.encode import RecordEncoder
    from shardmill.transforms.tokens.tokenize import Tokenization


@dataclass(frozen=True)
class FormatSpec:
    """A format of records inside files: all that differs from one to the next.

    Attributes:
      name: in manifest.json.
      command: that reads it.
      plural: how errors call the files.
      suffixes: of their names, see FileKind.
      summary: what the command does, as `shardmill --help` says it.
      description: as its own --help says it.
      flags: the options that have a meaning for it, beside those of every job.
      make_format: how the records are found and read.
      make_encoder: what becomes of the rows, given the columns of keys, groups and strata, what features are called,
        and what becomes of texts.
      make_layout: what decides how the input is read; a function, so that nothing is imported before.
      infers: whether types come from the rows where no --schema says them.
      has_columns: whether its features are known before the records are read.
      calls_rows: the column, a source, whose text rejects call a row by; "" where there is none.
      has_objects: whether a column may be of objects in images.
      untouched: whether records pass through as they are.
      needs: (module, what for, the extra that installs it).
    """

    name: str
    command: str
    plural: str
    suffixes: str
    summary: str
    description: str
    flags: tuple[str, ...]
    make_format: "Callable[[RecordOptions], RecordFormat]"
    make_encoder: "Callable[[tuple[str, ...], Renames, Tokenization | None], RecordEncoder]"
    make_layout: "Callable[[], MakeLayout]"
    infers: bool = True
    has_columns: bool = True
    calls_rows: str = ""
    has_objects: bool = False
    untouched: bool = False
    needs: tuple[tuple[str, str, str], ...] = ()

    @property
    def kind(self) -> FileKind:
        """The files that a folder is searched for."""
        return FileKind(self.plural, self.suffixes)
