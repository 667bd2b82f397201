"""The graph of jobs over records inside files: index, infer, stage, plan, write, publish."""

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsIter, AsSingleton

from pipelines.config.records import RecordsConfig
from pipelines.graphs.publishing import prepared, publish_options, renamed, report_divisions
from shardmill.errors import JobError, UserError
from shardmill.features.feature import Feature, Features
from shardmill.features.renames import Renames
from shardmill.features.roles import with_label
from shardmill.metadata.schema import to_pbtxt
from transforms.columns.inferred import Inferred
from transforms.contents.find import find_duplicates
from transforms.examples.kinds import Kinds, mixed_kinds, most_frequent
from transforms.files.images.found import mark_images
from transforms.inputs.blocks import IndexBlocks, IndexedBlocks, Task
from transforms.inputs.summary import InputSummary
from transforms.layout.columns import wanted_columns
from transforms.layout.notices import label_notices, skipped_notices
from transforms.layout.splits import DEFAULT_SPLITS
from transforms.layout.table_layout import TableLayout
from transforms.layout.table_options import TableOptions
from transforms.options.splits import CONTENT
from transforms.preprocessing.declaration import check_analyzed, check_transform
from transforms.preprocessing.files import transform_files, transform_notices
from transforms.preprocessing.gather import Analysis
from transforms.preprocessing.materialize import StagedGraph
from transforms.preprocessing.module_files import module_files
from transforms.publishing import publish
from transforms.publishing.describe import Build, PublishOptions
from transforms.records.analyze import AnalyzeRuns, ModuleAnalysis, analyzed_files, check_examples
from transforms.records.infer import InferColumns
from transforms.records.kinds import CountKinds
from transforms.records.merge import RunShards
from transforms.records.run_file import Run, read_keys
from transforms.records.slices import SliceRuns
from transforms.records.stage import KeyStrata, Staged, StagedRuns, StageRuns, Staging
from transforms.records.transformed import TransformedShards
from transforms.rejects.gathered import gather
from transforms.rejects.part import RejectsPart
from transforms.sharding import balance
from transforms.sharding.cuts import FindByteCuts, FindExampleCuts
from transforms.sharding.divisions import Divisions
from transforms.sharding.keys import stratum_cuts
from transforms.sharding.shards import shard_count
from transforms.statistics.files import merge_by_split
from transforms.workers.merging import only
from transforms.writing.shard_info import ShardInfo
from transforms.writing.shards import REJECTS, WriteShards


@dataclass(frozen=True, slots=True)
class Reading:
    """What is known once the files are indexed and their columns inferred; nothing is written."""

    indexed: IndexedBlocks
    inferred: Iterable[Inferred]  # an AsIter of none or one, where anything is inferred
    layout: beam.PCollection[TableLayout]


@dataclass(frozen=True, slots=True)
class Known:
    """What a job before this one has found out.

    Attributes:
      inferred: of all rows.
      features: that they give, by the names of the input.
    """

    inferred: Inferred
    features: Features


def read_layout(
    root: beam.Pipeline, config: RecordsConfig, temporary: str | None = None, known: Known | None = None
) -> Reading:
    """Index the input and decide how it is read.

    Args:
      root: an empty pipeline.
      config: what to do.
      temporary: the job's directory, None in a dry run.
      known: what need not be found out again.
    """
    options = config.table_options
    indexed = root | "Index" >> IndexBlocks(
        config.input, config.kind, config.format, config.run_size, config.threads, config.folders, temporary
    )
    inferred: Any = ()
    if known is not None:
        inferred = (known.inferred,)
    elif config.spec.infers and options.needs_inference:
        columns = wanted_columns(options)
        infer = InferColumns(config.format, columns, options.label_values, config.threads)
        inferred = AsIter(indexed.tasks | "Infer" >> infer)
    kinds: Any = ()
    if config.on_mixed == "reject" and config.schema is None:
        kinds = AsIter(indexed.tasks | "Kinds" >> CountKinds(config.format, config.threads))
    side = (inferred, kinds, config, None if known is None else known.features)
    layout = indexed.summary | "Layout" >> beam.Map(_layout, *side).with_output_types(TableLayout)
    return Reading(indexed, inferred, layout)


