"""Beam graphs for jobs that make one example per file: conversion and dry run."""

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsIter, AsSingleton, TaggedOutput

from shardmill.data.features import Features
from shardmill.errors import CorruptDataError, UserError
from shardmill.metadata import file_names
from shardmill.metadata.manifest import Reject
from shardmill.metadata.versions import describe_published_versions
from shardmill.pipelines.config.files import FilesConfig, ListedFilesConfig
from shardmill.pipelines.jobs import skeleton
from shardmill.pipelines.reports.summary import JobWork, format_range, human_size, join_first_and_last, shorten_name
from shardmill.text import plural
from shardmill.transforms.files.encoding import FileEncoder
from shardmill.transforms.files.plan import AssignStrata, GroupByContent, KeepOrder, PlanShards
from shardmill.transforms.files.references import LABELS, PlanOptions, resolve_files
from shardmill.transforms.files.shards import FileShards, PreviousVersion
from shardmill.transforms.findings import merged
from shardmill.transforms.inputs.findings import IndexedFiles
from shardmill.transforms.inputs.sources import ListFiles, ReadManifest
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
from shardmill.transforms.workers.elements import RecordBatchCoder
from shardmill.transforms.workers.rejects import RejectsPart, make_parts


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


def find_files(
    config: ListedFilesConfig, reserved: tuple[str, ...]
) -> Callable[[str | None], beam.PTransform[Any, IndexedFiles]]:
    """Return a transform that indexes --input or --manifest; no column of a manifest may have a `reserved` name."""
    if config.manifest:
        listed = (config.manifests, config.root, config.allow_outside, reserved, config.manifest_names)
        return partial(ReadManifest, *listed, config.has_file_identities, config.on_duplicate_key == "reject")
    assert config.input is not None
    listing = (config.input, config.kind, config.folders, config.has_file_identities, config.added)
    return partial(ListFiles, *listing, config.name_rules)


# Part of the core time of decoding and resizing an image under Python's lock (bench_lock.py)
DECODING_LOCK_SHARE = 0.35
_EXAMPLES_SHOWN, _LAST_SHOWN = 10, 3  # classes of many, by --dry_run: the first, and the last


