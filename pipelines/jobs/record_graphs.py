"""Beam graphs for jobs over records inside files: conversion and dry run."""

import posixpath
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.pvalue import AsIter, AsSingleton

from shardmill.data.features import Feature, Features, Renames
from shardmill.data.kinds import kind_of
from shardmill.errors import UserError
from shardmill.pipelines.config.files import FilesConfig
from shardmill.pipelines.config.records import RecordsConfig
from shardmill.pipelines.jobs import graph_steps, skeleton
from shardmill.pipelines.reports.summary import JobWork, human_size, join_first_and_last
from shardmill.text import plural
from shardmill.transforms.analysis import StagedFiles
from shardmill.transforms.columns.types import Inferred, format_shape
from shardmill.transforms.execution.running import ThreadedFlatMap, Threads
from shardmill.transforms.features.rows import Written
from shardmill.transforms.findings import Findings
from shardmill.transforms.inputs.record_blocks import Task
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.layout.options import TableOptions
from shardmill.transforms.layout.tables import TableLayout
from shardmill.transforms.publishing.description import Build, PublishOptions
from shardmill.transforms.records import staging as stage_runs
from shardmill.transforms.records.merging import RunShards
from shardmill.transforms.records.repeated_keys import RepeatedKeys, find_repeated_keys
from shardmill.transforms.records.run_file import read_keys
from shardmill.transforms.shards.balance import cut_into_shards, estimate_shard_count, shard_count
from shardmill.transforms.shards.cuts import DivideKeys, FindExampleCuts
from shardmill.transforms.shards.divisions import Divisions, count_keys, divide_into_parts
from shardmill.transforms.shards.writing import SHARDS_AT_ONCE
from shardmill.transforms.stores import storage
from shardmill.transforms.strata import cut_strata
from shardmill.transforms.workers.elements import MergeFn, get_single
from shardmill.transforms.workers.rejects import RejectsPart, gather_rejects

if TYPE_CHECKING:
    from shardmill.pipelines.jobs.file_graphs import FileRoute

_LOCK_SHARE = 0.26  # part of the core time of writing shards under Python's lock (bench_lock.py)
_REMOTE_SHARDS_AT_ONCE = 4  # by each worker: a store has each wait for the slices that it is made of


def build_records(
    root: beam.Pipeline,
    progress_folder: str | None,
    config: RecordsConfig | FilesConfig,
    plan: graph_steps.RecordsDryRun | None = None,
    **source: Any,
) -> beam.PCollection[str]:
    """Build the whole job, which outputs the paths of the published shards.

    Workers on this machine report progress to `progress_folder`. A job has a `plan` if its analysis needs one. `source`
    are further arguments of `_read`.
    """
    if plan is not None and config.analysis is not None:
        config.analysis.describe(plan.layout.features, config.source)  # which checks it
    options = skeleton.publish_options(config)
    reading = _read(root, config, options.folder, options.folder, plan, **source)
    return _build(reading, options, progress_folder, plan)


def _read(
    root: beam.Pipeline,
    config: Any,  # a RecordsConfig; with a `route` the FilesConfig
    temporary: str | None,
    scratch: str,
    plan: graph_steps.RecordsDryRun | None = None,
    route: "FileRoute | None" = None,
    rows: beam.PCollection[Any] | Callable[[], beam.PTransform] | None = None,
    ready: beam.PCollection[None] | None = None,
) -> graph_steps.Reading:
    """Read records inside files; or those that an add-on makes of the files of a `route`; or `rows`.

    The `rows` of a RowsConfig are in no file, or a new PTransform reads them: see transforms.rows.spool. Nothing is
    written before the singleton `ready` exists.
    """
    if route is not None:
        indexed = root | "Index" >> route.index(temporary)
        layout = indexed.summary | "FileLayout" >> beam.Map(route.layout, config.layout_options)
        return graph_steps.read_stream(config.stream.change_files(indexed, layout, route.encoder, config, scratch))
    spooled = None
    if callable(rows):
        rows = root | "Rows" >> rows()
    if rows is not None:
        from shardmill.transforms.rows.spool import SpoolRows

        spooled = rows | "Spool" >> SpoolRows(scratch, config.spec.is_passed_through, ready)
    return graph_steps.read_layout(root, config, temporary, plan, spooled, scratch)


