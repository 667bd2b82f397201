"""The analyses of --transform and --module_file, as hooks of a job."""

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import AsIter, AsSingleton

from shardmill.addons.transform.analyzers import GATHERED_FOLDER, Gathered, Gatherer
from shardmill.addons.transform.graph_process import prestarted, quiet_tensorflow
from shardmill.addons.transform.preprocessing_declaration import Declaration, check_analyzed_splits
from shardmill.addons.transform.preprocessing_module import PreprocessingModule
from shardmill.addons.transform.shards import TransformedShards
from shardmill.addons.transform.transform_graph import (
    TRANSFORM_FN,
    module_files,
    stage_graph,
    transform_files,
    transform_notices,
)
from shardmill.data.features import Features, Renames, mark_labels
from shardmill.errors import JobError, UserError
from shardmill.metadata.schema import to_pbtxt
from shardmill.pipelines.jobs import record_features
from shardmill.pipelines.jobs.skeleton import DryRun
from shardmill.transforms.analysis import Analysis, StagedFiles
from shardmill.transforms.layout.tables import TableLayout
from shardmill.transforms.options.job_options import TRAINING
from shardmill.transforms.publishing.description import PublishOptions
from shardmill.transforms.records.run_file import ENTRY, Run, read_keys_at, strip_frames
from shardmill.transforms.records.staging import StagedFindings, StagedRuns
from shardmill.transforms.stores import storage

if TYPE_CHECKING:
    from shardmill.addons.transform.options import DeclaredOptions, TransformOptions
    from shardmill.pipelines.config.job import JobConfig
    from shardmill.pipelines.config.records import RecordsConfig

_LOCK_SHARE = 0.01  # as bench_lock.py measures: TensorFlow, which each process would have to import, releases the lock


def make_analysis(options: "DeclaredOptions | TransformOptions", config: "JobConfig") -> Analysis:
    """Return the analysis that options ask for in a job with `config`."""
    materializes = getattr(options, "materialize", False)
    shared: dict[str, Any] = {"replaces_examples": materializes, "lock_share": _LOCK_SHARE}
    shared |= {"renames": config.renames, "splits": options.analyze_splits or (TRAINING,)}
    if (module := getattr(options, "module_file", None)) is not None:
        return ModuleAnalysis(
            flag="--module_file",
            plans_first="--module_file is traced with the types of columns",
            reads_records=True,
            libraries=("tensorflow", "tensorflow-transform"),
            module=module,
            **shared,
        )
    declared = {"declaration": options.transform.of_input(config.renames), "previous_graph": options.transform_graph}
    return DeclaredAnalysis(flag="--transform", reads_records=materializes, **declared, **shared)


@dataclass(frozen=True, kw_only=True)
class _GraphAnalysis(Analysis):
    splits: tuple[str, ...]  # splits whose examples are analyzed, as the user ordered them
    renames: Renames

    def stage_files(
        self,
        layout: beam.PCollection[TableLayout],
        staged: StagedRuns,
        config: "RecordsConfig",
        options: PublishOptions,
        plan: DryRun | None,
        temporary: str,
    ) -> tuple[beam.PCollection[StagedFiles], beam.PCollection[TransformedShards] | None]:
        folder = self.analyze(staged, plan, temporary)
        side = (folder, AsIter(staged.staged), config.table_options, options, self)
        files = layout | "TransformGraph" >> beam.Map(_stage_graph, *side).with_output_types(StagedFiles)
        if not self.replaces_examples:
            return files, None
        return files, files | "Shards" >> beam.Map(TransformedShards, config.source)

    def analyze(self, staged: StagedRuns, plan: DryRun | None, temporary: str) -> Any:
        """Return the folder of an analysis, as a side input; "" for none."""
        return ""

    @abstractmethod
    def make_graph(self, folder: str, staged: StagedFindings, features: Features) -> dict[str, bytes]:
        """Return the files of the graph, given the features of raw examples by input name."""

    def notices(self, files: Mapping[str, bytes]) -> list[str]:
        return transform_notices(files)


