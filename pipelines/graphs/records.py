"""The graph of jobs over records inside files: index, infer, stage, plan, write, publish."""

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsIter, AsSingleton

from pipelines.config.records import RecordsConfig
from pipelines.graphs.publishing import prepared, publish_options, renamed, report_divisions
from shardmill.errors import UserError
from shardmill.features.feature import Feature, Features
from shardmill.features.renames import Renames
from shardmill.statistics.duplicates import Duplicates
from transforms.columns.inferred import Inferred
from transforms.contents.find import find_duplicates
from transforms.examples.kinds import Kinds, mixed_kinds, most_frequent
from transforms.files.images.found import mark_images
from transforms.inputs.blocks import IndexBlocks, IndexedBlocks, Task
from transforms.inputs.summary import InputSummary
from transforms.layout.columns import wanted_columns
from transforms.layout.notices import skipped_notices
from transforms.layout.splits import DEFAULT_SPLITS
from transforms.layout.table_layout import TableLayout
from transforms.layout.table_options import TableOptions
from transforms.options.splits import CONTENT
from transforms.preprocessing.declaration import check_transform
from transforms.preprocessing.files import transform_files, transform_notices
from transforms.preprocessing.gather import Analysis
from transforms.publishing import publish
from transforms.publishing.describe import Build, PublishOptions
from transforms.records.infer import InferColumns
from transforms.records.kinds import CountKinds
from transforms.records.merge import RunShards
from transforms.records.run_file import Run, read_keys
from transforms.records.slices import SliceRuns
from transforms.records.stage import KeyStrata, Staged, StagedRuns, StageRuns, Staging
from transforms.rejects.gathered import gather
from transforms.rejects.part import RejectsPart
from transforms.sharding import balance
from transforms.sharding.cuts import FindByteCuts, FindExampleCuts
from transforms.sharding.divisions import Divisions
from transforms.sharding.keys import stratum_cuts
from transforms.sharding.shards import shard_count
from transforms.workers.merging import only
from transforms.writing.shard_info import ShardInfo
from transforms.writing.shards import REJECTS, WriteShards


@dataclass(frozen=True, slots=True)
class Reading:
    """What is known once the files are indexed and their columns inferred; nothing is written."""

    indexed: IndexedBlocks
    inferred: Iterable[Inferred]  # an AsIter of none or one, where anything is inferred
    layout: beam.PCollection[TableLayout]


def read_layout(root: beam.Pipeline, config: RecordsConfig, temporary: str | None = None) -> Reading:
    """Index the input and decide how it is read; `temporary` is the job's directory, None in a dry run."""
    options = config.table_options
    indexed = root | "Index" >> IndexBlocks(
        config.input, config.kind, config.format, config.run_size, config.threads, config.folders, temporary
    )
    inferred: Any = ()
    if config.spec.infers and options.needs_inference:
        columns = wanted_columns(options)
        infer = InferColumns(config.format, columns, options.label, config.threads)
        inferred = AsIter(indexed.tasks | "Infer" >> infer)
    kinds: Any = ()
    if config.on_mixed == "reject" and config.schema is None:
        kinds = AsIter(indexed.tasks | "Kinds" >> CountKinds(config.format, config.threads))
    layout = indexed.summary | "Layout" >> beam.Map(_layout, inferred, kinds, config).with_output_types(TableLayout)
    return Reading(indexed, inferred, layout)


def _layout(
    summary: InputSummary, inferred: Iterable[Inferred], kinds: Iterable[Kinds], config: RecordsConfig
) -> TableLayout:
    layout = _layout_of_route(summary, only(inferred, Inferred()), config)
    if config.on_mixed == "fail":
        return layout
    known = {feature.name: feature.dtype for feature in (config.schema.features if config.schema else ())}
    return replace(layout, kinds=known or most_frequent(only(kinds, {})))


def _layout_of_route(summary: InputSummary, inferred: Inferred, config: RecordsConfig) -> TableLayout:
    if not summary.folders and not summary.rejected:
        raise UserError("; ".join([f"no {config.kind.plural} in {config.source}", *skipped_notices(summary)]))
    layout = config.spec.make_layout()(summary, inferred, config.table_options, config.line_numbers)
    if layout.features:
        config.renames.check(feature.name for feature in layout.features)
    if config.transform is not None and layout.features:
        check_transform(config.transform, config.analyzed_splits, layout.features, layout.splits, config.renames)
    return layout


