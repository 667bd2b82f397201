"""Format examples, features with their statistics, and a transform graph as text."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

from shardmill.data.example import FeatureValue
from shardmill.data.features import Feature
from shardmill.data.kinds import kind_of
from shardmill.errors import CorruptDataError
from shardmill.metadata import file_names
from shardmill.metadata.tfds_metadata import ModuleSummary, TransformedOutput, TransformFile, VocabularySummary
from shardmill.pipelines.reports.summary import (
    QUANTILES,
    format_distinct,
    format_number,
    human_size,
    main_numbers,
    new_table,
    range_figures,
    table_text,
)
from shardmill.quality.profile import Profile
from shardmill.quality.stats_file import SplitSummary
from shardmill.reading.dataset import Dataset, decode_record
from shardmill.text import to_printable
from shardmill.transforms.columns.types import format_shape

_TABLE_WIDTH = 120  # characters of a line: there are twelve cells in it
_TITLES = ("missing", "distinct", "min", *(f"{100 * float(name):.0f} %" for name in QUANTILES), "max")


def statistics_table(splits: Mapping[str, SplitSummary]) -> str:
    """Return a table of the features that have statistics other than classes, the splits of each below one another."""
    table = new_table(["feature", "split"], _TITLES)
    table.add_column("of")
    for name in dict.fromkeys(name for split in splits.values() for name in split.features):
        shown = name
        for split, summary in (
            (split, found.features[name]) for split, found in splits.items() if name in found.features
        ):
            word, numbers = main_numbers(summary)
            cells = (format_number(summary.missing), format_distinct(summary.distinct), *range_figures(numbers), word)
            if any(cells):
                table.add_row(*map(to_printable, (shown, split, *cells)))
                shown = ""
    return table_text(table, _TABLE_WIDTH) if table.rows else ""


_COLUMNS_SHOWN = 30  # features of a conversion's summary: a screen
_LOOKED_AT, _LOOKED_AT_BYTES = 50, 1 << 20  # examples, in which each feature probably has a value once


def column_lines(dataset: Dataset, profile: Profile | None) -> list[str]:
    """Return a table with a row for each feature: its type, missing values and an example value."""
    features = dataset.manifest.features
    if not features:  # of records that are not parsed
        return []
    shown, found = features[:_COLUMNS_SHOWN], _read_first_values(dataset, features[:_COLUMNS_SHOWN])
    table = new_table(["feature", "type"], ["missing"], ["example"])
    for feature in shown:
        values = found.get(feature.name)
        example = "" if values is None else show_values(values, feature)
        name = feature.name if feature.name == feature.name.strip() else repr(feature.name)
        summaries = [profile.summary(split, feature.name) for split in profile.splits] if profile is not None else []
        missing = f"{sum(one.missing or 0 for one in summaries if one is not None):,}" if summaries else ""
        table.add_row(*map(to_printable, (name, _format_type(feature), missing, example)))
    rest = len(features) - len(shown)
    more = [f"… and {rest:,} more; shardmill inspect {dataset.directory} shows all"] if rest else []
    return [*table_text(table, _TABLE_WIDTH).split("\n"), *more]


def _format_type(feature: Feature) -> str:
    kind = kind_of(feature).describe(feature)
    words = feature.dtype if kind in ("tensor", "text") else f"{feature.dtype} ({kind})"
    return f"{words} [{format_shape(feature.shape)}]" if feature.shape else words


def _read_first_values(dataset: Dataset, features: Sequence[Feature]) -> dict[str, FeatureValue]:
    found: dict[str, FeatureValue] = {}
    shards = (shard for split in dataset.manifest.splits for shard in split.shards if shard.examples)
    size_bytes = 0
    with suppress(CorruptDataError, OSError):
        for record in islice((record for shard in shards for record in dataset.records(shard)), _LOOKED_AT):
            example = decode_record(dataset.manifest, record)
            found = {name: values for name, values in example.items() if len(values)} | found
            size_bytes += len(record)
            if size_bytes > _LOOKED_AT_BYTES or all(feature.name in found for feature in features):
                break
    return found


_VALUES_SHOWN = 8  # of a list
_TEXT_SHOWN = 60  # letters


def example_lines(example: Mapping[str, FeatureValue], features: Sequence[Feature]) -> Iterator[str]:
    """Yield a line for each feature, including features that are not in the manifest."""
    known = {feature.name: feature for feature in features}
    width = max((len(to_printable(name)) for name in [*known, *example]), default=0)
    # What the manifest does not know is shown too: that is why one looks
    for name in dict.fromkeys([*known, *example]):
        yield f"  {to_printable(name):{width}}  {show_values(example.get(name), known.get(name))}"


def show_values(values: FeatureValue | None, feature: Feature | None) -> str:
    """Format a feature's values for people; `feature` is None if the manifest does not have it."""
    if values is None:
        return "(missing)"
    shown = ", ".join(_format_value(value, feature) for value in values[:_VALUES_SHOWN])
    if feature is not None and (amount := kind_of(feature).describe_amount(feature, len(values))):
        shown = f"{amount}: {shown}"
    if feature is not None and not feature.list_shape and len(values) == 1:
        return shown
    return f"[{shown}{', …' if len(values) > _VALUES_SHOWN else ''}] ({len(values)})"


