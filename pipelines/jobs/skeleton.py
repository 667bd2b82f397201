"""The skeleton of a job: find, lay out, prepare, cut, write, publish. Files and records are its fillings.

A filling finds its input, lays it out, and cuts it into shards, which it hands over as `CutInput`. All that follows is
here. A dry run ends before the output is prepared, with a `DryRun`.
"""

import pickle
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from importlib import metadata
from typing import Any, TypeVar

import apache_beam as beam
from apache_beam.pvalue import AsIter, AsSingleton

import shardmill
from shardmill.data.features import Features, Renames
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.reports.summary import dry_run_rejects
from shardmill.text import to_printable
from shardmill.transforms.execution.running import report_plan
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.publishing import publish
from shardmill.transforms.publishing.description import Build, PublishOptions
from shardmill.transforms.shards.balance import ShardKey
from shardmill.transforms.shards.divisions import Divisions
from shardmill.transforms.shards.sources import ShardInfo
from shardmill.transforms.shards.writing import REJECTS, WriteShards
from shardmill.transforms.statistics.files import SplitStats, merge_by_split, rename_stats
from shardmill.transforms.stores import storage
from shardmill.transforms.workers.rejects import RejectsPart

Layout = TypeVar("Layout")


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


def rename_build(build: Build, features: Features, options: PublishOptions) -> tuple[Build, Features]:
    """Return the results of a job and its features with the names that --rename gives."""
    renames = Renames.of(options.configuration)
    return replace(build, stats=rename_stats(build.stats, renames)), renames.rename_features(features)


def prepare_output(layout: Layout, options: PublishOptions) -> Layout:
    """Create the job's temporary folder and return `layout`, so that most mistakes are found before that."""
    publish.prepare_folder(options)
    return layout


@dataclass(frozen=True, slots=True)
class CutInput:
    """An input that is cut into shards. Only temporary files are written."""

    layout: beam.PCollection[Any]  # from `prepare_output`
    divisions: beam.PCollection[Divisions]
    parts: beam.PCollection[tuple[ShardKey, Any]]  # what each shard is made of
    rejects: Sequence[beam.PCollection[RejectsPart]]
    strata: beam.PCollection[Divisions] | None = None  # how classes are divided among the splits


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


# Returns the data set of a job with its features: (written, options, *sides)
DescribeBuild = Callable[..., tuple[Build, Features]]


def write_and_publish(
    cut: CutInput,
    config: JobConfig,
    options: PublishOptions,
    progress_folder: str | None,
    describe: DescribeBuild,
    sides: Sequence[Any],
    **how: Any,
) -> beam.PCollection[str]:
    """Write all shards and publish them; return their paths.

    `sides` are further arguments of `describe`, such as side inputs; `how` are options of WriteShards.
    """
    write = WriteShards(
        config.directory,
        config.name,
        divisions=cut.divisions,
        temporary=options.folder,
        codec=config.codec,
        template=config.file_template,
        progress_folder=progress_folder,
        index=config.index,
        **how,
    )
    if progress_folder is not None:
        _ = cut.divisions | "ReportPlan" >> beam.Map(_report_totals, progress_folder)
    written = cut.parts | "ByShard" >> beam.GroupByKey() | "Write" >> write
    rejects = (*cut.rejects, written[REJECTS]) | "AllRejects" >> beam.Flatten()
    strata = None if cut.strata is None else AsSingleton(cut.strata)
    results = (AsSingleton(cut.divisions), AsIter(written["shards"]), AsIter(rejects), strata)
    return cut.layout | "Publish" >> beam.FlatMap(_publish, *results, describe, options, *sides).with_output_types(str)


def _publish(
    layout: Any,
    divisions: Divisions,
    shards: Iterable[ShardInfo],
    rejects: Iterable[RejectsPart],
    strata: Divisions | None,
    describe: DescribeBuild,
    options: PublishOptions,
    *sides: Any,
) -> list[str]:
    written = list(shards)
    if (done := publish.find_published_shards(written, options)) is not None:
        return done
    build, features = describe(WrittenShards(layout, divisions, written, rejects), options, *sides)
    return publish.publish(_add_notices(build, strata), features, options)


def _add_notices(described: Any, strata: Divisions | None) -> Any:
    """Return a Build or Layout with the notices of its strata."""
    notices = dict.fromkeys(notice for division in (strata or {}).values() for notice in division.notices)
    return replace(described, notices=(*described.notices, *notices))


def _report_totals(divisions: Divisions, progress_folder: str) -> None:
    report_plan(progress_folder, sum(division.examples for division in divisions.values()))


@dataclass(frozen=True, slots=True)
class DryRun:
    """The plan of a job, pickled by its dry run. Each filling adds what it knows of the work."""

    summary: InputSummary
    layout: Any
    rejects: list[RejectsPart]

    def describe(self, config: JobConfig, counted: Sequence[str], body: Sequence[str], features: Features) -> str:
        """Return the plan as text: `counted` are the amounts of input, `body` is about splits and `features`."""
        lines = [
            f"Dry run: nothing is written. Would write {config.directory}",
            f"Input: {config.source}: {', '.join(counted)}",
            *dry_run_rejects(self.rejects),
            *body,
            *([] if config.analysis is None else config.analysis.describe(features, config.source)),
        ]
        return "\n".join(map(to_printable, [*lines, *(f"NOTE: {notice}" for notice in self.layout.notices)]))


def save_dry_run(summary: InputSummary, path: str, strata: Any, make: Callable[..., DryRun], *sides: Any) -> None:
    """Pickle the DryRun that `make(summary, *sides)` returns to `path`, with the notices of its strata."""
    plan = make(summary, *sides)
    storage.write_bytes(path, pickle.dumps(replace(plan, layout=_add_notices(plan.layout, strata))))
