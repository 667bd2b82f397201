"""The graph of jobs over records inside files: index, infer, stage, plan, write, publish."""

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsIter, AsSingleton

from shardmill.errors import UserError
from shardmill.features.renames import Renames
from shardmill.pipelines.config.records import RecordsConfig
from shardmill.pipelines.graphs.publishing import prepared, publish_options, renamed, report_divisions
from shardmill.pipelines.graphs.records_contents import equal_contents
from shardmill.pipelines.graphs.records_features import check_ids, published_features, schema_notices
from shardmill.pipelines.graphs.records_reading import Known, read_layout
from shardmill.pipelines.graphs.token_graphs import token_cuts, token_notices, tokens_by_split
from shardmill.pipelines.graphs.transform_graphs import module_graph, transform_graph, transformed_shards
from shardmill.transforms.columns.rounded import rounded_notices
from shardmill.transforms.inputs.blocks import Task
from shardmill.transforms.layout.notices import label_notices
from shardmill.transforms.layout.splits import DEFAULT_SPLITS
from shardmill.transforms.layout.table_layout import TableLayout
from shardmill.transforms.layout.table_options import TableOptions
from shardmill.transforms.layout.timestamps import time_notices
from shardmill.transforms.preprocessing.files import transform_files, transform_notices
from shardmill.transforms.preprocessing.gather import Analysis
from shardmill.transforms.preprocessing.materialize import StagedGraph
from shardmill.transforms.publishing import publish
from shardmill.transforms.publishing.describe import Build, PublishOptions
from shardmill.transforms.records.merge import RunShards
from shardmill.transforms.records.objects import object_notices
from shardmill.transforms.records.packed import PackedShards
from shardmill.transforms.records.run_file import read_distinct_keys, read_keys
from shardmill.transforms.records.sequence_shards import SAME_TIME, SequenceShards
from shardmill.transforms.records.slices import SliceRuns
from shardmill.transforms.records.stage import KeyStrata, Staged, StagedRuns, StageRuns, Staging
from shardmill.transforms.rejects.gathered import gather
from shardmill.transforms.rejects.part import RejectsPart
from shardmill.transforms.sequences.options import Sequencing
from shardmill.transforms.sharding import balance
from shardmill.transforms.sharding.cuts import FindByteCuts, FindExampleCuts
from shardmill.transforms.sharding.divisions import Divisions, divide_by_keys
from shardmill.transforms.sharding.keys import stratum_cuts
from shardmill.transforms.sharding.shards import shard_count
from shardmill.transforms.statistics.files import SplitStats, merge_by_split
from shardmill.transforms.stores import storage
from shardmill.transforms.tokens.tokenize import INPUT_IDS, Tokenization
from shardmill.transforms.workers.merging import only
from shardmill.transforms.writing.shard_info import ShardInfo
from shardmill.transforms.writing.shards import REJECTS, SHARDS_AT_ONCE, WriteShards

