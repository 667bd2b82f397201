"""How the input is to be read, decided from all of it: which folders are splits, which are classes, what columns mean."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from shardmill import naming
from shardmill.errors import UserError
from shardmill.labels import ClassNames, resolve_class_names
from transforms.columns import ColumnType
from transforms.input_summary import InputSummary
from transforms.listing import IMAGES, FileKind
from transforms.npy_file import ArrayType

# Split folders in either case; the names that they get.
SPLIT_FOLDERS = {"train": "train", "validation": "validation", "val": "validation", "test": "test"}


DEFAULT_SPLITS = (("train", Fraction(1)),)


@dataclass(frozen=True, slots=True)
class LayoutOptions:
    """What the user said about splits and labels.

    Attributes:
      source: how errors call the input.
      fractions: split names and fractions of `--splits`, None if not given.
      group_by, stratify_by: columns, or `label`.
      frozen_labels: the names of `--labels_file`.
      on_new_label: see shardmill.labels.
      split_shards: the splits that `--num_shards` names.
      kind: of the files.
    """

    source: str
    fractions: tuple[tuple[str, Fraction], ...] | None = None
    group_by: str | None = None
    stratify_by: str | None = None
    frozen_labels: tuple[str, ...] | None = None
    on_new_label: str = "fail"
    split_shards: tuple[str, ...] = ()
    kind: FileKind = IMAGES


@dataclass(frozen=True, slots=True)
class Layout:
    """The reading of an input.

    Attributes:
      splits: split names by id.
      fractions: their fractions, or None where the input itself says the split.
      split_folders: whether the first folder of a name is its split.
      class_names: the class table, or None for unlabelled files.
      columns: types of a manifest's columns, in the order of their names.
      notices: what the user must be told at the end.
      array: what all files are, where they are arrays.
      array_like: why, as it stands behind what is expected.
    """

    splits: tuple[str, ...]
    fractions: tuple[Fraction, ...] | None
    split_folders: bool
    class_names: ClassNames | None
    columns: dict[str, ColumnType] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    array: ArrayType | None = None
    array_like: str = ""

    def locate(self, name: str) -> tuple[str | None, str | None]:
        """(split, class name) of a file by its folders; None for what they do not say."""
        folders = name.split("/")[:-1]
        split = SPLIT_FOLDERS[folders.pop(0).lower()] if self.split_folders and folders else None
        return split, folders[0] if folders else None


def split_name(text: str) -> str:
    """The split that a manifest's column names: `val` and other cases of the usual three are brought to one spelling."""
    return SPLIT_FOLDERS.get(text.lower(), text)


def make_layout(summary: InputSummary, options: LayoutOptions) -> Layout:
    """Decide how to read the input that `summary` describes.

    Raises:
      UserError: nothing to convert, an unknown class, contradictory or unknown columns; each names the flag.
    """
    _check_not_empty(summary, options)
    manifest = bool(summary.labels)
    split_folders = not manifest and _has_split_folders(summary)
    from_input = split_folders or bool(summary.splits.keys() - {""})
    if from_input:
        _check_no_split_flags(options, "the input's split folders" if split_folders else "the manifest's column 'split'")
    found = _labels(summary, split_folders)
    columns = dict(sorted(summary.columns.items()))
    _check_columns(options, columns, labelled=bool(found), manifest=manifest)
    class_names = resolve_class_names(found, options.frozen_labels, options.on_new_label) if found else None
    if class_names is None and options.frozen_labels is not None:
        raise UserError(f"--labels_file was given, but {options.source} has no labels: no class folders and no column 'label'")
    notices = (*_skipped_notices(summary), *_folder_notices(summary, split_folders), *_label_notices(class_names))
    if from_input:
        splits = tuple(sorted(_split_names(summary, split_folders), key=split_order))
        _check_splits(splits, options)
        return Layout(splits, None, split_folders, class_names, columns, notices)
    fractions = options.fractions or DEFAULT_SPLITS
    splits = tuple(name for name, _ in fractions)
    _check_splits(splits, options)
    return Layout(splits, tuple(part for _, part in fractions), False, class_names, columns, notices)


