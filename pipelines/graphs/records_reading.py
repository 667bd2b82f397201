"""How records inside files are read: their files indexed, their columns inferred; nothing is written."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsIter

from shardmill.errors import JobError, UserError
from shardmill.features.feature import Features
from shardmill.pipelines.config.records import RecordsConfig
from shardmill.transforms.columns.inferred import Inferred
from shardmill.transforms.examples.kinds import Kinds, most_frequent
from shardmill.transforms.inputs.blocks import IndexBlocks, IndexedBlocks
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.layout.columns import wanted_columns
from shardmill.transforms.layout.notices import skipped_notices
from shardmill.transforms.layout.sequences import sequence_layout
from shardmill.transforms.layout.table_layout import TableLayout
from shardmill.transforms.layout.tokens import tokenized_layout
from shardmill.transforms.preprocessing.declaration import check_analyzed, check_transform
from shardmill.transforms.records.infer import InferColumns
from shardmill.transforms.records.kinds import CountKinds
from shardmill.transforms.records.objects import objects_layout
from shardmill.transforms.workers.merging import only


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
        config.files, config.kind, config.format, config.run_size, config.read_threads, config.folders, temporary
    )
    inferred: Any = ()
    if known is not None:
        inferred = (known.inferred,)
    elif config.spec.infers and options.needs_inference:
        columns = wanted_columns(options)
        infer = InferColumns(config.format, columns, options.label_values, config.read_threads)
        inferred = AsIter(indexed.tasks | "Infer" >> infer)
    kinds: Any = ()
    if config.on_mixed == "reject" and config.schema is None:
        kinds = AsIter(indexed.tasks | "Kinds" >> CountKinds(config.format, config.read_threads))
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
    layout = objects_layout(layout)
    if config.tokenization is not None:
        layout = tokenized_layout(layout, config.tokenization, config.source)
    if config.sequencing is not None:
        layout = sequence_layout(layout, config.sequencing, config.source)
    if layout.features:
        config.renames.check(feature.name for feature in layout.features)
    if config.transform is not None and layout.features:
        check_transform(config.transform, config.analyzed_splits, layout.features, layout.splits, config.renames)
    if config.module_file is not None:
        check_analyzed("--module_file", config.analyzed_splits, layout.splits)
    return layout
