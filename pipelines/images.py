"""The graph of `shardmill images`: index, plan, write, publish."""

import sys
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from importlib import metadata
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsIter, AsSingleton, TaggedOutput

import shardmill
from pipelines.config import ImagesConfig
from transforms import publish
from transforms.describe import Build, PublishOptions
from transforms.encode_images import ImageEncoder
from transforms.file_shards import FileShards
from transforms.find_cuts import Divisions
from transforms.image_features import film_notices, image_features
from transforms.index_files import Indexed, ListFiles, ReadManifest
from transforms.input_summary import InputSummary
from transforms.layout import DEFAULT_SPLITS, Layout, make_layout
from transforms.plan_shards import AssignStrata, KeepOrder, PlanShards, ShardKey, shard_count
from transforms.progress import report_plan
from transforms.refs import Reject
from transforms.resolve import ResolveOptions, resolve
from transforms.stats import ImageStats, merge_by_split
from transforms.write_shards import REJECTS, ShardInfo, WriteShards


@dataclass(frozen=True, slots=True)
class Plan:
    """What the index and plan phases give; all of it small."""

    summary: beam.PCollection[InputSummary]
    layout: beam.PCollection[Layout]
    divisions: beam.PCollection[Divisions]
    shards: beam.PCollection[tuple[ShardKey, pa.RecordBatch]]
    rejects: beam.PCollection[Reject]


def plan_images(root: beam.Pipeline, config: ImagesConfig) -> Plan:
    """Index the input and plan its shards; nothing is written."""
    indexed = root | "Index" >> _index(config)
    layout = indexed.summary | "Layout" >> beam.Map(make_layout, config.layout_options)
    resolved = indexed.files | "Resolve" >> beam.FlatMap(_resolve, AsSingleton(layout), config.resolve_options).with_output_types(
        pa.RecordBatch
    ).with_outputs(REJECTS, main="planned")
    planned = resolved["planned"]
    if config.stratify_by is not None:
        names, fractions = zip(*(config.splits or DEFAULT_SPLITS), strict=True)
        planned = planned | "Stratify" >> AssignStrata(names, fractions)
    if config.no_shuffle:
        planned = planned | "KeepOrder" >> KeepOrder()
    shards, divisions = planned | "Plan" >> PlanShards(partial(shard_count, config.shard_counts), config.balance)
    rejects = (indexed.rejects, resolved[REJECTS]) | "IndexRejects" >> beam.Flatten()
    return Plan(indexed.summary, layout, divisions, shards, rejects)


def build_images(root: beam.Pipeline, config: ImagesConfig, progress_folder: str | None) -> beam.PCollection[str]:
    """The whole job; the paths of the published shards come out.

    Args:
      root: an empty pipeline.
      config: what to do.
      progress_folder: where workers on this machine report, or None.
    """
    plan = plan_images(root, config)
    options = publish_options(config)
    encode = ImageEncoder(config.root, config.verify, config.reencode, config.max_pixels)
    # The layout stands for "the input makes sense": a user's mistake is found before anything is written.
    temporary = plan.divisions | "Prepare" >> beam.Map(_prepare, AsSingleton(plan.layout), options, progress_folder)
    write = WriteShards(
        config.directory,
        config.name,
        FileShards(encode, config.files_per_task),
        plan.divisions,
        temporary,
        config.compression == "gzip",
        config.read_threads,
        progress_folder,
    )
    written = plan.shards | "ByShard" >> beam.GroupByKey() | "Write" >> write
    rejects = (plan.rejects, written[REJECTS]) | "AllRejects" >> beam.Flatten()
    return plan.summary | "Publish" >> beam.FlatMap(
        _publish,
        AsSingleton(plan.layout),
        AsSingleton(plan.divisions),
        AsIter(written["shards"]),
        AsIter(rejects),
        encode.measures,
        options,
    ).with_output_types(str)


def publish_options(config: ImagesConfig) -> PublishOptions:
    """How this configuration is published and described."""
    return PublishOptions(
        output=config.output,
        name=config.name,
        version=config.version,
        gzip=config.compression == "gzip",
        max_reject_fraction=config.max_reject_fraction,
        shard_counts=config.shard_counts,
        source=config.input or config.manifest or "",
        configuration=config.to_json(),
        versions=_versions(config),
    )


def _index(config: ImagesConfig) -> beam.PTransform[Any, Indexed]:
    if config.manifest is not None:
        return ReadManifest(config.manifest, config.allow_outside)
    assert config.input is not None
    return ListFiles(config.input)


def _resolve(batch: pa.RecordBatch, layout: Layout, options: ResolveOptions) -> Iterable[Any]:
    for item in resolve(batch, layout, options):
        yield TaggedOutput(REJECTS, item) if isinstance(item, Reject) else item


def _prepare(divisions: Divisions, _: Layout, options: PublishOptions, progress_folder: str | None) -> str:
    """Clear the directory and make a temporary one in it, whose path comes out."""
    if progress_folder is not None:
        report_plan(
            progress_folder,
            sum(division.examples for division in divisions.values()),
            sum(division.size_bytes for division in divisions.values()),
        )
    publish.prepare(options)
    return WriteShards.make_temporary(options.directory, options.name)


def _publish(
    summary: InputSummary,
    layout: Layout,
    divisions: Divisions,
    shards: Iterable[ShardInfo],
    rejects: Iterable[Reject],
    measured: bool,
    options: PublishOptions,
) -> list[str]:
    written = list(shards)
    stats = merge_by_split((shard.name.split, shard.stats) for shard in written if shard.stats is not None)
    formats: Counter[str] = sum((images.formats for images in stats.values() if isinstance(images, ImageStats)), Counter())
    build = Build(
        records=summary.matched,
        size_bytes=summary.size_bytes,
        fingerprint=summary.fingerprint,
        splits=layout.splits,
        divisions=divisions,
        shards=written,
        rejects=list(rejects),
        stats=stats,
        notices=(*layout.notices, *(film_notices(formats) if not options.gzip else ())),
    )
    return publish.publish(build, image_features(layout, summary.records, measured, formats), options)


def _versions(config: ImagesConfig) -> dict[str, str]:
    """The libraries whose release can change the bytes."""
    libraries = ["xxhash", *(["pillow"] if config.reencode is not None else [])]
    return {"shardmill": shardmill.__version__, **{name: metadata.version(name) for name in libraries}}


if __name__ == "__main__":
    from pipelines.cli import main

    sys.exit(main(["images", *sys.argv[1:]]))
