"""The label of a table: its class names where its values are strings, numbers as they are."""

from dataclasses import replace

from shardmill.errors import UserError
from shardmill.features.feature import Feature, Features
from shardmill.kinds.registry import kind_of
from shardmill.metadata import naming
from shardmill.metadata.labels import ClassNames, check_label_name, resolve_class_names
from transforms.columns.inferred import MAX_VALUES, Inferred
from transforms.columns.types import ColumnType
from transforms.layout.column_names import has_column, nearest
from transforms.layout.columns import Columns
from transforms.layout.table_options import TableOptions


def resolve_label(columns: Columns, inferred: Inferred, options: TableOptions) -> tuple[Columns, ClassNames | None]:
    """The columns with the label as published, and its class names if its values are strings or ids.

    Raises:
      UserError: the label is no column that can be one, or its class names cannot be known.
    """
    if options.label is None:
        if options.classes.labels is not None:
            raise UserError(f"{options.classes.given}, but no --label; name the column")
        return columns, None
    feature = next((feature for feature in columns.features if feature.name == options.label), None)
    if feature is None:
        if inferred.rows or options.schema is not None:
            raise _missing(options.label, options)
        return columns, None
    if columns.types[feature.name].length is not None:
        raise UserError(f"--label {feature.name} holds lists; expected a column of one value in each row")
    if not kind_of(feature).has_classes and feature.dtype != "bytes":
        if options.classes.labels is not None:
            raise UserError(
                f"{options.classes.given}, but --label {feature.name} holds numbers, which stay as they are"
            )
        return replace(columns, features=_with(columns.features, replace(feature, required=True))), None
    class_names = _class_names(feature, inferred, options)
    types = {**columns.types, feature.name: ColumnType("bytes", None, 0)}
    label = Feature(feature.name, "int64", "class_label", class_names=class_names.names)
    return replace(columns, types=types, features=_with(columns.features, label)), class_names


def _class_names(feature: Feature, inferred: Inferred, options: TableOptions) -> ClassNames:
    """The names of the classes of a label that holds their names, or as --schema says their ids."""
    if kind_of(feature).has_classes and options.classes.labels is None:
        raise UserError(
            f"{options.schema_said} says that {feature.name!r} holds ids of {_class_count(feature)} classes; give their"
            f" names with --labels_file {naming.labels_file(feature.stem)}, which stands beside the schema"
        )
    check_label_name(feature.name)
    check_labels_file(feature, options)
    if inferred.values is None:
        raise UserError(f"--label {feature.name} has more than {MAX_VALUES:,} different values; is it a label?")
    found = inferred.values if options.needs_inference else frozenset()
    return resolve_class_names(found, options.classes.labels, options.classes.on_new_label, options.classes.source)


def _missing(label: str, options: TableOptions) -> UserError:
    schema = options.schema
    if schema is None or has_column(schema, label):
        return UserError(f"--label {label} has no value in any row; give a column that has some")
    names = [feature.name for feature in schema]
    return UserError(f"--label {label}: {options.schema_said} has no such feature; {nearest(label, names)}")


def _with(features: Features, changed: Feature) -> Features:
    """The features, that of one name changed."""
    return tuple(changed if feature.name == changed.name else feature for feature in features)


def check_labels_file(feature: Feature, options: TableOptions) -> None:
    """Check that the names that are frozen name every class that --schema knows of; there may be more, added since.

    Raises:
      UserError: there are fewer, so that the file is not the one beside the schema, and ids would mean other classes.
    """
    frozen = options.classes.labels
    if kind_of(feature).has_classes and frozen is not None and len(frozen) < len(feature.class_names):
        raise UserError(
            f"{options.classes.source} has {len(frozen):,} names, but {options.schema_said} says that {feature.name!r}"
            f" holds ids of {len(feature.class_names):,} classes; give the {naming.labels_file(feature.stem)} that"
            " stands beside the schema"
        )


def _class_count(feature: Feature) -> str:
    return f"{len(feature.class_names):,}" if feature.class_names else "some"
