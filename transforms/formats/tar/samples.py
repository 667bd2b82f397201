"""Samples: members of a tar file whose names begin alike, as WebDataset defines it. Pure.

The key of a sample is the name up to the first dot of its last part; what follows says what the member is.
Source: the webdataset library, `base_plus_ext` and `group_by_keys` in webdataset/tariterators.py.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

from shardmill.transforms.formats.suffixes import IMAGE_SUFFIXES
from shardmill.transforms.formats.tar.members import DIRECTORY, Group

Holds = Literal["image", "class", "text", "members"]
# A member of a sample: what it holds, where that lies in the file, and its size in bytes
Part = tuple[Holds, int, int]
KEY = "filename"  # the column of a sample's key
MAX_MEMBER_BYTES = (1 << 31) - (1 << 20)  # an example with its other features has less than 2 GiB
_IMAGES = frozenset(IMAGE_SUFFIXES.split("|"))
_NO_KEY = "member whose name has no key and suffix"
_NAMES: dict[Holds, str] = {"image": "image", "class": "label", "text": "text"}


@dataclass(slots=True)
class Sample:
    """A sample.

    Attributes:
      key: that its members share.
      number: in its file, from 1.
      start: where its first member begins.
      parts: its members, by the column that each becomes; "" is that of the members of a JSON object.
      wrong: why it is left out; "" if it is not.
    """

    key: str
    number: int
    start: int
    parts: dict[str, Part] = field(default_factory=dict)
    wrong: str = ""

    def refuse(self, name: str, size: int, what: str, column: str) -> None:
        """Leave the sample out for a member that cannot be its column."""
        if what:
            why = f"{name!r} is {what}; expected a file with its bytes"
        elif size > MAX_MEMBER_BYTES:
            why = f"{name!r} has {size:,} bytes; an example holds 2 GB at most"
        else:
            twice = f"becomes {column!r}" if column else "is its .json"
            why = f"a second member {twice}: {name!r}"
        self.wrong = self.wrong or why


@lru_cache(maxsize=1024)
def column_of(suffix: str) -> tuple[str, Holds] | None:
    """The column that a member becomes whose name ends in `suffix`, and what it holds; None of any other.

    `jpg` is `image`, `cls` is `label`, `txt` is `text`; of `left.jpg`, it is `left`.
    """
    before, _, last = suffix.rpartition(".")
    last = last.lower()
    if last == "json":
        return None if before else ("", "members")
    holds: Holds | None = (
        "image" if last in _IMAGES else "class" if last == "cls" else "text" if last in ("txt", "text") else None
    )
    return None if holds is None else (before or _NAMES[holds], holds)


class Grouping:
    """Gathers members, in their order, to samples: consecutive ones of one key are one."""

    def __init__(self, first: int) -> None:
        """`first` is the number of the first sample."""
        self._next = first
        self._shared = ""  # by the names of the members of `open`
        self.open: Sample | None = None

    def add(self, group: Group, what: str = "") -> list[tuple[str, str]]:
        """Take the members that come next, which are files unless `what` says what they are; what each is that is of no
        sample, and its name."""
        shared, members = group
        sample = self.open if shared == self._shared else None
        if what == DIRECTORY and sample is None:
            return []
        others: list[tuple[str, str]] = []
        for start, suffix, size, data in members:
            found = column_of(suffix) if shared else None
            if found is None:
                kind = f".{suffix.rpartition('.')[2].lower()} member" if shared else _NO_KEY
                others.append((kind, shared + suffix))
                continue
            if sample is None:
                sample = self.open = Sample(shared[:-1], self._next, start)
                self._shared = shared
                self._next += 1
            column, holds = found
            if what or size > MAX_MEMBER_BYTES or column in sample.parts:
                sample.refuse(shared + suffix, size, what, column)
            else:
                sample.parts[column] = (holds, data, size)
        return others
