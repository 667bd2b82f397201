"""A conversion as graphs: the whole of it, and what --dry_run builds instead."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import apache_beam as beam

from shardmill.pipelines.config.files import FilesConfig
from shardmill.pipelines.config.records import RecordsConfig
from shardmill.pipelines.graphs import files_plan, records_plan
from shardmill.pipelines.graphs.files import FileRoute, build_files
from shardmill.pipelines.reports.work import Work


@dataclass(frozen=True)
class Job:
    """What one configuration does.

    Attributes:
      build: (an empty pipeline, the folder where workers on this machine report, or None) -> paths of the published
        shards; of a job that plans first, given `plan` too.
      plan: (an empty pipeline, a path): finds out what would be done, writes nothing but that, pickled, to the path.
      describe: what is there, in words.
      work: how much of what there is to do.
      plans_first: why the graph cannot be built before it is known what `plan` finds, "" where it can.
      reuses_buffers: whether its tasks want buffers of the same sizes again and again; see pipelines.running.memory.
    """

    build: Callable[..., Any]
    plan: Callable[[beam.Pipeline, str], None]
    describe: Callable[[Any], str]
    work: Callable[[Any], Work]
    plans_first: str = ""
    reuses_buffers: bool = False


def file_job(config: FilesConfig, route: FileRoute) -> Job:
    """The job of `config`, whose kind of file is read by `route`."""
    return Job(
        build=partial(build_files, config=config, route=route),
        plan=partial(files_plan.plan, config=config, route=route),
        describe=partial(files_plan.describe, config=config),
        work=partial(files_plan.work, config=config),
    )


def record_job(config: RecordsConfig) -> Job:
    """The job of `config` over records inside files."""
    return Job(
        build=partial(records_plan.build, config=config),
        plan=partial(records_plan.plan, config=config),
        describe=partial(records_plan.describe, config=config),
        work=partial(records_plan.work, config=config),
        plans_first="--module_file is traced with the types of columns" if config.module_file is not None else "",
        reuses_buffers=True,
    )
