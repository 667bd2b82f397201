"""Kinds of input files by suffix, and folders of the input as splits and classes."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from shardmill.errors import UserError
from shardmill.metadata.file_names import ShardName
from shardmill.text import listed, plural
from shardmill.transforms.formats.conventions import IMAGE_SUFFIXES

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
    # of TFX's ExampleGen
    "split-train": "train",
    "split-validation": "validation",
    "split-val": "validation",
    "split-test": "test",
    "split-eval": "test",
}
# Folders that say what is in them, not of which class it is: those of VOC, YOLO, COCO and of segmentation.
_NO_CLASSES = frozenset(
    (
        *("image", "images", "img", "imgs", "jpegimages", "mask", "masks"),
        *("label", "labels", "annotation", "annotations"),
        *("segmentationclass", "segmentationobject"),
        *("bbox", "bboxes", "gt", "groundtruth", "ground_truth", "hr", "lr", "semantic", "semantic_rgb", "instance"),
    )
)
# Further words of names that say nothing of a class if all words of a name are among these and those above: a folder
# `obj_train_data`, `images_prepped_train` or `train2017`, but not `real_images` or `test_tube`
_FILLERS = frozenset(
    ("obj", "object", "objects", "data", "dataset", "set", "prepped", "color", "colour", "raw", "jpg", "png")
)
_IMAGE_WORD = re.compile(r"ima?ge?s?(?![a-z])", re.IGNORECASE)
_FIRST_WORD = re.compile(r"([A-Za-z]+)[-._ 0-9]")
_LAST_WORD = re.compile(r"[^.]*[-_ ]([A-Za-z]+)\.[^.]")  # of what is before the first dot, such as coco_val.record
_NOISE = "_background_noise_"
_GUESSED_LEVELS = 2  # of folders that a guess looks at, below those of splits
_QUOTED = 5  # names that a sentence has


class FolderError(ValueError):
    """Folders whose roles are ambiguous; the message names them."""

    def __init__(self, message: str, no_classes: Sequence[str] = ()) -> None:
        """Take the message, and the folders that may be left out because others remain."""
        super().__init__(message)
        self.no_classes = no_classes


@dataclass(frozen=True, slots=True)
class FolderRoles:
    """The folder levels of a file's name, counted from 0, that are the split, the class and the group; None for none.

    Files of one group, such as the frames of a video, stay in one split.
    """

    split: int | None = None
    label: int | None = 0
    group: int | None = None

    @property
    def depth(self) -> int:
        """Number of folder levels that carry a meaning."""
        return max(-1 if level is None else level for level in (self.split, self.label, self.group)) + 1

    def locate(self, name: str) -> tuple[str | None, str | None]:
        """Return (split, class) of the file called `name`; None for each that its folders do not give."""
        parts = name.split("/")
        depth = len(parts) - 1
        split = parts[self.split] if self.split is not None and self.split < depth else None
        label = parts[self.label] if self.label is not None and self.label < depth else None
        return None if split is None else normalize_split(split), label

    def find_group(self, name: str) -> str:
        """Return the folder whose files stay in one split, or the name of a file that is in no such folder.

        Without a level of groups it is the file's own folder, if that is neither its split nor its class.
        """
        folders = name.split("/")[:-1]
        depth = len(folders) if self.group is None else self.group + 1
        is_in_group = replace(self, group=None).depth < depth <= len(folders)
        return "/".join(folders[:depth]) if is_in_group else name

    def __str__(self) -> str:
        levels = ["any"] * max(self.depth, 1)
        for level, word in zip((self.split, self.label, self.group), FOLDER_WORDS, strict=True):
            if level is not None:
                levels[level] = word
        return "/".join(levels)


FOLDER_WORDS = ("split", "label", "group")  # of --folders, by level in FolderRoles
NO_ROLES = FolderRoles(None, None)
CLASSES = FolderRoles(None, 0)
SPLITS = FolderRoles(0, None)
SPLITS_OF_CLASSES = FolderRoles(0, 1)


def parse_roles(text: str) -> FolderRoles:
    """Parse --folders, such as split/label: a word for each level, or any; raise a ValueError otherwise."""
    words = text.split("/")
    for word in words:
        if word not in (*FOLDER_WORDS, "any"):
            raise ValueError(
                f"{text!r} is not a word for each level of folders: split, label, group or any, such as split/label"
            )
    for word in FOLDER_WORDS:
        if words.count(word) > 1:
            raise ValueError(f"{text!r} has {word!r} twice; one level of folders is the {word}")
    if "group" in words and "split" in words:
        raise ValueError(f"{text!r} has a split and a group; a group is what --splits keeps in one split")
    if "group" in words and words[-1] != "group":
        raise ValueError(f"{text!r} has a level below the group; expected the group last")
    return FolderRoles(*(words.index(word) if word in words else None for word in FOLDER_WORDS))


def normalize_split(text: str) -> str:
    """Return the split that a folder or a manifest's value names, with usual spellings such as "val" unified."""
    return SPLIT_FOLDERS.get(text.lower(), text)


