"""How examples are dealt out to splits, and in which order they come."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from shardmill.errors import UserError
from shardmill.metadata import naming
from shardmill.transforms.options.declare import Options, ValueMistake, flag

# The names of splits, and how much of the data is in each
Fractions = tuple[tuple[str, Fraction], ...]
_ROUNDING = Fraction(1, 200)  # by which the fractions may miss 1: 0.333 three times is fine
_SEEDS = 1 << 64  # what xxh3 takes
TRAINING = "train"  # the split that constants of --transform are taken of, unless others are named
CONTENT = "content"  # --group_by, of what an example holds


def parse_splits(value: Any) -> Fractions:
    """Names and fractions from `train=0.8,test=0.2`, a mapping, or pairs; they must add up to 1, up to rounding.

    Raises:
      ValueMistake: they do not, or one of them is none.
    """
    splits: dict[str, Fraction] = {}
    for part, name, number in _parts(value):
        try:
            fraction = Fraction(str(number))
        except (ValueError, ZeroDivisionError):
            raise ValueMistake(f"{part!r} is not name=fraction, such as train=0.8") from None
        if not naming.is_split_name(name):
            raise ValueMistake(f"{part!r} is not name=fraction with a name of letters, digits and '_'")
        if fraction <= 0:
            raise ValueMistake(f"split {name!r} has fraction {number}; expected more than 0")
        if name in splits:
            raise ValueMistake(f"split {name!r} is named twice")
        splits[name] = fraction
    total = sum(splits.values(), Fraction(0))
    if abs(total - 1) > _ROUNDING:
        raise ValueMistake(f"the fractions add up to {float(total):g}; expected 1")
    return tuple((name, fraction / total) for name, fraction in splits.items())


def _parts(value: Any) -> list[tuple[str, str, Any]]:
    """(as written, name, number) of each split."""
    if isinstance(value, str):
        pieces = [(part, *part.partition("=")) for part in value.split(",")]
        return [(part, name.strip(), number.strip()) for part, name, _, number in pieces]
    pairs = value.items() if isinstance(value, Mapping) else value
    return [(f"{name}={number}", str(name), number) for name, number in pairs]


def check_seed(seed: int) -> str | None:
    """What was expected of a seed that is none."""
    return None if 0 <= seed < _SEEDS else "expected 0 to 2^64 - 1"


@dataclass(frozen=True, kw_only=True)
class SplitOptions(Options):
    """Splits and order.

    Attributes:
      splits: names and fractions; None for the splits of the folders or the rows, or else all in train.
    """

    title: ClassVar[str] = "splits and order"

    splits: Fractions | None = flag(
        None,
        "name=fraction,…",
        parse=parse_splits,
        default_words="all in train",
        to_json=lambda splits: {name: str(fraction) for name, fraction in splits},
    )
    group_by: str | None = flag(
        None,
        "a column whose equal values stay in one split; content: equal examples do, and files are read twice for that",
    )
    stratify_by: str | None = flag(None, "label, or a column: exact fractions within each of its values")
    seed: int = flag(0, "of the order", check=check_seed)
    split_seed: int = flag(0, "of the splits", check=check_seed)
    no_shuffle: bool = flag(False, "keep the order of the input: files by name, and the records in each")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.group_by is not None and self.stratify_by is not None:
            raise UserError(
                "--group_by and --stratify_by contradict each other: whole groups cannot be cut exactly; give one of"
                " them"
            )
        for name, column in (("--group_by", self.group_by), ("--stratify_by", self.stratify_by)):
            if column is not None and self.splits is None:
                raise UserError(f"{name} {column} needs --splits")
        if self.seed and self.no_shuffle:
            raise UserError(
                f"--seed {self.seed} contradicts --no_shuffle: there is no order to draw; --split_seed is for the"
                " splits"
            )
