"""Which values there are of a feature, as stats.json has it: how many differ, and which are frequent."""

from dataclasses import dataclass
from typing import Any

from shardmill.metadata.json_values import Value
from shardmill.statistics.members import Json, is_plain_count, is_plain_integer, is_plain_number, present
from shardmill.statistics.numbers import Number

TOP_VALUES = 20  # the most frequent ones, that stats.json has of a feature
SAMPLED = 1024  # values drawn, by which the most frequent of many are told
FEWEST_SAMPLED = 8  # of these, for a value to be told: none that is as rare as 1,024 others gets there by chance
_LEAST_INTEGER = -1 << 63  # of an int64


@dataclass(frozen=True, slots=True)
class Distinct:
    """How many values differ; of an estimate, `relative_error` is its standard error as a share of it."""

    count: int
    relative_error: Number | None = None

    @property
    def is_exact(self) -> bool:
        """Whether each was counted."""
        return self.relative_error is None

    def to_json(self) -> Json:
        """As the file has it."""
        return {"count": self.count, "exact": self.is_exact, **present(relative_error=self.relative_error)}

    @classmethod
    def from_json(cls, value: Value) -> "Distinct":
        """What the file has; raises ValueError."""
        return cls(value["count"].integer(), None if value["exact"].flag() else value["relative_error"].number())

    @classmethod
    def of_plain(cls, found: Any) -> "Distinct | None":
        """What the file has, where it is plain; else None."""
        if type(found) is not dict or not is_plain_count(found.get("count")):
            return None
        count: int = found["count"]
        exact, error = found.get("exact"), found.get("relative_error")
        if exact is True:
            return cls(count)
        return cls(count, error) if exact is False and is_plain_number(error) else None


@dataclass(frozen=True, slots=True)
class TopValue:
    """A value that is frequent, and how often it occurs; a string may be cut, and its bytes that are not UTF-8 are
    shown by number."""

    value: int | str
    count: int

    def to_json(self) -> Json:
        """As the file has it."""
        return {"value": self.value, "count": self.count}

    @classmethod
    def from_json(cls, value: Value) -> "TopValue":
        """What the file has; raises ValueError."""
        shown = value["value"]
        return cls(
            shown.text() if isinstance(shown.value, str) else shown.integer(_LEAST_INTEGER), value["count"].integer()
        )


def top_values_from_json(value: Value) -> tuple[TopValue, ...]:
    """What the file has, in its order; raises ValueError."""
    found = value.value
    if isinstance(found, list) and all(map(_is_plain_top_value, found)):
        return tuple([TopValue(item["value"], item["count"]) for item in found])
    return tuple(map(TopValue.from_json, value.items()))


def _is_plain_top_value(item: Any) -> bool:
    return (
        type(item) is dict
        and is_plain_count(item.get("count"))
        and (_is_unicode(shown) if type(shown := item.get("value")) is str else is_plain_integer(shown))
    )


def _is_unicode(text: str) -> bool:
    """Whether it has no half of a character, which JSON can spell and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
