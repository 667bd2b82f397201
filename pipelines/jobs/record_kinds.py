"""The commands that read records inside files: tables, existing data sets and text."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from shardmill.addons import registry
from shardmill.errors import UserError
from shardmill.pipelines.config import records as record_configs
from shardmill.pipelines.config.flags import make_config
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.jobs.kind import RecordsKind
from shardmill.transforms.features.options import insert_options
from shardmill.transforms.options.declare import Option, Options, options_of
from shardmill.transforms.options.image_options import BoxOptions, PictureOptions
from shardmill.transforms.options.job_options import NO, ReuseOptions

if TYPE_CHECKING:
    from shardmill.pipelines.config.files import TextFilesConfig
    from shardmill.pipelines.jobs.file_graphs import Files
    from shardmill.transforms.formats.format import RecordFormat

COMPRESSED = r"(?:\.(?:gz|bz2|zst))?"


def _list_fields(options: type[Options]) -> tuple[str, ...]:
    return tuple(option.field for option in options_of(options))


_COLUMN_FLAGS = (
    *("label", "label_separator", "fill", "types", "stack", "hive_partitioning", "drop", "only", "key"),
    *("on_duplicate_key", "schema"),
)  # of every table
_NESTING_FLAGS = ("flatten", "json_columns")
_PICTURE_FLAGS, _BOX_FLAGS = _list_fields(PictureOptions), _list_fields(BoxOptions)

_EXAMPLE_FLAGS = ("record_type", "label", "key", "on_duplicate_key", "schema", "on_mixed", "block_size")
_DECODER = (("tfx_bsl", "reshard decodes Examples with tfx-bsl", "reshard"),)

_NO_FILES = ("input", "folders", "exclude", "hive_partitioning", "on_other_columns", "on_damaged_file", "no_shuffle")


@dataclass(frozen=True)
class RowsKind(RecordsKind):
    """Rows that are in no file, such as those of a PCollection: no command, but a way to configure a job."""

    @property
    def options(self) -> tuple[Option, ...]:
        return tuple(option for option in super().options if option.field not in _NO_FILES)

    def make_config(self, values: Mapping[str, Any], **fixed: Any) -> JobConfig:
        """Make a configuration; `fixed` are fields that are no options."""
        known = {option.field for option in self.options}
        for name in _NO_FILES:
            if name in values and name not in known:
                reason = "rows without an order cannot keep it" if name == "no_shuffle" else "the rows are in no files"
                raise UserError(f"--{name}: {reason}; leave it out")
        return make_config(
            cast("type[record_configs.RowsConfig]", self.config), self.options, values, spec=self.spec, **fixed
        )


@dataclass(frozen=True)
class DataKind(RowsKind):
    """Rows that a program holds, of `shardmill.write`."""

    @property
    def options(self) -> tuple[Option, ...]:
        """Return the options of rows, and --no_shuffle: these rows have an order."""
        return (
            *super().options,
            *(option for option in options_of(record_configs.DataConfig) if option.field == "no_shuffle"),
        )


_ROWS = record_configs.FormatSpec(
    name="rows",
    make_format=record_configs.make_spooled_format,
    plural="rows",
    suffixes="rows",
    flags=(*_NESTING_FLAGS, "image", *_PICTURE_FLAGS, *_BOX_FLAGS, *_COLUMN_FLAGS, "block_size"),
    has_objects=True,
)
_EXAMPLES = record_configs.FormatSpec(
    name="tfrecords",
    make_format=record_configs.make_spooled_format,
    plural="tf.train.Examples",
    suffixes="tfrecord",
    flags=_EXAMPLE_FLAGS,
    unit="example",
    required_modules=_DECODER,
)
ROWS = RowsKind("rows", "", record_configs.RowsConfig, spec=_ROWS)
EXAMPLES = RowsKind("examples", "", record_configs.RowsConfig, spec=_EXAMPLES)
DATA = DataKind("write", "", record_configs.DataConfig, spec=_ROWS)


@dataclass(frozen=True)
class NamedInputsKind(RecordsKind):
    """A command whose --input may be repeated, each with a name."""

    inputs: type[Options] = field(kw_only=True)  # declares --input
    several: type[record_configs.NamedInputsConfig] = field(kw_only=True)  # of several --input

    @property
    def options(self) -> tuple[Option, ...]:
        return (*options_of(self.inputs), *self._others)

    @property
    def _others(self) -> list[Option]:
        return [option for option in super().options if option.field != "input"]

    def parse_inputs(self, values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
        """Return the (name, path) pairs of --input; a single one has the name "", and some are parsed already."""
        (option,) = options_of(self.inputs)
        pairs: tuple[tuple[str, str], ...] = option.parse(values.get("input", ()))
        return pairs

    def make_config(self, values: Mapping[str, Any]) -> JobConfig:
        inputs = self.parse_inputs(values)
        rest = {name: value for name, value in values.items() if name != "input"}
        if any(name for name, _ in inputs):
            return make_config(self.several, self._others, rest, spec=self.spec, named_inputs=inputs)
        return super().make_config(rest | {"input": inputs[0][1]} if inputs else rest)


@dataclass(frozen=True)
class TextKind(NamedInputsKind):
    """The text command, whose --record chooses between lines and whole files."""

    @property
    def options(self) -> tuple[Option, ...]:
        """Return the options of lines, --record, and the reuse options of whole files."""
        return (*super().options, *options_of(ReuseOptions))

    def make_config(self, values: Mapping[str, Any]) -> JobConfig:
        inputs = self.parse_inputs(values)
        rest = {name: value for name, value in values.items() if name != "input"}
        takes = registry.options_for("text")
        of_lines = (options for options in registry.options_for("line") if options not in takes)
        names = {option.field for options in of_lines for option in options_of(options)}
        given = next((f" without --{name}" for name, value in rest.items() if name in names and value is not None), "")
        if given or "file" not in (rest.get("record"), rest.get("text_unit")):
            if ReuseOptions(reuse=rest.pop("reuse", NO)).reuse != NO:
                raise UserError(
                    f"--reuse needs --record file{given}: a line has no place that it keeps as its file changes"
                )
            return super().make_config(rest | {"input": inputs})
        rest = {name: value for name, value in rest.items() if name not in ("record", "text_unit")}
        if rest.pop("separator", ""):
            raise UserError("--separator divides a file into documents, and --record file does not; leave one out")
        if inputs:
            rest["input"] = inputs[0][1]
        if len(inputs) > 1:
            raise UserError(
                f"--record file: with --input {inputs[0][0]}=… lines of several files are an example; leave it out"
            )
        if rest.pop("line_numbers", False):
            raise UserError("--line_numbers needs --record line: a file has no line")
        rest.pop("block_size", None)
        from shardmill.pipelines.config.files import TextFilesConfig

        return make_config(TextFilesConfig, insert_options(options_of(TextFilesConfig), takes), rest)


def text_route(config: "TextFilesConfig") -> "Files":
    """Return how text files are found and read."""
    from shardmill.pipelines.jobs.file_graphs import Files
    from shardmill.transforms.files.encoding import TextFileEncoder
    from shardmill.transforms.inputs.sources import ListFiles

    assert config.input is not None
    return Files(
        config,
        partial(ListFiles, config.input, config.kind, config.folders, config.has_file_identities, config.added, None),
        TextFileEncoder(config.root, config.encoding, config.renames),
    )


def _format(name: str, take: Callable[[Any], Sequence[Any]]) -> Callable[[Any], Any]:
    """Return the function that makes the RecordFormat called `module.Class` with what `take` returns of a config."""
    module, _, kind = name.partition(".")
    return lambda config: getattr(import_module(f"shardmill.transforms.formats.{module}"), kind)(*take(config))


def _make_csv(config: record_configs.RecordsConfig) -> "RecordFormat":
    from shardmill.transforms.formats.csv import CsvFormat

    checks_rows = config.on_damaged_file == "reject"
    return replace(CsvFormat.of(config), block_size=config.block_size, strip=config.strip, checks_rows=checks_rows)


def _make_lines(config: record_configs.RecordsConfig) -> "RecordFormat":
    from shardmill.transforms.formats.documents import DocumentsFormat
    from shardmill.transforms.formats.lines import LinesFormat

    lines = (config.block_size, config.text_encoding, config.line_numbers)
    if config.separator or config.text_unit in ("paragraph", "file"):
        is_whole_file = config.text_unit == "file"
        return DocumentsFormat(*lines, separator=config.separator, is_whole_file=is_whole_file)
    return LinesFormat(*lines, are_texts=config.text_unit == "line")


COMMANDS = (
    RecordsKind(
        "csv",
        "Turn CSV or TSV files into balanced, shuffled TFRecord shards. Types come from all rows, not from a sample.",
        short_help=("label", "types", "group_by", "stratify_by"),
        examples=(
            "--input events.csv --output datasets --name events --label clicked",
            "--input 'events/*.csv' --output datasets --name events --splits train=0.9,test=0.1 --group_by user",
        ),
        spec=record_configs.FormatSpec(
            name="csv",
            make_format=_make_csv,
            plural="CSV files",
            suffixes=f"(?:csv|tsv){COMPRESSED}",
            flags=(
                *("delimiter", "quote", "escape", "columns", "header", "skip_lines", "comment", "strip", "encoding"),
                *("missing", "decimal", "thousands", "list_separator", "on_other_columns"),
                *_COLUMN_FLAGS,
                "block_size",
            ),
        ),
    ),
    RecordsKind(
        "jsonl",
        "Turn JSON lines, one object each, into balanced, shuffled TFRecord shards. Lists become lists of values.",
        short_help=("label", "types", "group_by", "flatten"),
        examples=(
            "--input reviews.jsonl --output datasets --name reviews --label stars",
            "--input 'reviews/*.jsonl.gz' --output datasets --name reviews --flatten --splits train=0.9,test=0.1",
        ),
        spec=record_configs.FormatSpec(
            name="jsonl",
            make_format=_format(
                "json_lines.JsonLinesFormat", lambda c: (c.block_size, c.fill, c.nesting, c.text_encoding)
            ),
            plural="JSON lines",
            suffixes=f"(?:jsonl|ndjson|json){COMPRESSED}",
            flags=("encoding", *_NESTING_FLAGS, *_COLUMN_FLAGS, "block_size"),
        ),
    ),
    RecordsKind(
        "parquet",
        "Turn Parquet files into balanced, shuffled TFRecord shards.",
        short_help=("label", "image", "group_by", "stratify_by"),
        examples=(
            "--input events.parquet --output datasets --name events --label clicked",
            "--input photos --output datasets --name photos --image image --splits train=0.9,test=0.1",
        ),
        spec=record_configs.FormatSpec(
            name="parquet",
            make_format=_format("parquet.ParquetFormat", lambda c: (c.fill, c.nesting, c.image)),
            plural="Parquet files",
            suffixes="parquet|pq",
            flags=(*_NESTING_FLAGS, "image", *_PICTURE_FLAGS, *_BOX_FLAGS, *_COLUMN_FLAGS, "on_other_columns"),
            has_objects=True,
        ),
    ),
    RecordsKind(
        "avro",
        "Turn Avro container files into balanced, shuffled TFRecord shards.",
        short_help=("label", "types", "group_by", "flatten"),
        examples=(
            "--input events.avro --output datasets --name events --label clicked",
            "--input 'events/*.avro' --output datasets --name events --splits train=0.9,test=0.1 --group_by user",
        ),
        spec=record_configs.FormatSpec(
            name="avro",
            make_format=_format("avro.AvroFormat", lambda c: (c.block_size, c.fill, c.nesting)),
            plural="Avro files",
            suffixes="avro",
            flags=(*_NESTING_FLAGS, "image", *_PICTURE_FLAGS, *_COLUMN_FLAGS, "on_other_columns", "block_size"),
        ),
    ),
    RecordsKind(
        "webdataset",
        "Turn tar files whose members are samples, such as 0001.jpg next to 0001.cls, 0001.txt or"
        " 0001.json, into balanced, shuffled TFRecord shards.",
        short_help=("label", "only", "key_until", "group_by"),
        examples=(
            "--input 'shards/*.tar' --output datasets --name pairs",
            "--input shards --output datasets --name pairs --splits train=0.95,test=0.05 --drop json",
        ),
        spec=record_configs.FormatSpec(
            name="webdataset",
            make_format=_format(
                "tar.TarFormat", lambda c: (c.block_bytes, c.fill, c.drop, c.key_until, c.leaves_images)
            ),
            block_factor=4,
            plural="tar files",
            suffixes=rf"tar{COMPRESSED}|tgz",
            flags=("key_until", *_PICTURE_FLAGS, *_BOX_FLAGS, *_COLUMN_FLAGS, "block_size"),
            has_objects=True,
            row_name_column="filename",
        ),
    ),
    NamedInputsKind(
        "reshard",
        "Distribute the unchanged records of existing TFRecord files to a new number of balanced, shuffled shards.",
        short_help=("num_shards", "labels_file", "record_type", "stratify_by"),
        examples=(
            "--input 'old/*.tfrecord' --output datasets --name digits --num_shards 16",
            "--input train='old/train*' --input test='old/test*' --output datasets --name digits",
        ),
        spec=record_configs.FormatSpec(
            name="tfrecords",
            make_format=_format("tfrecords.TFRecordFormat", lambda c: (c.block_size, c.has_raw_records)),
            plural="TFRecord files",
            # Others are recognised by content
            suffixes=r"(?:tfrecords?|tfr|array_record)(?:-\d+(?:-of-\d+)?)?(?:\.gz)?",
            flags=_EXAMPLE_FLAGS,
            unit="example",
            required_modules=_DECODER,
        ),
        inputs=record_configs.SplitInput,
        several=record_configs.SplitRecordsConfig,
    ),
    TextKind(
        "text",
        "Turn text into balanced, shuffled TFRecord shards, an example for each line, paragraph, document between"
        " separators or file.",
        route=text_route,
        short_help=("record", "line_numbers"),
        examples=("--input corpus --output datasets --name corpus",),
        spec=record_configs.FormatSpec(
            name="lines",
            make_format=_make_lines,
            plural="text files",
            suffixes=f"(?:txt|text){COMPRESSED}",
            flags=("text_unit", "separator", "encoding", "line_numbers", "folders", "block_size"),
            unit="line",
        ),
        inputs=record_configs.TextInput,
        several=record_configs.ParallelConfig,
    ),
)