@dataclass(frozen=True)
class Files(skeleton.Skeleton):
    """The phases of a job that makes an example of each file."""

    config: FilesConfig
    # makes the index transform from the job's folder; None in a dry run
    index: Callable[[str | None], beam.PTransform[Any, IndexedFiles]]
    encoder: FileEncoder
    layout: Callable[[InputSummary, FileLayoutOptions], Layout] = make_layout  # decides how the input is read
    make_encoder: Callable[[Any], FileEncoder] | None = None  # makes the encoder if it depends on the layout
    observer: ImageObserver | None = None  # of an add-on

    def find(self, root: beam.Pipeline, temporary: str | None, scratch: str, **source: Any) -> tuple[Any, IndexedFiles]:
        indexed = root | "Index" >> self.index(temporary)
        return indexed.summary, indexed

    def lay_out(self, found: IndexedFiles) -> beam.PCollection[Layout]:
        return found.summary | "Layout" >> beam.Map(self._make_layout)

    def _make_layout(self, summary: InputSummary) -> Layout:
        layout = self.layout(summary, self.config.layout_options)
        features, _ = self.encoder.describe(summary, layout)
        self.config.renames.check(feature.name for feature in features)
        if self.config.analysis is not None:
            self.config.analysis.check(features, layout.splits, layout.columns)
        return layout

    def _cut(self, found: IndexedFiles, layout: beam.PCollection[Layout], temporary: str | None) -> skeleton.Cut:
        config = self.config
        resolved = found.files | "Resolve" >> beam.FlatMap(
            _resolve, AsSingleton(layout), config.resolve_options, temporary
        ).with_output_types(pa.RecordBatch).with_outputs(REJECTS, main="planned")
        planned = resolved["planned"]
        if config.group_by == CONTENT:
            make_encoder = self.make_encoder or (lambda _: self.encoder)
            work = (make_encoder, config.split_seed, config.files_per_task, config.read_threads.number)
            planned = planned | "GroupByContent" >> GroupByContent(layout, *work)
        strata = None
        if config.stratify_by is not None:
            planned, strata = planned | "Stratify" >> AssignStrata(config.split)
        if config.no_shuffle:
            planned = planned | "KeepOrder" >> KeepOrder()
        shards, divisions = planned | "Plan" >> PlanShards(partial(shard_count, config.shard_counts), config.balance)
        rejects = (found.rejects, resolved[REJECTS]) | "IndexRejects" >> beam.Flatten()
        return skeleton.Cut(divisions, shards, [rejects], strata)

    def cut(
        self,
        found: IndexedFiles,
        layout: beam.PCollection[Layout],
        options: PublishOptions,
        progress_folder: str | None,
    ) -> skeleton.Cut:
        config = self.config
        cut = self._cut(found, layout, options.folder)
        reuse = find_reuse(config, {**self.encoder.depends_on(), **options.versions})
        remembered: Any = ()
        if reuse is not None:
            index = reuse.index_options
            remembered = (index.seed, options.versions, not index.codec, reuse.previous)
        source: Any = FileShards(self.encoder, config.files_per_task, *remembered)
        if self.make_encoder is not None:
            source = layout | "Encoder" >> beam.Map(
                lambda layout, make, shards: replace(shards, encoder=make(layout)), self.make_encoder, source
            )
        # Encoded, because Beam decodes what it gathers for a shard, and holds it
        coder = RecordBatchCoder.from_type_hint(pa.RecordBatch, None)
        pack = beam.MapTuple(lambda shard, batch: (shard, coder.encode(batch)))
        how = {"analysis": config.analysis, "encoding_lock_share": DECODING_LOCK_SHARE if config.is_decoding else 0.0}
        return replace(
            cut,
            parts=cut.parts | "Pack" >> pack.with_output_types(tuple[ShardKey, bytes]),
            how={"source": source, "threads": config.read_threads, **how},
            sides=[AsSingleton(found.summary)],
            index_options=None if reuse is None else reuse.index_options,
        )

    def make_build(
        self, written: skeleton.WrittenShards, options: PublishOptions, *sides: Any
    ) -> tuple[Build, Features]:
        (summary,), config, observer, analysis = sides, self.config, self.observer, self.config.analysis
        layout, shards, stats = written.layout, written.shards, written.merge_stats()
        features, notices = self.encoder.describe(
            summary, layout, list(map(file_stats, stats.values())), for_tfds=config.codec.is_read_by_tfds
        )
        gathered = reduce(merged, (shard.gathered for shard in shards), None)
        names = () if layout.class_names is None else layout.class_names.names
        sections = [shard.section for shard in shards if shard.section is not None]
        observed = [shard.observed for shard in shards if shard.observed is not None]
        build = written.make_build(
            summary.total_records,
            summary.size_bytes,
            summary.fingerprint,
            config.line_resolver,
            stats=stats,
            notices=(*layout.notices, *notices),
            duplicates=find_duplicates(f"{config.kind.plural}, as they are stored", sections, names),
            sections={} if observer is None else {observer.key: observer.search(observed)},
            make_further_files=analysis and partial(analysis.make_files, gathered, features, config.renames),
            further_file_notices=analysis and analysis.notices,
        )
        return skeleton.rename_build(build, features, config.renames)

    def count(
        self, found: IndexedFiles, layout: beam.PCollection[Layout], scratch: str
    ) -> tuple[Any, Any, Sequence[Any]]:
        cut = self._cut(found, layout, None)
        shards = cut.parts | "CountShard" >> beam.MapTuple(_count_shard)
        return cut.rejects[0], cut.strata, [AsIter(shards)]

    def make_plan(self, summary: InputSummary, layout: Any, rejects: list[RejectsPart], *sides: Any) -> skeleton.DryRun:
        """Return the plan: each shard is one task, which reads each of its files once."""
        shards: dict[ShardKey, tuple[int, int]] = {}  # (examples, approximate bytes) of each shard
        labels: Counter[tuple[str, int]] = Counter()  # records by split and class id
        for shard, examples, size_bytes, by_label in sides[0]:
            before = shards.get(shard, (0, 0))
            shards[shard] = (before[0] + examples, before[1] + size_bytes)
            labels.update({(shard[0], label): number for label, number in by_label.items()})
        examples, size_bytes = (sum(size[column] for size in shards.values()) for column in (0, 1))
        remote = (not storage.is_local(self.config.root), not storage.is_local(self.config.directory))
        return skeleton.DryRun(
            layout,
            rejects,
            [plural(summary.records, "file"), human_size(summary.size_bytes)],
            [*_describe_splits(layout, shards), *_describe_classes(summary, layout, labels, self.config)],
            self.encoder.describe(summary, layout)[0],
            JobWork(len(shards), len(shards), examples, size_bytes=size_bytes, is_remote=remote),
        )


