"""The label column of a table and its classes, and the schema that the input carries."""

import os
import posixpath
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import reduce
from itertools import islice

from shardmill.data.features import DType, Feature, Features
from shardmill.data.kinds import kind_of
from shardmill.errors import UserError
from shardmill.flag_values import quote
from shardmill.metadata import file_names
from shardmill.metadata.labels import CATEGORY, ClassNames, check_label_name, parse_label_map, resolve_class_names
from shardmill.text import listed
from shardmill.transforms.columns.arrow import Separated
from shardmill.transforms.columns.types import MAX_VALUES, ColumnType, Inferred, text_type
from shardmill.transforms.inputs.listing import input_root
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.layout.columns import Columns, check_same_classes, has_column, suggest_column
from shardmill.transforms.layout.options import TableOptions, declared_objects
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.storage import raise_if_store_failed


def resolve_labels(
    columns: Columns, inferred: Inferred, options: TableOptions
) -> tuple[Columns, dict[str, ClassNames], dict[str, Separated]]:
    """Return the columns with labels as published: ids for strings, lists for several classes, numbers unchanged.

    Also return, by column, the class tables of labels that hold names, or ids by --schema, and how texts are split.
    """
    if not options.label_columns and options.classes.labels is not None and declared_objects(inferred) is None:
        raise UserError(f"{options.classes.error_prefix}, but no --label; name the column")
    class_names: dict[str, ClassNames] = {}
    separated: dict[str, Separated] = {}
    for name in options.label_columns:
        feature = next((feature for feature in columns.features if feature.name == name), None)
        if feature is None or columns.types[name].length == 0:
            if inferred.rows or options.schema is not None:
                raise _missing_label_error(name, options)
            continue
        if (declared := inferred.declared.get(name)) is not None and declared.kind == "class_label":
            continue  # shardmill.transforms.layout.columns names their classes
        _check_lists(feature, options)
        if separator := options.separators.get(name):
            separated[name] = Separated(separator, _dtype_of_parts(feature, inferred, options))
            if not kind_of(feature).has_classes:
                feature = Feature(name, separated[name].dtype, shape=(None,))
        if not kind_of(feature).has_classes and feature.dtype != "bytes":
            if options.classes.class_names(name, options.label_columns) is not None:
                problem = f"--label {quote(name)} holds numbers, which stay as they are"
                raise UserError(f"{options.classes.error_prefix}, but {problem}")
            feature = replace(feature, required=True)
        else:
            class_names[name] = _class_names(feature, inferred, options)
            names = class_names[name].names
            feature = Feature(name, "int64", "class_label", (None,) if feature.shape else (), class_names=names)
        columns = _replace_label(columns, feature, is_text=name in separated)
    column = options.split.stratify_by
    lists = [feature.name for feature in columns.features if feature.shape]
    if column in columns.types and column in options.label_columns and column in lists:
        raise UserError(
            f"--stratify_by {column}: rows have any number of its values, so no class can have the same share"
            " of each split; leave --stratify_by out, or give a column with one value in each row"
        )
    return columns, class_names, separated


def _check_lists(feature: Feature, options: TableOptions) -> None:
    if len(feature.shape) > 1:
        raise UserError(
            f"--label {quote(feature.name)} holds lists of lists; expected one value in each row, or a list of them"
        )
    separator = options.separators.get(feature.name)
    if separator and feature.shape and options.schema is None:
        raise UserError(
            f"--label_separator {separator!r}: --label {quote(feature.name)} holds lists already; leave the"
            " separator out"
        )


def _dtype_of_parts(feature: Feature, inferred: Inferred, options: TableOptions) -> DType:
    if options.schema is not None:
        return "bytes" if kind_of(feature).has_classes else feature.dtype
    found = _distinct_values(feature, inferred)
    if not found:
        raise _missing_label_error(feature.name, options)
    parts = (text_type(part.encode(errors="surrogateescape")) for part in found)
    spelled = reduce(ColumnType.merge, parts).settle().dtype
    return "bytes" if spelled == "bool" else spelled


def _distinct_values(feature: Feature, inferred: Inferred) -> frozenset[str]:
    if (found := inferred.values.get(feature.name, frozenset())) is None:
        raise UserError(
            f"--label {quote(feature.name)} has more than {MAX_VALUES:,} different values; give a column of classes,"
            " or leave --label out"
        )
    return found


def labels_file_names(feature: Feature) -> str:
    """Return the possible names of the file with a feature's class names, which is next to a schema.

    There are two for a name with a slash, because a schema does not tell whether it is that of a sequence's member.
    """
    sequence, slash, member = feature.name.rpartition("/")
    either = [feature.stem, f"{sequence.replace('/', '.')}-{member}"] if slash else [feature.stem]
    return " or ".join(map(file_names.labels_file, dict.fromkeys(either)))