def _build(
    reading: graph_steps.Reading,
    options: PublishOptions,
    progress_folder: str | None,
    plan: graph_steps.RecordsDryRun | None,
) -> beam.PCollection[str]:
    indexed, config, findings = reading.stream
    # The layout represents "the input makes sense": a user's mistake is found before anything is written.
    # All that writes takes the layout that has passed through here.
    layout = reading.layout | "Prepare" >> beam.Map(skeleton.prepare_output, options).with_output_types(TableLayout)
    weigh = next(filter(None, (add_on.weigh for add_on in config.row_add_ons)), None)
    analysis = config.analysis
    staging = replace(_make_staging(config), analysis=analysis, weigh=weigh)
    repeated, strata = _read_keys(indexed.tasks, staging, layout, options.folder, config)
    staged = indexed.tasks | "Stage" >> stage_runs.StageRuns(
        staging, layout, options.folder, strata, repeated, config.read_threads, progress_folder
    )
    divisions = _divide_records(staged, config, staging.weigh is not None)
    slices = staged.runs | "SliceRuns" >> stage_runs.SliceRuns(divisions, config.read_threads)
    files, source, lock_share = None, None, _LOCK_SHARE
    if analysis is not None and analysis.reads_records:
        temporary = progress_folder or options.folder
        files, source = analysis.stage_files(layout, staged, config, options, plan, temporary)
    if source is not None:
        lock_share = analysis.lock_share
    elif config.assembly is not None:
        make = beam.Map(lambda layout, assembly: assembly.make_shards(layout), config.assembly)
        source = layout | "Shards" >> make
    else:
        source = RunShards()
    cut_input = skeleton.CutInput(layout, divisions, slices, [indexed.rejects, staged.rejects], strata)
    sides = (
        AsIter(staged.staged),
        () if files is None else AsIter(files),
        None if repeated is None else AsSingleton(repeated),
        findings,
        config,
    )
    at_once = SHARDS_AT_ONCE if storage.is_local(options.folder) else _REMOTE_SHARDS_AT_ONCE
    how = {"source": source, "threads": Threads(config.threads, lock_share), "shards_at_once": at_once}
    return skeleton.write_and_publish(cut_input, config, options, progress_folder, _describe_records, sides, **how)


def _make_staging(config: RecordsConfig) -> stage_runs.Staging:
    how_to_read = (config.format, config.encoder, config.key_options, config.block_bytes, config.run_size)
    return stage_runs.Staging(*how_to_read)


def _read_keys(
    tasks: beam.PCollection[Task],
    staging: stage_runs.Staging,
    layout: beam.PCollection[TableLayout],
    temporary: str,
    config: RecordsConfig,
) -> tuple[beam.PCollection[RepeatedKeys] | None, beam.PCollection[Divisions] | None]:
    """Return what must be known of all keys before any record is encoded: those to reject, and the strata."""
    repeated, strata = None, None
    if config.on_duplicate_key == "reject":
        read = stage_runs.ReadKeys(stage_runs.read_keys_of_task, staging, layout, temporary, config.read_threads)
        find = beam.Map(
            lambda _, sections, folder: find_repeated_keys(sections, folder), AsIter(tasks | "Keys" >> read), temporary
        )
        repeated = layout | "FindRepeated" >> find.with_output_types(RepeatedKeys)
    if config.stratify_by is not None:
        keys = stage_runs.ReadKeys(stage_runs.key_task, staging, layout, temporary, config.read_threads, repeated)
        cut = cut_strata(config.split, read_keys, config.read_threads, has_key_examples=config.assembly is not None)
        strata = tasks | "KeyStrata" >> keys | "CutStrata" >> cut
    return repeated, strata


def _divide_records(
    staged: stage_runs.StagedRuns, config: RecordsConfig, is_weighed: bool
) -> beam.PCollection[Divisions]:
    if (assembly := config.assembly) is not None:
        count = partial(assembly.count_shards, config.shard_counts)
        read, is_by_key = (read_keys, False) if assembly.key is None else (partial(count_keys, read_keys), True)
        divide = partial(divide_into_parts, count, divide=assembly.divide, counts_shared=is_by_key)
        return staged.runs | "Plan" >> DivideKeys(read, divide, config.read_threads)
    count = partial(shard_count, config.shard_counts)
    divide = partial(divide_into_parts, count)
    if is_weighed:
        of_run = beam.Map(lambda run: {part.group: part.size_bytes for part in run.parts})
        sizes = staged.runs | "SizesOfRun" >> of_run | "Sizes" >> beam.CombineGlobally(MergeFn(dict))
        return staged.weighed | "Plan" >> DivideKeys(read_keys, divide, config.read_threads, bytes_of=sizes)
    if config.balance == "bytes":
        return staged.runs | "Plan" >> DivideKeys(read_keys, divide, config.read_threads)
    return staged.runs | "Plan" >> FindExampleCuts(read_keys, partial(cut_into_shards, count), config.read_threads)


