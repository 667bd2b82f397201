"""Labels, classes and columns of file inputs."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from shardmill.addons import registry
from shardmill.errors import UserError
from shardmill.metadata.labels import ClassNames
from shardmill.text import plural
from shardmill.transforms.columns.types import MAX_VALUES, ColumnType
from shardmill.transforms.formats.conventions import COMMANDS, describe_foreign_format
from shardmill.transforms.inputs import folders as folder_roles
from shardmill.transforms.inputs.listing import NO_SUFFIX, find_names, is_glob, is_unknown_file, list_input
from shardmill.transforms.inputs.manifest_files import ObjectsColumn
from shardmill.transforms.inputs.summary import MOST_SAMPLED, InputSummary
from shardmill.transforms.inputs.unused_annotations import describe_companions, describe_unused_files
from shardmill.transforms.layout import splits as layout_splits
from shardmill.transforms.layout.options import (
    FileLayoutOptions,
    file_notices,
    lister_name,
    missing_notices,
    resolve_classes,
    skipped_notices,
)
from shardmill.transforms.options.image_options import LabelOptions
from shardmill.transforms.options.job_options import CONTENT, FOLDER, reject_flag
from shardmill.transforms.stores import storage

_DICOM_HEAD = 132  # bytes, of which the last four are DICM: dicom.nema.org, part 10, 7.1
_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a file input: its splits, classes and columns."""

    splits: tuple[str, ...]  # split names by id
    fractions: tuple[Fraction, ...] | None  # of the splits; None if the input gives the splits
    folders: folder_roles.FolderRoles  # roles of the folders in names
    class_names: ClassNames | None  # class table; None for unlabelled files
    columns: dict[str, ColumnType] = field(default_factory=dict)  # types of a manifest's columns, ordered by name
    notices: tuple[str, ...] = ()  # messages for the end of the job
    object_classes: ClassNames | None = None  # class table of objects in images; None without annotations
    label_lists: bool = False  # True if a file may have any number of labels


def make_layout(summary: InputSummary, options: FileLayoutOptions) -> Layout:
    """Decide the layout of the input that `summary` describes."""
    _check_not_empty(summary, options)
    _check_not_too_many(summary, options)
    missing = missing_notices(summary, options)
    if options.input and not options.is_annotated and not is_glob(options.input):
        _check_other_files(summary, options)
    manifest = bool(summary.labels)
    deepest = max(map(len, folder_roles.parse_paths(summary.folders)), default=0)
    folders = (
        folder_roles.NO_ROLES
        if manifest
        else layout_splits.resolve_folders(summary.folders, options, options.kind.plural, deepest)
    )
    has_input_splits = folders.split is not None or bool(summary.splits.keys() - {""})
    if has_input_splits:
        is_listed = manifest or bool(summary.splits)
        source = options.split_source if is_listed else "the input's split folders"
        layout_splits.check_no_split_flags(options.split, source)
    labels = _names(summary.labels, summary, folders.label)
    if manifest and options.classes.labels is None:
        _check_classes(labels, options)
    repeated = _check_rows_of_files(summary, options)
    columns = {name: column.settle() for name, column in sorted(summary.columns.items())}
    if summary.records:  # otherwise the reasons of the rejects explain more than missing columns
        _check_columns(options, columns, labelled=bool(labels), manifest=manifest)
    class_names = resolve_classes(labels, options.classes) if labels else None
    if summary.label_lists["lists"] and options.split.stratify_by == "label":
        raise UserError(
            "--stratify_by label: files have any number of labels, so no class can have the same share of each"
            " split; leave --stratify_by out, or give another column"
        )
    objects = None
    if options.is_annotated and (summary.objects or summary.class_lists or not labels):
        tables, column = summary.class_lists, options.objects_column
        if not summary.objects and not tables and summary.reasons:
            ((reason, _),) = summary.reasons.most_common(1)
            are = plural(summary.rejected, "record is rejected", "records are rejected")
            raise UserError(f"{options.source}: no image has an object that can be read; {are}, such as for: {reason}")
        objects = resolve_object_classes(summary.objects, tables, options.classes, options.source, column)
    if class_names is None and objects is None and options.classes.labels is not None:
        raise UserError(
            f"{options.classes.error_prefix}, but {options.source} has no labels: no class folders and no column"
            " 'label'"
        )
    notices = (
        *options.input_notices,
        *missing,
        *repeated,
        *_unnamed_notices(summary, options),
        *_box_notices(columns, options),
        *file_notices(summary, options, folders, class_names, objects),
    )
    if has_input_splits:
        spelled = _names(summary.splits if folders.split is None else (), summary, folders.split)
        is_by_name = bool(options.label_pattern or options.split_lists)
        is_listed = options.is_annotated or (bool(summary.labels) and not is_by_name)
        where = lister_name(options) if is_listed else "their folders"
        names = layout_splits.order_splits(spelled, f"in {options.source}")
        splits = layout_splits.Splits(names, None, tuple(folder_roles.split_notices(spelled, where)))
    else:
        splits = layout_splits.splits_by_fraction(options.split.splits)
    layout_splits.check_split_shards(splits.names, options.split_shards)
    notices = (*notices, *splits.notices)
    lists = bool(summary.label_lists["lists"]) and class_names is not None
    return Layout(splits.names, splits.fractions, folders, class_names, columns, notices, objects, lists)


