"""The splits of a data set, from --splits, folders or the names of files, and the roles of folders."""

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from shardmill.errors import UserError
from shardmill.metadata import file_names
from shardmill.text import listed, plural
from shardmill.transforms.inputs import folders as folder_roles
from shardmill.transforms.inputs.folders import NO_ROLES, FolderRoles, Paths, has_split_word, names_at, normalize_split
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.layout.options import FileLayoutOptions, TableOptions
from shardmill.transforms.options.job_options import Fractions, SplitOptions

DEFAULT_SPLITS: Fractions = (("train", Fraction(1)),)
_USUAL = ("train", "validation", "test")


@dataclass(frozen=True, slots=True)
class Splits:
    """The splits of a data set."""

    names: tuple[str, ...]  # split names by id
    fractions: tuple[Fraction, ...] | None  # of the splits; None if the input gives the splits
    notices: tuple[str, ...] = ()  # messages for the end of the job


def split_sort_key(split: str) -> tuple[int, str]:
    """Return the sort key of a split: train, validation and test come first, in this order."""
    return _USUAL.index(split) if split in _USUAL else len(_USUAL), split


def order_splits(spelled: Iterable[str], where: str) -> tuple[str, ...]:
    """Return the distinct splits that the input names, in order, with usual spellings unified; check the names."""
    splits = tuple(sorted(set(map(normalize_split, spelled)), key=split_sort_key))
    _check_names(splits, where)
    return splits


def splits_by_fraction(fractions: Fractions | None) -> Splits:
    """Return the splits of --splits, or the default split for None; raise a UserError if a name is invalid."""
    named_fractions = fractions or DEFAULT_SPLITS
    names = tuple(name for name, _ in named_fractions)
    _check_names(names, "of --splits")
    return Splits(names, tuple(part for _, part in named_fractions))


def splits_of_folders(folders: Iterable[str], roles: FolderRoles) -> Splits:
    """Return the splits that `folders` name at the split's level; raise a UserError if a name is invalid."""
    assert roles.split is not None
    spelled = sorted({folder.split("/")[roles.split] for folder in folders})
    shown = (name if normalize_split(name) == name else f"{name} ({normalize_split(name)})" for name in spelled)
    notice = f"the splits are those of the folders: {', '.join(shown)}"
    return Splits(order_splits(spelled, "by its folder"), None, (notice,))


def splits_of_tables(summary: InputSummary, source: str, fractions: Fractions | None) -> Splits:
    """Return the splits of record files: those of --splits, or else of folders if these are named after splits."""
    if fractions is not None:
        return splits_by_fraction(fractions)
    if (problem := folder_roles.describe_mixed_splits(summary.folders)) is not None:
        raise UserError(f"{source}: {problem}; give --splits, or --input FOLDER, the folder of one split")
    if folder_roles.are_all_splits(summary.folders):
        return splits_of_folders(summary.folders, folder_roles.SPLITS)
    return replace(splits_by_fraction(None), notices=split_name_notices(summary))


def split_name_notices(summary: InputSummary) -> tuple[str, ...]:
    """Return a notice if files are named after different splits but all of them are in one split."""
    if len(summary.named_splits) < 2:
        return ()
    splits = sorted(summary.named_splits.items(), key=lambda item: split_sort_key(item[0]))
    counts = ", ".join(f"{number:,} as {split}, such as {name!r}" for split, (number, name) in splits)
    (only_split,) = splits_by_fraction(None).names
    return (
        f"files are called as splits are, and all examples are in {only_split}: {counts}; a file's split is its"
        f" folder's: move them to {', '.join(f'{split}/' for split, _ in splits)}, or give --splits",
    )


def check_split_shards(splits: Sequence[str], counts: Iterable[tuple[str, int]]) -> None:
    """Raise a UserError if a split named in --num_shards does not exist."""
    for split, _ in counts:
        if split not in splits:
            raise UserError(f"--num_shards {split}=…: no such split; the splits are {', '.join(splits)}")


def check_no_split_flags(options: SplitOptions, source: str) -> None:
    """Raise a UserError if --splits is given although `source` gives the splits."""
    if options.splits is not None:
        say = "say" if source.endswith("s") else "says"
        raise UserError(f"--splits was given, but {source} {say} the split; drop the one or the other")


def _check_names(splits: Iterable[str], where: str) -> None:
    for split in splits:
        if not file_names.is_split_name(split):
            raise UserError(f"split {split!r} {where}: expected letters, digits and '_' only")


def resolve_folders(
    folders: Mapping[str, int], options: FileLayoutOptions | TableOptions, noun: str, depth: int | None
) -> FolderRoles:
    """Return the roles of the input's folders, by --folders or else by `find_roles`; raise a UserError if none fit.

    `noun` names the files. A split or a class has to be among the first `depth` levels of folders; None for any level.
    """
    roles = options.folders or folder_roles.find_roles(folders)
    if roles is None:
        raise UserError(*describe_folders(options.source, folders, noun))
    if depth is not None and depth < roles.depth and (roles.split, roles.label) != (None, None):
        raise UserError(
            f"--folders {roles} names {roles.depth} levels of folders, but below {options.source} {noun} lie in"
            f" {depth or 'no'} folder{'' if depth == 1 else 's'}"
        )
    return roles


