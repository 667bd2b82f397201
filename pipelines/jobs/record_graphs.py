"""Beam graphs for jobs over records inside files: conversion and dry run."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Any

import apache_beam as beam
from apache_beam.pvalue import AsIter, AsSingleton

from shardmill.data.features import Feature, Features
from shardmill.data.kinds import kind_of
from shardmill.errors import UserError
from shardmill.pipelines.config.job import Changed
from shardmill.pipelines.config.records import RecordsConfig
from shardmill.pipelines.jobs import record_features, skeleton
from shardmill.pipelines.reports.summary import JobWork, human_size, join_first_and_last
from shardmill.text import plural
from shardmill.transforms.analysis import StagedFiles
from shardmill.transforms.columns.types import Inferred, format_shape
from shardmill.transforms.execution.running import ThreadedFlatMap, Threads
from shardmill.transforms.features.rows import Written
from shardmill.transforms.findings import Findings
from shardmill.transforms.inputs.record_blocks import FileRules, IndexBlocks, IndexedBlocks, Task
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.layout.columns import wanted_columns
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
from shardmill.transforms.workers.elements import MergeFn
from shardmill.transforms.workers.rejects import RejectsPart

if TYPE_CHECKING:
    from shardmill.pipelines.config.files import FilesConfig
    from shardmill.pipelines.jobs.file_graphs import Files

_LOCK_SHARE = 0.26  # part of the core time of writing shards under Python's lock (bench_lock.py)
_REMOTE_SHARDS_AT_ONCE = 4  # by each worker: a store has each wait for the slices that it is made of
_SHOWN = 30  # features, by --dry_run


@dataclass(frozen=True)
class Records(skeleton.Skeleton):
    """The phases of a job over records inside files; or over those that an add-on makes of the files of a `route`."""

    config: "RecordsConfig | FilesConfig"
    route: "Files | None" = None
    rows: RecordsConfig | None = None  # of the records that an add-on makes of the files
    planned: skeleton.DryRun | None = None  # of a job whose analysis plans first
    reads_rows: bool = True  # in a dry run; the planning of an analysis leaves findings to the job

    @property
    def described_config(self) -> Any:
        return self.rows or self.config

    def find(self, root: beam.Pipeline, temporary: str | None, scratch: str, **source: Any) -> tuple[Any, Changed]:
        config: Any = self.config
        if self.route is not None:
            indexed = root | "Index" >> self.route.index(temporary)
            layout = indexed.summary | "FileLayout" >> beam.Map(self.route.layout, config.layout_options)
            found = config.stream.change_files(indexed, layout, self.route.encoder, config, scratch)
        else:
            found = Changed(self._index(root, config, temporary, scratch, **source), config)
            if config.stream is not None:
                found = config.stream.change_records(found.indexed, config, scratch)
        return found.indexed.summary, found._replace(inferred=self._infer(found))

    def _index(
        self,
        root: beam.Pipeline,
        config: RecordsConfig,
        temporary: str | None,
        scratch: str,
        rows: beam.PCollection[Any] | Callable[[], beam.PTransform] | None = None,
        ready: beam.PCollection[None] | None = None,
    ) -> IndexedBlocks:
        """List the files and cut them into blocks.

        The `rows` of a RowsConfig are in no file, or a new PTransform reads them: see transforms.rows.spool. Nothing
        is written before the singleton `ready` exists.
        """
        options, infer = config.table_options, None
        if (
            config.stream is None
            and config.format.infers_with_index
            and self.planned is None
            and options.needs_inference
        ):
            columns = wanted_columns(options)
            infer = (None if columns is None else tuple(columns), tuple(options.label_values))
        if callable(rows):
            rows = root | "Rows" >> rows()
        if rows is None:
            files: Any = config.files
        else:
            from shardmill.transforms.rows.spool import SpoolRows

            files = rows | "Spool" >> SpoolRows(scratch, config.spec.is_passed_through, ready)
        is_left_out = (config.on_damaged_file == "reject", options.on_other_columns == "reject")
        rules = FileRules(*is_left_out, options.drop, options.only)
        how = (config.kind, config.input_format, config.run_size, config.read_threads, config.folders)
        return root | "Index" >> IndexBlocks(files, *how, rules, temporary, infer)

    def _infer(self, found: Changed) -> Any:
        """Return the side input with the types of all rows."""
        indexed, config = found.indexed, found.config
        if self.planned is not None:
            return (self.planned.inferred,)
        if indexed.inferred is not None:
            return AsIter(indexed.inferred)
        if config.spec.unit != "row" or not config.table_options.needs_inference:
            return ()
        columns, values = wanted_columns(config.table_options), config.table_options.label_values
        infer = stage_runs.InferColumns(config.format, columns, values, config.read_threads)
        return AsIter(indexed.tasks | "Infer" >> infer)

    def lay_out(self, found: Changed) -> beam.PCollection[TableLayout]:
        indexed, config = found.indexed, found.config
        kinds: Any = ()
        if config.on_mixed == "reject" and config.schema is None:
            kinds = AsIter(indexed.tasks | "Kinds" >> stage_runs.CountKinds(config.format, config.read_threads))
        planned = None if self.planned is None else self.planned.features
        make = beam.Map(record_features.make_layout, found.inferred, kinds, config, planned, found.findings)
        return indexed.summary | "Layout" >> make.with_output_types(TableLayout)

    def cut(
        self,
        found: Changed,
        layout: beam.PCollection[TableLayout],
        options: PublishOptions,
        progress_folder: str | None,
    ) -> skeleton.Cut:
        indexed, config = found.indexed, found.config
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
            files, source = analysis.stage_files(layout, staged, config, options, self.planned, temporary)
        if source is not None:
            lock_share = analysis.lock_share
        elif config.assembly is not None:
            make = beam.Map(lambda layout, assembly: assembly.make_shards(layout), config.assembly)
            source = layout | "Shards" >> make
        else:
            source = RunShards()
        at_once = SHARDS_AT_ONCE if storage.is_local(options.folder) else _REMOTE_SHARDS_AT_ONCE
        return skeleton.Cut(
            divisions,
            slices,
            [indexed.rejects, staged.rejects],
            strata,
            {"source": source, "threads": Threads(config.threads, lock_share), "shards_at_once": at_once},
            [
                AsIter(staged.staged),
                () if files is None else AsIter(files),
                None if repeated is None else AsSingleton(repeated),
                found.findings,
                config,
            ],
        )

    def make_build(
        self, written: skeleton.WrittenShards, options: PublishOptions, *sides: Any
    ) -> tuple[Build, Features]:
        all_staged, staged_files, repeated, findings_of_stream, config = sides
        layout, divisions, shards = written.layout, written.divisions, written.shards
        table, analysis = config.table_options, config.analysis
        assembly = config.assembly
        staged = next(iter(all_staged), stage_runs.StagedFindings())
        staged.stats = {split: staged.stats[split] for split in layout.splits if split in staged.stats} | staged.stats
        indexed = layout.input_counts
        findings = reduce(Findings.merge, findings_of_stream, Findings()).merge(staged.findings)
        if not staged.record_count and not indexed.rejected:
            raise UserError(f"{table.source} has no rows")
        features, image_notices = record_features.published_features(layout, staged, table)
        notices = [notice for notice in findings.notices(table, staged.record_count) if notice not in layout.notices]
        notices = [*layout.notices, *notices, *image_notices, *record_features.schema_notices(layout, staged, table)]
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
            record_features.check_ids(staged, layout, label, table)
        files = next(iter(staged_files), StagedFiles())
        make_files = analysis and partial(analysis.make_files, staged.gathered, features, config.renames)
        build = written.make_build(
            staged.record_count + indexed.rejected,
            indexed.size_bytes if config.has_files else 0,  # else as a runner has divided the rows
            indexed.fingerprint if config.has_files else 0,
            stats=staged.stats,
            notices=notices,
            duplicates=record_features.find_equal_contents(
                config.compared_content, layout, staged, shards, assembly is not None and assembly.cuts_records
            ),
            make_further_files=files.read if files.features else make_files,
            further_file_notices=analysis and analysis.notices,
        )
        made = Written(staged.stats, shards, divisions)
        for counts, added in (add_on.describe(made) for add_on in config.row_add_ons):
            build = replace(build, counts={**build.counts, **counts}, notices=(*build.notices, *added))
        if assembly is not None:
            features = layout.features
            build = replace(build, are_gathered=assembly.key is not None, stats=written.merge_stats())
        if files.features and analysis is not None and analysis.replaces_examples:
            return replace(build, stats=written.merge_stats()), files.features
        return skeleton.rename_build(build, features, config.renames)

    def count(
        self, found: Changed, layout: beam.PCollection[TableLayout], scratch: str
    ) -> tuple[Any, Any, Sequence[Any]]:
        indexed, config = found.indexed, found.config
        infers_apart = found.inferred != () and indexed.inferred is None
        reads_per_block = 1 + infers_apart + (config.on_mixed == "reject") + (config.stratify_by is not None)
        staging, strata = _make_staging(config), None
        findings: Any = ()
        if self.reads_rows and config.stratify_by is not None and config.split.group_by is not None:  # else no notices
            strata = _read_keys(indexed.tasks, staging, layout, scratch, config)[1]
        if config.spec.unit == "row" and self.reads_rows:
            find = ThreadedFlatMap(partial(stage_runs.find_in_task, staging), config.read_threads)
            found_rows = indexed.tasks | "Find" >> beam.ParDo(find, AsSingleton(layout))
            findings = AsIter(
                found_rows | "MergeFindings" >> beam.CombineGlobally(MergeFn(Findings)).without_defaults()
            )
        blocks = AsIter(indexed.tasks | "BlocksOfTask" >> beam.Map(len))
        return indexed.rejects, strata, [found.inferred, blocks, reads_per_block, findings, config.table_options]

    def make_plan(self, summary: InputSummary, layout: Any, rejects: list[RejectsPart], *sides: Any) -> skeleton.DryRun:
        """Return the plan; cutting files into blocks reads each file once more."""
        inferred, blocks_of_tasks, reads_per_block, findings, table = sides
        config = self.described_config
        blocks, types = list(blocks_of_tasks), next(iter(inferred), Inferred())
        notices = next(iter(findings), Findings()).notices(table, types.rows)
        files = sum(summary.folders.values()) * max(len(config.inputs), 1)
        counted = [plural(files, "file"), human_size(summary.size_bytes)] if config.inputs else []
        is_remote = not all(map(storage.is_local, config.inputs or (config.directory,)))
        return skeleton.DryRun(
            replace(layout, notices=tuple(dict.fromkeys((*layout.notices, *notices)))),
            rejects,
            [*counted, *([plural(types.rows, "row")] if types.rows else [])],
            _describe_layout(layout, config),
            layout.features,
            JobWork(
                len(blocks),
                estimate_shard_count(config.shard_counts, summary.size_bytes),
                files + sum(blocks) * reads_per_block,
                runs=len(blocks),
                is_remote=(is_remote, not storage.is_local(config.directory)),
            ),
            types,
        )


def _make_staging(config: RecordsConfig) -> stage_runs.Staging:
    return stage_runs.Staging(config.format, config.encoder, config.key_options, config.block_bytes, config.run_size)


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
        from shardmill.transforms.strata import cut_strata

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


def _describe_layout(layout: TableLayout, config: RecordsConfig) -> list[str]:
    fractions = layout.fractions
    lines = [
        f"Split {split}: {f'{float(fractions[index]):.4g} of the rows' if fractions else 'by its folder'}"
        for index, split in enumerate(layout.splits)
    ]
    features = config.renames.rename_features(layout.features)
    unread = "none, as no row can be read; the job says why of each"
    none = "those of the records" if config.spec.is_passed_through else unread
    lines += [f"Features: {len(features):,}" if features else f"Features: {none}"]
    lines += [f"  {_describe_feature(feature)}" for feature in features[:_SHOWN]]
    return [*lines, f"  … and {len(features) - _SHOWN:,} more"] if len(features) > _SHOWN else lines


def _describe_feature(feature: Feature) -> str:
    shape = f" list of {format_shape(feature.shape)}" if feature.shape else ""
    if feature.shape == (None,):
        shape = " list"
    names, classes = feature.class_names, ""
    if kind_of(feature).has_classes:
        classes = f", {plural(len(names), 'class', 'classes')}: {join_first_and_last(names)}"
    unit = f", {feature.time} since 1970 in UTC" if feature.time else ""
    return f"{feature.name}: {feature.dtype}{shape}{unit}{classes}{'' if feature.required else ', may be missing'}"