def split_order(split: str) -> tuple[int, str]:
    """What sorts splits: the usual three first, in their usual order."""
    usual = ("train", "validation", "test")
    return usual.index(split) if split in usual else len(usual), split


def _check_splits(splits: Sequence[str], options: LayoutOptions) -> None:
    for split in splits:
        if not naming.is_split_name(split):
            raise UserError(f"split {split!r} in {options.source}: expected letters, digits and '_' only")
    for split in options.split_shards:
        if split not in splits:
            raise UserError(f"--num_shards {split}=…: no such split; the splits are {', '.join(splits)}")


def _check_not_empty(summary: InputSummary, options: LayoutOptions) -> None:
    if summary.records or summary.rejected:
        return
    if summary.skipped:
        hint = "they are known by their suffix, and a glob, such as 'folder/*/*', takes every file whatever it is called"
        if any(kind.lower() == ".npy file" for kind in summary.skipped):
            hint = ".npy files are arrays, which `shardmill arrays` reads"
        raise UserError(f"no {options.kind.plural} in {options.source}: {'; '.join(_skipped_notices(summary))}; {hint}")
    raise UserError(f"nothing matches {options.source}")


def _top(folder: str) -> str:
    return folder.split("/")[0]


def _has_split_folders(summary: InputSummary) -> bool:
    """All folders bear the names of splits, in either case; files in no folder do not count."""
    tops = {_top(folder) for folder in summary.folders} - {""}
    return bool(tops) and all(top.lower() in SPLIT_FOLDERS for top in tops)


def _labels(summary: InputSummary, split_folders: bool) -> set[str]:
    if summary.labels:
        return set(summary.labels) - {""}
    if split_folders:
        return {folder.split("/")[1] for folder in summary.folders if "/" in folder}
    return {_top(folder) for folder in summary.folders} - {""}


def _split_names(summary: InputSummary, split_folders: bool) -> set[str]:
    if split_folders:
        return {SPLIT_FOLDERS[_top(folder).lower()] for folder in summary.folders if folder}
    return {split_name(split) for split in summary.splits if split}


def _check_no_split_flags(options: LayoutOptions, source: str) -> None:
    given = {"--splits": options.fractions, "--group_by": options.group_by, "--stratify_by": options.stratify_by}
    for flag, value in given.items():
        if value is not None:
            raise UserError(
                f"{flag} was given, but {source} say{'s' if 'column' in source else ''} the split; drop the one or the other"
            )


def _check_columns(options: LayoutOptions, columns: dict[str, ColumnType], labelled: bool, manifest: bool) -> None:
    known = [*(["label"] if labelled else []), *columns]
    for flag, column in (("--group_by", options.group_by), ("--stratify_by", options.stratify_by)):
        if column is not None and column not in known:
            what = f"the columns are {', '.join(known)}" if known else "there are no labels and no columns"
            hint = "" if manifest else "; further columns come from a --manifest"
            raise UserError(f"{flag} {column}: no such column; {what}{hint}")


def _skipped_notices(summary: InputSummary) -> list[str]:
    return [
        f"passed over {number} {kind if number == 1 else _plural(kind)}, such as {name!r}"
        for kind, (number, name) in sorted(summary.skipped.items())
    ]


def _plural(kind: str) -> str:
    noun, without, what = kind.partition(" without")
    return f"{noun}s{without}{what}"


def _folder_notices(summary: InputSummary, split_folders: bool) -> list[str]:
    tops = {_top(folder) for folder in summary.folders} - {""}
    odd = sorted(top for top in tops if top.lower() in SPLIT_FOLDERS)
    if odd and not split_folders:
        other = min(top for top in tops if top not in odd)
        return [f"folder {odd[0]!r} was taken for a class, not a split, because of {other!r} beside it"]
    return []


def _label_notices(class_names: ClassNames | None) -> list[str]:
    names: Sequence[str] = class_names.names if class_names else ()
    if names and all(name.isdecimal() for name in names) and any(int(name) != index for index, name in enumerate(names)):
        wrong = next(name for index, name in enumerate(names) if int(name) != index)
        return [
            f"all class names are numbers, but ids follow the sorted names: class {wrong!r} has id {names.index(wrong)}; "
            "give --labels_file for another order"
        ]
    return []