def _stage_graph(
    layout: TableLayout,
    folder: str,
    all_staged: Iterable[StagedFindings],
    table: Any,
    options: PublishOptions,
    analysis: _GraphAnalysis,
) -> StagedFiles:
    staged = next(iter(all_staged), StagedFindings())
    features = record_features.published_features(layout, staged, table)[0]
    files = analysis.make_graph(folder, staged, features)
    renamed = analysis.renames.rename_features(features)
    return stage_graph(options.folder, files, mark_labels(renamed, options.configuration)) if files else StagedFiles()


@dataclass(frozen=True, kw_only=True)
class DeclaredAnalysis(_GraphAnalysis):
    """The analysis of --transform, whose constants are computed of what workers gather."""

    declaration: Declaration
    previous_graph: Any = None  # a PreviousGraph; its constants are used again

    def ahead(self) -> AbstractContextManager[None]:
        return prestarted()

    def check(self, features: Features, splits: Collection[str], columns: Collection[str] | None = None) -> None:
        if features and self.declaration.analyzed_chains:
            check_analyzed_splits(self.flag, self.splits, splits)
        if features:
            self.declaration.check(features, self.renames)
        for chain in self.declaration.analyzed_chains:
            if columns is not None and chain.feature not in columns:
                raise chain.error("constants are taken of the columns of the manifest, and it is none of them")

    def describe(self, features: Features, source: str) -> list[str]:
        outputs = self.declaration.describe_outputs(features) if features else ()
        return ["Transform:", *(f"  {line}" for line in outputs)] if features else []

    def gatherer(self, temporary: str) -> Gatherer:
        return Gatherer(self.declaration, self.splits, storage.join(temporary, GATHERED_FOLDER))

    def make_graph(self, folder: str, staged: StagedFindings, features: Features) -> dict[str, bytes]:
        if staged.gathered is None or not staged.gathered.examples:  # which Publish says
            return {}
        return self.make_files(staged.gathered, features, self.renames)

    def make_files(self, gathered: Gathered | None, features: Features, renames: Renames) -> dict[str, bytes]:
        return transform_files(self, gathered or Gathered(), features, renames)


@dataclass(frozen=True, kw_only=True)
class ModuleAnalysis(_GraphAnalysis):
    """The analysis of --module_file, by TensorFlow Transform over staged records."""

    module: PreprocessingModule
    schema: str = ""  # of raw examples, text of a schema.pbtxt, as soon as the types of columns are known

    def check(self, features: Features, splits: Collection[str], columns: Collection[str] | None = None) -> None:
        check_analyzed_splits(self.flag, self.splits, splits)

    def describe(self, features: Features, source: str) -> list[str]:
        name = self.module.name
        if not features:
            raise UserError(f"--module_file {name}: no row of {source} can be read")
        with quiet_tensorflow():
            from shardmill.addons.transform.tensorflow_module import trace_outputs

        outputs = trace_outputs(self.module, self._schema(features))
        return [f"Transform: {name}", *(f"  {output}: {words}" for output, words in outputs.items())]

    def analyze(self, staged: StagedRuns, plan: DryRun | None, temporary: str) -> Any:
        assert plan is not None
        planned = replace(self, schema=self._schema(plan.features))
        return AsSingleton(staged.runs | "AnalyzeModule" >> AnalyzeRuns(planned, staged.staged, temporary))

    def make_graph(self, folder: str, staged: StagedFindings, features: Features) -> dict[str, bytes]:
        graph, found = read_analyzed_files(folder)
        counts = check_examples(staged, self.splits)
        return module_files(self.module, graph, self._schema(features), found, counts)

    def _schema(self, features: Features) -> str:
        return to_pbtxt(self.renames.rename_features(features))


BATCH_BYTES = 4 << 20  # of framed records
BATCH_ROWS = 1 << 14