_EDGES = re.compile(r"x_?min|x1|bbox_?x?|left", re.IGNORECASE)  # columns of tables with a row for each box


def _check_rows_of_files(summary: InputSummary, options: FileLayoutOptions) -> list[str]:
    """Return a notice if files have several rows; raise a UserError if those have boxes or --on_duplicate_key fails."""
    number, name = summary.repeated.get("rows", (0, ""))
    if not number:
        return []
    several = f"{plural(number, 'row has', 'rows have')} a file that an earlier row has, such as {name!r}"
    edges = [column for column in summary.columns if _EDGES.fullmatch(column)]
    if options.kind == folder_roles.IMAGES and edges and (flag := registry.find_hook("formats", "BOXES_FLAG")):
        raise UserError(
            f"{options.source}: {several}, with a box in {edges[0]!r}; give {flag} {options.source.partition(' ')[2]}"
            f" in place of --manifest; to make an example of each row, call {edges[0]!r} otherwise"
        )
    limit = reject_flag(number + summary.rejected, summary.total_records)
    remedy = f"--on_duplicate_key reject{limit} keeps the first row of each file"
    if options.on_duplicate_key == "fail":
        raise UserError(f"{options.source}: {several}; expected one for each file; {remedy}, allow keeps all")
    return [f"{several}, and each is an example; {remedy}, fail stops the job"]


_BOX = re.compile(r"(?:bbox_?)?(?:[xy]_?(?:min|max)|[xy][12]|left|top|right|bottom)", re.IGNORECASE)


def _unnamed_notices(summary: InputSummary, options: FileLayoutOptions) -> list[str]:
    if not options.imagefolder or "," in options.file_column or summary.records >= MOST_SAMPLED:
        return []
    found = find_names(list_input(options.imagefolder, options.kind))
    unnamed = sorted(set(found).difference(summary.sample))
    files = plural(len(unnamed), "file that its metadata does not name is", "files that its metadata does not name are")
    return [f"of {options.source}, {files} left out, such as {unnamed[0]!r}"] if unnamed else []


def _box_notices(columns: Mapping[str, ColumnType], options: FileLayoutOptions) -> list[str]:
    edges = [name for name, column in columns.items() if _BOX.fullmatch(name) and column.dtype != "bytes"]
    path, flag = options.source.removeprefix("--manifest "), registry.find_hook("formats", "BOXES_FLAG")
    if flag is None or options.kind != folder_roles.IMAGES or len(edges) != 4 or path == options.source:
        return []
    return [
        f"columns {', '.join(edges)} look like the edges of a box, and each is stored as a number;"
        f" {flag} {path} in place of --manifest makes boxes of them"
    ]


def resolve_object_classes(
    found: Collection[str],
    tables: Mapping[tuple[str, ...], tuple[int, str]],
    options: LabelOptions,
    source: str,
    column: ObjectsColumn | None,
) -> ClassNames:
    """Return the class table of objects: the one in the annotations, or the sorted names of the classes found.

    Raise a UserError if annotation files have different tables, or there is no class.
    """
    ordered = sorted(tables.items(), key=lambda item: item[1][1])
    if options.class_names() is not None:
        return resolve_classes({*found, *(name for names in tables for name in names)}, options)
    if len(ordered) > 1:
        (one, (_, first)), (other, (_, second)) = ordered[:2]
        differing = sorted(set(one) ^ set(other))
        difference = f"{differing[0]!r} is only in one of them" if differing else "their order is another"
        raise UserError(
            f"the classes of {first} and of {second} differ: {difference}; give --labels_file, which says their ids"
        )
    if ordered:
        return ClassNames(ordered[0][0], ordered[0][1][1])
    if not found:
        raise UserError(f"{source}: there is no object in any image, and so no class; give a file that has objects")
    if column is not None and column.has_unnamed_ids:
        return ClassNames(tuple(map(str, range(max(map(int, found)) + 1))), source)
    return resolve_classes(found, options)


