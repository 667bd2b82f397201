"""The labels of a table: class names where their values are strings, several in a row where they are lists of them;
numbers as they are."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import reduce

from shardmill.errors import UserError
from shardmill.features.feature import DType, Feature, Features
from shardmill.kinds.registry import kind_of
from shardmill.metadata import naming
from shardmill.metadata.labels import ClassNames, check_label_name, resolve_class_names
from shardmill.transforms.columns.inferred import MAX_VALUES, Inferred
from shardmill.transforms.columns.separated import Separated
from shardmill.transforms.columns.types import ColumnType, value_spelled, widest
from shardmill.transforms.layout.column_names import has_column, nearest
from shardmill.transforms.layout.columns import Columns
from shardmill.transforms.layout.objects import told_of_objects
from shardmill.transforms.layout.table_options import TableOptions


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels of a table.

    Attributes:
      columns: all of the table, those of labels as published.
      class_names: of the labels whose values are names of classes, or ids by --schema, by column.
      separated: the columns whose texts are split, and how.
    """

    columns: Columns
    class_names: Mapping[str, ClassNames]
    separated: Mapping[str, Separated]


def resolve_labels(columns: Columns, inferred: Inferred, options: TableOptions) -> Labels:
    """The columns with the labels as published.

    Raises:
      UserError: a label is no column that can be one, or its class names cannot be known.
    """
    if not options.label_columns and options.classes.labels is not None and told_of_objects(inferred) is None:
        raise UserError(f"{options.classes.given}, but no --label; name the column")
    class_names: dict[str, ClassNames] = {}
    separated: dict[str, Separated] = {}
    for name in options.label_columns:
        feature = next((feature for feature in columns.features if feature.name == name), None)
        if feature is None or columns.types[name].length == 0:
            if inferred.rows or options.schema is not None:
                raise _missing(name, options)
            continue
        if (told := inferred.told.get(name)) is not None and told.kind == "class_label":
            continue  # shardmill.transforms.layout.told names their classes
        _check_lists(feature, options)
        if separator := options.separators.get(name):
            separated[name] = Separated(separator, _dtype_of_parts(feature, inferred, options))
            if not kind_of(feature).has_classes:
                feature = Feature(name, separated[name].dtype, shape=(None,))
        if not kind_of(feature).has_classes and feature.dtype != "bytes":
            feature = _numbers(feature, options)
        else:
            class_names[name] = _class_names(feature, inferred, options)
            names = class_names[name].names
            feature = Feature(name, "int64", "class_label", (None,) if feature.shape else (), class_names=names)
        columns = _with(columns, feature, is_text=name in separated)
    for column in options.stratified & {name for name in options.label_columns if name in columns.types}:
        if any(feature.name == column and feature.shape for feature in columns.features):
            raise UserError(
                f"--stratify_by {column}: a row has any number of its values, and so is of no one class whose share of"
                " each split could be kept; leave --stratify_by out, or give a column of one value in each row"
            )
    return Labels(columns, class_names, separated)


def _check_lists(feature: Feature, options: TableOptions) -> None:
    """Check that what a row has of a label is a value or a list of them."""
    if len(feature.shape) > 1:
        raise UserError(
            f"--label {feature.name} holds lists of lists; expected one value in each row, or a list of them"
        )
    separator = options.separators.get(feature.name)
    if separator and feature.shape and options.schema is None:
        raise UserError(
            f"--label_separator {separator!r}: --label {feature.name} holds lists already; leave the separator out"
        )


def _numbers(feature: Feature, options: TableOptions) -> Feature:
    """A label that stays as it is."""
    if options.classes.names_of(feature.name, options.label_columns) is not None:
        raise UserError(f"{options.classes.given}, but --label {feature.name} holds numbers, which stay as they are")
    return replace(feature, required=True)


def _dtype_of_parts(feature: Feature, inferred: Inferred, options: TableOptions) -> DType:
    """What stands between separators: numbers where all of it are, else names of classes."""
    if options.schema is not None:
        return "bytes" if kind_of(feature).has_classes else feature.dtype
    found = _found(feature, inferred)
    if not found:
        raise _missing(feature.name, options)
    spelled = reduce(widest, (value_spelled(part.encode(errors="surrogateescape")) for part in found))
    return "bytes" if spelled == "bool" else spelled


def _found(feature: Feature, inferred: Inferred) -> frozenset[str]:
    """The distinct values of a label."""
    found = inferred.values.get(feature.name, frozenset())
    if found is None:
        raise UserError(f"--label {feature.name} has more than {MAX_VALUES:,} different values; is it a label?")
    return found


def names_beside_schema(feature: Feature) -> str:
    """What the file is called in which the names of a feature's classes stand: a schema does not say whether the name
    is that of a member of a sequence."""
    sequence, slash, member = feature.name.rpartition("/")
    either = [feature.stem, f"{sequence.replace('/', '.')}-{member}"] if slash else [feature.stem]
    return " or ".join(map(naming.labels_file, dict.fromkeys(either)))


def _class_names(feature: Feature, inferred: Inferred, options: TableOptions) -> ClassNames:
    """The names of the classes of a label that holds their names, or as --schema says their ids."""
    frozen = options.classes.names_of(feature.name, options.label_columns)
    if kind_of(feature).has_classes and frozen is None:
        raise UserError(
            f"{options.schema_said} says that {feature.name!r} holds ids of {_class_count(feature)} classes; give their"
            f" names with --labels_file {names_beside_schema(feature)}, which stands beside the schema"
        )
    check_label_name(feature.name)
    check_labels_file(feature, options)
    found = _found(feature, inferred) - {""} if options.needs_inference else frozenset()
    return resolve_class_names(found, frozen, options.classes.on_new_label, options.classes.source)


def _missing(label: str, options: TableOptions) -> UserError:
    schema = options.schema
    if schema is None or has_column(schema, label):
        return UserError(f"--label {label} has no value in any row; give a column that has some")
    names = [feature.name for feature in schema]
    return UserError(f"--label {label}: {options.schema_said} has no such feature; {nearest(label, names)}")


def _with(columns: Columns, label: Feature, is_text: bool) -> Columns:
    """The columns, of which one is a label, whose values are read as text if they are names or to be split."""
    features: Features = tuple(label if feature.name == label.name else feature for feature in columns.features)
    types = dict(columns.types)
    if is_text or kind_of(label).has_classes:
        types[label.name] = ColumnType("bytes", -1 if label.shape and not is_text else None, 0)
    return replace(columns, types=types, features=features)


def check_labels_file(feature: Feature, options: TableOptions) -> None:
    """Check that the names that are frozen name every class that --schema knows of; there may be more, added since.

    Raises:
      UserError: there are fewer, so that the file is not the one beside the schema, and ids would mean other classes.
    """
    if feature.name not in options.label_columns or not kind_of(feature).has_classes:
        return
    frozen = options.classes.names_of(feature.name, options.label_columns)
    if frozen is not None and len(frozen) < len(feature.class_names):
        raise UserError(
            f"{options.classes.source} has {len(frozen):,} names, but {options.schema_said} says that {feature.name!r}"
            f" holds ids of {len(feature.class_names):,} classes; give the {names_beside_schema(feature)} that"
            " stands beside the schema"
        )


def _class_count(feature: Feature) -> str:
    return f"{len(feature.class_names):,}" if feature.class_names else "some"