def _layout(
    summary: InputSummary,
    inferred: Iterable[Inferred],
    kinds: Iterable[Kinds],
    config: RecordsConfig,
    known: Features | None,
) -> TableLayout:
    layout = replace(_layout_of_route(summary, only(inferred, Inferred()), config), indexed=summary.counts)
    if known is not None and layout.features != known:
        raise JobError(f"{config.source} has changed since its columns were looked at, moments ago; run it again")
    if config.on_mixed == "fail":
        return layout
    asked = {feature.name: feature.dtype for feature in (config.schema.features if config.schema else ())}
    return replace(layout, kinds=asked or most_frequent(only(kinds, {})))


def _layout_of_route(summary: InputSummary, inferred: Inferred, config: RecordsConfig) -> TableLayout:
    if not summary.folders and not summary.rejected:
        raise UserError("; ".join([f"no {config.kind.plural} in {config.source}", *skipped_notices(summary)]))
    layout = config.spec.make_layout()(summary, inferred, config.table_options, config.line_numbers)
    if layout.features:
        config.renames.check(feature.name for feature in layout.features)
    if config.transform is not None and layout.features:
        check_transform(config.transform, config.analyzed_splits, layout.features, layout.splits, config.renames)
    if config.module_file is not None:
        check_analyzed("--module_file", config.analyzed_splits, layout.splits)
    return layout


def build_records(
    root: beam.Pipeline, progress_folder: str | None, config: RecordsConfig, known: Known | None = None
) -> beam.PCollection[str]:
    """The whole job; the paths of the published shards come out.

    Args:
      root: an empty pipeline.
      progress_folder: where workers on this machine report, or None.
      config: what to do.
      known: what a job before this one has found out, for --module_file.
    """
    options = publish_options(config)
    reading = read_layout(root, config, options.folder, known)
    # The layout stands for "the input makes sense": a user's mistake is found before anything is written.
    # All that writes takes the layout that has passed through here.
    layout = reading.layout | "Prepare" >> beam.Map(prepared, options).with_output_types(TableLayout)
    staged = _stage(reading.indexed.tasks, layout, options.folder, config, progress_folder)
    divisions = staged.runs | "Plan" >> _find_cuts(config)
    slices = staged.runs | "SliceRuns" >> SliceRuns(divisions, config.threads)
    graph: Any = None
    if known is not None:
        analysis = config.module_analysis(known.features)
        graph = _module_graph(layout, staged, config, options, analysis, progress_folder or options.folder)
    elif config.materialize:
        graph = _transform_graph(layout, staged, config, options)
    written = (
        slices
        | "ByShard" >> beam.GroupByKey()
        | "Write"
        >> WriteShards(
            config.directory,
            config.name,
            graph | "Shards" >> beam.Map(_transformed_shards, config.source) if config.materialize else RunShards(),
            divisions,
            options.folder,
            config.codec,
            config.threads,
            progress_folder,
        )
    )
    report_divisions(divisions, progress_folder)
    rejects = (reading.indexed.rejects, staged.rejects, written[REJECTS]) | "AllRejects" >> beam.Flatten()
    return layout | "Publish" >> beam.FlatMap(
        _publish,
        AsSingleton(divisions),
        AsIter(staged.staged),
        AsIter(written["shards"]),
        AsIter(rejects),
        config.table_options,
        config.content,
        options,
        config.analysis,
        () if graph is None else AsIter(graph),
        config.materialize,
    ).with_output_types(str)


def _transform_graph(
    layout: beam.PCollection[TableLayout],
    staged: StagedRuns,
    config: RecordsConfig,
    options: PublishOptions,
) -> beam.PCollection[StagedGraph]:
    """One graph, made of all that was staged, before any shard is written."""
    side = (AsIter(staged.staged), config.table_options, options, config.analysis)
    return layout | "TransformGraph" >> beam.Map(_make_graph, *side).with_output_types(StagedGraph)


def _make_graph(
    layout: TableLayout,
    all_staged: Iterable[Staged],
    table: TableOptions,
    options: PublishOptions,
    analysis: Analysis,
) -> StagedGraph:
    staged = only(all_staged, Staged())
    if not staged.gathered.examples:  # which Publish says
        return StagedGraph()
    features, renames = _marked(layout, staged, table)[0], Renames.of(options.configuration)
    files = transform_files(analysis, staged.gathered, features, renames)
    return StagedGraph.write(options.folder, files, with_label(renames.features(features), options.configuration))


