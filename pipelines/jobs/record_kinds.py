"""The kinds that read records inside files: tables, existing data sets and text."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from shardmill.data.features import Renames
from shardmill.errors import UserError
from shardmill.pipelines.config.files import FilesConfig
from shardmill.pipelines.config.flags import make_config
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.config.record_options import RecordOptions
from shardmill.pipelines.config.records import FormatSpec, ParallelConfig, RecordsConfig, parse_inputs
from shardmill.pipelines.jobs.kind import RecordsKind
from shardmill.transforms.inputs.folders import FileKind
from shardmill.transforms.options.declare import Option, Options, flag, options_of
from shardmill.transforms.options.image_options import BoxOptions, PictureOptions
from shardmill.transforms.options.job_options import NO, ReuseOptions
from shardmill.transforms.values.options import SequenceOptions, TokenOptions

if TYPE_CHECKING:
    from shardmill.data.features import Features
    from shardmill.pipelines.jobs.job import Job
    from shardmill.transforms.formats.format import RecordFormat
    from shardmill.transforms.inputs.summary import InputSummary
    from shardmill.transforms.layout.files import Layout
    from shardmill.transforms.layout.tables import MakeLayout
    from shardmill.transforms.records.encoding import RecordEncoder
    from shardmill.transforms.statistics.files import SplitStats
    from shardmill.transforms.values.tokens_encoding import Tokenization

TOKEN_FLAGS = tuple(option.field for option in options_of(TokenOptions))
COMPRESSED = r"(?:\.(?:gz|bz2|zst))?"
_COLUMN_FLAGS = (
    "label",
    "label_separator",
    "fill",
    "timestamp",
    "drop",
    "only",
    "key",
    "schema",
    "transform",
    "module_file",
    "analyze_splits",
    "transform_graph",
    "materialize",
    *TOKEN_FLAGS,
    *(option.field for option in options_of(SequenceOptions)),
)  # of every table
_PICTURE_FLAGS = tuple(option.field for option in options_of(PictureOptions))
_BOX_FLAGS = tuple(option.field for option in options_of(BoxOptions))


def _csv_format(config: RecordOptions) -> "RecordFormat":
    from shardmill.transforms.formats.csv import CsvFormat

    return CsvFormat(
        config.delimiter or "",
        config.quote,
        config.columns,
        config.encoding,
        config.missing,
        config.fill,
        config.block_size,
    )


def _jsonl_format(config: RecordOptions) -> "RecordFormat":
    from shardmill.transforms.formats.json_lines import JsonLinesFormat

    return JsonLinesFormat(config.block_size, config.fill, config.drop)


def _parquet_format(config: RecordOptions) -> "RecordFormat":
    from shardmill.transforms.formats.parquet import ParquetFormat

    return ParquetFormat(config.fill, config.drop, config.image)


def _avro_format(config: RecordOptions) -> "RecordFormat":
    from shardmill.transforms.formats.avro import AvroFormat

    return AvroFormat(config.block_size, config.fill, config.drop)


def _tar_format(config: RecordOptions) -> "RecordFormat":
    from shardmill.transforms.formats.tar import TarFormat

    return TarFormat(config.block_size, config.fill, config.drop)


def _tfrecord_format(config: RecordOptions) -> "RecordFormat":
    from shardmill.transforms.formats.tfrecords import TFRecordFormat

    return TFRecordFormat(config.block_size)


def _table_encoder(helpers: tuple[str, ...], renames: Renames, tokens: "Tokenization | None") -> "RecordEncoder":
    from shardmill.transforms.records.encoding import TableEncoder

    return TableEncoder(helpers, renames, tokens)


def _record_encoder(helpers: tuple[str, ...], _: Renames, __: "Tokenization | None") -> "RecordEncoder":
    from shardmill.transforms.records.encoding import RecordPasser

    return RecordPasser(helpers)


def _table_layout() -> "MakeLayout":
    from shardmill.transforms.layout.tables import make_table_layout

    return make_table_layout


def _record_layout() -> "MakeLayout":
    from shardmill.transforms.layout.tables import make_record_layout

    return make_record_layout


def records_job(config: RecordsConfig) -> "Job":
    """Return the job of `config`."""
    from shardmill.pipelines.jobs.job import record_job

    return record_job(config)


FORMATS = (
    FormatSpec(
        name="csv",
        command="csv",
        plural="CSV files",
        suffixes=f"(?:csv|tsv){COMPRESSED}",
        summary="turn CSV or TSV files into TFRecord shards",
        description=(
            "Turn CSV or TSV files into balanced, shuffled TFRecord shards. Types come from all rows, not from a"
            " sample."
        ),
        flags=("delimiter", "quote", "columns", "encoding", "missing", *_COLUMN_FLAGS, "block_size"),
        make_format=_csv_format,
        make_encoder=_table_encoder,
        make_layout=_table_layout,
    ),
    FormatSpec(
        name="jsonl",
        command="jsonl",
        plural="JSON lines",
        suffixes=f"(?:jsonl|ndjson|json){COMPRESSED}",
        summary="turn JSON lines into TFRecord shards",
        description=(
            "Turn JSON lines, one object each, into balanced, shuffled TFRecord shards. Lists become lists of values."
        ),
        flags=(*_COLUMN_FLAGS, "block_size"),
        make_format=_jsonl_format,
        make_encoder=_table_encoder,
        make_layout=_table_layout,
    ),
    FormatSpec(
        name="parquet",
        command="parquet",
        plural="Parquet files",
        suffixes="parquet|pq",
        summary="turn Parquet files into TFRecord shards",
        description="Turn Parquet files into balanced, shuffled TFRecord shards.",
        flags=("image", *_PICTURE_FLAGS, *_BOX_FLAGS, *_COLUMN_FLAGS),
        make_format=_parquet_format,
        make_encoder=_table_encoder,
        make_layout=_table_layout,
        has_objects=True,
    ),
    FormatSpec(
        name="avro",
        command="avro",
        plural="Avro files",
        suffixes="avro",
        summary="turn Avro files into TFRecord shards",
        description="Turn Avro container files into balanced, shuffled TFRecord shards.",
        flags=("image", *_PICTURE_FLAGS, *_COLUMN_FLAGS, "block_size"),
        make_format=_avro_format,
        make_encoder=_table_encoder,
        make_layout=_table_layout,
    ),
    FormatSpec(
        name="webdataset",
        command="webdataset",
        plural="tar files",
        suffixes=r"tar(?:\.(?:gz|bz2|zst))?|tgz",
        summary="turn tar files of WebDataset into TFRecord shards",
        description=(
            "Turn tar files whose members are samples, such as 0001.jpg next to 0001.cls, 0001.txt or 0001.json, into"
            " balanced, shuffled TFRecord shards."
        ),
        flags=(*_PICTURE_FLAGS, *_BOX_FLAGS, *_COLUMN_FLAGS, "block_size"),
        make_format=_tar_format,
        make_encoder=_table_encoder,
        make_layout=_table_layout,
        has_objects=True,
        row_name_column="filename",
    ),
    FormatSpec(
        name="tfrecords",
        command="reshard",
        plural="TFRecord files",
        suffixes=r"(?:tfrecords?|tfr)(?:-\d+(?:-of-\d+)?)?(?:\.gz)?",
        summary="distribute existing TFRecords to balanced, shuffled shards",
        description=(
            "Distribute the unchanged records of existing TFRecord files to a new number of balanced, shuffled shards."
        ),
        flags=("label", "key", "schema", "on_mixed", "block_size"),
        make_format=_tfrecord_format,
        make_encoder=_record_encoder,
        make_layout=_record_layout,
        has_inferred_types=False,
        has_columns=False,
        is_passed_through=True,
        required_modules=(("tfx_bsl", "reshard decodes Examples with tfx-bsl", "reshard"),),
    ),
)
TABLE_KINDS = tuple(
    RecordsKind(spec.command, spec.summary, spec.description, RecordsConfig, records_job, spec) for spec in FORMATS
)


TEXT_FILES = FileKind("text files", "txt|text")


@dataclass(frozen=True, kw_only=True)
class TextFilesConfig(FilesConfig):
    """The configuration of `shardmill text --record file`."""

    encoding: str = flag("utf-8", "Text encoding of the input, for example latin-1", group="input")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.input is None:
            raise UserError("give --input, a folder or a glob")
        from shardmill.transforms.formats.line_blocks import encoding_name

        try:
            encoding_name(self.encoding)
        except ValueError as error:
            raise UserError(f"--encoding {self.encoding}: {error}") from None

    @property
    def format_name(self) -> str:
        return "text files"

    @property
    def kind(self) -> FileKind:
        return TEXT_FILES


@dataclass(frozen=True, kw_only=True)
class _TextInput(Options):
    title: ClassVar[str] = "input"

    input: tuple[tuple[str, str], ...] = flag(
        (),
        "Folder, file or glob to read; local, gs://, s3://, az://; or NAME=PATH for each of several"
        " parallel files; repeatable",
        parse=parse_inputs,
        repeats=True,
        metavar="[NAME=]PATH",
        affects_output=False,
        required=True,
    )
    record: str = flag(
        "line",
        "Unit of text that becomes one example: a line or a file",
        choices=("line", "file"),
        affects_output=False,
    )


def _line_format(config: RecordOptions) -> "RecordFormat":
    from shardmill.transforms.formats.lines import LinesFormat

    if not isinstance(config, ParallelConfig):
        return LinesFormat(config.block_size, config.encoding, config.line_numbers)
    from shardmill.transforms.formats.lines import ParallelFormat

    each = max(config.block_size // len(config.texts), 1)
    return ParallelFormat(LinesFormat(each, config.encoding, config.line_numbers), config.languages)


def _line_encoder(helpers: tuple[str, ...], renames: Renames, tokens: "Tokenization | None") -> "RecordEncoder":
    from shardmill.transforms.records.encoding import LineEncoder

    return LineEncoder(helpers, renames, tokens)


def _line_layout() -> "MakeLayout":
    from shardmill.transforms.layout.tables import make_line_layout

    return make_line_layout


LINES = FormatSpec(
    name="lines",
    command="text",
    plural="text files",
    suffixes=f"(?:txt|text){COMPRESSED}",
    summary="turn text into TFRecord shards, one example for each line or file",
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
    make_format=_line_format,
    make_encoder=_line_encoder,
    make_layout=_line_layout,
    has_inferred_types=False,
)


@dataclass(frozen=True)
class TextKind(RecordsKind):
    """The text command, whose --record chooses between lines and whole files."""

    @property
    def options(self) -> tuple[Option, ...]:
        """Return the options of lines, --record, and the reuse options of whole files."""
        return (*options_of(_TextInput), *self._of_lines, *options_of(ReuseOptions))

    @property
    def _of_lines(self) -> tuple[Option, ...]:
        options: tuple[Option, ...] = RecordsKind.options.__get__(self)
        return tuple(option for option in options if option.field != "input")

    def owns(self, config: JobConfig) -> bool:
        return isinstance(config, TextFilesConfig) or super().owns(config)

    def make_config(self, values: Mapping[str, Any]) -> JobConfig:
        own = {option.field for option in options_of(_TextInput)}
        unit = _TextInput(**{name: value for name, value in values.items() if name in own})
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


def _describe_texts(
    summary: "InputSummary", layout: "Layout", _: "Sequence[SplitStats]"
) -> "tuple[Features, Sequence[str]]":
    from shardmill.transforms.files.encoding import text_features

    return text_features(layout), ()


def _text_job(config: RecordsConfig | TextFilesConfig) -> "Job":
    if isinstance(config, RecordsConfig):
        return records_job(config)
    from shardmill.pipelines.jobs.file_graphs import FileRoute
    from shardmill.pipelines.jobs.job import file_job
    from shardmill.transforms.files.encoding import TextFileEncoder
    from shardmill.transforms.inputs.sources import ListFiles

    assert config.input is not None
    route = FileRoute(
        partial(ListFiles, config.input, config.kind, config.folders, config.has_file_identities, None),
        TextFileEncoder(config.root, config.encoding, config.renames),
        _describe_texts,
    )
    return file_job(config, route)


TEXT_KINDS = (TextKind(LINES.command, LINES.summary, LINES.description, RecordsConfig, _text_job, LINES),)
