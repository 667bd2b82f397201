"""The features of records as they are published: of some, only who has staged all knows them."""

import difflib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace

from shardmill.errors import UserError
from shardmill.features.feature import Feature, Features
from shardmill.transforms.columns.inferred import Inferred
from shardmill.transforms.examples.kinds import Kinds, mixed_kinds
from shardmill.transforms.files.images.features import deep_notices, turned_notices
from shardmill.transforms.files.images.found import mark_images, with_encodings
from shardmill.transforms.layout.columns import beside_schema
from shardmill.transforms.layout.table_layout import TableLayout
from shardmill.transforms.layout.table_options import TableOptions
from shardmill.transforms.options.splits import CONTENT
from shardmill.transforms.records.stage import Staged

_TURN = "shardmill images --image_format jpeg, which reads files, turns them upright"


def published_features(layout: TableLayout, staged: Staged, table: TableOptions) -> tuple[Features, list[str]]:
    """The features of raw examples, images among them, and what must be said of these."""
    flag = "" if staged.inferred.rows else "--image"  # existing records pass through as they are
    features = with_encodings(_features(layout, staged.inferred, staged.kinds, table), staged.images)
    features, notices = (features, []) if table.schema is not None else mark_images(features, staged.images, flag)
    of_images = [
        f"feature {feature.name!r}: {notice}"
        for feature in features
        if feature.kind == "image"
        for notice in (*turned_notices(_turned(staged, feature.name), _TURN), *deep_notices(staged.deep[feature.name]))
    ]
    return features, [*notices, *of_images]


def _turned(staged: Staged, feature: str) -> int:
    return sum(stats.turned(feature) for stats in staged.stats.values())


def schema_notices(layout: TableLayout, staged: Staged, table: TableOptions) -> list[str]:
    """What is said of rows beside a given schema: what they have that it does not, and what it has of which no row has
    a value. A key that is written otherwise tonight is both, and the feature one of empty lists."""
    if table.schema is None or not staged.stats:
        return []
    notices = list(beside_schema(sorted(staged.others), table.schema, table))
    empty = [item.name for item in layout.features if all(stats.lacks(item.name) for stats in staged.stats.values())]
    if empty:
        names = f"feature{'' if len(empty) == 1 else 's'} {', '.join(map(repr, empty))}"
        notices.append(f"{table.schema_said} has {names}, of which no record has a value")
    return notices


def check_ids(staged: Staged, layout: TableLayout, label: str, table: TableOptions) -> None:
    """Check that --labels_file names all ids: those of existing records may be any; raises UserError."""
    names = table.classes.names_of(label, table.label_columns)
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
        _check_schema(table.schema, features, table.schema_said)
        features = {feature.name: feature for feature in table.schema}
    for label in table.label_columns:
        features[label] = _labelled(label, features, table)
    return tuple(features.values())


def _they_have(column: str, features: Iterable[str]) -> str:
    near = difflib.get_close_matches(column, list(features), 1)
    return (f"did you mean {near[0]}? " if near else "") + f"they have {', '.join(sorted(features))}"


def _check_schema(schema: Features, found: Mapping[str, Feature], said: str) -> None:
    """Check that existing records are what a schema, called `said`, says; raises UserError."""
    for feature in schema:
        mine = found.get(feature.name)
        if mine is None and not feature.required:
            continue
        if mine is None or mine.dtype != feature.dtype or (feature.required and not mine.required):
            is_found = f"{mine.dtype}{'' if mine.required else ', and missing in some'}" if mine else "in no record"
            raise UserError(
                f"{said} says that feature {feature.name!r} is"
                f" {feature.dtype}{' in every record' if feature.required else ''}, but it is {is_found}"
            )


def _labelled(label: str, features: Mapping[str, Feature], table: TableOptions) -> Feature:
    feature = features.get(label)
    if feature is None:
        raise UserError(f"--label {label}: no example has such a feature; {_they_have(label, features)}")
    names = table.classes.names_of(label, table.label_columns)
    if names is None:
        return feature
    if feature.dtype != "int64":
        raise UserError(f"{table.classes.given}, but feature {label!r} holds {feature.dtype}; expected ids, int64")
    return replace(feature, kind="class_label", class_names=names)
