"""The change of a job's records or files by a user's function, and the configurations of the rows that it returns."""

from collections import Counter
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any, ClassVar, Self

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsIter, AsSingleton

from shardmill.addons.mapping.files import FileMap, FileRowEncoder, map_files, slice_files
from shardmill.addons.mapping.findings import MapCalls
from shardmill.addons.mapping.function import UserFunction
from shardmill.addons.mapping.options import MapOptions
from shardmill.addons.mapping.records import FINDINGS, RecordMap, map_task, needs_types
from shardmill.addons.mapping.spool import MappedFormat
from shardmill.errors import UserError
from shardmill.pipelines.config.files import FilesConfig
from shardmill.pipelines.config.job import Changed, JobConfig
from shardmill.pipelines.config.records import FormatSpec, RecordsConfig, make_spooled_format
from shardmill.pipelines.jobs.record_features import check_files
from shardmill.text import plural
from shardmill.transforms.columns.types import Inferred
from shardmill.transforms.execution.running import ThreadedFlatMap
from shardmill.transforms.files.encoding import FileEncoder
from shardmill.transforms.findings import Findings
from shardmill.transforms.formats.format import RecordFormat
from shardmill.transforms.inputs.findings import REJECTS, IndexedFiles
from shardmill.transforms.inputs.folders import is_of_file
from shardmill.transforms.inputs.record_blocks import IndexedBlocks
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.layout.columns import common_header
from shardmill.transforms.layout.files import Layout
from shardmill.transforms.options.declare import options_of
from shardmill.transforms.options.job_options import ROW_FILE, ROW_KEY, SplitOptions
from shardmill.transforms.records.encoding import RecordEncoder
from shardmill.transforms.records.staging import InferColumns
from shardmill.transforms.workers.elements import MergeFn, Spread


@dataclass(frozen=True)
class FunctionCalls:
    """The calls of a user's function with all records or files of a job: hooks of the stream of records."""

    function: UserFunction
    offloaded: ClassVar[str] = map_files.__module__

    @classmethod
    def of(cls, options: MapOptions) -> "FunctionCalls":
        """Return the calls of the function that the options name."""
        return cls(options.function)

    def __str__(self) -> str:
        return str(self.function)

    def check(self) -> None:
        """Import the function and check its parameters; raises UserError."""
        self.function.check()

    def change_records(self, indexed: IndexedBlocks, config: RecordsConfig, temporary: str) -> Changed:
        """Return the rows that the function makes of records."""
        format_, inferred = config.input_format, Inferred()
        if needs_types(format_, self.function.is_of_batches):
            of_input = indexed.tasks | "InferInput" >> InferColumns(format_, None, (), config.read_threads)
            inferred = AsSingleton(of_input, Inferred())
        mapping = RecordMap(self.function, format_, config.seed, config.types)
        call = _call(partial(map_task, mapping, temporary), config, inferred)
        return _change(indexed, indexed.tasks | "Map" >> call, MappedConfig.of(config), _add_records, config)

    def config_of_files(self, config: FilesConfig) -> RecordsConfig:
        """Return the configuration of the rows that the function makes of files."""
        return MappedFilesConfig.of(config)

    def change_files(
        self,
        indexed: IndexedFiles,
        layout: beam.PCollection[Layout],
        encoder: FileEncoder,
        config: FilesConfig,
        temporary: str,
    ) -> Changed:
        """Return the rows that the function makes of files."""
        mapping = FileMap(
            self.function, encoder, config.seed, config.split.group_by, getattr(config, "jpeg_quality", 0)
        )
        slices = indexed.files | "SlicesOfMap" >> beam.FlatMap(slice_files).with_output_types(pa.RecordBatch)
        spread = slices | "SpreadOfMap" >> Spread(lambda batch: batch["name"][0].as_py())
        mapped = spread | "Map" >> _call(partial(map_files, mapping, temporary), config, AsSingleton(layout))
        return _change(indexed, mapped, self.config_of_files(config), _add_files, config, AsSingleton(layout))


# Part of the core time of map_task under Python's lock: 0.87 with a function that does nothing (bench_lock.py), and
# what a function does is mostly Python, too
_LOCK_SHARE = 0.87


def _call(map_element: Callable[..., list[Any]], config: FilesConfig | RecordsConfig, side: Any) -> beam.ParDo:
    call = ThreadedFlatMap(map_element, config.read_threads._replace(lock_share=_LOCK_SHARE))
    return beam.ParDo(call, side).with_outputs(REJECTS, FINDINGS, main="tasks")


def _change(
    indexed: IndexedBlocks | IndexedFiles, mapped: Any, rows: RecordsConfig, add: Callable[..., Any], *sides: Any
) -> Changed:
    """Return the stream of `mapped` tasks; `add` changes the summary, given the findings and `sides`."""
    findings = AsIter(mapped[FINDINGS] | "FindingsOfMap" >> beam.CombineGlobally(MergeFn(Findings)))
    rejects = (indexed.rejects, mapped[REJECTS]) | "RejectsOfMap" >> beam.Flatten()
    summary = indexed.summary | "SummaryOfMap" >> beam.Map(add, findings, *sides).with_output_types(InputSummary)
    return Changed(IndexedBlocks(mapped["tasks"], rejects, summary), rows, findings)


