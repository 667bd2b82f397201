"""How lines of text are to be read: their label is their file's folder, where every file lies in one."""

from shardmill.errors import UserError
from shardmill.features.feature import Feature
from shardmill.metadata.labels import resolve_class_names
from shardmill.transforms.columns.inferred import Inferred
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.inputs.folders import SPLITS_OF_CLASSES, FolderError, FolderRoles, folder_notices, guess_roles
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.layout.column_names import check_columns
from shardmill.transforms.layout.notices import folder_remedy, skipped_notices
from shardmill.transforms.layout.splits import (
    BESIDE_SPLITS,
    check_split_shards,
    name_notices,
    splits_by_fraction,
    splits_of_folders,
)
from shardmill.transforms.layout.table_layout import TableLayout
from shardmill.transforms.layout.table_options import TableOptions


def make_line_layout(
    summary: InputSummary, inferred: Inferred, options: TableOptions, line_numbers: bool
) -> TableLayout:
    """Decide how to read lines of text: their label is their file's folder, where every file lies in one.

    Raises:
      UserError: a new class, or no such split.
    """
    notices = skipped_notices(summary)
    roles = _line_roles(summary, options)
    splits = (
        splits_by_fraction(options.split.splits) if roles.split is None else splits_of_folders(summary.folders, roles)
    )
    check_split_shards(splits.names, options.split_shards)
    notices += splits.notices
    folders = [folder.split("/") if folder else [] for folder in summary.folders]
    depth = roles.label
    classes = {parts[depth] for parts in folders if depth is not None and len(parts) > depth}
    labelled = depth is not None and bool(classes) and all(len(parts) > depth for parts in folders)
    notices += folder_notices(summary.folders, roles)
    if roles.split is None and options.split.splits is None:
        notices += name_notices(summary)
    if classes and not labelled:
        notices.append(f"no line has a label: some files lie in class folders, such as {min(classes)!r}, others do not")
    class_names = (
        resolve_class_names(classes, options.classes.names_of(), options.classes.on_new_label, options.classes.source)
        if labelled
        else None
    )
    if class_names is None and options.classes.labels is not None:
        raise UserError(f"{options.classes.given}, but not every file of {options.source} lies in a class folder")
    features = [Feature(name, "bytes", "text") for name in options.texts]
    if class_names is not None:
        features.append(Feature("label", "int64", "class_label", class_names=class_names.names))
    types = {name: ColumnType("bytes", None, 0) for name in options.texts}
    if line_numbers:
        features += [
            Feature("filename", "bytes", "text", role="source"),
            Feature("line_number", "int64", role="source"),
        ]
        types["line_number"] = ColumnType("int64", None, 0)
    check_columns([feature.name for feature in features], options)
    names = {} if class_names is None else {"label": class_names}
    return TableLayout(
        types,
        tuple(features),
        tuple(names),
        names,
        splits.names,
        splits.fractions,
        tuple(notices),
        tuple(names),
        folders=roles,
    )


def _line_roles(summary: InputSummary, options: TableOptions) -> FolderRoles:
    """What the folders of text files mean.

    Raises:
      UserError: it cannot be known; the splits are said twice; or --folders names levels that some file has not.
    """
    roles = options.folders
    if roles is None:
        try:
            roles = guess_roles(summary.folders)
        except FolderError as error:
            raise UserError(f"{options.source}: {error}; {folder_remedy(options.plural)}") from None
        if roles == SPLITS_OF_CLASSES and "" in summary.folders:
            raise UserError(BESIDE_SPLITS.format(options.source))
    else:
        levels = [folder.count("/") + 1 if folder else 0 for folder in summary.folders]
        if levels and min(levels) < roles.depth and str(roles) != "any":
            raise UserError(
                f"--folders {roles} names {roles.depth} levels of folders, but files below {options.source} lie in"
                f" {min(levels)}"
            )
    if roles.split is not None and options.split.splits is not None:
        raise UserError("--splits was given, but the input's split folders say the split; drop the one or the other")
    return roles
