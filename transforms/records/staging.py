"""PTransforms over all records: infer types, analyze, encode into runs, and cut runs into slices."""

import threading
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from typing import Any, NamedTuple

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import AsSingleton, TaggedOutput
from numpy.typing import NDArray

from shardmill.transforms.analysis import Analysis
from shardmill.transforms.columns.arrow import convert_batch, split_large_batch
from shardmill.transforms.columns.example_decoding import Kinds, count_kinds, decode_parts
from shardmill.transforms.columns.types import Inferred, ValuesOf
from shardmill.transforms.execution.pool import call_everywhere
from shardmill.transforms.execution.running import ONE_A_CORE, ThreadedFlatMap, Threads, find_reporter
from shardmill.transforms.features.rows import EncodedRows
from shardmill.transforms.files.image_features import Formats, count_deep_pngs, count_formats
from shardmill.transforms.findings import Findings, Mergeable, merged
from shardmill.transforms.formats.format import (
    BlockRef,
    RecordFormat,
    check_unchanged,
    compose_keys,
    read_stacked,
    split_rows,
    widen_block,
)
from shardmill.transforms.inputs.findings import REJECTS
from shardmill.transforms.inputs.record_blocks import Task, total_bytes
from shardmill.transforms.layout.tables import TableLayout
from shardmill.transforms.records.encoding import PreparedRows, RecordEncoder, concatenate_rows, count_by_split
from shardmill.transforms.records.keys import KeyOptions, assign_keys, key_by_stratum
from shardmill.transforms.records.merging import RunWriter
from shardmill.transforms.records.repeated_keys import KeyWriter, LaterRecords, RepeatedKeys
from shardmill.transforms.records.run_file import (
    REFERENCE,
    SLICE,
    InputFile,
    KeyedRecords,
    Run,
    Slice,
    slice_run,
    write_keys,
)
from shardmill.transforms.shards.balance import ShardKey
from shardmill.transforms.shards.divisions import Divisions
from shardmill.transforms.statistics.contents import Contents, Section, encode_names, make_section, sort_by_split
from shardmill.transforms.statistics.tables import TableStats
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.patience import call_with_retries
from shardmill.transforms.workers.elements import GatherFn, MergeFn, in_global_window
from shardmill.transforms.workers.rejects import RejectsPart, RejectsWriter
from shardmill.transforms.workers.resources import container_bytes, memory_budget

_MAX_ROWS_HELD = 1 << 20  # held at once: 24 MB


class TaskContentsWriter:
    """Writer of hashes of a task's contents, to find duplicates. It writes whenever it holds many, and on closing."""

    def __init__(self, folder: str, names: bytes, splits: Sequence[str]) -> None:
        """Create a writer of files in `folder`; `names` of the task's files are encoded as in a section."""
        self._folder, self._names, self._splits = folder, names, splits
        self._pending: list[tuple[Contents, NDArray[np.int64]]] = []
        self._rows = 0
        self._sections: list[Section] = []

    def add(self, contents: Contents, splits: NDArray[np.int64]) -> None:
        """Add encoded rows, with the number of each row's split."""
        self._pending.append((contents, splits))
        self._rows += len(contents)
        if self._rows >= _MAX_ROWS_HELD:
            self._write()

    def close(self) -> list[Section]:
        """Write what is still held, and return where all hashes are."""
        if self._pending:
            self._write()
        return self._sections

    def _write(self) -> None:
        contents = Contents.concatenate([part for part, _ in self._pending])
        splits = np.concatenate([part for _, part in self._pending])
        # A random name keeps attempts apart
        path, offset = storage.join(self._folder, uuid.uuid4().hex), 0
        written: list[object] = []
        for split, split_contents in zip(self._splits, sort_by_split(contents, splits, len(self._splits)), strict=True):
            if len(split_contents):
                section, parts = make_section(split_contents, split, path, offset, self._names)
                offset += section.size_bytes
                written += parts
                self._sections.append(section)
        storage.write_parts(path, written)
        self._pending, self._rows = [], 0


