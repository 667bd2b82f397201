"""`shardmill csv`, `jsonl`, `parquet`, `avro`, `reshard`: records inside files, a row a format."""

from typing import TYPE_CHECKING

from shardmill.features.renames import Renames
from shardmill.pipelines.config.format_spec import FormatSpec
from shardmill.pipelines.config.record_options import RecordOptions
from shardmill.pipelines.config.records import RecordsConfig
from shardmill.pipelines.kinds.kind import RecordsKind
from shardmill.transforms.options.boxes import BoxOptions
from shardmill.transforms.options.declare import options_of
from shardmill.transforms.options.pictures import PictureOptions
from shardmill.transforms.sequences.options import SequenceOptions
from shardmill.transforms.tokens.options import TokenOptions

if TYPE_CHECKING:
    from shardmill.pipelines.graphs.jobs import Job
    from shardmill.transforms.formats.base import RecordFormat
    from shardmill.transforms.layout.table_layout import MakeLayout
    from shardmill.transforms.records.encode import RecordEncoder
    from shardmill.transforms.tokens.tokenize import Tokenization

TOKEN_FLAGS = tuple(option.field for option in options_of(TokenOptions))
COMPRESSED = r"(?:\.(?:gz|bz2|zst))?"
_COLUMNS = (
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
_PICTURES = tuple(option.field for option in options_of(PictureOptions))
_BOXES = tuple(option.field for option in options_of(BoxOptions))


def _csv(config: RecordOptions) -> "RecordFormat":
    from shardmill.transforms.formats.csv.format import CsvFormat

    return CsvFormat(
        config.delimiter or "",
        config.quote,
        config.columns,
        config.encoding,
        config.missing,
        config.fill,
        config.block_size,
    )


def _jsonl(config: RecordOptions) -> "RecordFormat":
    from shardmill.transforms.formats.json_lines import JsonLinesFormat

    return JsonLinesFormat(config.block_size, config.fill, config.drop)


def _parquet(config: RecordOptions) -> "RecordFormat":
    from shardmill.transforms.formats.parquet.format import ParquetFormat

    return ParquetFormat(config.fill, config.drop, config.image)


def _avro(config: RecordOptions) -> "RecordFormat":
    from shardmill.transforms.formats.avro.format import AvroFormat

    return AvroFormat(config.block_size, config.fill, config.drop)


def _tars(config: RecordOptions) -> "RecordFormat":
    from shardmill.transforms.formats.tar.format import TarFormat

    return TarFormat(config.block_size, config.fill, config.drop)


def _tfrecords(config: RecordOptions) -> "RecordFormat":
    from shardmill.transforms.formats.tfrecords import TFRecordFormat

    return TFRecordFormat(config.block_size)


def _rows(helpers: tuple[str, ...], renames: Renames, tokens: "Tokenization | None") -> "RecordEncoder":
    from shardmill.transforms.records.encode import TableEncoder

    return TableEncoder(helpers, renames, tokens)


def _records(helpers: tuple[str, ...], _: Renames, __: "Tokenization | None") -> "RecordEncoder":
    from shardmill.transforms.records.encode import RecordPasser

    return RecordPasser(helpers)


def _table_layout() -> "MakeLayout":
    from shardmill.transforms.layout.tables import make_table_layout

    return make_table_layout


def _record_layout() -> "MakeLayout":
    from shardmill.transforms.layout.records import make_record_layout

    return make_record_layout


def records_job(config: RecordsConfig) -> "Job":
    """The graph that `config` describes."""
    from shardmill.pipelines.graphs.jobs import record_job

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
        flags=("delimiter", "quote", "columns", "encoding", "missing", *_COLUMNS, "block_size"),
        make_format=_csv,
        make_encoder=_rows,
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
        flags=(*_COLUMNS, "block_size"),
        make_format=_jsonl,
        make_encoder=_rows,
        make_layout=_table_layout,
    ),
    FormatSpec(
        name="parquet",
        command="parquet",
        plural="Parquet files",
        suffixes="parquet|pq",
        summary="turn Parquet files into TFRecord shards",
        description="Turn Parquet files into balanced, shuffled TFRecord shards.",
        flags=("image", *_PICTURES, *_BOXES, *_COLUMNS),
        make_format=_parquet,
        make_encoder=_rows,
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
        flags=("image", *_PICTURES, *_COLUMNS, "block_size"),
        make_format=_avro,
        make_encoder=_rows,
        make_layout=_table_layout,
    ),
    FormatSpec(
        name="webdataset",
        command="webdataset",
        plural="tar files",
        suffixes=r"tar(?:\.(?:gz|bz2|zst))?|tgz",
        summary="turn tar files of WebDataset into TFRecord shards",
        description=(
            "Turn tar files whose members are samples, such as 0001.jpg beside 0001.cls, 0001.txt or 0001.json, into"
            " balanced, shuffled TFRecord shards."
        ),
        flags=(*_PICTURES, *_BOXES, *_COLUMNS, "block_size"),
        make_format=_tars,
        make_encoder=_rows,
        make_layout=_table_layout,
        has_objects=True,
        calls_rows="filename",
    ),
    FormatSpec(
        name="tfrecords",
        command="reshard",
        plural="TFRecord files",
        suffixes=r"(?:tfrecords?|tfr)(?:-\d+(?:-of-\d+)?)?(?:\.gz)?",
        summary="deal existing TFRecords out to balanced, shuffled shards",
        description=(
            "Deal the records of existing TFRecord files out to a new number of balanced, shuffled shards, untouched."
        ),
        flags=("label", "key", "schema", "on_mixed", "block_size"),
        make_format=_tfrecords,
        make_encoder=_records,
        make_layout=_record_layout,
        infers=False,
        has_columns=False,
        untouched=True,
        needs=(("tfx_bsl", "reshard decodes Examples with tfx-bsl", "reshard"),),
    ),
)
KINDS = tuple(
    RecordsKind(spec.command, spec.summary, spec.description, RecordsConfig, records_job, spec) for spec in FORMATS
)
