"""`shardmill inspect`: show the content of a data set as text, as JSON or as a contact sheet."""

import argparse
import base64
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import islice
from typing import Any

from shardmill.addons.registry import find_or_open
from shardmill.addons.reports.contact_sheet import count_turned, draw_contact_sheet, pick_samples
from shardmill.addons.reports.content import split_entry
from shardmill.addons.reports.pictures import is_drawable
from shardmill.data.example import FeatureValue
from shardmill.data.features import Feature, features_of_kind
from shardmill.data.kinds import kind_of
from shardmill.errors import CorruptDataError, UserError
from shardmill.filesystem import Paths
from shardmill.metadata import file_names
from shardmill.metadata.manifest import SplitEntry
from shardmill.metadata.tfds_metadata import TransformFile
from shardmill.pipelines.commands import frame
from shardmill.pipelines.config.flags import Parser
from shardmill.pipelines.reports import inspection
from shardmill.pipelines.reports import summary as summaries
from shardmill.quality.stats_file import SECTIONS, FeatureSummary, StatsFile
from shardmill.reading.dataset import Dataset, decode_record
from shardmill.text import html_table, plural, to_printable
from shardmill.transforms.columns.types import format_shape
from shardmill.transforms.publishing.catalog import open_version
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import file_error, writing_error

FORMAT = 1  # of --json; raised when a program that reads the previous format would misread it

_CLASSES_SHOWN = 10  # the largest, over all splits


def _count(text: str, least: int = 0) -> int:
    if not text.isdecimal() or int(text) < least:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from {least}")
    return int(text)


def _add_arguments(parser: Parser) -> None:
    frame.add_directory(parser, frame.FILES_HELP, nargs="+")
    parser.add_argument("--split", metavar="SPLIT", help="Split to show (default: all splits)")
    parser.add_argument(
        "--examples", metavar="INT", type=_count, default=3, help="Number of examples to show (default: 3)"
    )
    parser.add_argument(
        "--contact_sheet",
        metavar="PNG",
        help="PNG file to which a contact sheet of sample images with their labels is written",
    )
    parser.add_argument(
        "--samples",
        metavar="INT",
        type=partial(_count, least=1),
        default=40,
        help="Number of images on the contact sheet (default: 40)",
    )
    parser.add_argument(
        "--statistics", action="store_true", help="Show minimum, quantiles and maximum of each feature, by split"
    )
    parser.add_argument("--all", action="store_true", help="Read all records of files that have no manifest")
    parser.add_argument("--json", action="store_true", help="Print one line of JSON, which docs/json.md describes")


COMMANDS = (
    frame.Command(
        name="inspect",
        description="Show what is in a data set, or in TFRecord files: features, splits, classes, and some examples.",
        epilog=f"{frame.STORE_OPTIONS} Exit status: 0 done; 1 a file of the data set is damaged; 2 a mistake in a"
        " flag, or no data set.",
        examples=("datasets/flowers --split train --contact_sheet flowers.png", "'other/*.tfrecord' --all"),
        add_arguments=_add_arguments,
        run=frame.run_here(
            lambda args: inspect(
                args.directory,
                **{name: getattr(args, name) for name in ("split", "examples", "samples", "all", "statistics")},
                contact_sheet=args.contact_sheet or False,
                beam_options=frame.REACHED,
            )
        ),
    ),
)


@dataclass(frozen=True, slots=True, repr=False)
class Inspection:
    """The result of `inspect`.

    Attributes:
        dataset: the opened version.
        splits: the splits that are shown.
        stats: statistics of these splits; None if they cannot be read.
        stats_problem: `missing` or `damaged`; "" if they can.
        transform: description of the transform graph; None without one.
        transform_problem: why it cannot be read; "" if it can, or without one.
        examples: the first examples, each with the name of its split.
        contact_sheet: a PNG file of sample images; None if none was requested.
        contact_sheet_note: its description in a few words.
        shows_statistics: True if `text` shows the statistics of features.
    """

    dataset: Dataset
    splits: tuple[SplitEntry, ...]
    stats: StatsFile | None
    stats_problem: str
    transform: TransformFile | None
    transform_problem: str
    examples: tuple[tuple[str, Mapping[str, FeatureValue]], ...]
    contact_sheet: bytes | None = None
    contact_sheet_note: str = ""
    shows_statistics: bool = False

    @property
    def text(self) -> str:
        """Return features, splits, statistics, classes and examples as text."""
        return "\n".join(map(to_printable, _describe(self)))

    @property
    def content(self) -> dict[str, Any]:
        """Return what `text` shows as JSON-ready data; docs/json.md describes it."""
        manifest, stats, transform = self.dataset.manifest, self.stats, self.transform
        equal = None if stats is None else stats.duplicates
        sections = dict.fromkeys(SECTIONS) if stats is None else stats.sections_json()
        known = {feature.name: feature for feature in manifest.features}
        statistics = {
            split: {name: summary.to_json() for name, summary in entry.features.items()}
            for split, entry in (stats.splits if stats is not None else {}).items()
        }
        return {
            "format": FORMAT,
            "name": manifest.name,
            "version": manifest.version,
            "directory": self.dataset.directory,
            "features": [asdict(feature) for feature in manifest.features],
            "splits": [split_entry(split, stats) for split in self.splits],
            "statistics": None if stats is None else statistics,
            "statistics_missing": self.stats_problem,
            "duplicates": None if equal is None else equal.to_json(),
            **sections,
            "transform": None if transform is None else json.loads(transform.to_json()),
            "notices": list(manifest.notices),
            "examples": [
                {
                    "split": split,
                    "features": {
                        name: inspection.show_values(values, known.get(name)) for name, values in example.items()
                    },
                }
                for split, example in self.examples
            ],
        }

    def __repr__(self) -> str:
        note = f"\n\n{to_printable(self.contact_sheet_note)}" if self.contact_sheet_note else ""
        return f"{self.text}{note}"

    def _repr_html_(self) -> str:
        manifest = self.dataset.manifest
        splits = [
            (split.name, split.examples, len(split.shards), summaries.human_size(split.size_bytes))
            for split in self.splits
        ]
        notes = [f"NOTE: {notice}" for notice in manifest.notices]
        tables = [
            html_table(f"{manifest.name} {manifest.version}", ["split", "examples", "shards", "size"], splits),
            html_table("Features", _FEATURE_COLUMNS, map(_feature_cells, manifest.features), notes),
        ]
        if self.contact_sheet is not None:
            picture = base64.b64encode(self.contact_sheet).decode()
            tables.append(f'<img alt="sample images" src="data:image/png;base64,{picture}">')
        return "".join(tables)