_REMOTE_SHARDS_AT_ONCE = 4  # by each worker: a store has each wait for the slices that it is made of


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
    divisions = _divisions(staged, config)
    slices = staged.runs | "SliceRuns" >> SliceRuns(divisions, config.read_threads)
    graph: Any = None
    if known is not None:
        analysis = config.module_analysis(known.features)
        graph = module_graph(layout, staged, config, options, analysis, progress_folder or options.folder)
    elif config.materialize:
        graph = transform_graph(layout, staged, config, options)
    written = (
        slices
        | "ByShard" >> beam.GroupByKey()
        | "Write"
        >> WriteShards(
            config.directory,
            config.name,
            graph | "Shards" >> beam.Map(transformed_shards, config.source)
            if config.materialize
            else _shards(layout, config),
            divisions,
            options.folder,
            config.codec,
            config.file_template,
            config.threads,
            progress_folder,
            shards_at_once=SHARDS_AT_ONCE if storage.is_local(options.folder) else _REMOTE_SHARDS_AT_ONCE,
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
        config.tokenization,
        "" if config.pack_to is None else config.end[0],
        config.sequencing,
    ).with_output_types(str)


def _stage(
    tasks: beam.PCollection[Task],
    layout: beam.PCollection[TableLayout],
    temporary: str,
    config: RecordsConfig,
    progress_folder: str | None,
) -> StagedRuns:
    staging = Staging(
        config.format,
        config.encoder,
        config.key_options,
        config.block_size,
        config.run_size,
        config.analysis,
        weighs=_weighed(config),
    )
    strata = None
    if config.stratify_by is not None:
        keys = tasks | "KeyStrata" >> KeyStrata(staging, layout, temporary, config.read_threads)
        fractions = tuple(fraction for _, fraction in config.splits or DEFAULT_SPLITS)
        strata = keys | "CutStrata" >> FindExampleCuts(
            read_keys, partial(_stratum_ranks, fractions), config.read_threads
        )
    return tasks | "Stage" >> StageRuns(staging, layout, temporary, strata, config.read_threads, progress_folder)


def _weighed(config: RecordsConfig) -> tuple[str, ...]:
    if config.balance != "tokens" or config.pack_to is not None or config.tokenization is None:
        return ()
    return tuple(config.tokenization.ids.values())


def _stratum_ranks(fractions: tuple[Fraction, ...], stratum: str, examples: int, size_bytes: int) -> list[int]:
    return stratum_cuts(examples, fractions)


def _divisions(staged: StagedRuns, config: RecordsConfig) -> beam.PCollection[Divisions]:
    if config.pack_to is not None or config.balance == "tokens":
        return token_cuts(staged, config)
    count = partial(shard_count, config.shard_counts)
    if config.sequencing is not None:
        divide = partial(divide_by_keys, by_bytes=config.balance == "bytes")
        return staged.runs | "Plan" >> FindByteCuts(
            read_distinct_keys, count, config.read_threads, divide, counts_shared=True
        )
    if config.balance == "bytes":
        return staged.runs | "Plan" >> FindByteCuts(read_keys, count, config.read_threads)
    return staged.runs | "Plan" >> FindExampleCuts(read_keys, partial(_shard_ranks, count), config.read_threads)


def _shards(layout: beam.PCollection[TableLayout], config: RecordsConfig) -> Any:
    """A ShardSource, which Beam cannot check, or a collection of one."""
    if config.sequencing is not None:
        return layout | "Shards" >> beam.Map(_sequence_shards, config.sequencing, config.apart, config.renames)
    return RunShards() if config.pack_to is None else PackedShards(config.pack_to, config.renames(INPUT_IDS))


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
    tokenization: Tokenization | None,
    end_of_text: str,
    sequencing: Sequencing | None,
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
    notices += time_notices(staged.odd, layout.times)
    notices += rounded_notices(staged.rounded)
    notices += object_notices(staged.odd)
    features, found = published_features(layout, staged, table)
    notices += found
    notices += schema_notices(layout, staged, table)
    for label in layout.row_labels:
        check_ids(staged, layout, label, table)
    graph = only(graphs, StagedGraph())
    is_packed = tokenization is not None and tokenization.is_packed
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
        duplicates=equal_contents(content, layout, staged, shards, is_packed),
        more=partial(transform_files, analysis, staged.gathered, features, Renames.of(options.configuration))
        if analysis is not None
        else None,
        said_of_more=transform_notices,
    )
    if tokenization is not None:
        tokens = tokens_by_split(staged, shards, tokenization)
        said = token_notices(staged, tokens, tokenization, end_of_text)
        build = replace(build, tokens=tokens, notices=(*build.notices, *said))
    if sequencing is not None:
        features = layout.features
        build = replace(build, notices=(*build.notices, *_sequence_notices(shards, divisions, sequencing)))
    if sequencing is not None or is_packed:
        build = replace(build, stats=_stats_of_shards(shards))
    if graph.features and analysis is None:
        build = replace(build, more=graph.read)
    if graph.features and materialize:
        return publish.publish(replace(build, stats=_stats_of_shards(shards), more=graph.read), graph.features, options)
    return publish.publish(*renamed(build, features, options), options)


def _sequence_shards(layout: TableLayout, sequencing: Sequencing, apart: tuple[str, ...], renames: Renames) -> Any:
    return SequenceShards(layout.features, sequencing, apart, layout.labels, layout.target, renames)


def _sequence_notices(shards: Iterable[ShardInfo], divisions: Divisions, how: Sequencing) -> list[str]:
    said = []
    shared = sum(division.shared for division in divisions.values())
    same = sum(shard.noted.get(SAME_TIME, 0) for shard in shards)
    if same:
        rows = "row has" if same == 1 else "rows have"
        said.append(
            f"{same:,} {rows} the {how.time} of another of the same {how.id}: such rows are in the order of their files"
            " and lines"
        )
    if shared:
        have = "value of it has" if shared == 1 else "values of it have"
        said.append(
            f"--sequence_by {how.id}: {shared:,} {have} rows in the folders of several splits, and a sequence in each;"
            " --splits deals whole sequences out instead"
        )
    return said


def _stats_of_shards(shards: Iterable[ShardInfo]) -> dict[str, SplitStats]:
    return merge_by_split((shard.name.split, shard.stats) for shard in shards if shard.stats is not None)