def _class_names(feature: Feature, inferred: Inferred, options: TableOptions) -> ClassNames:
    frozen = options.classes.class_names(feature.name, options.label_columns)
    if kind_of(feature).has_classes and frozen is None:
        count = f"{len(feature.class_names):,}" if feature.class_names else "some"
        raise UserError(
            f"{options.schema_name} says that {feature.name!r} holds ids of {count} classes; give their"
            f" names with --labels_file {labels_file_names(feature)}, which is next to the schema"
        )
    check_label_name(feature.name)
    check_labels_file(feature, options)
    found = _distinct_values(feature, inferred) - {""} if options.needs_inference else frozenset()
    declared = inferred.declared.get(feature.name)
    if frozen is None and declared is not None and declared.class_names:
        orders = sorted(declared.class_names, key=len)
        if any(name not in rest for order in orders for rest in [iter(orders[-1])] for name in order):
            check_same_classes(feature.name, declared, options, "--labels_file, a class a line in its order, or ")
        return ClassNames((*orders[-1], *sorted(found.difference(orders[-1]))), CATEGORY)
    try:
        return resolve_class_names(found, frozen, options.classes.on_new_label, options.classes.source)
    except UserError as error:
        if options.missing and any(name != name.strip(" \t") for name in found):
            raise UserError(f"{error}; or --strip removes the spaces around values") from None
        raise


def _missing_label_error(label: str, options: TableOptions) -> UserError:
    schema = options.schema
    if schema is None or has_column(schema, label):
        return UserError(f"--label {quote(label)} has no value in any row; give a column that has some")
    names = [feature.name for feature in schema]
    return UserError(
        f"--label {quote(label)}: {options.schema_name} has no such feature; {suggest_column(label, names)}"
    )


def _replace_label(columns: Columns, label: Feature, is_text: bool) -> Columns:
    features: Features = tuple(label if feature.name == label.name else feature for feature in columns.features)
    types = dict(columns.types)
    if is_text or kind_of(label).has_classes:
        types[label.name] = ColumnType("bytes", -1 if label.shape and not is_text else None, 0)
    return replace(columns, types=types, features=features)


def check_labels_file(feature: Feature, options: TableOptions) -> None:
    """Check that the frozen names cover all classes of --schema; there may be more, added later.

    With fewer, the file is not the one next to the schema, and ids would mean other classes.
    """
    if feature.name not in options.label_columns or not kind_of(feature).has_classes:
        return
    frozen = options.classes.class_names(feature.name, options.label_columns)
    if frozen is not None and len(frozen) < len(feature.class_names):
        raise UserError(
            f"{options.classes.source} has {len(frozen):,} names, but {options.schema_name} says that {feature.name!r}"
            f" holds ids of {len(feature.class_names):,} classes; give the {labels_file_names(feature)} that"
            " is next to the schema"
        )


_SELF_DESCRIBING_KINDS = ("tensor", "text", "image")  # kinds that records show themselves
_MAX_NAMED_FEATURES = 5  # features, at most


def find_label_map(records: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the path and the names by id of a label map next to records, or None.

    It is label_map.pbtxt, or the only file of a local folder whose name ends so.
    """
    root = input_root(records)
    names = ["label_map.pbtxt"]
    if storage.is_local(root) and os.path.isdir(root):
        names += [name for name in sorted(os.listdir(root)) if re.search(r"label_?map\.pbtxt$", name)][:1]
    for path, text in _read_texts(root, names):
        if found := parse_label_map(text):
            return path, found
    return None


def _read_texts(root: str, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        path = storage.join(root, name)
        try:
            yield path, storage.read_bytes(path).decode(errors="replace")
        except OSError as error:
            raise_if_store_failed(error, path)


def label_map_notices(options: TableOptions) -> list[str]:
    """Return a notice of a label map next to existing records, which gives the names of --label."""
    if (options.classes.labels is not None and not options.label_columns) or (
        found := find_label_map(options.records)
    ) is None:
        return []
    path, names = found
    if not options.label_columns:
        return [
            f"{path} names {len(names):,} ids of classes; --label, such as --label image/object/class/label, says which"
            " feature holds them"
        ]
    return [f"the names of the classes are those of {path}"] if options.classes.labels == names else []


def ignored_schema_notices(summary: InputSummary, records: str) -> list[str]:
    """Return a notice of an ignored schema next to the records, with the features that only the schema declares."""
    root = input_root(records)
    below = [name for _, name in summary.skipped.values() if posixpath.basename(name) == file_names.SCHEMA]
    return [_ignored_schema_notice(*found) for found in islice(_read_texts(root, [file_names.SCHEMA, *below]), 1)]


def _ignored_schema_notice(path: str, text: str) -> str:
    from google.protobuf import text_format

    from shardmill.metadata.schema import from_pbtxt

    message = f"{path} next to the records was ignored"
    try:
        features = from_pbtxt(text)
    except (text_format.ParseError, ValueError) as error:
        return f"{message}; it is invalid as --schema, too: {error}"
    schema_only = tuple(feature for feature in features if feature.kind not in _SELF_DESCRIBING_KINDS or feature.time)
    labels = [feature for feature in schema_only if kind_of(feature).has_classes]
    flags = f"--schema {path}"
    if labels:
        files = labels_file_names(labels[0]) if len(labels) == 1 else "their names"
        flags += f" with --label {quote(*(item.name for item in labels))} and --labels_file {files}"
    gain = f"what the records do not show: {_format_features(schema_only)}" if schema_only else "what it says of them"
    return f"{message}: {flags} keeps {gain}"


def _format_features(features: Features) -> str:
    kinds = (f"times in {feature.time}" if feature.time else feature.kind for feature in features)
    names = [f"{feature.name!r} ({kind})" for feature, kind in zip(features, kinds, strict=True)]
    return listed(names, _MAX_NAMED_FEATURES)