def _resolve(batch: pa.RecordBatch, layout: Layout, options: PlanOptions, temporary: str | None) -> Iterable[Any]:
    items = list(resolve_files(batch, layout, options))
    yield from (item for item in items if not isinstance(item, Reject))
    rejects = make_parts((item for item in items if isinstance(item, Reject)), temporary)
    yield from (TaggedOutput(REJECTS, part) for part in rejects)


def _count_shard(shard: ShardKey, batch: pa.RecordBatch) -> tuple[ShardKey, int, int, Counter[int]]:
    ids = batch[LABELS.name].flatten() if LABELS.name in batch.schema.names else batch["label"]
    labels = Counter(ids.drop_null().to_pylist())
    return shard, len(batch), int(batch["size"].to_numpy().sum()), labels


def _describe_splits(layout: Layout, shards: Mapping[ShardKey, tuple[int, int]]) -> Iterator[str]:
    for split in layout.splits:
        sizes = [size for (name, _), size in sorted(shards.items()) if name == split]
        if not sizes:
            yield f"Split {split}: empty"
            continue
        examples, size_bytes = ([size[column] for size in sizes] for column in (0, 1))
        yield (
            f"Split {split}: {plural(sum(examples), 'example')}, about {human_size(sum(size_bytes))}, in"
            f" {plural(len(sizes), 'shard')} of {format_range(examples)} example{'s' * (max(examples) != 1)},"
            f" {format_range(size_bytes, human_size)}"
        )


def _describe_classes(
    summary: InputSummary, layout: Layout, labels: Mapping[tuple[str, int], int], config: FilesConfig
) -> list[str]:
    if layout.object_classes is not None:
        names, objects = layout.object_classes.names, summary.objects
        most = max(objects, key=lambda name: (objects[name], name), default="")
        return [
            f"Classes of objects: {len(names):,}: {join_first_and_last(names)}",
            f"Objects: {objects.total():,}" + (f", most often {shorten_name(most)}" if most else ""),
        ]
    if layout.class_names is None:
        unlabelled = "masks are the labels" if config.added.flag else f"the {config.kind.plural} are unlabelled"
        return [f"Classes: none; {unlabelled}"]
    names = layout.class_names.names
    lines = [f"Classes: {len(names):,}"]
    last = max(_EXAMPLES_SHOWN, len(names) - _LAST_SHOWN)
    for label, name in enumerate(names):
        if label == _EXAMPLES_SHOWN < last:
            lines.append(f"  … and {last - _EXAMPLES_SHOWN:,} more …")
        if _EXAMPLES_SHOWN <= label < last:
            continue
        counts = ", ".join(f"{labels[split, label]:,} {split}" for split in layout.splits)
        lines.append(f"  {label} {shorten_name(name)}: {counts}")
    return lines
