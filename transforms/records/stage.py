"""PTransforms that parse and encode each block once, into runs; and that look at strata before, where splits depend on
them."""

import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow.compute as pc
from apache_beam.pvalue import AsSingleton, TaggedOutput

from shardmill.transforms.columns.inferred import Inferred
from shardmill.transforms.columns.rounded import RoundedColumns, merge_rounded
from shardmill.transforms.contents.section import Section, names_blob
from shardmill.transforms.examples.kinds import Kinds, merge_kinds
from shardmill.transforms.files.images.found import Formats, deep_pngs_of, formats_of, merge_formats
from shardmill.transforms.formats.base import BlockRef, RecordFormat, split_rows
from shardmill.transforms.inputs.blocks import Task, total_bytes
from shardmill.transforms.inputs.indexed import REJECTS
from shardmill.transforms.layout.table_layout import TableLayout
from shardmill.transforms.preprocessing import gather
from shardmill.transforms.preprocessing.gather import Analysis, Gathered, Gatherer
from shardmill.transforms.records.contents import ContentsOfTask
from shardmill.transforms.records.encode import PreparedRows, RecordEncoder, join, split_stats
from shardmill.transforms.records.keyed import KeyOptions, keyed, stratum_keys
from shardmill.transforms.records.run_file import Run, write_keys
from shardmill.transforms.records.run_size import RunSize
from shardmill.transforms.records.run_writer import RunWriter
from shardmill.transforms.rejects.part import RejectsPart, RejectsWriter
from shardmill.transforms.sharding.divisions import Divisions
from shardmill.transforms.statistics.tables import TableStats
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.patience import patiently
from shardmill.transforms.workers.memory import budget
from shardmill.transforms.workers.merging import Merging
from shardmill.transforms.workers.progress import ProgressReporter
from shardmill.transforms.workers.threads import ThreadedFlatMap
from shardmill.transforms.workers.windowed import windowed

STAGED, WEIGHED = "staged", "weighed"
# Of a run, about: a row of two bytes of text is fifty as a record, and as much again in keys and positions
MAX_ROWS = 1 << 19
_HELD = 10  # times the size of a block: its bytes, the rows, the features, the records, and those sorted
_MOST_OTHERS = 100  # names: keys may be data
_RUNS = "runs"
_CONTENTS = "contents"  # the folder of what records hold


class StagedRuns(NamedTuple):
    """What staging gives: runs, rejects, the one Staged of all of it, if there were any tasks, and runs of keys with
    numbers of tokens in the place of sizes, if the staging weighs."""

    runs: beam.PCollection[Run]
    rejects: beam.PCollection[RejectsPart]
    staged: beam.PCollection["Staged"]
    weighed: beam.PCollection[Run]


@dataclass(slots=True)
class Staged:
    """What was seen of some rows as they were encoded; mergeable in any order.

    Attributes:
      read: records, good or bad.
      blank: lines without a record.
      stats: of each split.
      inferred: of features whose types are not known before.
      kinds: of the features of existing records.
      images: the formats of features that hold images.
      deep: how many values of each feature are PNGs of 16 bits a channel.
      sections: where it lies what the records hold.
      gathered: of what --transform takes constants.
      odd, tokens: see PreparedRows.
      others: names of what nobody asked for, the first of many; see shardmill.transforms.formats.base.Rows.
      rounded: integers that float32 changes.
    """

    read: int = 0
    blank: int = 0
    stats: dict[str, TableStats] = field(default_factory=dict)
    inferred: Inferred = field(default_factory=Inferred)
    kinds: Kinds = field(default_factory=dict)
    images: Formats = field(default_factory=dict)
    deep: Counter[str] = field(default_factory=Counter)
    sections: list[Section] = field(default_factory=list)
    gathered: Gathered = field(default_factory=Gathered)
    odd: Counter[tuple[str, str]] = field(default_factory=Counter)
    tokens: Counter[str] = field(default_factory=Counter)
    others: frozenset[str] = frozenset()
    rounded: RoundedColumns = field(default_factory=dict)

    def merge(self, other: "Staged") -> "Staged":
        """Add what `other` saw, and return this; `other`, which may be an element that a runner merges again, stays as
        it is."""
        for split in other.stats:
            self.stats.setdefault(split, TableStats())  # into which those of `other` are copied
        return self.take(other)

    def see_others(self, names: frozenset[str]) -> None:
        """Remember some names of what nobody asked for."""
        if not names <= self.others:
            self.others = frozenset(sorted(self.others | names)[:_MOST_OTHERS])

    def take(self, other: "Staged") -> "Staged":
        """Add what `other` saw, which nobody else holds, and return this: its statistics are not copied."""
        self.read += other.read
        self.blank += other.blank
        self.odd.update(other.odd)
        self.tokens.update(other.tokens)
        self.see_others(other.others)
        self.rounded = merge_rounded(self.rounded, other.rounded)
        self.inferred = self.inferred.merge(other.inferred)
        self.kinds = merge_kinds(self.kinds, other.kinds)
        self.deep.update(other.deep)
        self.images = merge_formats(self.images, other.images)
        self.sections += other.sections
        self.gathered.merge(other.gathered)
        for split, stats in other.stats.items():
            if split in self.stats:
                self.stats[split].merge(stats)
            else:
                self.stats[split] = stats
        return self


