"""The skeleton of a job: find, lay out, prepare, cut, write, publish. Files and records are its fillings.

A filling finds its input, lays it out and cuts it; all else is here. A dry run ends before the output is prepared, with
a `DryRun`.
"""

import pickle
import posixpath
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import metadata
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsIter, AsSingleton

import shardmill
from shardmill.data.features import Features, Renames
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.reports.summary import JobWork, dry_run_rejects
from shardmill.text import to_printable
from shardmill.transforms.columns.types import Inferred
from shardmill.transforms.execution.running import report_plan
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.publishing import publish
from shardmill.transforms.publishing.description import Build, PublishOptions
from shardmill.transforms.shards.balance import ShardKey
from shardmill.transforms.shards.divisions import Divisions
from shardmill.transforms.shards.sources import FileIndex, ShardInfo
from shardmill.transforms.shards.writing import REJECTS, WriteShards
from shardmill.transforms.statistics.files import SplitStats, merge_by_split, rename_stats
from shardmill.transforms.stores import storage
from shardmill.transforms.workers.rejects import PlaceOf, RejectsPart, gather_rejects


def publish_options(config: JobConfig) -> PublishOptions:
    """Return the options of publishing and describing the data set of a job with `config`."""
    libraries = (*config.libraries, *filter(None, [config.codec.library]))
    return config.subset(
        PublishOptions,
        source=config.pattern,
        configuration=config.to_json(),
        schema_constraints=config.schema_requests,
        build_record=config.record,
        versions={"shardmill": shardmill.__version__, **{name: metadata.version(name) for name in libraries}},
    )


def rename_build(build: Build, features: Features, renames: Renames) -> tuple[Build, Features]:
    """Return the results of a job and its features with the names that --rename gives."""
    return replace(build, stats=rename_stats(build.stats, renames)), renames.rename_features(features)


@dataclass(frozen=True, slots=True)
class Cut:
    """An input that is cut into shards, and how they are written. Only temporary files are written before."""

    divisions: beam.PCollection[Divisions]
    parts: beam.PCollection[tuple[ShardKey, Any]]  # what each shard is made of
    rejects: Sequence[beam.PCollection[RejectsPart]]
    strata: beam.PCollection[Divisions] | None  # how classes are divided among the splits
    how: Mapping[str, Any] = field(default_factory=dict)  # options of WriteShards
    sides: Sequence[Any] = ()  # further arguments of `Skeleton.make_build`, such as side inputs
    index_options: FileIndex | None = None  # how files are remembered


@dataclass(frozen=True, slots=True)
class WrittenShards:
    """The results of all steps before the last one."""

    layout: Any
    divisions: Divisions
    shards: list[ShardInfo]
    rejects: Iterable[RejectsPart]

    def merge_stats(self) -> dict[str, SplitStats]:
        """Return the statistics that the writers of shards have counted, by split."""
        return merge_by_split((shard.name.split, shard.stats) for shard in self.shards if shard.stats is not None)

    def make_build(
        self, records: int, size_bytes: int, fingerprint: int, lines_of: PlaceOf | None = None, **others: Any
    ) -> Build:
        """Return the data set, given what was found of the input, and its `others` fields."""
        rejects, records = gather_rejects(self.rejects, records, size_bytes, lines_of)
        known = {"splits": self.layout.splits, "divisions": self.divisions, "shards": self.shards, "rejects": rejects}
        return Build(records=records, size_bytes=size_bytes, fingerprint=fingerprint, **known, **others)


@dataclass(frozen=True, slots=True)
class DryRun:
    """The plan of a job, which its dry run pickles."""

    layout: Any
    rejects: list[RejectsPart]
    counted: list[str]  # amounts of input
    lines: list[str]  # about splits and features
    features: Features  # as far as known before files are read
    work: JobWork
    inferred: Inferred = field(default_factory=Inferred)  # the types of all rows

    def describe(self, config: JobConfig) -> list[str]:
        """Return the plan as lines of text, without its work; raises UserError if examples cannot be analyzed."""
        lines = [
            f"Dry run: nothing is written. Would write {config.directory}",
            f"Input: {config.source}: {', '.join(self.counted)}",
            *dry_run_rejects(self.rejects),
            *self.lines,
            *([] if config.analysis is None else config.analysis.describe(self.features, config.source)),
        ]
        return [*map(to_printable, [*lines, *(f"NOTE: {notice}" for notice in self.layout.notices)])]


