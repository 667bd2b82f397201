"""`shardmill text`: an example a line, or a file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from shardmill.errors import UserError
from shardmill.features.renames import Renames
from shardmill.pipelines.config.files import FilesConfig
from shardmill.pipelines.config.format_spec import FormatSpec
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.config.parallel import ParallelConfig, parse_inputs
from shardmill.pipelines.config.record_options import RecordOptions
from shardmill.pipelines.config.records import RecordsConfig
from shardmill.pipelines.flags.parser import make_config
from shardmill.pipelines.kinds.kind import RecordsKind
from shardmill.pipelines.kinds.tables import COMPRESSED, TOKEN_FLAGS, records_job
from shardmill.transforms.inputs.file_kind import FileKind
from shardmill.transforms.options.declare import Option, Options, flag, options_of
from shardmill.transforms.options.reuse import NO, ReuseOptions

if TYPE_CHECKING:
    from shardmill.features.feature import Features
    from shardmill.pipelines.graphs.jobs import Job
    from shardmill.transforms.formats.base import RecordFormat
    from shardmill.transforms.inputs.summary import InputSummary
    from shardmill.transforms.layout.files import Layout
    from shardmill.transforms.layout.table_layout import MakeLayout
    from shardmill.transforms.records.encode import RecordEncoder
    from shardmill.transforms.statistics.files import SplitStats
    from shardmill.transforms.tokens.tokenize import Tokenization

TEXT_FILES = FileKind("text files", "txt|text")


@dataclass(frozen=True, kw_only=True)
class TextFilesConfig(FilesConfig):
    """What `shardmill text --record file` is told."""

    encoding: str = flag("utf-8", "of the text, such as latin-1", group="input")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.input is None:
            raise UserError("give --input, a folder or a glob")
        from shardmill.transforms.formats.encodings import encoding_name

        try:
            encoding_name(self.encoding)
        except ValueError as error:
            raise UserError(f"--encoding {self.encoding}: {error}") from None

    @property
    def format_name(self) -> str:
        """As the base says."""
        return "text files"

    @property
    def kind(self) -> FileKind:
        """The files that a folder is searched for."""
        return TEXT_FILES


@dataclass(frozen=True, kw_only=True)
class _Unit(Options):
    title: ClassVar[str] = "input"

    input: tuple[tuple[str, str], ...] = flag(
        (),
        "a folder, a file or a glob; local, gs://, s3://, az://; or NAME=PATH for each of parallel files; repeat",
        parse=parse_inputs,
        repeats=True,
        metavar="[NAME=]PATH",
        shapes=False,
        required=True,
    )
    record: str = flag("line", "what an example is", choices=("line", "file"), shapes=False)


def _lines(config: RecordOptions) -> "RecordFormat":
    from shardmill.transforms.formats.lines import LinesFormat

    if not isinstance(config, ParallelConfig):
        return LinesFormat(config.block_size, config.encoding, config.line_numbers)
    from shardmill.transforms.formats.parallel import ParallelFormat

    each = max(config.block_size // len(config.texts), 1)
    return ParallelFormat(LinesFormat(each, config.encoding, config.line_numbers), config.languages)


def _line_encoder(helpers: tuple[str, ...], renames: Renames, tokens: "Tokenization | None") -> "RecordEncoder":
    from shardmill.transforms.records.encode import LineEncoder

    return LineEncoder(helpers, renames, tokens)


def _line_layout() -> "MakeLayout":
    from shardmill.transforms.layout.lines import make_line_layout

    return make_line_layout


LINES = FormatSpec(
    name="lines",
    command="text",
    plural="text files",
    suffixes=f"(?:txt|text){COMPRESSED}",
    summary="turn text into TFRecord shards, an example a line or a file",
    description="Turn text into balanced, shuffled TFRecord shards, an example for each line or, with --record file, "
    "for each file.",
    flags=(
        "encoding",
        "line_numbers",
        "folders",
        "transform",
        "module_file",
        "analyze_splits",
        "transform_graph",
        "materialize",
        *TOKEN_FLAGS,
        "block_size",
    ),
    make_format=_lines,
    make_encoder=_line_encoder,
    make_layout=_line_layout,
    infers=False,
)


@dataclass(frozen=True)
class TextKind(RecordsKind):
    """Text, whose --record says which of two routes it takes."""

    @property
    def options(self) -> tuple[Option, ...]:
        """Those of lines, --record, and what files have beside."""
        return (*options_of(_Unit), *self._of_lines, *options_of(ReuseOptions))

    @property
    def _of_lines(self) -> tuple[Option, ...]:
        options: tuple[Option, ...] = RecordsKind.options.__get__(self)
        return tuple(option for option in options if option.field != "input")

    def owns(self, config: JobConfig) -> bool:
        """As the base says."""
        return isinstance(config, TextFilesConfig) or super().owns(config)

    def make_config(self, values: Mapping[str, Any]) -> JobConfig:
        """As the base says."""
        own = {option.field for option in options_of(_Unit)}
        unit = _Unit(**{name: value for name, value in values.items() if name in own})
        rest = {name: value for name, value in values.items() if name not in own}
        several = len(unit.input) > 1
        if unit.input and not several:
            rest["input"] = unit.input[0][1]
        if unit.record == "line":
            if ReuseOptions(reuse=rest.pop("reuse", NO)).reuse != NO:
                raise UserError("--reuse needs --record file: a line has no place that it keeps as its file changes")
            if several:
                options = (*self._of_lines, *(o for o in options_of(ParallelConfig) if o.field == "texts"))
                return make_config(ParallelConfig, options, rest | {"texts": unit.input}, spec=self.spec)
            return make_config(RecordsConfig, RecordsKind.options.__get__(self), rest, spec=self.spec)
        if several:
            raise UserError(
                f"--record file: with --input {unit.input[0][0]}=… lines of several files are an example; leave it out"
            )
        if rest.pop("line_numbers", False):
            raise UserError("--line_numbers needs --record line: a file has no line")
        rest.pop("block_size", None)
        if rest.get("tokenizer") is not None:
            raise UserError("--tokenizer needs --record line: documents of several lines are taken as JSON lines")
        return make_config(TextFilesConfig, options_of(TextFilesConfig), rest)


def _describe(summary: "InputSummary", layout: "Layout", _: "Sequence[SplitStats]") -> "tuple[Features, Sequence[str]]":
    from shardmill.transforms.files.texts import text_features

    return text_features(layout), ()


def _job(config: RecordsConfig | TextFilesConfig) -> "Job":
    if isinstance(config, RecordsConfig):
        return records_job(config)
    from shardmill.pipelines.graphs.files import FileRoute
    from shardmill.pipelines.graphs.jobs import file_job
    from shardmill.transforms.files.texts import TextFileEncoder
    from shardmill.transforms.inputs.list_files import ListFiles

    assert config.input is not None
    route = FileRoute(
        partial(ListFiles, config.input, config.kind, config.folders, config.remembers),
        TextFileEncoder(config.root, config.encoding, config.renames),
        _describe,
    )
    return file_job(config, route)


KINDS = (TextKind(LINES.command, LINES.summary, LINES.description, RecordsConfig, _job, LINES),)