@dataclass(frozen=True)
class Staging:
    """How blocks become runs.

    Attributes:
      format: of the records.
      encoder: of the route.
      options: of keys and splits.
      block_size: bytes of input that are encoded at once, about.
      run_size: and that become one run, by the bytes of all of it.
      analysis: what --transform takes constants of; None without it.
      weighs: the lists of tokens that are counted of each record for the plan of shards; () where none are.
    """

    format: RecordFormat
    encoder: RecordEncoder
    options: KeyOptions
    block_size: int
    run_size: RunSize
    analysis: Analysis | None = None
    weighs: tuple[str, ...] = ()


@dataclass(eq=False)
class StageRuns(beam.PTransform):
    """Tasks -> StagedRuns.

    Attributes:
      staging: how.
      layout: side input: how the input is read.
      temporary: the job's temporary directory.
      strata: how strata are cut, where splits depend on them; else None.
      threads: in each worker, see ThreadedFlatMap.
      progress_folder: where workers on the launcher's machine report, or None.
    """

    staging: Staging
    layout: beam.PCollection[TableLayout]
    temporary: str
    strata: beam.PCollection[Divisions] | None = None
    threads: int = 0
    progress_folder: str | None = None

    def expand(self, pcoll: beam.PCollection[Task]) -> Any:  # StagedRuns; Beam reads annotations as element types
        """Each task on one worker; what is seen is merged by bundle."""
        side = [
            AsSingleton(self.layout),
            self.temporary,
            *([AsSingleton(self.strata)] if self.strata else []),
        ]
        staged = pcoll | "StageTask" >> beam.ParDo(
            _StageFn(partial(patiently, stage_task, self.staging), self.threads, self.progress_folder), *side
        ).with_outputs(REJECTS, STAGED, WEIGHED, main=_RUNS)
        merged = staged[STAGED] | "Merge" >> beam.CombineGlobally(Merging(Staged, Staged.merge)).without_defaults()
        return StagedRuns(staged[_RUNS], staged[REJECTS], merged, staged[WEIGHED])


@dataclass(eq=False)
class KeyStrata(beam.PTransform):
    """Tasks -> Runs of keys alone, grouped by stratum: a first pass for --stratify_by, since exact splits take all
    keys."""

    staging: Staging
    layout: beam.PCollection[TableLayout]
    temporary: str
    threads: int = 0

    def expand(self, pcoll: beam.PCollection[Task]) -> beam.PCollection[Run]:
        """Encode and forget."""
        return pcoll | "KeyTask" >> beam.ParDo(
            ThreadedFlatMap(partial(key_task, self.staging), self.threads),
            AsSingleton(self.layout),
            self.temporary,
        )