def _describe_records(
    written: skeleton.WrittenShards,
    options: PublishOptions,
    all_staged: Iterable[stage_runs.StagedFindings],
    staged_files: Iterable[StagedFiles],
    repeated: RepeatedKeys | None,
    findings_of_stream: Iterable[Findings],
    config: RecordsConfig,
) -> tuple[Build, Features]:
    layout, divisions, shards = written.layout, written.divisions, written.shards
    table, analysis = config.table_options, config.analysis
    assembly = config.assembly
    staged = get_single(all_staged, stage_runs.StagedFindings())
    staged.stats = {split: staged.stats[split] for split in layout.splits if split in staged.stats} | staged.stats
    indexed = layout.input_counts
    findings = reduce(Findings.merge, findings_of_stream, Findings()).merge(staged.findings)
    if not staged.record_count and not indexed.rejected:
        raise UserError(f"{table.source} has no rows")
    features, image_notices = graph_steps.published_features(layout, staged, table)
    notices = [notice for notice in findings.notices(table, staged.record_count) if notice not in layout.notices]
    notices = [*layout.notices, *notices, *image_notices, *graph_steps.schema_notices(layout, staged, table)]
    if config.has_raw_records:
        notices.append("--record_type raw passed the records through unparsed: they have no features")
    if config.key is not None:
        repeated = repeated or find_repeated_keys(staged.keys)
        limit = config.max_reject_fraction
        is_only_allowed = config.has_files and any(finding.shares_places for finding in findings.values())
        floats = [feature.name for feature in layout.features if feature.dtype == "float32" and table.missing]
        how = config.on_duplicate_key, staged.record_count, limit, is_only_allowed, config.key in floats
        notices += repeated.check(config.key, *how)
    for label in layout.row_labels:
        graph_steps.check_ids(staged, layout, label, table)
    files = get_single(staged_files, StagedFiles())
    gathered, records = gather_rejects(written.rejects, staged.record_count + indexed.rejected, indexed.size_bytes)
    renames = Renames.of(options.configuration)
    make_files: Any = None if analysis is None else partial(analysis.make_files, staged.gathered, features, renames)
    build = Build(
        records=records,
        size_bytes=indexed.size_bytes if config.has_files else 0,  # else as a runner has divided the rows
        fingerprint=indexed.fingerprint if config.has_files else 0,
        splits=layout.splits,
        divisions=divisions,
        shards=shards,
        rejects=gathered,
        stats=staged.stats,
        notices=notices,
        duplicates=graph_steps.find_equal_contents(
            config.compared_content, layout, staged, shards, assembly is not None and assembly.cuts_records
        ),
        make_further_files=files.read if files.features else make_files,
        further_file_notices=None if analysis is None else analysis.notices,
    )
    made = Written(staged.stats, shards, divisions)
    for counts, added in (add_on.describe(made) for add_on in config.row_add_ons):
        build = replace(build, counts={**build.counts, **counts}, notices=(*build.notices, *added))
    if assembly is not None:
        features = layout.features
        build = replace(build, are_gathered=assembly.key is not None, stats=written.merge_stats())
    if files.features and analysis is not None and analysis.replaces_examples:
        return replace(build, stats=written.merge_stats()), files.features
    return skeleton.rename_build(build, features, options)


_SHOWN = 30  # features, by --dry_run