def split_of_file(name: str) -> str | None:
    """Return the split in a record file's name, by the rules of Hugging Face's datasets and of TFDS, or None."""
    base = name.rpartition("/")[2]
    if (shard := ShardName.parse(base)) is not None:
        return shard.split
    words = (found[1].lower() for pattern in (_FIRST_WORD, _LAST_WORD) if (found := pattern.match(base)))
    return next((SPLIT_FOLDERS[word] for word in words if word in SPLIT_FOLDERS), None)


def folder_key(name: str, roles: FolderRoles | None = None) -> str:
    """Return the leading folders of a file's name that may be its split or class, given their roles if known.

    With roles, it is one folder more than those with a meaning, for a notice about it.
    """
    folders = name.split("/")[:-1]
    if roles is not None:
        return "/".join(folders[: roles.depth + 1])
    split = bool(folders) and folders[0].lower() in SPLIT_FOLDERS
    return "/".join(folders[: _GUESSED_LEVELS + split])


def are_all_splits(folders: Iterable[str]) -> bool:
    """Return True if all top folders are named after splits; files outside folders do not count."""
    tops = _find_top_folders(folders)
    return bool(tops) and all(top.lower() in SPLIT_FOLDERS for top in tops)


def guess_roles(folders: Collection[str]) -> FolderRoles:
    """Guess which folder levels are splits and classes; raise a FolderError if that is ambiguous."""
    check_splits(folders)
    if are_all_splits(folders):
        _check_classes([folder.split("/")[1:] for folder in folders if "/" in folder], "in the split folders, ")
        return SPLITS_OF_CLASSES
    _check_classes([folder.split("/") for folder in folders if folder and not folder.startswith("/")], "")
    return CLASSES


def check_splits(folders: Collection[str]) -> None:
    """Raise a FolderError if only some top folders are named after splits; one without inner folders may be a class."""
    tops = _find_top_folders(folders)
    splits = sorted(top for top in tops if top.lower() in SPLIT_FOLDERS)
    non_splits = sorted(tops - set(splits))
    if splits and non_splits and (len(splits) > 1 or any(folder.startswith(f"{splits[0]}/") for folder in folders)):
        raise FolderError(
            f"{quote_names(splits)} would be splits by their names, but {quote_names(non_splits)} next to them "
            f"would not"
        )


def _find_top_folders(folders: Iterable[str]) -> set[str]:
    return {folder.split("/")[0] for folder in folders} - {""}


def _check_classes(paths: Sequence[Sequence[str]], prefix: str) -> None:
    """Raise a FolderError if the folders cannot be classes; `paths` holds the parts of each path, the class first."""
    classes = sorted({parts[0] for parts in paths})
    if _NOISE in classes and len(classes) > 1:
        raise FolderError(
            f"{prefix}{_NOISE!r} holds long recordings without a word in the data set speech_commands, and would be a"
            f" class; leave it out by --exclude {_NOISE}, or make it a class by --folders label"
        )
    if reserved := list(filter(_says_no_class, classes)):
        others = [name for name in reserved if not _IMAGE_WORD.search(name)]
        raise FolderError(
            f"{prefix}{quote_names(reserved)} would be a class, by which name folders say what is in them",
            others if len(others) < len(classes) else (),
        )
    inner = {name: {parts[1] for parts in paths if parts[0] == name and len(parts) > 1} for name in classes}
    shared = sorted(set.intersection(*inner.values())) if inner else []
    if len(classes) > 1 and shared:
        raise FolderError(
            f"{prefix}the same sub-folders repeat: {quote_names(shared)} in every one of {quote_names(classes)}; either"
            " may be the classes"
        )
    if len(classes) == 1 and len(inner[classes[0]]) > 1 and [classes[0]] not in [list(parts) for parts in paths]:
        raise FolderError(
            f"{prefix}{quote_names(classes)} would be the only class, although"
            f" {quote_names(sorted(inner[classes[0]]))} lie in it"
        )


def _says_no_class(name: str) -> bool:
    """Return True if the name of a folder says what is in it, or of which split it is, not of which class."""
    words = re.findall(r"[a-z]+|[0-9]+", name.lower())
    known = [word in _NO_CLASSES or word in SPLIT_FOLDERS for word in words]
    others = (word in _FILLERS or word.isdigit() for word, is_known in zip(words, known, strict=True) if not is_known)
    return name.lower() in _NO_CLASSES or (len(words) > 1 and any(known) and all(others))