def _check_not_empty(summary: InputSummary, options: FileLayoutOptions) -> None:
    if summary.records or summary.rejected:
        return
    if summary.skipped:
        hint = (
            "they are known by their suffix, and a glob, such as 'folder/*/*', takes every file whatever it is called"
        )
        unknown = {kind: name for kind, (_, name) in sorted(summary.skipped.items()) if is_unknown_file(kind)}
        foreign = [_describe_foreign(options.root, kind, name) for kind, name in unknown.items()]
        reasons = [*skipped_notices(summary), *([] if options.kind.exclude or (foreign and all(foreign)) else [hint])]
        reasons += [what for what in foreign if not any(what in reason for reason in reasons)]
        raise UserError(f"no {options.kind.plural} in {options.source}: {'; '.join(reasons)}")
    raise UserError(f"nothing matches {options.source}")


def _describe_foreign(root: str, kind: str, name: str) -> str:
    head = b""
    if kind == NO_SUFFIX:
        with storage.open_read(storage.join(root, name)) as file:
            head = bytes(file.read(_DICOM_HEAD))
    suffix = ".dcm" if head.endswith(b"DICM") else ".fits" if head.startswith(b"SIMPLE  =") else ""
    command = COMMANDS.get(name.rpartition(".")[2].lower())
    described = describe_foreign_format(name + suffix).removeprefix("; ")
    return described or (f"`shardmill {command}` reads {kind}s" if command else "")


def _check_other_files(summary: InputSummary, options: FileLayoutOptions) -> None:
    """Raise a UserError if files in a folder are no examples and no flag names them, or belong to other images."""
    unused = {kind: found for kind, found in summary.skipped.items() if is_unknown_file(kind)}
    problem = describe_unused_files(options.root, options.kind, unused, summary.sample) if unused else None
    if problem is None and not options.has_companions:
        problem = describe_companions(options.root, summary.sample, options.folders, options.kind)
    if problem is not None:
        raise UserError(f"{options.source}: {problem}")


def _check_not_too_many(summary: InputSummary, options: FileLayoutOptions) -> None:
    for noun, counts in (("label", summary.labels), ("split", summary.splits)):
        if len(counts.keys() - {""}) > MAX_VALUES:
            raise UserError(
                f"{options.source} has more than {MAX_VALUES:,} different {noun}s; name another column or"
                " folder level for it"
            )


def _check_classes(labels: Collection[str], options: FileLayoutOptions) -> None:
    """Raise a UserError if labels are fractional numbers, which are values to predict, not classes."""
    if not all(map(_NUMBER.fullmatch, labels)):
        return
    odd = sorted(label for label in labels if not float(label).is_integer())
    if odd:
        raise UserError(
            f"{options.source}: the labels are numbers with fractions, such as {odd[0]}, and a label is a class;"
            " numbers to predict are stored as they are in a column of another name than --label_column, 'label' by"
            " default; --labels_file says that each is a class"
        )


def _names(listed: Collection[str], summary: InputSummary, level: int | None) -> set[str]:
    """Return the listed labels or splits, or, without these, the names of the folders at a level."""
    if level is not None and not listed:
        listed = folder_roles.names_at(folder_roles.parse_paths(summary.folders), level)
    return set(listed) - {""}


def _check_columns(options: FileLayoutOptions, columns: dict[str, ColumnType], labelled: bool, manifest: bool) -> None:
    known = [*(["label"] if labelled else []), *columns]
    for flag, column in (("--group_by", options.split.group_by), ("--stratify_by", options.split.stratify_by)):
        is_of_file = flag == "--group_by" and (column in (CONTENT, FOLDER) or folder_roles.is_name_pattern(column))
        if column is not None and column not in known and not is_of_file:
            what = f"the columns are {', '.join(known)}" if known else "there are no labels and no columns"
            hint = "" if manifest else "; further columns come from a --manifest"
            raise UserError(f"{flag} {column}: no such column; {what}{hint}")
