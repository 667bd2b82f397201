"""How many shards there are, and what they are equal in."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from shardmill.codecs.base import Codec
from shardmill.codecs.registry import BY_OPTION, PLAIN
from shardmill.errors import UserError
from shardmill.metadata import file_template as templates
from shardmill.transforms.options.declare import Options, ValueMistake, flag

DEFAULT_SHARD_SIZE = 128 << 20  # bytes: the 100 to 200 MB that TensorFlow's and TFDS's guides recommend
MAX_SHARDS = 99_999  # the five digits of `-SSSSS-of-NNNNN`
# Bytes, by the unit in lower case
_UNITS = {
    "": 1,
    "b": 1,
    **{f"{u}{s}": (1024 if "i" in s else 1000) ** p for p, u in enumerate("kmgt", 1) for s in ("", "b", "ib")},
}

NumShards = int | tuple[tuple[str, int], ...]


def parse_size(value: Any) -> int:
    """Bytes from `128MiB`, `1GB`, `500k` or `4096`, or a number of them.

    Raises:
      ValueMistake: it is not a size.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([a-z]*)", str(value).strip().lower())
    if match is None or match[2] not in _UNITS:
        raise ValueMistake(f"{value!r} is not a size; expected a number and a unit, such as 128MiB or 1GB")
    from fractions import Fraction

    return int(Fraction(match[1]) * _UNITS[match[2]])


def parse_num_shards(value: Any) -> NumShards:
    """One number for every split (`8`), or one for each (`train=16,test=2`, a mapping, or pairs).

    Raises:
      ValueMistake: neither.
    """
    try:
        if isinstance(value, int) or (isinstance(value, str) and "=" not in value):
            return int(value)
        if isinstance(value, str):
            pairs = [(name.strip(), number) for name, _, number in (part.partition("=") for part in value.split(","))]
        else:
            pairs = list(value.items() if isinstance(value, Mapping) else value)
        counts = tuple((name, int(count)) for name, count in pairs)
    except (TypeError, ValueError):
        raise ValueMistake(f"{value!r} is neither a number nor split=number,…") from None
    if len(dict(counts)) < len(counts):
        raise ValueMistake(f"{value!r} names a split twice")
    return counts


def _check_num_shards(value: NumShards) -> str | None:
    counts = [value] if isinstance(value, int) else [count for _, count in value]
    return None if all(1 <= count <= MAX_SHARDS for count in counts) else f"expected 1 to {MAX_SHARDS:,} for a split"


@dataclass(frozen=True, kw_only=True)
class ShardOptions(Options):
    """Shards.

    Attributes:
      shard_size: bytes of a shard, about; None where `num_shards` says it, or else for DEFAULT_SHARD_SIZE.
      num_shards: of every split that `split_shards` does not name; given by split, it becomes `split_shards`.
      split_shards: of single splits.
    """

    title: ClassVar[str] = "shards"

    shard_size: int | None = flag(
        None,
        "of a shard, about",
        parse=parse_size,
        check=lambda size: None if size >= 1 else "expected at least 1 byte",
        default_words="128MiB",
    )
    num_shards: NumShards | None = flag(
        None, "of every split, or split=number,…", parse=parse_num_shards, check=_check_num_shards
    )
    split_shards: tuple[tuple[str, int], ...] = flag(
        (), name="num_shards", parse=parse_num_shards, check=_check_num_shards, hidden=True, to_json=dict
    )
    balance: str = flag(
        "examples", "what shards are equal in; tokens need --tokenizer", choices=("examples", "bytes", "tokens")
    )
    compression: str = flag(PLAIN.option, "gzip keeps TFDS from reading it", choices=tuple(BY_OPTION))

    file_template: str = flag(
        templates.DEFAULT,
        "what shards are called, in TFDS's words, such as {SPLIT}-{SHARD_X_OF_Y}.{FILEFORMAT}",
        check=templates.problem,
        told=False,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.num_shards, tuple):
            object.__setattr__(self, "split_shards", self.num_shards)
            object.__setattr__(self, "num_shards", None)
        if self.num_shards is not None and self.shard_size is not None:
            raise UserError("give --num_shards or --shard_size, not both")

    @property
    def codec(self) -> Codec:
        """The format of the shards' files."""
        return BY_OPTION[self.compression]

    def to_json(self) -> dict[str, Any]:
        """As the base says, with the shard size that holds where none was given."""
        size = self.shard_size or (None if self.num_shards else DEFAULT_SHARD_SIZE)
        return super().to_json() | {"shard_size": size}
