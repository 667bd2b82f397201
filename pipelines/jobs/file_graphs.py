"""Beam graphs for jobs that make one example per file: conversion and dry run."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsIter, AsSingleton, TaggedOutput

from shardmill.data.features import Features, Renames
from shardmill.errors import CorruptDataError, UserError
from shardmill.metadata import file_names
from shardmill.metadata.manifest import Reject
from shardmill.metadata.versions import describe_published_versions
from shardmill.pipelines.config.files import FilesConfig, ListedFilesConfig
from shardmill.pipelines.jobs import skeleton
from shardmill.pipelines.reports.summary import JobWork, format_range, human_size, join_first_and_last, shorten_name
from shardmill.text import plural
from shardmill.transforms.analysis import Analysis
from shardmill.transforms.files.encoding import FileEncoder
from shardmill.transforms.files.plan import AssignStrata, GroupByContent, KeepOrder, PlanShards
from shardmill.transforms.files.references import LABELS, PlanOptions, resolve_files
from shardmill.transforms.files.shards import FileShards, PreviousVersion
from shardmill.transforms.findings import merged
from shardmill.transforms.inputs.manifest_files import LineResolver
from shardmill.transforms.inputs.sources import IndexedFiles, ListFiles, ReadManifest
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.layout.files import Layout, make_layout
from shardmill.transforms.layout.options import FileLayoutOptions
from shardmill.transforms.options.job_options import CONTENT, LATEST, NO, RECORD
from shardmill.transforms.publishing.catalog import read_latest
from shardmill.transforms.publishing.description import Build, PublishOptions
from shardmill.transforms.shards.balance import ShardKey, shard_count
from shardmill.transforms.shards.sources import FileIndex, index_folder, read_index
from shardmill.transforms.shards.writing import REJECTS
from shardmill.transforms.statistics.duplicates import find_duplicates
from shardmill.transforms.statistics.files import file_stats
from shardmill.transforms.statistics.observations import ImageObserver
from shardmill.transforms.stores import storage
from shardmill.transforms.workers.elements import pack_batch
from shardmill.transforms.workers.rejects import RejectsPart, gather_rejects, make_parts


@dataclass(frozen=True, slots=True)
class Reuse:
    """The effect of --reuse on a job: settings to remember its files, and the version to copy records from, if any."""

    index_options: FileIndex
    previous: PreviousVersion | None = None


def find_reuse(config: FilesConfig, encoding: Mapping[str, str]) -> Reuse | None:
    """Return how this job remembers files and which version it copies from; None without --reuse.

    `encoding` has the options and library versions that an encoded record depends on.
    """
    if config.reuse == NO:
        return None
    root = os.path.abspath(config.root) if storage.is_local(config.root) else config.root
    codec = "" if config.codec.keeps_offsets else config.codec.name or config.codec.file_format
    found = _find_previous_version(config, encoding, root)
    if isinstance(found, str):
        return Reuse(FileIndex(root, config.seed, encoding, codec, why=found))
    return Reuse(FileIndex(root, config.seed, encoding, codec, former=found.version), found)


def _find_previous_version(config: FilesConfig, encoding: Mapping[str, str], root: str) -> PreviousVersion | str:
    if config.reuse == RECORD:
        return f"--reuse {RECORD} takes nothing from an older version"
    parent = storage.join(config.output, config.name)
    version = read_latest(config.parent) if config.reuse == LATEST else config.reuse
    if not version:
        return "there is no older version to take examples from"
    directory = storage.join(parent, version)
    if not file_names.is_version(version) or not storage.exists(storage.join(directory, file_names.SUCCESS)):
        if config.reuse == LATEST:
            return f"LATEST names {version}, which is not published"
        there = describe_published_versions(storage.StorageFiles(), directory)
        raise UserError(f"--reuse {version}: {directory} is not published{there}")
    try:
        index = read_index(parent, version)
    except (CorruptDataError, OSError) as error:
        return f"what {version} remembers of its files cannot be read: {error}"
    if index is None:
        return f"{version} remembers nothing of its files: it was made with --reuse {NO}, or was cut short at its end"
    if index.codec:
        return f"the shards of {version} are {index.codec}, in which a record has no place of its own"
    if index.root != root:
        return f"the files of {version} lie in {index.root}, not in {root}"
    if other := sorted(name for name in {*index.encoding, *encoding} if index.encoding.get(name) != encoding.get(name)):
        return f"{version} was encoded with another {', another '.join(other)}"
    return PreviousVersion(version, directory, index_folder(parent, version), index)


@dataclass(frozen=True)
class FileRoute:
    """The functions that find and read one kind of file."""

    # makes the index transform from the job's folder; None in a dry run
    index: Callable[[str | None], beam.PTransform[Any, IndexedFiles]]
    encoder: FileEncoder
    layout: Callable[[InputSummary, FileLayoutOptions], Layout] = make_layout  # decides how the input is read
    make_encoder: Callable[[Any], FileEncoder] | None = None  # makes the encoder if it depends on the layout
    observer: ImageObserver | None = None  # of an add-on


def find_files(
    config: ListedFilesConfig, reserved: tuple[str, ...]
) -> Callable[[str | None], beam.PTransform[Any, IndexedFiles]]:
    """Return a transform that indexes --input or --manifest; no column of a manifest may have a `reserved` name."""
    if config.manifest:
        return partial(
            ReadManifest,
            config.manifests,
            config.root,
            config.allow_outside,
            reserved,
            config.manifest_names,
            config.has_file_identities,
            config.on_duplicate_key == "reject",
        )
    assert config.input is not None
    listing = (config.input, config.kind, config.folders, config.has_file_identities, config.added)
    return partial(ListFiles, *listing, config.name_rules)


def plan_files(
    root: beam.Pipeline, config: FilesConfig, route: FileRoute, options: PublishOptions | None = None
) -> tuple[beam.PCollection[InputSummary], skeleton.CutInput]:
    """Index the input and plan its shards; only a job with `options` writes, and only to its temporary folder."""
    temporary = options.folder if options is not None else None
    indexed = root | "Index" >> route.index(temporary)
    layout = indexed.summary | "Layout" >> beam.Map(
        _make_file_layout, config.layout_options, route.layout, route.encoder, config.renames, config.analysis
    )
    if options is not None:
        layout = layout | "Prepare" >> beam.Map(skeleton.prepare_output, options)
    resolved = indexed.files | "Resolve" >> beam.FlatMap(
        _resolve, AsSingleton(layout), config.resolve_options, temporary
    ).with_output_types(pa.RecordBatch).with_outputs(REJECTS, main="planned")
    planned = resolved["planned"]
    if config.group_by == CONTENT:
        make_encoder = route.make_encoder or (lambda _: route.encoder)
        work = (make_encoder, config.split_seed, config.files_per_task, config.read_threads.number)
        planned = planned | "GroupByContent" >> GroupByContent(layout, *work)
    strata = None
    if config.stratify_by is not None:
        planned, strata = planned | "Stratify" >> AssignStrata(config.split)
    if config.no_shuffle:
        planned = planned | "KeepOrder" >> KeepOrder()
    shards, divisions = planned | "Plan" >> PlanShards(partial(shard_count, config.shard_counts), config.balance)
    rejects = (indexed.rejects, resolved[REJECTS]) | "IndexRejects" >> beam.Flatten()
    return indexed.summary, skeleton.CutInput(layout, divisions, shards, [rejects], strata)


def _make_file_layout(
    summary: InputSummary,
    options: FileLayoutOptions,
    make: Callable[[InputSummary, FileLayoutOptions], Layout],
    encoder: FileEncoder,
    renames: Renames,
    analysis: Analysis | None,
) -> Layout:
    layout = make(summary, options)
    features, _ = encoder.describe(summary, layout)
    renames.check(feature.name for feature in features)
    if analysis is not None:
        analysis.check(features, layout.splits, layout.columns)
    return layout


def build_files(
    root: beam.Pipeline, progress_folder: str | None, config: FilesConfig, route: FileRoute
) -> beam.PCollection[str]:
    """Build the whole job, which outputs the paths of the published shards.

    Workers on this machine report progress to `progress_folder`.
    """
    options = skeleton.publish_options(config)
    summary, cut = plan_files(root, config, route, options)
    reuse = find_reuse(config, {**route.encoder.depends_on(), **options.versions})
    if reuse is not None:
        options = replace(options, index_options=reuse.index_options)
    shards = partial(_make_shard_source, files_per_task=config.files_per_task, reuse=reuse, versions=options.versions)
    if route.make_encoder is None:
        source = shards(route.encoder)
    else:
        source = cut.layout | "Encoder" >> beam.Map(lambda layout, make: shards(make(layout)), route.make_encoder)
    # Packed, because Beam holds all of a shard's references until it is written
    pack = beam.MapTuple(lambda shard, batch: (shard, pack_batch(batch))).with_output_types(tuple[ShardKey, bytes])
    cut = replace(cut, parts=cut.parts | "Pack" >> pack)
    content = f"{config.kind.plural}, as they are stored"
    describe = partial(route.encoder.describe, for_tfds=config.codec.is_read_by_tfds)
    sides = (AsSingleton(summary), describe, route.observer, content, config.analysis, config.line_resolver)
    how: dict[str, Any] = {
        "analysis": config.analysis,
        "encoding_lock_share": DECODING_LOCK_SHARE if config.is_decoding else 0.0,
    }
    how |= {"source": source, "threads": config.read_threads}
    return skeleton.write_and_publish(cut, config, options, progress_folder, _describe_files, sides, **how)


def _make_shard_source(
    encoder: FileEncoder, files_per_task: int, reuse: Reuse | None, versions: Mapping[str, str]
) -> FileShards:
    if reuse is None:
        return FileShards(encoder, files_per_task)
    remember = reuse.index_options
    return FileShards(encoder, files_per_task, remember.seed, versions, not remember.codec, reuse.previous)


def _resolve(batch: pa.RecordBatch, layout: Layout, options: PlanOptions, temporary: str | None) -> Iterable[Any]:
    items = list(resolve_files(batch, layout, options))
    yield from (item for item in items if not isinstance(item, Reject))
    rejects = make_parts((item for item in items if isinstance(item, Reject)), temporary)
    yield from (TaggedOutput(REJECTS, part) for part in rejects)


def _describe_files(
    written: skeleton.WrittenShards,
    options: PublishOptions,
    summary: InputSummary,
    describe: Callable[..., tuple[Features, Sequence[str]]],
    observer: ImageObserver | None,
    content: str,
    analysis: Analysis | None,
    lines_of: LineResolver | None,
) -> tuple[Build, Features]:
    layout, shards, stats = written.layout, written.shards, written.merge_stats()
    features, notices = describe(summary, layout, list(map(file_stats, stats.values())))
    gathered = reduce(merged, (shard.gathered for shard in shards), None)
    rejects, records = gather_rejects(written.rejects, summary.total_records, summary.size_bytes, lines_of)
    names = () if layout.class_names is None else layout.class_names.names
    observed = [shard.observed for shard in shards if shard.observed is not None]
    renames = Renames.of(options.configuration)
    make_files = None if analysis is None else partial(analysis.make_files, gathered, features, renames)
    build = Build(
        records=records,
        size_bytes=summary.size_bytes,
        fingerprint=summary.fingerprint,
        splits=layout.splits,
        divisions=written.divisions,
        shards=shards,
        rejects=rejects,
        stats=stats,
        notices=(*layout.notices, *notices),
        duplicates=find_duplicates(content, [shard.section for shard in shards if shard.section is not None], names),
        sections={} if observer is None else {observer.key: observer.search(observed)},
        make_further_files=make_files,
        further_file_notices=None if analysis is None else analysis.notices,
    )
    return skeleton.rename_build(build, features, options)


# Part of the core time of decoding and resizing an image under Python's lock (bench_lock.py)
DECODING_LOCK_SHARE = 0.35
_EXAMPLES_SHOWN, _LAST_SHOWN = 10, 3  # classes of many, by --dry_run: the first, and the last


@dataclass(frozen=True, slots=True)
class FilesDryRun(skeleton.DryRun):
    """The plan of a job over whole files."""

    shards: dict[ShardKey, tuple[int, int]]  # (examples, approximate bytes) of each shard
    labels: Counter[tuple[str, int]]  # records by split and class id
    features: Features = ()  # as far as known before files are read


def plan_files_dry_run(root: beam.Pipeline, path: str, config: FilesConfig, route: FileRoute) -> None:
    """Index and plan the input, and pickle the FilesDryRun to `path`."""
    summary, cut = plan_files(root, config, route)
    shards = cut.parts | "CountShard" >> beam.MapTuple(_count_shard)
    sides = (AsSingleton(cut.layout), AsIter(shards), AsIter(cut.rejects[0]), route.encoder)
    strata = None if cut.strata is None else AsSingleton(cut.strata)
    _ = summary | "Save" >> beam.Map(skeleton.save_dry_run, path, strata, _make_dry_run, *sides)


def _count_shard(shard: ShardKey, batch: pa.RecordBatch) -> tuple[ShardKey, int, int, Counter[int]]:
    ids = batch[LABELS.name].flatten() if LABELS.name in batch.schema.names else batch["label"]
    labels = Counter(ids.drop_null().to_pylist())
    return shard, len(batch), int(batch["size"].to_numpy().sum()), labels


def _make_dry_run(
    summary: InputSummary,
    layout: Layout,
    counts: Iterable[tuple[ShardKey, int, int, Counter[int]]],
    rejects: Iterable[RejectsPart],
    encoder: FileEncoder,
) -> FilesDryRun:
    shards: dict[ShardKey, tuple[int, int]] = {}
    labels: Counter[tuple[str, int]] = Counter()
    for shard, examples, size_bytes, by_label in counts:
        before = shards.get(shard, (0, 0))
        shards[shard] = (before[0] + examples, before[1] + size_bytes)
        labels.update({(shard[0], label): number for label, number in by_label.items()})
    features, _ = encoder.describe(summary, layout)
    return FilesDryRun(summary, layout, list(rejects), shards, labels, features)


def describe_files_plan(plan: FilesDryRun, config: FilesConfig) -> str:
    """Describe the dry run of a job over whole files as text."""
    lines = []
    for split in plan.layout.splits:
        sizes = [size for (name, _), size in sorted(plan.shards.items()) if name == split]
        if not sizes:
            lines.append(f"Split {split}: empty")
            continue
        examples, size_bytes = ([size[column] for size in sizes] for column in (0, 1))
        lines.append(
            f"Split {split}: {plural(sum(examples), 'example')}, about {human_size(sum(size_bytes))}, in"
            f" {plural(len(sizes), 'shard')} of {format_range(examples)} example{'s' * (max(examples) != 1)},"
            f" {format_range(size_bytes, human_size)}"
        )
    lines += _describe_classes(plan, config)
    counted = [plural(plan.summary.records, "file"), human_size(plan.summary.size_bytes)]
    return plan.describe(config, counted, lines, plan.features)


def files_work(plan: FilesDryRun, config: FilesConfig) -> JobWork:
    """Return a job's amount of work: each shard is one task, which reads each of its files once."""
    remote = (not storage.is_local(config.root), not storage.is_local(config.directory))
    examples, size_bytes = (sum(size[column] for size in plan.shards.values()) for column in (0, 1))
    return JobWork(len(plan.shards), len(plan.shards), examples, size_bytes=size_bytes, is_remote=remote)


def _describe_classes(plan: FilesDryRun, config: FilesConfig) -> list[str]:
    if plan.layout.object_classes is not None:
        names, objects = plan.layout.object_classes.names, plan.summary.objects
        most = max(objects, key=lambda name: (objects[name], name), default="")
        return [
            f"Classes of objects: {len(names):,}: {join_first_and_last(names)}",
            f"Objects: {objects.total():,}" + (f", most often {shorten_name(most)}" if most else ""),
        ]
    if plan.layout.class_names is None:
        labels = "masks are the labels" if config.added.flag else f"the {config.kind.plural} are unlabelled"
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
        lines.append(f"  {label} {shorten_name(name)}: {counts}")
    return lines
