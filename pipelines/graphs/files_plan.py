"""What --dry_run says of whole files: indexed and planned, nothing is written."""

import pickle
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsIter, AsSingleton

from shardmill.features.feature import Features
from shardmill.pipelines.config.files import FilesConfig
from shardmill.pipelines.graphs.files import Describe, FileRoute, plan_files
from shardmill.pipelines.reports.figures import from_to, human_size, so_many
from shardmill.pipelines.reports.summary import first_and_last, rejected_so_far, shortened
from shardmill.pipelines.reports.work import Work
from shardmill.printable import printable
from shardmill.transforms.files.plan import numpy_column
from shardmill.transforms.files.references import LABELS
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.layout.files import Layout
from shardmill.transforms.rejects.part import RejectsPart
from shardmill.transforms.sharding.shards import ShardKey
from shardmill.transforms.stores import storage

_EXAMPLES_SHOWN, _LAST_SHOWN = 10, 3  # classes of many, by --dry_run: the first, and the last


@dataclass(frozen=True, slots=True)
class DryRun:
    """What a job would do.

    Attributes:
      shards: (examples, bytes about) of each shard.
      labels: records by split and class id.
      features: of the examples, as far as is known before files are read.
    """

    summary: InputSummary
    layout: Layout
    shards: dict[ShardKey, tuple[int, int]]
    labels: Counter[tuple[str, int]]
    rejects: list[RejectsPart]
    features: Features = ()


def plan(root: beam.Pipeline, path: str, config: FilesConfig, route: FileRoute) -> None:
    """Index and plan, and pickle the DryRun to `path`."""
    planned = plan_files(root, config, route)
    shards = planned.shards | "CountShard" >> beam.MapTuple(_count)
    _ = planned.summary | "Save" >> beam.Map(
        _save, AsSingleton(planned.layout), AsIter(shards), AsIter(planned.rejects), route.describe, path
    )


def _count(shard: ShardKey, batch: pa.RecordBatch) -> tuple[ShardKey, int, int, Counter[int]]:
    ids = batch[LABELS.name].flatten() if LABELS.name in batch.schema.names else batch["label"]
    labels = Counter(ids.drop_null().to_pylist())
    return shard, len(batch), int(numpy_column(batch, "size").sum()), labels


def _save(
    summary: InputSummary,
    layout: Layout,
    counts: Iterable[tuple[ShardKey, int, int, Counter[int]]],
    rejects: Iterable[RejectsPart],
    describe_features: Describe,
    path: str,
) -> None:
    shards: dict[ShardKey, tuple[int, int]] = {}
    labels: Counter[tuple[str, int]] = Counter()
    for shard, examples, size_bytes, by_label in counts:
        before = shards.get(shard, (0, 0))
        shards[shard] = (before[0] + examples, before[1] + size_bytes)
        labels.update({(shard[0], label): number for label, number in by_label.items()})
    features, _ = describe_features(summary, layout, ())
    with open(path, "wb") as file:
        pickle.dump(DryRun(summary, layout, shards, labels, list(rejects), features), file)


def describe(plan: DryRun, config: FilesConfig) -> str:
    """The plan in words."""
    summary, layout = plan.summary, plan.layout
    lines = [
        f"Dry run: nothing is written. Would write {config.directory}",
        f"Input: {config.source}: {so_many(summary.records, 'file')}, {human_size(summary.size_bytes)}",
    ]
    lines += rejected_so_far(plan.rejects)
    for split in layout.splits:
        sizes = [size for (name, _), size in sorted(plan.shards.items()) if name == split]
        if not sizes:
            lines.append(f"Split {split}: empty")
            continue
        examples, size_bytes = ([size[column] for size in sizes] for column in (0, 1))
        lines.append(
            f"Split {split}: {so_many(sum(examples), 'example')}, about {human_size(sum(size_bytes))}, in"
            f" {so_many(len(sizes), 'shard')} of {from_to(examples)} example{'s' * (max(examples) != 1)},"
            f" {from_to(size_bytes, human_size)}"
        )
    lines += _classes(plan, config)
    if config.analysis is not None:
        lines += ["Transform:", *(f"  {line}" for line in config.analysis.declaration.sentences(plan.features))]
    return "\n".join(map(printable, [*lines, *(f"NOTE: {notice}" for notice in layout.notices)]))


def work(plan: DryRun, config: FilesConfig) -> Work:
    """What the job is to do: each shard is one task, for which each of its files is read once."""
    remote = (not storage.is_local(config.root), not storage.is_local(config.directory))
    examples, size_bytes = (sum(size[column] for size in plan.shards.values()) for column in (0, 1))
    return Work(len(plan.shards), len(plan.shards), examples, size_bytes=size_bytes, is_remote=remote)


def _classes(plan: DryRun, config: FilesConfig) -> list[str]:
    if plan.layout.object_classes is not None:
        names, objects = plan.layout.object_classes.names, plan.summary.objects
        most = max(objects, key=lambda name: (objects[name], name), default="")
        return [
            f"Classes of objects: {len(names):,}: {first_and_last(names)}",
            f"Objects: {objects.total():,}" + (f", most often {shortened(most)}" if most else ""),
        ]
    if plan.layout.class_names is None:
        labels = "masks are the labels" if config.masks_asked else f"the {config.kind.plural} are unlabelled"
        return [f"Classes: none; {labels}"]
    names = plan.layout.class_names.names
    lines = [f"Classes: {len(names):,}"]
    last = max(_EXAMPLES_SHOWN, len(names) - _LAST_SHOWN)
    for label, name in enumerate(names):
        if label == _EXAMPLES_SHOWN < last:
            lines.append(f"  … and {last - _EXAMPLES_SHOWN:,} more …")
        if _EXAMPLES_SHOWN <= label < last:
            continue
        counts = ", ".join(f"{plan.labels[split, label]:,} {split}" for split in plan.layout.splits)
        lines.append(f"  {label} {shortened(name)}: {counts}")
    return lines
