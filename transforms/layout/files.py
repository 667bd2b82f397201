"""How the input is to be read, decided from all of it: which folders are splits, which are classes, what columns
mean."""

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from fractions import Fraction

from shardmill.errors import UserError
from shardmill.metadata.labels import ClassNames, resolve_class_names
from shardmill.transforms.columns.inferred import MAX_VALUES
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.inputs.file_kind import IMAGES
from shardmill.transforms.inputs.folders import (
    CLASSES,
    FolderError,
    FolderRoles,
    folder_notices,
    guess_roles,
    split_notices,
)
from shardmill.transforms.inputs.listing import METADATA
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.layout.file_notices import (
    class_notices,
    label_list_notices,
    listed_by,
    missing_notices,
    name_notices,
    numbered_objects,
)
from shardmill.transforms.layout.file_options import LayoutOptions
from shardmill.transforms.layout.notices import folder_remedy, left_out_notices, list_notices, skipped_notices
from shardmill.transforms.layout.splits import Splits, check_split_shards, in_order, splits_by_fraction
from shardmill.transforms.options.splits import CONTENT
from shardmill.transforms.stores import storage

_NUMBER = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?")


@dataclass(frozen=True, slots=True)
class Layout:
    """The reading of an input.

    Attributes:
      splits: split names by id.
      fractions: their fractions, or None where the input itself says the split.
      folders: what the folders of a name mean.
      class_names: the class table, or None for unlabelled files.
      columns: types of a manifest's columns, in the order of their names.
      object_classes: the class table of the objects in images; None where none are annotated.
      notices: what the user must be told at the end.
      label_lists: whether a file may have any number of labels.
    """

    splits: tuple[str, ...]
    fractions: tuple[Fraction, ...] | None
    folders: FolderRoles
    class_names: ClassNames | None
    columns: dict[str, ColumnType] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    object_classes: ClassNames | None = None
    label_lists: bool = False

    def locate(self, name: str) -> tuple[str | None, str | None]:
        """(split, class name) of a file by its folders; None for what they do not say."""
        return self.folders.locate(name)


def make_layout(summary: InputSummary, options: LayoutOptions) -> Layout:
    """Decide how to read the input that `summary` describes.

    Raises:
      UserError: nothing to convert, an unknown class, contradictory or unknown columns; each names the flag.
    """
    _check_not_empty(summary, options)
    _check_not_too_many(summary, options)
    missing = missing_notices(summary, options)
    manifest = bool(summary.labels)
    folders = CLASSES if manifest else read_folders(summary, options)
    from_input = folders.split is not None or bool(summary.splits.keys() - {""})
    if from_input:
        by = "the annotations" if options.annotated and not options.in_manifest else options.splits_by
        _check_no_split_flags(options, by if manifest else "the input's split folders")
    found = _labels(summary, folders)
    if manifest and options.classes.labels is None:
        _check_classes(found, options)
    columns = dict(sorted(summary.columns.items()))
    _check_columns(options, columns, labelled=bool(found), manifest=manifest)
    class_names = (
        resolve_class_names(found, options.classes.names_of(), options.classes.on_new_label, options.classes.source)
        if found
        else None
    )
    if summary.label_lists["lists"] and options.split.stratify_by == "label":
        raise UserError(
            "--stratify_by label: a file has any number of labels, and so is of no one class whose share of each split"
            " could be kept; leave --stratify_by out, or give another column"
        )
    objects = object_classes(summary, options) if options.annotated else None
    if class_names is None and objects is None and options.classes.labels is not None:
        raise UserError(
            f"{options.classes.given}, but {options.source} has no labels: no class folders and no column 'label'"
        )
    notices = (
        *options.told,
        *missing,
        *sorted(summary.notices),
        *(["there is no object in any image"] if options.annotated and not summary.objects else []),
        *numbered_objects(objects, options),
        *skipped_notices(summary),
        *left_out_notices(summary.left_out),
        *folder_notices(summary.folders, folders),
        *class_notices(class_names),
        *(list_notices("label", class_names.names) if class_names is not None else ()),
        *label_list_notices(summary, options),
        *name_notices(summary, options),
    )
    splits = _splits_of_input(summary, folders, options) if from_input else splits_by_fraction(options.split.splits)
    check_split_shards(splits.names, options.split_shards)
    notices = (*notices, *splits.notices)
    lists = bool(summary.label_lists["lists"]) and class_names is not None
    return Layout(splits.names, splits.fractions, folders, class_names, columns, notices, objects, lists)


def object_classes(summary: InputSummary, options: LayoutOptions) -> ClassNames:
    """The class table of the objects in images: the one that annotations bring with them, or their names, sorted.

    Raises:
      UserError: annotations have different tables, or there is no class at all.
    """
    tables = sorted(summary.categories.items(), key=lambda item: item[1][1])
    frozen, on_new = options.classes.names_of(), options.classes.on_new_label
    if frozen is None and len(tables) > 1:
        (one, (_, first)), (other, (_, second)) = tables[:2]
        odd = sorted(set(one) ^ set(other))
        how = f"{odd[0]!r} is only in one of them" if odd else "their order is another"
        raise UserError(
            f"the classes of {first} and of {second} differ: {how}; give --labels_file, which says their ids"
        )
    if frozen is None and tables:
        return ClassNames(tables[0][0], tables[0][1][1])
    found = {*summary.objects, *(name for names, _ in tables for name in names)}
    if not found and frozen is None:
        raise UserError(f"{options.source}: there is no object in any image, and so no class; is it the right file?")
    if frozen is None and options.numbered:
        return ClassNames(tuple(map(str, range(max(map(int, found)) + 1))), options.source)
    return resolve_class_names(found, frozen, on_new, options.classes.source)


