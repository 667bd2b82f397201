"""What a job over records inside files is told, validated: tables, lines of text, existing TFRecords."""

from dataclasses import dataclass
from typing import Any, Literal

from pipelines.config.job import JobConfig, check
from shardmill.errors import UserError
from shardmill.features import Features
from transforms.formats.base import RecordFormat
from transforms.formats.csv.dialect import MISSING
from transforms.formats.csv.format import CsvFormat
from transforms.formats.json_lines import JsonLinesFormat
from transforms.formats.lines import LinesFormat
from transforms.formats.parquet.format import ParquetFormat
from transforms.formats.tfrecords import TFRecordFormat
from transforms.inputs.listing import FileKind
from transforms.layout.lines import make_line_layout
from transforms.layout.records import make_record_layout
from transforms.layout.tables import MakeLayout, TableOptions, make_table_layout
from transforms.records.encode import KeyOptions, LineEncoder, RecordEncoder, RecordPasser, TableEncoder

DEFAULT_BLOCK_SIZE = 16 << 20  # bytes: large enough for vectorised work, small enough for a few in memory at once

ON_MIXED = ("fail", "reject")  # what existing records do whose features are of another kind than in other records

Route = Literal["csv", "jsonl", "parquet", "lines", "tfrecords"]
_COMPRESSED = r"(?:\.(?:gz|bz2|zst))?"
KINDS: dict[Route, FileKind] = {
    "csv": FileKind("CSV files", f"(?:csv|tsv){_COMPRESSED}"),
    "jsonl": FileKind("JSON lines", f"(?:jsonl|ndjson|json){_COMPRESSED}"),
    "parquet": FileKind("Parquet files", "parquet|pq"),
    "lines": FileKind("text files", f"(?:txt|text){_COMPRESSED}"),
    "tfrecords": FileKind("TFRecord files", r"(?:tfrecords?|tfr)(?:-\d+-of-\d+)?(?:\.gz)?"),
}
make_layout_of: dict[Route, MakeLayout] = {
    "csv": make_table_layout,
    "jsonl": make_table_layout,
    "parquet": make_table_layout,
    "lines": make_line_layout,
    "tfrecords": make_record_layout,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordsConfig(JobConfig):
    """The flags of `shardmill csv`, `jsonl`, `parquet`, `text --record line` and `reshard`; see pipelines.kinds.records_options."""

    route: Route
    delimiter: str | None = None
    quote: str = '"'
    columns: tuple[str, ...] | None = None
    encoding: str = "utf-8"
    missing: tuple[str, ...] = MISSING
    fill: tuple[tuple[str, str], ...] = ()
    schema: Features | None = None
    drop: tuple[str, ...] = ()
    only: tuple[str, ...] = ()
    label: str | None = None
    key: str | None = None
    line_numbers: bool = False
    on_mixed: str = "fail"
    block_size: int = DEFAULT_BLOCK_SIZE

    def __post_init__(self) -> None:
        JobConfig.__post_init__(self)
        if self.input is None:
            raise UserError("give --input, a folder, a file or a glob")
        if self.route == "tfrecords" and self.on_new_label != "fail":
            raise UserError(
                f"--on_new_label {self.on_new_label}: reshard passes records through with the ids that they have; "
                "add the names of new ids to --labels_file"
            )
        check(1 << 10 <= self.block_size < 1 << 30, f"--block_size {self.block_size}: expected 1KiB to 1GiB")
        check(self.on_mixed in ON_MIXED, f"--on_mixed {self.on_mixed}: expected one of {ON_MIXED}")
        check(self.delimiter != self.quote or not self.quote, f"--delimiter and --quote are both {self.quote!r}")
        if self.delimiter is None and self.quote in (",", "\t"):
            raise UserError(f"--quote {self.quote!r} needs --delimiter, which is a comma otherwise, or a tab in .tsv files")
        if self.rename and self.route == "tfrecords":
            raise UserError(
                "--rename: reshard passes records through untouched, and names stand in each of them; rename where the reader "
                "parses them, or convert what these records were made of"
            )
        try:
            _ = self.format  # built to be checked
        except ValueError as error:
            raise UserError(str(error)) from None

    @property
    def format(self) -> RecordFormat:
        """How the records are read."""
        match self.route:
            case "csv":
                return CsvFormat(
                    self.delimiter or "", self.quote, self.columns, self.encoding, self.missing, self.fill, self.block_size
                )
            case "jsonl":
                return JsonLinesFormat(self.block_size, self.fill, self.drop)
            case "parquet":
                return ParquetFormat(self.fill, self.drop)
            case "lines":
                return LinesFormat(self.block_size, self.encoding, self.line_numbers)
            case "tfrecords":
                return TFRecordFormat(self.block_size)

    @property
    def encoder(self) -> RecordEncoder:
        """What becomes of the rows."""
        helpers = tuple(self.table_options.helpers)
        if self.route == "tfrecords":
            return RecordPasser(helpers)
        return LineEncoder(helpers, self.renames) if self.route == "lines" else TableEncoder(helpers, self.renames)

    @property
    def kind(self) -> FileKind:
        """The files that a folder is searched for."""
        return KINDS[self.route]

    @property
    def _schema_label(self) -> str | None:
        """The class label of --schema: what the command that wrote it was given as --label."""
        labels = [feature.name for feature in self.schema or () if feature.kind == "class_label"]
        return labels[0] if len(labels) == 1 and self.route != "tfrecords" else None

    def _column(self, named: str | None) -> str | None:
        """The column that --stratify_by or --group_by names: `label` is the one of --label."""
        return self.table_label if named == "label" and self.table_label is not None else named

    @property
    def table_label(self) -> str | None:
        """The column that is the label."""
        return self.label or self._schema_label

    @property
    def table_options(self) -> TableOptions:
        """What the layout is decided with."""
        named = {"--group_by": self.group_by, "--stratify_by": self.stratify_by}
        return TableOptions(
            source=self.source,
            schema=self.schema,
            drop=self.drop,
            only=self.only,
            fill=self.fill,
            label=self.table_label,
            says_label=tuple(flag for flag, column in named.items() if column == "label"),
            key=self.key,
            group_by=self._column(self.group_by),
            stratify_by=self._column(self.stratify_by),
            fractions=self.splits,
            folders=self.folders,
            plural=self.kind.plural,
            frozen_labels=self.labels,
            on_new_label=self.on_new_label,
            split_shards=tuple(name for name, _ in self.split_shards),
        )

    @property
    def key_options(self) -> KeyOptions:
        """What keys and splits are computed with."""
        return KeyOptions(
            self.seed, self.split_seed, self.key, self._column(self.group_by), self._column(self.stratify_by), self.no_shuffle
        )

    def to_json(self) -> dict[str, Any]:
        """The options that shape the output, for the manifest; not where it lies or how it was computed."""
        return {
            **JobConfig.to_json(self),
            "format": self.route,
            "delimiter": self.delimiter,
            "quote": self.quote,
            "columns": list(self.columns) if self.columns is not None else None,
            "encoding": self.encoding,
            "missing": list(self.missing),
            "fill": dict(self.fill),
            "schema": [feature.name for feature in self.schema] if self.schema is not None else None,
            "drop": list(self.drop),
            "only": list(self.only),
            "label": self.label,
            "key": self.key,
            "line_numbers": self.line_numbers,
            "on_mixed": self.on_mixed,
        }