class _StageFn(ThreadedFlatMap):
    """Merges what tasks saw, which is some hundred kilobytes each, before it is emitted."""

    def __init__(self, function: Any, threads: int, progress_folder: str | None) -> None:
        super().__init__(function, threads)
        self._progress_folder = progress_folder

    def setup(self) -> None:
        super().setup()
        self._progress = ProgressReporter(self._progress_folder, "staged") if self._progress_folder else None

    def start_bundle(self) -> None:
        super().start_bundle()
        self._staged = Staged()

    def finish_bundle(self) -> Iterator[Any]:
        yield from super().finish_bundle()
        yield windowed(TaggedOutput(STAGED, self._staged))
        if self._progress is not None:
            self._progress.flush()

    def emit(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            if isinstance(item, Staged):
                self._staged.take(item)
                if self._progress is not None:
                    self._progress.add(item.read, 0)
            else:
                yield item


def stage_task(
    staging: Staging, task: Task, layout: TableLayout, temporary: str, strata: Divisions | None = None
) -> list[Run | TaggedOutput | Staged]:
    """The runs of one task, its rejects, tagged, and what was seen."""
    with budget().take(_HELD * staging.block_size):
        return _stage_task(staging, task, layout, temporary, strata)


def _stage_task(
    staging: Staging, task: Task, layout: TableLayout, temporary: str, strata: Divisions | None
) -> list[Run | TaggedOutput | Staged]:
    out: list[Any] = []
    staged = Staged()
    most = staging.run_size(total_bytes(task[0].file))
    size = 0
    self_contained = not storage.is_local(temporary)
    run = RunWriter(_new_path(temporary), self_contained)
    names = names_blob(dict.fromkeys(block.file.name for block in task))
    contents = ContentsOfTask(storage.join(temporary, _CONTENTS), names, layout.splits)
    gatherer = Gatherer(staging.analysis, storage.join(temporary, gather.FOLDER)) if staging.analysis else None
    rejects = RejectsWriter(temporary)
    for rows in _prepared(staging, task, layout, staged, rejects):
        encoded = staging.encoder.encode(rows.batch, layout)
        records, held = keyed(rows, encoded, layout, staging.options, strata)
        if len(held):
            contents.add(held, records.groups)
        run.add(records)
        if staging.weighs:
            tokens = sum(pc.list_value_length(encoded.features[name]).to_numpy() for name in staging.weighs)
            out.append(TaggedOutput(WEIGHED, write_keys(_new_path(temporary), records, tokens)))
        size += rows.batch.nbytes
        if size >= most or most <= staging.block_size:  # no run is put together of what was encoded apart
            out.append(run.close())
            run, size = RunWriter(_new_path(temporary), self_contained), 0
        stats = split_stats(rows, encoded, records.groups, layout)
        if gatherer is not None:
            gatherer.add_groups(encoded.features, records.groups, layout.splits, stats)
        images = formats_of(encoded.features)
        staged.take(
            Staged(
                stats=stats,
                inferred=encoded.inferred,
                kinds=encoded.kinds,
                images=images,
                deep=deep_pngs_of(encoded.features),
                odd=rows.odd,
                tokens=rows.tokens,
            )
        )
    if (rest := run.close()) is not None:
        out.append(rest)
    staged.sections += contents.close()
    out += [TaggedOutput(REJECTS, part) for part in rejects.close()]
    if gatherer is not None:
        staged.gathered.merge(gatherer.close())
    return [*out, staged]


def key_task(staging: Staging, task: Task, layout: TableLayout, temporary: str) -> list[Run]:
    """The keys of one task by stratum; rejects are for the second pass to tell."""
    runs = []
    with budget().take(_HELD * staging.block_size):
        for rows in _prepared(staging, task, layout, Staged(), None):
            encoded = staging.encoder.encode(rows.batch, layout)
            runs.append(write_keys(_new_path(temporary), stratum_keys(rows, encoded, layout, staging.options)))
    return runs


def _prepared(
    staging: Staging, task: Task, layout: TableLayout, staged: Staged, left_out: RejectsWriter | None
) -> Iterator[PreparedRows]:
    """The good rows of a task, gathered until they are worth a run."""
    gathered: list[PreparedRows] = []
    size = count = 0
    for block, rows in _read(staging.format, task, layout):
        staged.read += len(rows.batch) + sum(reject.counted for reject in rows.rejects)
        staged.blank += rows.blank
        staged.see_others(rows.others)
        staged.rounded = merge_rounded(staged.rounded, rows.rounded)
        prepared, rejects = staging.encoder.prepare(rows, block.file, layout)
        if left_out is not None:
            left_out.add(rows.rejects)
            left_out.add(rejects)
        if len(prepared.batch):
            gathered.append(prepared)
            size += prepared.batch.nbytes
            count += len(prepared.batch)
        if size >= staging.block_size or count >= MAX_ROWS:
            yield join(gathered)
            gathered, size, count = [], 0, 0
    if gathered:
        yield join(gathered)


def _read(format_: RecordFormat, task: Sequence[BlockRef], layout: TableLayout) -> Iterator[tuple[BlockRef, Any]]:
    for block in task:
        for rows in format_.read(block, layout.types, layout.keys):
            for part in split_rows(rows, MAX_ROWS):
                yield block, part


def _new_path(temporary: str) -> str:
    # A random name keeps attempts apart: a retried or speculative one must never write to another's file.
    return storage.join(temporary, f"run-{uuid.uuid4().hex}")
