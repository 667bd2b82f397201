"""What the graphs share at their ends: the options of publishing, and how much there is to write."""

from dataclasses import replace
from importlib import metadata
from typing import TypeVar

import apache_beam as beam

import shardmill
from shardmill.features.feature import Features
from shardmill.features.renames import Renames
from shardmill.pipelines.config.job import JobConfig
from shardmill.transforms.publishing import publish
from shardmill.transforms.publishing.describe import Build, PublishOptions
from shardmill.transforms.sharding.divisions import Divisions
from shardmill.transforms.statistics.renamed import rename_stats
from shardmill.transforms.workers.progress import report_plan

Layout = TypeVar("Layout")


def publish_options(config: JobConfig) -> PublishOptions:
    """How this configuration is published and described."""
    return PublishOptions(
        output=config.output,
        name=config.name,
        version=config.version,
        codec=config.codec,
        max_reject_fraction=config.max_reject_fraction,
        shard_counts=config.shard_counts,
        source=config.source.split(" ", 1)[1],
        configuration=config.to_json(),
        job=config.job,
        overwrite=config.overwrite,
        set_latest=config.set_latest,
        asked=config.asked,
        on_damaged_file=config.on_damaged_file,
        checks=config.checks,
        record=config.record,
        versions={"shardmill": shardmill.__version__, **{name: metadata.version(name) for name in config.libraries}},
    )


def renamed(build: Build, features: Features, options: PublishOptions) -> tuple[Build, Features]:
    """A build and its features by the names that --rename gives them."""
    renames = Renames.of(options.configuration)
    return replace(build, stats=rename_stats(build.stats, renames)), renames.features(features)


def prepared(layout: Layout, options: PublishOptions) -> Layout:
    """`layout`, once the job's temporary directory is there; see shardmill.transforms.publishing.publish.prepare.

    The layout stands for "the input makes sense": most mistakes of a user's are found before anything is written.
    """
    publish.prepare(options)
    return layout


def report_divisions(divisions: beam.PCollection[Divisions], progress_folder: str | None) -> None:
    """Tell a launcher on the workers' machine how much there is to write."""
    if progress_folder is not None:
        _ = divisions | "ReportPlan" >> beam.Map(_report, progress_folder)


def _report(divisions: Divisions, progress_folder: str) -> None:
    report_plan(
        progress_folder,
        sum(division.examples for division in divisions.values()),
        sum(division.size_bytes for division in divisions.values()),
    )