def _add_records(summary: InputSummary, mapped: Iterable[Findings], config: RecordsConfig) -> InputSummary:
    """Return the summary of the input with the records that the function has rejected; raises UserError.

    Files must have the same columns unless the options say otherwise; those of the rows are other ones.
    """
    check_files(summary, config)
    common_header(summary, config.table_options)
    rejected = _count_rejected(mapped, config)
    return replace(summary, rejected=summary.rejected + rejected, headers={})


def _add_files(summary: InputSummary, mapped: Iterable[Findings], config: FilesConfig, layout: Layout) -> InputSummary:
    """Return the summary of files with the records that the function has rejected; raises UserError.

    Its folders are the splits that the input gives.
    """
    rejected = _count_rejected(mapped, config)
    folders = {"": summary.records} if layout.fractions is not None else dict.fromkeys(layout.splits, 1)
    kept = InputSummary(size_bytes=summary.size_bytes, fingerprint=summary.fingerprint, skipped=summary.skipped)
    return replace(kept, rejected=summary.rejected + rejected, folders=Counter(folders))


def _count_rejected(mapped: Iterable[Findings], config: JobConfig) -> int:
    """Return the number of records that the function rejects; raise UserError if it leaves out all records."""
    found = next(iter(mapped), Findings()).find(MapCalls)
    if found.records and not found.rows and not found.rejected:
        raise UserError(f"{config.stream} left out all {plural(found.records, 'record')} of {config.source}")
    return found.rejected


def _make_mapped_format(config: RecordsConfig) -> RecordFormat:
    if not config.has_files:
        return make_spooled_format(config)
    return MappedFormat(config.block_size, config.fill, config.nesting, config.image)


_MAPPED = FormatSpec("mapped", "records", suffixes="", flags=("json_columns",), make_format=_make_mapped_format)


@dataclass(frozen=True, kw_only=True)
class MappedConfig(RecordsConfig):
    """The configuration of what the function of --map or --map_batches returns, as rows of a table."""

    origin: RecordsConfig  # of the job, as it was given

    @classmethod
    def of(cls, origin: RecordsConfig) -> "MappedConfig":
        """Return the configuration of the rows: options about files have their defaults."""
        given = {item.name: getattr(origin, item.name) for item in fields(RecordsConfig)}
        about_files = (option for option in options_of(RecordsConfig) if option.flag.is_about_files)
        reset = {option.field: option.default for option in about_files}
        others = tuple(options for options in origin.add_ons if not isinstance(options, MapOptions))
        reset |= {"add_ons": others, "on_mixed": "fail", "spec": _MAPPED, "data_set": None, "label_map": None}
        if origin.data_set is not None and origin.schema is not None and origin.schema.metadata:
            reset["schema"] = None  # it describes the records before the function
        return cls(**{**given, **reset, "origin": origin})

    def of_rows(self, summary: InputSummary, columns: Set[str], findings: Findings) -> Self:
        calls = findings.find(MapCalls)
        if calls.shares_places and self.has_files and self.on_duplicate_key != "allow":
            raise UserError(
                f"--on_duplicate_key {self.on_duplicate_key}: {self.origin.stream} makes several rows of a record,"
                " which have one place in the input; leave it out, or let the function return one row"
            )
        unknown = calls.columns - columns  # only the function got these
        return replace(self, types=tuple(item for item in self.types if item[0] not in unknown))

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.origin.inputs

    @property
    def source(self) -> str:
        return f"the rows of {self.origin.stream}"

    @property
    def has_files(self) -> bool:
        return self.origin.has_files

    @property
    def keeps_splits(self) -> bool:
        return self.origin.keeps_splits


@dataclass(frozen=True, kw_only=True)
class MappedFilesConfig(RecordsConfig):
    """The configuration of the rows that a function makes of whole files.

    A row's split depends on the name of its file, as without a function.
    """

    origin: FilesConfig  # of the job, as it was given
    has_splits: bool = False  # True if folders or a manifest give the splits

    @classmethod
    def of(cls, origin: FilesConfig) -> "MappedFilesConfig":
        """Return the configuration of the rows that the function of `origin` makes."""
        given = {item.name: getattr(origin, item.name) for item in fields(JobConfig)}
        analyzing = tuple(options for options in origin.add_ons if options.analysis)
        reset = {"add_ons": analyzing, "folders": None, "exclude": (), "input": None, "spec": _MAPPED}
        own = {"origin": origin, "key": ROW_KEY, "label": ("label",), "drop": (ROW_KEY, ROW_FILE)}
        return cls(**{**given, **reset, **own})

    def of_rows(self, summary: InputSummary, columns: Set[str], findings: Findings) -> Self:
        has_splits = "" not in summary.folders
        return replace(self, has_splits=has_splits, label=("label",) if "label" in columns else None)

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.origin.inputs or tuple(path for _, path in getattr(self.origin, "manifest", ()))

    @property
    def source(self) -> str:
        return f"the rows of {self.origin.stream}"

    @property
    def keeps_splits(self) -> bool:
        return self.has_splits

    @property
    def encoder(self) -> RecordEncoder:
        return FileRowEncoder(tuple(self.table_options.helper_columns), self.renames)

    @property
    def split(self) -> SplitOptions:
        split, group_by = super().split, self.origin.split.group_by
        is_by_row = group_by is None and split.stratify_by is not None
        if split.splits is None or is_by_row or not is_of_file(group_by):
            return split
        return replace(split, group_by=ROW_FILE)

    @property
    def identifying_features(self) -> tuple[str, ...]:
        return (ROW_KEY, "filename")