class Skeleton(ABC):
    """The graphs of a job. A subclass, its filling, has the phases that depend on the sort of input, and pickles."""

    config: Any  # the JobConfig, as it was given

    @property
    def described_config(self) -> Any:
        """Return the configuration that a dry run describes."""
        return self.config

    @abstractmethod
    def find(self, root: beam.Pipeline, temporary: str | None, scratch: str, **source: Any) -> tuple[Any, Any]:
        """Find the input; return a PCollection of its one summary, and all that was found.

        A dry run has no `temporary` folder for rejects. Records that are in no file are written to `scratch`.
        """

    @abstractmethod
    def lay_out(self, found: Any) -> beam.PCollection[Any]:
        """Decide how the input is read; the step raises UserError if the input makes no sense."""

    @abstractmethod
    def cut(
        self, found: Any, layout: beam.PCollection[Any], options: PublishOptions, progress_folder: str | None
    ) -> Cut:
        """Cut the input into shards."""

    @abstractmethod
    def make_build(self, written: WrittenShards, options: PublishOptions, *sides: Any) -> tuple[Build, Features]:
        """Return the data set of the job with its features."""

    @abstractmethod
    def count(self, found: Any, layout: beam.PCollection[Any], scratch: str) -> tuple[Any, Any, Sequence[Any]]:
        """Return what a dry run counts: PCollections of rejects, of strata or None, and sides of `make_plan`."""

    @abstractmethod
    def make_plan(self, summary: InputSummary, layout: Any, rejects: list[RejectsPart], *sides: Any) -> DryRun:
        """Return the plan of a dry run."""

    def build(self, root: beam.Pipeline, progress_folder: str | None, **source: Any) -> beam.PCollection[str]:
        """Build the whole job, which outputs the paths of the published shards.

        Workers on this machine report progress to `progress_folder`. `source` are further arguments of `find`.
        """
        config = self.config
        options = publish_options(config)
        _, found = self.find(root, options.folder, options.folder, **source)
        # The layout represents "the input makes sense": a user's mistake is found before anything is written.
        # All that writes takes the layout that has passed through here.
        layout = self.lay_out(found)
        layout = layout | "Prepare" >> beam.Map(_prepare_output, options).with_output_types(layout.element_type)
        cut = self.cut(found, layout, options, progress_folder)
        options = replace(options, index_options=cut.index_options)
        write = WriteShards(
            config.directory,
            config.name,
            divisions=cut.divisions,
            temporary=options.folder,
            codec=config.codec,
            template=config.file_template,
            progress_folder=progress_folder,
            index=config.index,
            **cut.how,
        )
        if progress_folder is not None:
            _ = cut.divisions | "ReportPlan" >> beam.Map(_report_totals, progress_folder)
        written = cut.parts | "ByShard" >> beam.GroupByKey() | "Write" >> write
        rejects = (*cut.rejects, written[REJECTS]) | "AllRejects" >> beam.Flatten()
        results = (AsSingleton(cut.divisions), AsIter(written["shards"]), AsIter(rejects), _side(cut.strata))
        publishing = beam.FlatMap(_publish, *results, self.make_build, options, *cut.sides)
        return layout | "Publish" >> publishing.with_output_types(str)

    def plan(self, root: beam.Pipeline, path: str, **source: Any) -> None:
        """Find, lay out and count the input, and pickle the DryRun to `path`, next to temporary files."""
        scratch = posixpath.dirname(path)
        summary, found = self.find(root, None, scratch, **source)
        layout = self.lay_out(found)
        rejects, strata, sides = self.count(found, layout, scratch)
        results = (AsSingleton(layout), AsIter(rejects), _side(strata))
        _ = summary | "Save" >> beam.Map(_save, path, self.make_plan, *results, *sides)


def _prepare_output(layout: Any, options: PublishOptions) -> Any:
    """Create the job's temporary folder and return `layout`, so that most mistakes are found before that."""
    publish.prepare_folder(options)
    return layout


def _side(singleton: beam.PCollection[Any] | None) -> Any:
    return None if singleton is None else AsSingleton(singleton)


def _publish(
    layout: Any,
    divisions: Divisions,
    shards: Iterable[ShardInfo],
    rejects: Iterable[RejectsPart],
    strata: Divisions | None,
    make_build: Callable[..., tuple[Build, Features]],
    options: PublishOptions,
    *sides: Any,
) -> list[str]:
    written = list(shards)
    if (done := publish.find_published_shards(written, options)) is not None:
        return done
    build, features = make_build(WrittenShards(layout, divisions, written, rejects), options, *sides)
    return publish.publish(_add_notices(build, strata), features, options)


def _add_notices(described: Any, strata: Divisions | None) -> Any:
    """Return a Build or Layout with the notices of its strata."""
    notices = dict.fromkeys(notice for division in (strata or {}).values() for notice in division.notices)
    return replace(described, notices=(*described.notices, *notices))


def _report_totals(divisions: Divisions, progress_folder: str) -> None:
    report_plan(progress_folder, sum(division.examples for division in divisions.values()))


def _save(
    summary: InputSummary,
    path: str,
    make_plan: Callable[..., DryRun],
    layout: Any,
    rejects: Iterable[RejectsPart],
    strata: Divisions | None,
    *sides: Any,
) -> None:
    made = make_plan(summary, layout, list(rejects), *sides)
    storage.write_bytes(path, pickle.dumps(replace(made, layout=_add_notices(made.layout, strata))))
