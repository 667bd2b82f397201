"""Which splits there are: those of --splits, or those of the folders that files lie in."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from shardmill.errors import UserError
from shardmill.metadata import naming
from shardmill.transforms.inputs.folders import (
    SPLITS,
    FolderError,
    FolderRoles,
    are_splits,
    check_splits,
    folder_notices,
    split_name,
)
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.options.splits import Fractions

DEFAULT_SPLITS: Fractions = (("train", Fraction(1)),)
BESIDE_SPLITS = (
    "{}: some files lie beside the folders of splits; move them into one of these, or give --input one alone"
)
_USUAL = ("train", "validation", "test")


@dataclass(frozen=True, slots=True)
class Splits:
    """The splits of a data set.

    Attributes:
      names: theirs, by id.
      fractions: theirs, or None where the input itself says the split.
      notices: what the user must be told at the end.
    """

    names: tuple[str, ...]
    fractions: tuple[Fraction, ...] | None
    notices: tuple[str, ...] = ()


def split_order(split: str) -> tuple[int, str]:
    """What sorts splits: the usual three first, in their usual order."""
    return _USUAL.index(split) if split in _USUAL else len(_USUAL), split


def in_order(spelled: Iterable[str], where: str) -> tuple[str, ...]:
    """The splits that the input `spelled`, each once, in their order.

    Args:
      spelled: as they stand in the input.
      where: that is, for the error.

    Raises:
      UserError: one cannot be the name of a split.
    """
    splits = tuple(sorted(set(map(split_name, spelled)), key=split_order))
    _check_names(splits, where)
    return splits


def splits_by_fraction(fractions: Fractions | None) -> Splits:
    """The splits of --splits, None where it is not given.

    Raises:
      UserError: one cannot be the name of a split.
    """
    given = fractions or DEFAULT_SPLITS
    names = tuple(name for name, _ in given)
    _check_names(names, "of --splits")
    return Splits(names, tuple(part for _, part in given))


def splits_of_folders(folders: Iterable[str], roles: FolderRoles) -> Splits:
    """The splits that the level of `folders` names that is the split's.

    Raises:
      UserError: a folder's name cannot be that of a split.
    """
    assert roles.split is not None
    spelled = sorted({folder.split("/")[roles.split] for folder in folders})
    said = (name if split_name(name) == name else f"{name} ({split_name(name)})" for name in spelled)
    return Splits(
        in_order(spelled, "by its folder"), None, (f"the splits are those of the folders: {', '.join(said)}",)
    )


def splits_of_tables(summary: InputSummary, source: str, fractions: Fractions | None) -> Splits:
    """The splits of files of records: of their folders, if these are called as splits are and --splits does not say
    otherwise.

    Raises:
      UserError: some folders are splits, others not, or files lie beside them.
    """
    if fractions is not None:
        return splits_by_fraction(fractions)
    try:
        check_splits(summary.folders)
    except FolderError as error:
        raise UserError(f"{source}: {error}; give --splits, or --input what is one of them alone") from None
    if are_splits(summary.folders):
        if "" in summary.folders:
            raise UserError(BESIDE_SPLITS.format(source))
        return splits_of_folders(summary.folders, SPLITS)
    passed = folder_notices([folder.split("/")[0] for folder in summary.folders], FolderRoles(None, None))
    return replace(splits_by_fraction(None), notices=(*passed, *name_notices(summary)))


def name_notices(summary: InputSummary) -> tuple[str, ...]:
    """What must be said where files bear the names of different splits, and all of them are in one."""
    if len(summary.named_splits) < 2:
        return ()
    named = sorted(summary.named_splits.items(), key=lambda item: split_order(item[0]))
    said = ", ".join(f"{number:,} as {split}, such as {name!r}" for split, (number, name) in named)
    (one,) = splits_by_fraction(None).names
    return (
        f"files are called as splits are, and all examples are in {one}: {said}; a file's split is its folder's: move"
        f" them to {', '.join(f'{split}/' for split, _ in named)}, or give --splits",
    )


def check_split_shards(splits: Sequence[str], named: Iterable[str]) -> None:
    """Check that the splits `named` in --num_shards are among `splits`.

    Raises:
      UserError: one is not.
    """
    for split in named:
        if split not in splits:
            raise UserError(f"--num_shards {split}=…: no such split; the splits are {', '.join(splits)}")


def _check_names(splits: Iterable[str], where: str) -> None:
    for split in splits:
        if not naming.is_split_name(split):
            raise UserError(f"split {split!r} {where}: expected letters, digits and '_' only")