_MOST_LEVELS = 5  # of folders that suggestions look at
_MOST_EXCLUDED = 3  # folders that a suggestion leaves out
_MOST_SIBLINGS = 8  # folders of which a suggestion may leave out one
_SUGGESTED = 4  # readings that a message names


@dataclass(frozen=True, slots=True)
class _Reading:
    rank: float  # the higher, the more plausible
    roles: FolderRoles
    excluded: tuple[str, ...]
    splits: int
    classes: int

    def __str__(self) -> str:
        flags = [f"--folders {self.roles}", *(f"--exclude {shlex.quote(name)}" for name in self.excluded)]
        found = [
            *([plural(self.splits, "split")] if self.splits else []),
            plural(self.classes, "class", "classes") if self.classes else "no classes",
        ]
        return f"{' '.join(flags)}: {', '.join(found)}"


def describe_folders(source: str, folders: Mapping[str, int], noun: str) -> list[str]:
    """Return a sentence about folders without clear roles, a line of each level, and one of each reading.

    `noun` names the files, such as images. The plausible reading is the first.
    """
    paths = folder_roles.parse_paths(folders)
    deepest = max(map(len, paths))
    depths = Counter[int]()
    for path, number in paths.items():
        depths[len(path)] += number
    levels = [f"level 0: {noun}: {depths[0]:,}"] if depths[0] else []
    for level in range(1, deepest + 1):
        names = names_at(paths, level - 1)
        found = f"{plural(len(names), 'folder')}, {listed(list(map(repr, names)), 3)}"
        levels.append(f"level {level}: {found}; {noun}: {depths[level]:,}")
    readings = list(map(str, suggested := _suggest_readings(paths)))
    classes = [each.roles for each in suggested if each.roles.split is None and each.roles.label is not None]
    outermost = min(classes, key=lambda roles: roles.depth, default=NO_ROLES)
    if classes and (inner := range(outermost.depth, min(depths))):
        level = max(inner, key=lambda level: len(names_at(paths, level)))
        readings.append(f"--folders {replace(outermost, group=level)} with --splits: a group is in one split")
    problem = "the roles of its folders are not clear; give flags as below, or --input one of the folders, or a glob"
    return [f"{source}: {problem}", *levels, *readings]


def _suggest_readings(paths: Paths) -> list[_Reading]:
    outer, deepest = folder_roles.count_wrappers(paths), max(map(len, paths))
    levels = range(outer, min(deepest, _MOST_LEVELS))
    found = [
        _rank_reading(paths, roles, sorted(path for path in paths if len(path) < roles.depth))
        for split in (None, *levels)
        for label in (None, *levels)
        if (roles := FolderRoles(split, label)) == NO_ROLES or split != label
    ]
    siblings = {path[: outer + 1] for path in paths if len(path) > outer}
    for sibling in siblings if 2 < len(siblings) <= _MOST_SIBLINGS else ():
        rest = {path: number for path, number in paths.items() if path[: outer + 1] != sibling}
        known = folder_roles.find_roles_of_paths(rest)
        if known is not None and known != NO_ROLES:
            found.append(_rank_reading(paths, known, [sibling]))
    best = sorted((reading for reading in found if reading is not None), key=lambda reading: -reading.rank)
    unique = list({(reading.roles, reading.excluded): reading for reading in best}.values())
    everything = [reading for reading in unique if reading.roles == NO_ROLES]
    return [*(reading for reading in unique if reading.roles != NO_ROLES)][: _SUGGESTED - 1] + everything


def _rank_reading(paths: Paths, roles: FolderRoles, excluded: Sequence[tuple[str, ...]]) -> _Reading | None:
    kept = {path: number for path, number in paths.items() if not any(path[: len(one)] == one for one in excluded)}
    are_one_name = any(len(one) == 1 and any(one[0] in path for path in kept) for one in excluded)
    if not kept or () in excluded or len(excluded) > _MOST_EXCLUDED or are_one_name:
        return None
    rank = 8 * sum(kept.values()) / sum(paths.values())
    outer = folder_roles.count_wrappers(paths)
    splits = classes = list[str]()
    if roles.split is not None:
        splits = names_at(kept, roles.split)
        rank += 3 if folder_roles.are_splits(splits) else 5 * sum(map(has_split_word, splits)) / len(splits) - 3
    if roles.label is not None:
        classes = names_at(kept, roles.label)
        rank += 1 if len(classes) > 1 else -2
        rank += 2 * _are_repeated(kept, roles.label)
        rank -= 3 * (roles.split != roles.label + 1 and _are_repeated(kept, roles.label + 1))
        rank += roles.label == outer
        rank -= 5 * any(roles.label and path[roles.label] == path[roles.label - 1] for path in kept)
    elif sum(not has_split_word(name) for name in names_at(kept, max(map(len, kept)) - 1)) > 1:
        rank -= 2  # they look like classes
    for level in range(outer, max(map(len, kept))):
        names = names_at(kept, level)
        if level != roles.split and (level < roles.depth or roles.split is None):
            rank -= (6 if level == roles.label else 2) * sum(map(has_split_word, names)) / len(names)
    return _Reading(rank, roles, tuple(map("/".join, excluded)), len(set(map(normalize_split, splits))), len(classes))


def _are_repeated(paths: Paths, level: int) -> bool:
    parents = Counter(name for *_, name in {path[: level + 1] for path in paths if len(path) > level})
    return 0 < len(parents) <= 2 * sum(number > 1 for number in parents.values())
