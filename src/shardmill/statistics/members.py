"""Members of the objects in stats.json, taken from JSON that may have come from anywhere.

A wide table has a hundred thousand of them. So plain ones are taken as they are, and each is looked at as soon as one
is not, for the error says which.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from shardmill.metadata.json_values import MAX_INTEGER, Value

Json = dict[str, Any]
T = TypeVar("T")


def present(**members: Any) -> Json:
    """The members that are not None."""
    return {name: value for name, value in members.items() if value is not None}


def optional(value: Value, key: str, take: Callable[[Value], T]) -> T | None:
    """What `take` makes of a member; None where there is none. Raises ValueError, as `take` does."""
    return take(value[key]) if key in value.mapping() else None


@dataclass(frozen=True, slots=True)
class Member:
    """A member of an object.

    Attributes:
      attribute: that it is.
      take: what makes that of its value.
      is_plain: what says that a value is the attribute as it stands; None where none is.
      plain: what makes the attribute of what JSON holds, without a word where that stands, or gives None of what `take`
        has to look at; None where nothing does.
    """

    attribute: str
    take: Callable[[Value], Any]
    is_plain: Callable[[Any], bool] | None = None
    plain: Callable[[Any], Any] | None = None


def attributes(value: Value, members: Mapping[str, Member]) -> dict[str, Any]:
    """The attributes that an object has, by the name of each member; members that are not known are passed over.

    Only what is there is looked at: of all that a feature may have, most have a third.

    Raises:
      ValueError: as `take` does.
    """
    found: dict[str, Any] = {}
    for key, item in value.mapping().items():
        member = members.get(key)
        if member is None:
            continue
        if member.is_plain is not None and member.is_plain(item):
            found[member.attribute] = item
        elif member.plain is not None and (made := member.plain(item)) is not None:
            found[member.attribute] = made
        else:
            found[member.attribute] = member.take(value[key])
    return found


def is_plain_integer(found: Any) -> bool:
    """Whether it is an integer of 64 bits."""
    return type(found) is int and -MAX_INTEGER <= found <= MAX_INTEGER


def is_plain_number(found: Any) -> bool:
    """Whether it is a finite number."""
    return type(found) in (int, float) and -math.inf < found < math.inf


def is_plain_count(found: Any) -> bool:
    """Whether it is an integer of 64 bits, at least 0."""
    return is_plain_integer(found) and found >= 0


def counts(value: Value) -> dict[str, int]:
    """Counts by name; raises ValueError."""
    found = value.value
    if isinstance(found, dict) and all(map(is_plain_count, found.values())):
        return dict(found)
    return {name: count.integer() for name, count in value.entries().items()}


def counts_by_integer(value: Value) -> dict[int, int]:
    """Counts by an integer of at least 0, which JSON has as text; raises ValueError."""
    for name in value.mapping():
        if not (name.isascii() and name.isdecimal()):
            raise ValueError(f"{value.where} counts {name!r}; expected integers")
    return {int(name): count.integer() for name, count in value.entries().items()}
