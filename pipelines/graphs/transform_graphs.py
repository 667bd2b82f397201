"""The transform graph of a job over records, made of all that was staged, before any shard of it is written."""

from collections.abc import Iterable
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsIter, AsSingleton

from shardmill.features.renames import Renames
from shardmill.features.roles import with_label
from shardmill.metadata.schema import to_pbtxt
from shardmill.pipelines.config.records import RecordsConfig
from shardmill.pipelines.graphs.records_features import published_features
from shardmill.transforms.layout.table_layout import TableLayout
from shardmill.transforms.layout.table_options import TableOptions
from shardmill.transforms.preprocessing.files import transform_files
from shardmill.transforms.preprocessing.gather import Analysis
from shardmill.transforms.preprocessing.materialize import StagedGraph
from shardmill.transforms.preprocessing.module_files import module_files
from shardmill.transforms.publishing.describe import PublishOptions
from shardmill.transforms.records.analyze import AnalyzeRuns, ModuleAnalysis, analyzed_files, check_examples
from shardmill.transforms.records.stage import Staged, StagedRuns
from shardmill.transforms.records.transformed import TransformedShards
from shardmill.transforms.workers.merging import only


def transform_graph(
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
    features, renames = published_features(layout, staged, table)[0], Renames.of(options.configuration)
    files = transform_files(analysis, staged.gathered, features, renames)
    return StagedGraph.write(options.folder, files, with_label(renames.features(features), options.configuration))


def module_graph(
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
    features = renames.features(published_features(layout, staged, table)[0])
    graph, found = analyzed_files(folder)
    counts = check_examples(staged, analysis.splits)
    files = module_files(analysis.module, graph, to_pbtxt(features), found, counts)
    return StagedGraph.write(options.folder, files, with_label(features, options.configuration))


def transformed_shards(graph: StagedGraph, source: str) -> Any:
    """The ShardSource, which Beam cannot check, of examples that `graph` transforms; of rejects, `source` is said."""
    return TransformedShards(graph, source)
