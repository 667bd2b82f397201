"""What the folders of an input mean: which level is the split, which the class; and when that cannot be known."""

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from shardmill.metadata.naming import ShardName

# Folders that are splits, in any case, and the split that each is: the words of Hugging Face's datasets, data_files.py.
SPLIT_FOLDERS = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
    "testing": "test",
    "eval": "test",
}
# Folders that say what is in them, not of which class it is: those of VOC, YOLO, COCO and of segmentation.
_NO_CLASSES = frozenset(
    (
        *("image", "images", "img", "imgs", "jpegimages", "mask", "masks"),
        *("label", "labels", "annotation", "annotations"),
        *("segmentationclass", "segmentationobject"),
    )
)
_FIRST_WORD = re.compile(r"([A-Za-z]+)[-._ 0-9]")
_GUESSED_LEVELS = 2  # of folders that a guess looks at, below those of splits
_QUOTED = 5  # names that a sentence has


class FolderError(ValueError):
    """Folders whose meaning cannot be known; the message says what was seen."""


@dataclass(frozen=True, slots=True)
class FolderRoles:
    """Which folder of a name, from 0, is the split and which the class; None where none is."""

    split: int | None = None
    label: int | None = 0

    @property
    def depth(self) -> int:
        """How many folders have a meaning."""
        return max(-1 if level is None else level for level in (self.split, self.label)) + 1

    def locate(self, name: str) -> tuple[str | None, str | None]:
        """(split, class) of the file called `name`; None for what its folders do not say."""
        folders = name.split("/")[:-1]
        split, label = (
            folders[level] if level is not None and level < len(folders) else None for level in (self.split, self.label)
        )
        return None if split is None else split_name(split), label

    def __str__(self) -> str:
        levels = ["any"] * max(self.depth, 1)
        for level, word in ((self.split, "split"), (self.label, "label")):
            if level is not None:
                levels[level] = word
        return "/".join(levels)


CLASSES = FolderRoles(None, 0)
SPLITS = FolderRoles(0, None)
SPLITS_OF_CLASSES = FolderRoles(0, 1)


def parse_roles(text: str) -> FolderRoles:
    """The roles that `--folders split/label` names, a word for each level: split, label or any.

    Raises:
      ValueError: another word, or one of split and label twice.
    """
    words = text.split("/")
    for word in words:
        if word not in ("split", "label", "any"):
            raise ValueError(
                f"{text!r} is not a word for each level of folders: split, label or any, such as split/label"
            )
    for word in ("split", "label"):
        if words.count(word) > 1:
            raise ValueError(f"{text!r} has {word!r} twice; one level of folders is the {word}")
    split, label = (words.index(word) if word in words else None for word in ("split", "label"))
    return FolderRoles(split, label)


def split_name(text: str) -> str:
    """The split that a folder or a manifest's column names: usual words for the usual three are brought to one
    spelling."""
    return SPLIT_FOLDERS.get(text.lower(), text)


def split_of_file(name: str) -> str | None:
    """The split that a file of records bears in its name, as `train-00000-of-00002.parquet` and `test.csv` do: where
    Hugging Face's datasets look for it, too, and as shards that TFDS names do; None where it bears none."""
    base = name.rpartition("/")[2]
    if (shard := ShardName.parse(base)) is not None:
        return shard.split
    found = _FIRST_WORD.match(base)
    return None if found is None else SPLIT_FOLDERS.get(found[1].lower())


def folder_key(name: str, roles: FolderRoles | None = None) -> str:
    """The folders of a file's name that may have a meaning; without `roles`, those that a guess looks at."""
    folders = name.split("/")[:-1]
    if roles is not None:
        return "/".join(folders[: roles.depth])
    split = bool(folders) and folders[0].lower() in SPLIT_FOLDERS
    return "/".join(folders[: _GUESSED_LEVELS + split])


def are_splits(folders: Iterable[str]) -> bool:
    """Whether all top folders bear the names of splits; files in no folder do not count."""
    tops = _tops(folders)
    return bool(tops) and all(top.lower() in SPLIT_FOLDERS for top in tops)


