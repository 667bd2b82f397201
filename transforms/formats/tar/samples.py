"""Samples: members of a tar file whose names begin alike, as WebDataset defines it. Pure.

The key of a sample is the name up to the first dot of its last part; what follows says what the member is.
Source: the webdataset library, `base_plus_ext` and `group_by_keys` in webdataset/tariterators.py.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal, NamedTuple

from transforms.formats.suffixes import IMAGE_SUFFIXES
from transforms.formats.tar.members import DIRECTORY, Member

Holds = Literal["image", "class", "text", "members"]
KEY = "filename"  # the column of a sample's key
MAX_MEMBER_BYTES = (1 << 31) - (1 << 20)  # an example with its other features has less than 2 GiB
_IMAGES = frozenset(IMAGE_SUFFIXES.split("|"))
_NAMES: dict[Holds, str] = {"image": "image", "class": "label", "text": "text"}


class Part(NamedTuple):
    """A member of a sample: what it holds, and where that lies."""

    holds: Holds
    data: int
    size: int


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

    def refuse(self, member: Member, column: str) -> None:
        """Leave the sample out for a member that cannot be its column."""
        if member.what:
            why = f"{member.name!r} is {member.what}; expected a file with its bytes"
        elif member.size > MAX_MEMBER_BYTES:
            why = f"{member.name!r} has {member.size:,} bytes; an example holds 2 GB at most"
        else:
            what = f"becomes {column!r}" if column else "is its .json"
            why = f"a second member {what}: {member.name!r}"
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
        self._dotted = ""  # the key of `open` and a dot
        self.open: Sample | None = None

    def add(self, member: Member) -> str:
        """Take the next member, a new `open` if it is of another sample; what it is, where it is of none."""
        name = member.name
        known = self._dotted
        if known and name.startswith(known) and "/" not in (suffix := name[len(known) :]) and suffix:
            dotted = known
        elif member.what == DIRECTORY:
            return ""
        else:
            folder, slash, base = name.rpartition("/")
            stem, _, suffix = base.partition(".")
            if not stem or not suffix:
                return "member whose name has no key and suffix"
            dotted = f"{folder}{slash}{stem}."
        found = column_of(suffix)
        if found is None:
            return f".{suffix.rpartition('.')[2].lower()} member"
        if dotted != known or self.open is None:
            self.open = Sample(dotted[:-1], self._next, member.start)
            self._dotted = dotted
            self._next += 1
        column, holds = found
        if member.what or member.size > MAX_MEMBER_BYTES or column in self.open.parts:
            self.open.refuse(member, column)
        else:
            self.open.parts[column] = Part(holds, member.data, member.size)
        return ""