def plan_records_dry_run(
    root: beam.Pipeline, path: str, config: RecordsConfig | FilesConfig, reads_rows: bool = True, **source: Any
) -> None:
    """Index the input and infer its columns, and pickle the RecordsDryRun to `path`.

    A job whose analysis needs the column types starts with it, without `reads_rows`: the job makes the findings itself.
    Temporary files are written next to `path`; `source` are further arguments of `_read`.
    """
    reading = _read(root, config, None, posixpath.dirname(path), **source)
    indexed, records, _ = reading.stream
    infers_apart = reading.inferred != () and indexed.inferred is None
    reads_per_block = 1 + infers_apart + (records.on_mixed == "reject") + (records.stratify_by is not None)
    staging = _make_staging(records)
    strata: Any = None
    findings: Any = ()
    if reads_rows and records.stratify_by is not None and records.split.group_by is not None:  # else no notices
        strata = AsSingleton(_read_keys(indexed.tasks, staging, reading.layout, posixpath.dirname(path), records)[1])
    if records.spec.unit == "row" and reads_rows:
        find = ThreadedFlatMap(partial(stage_runs.find_in_task, staging), records.read_threads)
        found = indexed.tasks | "Find" >> beam.ParDo(find, AsSingleton(reading.layout))
        findings = AsIter(found | "MergeFindings" >> beam.CombineGlobally(MergeFn(Findings)).without_defaults())
    blocks = AsIter(indexed.tasks | "BlocksOfTask" >> beam.Map(len))
    sides = (reading.inferred, AsSingleton(reading.layout), AsIter(indexed.rejects), blocks, reads_per_block, findings)
    _ = indexed.summary | "Save" >> beam.Map(
        skeleton.save_dry_run, path, strata, _make_dry_run, *sides, records.table_options
    )


def _make_dry_run(
    summary: InputSummary,
    inferred: Iterable[Inferred],
    layout: TableLayout,
    rejects: Iterable[RejectsPart],
    blocks: Iterable[int],
    reads_per_block: int,
    findings: Iterable[Findings],
    table: TableOptions,
) -> graph_steps.RecordsDryRun:
    blocks, types = list(blocks), get_single(inferred, Inferred())
    notices = get_single(findings, Findings()).notices(table, types.rows)
    layout = replace(layout, notices=tuple(dict.fromkeys((*layout.notices, *notices))))
    return graph_steps.RecordsDryRun(summary, layout, list(rejects), types, len(blocks), sum(blocks), reads_per_block)


def records_work(plan: graph_steps.RecordsDryRun, config: RecordsConfig) -> JobWork:
    """Return a job's amount of work; cutting files into blocks reads each file once more."""
    files = _count_files(plan, config)
    return JobWork(
        plan.tasks,
        estimate_shard_count(config.shard_counts, plan.summary.size_bytes),
        files + plan.blocks * plan.reads_per_block,
        runs=plan.tasks,
        is_remote=(
            not all(map(storage.is_local, config.inputs or (config.directory,))),
            not storage.is_local(config.directory),
        ),
    )


def _count_files(plan: graph_steps.RecordsDryRun, config: RecordsConfig) -> int:
    return sum(plan.summary.folders.values()) * max(len(config.inputs), 1)


def describe_records_plan(plan: graph_steps.RecordsDryRun, config: RecordsConfig) -> str:
    """Describe the dry run of a job over records inside files as text."""
    counted = [plural(_count_files(plan, config), "file"), human_size(plan.summary.size_bytes)] if config.inputs else []
    counted += [plural(plan.inferred.rows, "row")] if plan.inferred.rows else []
    fractions = plan.layout.fractions
    lines = [
        f"Split {split}: {f'{float(fractions[index]):.4g} of the rows' if fractions else 'by its folder'}"
        for index, split in enumerate(plan.layout.splits)
    ]
    features = config.renames.rename_features(plan.layout.features)
    unread = "none, as no row can be read; the job says why of each"
    none = "those of the records" if config.spec.is_passed_through else unread
    lines += [f"Features: {len(features):,}" if features else f"Features: {none}"]
    lines += [f"  {_describe_feature(feature)}" for feature in features[:_SHOWN]]
    if len(features) > _SHOWN:
        lines.append(f"  … and {len(features) - _SHOWN:,} more")
    return plan.describe(config, counted, lines, plan.layout.features)


def _describe_feature(feature: Feature) -> str:
    shape = f" list of {format_shape(feature.shape)}" if feature.shape else ""
    if feature.shape == (None,):
        shape = " list"
    names, classes = feature.class_names, ""
    if kind_of(feature).has_classes:
        classes = f", {plural(len(names), 'class', 'classes')}: {join_first_and_last(names)}"
    unit = f", {feature.time} since 1970 in UTC" if feature.time else ""
    return f"{feature.name}: {feature.dtype}{shape}{unit}{classes}{'' if feature.required else ', may be missing'}"