def _format_value(value: Any, feature: Feature | None) -> str:
    words = (
        None if feature is None else _describe_image(feature, value) or kind_of(feature).format_value(feature, value)
    )
    if words is not None:
        return f"{words}, {human_size(len(value))}" if isinstance(value, bytes) else clip_text(words)
    return _format_bytes(value) if isinstance(value, bytes) else str(value)


def _describe_image(feature: Feature, value: Any) -> str | None:
    """Return format and size of an image; the code that reads headers belongs to the writers, not to its kind."""
    if feature.kind not in ("image", "mask") or not isinstance(value, bytes):
        return None
    from shardmill.transforms.files.image_geometry import ImageError
    from shardmill.transforms.files.image_headers import read_header

    try:
        header = read_header(value)
    except ImageError as error:
        return str(error)
    return f"{header.format} {header.width} x {header.height}"


def _format_bytes(data: bytes) -> str:
    try:
        return json.dumps(clip_text(data.decode()), ensure_ascii=False)
    except UnicodeDecodeError:
        return f"{human_size(len(data))}, not text"


def clip_text(text: str, most: int = _TEXT_SHOWN) -> str:
    """Cut a text to `most` letters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


_HEAD = 5  # entries of a vocabulary
_CLIPPED = 24  # letters of an entry
_DIGITS = 12  # of a digest
_LISTED = 8  # numbers of a constant that is a list


def read_transform_file(dataset: Dataset) -> tuple[TransformFile | None, str]:
    """Return the parsed transform.json or None, and its problem: "", "missing" or "damaged"."""
    if file_names.TRANSFORM not in dataset.manifest.files:
        return None, ""
    try:
        return TransformFile.from_json(dataset.metadata(file_names.TRANSFORM), file_names.TRANSFORM), ""
    except FileNotFoundError:
        return None, "missing"
    except CorruptDataError:
        return None, "damaged"


def transform_lines(transform: TransformFile) -> Iterator[str]:
    """Yield a line for each output, and two more if it has a vocabulary."""
    analyzed = ", ".join(f"{examples:,} of {split}" for split, examples in transform.analyzed.items())
    if transform.module is not None:
        yield from _module_lines(transform, transform.module, analyzed)
        return
    yield f"Transformed features, constants of examples: {analyzed}"
    width = max(len(output.name) for output in transform.outputs)
    for output in transform.outputs:
        constants = "".join(f"; {name} {_format_constant(value)}" for name, value in output.constants.items())
        yield f"  {output.name:{width}}  {steps_words(output)}{constants}"
        if output.vocabulary is not None:
            yield from (f"  {'':{width}}    {line}" for line in _vocabulary_lines(output.vocabulary))


def _module_lines(transform: TransformFile, module: ModuleSummary, analyzed: str) -> Iterator[str]:
    yield f"Transformed features, by {module.name} (SHA-256 {module.sha256[:_DIGITS]}…), examples: {analyzed}"
    yield f"  {', '.join(output.name for output in transform.outputs)}"
    for asset in module.assets:
        head = ", ".join(clip_text(entry, _CLIPPED) for entry in asset.head[:_HEAD])
        yield f"  {asset.file}: {asset.entries:,} lines: {head}{', …' if asset.entries > _HEAD else ''}"


def steps_words(output: TransformedOutput) -> str:
    """Return the steps of an output, as they are written in --transform."""
    words = [output.feature]
    for name, parameters in (item for step in output.steps for item in step.items()):
        given = [f"{key}={value}" for key, value in parameters.items() if value not in (None, "")]
        words.append(f"{name}({', '.join(given)})" if given else name)
    return " | ".join(words) if len(words) > 1 else f"{output.feature}, as it is"


def _format_constant(value: Any) -> str:
    if isinstance(value, list | tuple):
        more = f", … ({len(value):,})" if len(value) > _LISTED else ""
        return f"[{', '.join(map(_format_constant, value[:_LISTED]))}{more}]"
    return f"{value:,}" if isinstance(value, int) else f"{value:.6g}"


def _vocabulary_lines(vocabulary: VocabularySummary) -> Iterator[str]:
    head = ", ".join(f"{clip_text(entry, _CLIPPED)} {count:,}" for entry, count in vocabulary.head[:_HEAD])
    more = ", …" if vocabulary.entries > _HEAD else ""
    yield f"{vocabulary.entries:,} entries of {vocabulary.distinct:,} values: {head}{more}"
    shares = [
        f"{split} {unknown / values:.2%} of {values:,}" if values else f"{split} no values"
        for split, (values, unknown) in vocabulary.unknown.items()
    ]
    yield f"out of it: {', '.join(shares)}"
