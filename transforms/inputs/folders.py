"""Kinds of input files by suffix, and folders of the input as splits and classes."""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from shardmill.errors import UserError
from shardmill.metadata.file_names import ShardName
from shardmill.text import listed, plural
from shardmill.transforms.formats.conventions import IMAGE_SUFFIXES
from shardmill.transforms.options.job_options import FOLDER

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
# A word of a split in a longer name, as in `seg_train`, `train2017`, `testset` and `ImagesTrain`
_SPLIT_WORD = re.compile(
    r"(?<![a-z])(?:train(?:ing|val)?|valid(?:ation)?|val|dev|test(?:ing)?|eval(?:uation)?|holdout)"
    r"(?:set|data|ima?ge?s?)?(?![a-z])"
)
_FIRST_WORD = re.compile(r"([A-Za-z]+)[-._ 0-9]")
_LAST_WORD = re.compile(r"[^.]*[-_ ]([A-Za-z]+)\.[^.]")  # of what is before the first dot, such as coco_val.record
_QUOTED = 5  # names that a sentence has


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


def is_name_pattern(group_by: str | None) -> bool:
    """Return True if --group_by is a regular expression of file names with a group `group`."""
    return group_by is not None and "(?P<group>" in group_by


def is_of_file(group_by: str | None) -> bool:
    """Return True if a file's name and folder alone say its group, without a column."""
    return group_by in (None, FOLDER) or is_name_pattern(group_by)


FOLDER_WORDS = ("split", "label", "group")  # of --folders, by level in FolderRoles
NO_ROLES = FolderRoles(None, None)
CLASSES = FolderRoles(None, 0)
SPLITS = FolderRoles(0, None)


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
    """Return the folders of a file's name; given --folders, one more than those with a meaning, for a notice."""
    folder = name.rpartition("/")[0]
    return folder if roles is None else "/".join(folder.split("/")[: roles.depth + 1])


def has_split_word(name: str) -> bool:
    """Return True if a word in a folder's name is that of a split, as in `seg_train` or `TestImages`."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return name.lower() in SPLIT_FOLDERS or _SPLIT_WORD.search(words) is not None


def are_all_splits(folders: Iterable[str]) -> bool:
    """Return True if all top folders are named after splits; files outside folders do not count."""
    tops = {folder.split("/")[0] for folder in folders} - {""}
    return bool(tops) and all(top.lower() in SPLIT_FOLDERS for top in tops)


def describe_mixed_splits(folders: Iterable[str]) -> str | None:
    """Return the problem if only some top folders are named after splits, or files are in none; None otherwise."""
    tops = {folder.split("/")[0] for folder in folders}
    splits = sorted(top for top in tops if top.lower() in SPLIT_FOLDERS)
    others = sorted(tops.difference(splits, [""]))
    beside = ["files"] * ("" in tops) + [quote_names(others)] * bool(others)
    if not splits or not beside:
        return None
    return f"{quote_names(splits)} would be splits by their names, but {' and '.join(beside)} next to them would not"


Paths = Mapping[tuple[str, ...], int]  # files by the folders that they are in


def parse_paths(folders: Mapping[str, int]) -> Paths:
    """Return the number of files by the parts of their folder's name."""
    return {tuple(folder.split("/")) if folder else (): number for folder, number in folders.items()}


def names_at(paths: Iterable[tuple[str, ...]], level: int) -> list[str]:
    """Return the distinct names of the folders at a level."""
    return sorted({path[level] for path in paths if len(path) > level})


def count_wrappers(paths: Collection[tuple[str, ...]]) -> int:
    """Return the number of outer levels of one folder that holds all the rest and is not called as a split is."""
    level = 0
    while all(len(path) > level for path in paths) and len(names := names_at(paths, level)) == 1:
        if names[0].lower() in SPLIT_FOLDERS:
            break
        level += 1
    return level


def are_splits(names: Sequence[str]) -> bool:
    """Return True if each name is that of a split, and no two are names of the same split."""
    splits = {SPLIT_FOLDERS.get(name.lower(), "") for name in names}
    return "" not in splits and len(splits) == len(names)


def _are_classes(names: Sequence[str]) -> bool:
    return len(names) > 1 and not any(map(has_split_word, names))


def find_roles(folders: Mapping[str, int]) -> FolderRoles | None:
    """Return the roles of folders whose depths and names leave no doubt; None otherwise.

    `folders` has the number of files by folder. Examples, below any folders that hold all the rest:

        "": no labels                   "cat", "dog": classes
        "train", "test": splits         "train/cat", "test/cat", "test/dog": splits and classes
    """
    return find_roles_of_paths(parse_paths(folders))


def find_roles_of_paths(paths: Paths) -> FolderRoles | None:
    """Return the same as `find_roles`, of folders whose names are in parts."""
    depths = set(map(len, paths))
    if len(depths) != 1:
        return None if depths else NO_ROLES
    outer = count_wrappers(paths)
    levels = [names_at(paths, level) for level in range(outer, depths.pop())]
    if not levels:
        return NO_ROLES
    if len(levels) == 1 and _are_classes(levels[0]):
        return FolderRoles(None, outer)
    if not are_splits(levels[0]) or len(levels) > 2:
        return None
    if len(levels) == 1:
        return FolderRoles(outer, None)
    return FolderRoles(outer, outer + 1) if _are_classes(levels[1]) else None


def folder_notices(
    folders: Mapping[str, int], roles: FolderRoles, are_found: bool, are_files_drawn: bool = False
) -> list[str]:
    """Return notices of an outer folder that holds all others, if the roles are found, and of folders without a role.

    With `are_files_drawn`, each file is drawn for a split of its own, whatever its folder is.
    """
    notices = []
    paths = parse_paths(folders)
    outer = count_wrappers(paths) if paths and are_found else 0
    if outer:
        hint = "; --folders label makes it a class" if outer == 1 and roles == NO_ROLES else ""
        notices.append(f"folder {'/'.join(next(iter(paths))[:outer])!r} holds all files, and has no meaning{hint}")
    inner = sorted("/".join(path) for path in paths if len(path) > max(roles.depth, outer))
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
    used: tuple[str, ...] = field(default=(), compare=False, repr=False)  # files that flags name, which are used
    has_signature: bool = False  # True if files of other names are recognised by their first bytes, as TFRecords are
    is_parquet: bool = False  # True for files as Spark and others write them, see `transforms.inputs.listing`

    def accepts(self, name: str) -> bool:
        """Return True if the file called `name`, a path or its last part, is of this kind."""
        return _make_pattern(self.suffixes).search(name) is not None

    @property
    def is_plain(self) -> Callable[[str], object]:
        """The function that accepts only names that no rule for hidden, system and further files is about."""
        return _make_pattern(self.suffixes, r"(?![._]|readme|licen).*").match


@lru_cache
def _make_pattern(suffixes: str, before: str = "") -> re.Pattern[str]:
    return re.compile(rf"{before}[^/]\.(?:{suffixes})\Z", re.IGNORECASE | re.DOTALL)


IMAGES = FileKind("images", IMAGE_SUFFIXES, is_listable=True)
ARRAYS = FileKind("arrays", "npy|tif|tiff", is_listable=True)
AUDIO = FileKind("audio files", "wav|wave", is_listable=True)
DECODED_AUDIO = "flac|ogg|oga|mp3|aiff?|aifc|au|snd|caf|w64"  # suffixes of sounds that only --decode_audio reads
