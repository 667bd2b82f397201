"""What --dry_run says of records inside files: indexed and inferred, nothing is written.

A job with --module_file begins with it: TensorFlow Transform is told the types of columns as the graph is built."""

import pickle
from collections.abc import Iterable
from dataclasses import dataclass

import apache_beam as beam
from apache_beam.pvalue import AsIter, AsSingleton

from shardmill.errors import UserError
from shardmill.features.feature import Feature
from shardmill.kinds.registry import kind_of
from shardmill.pipelines.config.records import RecordsConfig
from shardmill.pipelines.graphs.records import build_records
from shardmill.pipelines.graphs.records_reading import Known, read_layout
from shardmill.pipelines.reports.figures import human_size, so_many
from shardmill.pipelines.reports.summary import first_and_last, rejected_so_far
from shardmill.pipelines.reports.work import Work
from shardmill.printable import printable
from shardmill.transforms.columns.inferred import Inferred
from shardmill.transforms.columns.nested import in_words
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.layout.table_layout import TableLayout
from shardmill.transforms.preprocessing.quiet import quiet_import
from shardmill.transforms.rejects.part import RejectsPart
from shardmill.transforms.sharding.shards import about_how_many
from shardmill.transforms.stores import storage
from shardmill.transforms.workers.merging import only

_SHOWN = 30  # features, by --dry_run


@dataclass(frozen=True, slots=True)
class DryRun:
    """How a job would read its input.

    Attributes:
      tasks, blocks: parts of the input that become a run each, and the parts that are read at once.
      looks: how often each of these is read.
    """

    summary: InputSummary
    inferred: Inferred
    layout: TableLayout
    rejects: list[RejectsPart]
    tasks: int
    blocks: int
    looks: int


def plan(root: beam.Pipeline, path: str, config: RecordsConfig) -> None:
    """Index and infer, and pickle the DryRun to `path`."""
    reading = read_layout(root, config)
    looks = 1 + (reading.inferred != ()) + (config.on_mixed == "reject") + (config.stratify_by is not None)
    blocks = AsIter(reading.indexed.tasks | "BlocksOfTask" >> beam.Map(len))
    side = (reading.inferred, AsSingleton(reading.layout), AsIter(reading.indexed.rejects), blocks, looks)
    _ = reading.indexed.summary | "Save" >> beam.Map(_save, *side, path)


def _save(
    summary: InputSummary,
    inferred: Iterable[Inferred],
    layout: TableLayout,
    rejects: Iterable[RejectsPart],
    blocks: Iterable[int],
    looks: int,
    path: str,
) -> None:
    blocks = list(blocks)
    found = DryRun(
        summary, only(inferred, Inferred()), layout, list(rejects), tasks=len(blocks), blocks=sum(blocks), looks=looks
    )
    storage.write_bytes(path, pickle.dumps(found))


def build(
    root: beam.Pipeline, progress_folder: str | None, config: RecordsConfig, plan: DryRun | None = None
) -> beam.PCollection[str]:
    """The whole job, see build_records; what `plan` says is not looked for again."""
    if plan is None:
        return build_records(root, progress_folder, config)
    _module_outputs(plan, config)
    return build_records(root, progress_folder, config, Known(plan.inferred, plan.layout.features))


def _module_outputs(plan: DryRun, config: RecordsConfig) -> dict[str, str]:
    """What --module_file returns, in words by name; raises a UserError where it does not do."""
    if not plan.layout.features:
        raise UserError(f"--module_file {config.module_file.name}: no row of {config.source} can be read")
    with quiet_import():
        from shardmill.transforms.preprocessing.tensorflow_module import outputs_of

    return outputs_of(config.module_file, config.module_analysis(plan.layout.features).schema)


def work(plan: DryRun, config: RecordsConfig) -> Work:
    """What the job is to do; a file is read once more to be cut into blocks."""
    files = _files(plan, config)
    return Work(
        plan.tasks,
        about_how_many(config.shard_counts, plan.summary.size_bytes),
        files + plan.blocks * plan.looks,
        runs=plan.tasks,
        is_remote=(not storage.is_local(config.root), not storage.is_local(config.directory)),
    )


def _files(plan: DryRun, config: RecordsConfig) -> int:
    """How many there are; of parallel ones, those of each input are as many."""
    return sum(plan.summary.folders.values()) * len(config.inputs)


def describe(plan: DryRun, config: RecordsConfig) -> str:
    """The reading in words."""
    files = _files(plan, config)
    rows = f", {so_many(plan.inferred.rows, 'row')}" if plan.inferred.rows else ""
    lines = [
        f"Dry run: nothing is written. Would write {config.directory}",
        (f"Input: {config.source}: {so_many(files, 'file')}, {human_size(plan.summary.size_bytes)}{rows}"),
    ]
    lines += rejected_so_far(plan.rejects)
    fractions = plan.layout.fractions
    for index, split in enumerate(plan.layout.splits):
        lines.append(f"Split {split}: {f'{float(fractions[index]):.4g} of the rows' if fractions else 'by its folder'}")
    features = config.renames.features(plan.layout.features)
    none = (
        "those of the records"
        if not config.spec.has_columns
        else "none, as no row can be read; the job says why of each"
    )
    lines += [f"Features: {len(features):,}" if features else f"Features: {none}"]
    lines += [f"  {_describe(feature)}" for feature in features[:_SHOWN]]
    if len(features) > _SHOWN:
        lines.append(f"  … and {len(features) - _SHOWN:,} more")
    if config.transform is not None and plan.layout.features:
        lines += ["Transform:", *(f"  {line}" for line in config.transform.sentences(plan.layout.features))]
    if config.module_file is not None:
        outputs = _module_outputs(plan, config)
        lines += [f"Transform: {config.module_file.name}", *(f"  {name}: {words}" for name, words in outputs.items())]
    return "\n".join(map(printable, [*lines, *(f"NOTE: {notice}" for notice in plan.layout.notices)]))


def _describe(feature: Feature) -> str:
    shape = "" if not feature.shape else " list" if feature.shape == (None,) else f" list of {in_words(feature.shape)}"
    classes = (
        f", {so_many(len(feature.class_names), 'class', 'classes')}: {first_and_last(feature.class_names)}"
        if kind_of(feature).has_classes
        else ""
    )
    unit = f", {feature.time} since 1970 in UTC" if feature.time else ""
    return f"{feature.name}: {feature.dtype}{shape}{unit}{classes}{'' if feature.required else ', may be missing'}"