def inspect(
    directory: Paths,
    *,
    split: str | None = None,
    examples: int = 3,
    contact_sheet: str | os.PathLike[str] | bool = False,
    samples: int = 40,
    all: bool = False,  # the name of the flag
    statistics: bool = False,
    beam_options: Sequence[str] = (),
) -> Inspection:
    """Look at a data set: features, splits, statistics, classes and some examples, as `shardmill inspect` does.

    Args:
        directory: folder of a version, or of its data set; then LATEST selects the version. Or TFRecord files.
        split: the only split to show; None for all.
        examples: number of examples to show.
        contact_sheet: True to draw sample images with their labels, or a local PNG file to write them to as well.
        samples: number of images on the contact sheet.
        all: read all records of files without a manifest, not a sample.
        statistics: show minimum, quantiles and maximum of each feature as well.
        beam_options: options of Apache Beam for access to an object store.

    Returns:
        The description. It prints as the command's output; a notebook shows tables and the contact sheet.

    Raises:
        UserError: there is no data set or no such split, or there are no images to draw.
        CorruptDataError: a file of the data set is damaged.
    """
    sheet = contact_sheet if isinstance(contact_sheet, bool) else os.fspath(contact_sheet)
    for name, number, least in (("examples", examples, 0), ("samples", samples, 1)):
        if number < least:
            raise UserError(f"{name}={number!r}: expected a number from {least}")
    reached = frame.reach_paths("inspect", beam_options, *frame.list_paths(directory))
    with reached, frame.report_read_errors(directory):
        opened = find_or_open(directory, open_version)
        found = None if isinstance(opened, Dataset) else opened.inspect(split, examples, all)
        if found is not None and sheet is False:
            return found
        dataset = opened if found is None else opened.open()
        try:
            splits = dataset.manifest.splits if split is None else (dataset.manifest.split(split),)
        except KeyError as error:
            raise UserError(f"--split {split}: {error.args[0]}") from None
        found = found or replace(inspect_dataset(dataset, splits, examples), shows_statistics=statistics)
        if sheet is False:
            return found
        picture, what = draw_sheet(dataset, splits, samples)
        if sheet is not True:
            _write(sheet, picture)
            what = f"{sheet}: {what}"
        return replace(found, contact_sheet=picture, contact_sheet_note=what)


def inspect_dataset(dataset: Dataset, splits: Sequence[SplitEntry], examples: int) -> Inspection:
    """Read what `shardmill inspect` shows of the data set's splits, with their first `examples` examples."""
    stats, why = _read_stats(dataset, splits)
    transform, problem = inspection.read_transform_file(dataset)
    records = ((split.name, record) for split in splits for shard in split.shards for record in dataset.records(shard))
    first = tuple((split, decode_record(dataset.manifest, record)) for split, record in islice(records, examples))
    return Inspection(dataset, tuple(splits), stats, why, transform, problem, first)