def folder_notices(
    folders: Collection[str], roles: FolderRoles, are_guessed: bool = True, are_files_drawn: bool = False
) -> list[str]:
    """Return notices about the roles of folders: split names taken for classes, and levels without a meaning.

    If they are given, only files of one folder that may be in several splits are of interest. With `are_files_drawn`,
    each file is drawn for a split of its own, whatever its folder is.
    """
    notices = []
    tops = _find_top_folders(folders)
    split_like = sorted(top for top in tops if top.lower() in SPLIT_FOLDERS)
    if split_like and roles.split is None and are_guessed:
        role = "a class, not a split" if roles.label == 0 else "no split"
        other = min(tops - set(split_like), default=None)
        notices.append(
            f"folder {split_like[0]!r} was taken for {role}, because of {'a file' if other is None else repr(other)}"
            " next to it"
        )
    deeper = sorted(folder for folder in folders if folder.count("/") >= roles.depth)
    if deeper and roles.label is not None and are_guessed:
        label = deeper[0].split("/")[roles.label]
        notices.append(
            f"folders below class folders are ignored: files in {deeper[0]!r} have class {label!r}"
            f"{f', as in {len(deeper) - 1:,} more' if len(deeper) > 1 else ''}; --folders says otherwise"
        )
    inner = deeper if roles.label is not None else sorted(set(folders) - {""})
    if are_files_drawn and inner:
        notices.append(
            f"files of one folder, such as the frames of a video in {inner[0]!r}, are not grouped and may be in several"
            " splits; --group_by folder keeps the files of each folder in one split"
        )
    return notices


def split_notices(spellings: Iterable[str], origin: str) -> list[str]:
    """Return a notice of the splits that are stored under another name than the input (`origin`) gives them."""
    renamed = sorted(name for name in spellings if normalize_split(name) != name)
    if not renamed:
        return []
    return [
        f"splits bear other names than {origin}: "
        + ", ".join(f"{name!r} is {normalize_split(name)!r}" for name in renamed)
    ]


def quote_names(names: Sequence[str]) -> str:
    """Return the first few names, quoted, and the number of the others."""
    return listed(list(map(repr, names)), _QUOTED)


@dataclass(frozen=True)
class NameRules:
    """Labels from file names, by a pattern, and splits from lists of names or from the first folder."""

    label_pattern: str = ""  # regular expression with a group `label`, of the whole name without folders; "" for none
    splits: Mapping[str, str] = field(default_factory=dict)  # of the names in --split_lists

    def find_label(self, name: str) -> str | None:
        """Return the label in the name of a file; None if the name does not match the pattern."""
        found = re.fullmatch(self.label_pattern, name.rpartition("/")[2])
        return (found["label"] or None) if found else None

    def find_split(self, name: str) -> str | None:
        """Return the split of a file: that of its list, train for others, or of its first folder without lists."""
        if self.splits:
            return self.splits.get(name, "train")
        return SPLIT_FOLDERS.get(name.partition("/")[0].lower()) if "/" in name else None

    def notices(self, names: Collection[str]) -> list[str]:
        """Return a notice about listed names that are not among `names`; raise a UserError if none is."""
        missing = sorted(self.splits.keys() - set(names))
        if not missing:
            return []
        if len(missing) == len(self.splits):
            raise UserError(f"--split_lists: none of the names is a file of the input, for example {missing[0]!r}")
        subject = plural(len(missing), "name in --split_lists is no file", "names in --split_lists are no files")
        return [f"{subject} of the input: {quote_names(missing)}"]


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of files that a folder is searched for; a glob takes every file that it matches."""

    plural: str  # name of the files in messages
    suffixes: str  # regular expression alternatives, without the first dot; case is ignored
    is_listable: bool = False  # True if a --manifest may list such files
    exclude: tuple[str, ...] = field(default=(), compare=False)  # patterns of --exclude, see `find_exclusion`
    has_signature: bool = False  # True if files of other names are recognised by their first bytes, as TFRecords are
    is_parquet: bool = False  # True for files as Spark and others write them, see `transforms.inputs.listing`

    def accepts(self, name: str) -> bool:
        """Return True if the file called `name`, a path or its last part, is of this kind."""
        return _make_pattern(self.suffixes).search(name) is not None


@lru_cache
def _make_pattern(suffixes: str) -> re.Pattern[str]:
    return re.compile(rf"[^/]\.(?:{suffixes})\Z", re.IGNORECASE)


IMAGES = FileKind("images", IMAGE_SUFFIXES, is_listable=True)
ARRAYS = FileKind("arrays", "npy|tif|tiff", is_listable=True)
AUDIO = FileKind("audio files", "wav|wave", is_listable=True)