def _module_graph(
    layout: beam.PCollection[TableLayout],
    staged: StagedRuns,
    config: RecordsConfig,
    options: PublishOptions,
    analysis: ModuleAnalysis,
    temporary: str,
) -> beam.PCollection[StagedGraph]:
    """The graph of a module, analyzed of all that was staged; TensorFlow writes below `temporary`."""
    folder = staged.runs | "AnalyzeModule" >> AnalyzeRuns(analysis, staged.staged, temporary)
    side = (AsSingleton(folder), AsIter(staged.staged), config.table_options, options, analysis)
    return layout | "TransformGraph" >> beam.Map(_take_graph, *side).with_output_types(StagedGraph)


def _take_graph(
    layout: TableLayout,
    folder: str,
    all_staged: Iterable[Staged],
    table: TableOptions,
    options: PublishOptions,
    analysis: ModuleAnalysis,
) -> StagedGraph:
    staged, renames = only(all_staged, Staged()), Renames.of(options.configuration)
    features = renames.features(_marked(layout, staged, table)[0])
    graph, found = analyzed_files(folder)
    counts = check_examples(staged, analysis.splits)
    files = module_files(analysis.module, graph, to_pbtxt(features), found, counts)
    return StagedGraph.write(options.folder, files, with_label(features, options.configuration))


def _transformed_shards(graph: StagedGraph, source: str) -> Any:  # a ShardSource, which Beam cannot check
    return TransformedShards(graph, source)


def _stage(
    tasks: beam.PCollection[Task],
    layout: beam.PCollection[TableLayout],
    temporary: str,
    config: RecordsConfig,
    progress_folder: str | None,
) -> StagedRuns:
    staging = Staging(
        config.format, config.encoder, config.key_options, config.block_size, config.run_size, config.analysis
    )
    strata = None
    if config.stratify_by is not None:
        keys = tasks | "KeyStrata" >> KeyStrata(staging, layout, temporary, config.threads)
        fractions = tuple(fraction for _, fraction in config.splits or DEFAULT_SPLITS)
        strata = keys | "CutStrata" >> FindExampleCuts(read_keys, partial(_stratum_ranks, fractions), config.threads)
    return tasks | "Stage" >> StageRuns(staging, layout, temporary, strata, config.threads, progress_folder)


def _stratum_ranks(fractions: tuple[Fraction, ...], stratum: str, examples: int, size_bytes: int) -> list[int]:
    return stratum_cuts(examples, fractions)


def _find_cuts(config: RecordsConfig) -> beam.PTransform[Run, Divisions]:
    count = partial(shard_count, config.shard_counts)
    if config.balance == "bytes":
        return FindByteCuts(read_keys, count, config.threads)
    return FindExampleCuts(read_keys, partial(_shard_ranks, count), config.threads)


def _shard_ranks(count: partial[int], split: str, examples: int, size_bytes: int) -> list[int]:
    return balance.example_cuts(examples, count(split, examples, size_bytes))


def _publish(
    layout: TableLayout,
    divisions: Divisions,
    all_staged: Iterable[Staged],
    shards: Iterable[ShardInfo],
    rejects: Iterable[RejectsPart],
    table: TableOptions,
    content: str,
    options: PublishOptions,
    analysis: Analysis | None,
    graphs: Iterable[StagedGraph],
    materialize: bool,
) -> list[str]:
    shards = list(shards)
    if (done := publish.published_before(shards, options)) is not None:
        return done
    staged, indexed = only(all_staged, Staged()), layout.indexed
    if not staged.read and not indexed.rejected:
        raise UserError(f"{table.source} has no rows")
    notices = list(layout.notices)
    if staged.blank:
        notices.append(f"passed over {staged.blank:,} blank line{'' if staged.blank == 1 else 's'}")
    notices += label_notices(staged.odd, {name: how.separator for name, how in layout.separated.items()})
    features, found = _marked(layout, staged, table)
    notices += found
    for label in layout.labels:
        _check_ids(staged, layout, label, table)
    graph = only(graphs, StagedGraph())
    gathered, records = gather(rejects, staged.read + indexed.rejected, indexed.size_bytes)
    build = Build(
        records=records,
        size_bytes=indexed.size_bytes,
        fingerprint=indexed.fingerprint,
        splits=layout.splits,
        divisions=divisions,
        shards=shards,
        rejects=gathered,
        stats=staged.stats,
        notices=notices,
        duplicates=find_duplicates(content, staged.sections),
        more=partial(transform_files, analysis, staged.gathered, features, Renames.of(options.configuration))
        if analysis is not None
        else None,
        said_of_more=transform_notices,
    )
    if graph.features and analysis is None:
        build = replace(build, more=graph.read)
    if graph.features and materialize:
        stats = merge_by_split((shard.name.split, shard.stats) for shard in shards if shard.stats is not None)
        return publish.publish(replace(build, stats=stats, more=graph.read), graph.features, options)
    return publish.publish(*renamed(build, features, options), options)


