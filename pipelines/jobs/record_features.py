"""The layout of records inside files, and the features of their examples as they are published."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from shardmill.data.features import Feature, Features
from shardmill.data.kinds import kind_of
from shardmill.errors import JobError, UserError
from shardmill.flag_values import quote
from shardmill.pipelines.config.records import RecordsConfig
from shardmill.quality.duplicates import Duplicates
from shardmill.text import did_you_mean
from shardmill.transforms.columns.example_decoding import Kinds, describe_mixed_kinds, most_frequent_kinds
from shardmill.transforms.columns.types import Inferred
from shardmill.transforms.files.image_features import Formats, deep_notices, turned_notices
from shardmill.transforms.findings import Findings
from shardmill.transforms.formats.conventions import NO_IMAGE
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.layout.options import TableOptions, skipped_notices
from shardmill.transforms.layout.tables import TableLayout
from shardmill.transforms.options.job_options import CONTENT
from shardmill.transforms.records import staging
from shardmill.transforms.shards.sources import ShardInfo
from shardmill.transforms.statistics.duplicates import find_duplicates


def make_layout(
    summary: InputSummary,
    inferred: Iterable[Inferred],
    kinds: Iterable[Kinds],
    config: RecordsConfig,
    planned: Features | None,
    findings: Iterable[Findings],
) -> TableLayout:
    """Return how records are read; raises UserError, and JobError if their features are not the `planned` ones."""
    types = next(iter(inferred), Inferred())
    config = config.of_rows(summary, types.types.keys(), next(iter(findings), Findings()))
    layout = replace(_make_route_layout(summary, types, config), input_counts=summary.counts)
    if planned is not None and layout.features != planned:
        raise JobError(f"{config.source} has changed since its columns were looked at, moments ago; run it again")
    if config.on_mixed == "fail":
        return layout
    schema_types = {feature.name: feature.dtype for feature in (config.schema.features if config.schema else ())}
    return replace(layout, kinds=schema_types or most_frequent_kinds(next(iter(kinds), {})))


def check_files(summary: InputSummary, config: RecordsConfig) -> None:
    """Check that files were found, if only to be rejected; raises UserError."""
    if not summary.folders and not summary.rejected:
        raise UserError("; ".join([f"no {config.kind.plural} in {config.source}", *skipped_notices(summary)]))


def _make_route_layout(summary: InputSummary, inferred: Inferred, config: RecordsConfig) -> TableLayout:
    check_files(summary, config)
    layout = config.make_layout(summary, inferred, config.table_options, config.line_numbers)
    if layout.objects is not None:
        from shardmill.transforms.records.images import add_object_features

        layout = add_object_features(layout, layout.objects)
    for add_on in config.row_add_ons if layout.features else ():
        layout = add_on.change_layout(layout, config.source)
    if layout.features:
        config.renames.check(feature.name for feature in layout.features)
    if config.analysis is not None:
        config.analysis.check(layout.features, layout.splits)
    return layout


_TURN = "shardmill images --image_format jpeg, which reads files, turns them upright"


def published_features(
    layout: TableLayout, staged: staging.StagedFindings, table: TableOptions
) -> tuple[Features, list[str]]:
    """Return the features of the examples before any --transform, with images marked, and notices about the images."""
    flag = "" if staged.inferred.rows else "--image"  # existing records pass through as they are
    features = _set_encodings(_find_published_features(layout, staged.inferred, staged.kinds, table), staged.images)
    features, notices = (features, []) if table.schema is not None else _mark_images(features, staged.images, flag)
    of_images = [
        f"feature {feature.name!r}: {notice}"
        for feature in features
        if feature.kind == "image"
        for notice in (
            *turned_notices(sum(stats.count_rotated(feature.name) for stats in staged.stats.values()), _TURN),
            *deep_notices(staged.deep[feature.name]),
        )
    ]
    return features, [*notices, *of_images]


def _set_encodings(features: Features, formats: Formats) -> Features:
    return tuple(
        replace(feature, encoding=next(iter(formats[feature.name])))
        if feature.kind == "image" and len(formats.get(feature.name, ())) == 1 and NO_IMAGE not in formats[feature.name]
        else feature
        for feature in features
    )


def _mark_images(features: Features, formats: Formats, flag: str = "") -> tuple[Features, list[str]]:
    """Mark the features that hold an image in every example; return them and notices, which name the checking flag."""
    marked, notices = [], []
    for feature in features:
        found = formats.get(feature.name, Counter())
        is_one = feature.required and feature.dtype == "bytes" and feature.shape == ()
        if found and NO_IMAGE not in found and is_one and kind_of(feature).bytes_are_strings:
            feature = replace(feature, kind="image", encoding=next(iter(found)) if len(found) == 1 else "")
            unchecked = f"; they were not checked, which {flag} {feature.name} does" if flag else ""
            how = f"by the first bytes of all its values: {_format_counts(found)}{unchecked}"
            notices.append(f"feature {feature.name!r} is an image, {how}")
        elif flag and feature.dtype == "bytes" and sum(found.values()) > found[NO_IMAGE] and feature.kind != "image":
            notices.append(
                f"feature {feature.name!r} is stored as plain bytes, though some of its values are images:"
                f" {_format_counts(found)}; {flag} {feature.name} stores and checks it as images, and rejects all else"
            )
        marked.append(feature)
    return tuple(marked), notices


def _format_counts(found: Counter[str]) -> str:
    counts = ", ".join(f"{number:,} {name or 'of no image'}" for name, number in sorted(found.items()))
    if animations := " and ".join(name for name in ("gif", "webp") if found[name]):
        counts += f"; TFDS cannot decode {animations}, tf.io.decode_image(…, expand_animations=False) can"
    return counts


def schema_notices(layout: TableLayout, staged: staging.StagedFindings, table: TableOptions) -> list[str]:
    """Return a notice of features of a given schema that have no value in any row.

    A key that is spelled differently tonight also appears among the names that are ignored.
    """
    if table.schema is None or not staged.stats:
        return []
    empty = [item.name for item in layout.features if all(stats.is_empty(item.name) for stats in staged.stats.values())]
    names = f"feature{'' if len(empty) == 1 else 's'} {', '.join(map(repr, empty))}"
    return [f"{table.schema_name} has {names}, of which no record has a value"] if empty else []


def check_ids(staged: staging.StagedFindings, layout: TableLayout, label: str, table: TableOptions) -> None:
    """Check that --labels_file names every class id of existing records, which may be any; raises UserError."""
    names = table.classes.class_names(label, table.label_columns)
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


def _find_published_features(layout: TableLayout, inferred: Inferred, kinds: Kinds, table: TableOptions) -> Features:
    """Return the features to publish; those of existing records are known only once all records were read."""
    if not inferred.rows:
        return layout.features
    if mixed := describe_mixed_kinds(kinds):
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
            raise UserError(
                f"{flag} {column}: no example has such a feature; {_suggest_feature(column, inferred.types)}"
            )
    # A list that a table's row lacks is stored empty; a record that lacks one passes through without it.
    features = {
        name: replace(column.feature(name, inferred.rows), required=column.present == inferred.rows)
        for name, column in sorted(inferred.types.items())
    }
    if table.schema is not None:
        _check_schema(table.schema, features, table.schema_name)
        rest = features if table.is_schema_partial else {}
        features = {feature.name: feature for feature in table.schema}
        features |= {name: feature for name, feature in rest.items() if name not in features}
    for label in table.label_columns:
        features[label] = _make_label_feature(label, features, table)
    return tuple(features.values())


def _suggest_feature(column: str, features: Iterable[str]) -> str:
    return f"{did_you_mean(column, features, 'did you mean {}? ')}they have {', '.join(sorted(features))}"


def _check_schema(schema: Features, features: Mapping[str, Feature], origin: str) -> None:
    """Check that existing records match a schema, which messages call `origin`; raises UserError."""
    for feature in schema:
        existing = features.get(feature.name)
        if existing is None and not feature.required:
            continue
        if existing is None or existing.dtype != feature.dtype or (feature.required and not existing.required):
            missing = "" if existing is None or existing.required else ", and missing in some"
            raise UserError(
                f"{origin} says that feature {feature.name!r} is"
                f" {feature.dtype}{' in every record' if feature.required else ''}, but it is"
                f" {'in no record' if existing is None else existing.dtype}{missing}"
            )
        wanted, held = _value_count(feature), _value_count(existing)
        if wanted not in (None, held):
            raise UserError(
                f"{origin} says that feature {feature.name!r} has {wanted:,} value(s) in a record, but records have"
                f" {'other numbers of them, or none' if held is None else f'{held:,}'}; remove its shape and"
                f" value_count from {origin}"
            )


def _value_count(feature: Feature) -> int | None:
    return None if None in feature.list_shape else math.prod(size or 0 for size in feature.list_shape)


def _make_label_feature(label: str, features: Mapping[str, Feature], table: TableOptions) -> Feature:
    feature = features.get(label)
    if feature is None:
        raise UserError(f"--label {quote(label)}: no example has such a feature; {_suggest_feature(label, features)}")
    names = table.classes.class_names(label, table.label_columns)
    if names is None:
        return feature
    if feature.dtype != "int64":
        raise UserError(f"{table.classes.error_prefix}, but feature {label!r} holds {feature.dtype}; expected int64")
    return replace(feature, kind="class_label", class_names=names)


def find_equal_contents(
    content: str, layout: TableLayout, staged: staging.StagedFindings, shards: Iterable[ShardInfo], is_cut: bool
) -> Duplicates:
    """Find contents that occur more than once.

    `content` describes what is compared of records without images. Sequences are compared by the writers of `shards`.
    If examples are cut from records, which `is_cut` tells, the records are compared.
    """
    if layout.images:
        content = f"images of {', '.join(map(repr, layout.images))}, as they are stored"
    sections = [*staged.sections, *(shard.section for shard in shards if shard.section is not None)]
    names = {feature.name: feature.class_names for feature in layout.features}
    found = find_duplicates(content, sections, names.get(next(iter(layout.row_labels), ""), ()))
    if not is_cut:
        return found
    return replace(found, documents={split: stats.examples for split, stats in sorted(staged.stats.items())})