def guess_roles(folders: Collection[str]) -> FolderRoles:
    """What the levels of `folders`, see folder_key, mean.

    Raises:
      FolderError: they look like something else than classes, or splits of classes.
    """
    check_splits(folders)
    if are_splits(folders):
        _check_classes([folder.split("/")[1:] for folder in folders if "/" in folder], "in the split folders, ")
        return SPLITS_OF_CLASSES
    _check_classes([folder.split("/") for folder in folders if folder and not folder.startswith("/")], "")
    return CLASSES


def check_splits(folders: Collection[str]) -> None:
    """Raise a FolderError if some top folders are splits by their names and others are not; one may be a class like the
    others."""
    tops = _tops(folders)
    splits = sorted(top for top in tops if top.lower() in SPLIT_FOLDERS)
    others = sorted(tops - set(splits))
    if splits and others and (len(splits) > 1 or any(folder.startswith(f"{splits[0]}/") for folder in folders)):
        raise FolderError(
            f"{quoted(splits)} would be splits by their names, but {quoted(others)} beside them would not"
        )


def _tops(folders: Iterable[str]) -> set[str]:
    return {folder.split("/")[0] for folder in folders} - {""}


def _check_classes(below: Sequence[Sequence[str]], where: str) -> None:
    """Raise a FolderError if folders are no classes; `below` are the parts of each, the class first."""
    classes = sorted({parts[0] for parts in below})
    if odd := [name for name in classes if name.lower() in _NO_CLASSES]:
        raise FolderError(f"{where}{quoted(odd)} would be a class, by which name folders say what is in them")
    inner = {name: {parts[1] for parts in below if parts[0] == name and len(parts) > 1} for name in classes}
    shared = sorted(set.intersection(*inner.values())) if inner else []
    if len(classes) > 1 and shared:
        raise FolderError(
            f"{where}the same sub-folders repeat: {quoted(shared)} in every one of {quoted(classes)}; either may be the"
            " classes"
        )
    if len(classes) == 1 and len(inner[classes[0]]) > 1 and [classes[0]] not in [list(parts) for parts in below]:
        raise FolderError(
            f"{where}{quoted(classes)} would be the only class, although {quoted(sorted(inner[classes[0]]))} lie in it"
        )


def folder_notices(folders: Collection[str], roles: FolderRoles) -> list[str]:
    """What must be said of a guess: a split's name taken for a class, splits stored by another name, levels without a
    meaning."""
    said = []
    tops = _tops(folders)
    odd = sorted(top for top in tops if top.lower() in SPLIT_FOLDERS)
    if odd and roles.split is None:
        what = "a class, not a split" if roles.label == 0 else "no split"
        beside = min(tops - set(odd), default=None)
        said.append(
            f"folder {odd[0]!r} was taken for {what}, because of {'a file' if beside is None else repr(beside)}"
            " beside it"
        )
    deeper = sorted(folder for folder in folders if folder.count("/") >= roles.depth)
    if deeper and roles.label is not None:
        label = deeper[0].split("/")[roles.label]
        said.append(
            f"folders below those of classes say nothing: what lies in {deeper[0]!r} is of class {label!r}"
            f"{f', and so in {len(deeper) - 1:,} more' if len(deeper) > 1 else ''}; --folders says otherwise"
        )
    return said


def split_notices(spellings: Iterable[str], what: str) -> list[str]:
    """Which splits are stored by another name than `what` in the input gives them."""
    renamed = sorted(name for name in spellings if split_name(name) != name)
    if not renamed:
        return []
    return [
        f"splits bear other names than {what}: " + ", ".join(f"{name!r} is {split_name(name)!r}" for name in renamed)
    ]


def quoted(names: Sequence[str]) -> str:
    """The first of some names, and how many more there are."""
    shown = ", ".join(repr(name) for name in names[:_QUOTED])
    return shown + (f" and {len(names) - _QUOTED:,} more" if len(names) > _QUOTED else "")