def _describe(found: Inspection) -> Iterator[str]:
    dataset, splits, stats = found.dataset, found.splits, found.stats
    manifest = dataset.manifest
    yield f"{manifest.name} {manifest.version}"
    yield dataset.directory
    yield ""
    yield from features_table(manifest.features).split("\n")
    yield ""
    yield from summaries.splits_table(dataset, splits).split("\n")
    for number, (split, example) in enumerate(found.examples):
        yield from ("", f"Example {number}, {split}:")
        yield from inspection.example_lines(example, manifest.features)
    yield from _describe_classes(dataset, splits, stats, found.stats_problem)
    counted = stats.splits if stats is not None else {}
    for unit in dict.fromkeys(unit for one in counted.values() for unit in one.counts):
        numbers = (f"{one.counts.get(unit, 0):,} in {name}" for name, one in counted.items())
        yield from ("", f"{unit.capitalize()}: {', '.join(numbers)}")
    if found.shows_statistics and (table := inspection.statistics_table(counted)):
        yield from ("", *table.split("\n"))
    if found.transform is not None:
        yield from ("", *inspection.transform_lines(found.transform))
    elif problem := found.transform_problem:
        yield from ("", f"{file_names.TRANSFORM} is {problem}: what was found for the transform graph is not known")
    yield from _duplicate_lines(stats)
    for section in stats.sections.values() if stats is not None else ():
        yield from ("", *section.report_lines())
    yield from (f"NOTE: {notice}" for notice in manifest.notices)
    yield from (f"shardmill.load: {hint}" for hint in summaries.pixel_hints(dataset))


def features_table(features: Sequence[Feature]) -> str:
    """Return a table with a row for each feature."""
    table = summaries.new_table([], folded=_FEATURE_COLUMNS)
    for feature in features:
        table.add_row(*map(to_printable, _feature_cells(feature)))
    return summaries.table_text(table)


_FEATURE_COLUMNS = ("feature", "type", "kind", "values", "")


def _feature_cells(feature: Feature) -> tuple[str, ...]:
    kind, shape = kind_of(feature).describe(feature), format_shape(feature.shape or (1,))
    return feature.name, feature.dtype, kind, shape, "" if feature.required else "may be missing"


def _read_stats(dataset: Dataset, splits: Sequence[SplitEntry]) -> tuple[StatsFile | None, str]:
    """Return the statistics of these splits and ""; or None and "missing" or "damaged"."""
    try:
        stats = dataset.stats()
        return replace(stats, splits={split.name: stats.splits[split.name] for split in splits}), ""
    except FileNotFoundError:
        return None, "missing"
    except (CorruptDataError, KeyError):
        return None, "damaged"


def _describe_classes(
    dataset: Dataset, splits: Sequence[SplitEntry], stats: StatsFile | None, why: str
) -> Iterator[str]:
    labels = features_of_kind(dataset.manifest.features, "class_label")
    if stats is None:
        lost = ", and with it the number of examples of each class" if labels else ", so that features are not counted"
        yield from ("", f"{file_names.STATS} is {why}{lost}")
        return
    for label in labels:
        found = [stats.splits[split.name].features.get(label.name, FeatureSummary()).classes or {} for split in splits]
        order = sorted(label.class_names, key=lambda name: -sum(counts.get(name, 0) for counts in found))
        table = summaries.new_table([label.name], [split.name for split in splits])
        for name in order[:_CLASSES_SHOWN]:
            table.add_row(inspection.clip_text(to_printable(name)), *(f"{counts.get(name, 0):,}" for counts in found))
        yield from (
            "",
            f"{plural(len(order), 'class', 'classes')} of {label.name!r}:",
            *summaries.table_text(table).split("\n"),
        )
        if more := order[_CLASSES_SHOWN:]:
            yield f"… and {plural(len(more), 'smaller class', 'smaller classes')}; --json shows all"


def _duplicate_lines(stats: StatsFile | None) -> Iterator[str]:
    duplicates = stats.duplicates if stats is not None else None
    if duplicates is None or not duplicates.pairs:
        return
    yield from ("", f"Equal contents ({duplicates.content}):")
    yield from (f"  {sentence}" for sentence in duplicates.describe())
    for split, found in duplicates.within.items():
        number = f"{found.examples:,} {duplicates.compared}s"
        yield f"  {number} of {split!r} have {found.contents:,} contents between them"
    if duplicates.conflicts is not None:
        yield f"  {duplicates.conflicts.describe()}"


def draw_sheet(dataset: Dataset, splits: Sequence[SplitEntry], number: int) -> tuple[bytes, str]:
    """Draw a contact sheet as PNG, and describe it as text; raise UserError if there is nothing to draw."""
    manifest = dataset.manifest
    if not features_of_kind(manifest.features, "image") and not any(map(is_drawable, manifest.features)):
        names = ", ".join(feature.name for feature in manifest.features)
        raise UserError(f"--contact_sheet: {manifest.name} has no images; its features are {names}")
    samples = pick_samples(dataset, splits, number)
    examples = sum(split.examples for split in splits)
    where = ", ".join(split.name for split in splits)
    title = f"{manifest.name} {manifest.version}   {where}: {len(samples):,} of {examples:,} images"
    turned = count_turned(samples)
    note = f", {turned:,} of them turned upright by EXIF, which readers do not do" if turned else ""
    return draw_contact_sheet(samples, f"{title}{note}"), f"{plural(len(samples), 'image')}{note}"


def _write(path: str, data: bytes) -> None:
    if not storage.is_local(path):
        raise UserError(f"--contact_sheet {path}: expected a local path")
    try:
        with open(path, "wb") as file:
            file.write(data)
    except OSError as error:
        raise file_error(f"--contact_sheet {path}", writing_error(error, path)) from None