def build_records(root: beam.Pipeline, progress_folder: str | None, config: RecordsConfig) -> beam.PCollection[str]:
    """The whole job; the paths of the published shards come out.

    Args:
      root: an empty pipeline.
      progress_folder: where workers on this machine report, or None.
      config: what to do.
    """
    options = publish_options(config)
    reading = read_layout(root, config, options.folder)
    # The layout stands for "the input makes sense": a user's mistake is found before anything is written.
    # All that writes takes the layout that has passed through here.
    layout = reading.layout | "Prepare" >> beam.Map(prepared, options).with_output_types(TableLayout)
    staged = _stage(reading.indexed.tasks, layout, options.folder, config, progress_folder)
    divisions = staged.runs | "Plan" >> _find_cuts(config)
    slices = staged.runs | "SliceRuns" >> SliceRuns(divisions, config.threads)
    written = (
        slices
        | "ByShard" >> beam.GroupByKey()
        | "Write"
        >> WriteShards(
            config.directory,
            config.name,
            RunShards(),
            divisions,
            options.folder,
            config.codec,
            config.threads,
            progress_folder,
        )
    )
    report_divisions(divisions, progress_folder)
    duplicates = reading.indexed.summary | "Duplicates" >> beam.Map(
        _duplicates, AsIter(staged.staged), config.content
    ).with_output_types(Duplicates)
    rejects = (reading.indexed.rejects, staged.rejects, written[REJECTS]) | "AllRejects" >> beam.Flatten()
    return reading.indexed.summary | "Publish" >> beam.FlatMap(
        _publish,
        AsSingleton(layout),
        AsSingleton(divisions),
        AsIter(staged.staged),
        AsSingleton(duplicates),
        AsIter(written["shards"]),
        AsIter(rejects),
        config.table_options,
        options,
        config.analysis,
    ).with_output_types(str)


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


def _duplicates(_: InputSummary, all_staged: Iterable[Staged], content: str) -> Duplicates:
    return find_duplicates(content, [section for staged in all_staged for section in staged.sections])


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
    summary: InputSummary,
    layout: TableLayout,
    divisions: Divisions,
    all_staged: Iterable[Staged],
    duplicates: Duplicates,
    shards: Iterable[ShardInfo],
    rejects: Iterable[RejectsPart],
    table: TableOptions,
    options: PublishOptions,
    analysis: Analysis | None,
) -> list[str]:
    staged = only(all_staged, Staged())
    if not staged.read and not summary.rejected:
        raise UserError(f"{table.source} has no rows")
    notices = list(layout.notices)
    if staged.blank:
        notices.append(f"passed over {staged.blank:,} blank line{'' if staged.blank == 1 else 's'}")
    features = _features(layout, staged.inferred, staged.kinds, table)
    if table.schema is None:
        features, found = mark_images(features, staged.images)
        notices += found
    _check_ids(staged, layout, table.classes.labels)
    gathered, records = gather(rejects, staged.read + summary.rejected, summary.size_bytes)
    build = Build(
        records=records,
        size_bytes=summary.size_bytes,
        fingerprint=summary.fingerprint,
        splits=layout.splits,
        divisions=divisions,
        shards=list(shards),
        rejects=gathered,
        stats=staged.stats,
        notices=notices,
        duplicates=duplicates,
        more=partial(transform_files, analysis, staged.gathered, features, Renames.of(options.configuration))
        if analysis is not None
        else None,
        said_of_more=transform_notices,
    )
    return publish.publish(*renamed(build, features, options), options)


def _check_ids(staged: Staged, layout: TableLayout, names: Sequence[str] | None) -> None:
    """Check that --labels_file names all ids: those of existing records may be any; raises UserError."""
    label = layout.label
    if label is None or names is None or layout.class_names is not None:
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
        _check_schema(table.schema, features)
        features = {feature.name: feature for feature in table.schema}
    if table.label is not None:
        features[table.label] = _labelled(features, table)
    return tuple(features.values())


def _they_have(column: str, features: Iterable[str]) -> str:
    near = difflib.get_close_matches(column, list(features), 1)
    return (f"did you mean {near[0]}? " if near else "") + f"they have {', '.join(sorted(features))}"


def _check_schema(schema: Features, found: Mapping[str, Feature]) -> None:
    """Check that existing records are what --schema says; raises UserError."""
    for feature in schema:
        mine = found.get(feature.name)
        if mine is None and not feature.required:
            continue
        if mine is None or mine.dtype != feature.dtype or (feature.required and not mine.required):
            is_found = f"{mine.dtype}{'' if mine.required else ', and missing in some'}" if mine else "in no record"
            raise UserError(
                f"--schema says that feature {feature.name!r} is"
                f" {feature.dtype}{' in every record' if feature.required else ''}, but it is {is_found}"
            )


def _labelled(features: Mapping[str, Feature], table: TableOptions) -> Feature:
    assert table.label is not None
    feature = features.get(table.label)
    if feature is None:
        raise UserError(f"--label {table.label}: no example has such a feature; {_they_have(table.label, features)}")
    if table.classes.labels is None:
        return feature
    if feature.dtype != "int64":
        raise UserError(
            f"--labels_file was given, but feature {table.label!r} holds {feature.dtype}; expected ids, int64"
        )
    return replace(feature, kind="class_label", class_names=table.classes.labels)