@dataclass(eq=False)
class AnalyzeRuns(beam.PTransform):
    """Run TensorFlow Transform's analysis over the records of runs: Runs -> its output folder, once written.

    TFT reads its input once for each phase of analyzers. Between phases only descriptions of runs are held.
    """

    analysis: "ModuleAnalysis"
    staged: beam.PCollection[StagedFindings]  # side input: statistics of the runs' records
    temporary: str  # the job's temporary directory

    def expand(self, pcoll: beam.PCollection[Run]) -> beam.PCollection[str]:
        from shardmill.addons.transform.tensorflow_module import analyze

        folder = storage.join(self.temporary, "analyzed")
        analysis = self.analysis
        counted = self.staged | "CheckExamples" >> beam.Map(check_examples, analysis.splits)
        decode = beam.FlatMap(_decode_run, analysis, AsIter(counted)).with_output_types(pa.RecordBatch)
        # TFT begins anew behind "Runs" for each phase.
        batches = pcoll | "Runs" >> beam.Reshuffle() | "Read" >> decode
        done = analyze(batches, analysis.module, analysis.schema, storage.join(self.temporary, "tft"), folder)
        return done | "Folder" >> beam.Map(lambda _, found: found, folder).with_output_types(str)


def check_examples(staged: StagedFindings, splits: Iterable[str]) -> dict[str, int]:
    """Return the number of examples in each analyzed split; raise a JobError if all of these are empty."""
    counts = {split: stats.examples for split, stats in staged.stats.items()}
    found = {split: counts.get(split, 0) for split in splits}
    if not any(found.values()):
        named = " or ".join(map(repr, found))
        having = ", ".join(split for split, examples in counts.items() if examples) or "none"
        raise JobError(
            f"--module_file: no example is in split {named}, which is analyzed; those that have examples are {having},"
            f" of {staged.record_count:,} records that were read; --analyze_splits names others"
        )
    return found


def _decode_run(run: Run, analysis: "ModuleAnalysis", counted: Iterable[dict[str, int]]) -> Iterator[pa.RecordBatch]:
    """Yield the record batches of a run. The side input `counted` delays this until the examples are checked."""
    from shardmill.addons.transform.tensorflow_module import make_decoder

    decode = make_decoder(analysis.schema)
    for records in read_record_batches(run, analysis.splits):
        yield decode(records)


def read_record_batches(run: Run, splits: Iterable[str]) -> Iterator[list[bytes]]:
    """Yield the records of `splits` in a run, in batches."""
    wanted = set(splits)
    gap = ENTRY.itemsize if run.self_contained else 0
    _, _, entries = read_keys_at(run.path, run.index_offset, run.rows)
    sizes = entries.astype(np.int64)
    place = first = 0
    for part in run.parts:
        mine = sizes[first : first + part.rows]
        first += part.rows
        if part.group in wanted:
            yield from _read_part(run.path, place, mine, gap)
        place += part.size_bytes + gap * part.rows


def _read_part(path: str, place: int, sizes: np.ndarray, gap: int) -> Iterator[list[bytes]]:
    ends = np.cumsum(sizes + gap)
    start = 0
    while start < len(sizes):
        before = int(ends[start - 1]) if start else 0
        fitting = int(np.searchsorted(ends, before + BATCH_BYTES, "right"))
        stop = min(max(fitting, start + 1), start + BATCH_ROWS, len(sizes))
        size = int(ends[stop - 1]) - before
        yield strip_frames(bytes(storage.read_range(path, place + before, size)), sizes[start:stop], gap)
        start = stop


def read_analyzed_files(folder: str) -> tuple[dict[str, bytes], str]:
    """Return the files that TFT wrote to a folder, by name relative to it, and the digest of its findings."""
    from shardmill.addons.transform.tensorflow_module import digest_graph

    files = {name: storage.read_bytes(storage.join(folder, name)) for name, _ in storage.list_files(folder)}
    model = TRANSFORM_FN.rpartition("/")[2] + "/"
    return files, digest_graph(
        {name.removeprefix(model): data for name, data in files.items() if name.startswith(model)}
    )