def _splits_of_input(summary: InputSummary, folders: FolderRoles, options: LayoutOptions) -> Splits:
    spelled = _split_names(summary, folders)
    where = listed_by(options) if options.annotated or summary.labels else "their folders"
    return Splits(in_order(spelled, f"in {options.source}"), None, tuple(split_notices(spelled, where)))


def _check_not_empty(summary: InputSummary, options: LayoutOptions) -> None:
    if summary.records or summary.rejected:
        return
    if summary.skipped:
        hint = (
            "they are known by their suffix, and a glob, such as 'folder/*/*', takes every file whatever it is called"
        )
        if any(kind.lower() == ".npy file" for kind in summary.skipped):
            hint = ".npy files are arrays, which `shardmill arrays` reads"
        raise UserError(f"no {options.kind.plural} in {options.source}: {'; '.join(skipped_notices(summary))}; {hint}")
    raise UserError(f"nothing matches {options.source}")


def read_folders(summary: InputSummary, options: LayoutOptions) -> FolderRoles:
    """What the folders of the input mean.

    Raises:
      UserError: it cannot be known, or `--folders` names levels that there are not; what was seen, and which flag
        helps.
    """
    if options.folders is not None:
        _check_levels(summary, options, options.folders)
        return options.folders
    if METADATA in summary.skipped and options.kind.listed:
        raise UserError(_metadata_sentence(*summary.skipped[METADATA], options))
    try:
        return guess_roles(summary.folders)
    except FolderError as error:
        masks = _masks_folder(summary) if options.kind == IMAGES else ""
        raise UserError(
            f"{options.source}: {error}; {folder_remedy(options.kind.plural, options.kind.listed, masks)}"
        ) from None


def _metadata_sentence(number: int, name: str, options: LayoutOptions) -> str:
    path, what = storage.join(options.root, name), f"what the {options.kind.plural} are"
    by_folders = "or --folders label (split/label, any), to go by the folders and leave"
    if number == 1:
        return f"{options.source} holds {name!r}, which says {what}: give --manifest {path}; {by_folders} it out"
    return (
        f"{options.source} holds {number:,} files such as {name!r}, which say {what}: give --manifest {path}, if one of"
        f" them says it all, or one for each split, as in --manifest train={path}; {by_folders} them out"
    )


def _masks_folder(summary: InputSummary) -> str:
    """The folder that masks lie in by its name; "" if there is none."""
    tops = sorted({parts[0] for parts in _parts(summary)})
    return next((top for top in tops if top.lower() in ("mask", "masks", "segmentationclass")), "")


def _check_levels(summary: InputSummary, options: LayoutOptions, roles: FolderRoles) -> None:
    deepest = max((folder.count("/") + 1 for folder in summary.folders if folder), default=0)
    if (deepest < roles.depth and roles.label is not None) or (roles.split is not None and deepest <= roles.split):
        has = f"{options.kind.plural} lie in {deepest or 'no'} folder{'' if deepest == 1 else 's'}"
        raise UserError(f"--folders {roles} names {roles.depth} levels of folders, but below {options.source} {has}")


def _check_not_too_many(summary: InputSummary, options: LayoutOptions) -> None:
    for what, found in (("label", summary.labels), ("split", summary.splits)):
        if len(found.keys() - {""}) > MAX_VALUES:
            raise UserError(f"{options.source} has more than {MAX_VALUES:,} different {what}s; is it a {what}?")


def _check_classes(labels: Collection[str], options: LayoutOptions) -> None:
    """Check that the labels of a manifest are classes, and not numbers to predict; raises UserError."""
    if not all(map(_NUMBER.fullmatch, labels)):
        return
    odd = sorted(label for label in labels if not float(label).is_integer())
    if odd:
        raise UserError(
            f"{options.source}: the labels are numbers with fractions, such as {odd[0]}, and a label is a class;"
            " numbers to predict are stored as they are in a column of another name than --label_column, 'label' by"
            " default; --labels_file says that each is a class"
        )


def _labels(summary: InputSummary, folders: FolderRoles) -> set[str]:
    if summary.labels:
        return set(summary.labels) - {""}
    if folders.label is None:
        return set()
    return {parts[folders.label] for parts in _parts(summary) if len(parts) > folders.label} - {""}


def _split_names(summary: InputSummary, folders: FolderRoles) -> set[str]:
    """The splits as the input spells them."""
    if folders.split is None:
        return {split for split in summary.splits if split}
    return {parts[folders.split] for parts in _parts(summary) if len(parts) > folders.split}


def _parts(summary: InputSummary) -> list[list[str]]:
    return [folder.split("/") for folder in summary.folders if folder]


def _check_no_split_flags(options: LayoutOptions, source: str) -> None:
    if options.split.splits is not None:
        raise UserError(
            f"--splits was given, but {source} say{'' if source.endswith('s') else 's'} the split; drop the one or the"
            " other"
        )


def _check_columns(options: LayoutOptions, columns: dict[str, ColumnType], labelled: bool, manifest: bool) -> None:
    known = [*(["label"] if labelled else []), *columns]
    for flag, column in (("--group_by", options.split.group_by), ("--stratify_by", options.split.stratify_by)):
        if column is not None and column not in known and (flag, column) != ("--group_by", CONTENT):
            what = f"the columns are {', '.join(known)}" if known else "there are no labels and no columns"
            hint = "" if manifest else "; further columns come from a --manifest"
            raise UserError(f"{flag} {column}: no such column; {what}{hint}")