MAX_SLICES = 10**7  # of all shards: what a shuffle of their descriptions takes in a minute or two
MAX_RUN_BYTES = 1 << 30  # of a run, which waits on its worker's disk until it is whole
_MIN_RUNS = 64  # so that there is something to do for as many threads of workers
_MIN_SLICE_BYTES, _MIN_REMOTE_SLICE_BYTES = 2 << 10, 64 << 10  # that a request to a store brings at least
_REMOTE_RUN_BLOCKS = 4  # of a run in a store at least: each of its slices costs a request


@dataclass(frozen=True)
class RunSize:
    """The bytes of input that become one run, as a function of the total."""

    block_size: int  # bytes read at once; minimum size of a run on a disk
    shards: Callable[[int], int]  # estimates the number of shards from the input's bytes
    remote: bool = False  # True if runs are in an object store

    def __call__(self, total: int) -> int:
        """Return the bytes of a run for an input of `total` bytes."""
        # A run is large enough that a slice of it is worth a request and that the number of slices stays bounded. It is
        # small enough that all workers have something to do.
        shards = max(1, self.shards(total))
        least = _MIN_REMOTE_SLICE_BYTES if self.remote else _MIN_SLICE_BYTES
        wanted = max(least * shards, -(-total // max(1, MAX_SLICES // shards)))
        block = self.block_size * (_REMOTE_RUN_BLOCKS if self.remote else 1)
        return max(block, min(wanted, total // _MIN_RUNS, MAX_RUN_BYTES))


STAGED, WEIGHED = "staged", "weighed"
# Of a run, about: a row of two bytes of text is fifty as a record, and as much again in keys and positions
MAX_RUN_ROWS = 1 << 19
_STAGING_COPIES = 10  # times the size of a block: its bytes, the rows, the features, the records, and those sorted
_RUNS = "runs"
_CONTENTS = "contents"  # the folder of what records hold


class StagedRuns(NamedTuple):
    """The outputs of StageRuns: sorted runs, rejects and findings."""

    runs: beam.PCollection[Run]
    rejects: beam.PCollection[RejectsPart]
    staged: beam.PCollection["StagedFindings"]  # one of all records, none without tasks
    weighed: beam.PCollection[Run]  # of keys with weights in place of sizes, if records are weighed


@dataclass(slots=True)
class StagedFindings(Mergeable):
    """Findings about encoded rows, mergeable in any order."""

    record_count: int = 0  # number of records, good or bad
    stats: dict[str, TableStats] = field(default_factory=dict)  # statistics by split
    inferred: Inferred = field(default_factory=Inferred)  # types of features, if not known before
    kinds: Kinds = field(default_factory=dict)  # feature kinds of existing records
    images: Formats = field(default_factory=dict)  # formats of features that hold images
    deep: Counter[str] = field(default_factory=Counter)  # number of 16-bit PNGs by feature
    sections: list[Section] = field(default_factory=list)  # files with content hashes
    keys: list[Section] = field(default_factory=list)  # files with the keys, to find those of several records
    gathered: Any = None  # input of the analysis; None without one
    findings: Findings = field(default_factory=Findings)  # about the rows

    def absorb(self, other: "StagedFindings") -> None:
        """Add the findings of `other`, which nobody else uses."""
        for split in other.stats.keys() - self.stats.keys():
            self.stats[split] = other.stats.pop(split)  # else they would be copied
        self.merge(other)


@dataclass(frozen=True)
class Staging:
    """Parameters of StageRuns: how to read, encode, key and sort records."""

    format: RecordFormat  # format of the records
    encoder: RecordEncoder  # encoder of the rows
    options: KeyOptions  # options of keys and splits
    block_size: int  # approximate bytes of input encoded at once
    run_size: RunSize  # bytes of input per run, by the total
    analysis: Analysis | None = None  # of all examples, by an add-on
    weigh: Callable[[pa.RecordBatch], np.ndarray] | None = None  # weights of records to plan shards, given features


@dataclass(eq=False)
class StageRuns(beam.PTransform):
    """Encode tasks, parts of the input, into runs, sorted temporary files: Tasks -> StagedRuns."""

    staging: Staging  # parameters
    layout: beam.PCollection[TableLayout]  # side input: the input's layout
    temporary: str  # the job's temporary directory
    strata: beam.PCollection[Divisions] | None = None  # cuts of the strata, if splits depend on them
    repeated: beam.PCollection[RepeatedKeys] | None = None  # records to reject, if any
    threads: Threads = ONE_A_CORE
    progress_folder: str | None = None  # where workers on the launcher's machine report, or None

    def expand(self, pcoll: beam.PCollection[Task]) -> Any:  # StagedRuns; Beam reads annotations as element types
        stage = _StageFn(partial(call_with_retries, stage_and_keep, self.staging, self.progress_folder), self.threads)
        repeated, strata = (AsSingleton(part) if part else None for part in (self.repeated, self.strata))
        par_do = beam.ParDo(stage, AsSingleton(self.layout), self.temporary, repeated, strata)
        staged = pcoll | "StageTask" >> par_do.with_outputs(REJECTS, STAGED, WEIGHED, main=_RUNS)
        merge = beam.CombineGlobally(MergeFn(StagedFindings)).without_defaults()
        return StagedRuns(staged[_RUNS], staged[REJECTS], staged[STAGED] | "Merge" >> merge, staged[WEIGHED])


@dataclass(eq=False)
class ReadKeys(beam.PTransform):
    """Read the keys of records before any record is encoded: Tasks -> Runs by stratum, or Sections of --key."""

    read: Callable[..., Any]  # `key_task` or `read_keys_of_task`
    staging: Staging
    layout: beam.PCollection[TableLayout]
    temporary: str
    threads: Threads = ONE_A_CORE
    repeated: beam.PCollection[RepeatedKeys] | None = None  # records to reject, if any

    def expand(self, pcoll: beam.PCollection[Task]) -> beam.PCollection[Any]:
        read = ThreadedFlatMap(partial(self.read, self.staging), self.threads)
        repeated = AsSingleton(self.repeated) if self.repeated else None
        return pcoll | "KeyTask" >> beam.ParDo(read, AsSingleton(self.layout), self.temporary, repeated)


class _StageFn(ThreadedFlatMap):
    """DoFn that emits the findings of a bundle's tasks once, merged in the processes that staged the tasks."""

    def start_bundle(self) -> None:
        super().start_bundle()
        self._bundle = uuid.uuid4().hex

    def process(self, element: Any, *side: Any) -> Iterator[Any]:
        yield from super().process(element, *side, self._bundle)

    def finish_bundle(self) -> Iterator[Any]:
        yield from super().finish_bundle()
        staged = StagedFindings()
        for found in call_everywhere(take_kept, self._bundle):
            staged.absorb(found)
        yield in_global_window(TaggedOutput(STAGED, staged))


_kept: dict[str, StagedFindings] = {}  # of the tasks that this process has staged, by bundle
_keeping = threading.Lock()


def stage_and_keep(
    staging: Staging, progress_folder: str | None, task: Task, *arguments: Any
) -> list[Run | TaggedOutput]:
    """Encode one task; return its runs and rejects, and keep its findings, some 100 KB, until `take_kept`."""
    layout, temporary, repeated, strata, bundle = arguments
    with _keeping:
        kept = _kept.setdefault(bundle, StagedFindings())
    items, found = stage_task(staging, task, layout, temporary, repeated, strata, kept.stats)
    if progress_folder is not None:
        reporter = find_reporter(progress_folder, "staged")
        reporter.add(found.record_count, 0)
        reporter.flush()
    with _keeping:
        kept.absorb(found)
    return items


def take_kept(bundle: str) -> StagedFindings:
    """Return the findings of the tasks of a bundle that this process has staged, and keep them no longer."""
    with _keeping:
        return _kept.pop(bundle, None) or StagedFindings()


def stage_task(
    staging: Staging,
    task: Task,
    layout: TableLayout,
    temporary: str,
    repeated: RepeatedKeys | None,
    strata: Divisions | None,
    known: Mapping[str, TableStats],
) -> tuple[list[Run | TaggedOutput], StagedFindings]:
    """Encode one task; return its runs and rejects, and its findings, whose statistics are merged into `known` ones."""
    out: list[Any] = []
    staged, size = StagedFindings(), 0
    max_run_bytes = staging.run_size(total_bytes(task[0].file))
    self_contained, is_cached = not storage.is_local(temporary), total_bytes(task[0].file) < container_bytes() // 2
    least = _LEAST_CACHED if is_cached else _LEAST_UNCACHED
    run = RunWriter(_make_run_path(temporary), self_contained)
    names = encode_names(dict.fromkeys(block.file.name for block in task))
    contents = TaskContentsWriter(storage.join(temporary, _CONTENTS), names, layout.splits)
    gatherer = None if staging.analysis is None else staging.analysis.gatherer(temporary)
    rejects = RejectsWriter(temporary)
    keys = KeyWriter(temporary, task)
    counts_keys = staging.options.on_duplicate_key in ("allow", "fail")
    with memory_budget().take(_STAGING_COPIES * staging.block_size):
        for rows in _prepare_rows(staging, task, layout, staged, rejects, repeated):
            encoded = staging.encoder.encode(rows.batch, layout)
            rows = rows.with_content_ties(encoded)
            if counts_keys:
                keys.add(encoded, rows, layout, staging.options.key or "")
            records, content_hashes = assign_keys(rows, encoded, layout, staging.options, strata)
            if len(content_hashes):
                contents.add(content_hashes, records.groups)
            run.add(_leave_images(records, rows, encoded, least))
            if staging.weigh is not None:
                weights = staging.weigh(encoded.features)
                out.append(TaggedOutput(WEIGHED, write_keys(_make_run_path(temporary), records, weights)))
            size += rows.batch.nbytes
            # A run must not be put together from batches that were encoded apart
            if size >= max_run_bytes or max_run_bytes <= staging.block_size:
                out.append(run.close())
                run, size = RunWriter(_make_run_path(temporary), self_contained), 0
            # Analyzers need all statistics of a batch
            stats = count_by_split(rows, encoded, records.groups, layout, known if gatherer is None else None)
            if gatherer is not None:
                gatherer.add_groups(encoded.features, records.groups, layout.splits, stats)
            found = StagedFindings(stats=stats, inferred=encoded.inferred, kinds=encoded.kinds, findings=rows.findings)
            found.images, found.deep = count_formats(encoded.features), count_deep_pngs(encoded.features)
            staged.absorb(found)
        if (rest := run.close()) is not None:
            out.append(rest)
        staged.sections += contents.close()
        staged.keys += keys.close()
        out += [TaggedOutput(REJECTS, part) for part in rejects.close()]
        if gatherer is not None:
            staged.gathered = merged(staged.gathered, gatherer.close())
        return out, staged


# Of images that stay in their files. From an SSD, 25 KiB pieces in random places came at 314 MB/s, those of 512 KiB at
# 499, of 8 KiB at 223 and of 4 KiB at 95. Copied to a run, a byte is written and read once more. A cloud's disk of
# 3,000 requests and 125 MB a second prefers copies below 20 KiB. The first limit is for an input that fits into half of
# the memory, where the system's cache still has it. Of a larger one each image is a request to a disk.
_LEAST_CACHED, _LEAST_UNCACHED = 4 << 10, 32 << 10


def _leave_images(records: KeyedRecords, rows: PreparedRows, encoded: EncodedRows, least: int) -> KeyedRecords:
    if encoded.references is None:
        return records
    is_large = encoded.references["length"] >= least
    if not is_large.any():
        return records
    references = np.where(is_large, encoded.references, np.zeros(1, REFERENCE))
    files: dict[InputFile, int] = {}
    numbers = [files.setdefault((file.path, file.revision), len(files)) for file, _ in rows.sources]
    references["file"] = np.repeat(numbers, [len(lines) for _, lines in rows.sources])
    return replace(records, references=references, files=tuple(files))


def key_task(
    staging: Staging, task: Task, layout: TableLayout, temporary: str, repeated: RepeatedKeys | None
) -> list[Run]:
    """Return the keys of one task's records by stratum, the class or group that splits divide exactly."""
    runs = []  # the second pass reports rejects
    with memory_budget().take(_STAGING_COPIES * staging.block_size):
        for rows in _prepare_rows(staging, task, layout, StagedFindings(), None, repeated):
            encoded = staging.encoder.encode(rows.batch, layout)
            rows = rows.with_content_ties(encoded)
            runs.append(write_keys(_make_run_path(temporary), key_by_stratum(rows, encoded, layout, staging.options)))
    return runs


def read_keys_of_task(staging: Staging, task: Task, layout: TableLayout, temporary: str, _: None) -> list[Section]:
    """Write the keys of one task's valid records, and return where they are."""
    keys = KeyWriter(temporary, task)
    with memory_budget().take(_STAGING_COPIES * staging.block_size):
        for rows in _prepare_rows(staging, task, layout, StagedFindings(), None):
            encoded = staging.encoder.encode(rows.batch, layout)
            keys.add(encoded, rows.with_content_ties(encoded), layout, staging.options.key or "")
        return keys.close()


def find_in_task(staging: Staging, task: Task, layout: TableLayout) -> list[Findings]:
    """Return the findings of one task's rows as a job has them; nothing is encoded or written."""
    staged = StagedFindings()
    parts = [rows.findings for rows in _prepare_rows(staging, task, layout, staged, None)]
    return [reduce(Findings.merge, parts, staged.findings)]


def _prepare_rows(
    staging: Staging,
    task: Task,
    layout: TableLayout,
    staged: StagedFindings,
    rejects_writer: RejectsWriter | None,
    repeated: RepeatedKeys | None = None,
) -> Iterator[PreparedRows]:
    gathered: list[PreparedRows] = []
    size = count = 0
    later = LaterRecords(repeated, task)
    block_size = widen_block(staging.block_size, len(layout.types))
    for block, rows in _read_rows(staging.format, task, layout):
        rows = compose_keys(rows, block.file, layout.keys, staging.options.split.group_by)
        rows = later.reject(rows, block.file, staging.options.key)
        staged.record_count += len(rows.batch) + sum(reject.counted_records for reject in rows.rejects)
        staged.findings = staged.findings.merge(rows.findings)
        prepared, rejects = staging.encoder.prepare(rows, block.file, layout)
        if rejects_writer is not None:
            rejects = [*rows.rejects, *rejects]
            if not block.file.is_ordered:
                from shardmill.transforms.rows.formats import name_rejects

                rejects = name_rejects(block, rejects)
            rejects_writer.add(rejects)
        if len(prepared.batch):
            gathered.append(prepared)
            size += prepared.batch.nbytes
            count += len(prepared.batch)
        if size >= block_size or count >= MAX_RUN_ROWS:
            yield concatenate_rows(gathered)
            gathered, size, count = [], 0, 0
    if gathered:
        yield concatenate_rows(gathered)


def _read_rows(format_: RecordFormat, task: Sequence[BlockRef], layout: TableLayout) -> Iterator[tuple[BlockRef, Any]]:
    for block in task:
        for rows in read_stacked(format_, block, layout.types, layout.keys):
            for part in split_rows(rows, MAX_RUN_ROWS):
                yield block, part
    check_unchanged(block.file for block in task)


def _make_run_path(temporary: str) -> str:
    # A random name keeps attempts apart: a retried or speculative one must never write to another's file.
    return storage.join(temporary, f"run-{uuid.uuid4().hex}")


@dataclass(eq=False)
class SliceRuns(beam.PTransform):
    """Divide runs among shards: Runs -> (shard, batch of slices) for each shard that has records in a run."""

    divisions: beam.PCollection[Divisions]  # side input: cuts of each split
    threads: Threads = ONE_A_CORE

    def expand(self, pcoll: beam.PCollection[Run]) -> beam.PCollection[tuple[ShardKey, pa.RecordBatch]]:
        slices = pcoll | "Slice" >> beam.ParDo(ThreadedFlatMap(slice_run, self.threads), AsSingleton(self.divisions))
        gather = beam.ParDo(GatherFn(_slice_batches)).with_output_types(tuple[ShardKey, pa.RecordBatch])
        return slices | "GatherSlices" >> gather


def _slice_batches(slices: list[tuple[ShardKey, Slice]]) -> Iterator[tuple[ShardKey, pa.RecordBatch]]:
    of_shard: dict[ShardKey, list[Slice]] = {}
    for shard, part in slices:
        of_shard.setdefault(shard, []).append(part)
    for shard, rows in of_shard.items():
        for batch in split_large_batch(convert_batch([list(column) for column in zip(*rows, strict=True)], SLICE)):
            yield shard, batch


@dataclass(eq=False)
class InferColumns(beam.PTransform):
    """Infer column types: Tasks -> one Inferred of all rows, or none if there are no tasks."""

    format: RecordFormat  # format of the records
    columns: Sequence[str] | None = None  # columns to infer; None for all
    values_of: Sequence[ValuesOf] = ()  # columns whose distinct values are collected
    threads: Threads = ONE_A_CORE

    def expand(self, pcoll: beam.PCollection[Task]) -> beam.PCollection[Inferred]:
        infer = partial(infer_columns_of_task, self.format, self.columns, self.values_of)
        inferred = pcoll | "InferTask" >> beam.ParDo(ThreadedFlatMap(infer, self.threads))
        return inferred | "Merge" >> beam.CombineGlobally(MergeFn(Inferred)).without_defaults()


def infer_columns_of_task(
    format_: RecordFormat, columns: Sequence[str] | None, values_of: Sequence[ValuesOf], task: Task
) -> list[Inferred]:
    """Return the column types of one task's rows, as a list of one element."""
    parts = (part for block in task for part in format_.infer(block, columns, values_of))
    found = reduce(Inferred.merge, parts, Inferred())
    check_unchanged(block.file for block in task)
    return [found]


@dataclass(eq=False)
class CountKinds(beam.PTransform):
    """Count feature kinds: Tasks -> one Kinds of all records, or none if there are no tasks."""

    format: RecordFormat  # format of the records, which has a column `record`
    threads: Threads = ONE_A_CORE

    def expand(self, pcoll: beam.PCollection[Task]) -> beam.PCollection[Kinds]:
        counted = pcoll | "Count" >> beam.ParDo(ThreadedFlatMap(partial(_count_kinds, self.format), self.threads))
        return counted | "Merge" >> beam.CombineGlobally(MergeFn(dict)).without_defaults()


def _count_kinds(format_: RecordFormat, task: Task) -> list[Kinds]:
    kinds: Kinds = {}
    for block in task:
        for rows in format_.read(block, {}):
            files = pa.repeat(block.file.name, len(rows.lines))
            kinds = merged(kinds, count_kinds(decode_parts(rows.batch["record"]), files, rows.lines))
    check_unchanged(block.file for block in task)
    return [kinds]