def _marked(layout: TableLayout, staged: Staged, table: TableOptions) -> tuple[Features, list[str]]:
    """The features of raw examples, images among them, and what must be said of these."""
    features = _features(layout, staged.inferred, staged.kinds, table)
    return (features, []) if table.schema is not None else mark_images(features, staged.images)


def _check_ids(staged: Staged, layout: TableLayout, label: str, table: TableOptions) -> None:
    """Check that --labels_file names all ids: those of existing records may be any; raises UserError."""
    names = table.classes.names_of(label, table.label_columns)
    if names is None or label in layout.class_names:
        return
    counts: Counter[int] = Counter()
    for stats in staged.stats.values():
        if label in stats.columns:
            counts.update(stats.label_counts(label))
    unnamed = {class_id: number for class_id, number in counts.items() if not 0 <= class_id < len(names)}
    if unnamed:
        more = sum(unnamed.values()) - 1
        raise UserError(
            f"--labels_file names {f'the ids 0 to {len(names) - 1:,}' if len(names) > 1 else 'id 0 alone'}, but a"
            f" record has {label}={max(unnamed)}{f', as have {more:,} more with such ids' if more else ''}; expected a"
            " name for each id, a line each in their order"
        )


def _features(layout: TableLayout, inferred: Inferred, kinds: Kinds, table: TableOptions) -> Features:
    """The features as published: those of existing records are known only now."""
    if not inferred.rows:
        return layout.features
    if mixed := mixed_kinds(kinds):
        raise UserError(
            f"{mixed}; a reader takes a feature of one kind only: write these records anew, or give --on_mixed reject,"
            " which leaves out those that are not as most are"
        )
    for flag, column in (
        ("--key", table.key),
        ("--group_by", table.split.group_by),
        ("--stratify_by", table.split.stratify_by),
    ):
        if column is not None and column not in inferred.types and (flag, column) != ("--group_by", CONTENT):
            raise UserError(f"{flag} {column}: no example has such a feature; {_they_have(column, inferred.types)}")
    features = {name: column.feature(name, inferred.rows) for name, column in sorted(inferred.types.items())}
    if table.schema is not None:
        _check_schema(table.schema, features, table.schema_said)
        features = {feature.name: feature for feature in table.schema}
    for label in table.label_columns:
        features[label] = _labelled(label, features, table)
    return tuple(features.values())


def _they_have(column: str, features: Iterable[str]) -> str:
    near = difflib.get_close_matches(column, list(features), 1)
    return (f"did you mean {near[0]}? " if near else "") + f"they have {', '.join(sorted(features))}"


def _check_schema(schema: Features, found: Mapping[str, Feature], said: str) -> None:
    """Check that existing records are what a schema, called `said`, says; raises UserError."""
    for feature in schema:
        mine = found.get(feature.name)
        if mine is None and not feature.required:
            continue
        if mine is None or mine.dtype != feature.dtype or (feature.required and not mine.required):
            is_found = f"{mine.dtype}{'' if mine.required else ', and missing in some'}" if mine else "in no record"
            raise UserError(
                f"{said} says that feature {feature.name!r} is"
                f" {feature.dtype}{' in every record' if feature.required else ''}, but it is {is_found}"
            )


def _labelled(label: str, features: Mapping[str, Feature], table: TableOptions) -> Feature:
    feature = features.get(label)
    if feature is None:
        raise UserError(f"--label {label}: no example has such a feature; {_they_have(label, features)}")
    names = table.classes.names_of(label, table.label_columns)
    if names is None:
        return feature
    if feature.dtype != "int64":
        raise UserError(f"{table.classes.given}, but feature {label!r} holds {feature.dtype}; expected ids, int64")
    return replace(feature, kind="class_label", class_names=names)
