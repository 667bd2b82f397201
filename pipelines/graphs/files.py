"""The graph of jobs whose records are whole files: index, plan, write, publish."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsIter, AsSingleton, TaggedOutput

from shardmill.features.feature import Features
from shardmill.features.renames import Renames
from shardmill.metadata.rejects import Reject
from shardmill.pipelines.config.files import FilesConfig
from shardmill.pipelines.config.listed_files import ListedFilesConfig
from shardmill.pipelines.graphs.publishing import prepared, publish_options, renamed, report_divisions
from shardmill.pipelines.graphs.reuse import Reuse, find_reuse
from shardmill.transforms.contents.find import find_duplicates
from shardmill.transforms.contents.find_near import find_near
from shardmill.transforms.files.encode import FileEncoder
from shardmill.transforms.files.plan import AssignStrata, KeepOrder, PlanShards
from shardmill.transforms.files.resolve import ResolveOptions, resolve
from shardmill.transforms.files.reuse import ReusingShards
from shardmill.transforms.files.source import FileShards
from shardmill.transforms.inputs.indexed import Indexed
from shardmill.transforms.inputs.list_files import ListFiles
from shardmill.transforms.inputs.manifests.given import LinesOf
from shardmill.transforms.inputs.read_manifests import ReadManifest
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.layout.file_options import LayoutOptions
from shardmill.transforms.layout.files import Layout, make_layout
from shardmill.transforms.layout.splits import DEFAULT_SPLITS
from shardmill.transforms.preprocessing.declaration import check_transform
from shardmill.transforms.preprocessing.files import transform_files, transform_notices
from shardmill.transforms.preprocessing.gather import Analysis, Gathered
from shardmill.transforms.publishing import publish
from shardmill.transforms.publishing.describe import Build, PublishOptions
from shardmill.transforms.rejects.gathered import gather
from shardmill.transforms.rejects.part import RejectsPart, parts_of
from shardmill.transforms.sharding.divisions import Divisions
from shardmill.transforms.sharding.shards import ShardKey, shard_count
from shardmill.transforms.statistics.files import SplitStats, merge_by_split
from shardmill.transforms.statistics.noted import of_files
from shardmill.transforms.writing.shard_info import ShardInfo
from shardmill.transforms.writing.shards import REJECTS, WriteShards
from shardmill.transforms.writing.source import ShardSource

# (summary, layout, statistics of each split) -> (features, notices)
Describe = Callable[[InputSummary, Any, Sequence[SplitStats]], tuple[Features, Sequence[str]]]


@dataclass(frozen=True)
class FileRoute:
    """How one kind of file is read.

    Attributes:
      index: finds the files, given the job's temporary directory, None in a dry run.
      encoder: of its files.
      describe: what was written.
      layout: how the input is to be read.
      encoder_of: the encoder, where it depends on the layout.
      near_duplicates: how the encoder hashes pictures by how they look, in words; "" where it does not.
    """

    index: Callable[[str | None], beam.PTransform[Any, Indexed]]
    encoder: FileEncoder
    describe: Describe
    layout: Callable[[InputSummary, LayoutOptions], Layout] = make_layout
    encoder_of: Callable[[Any], FileEncoder] | None = None
    near_duplicates: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """What the index and plan phases give; all of it small."""

    summary: beam.PCollection[InputSummary]
    layout: beam.PCollection[Layout]
    divisions: beam.PCollection[Divisions]
    shards: beam.PCollection[tuple[ShardKey, pa.RecordBatch]]
    rejects: beam.PCollection[RejectsPart]


def find_files(
    config: ListedFilesConfig, reserved: tuple[str, ...]
) -> Callable[[str | None], beam.PTransform[Any, Indexed]]:
    """Index --input or --manifest, no column of which has a name that is `reserved`."""
    if config.manifest:
        return partial(
            ReadManifest,
            config.manifests,
            config.root,
            config.allow_outside,
            reserved,
            config.manifest_names,
            config.remembers,
        )
    assert config.input is not None
    return partial(_list_files, config.input, config.kind, config.folders, config.remembers, masks=config.masks_folder)


def _list_files(*options: Any, masks: str | None) -> ListFiles:
    *before, temporary = options
    return ListFiles(*before, temporary, masks)


def plan_files(
    root: beam.Pipeline, config: FilesConfig, route: FileRoute, options: PublishOptions | None = None
) -> Plan:
    """Index the input and plan its shards; nothing is written, but the temporary directory of a job with `options`."""
    temporary = options.folder if options is not None else None
    indexed = root | "Index" >> route.index(temporary)
    layout = indexed.summary | "Layout" >> beam.Map(
        _layout, config.layout_options, route.layout, route.describe, config.renames, config.analysis
    )
    if options is not None:
        layout = layout | "Prepare" >> beam.Map(prepared, options)
    resolved = indexed.files | "Resolve" >> beam.FlatMap(
        _resolve, AsSingleton(layout), config.resolve_options, temporary
    ).with_output_types(pa.RecordBatch).with_outputs(REJECTS, main="planned")
    planned = resolved["planned"]
    if config.stratify_by is not None:
        names, fractions = zip(*(config.splits or DEFAULT_SPLITS), strict=True)
        planned = planned | "Stratify" >> AssignStrata(names, fractions)
    if config.no_shuffle:
        planned = planned | "KeepOrder" >> KeepOrder()
    shards, divisions = planned | "Plan" >> PlanShards(partial(shard_count, config.shard_counts), config.balance)
    rejects = (indexed.rejects, resolved[REJECTS]) | "IndexRejects" >> beam.Flatten()
    return Plan(indexed.summary, layout, divisions, shards, rejects)


def _layout(
    summary: InputSummary,
    options: LayoutOptions,
    make: Callable[[InputSummary, LayoutOptions], Layout],
    describe: Describe,
    renames: Renames,
    analysis: Analysis | None,
) -> Layout:
    layout = make(summary, options)
    features, _ = describe(summary, layout, ())
    renames.check(feature.name for feature in features)
    if analysis is not None:
        check_transform(analysis.declaration, analysis.splits, features, layout.splits, renames)
        for chain in analysis.declaration.analyzed:
            if chain.feature not in layout.columns:
                raise chain.wrong("constants are taken of the columns of the manifest, and it is none of them")
    return layout


def build_files(
    root: beam.Pipeline, progress_folder: str | None, config: FilesConfig, route: FileRoute
) -> beam.PCollection[str]:
    """The whole job; the paths of the published shards come out.

    Args:
      root: an empty pipeline.
      progress_folder: where workers on this machine report, or None.
      config: what to do.
      route: how its kind of file is read.
    """
    options = publish_options(config)
    plan = plan_files(root, config, route, options)
    reuse = find_reuse(config, {**route.encoder.depends_on(), **options.versions})
    if reuse is not None:
        options = replace(options, remember=reuse.remember)
    shards = partial(_shards, files_per_task=config.files_per_task, reuse=reuse, versions=options.versions)
    report_divisions(plan.divisions, progress_folder)
    write = WriteShards(
        config.directory,
        config.name,
        _source(plan, route, shards),
        plan.divisions,
        options.folder,
        config.codec,
        config.file_template,
        config.read_threads,
        progress_folder,
        config.analysis,
    )
    written = plan.shards | "ByShard" >> beam.GroupByKey() | "Write" >> write
    rejects = (plan.rejects, written[REJECTS]) | "AllRejects" >> beam.Flatten()
    return plan.summary | "Publish" >> beam.FlatMap(
        _publish,
        AsSingleton(plan.layout),
        AsSingleton(plan.divisions),
        AsIter(written["shards"]),
        AsIter(rejects),
        route.describe,
        f"{config.kind.plural}, as they are stored",
        route.near_duplicates,
        options,
        config.analysis,
        config.lines_of,
    ).with_output_types(str)


def _source(
    plan: Plan, route: FileRoute, shards: Callable[[FileEncoder], ShardSource]
) -> ShardSource | beam.PCollection[ShardSource]:
    if route.encoder_of is None:
        return shards(route.encoder)
    return plan.layout | "Encoder" >> beam.Map(_shards_of, route.encoder_of, shards)


# Any: Beam checks annotations, and cannot check protocols
def _shards_of(layout: Layout, encoder_of: Callable[[Layout], FileEncoder], shards: Callable[..., Any]) -> Any:
    return shards(encoder_of(layout))


def _shards(
    encoder: FileEncoder, files_per_task: int, reuse: Reuse | None, versions: Mapping[str, str]
) -> FileShards | ReusingShards:
    if reuse is None:
        return FileShards(encoder, files_per_task)
    remember = reuse.remember
    return ReusingShards(encoder, files_per_task, remember.seed, versions, not remember.codec, reuse.former)


def _resolve(batch: pa.RecordBatch, layout: Layout, options: ResolveOptions, temporary: str | None) -> Iterable[Any]:
    items = list(resolve(batch, layout, options))
    yield from (item for item in items if not isinstance(item, Reject))
    rejects = parts_of((item for item in items if isinstance(item, Reject)), temporary)
    yield from (TaggedOutput(REJECTS, part) for part in rejects)


def _publish(
    summary: InputSummary,
    layout: Layout,
    divisions: Divisions,
    shards: Iterable[ShardInfo],
    rejects: Iterable[RejectsPart],
    describe: Describe,
    content: str,
    near_duplicates: str,
    options: PublishOptions,
    analysis: Analysis | None,
    lines_of: LinesOf | None,
) -> list[str]:
    written = list(shards)
    if (done := publish.published_before(written, options)) is not None:
        return done
    stats = merge_by_split((shard.name.split, shard.stats) for shard in written if shard.stats is not None)
    features, notices = describe(summary, layout, list(map(of_files, stats.values())))
    gathered, records = gather(rejects, summary.matched, summary.size_bytes, lines_of)
    names = () if layout.class_names is None else layout.class_names.names
    build = Build(
        records=records,
        size_bytes=summary.size_bytes,
        fingerprint=summary.fingerprint,
        splits=layout.splits,
        divisions=divisions,
        shards=written,
        rejects=gathered,
        stats=stats,
        notices=(*layout.notices, *notices),
        duplicates=find_duplicates(content, [shard.section for shard in written if shard.section is not None], names),
        near_duplicates=find_near(near_duplicates, [shard.looks for shard in written if shard.looks is not None])
        if near_duplicates
        else None,
        more=partial(transform_files, analysis, _gathered(written), features, Renames.of(options.configuration))
        if analysis is not None
        else None,
        said_of_more=transform_notices,
    )
    return publish.publish(*renamed(build, features, options), options)


def _gathered(shards: Iterable[ShardInfo]) -> Gathered:
    """What --transform takes constants of, of all shards."""
    found = Gathered()
    for shard in shards:
        if shard.gathered is not None:
            found.merge(shard.gathered)
    return found
