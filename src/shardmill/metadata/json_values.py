"""Values of a JSON file that may have come from anywhere: each is checked as it is taken, and an error says where it
stands."""

import json
import math
import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from shardmill.errors import CorruptDataError

Content = TypeVar("Content")
MAX_INTEGER = (1 << 63) - 1  # the largest int64
_SHOWN = 60  # letters of a value that is no good


@dataclass(slots=True)  # not frozen, which doubles what it takes: of a wide table there are a hundred thousand
class Value:
    """A value, and where it stands: `splits[0].shards[1].examples`. Every method raises ValueError, which says both."""

    value: Any
    where: str = ""

    def __getitem__(self, key: str) -> "Value":
        """What an object has under `key`; it must be there."""
        content = self.mapping()
        if key not in content:
            raise ValueError(f"{self._below(key)} is missing")
        return Value(content[key], self._below(key))

    def get(self, key: str, default: Any) -> "Value":
        """What an object has under `key`, or `default`."""
        return Value(self.mapping().get(key, default), self._below(key))

    def mapping(self) -> dict[str, Any]:
        """An object."""
        return self._of(dict, "an object")

    def items(self) -> list["Value"]:
        """The values of a list."""
        return [Value(item, f"{self.where}[{index}]") for index, item in enumerate(self._of(list, "a list"))]

    def entries(self) -> dict[str, "Value"]:
        """The values of an object by key."""
        return {key: Value(value, self._below(key)) for key, value in self.mapping().items()}

    def text(self) -> str:
        """A string that can be written as UTF-8, which JSON's escapes allow not to be."""
        text: str = self._of(str, "a string")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise self.wrong("a string of whole characters") from None
        return text

    def matching(self, pattern: re.Pattern[str], what: str) -> str:
        """A string that `pattern` matches; `what` names such a one."""
        text = self.text()
        if pattern.fullmatch(text) is None:
            raise self.wrong(what)
        return text

    def one_of(self, *allowed: str) -> Any:
        """One of these strings."""
        if self.text() not in allowed:
            raise self.wrong(f"one of {', '.join(map(repr, allowed))}")
        return self.value

    def integer(self, low: int = 0, high: int = MAX_INTEGER) -> int:
        """An integer from `low` to `high`."""
        if not isinstance(self.value, int) or isinstance(self.value, bool) or not low <= self.value <= high:
            raise self.wrong(f"an integer from {low} to {high}")
        return self.value

    def number(self) -> int | float:
        """A number, neither NaN nor infinite."""
        if (
            isinstance(self.value, bool)
            or not isinstance(self.value, (int, float))
            or not -math.inf < self.value < math.inf
        ):
            raise self.wrong("a finite number")
        return self.value

    def flag(self) -> bool:
        """True or false."""
        found: bool = self._of(bool, "true or false")
        return found

    def wrong(self, expected: str) -> ValueError:
        """The error that this is not what was `expected`."""
        return ValueError(f"{self.where or 'the file'} is {self._shown()}; expected {expected}")

    def _of(self, kind: type, what: str) -> Any:
        if not isinstance(self.value, kind):
            raise self.wrong(what)
        return self.value

    def _below(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key

    def _shown(self) -> str:
        if isinstance(self.value, (dict, list)):
            return "an object" if isinstance(self.value, dict) else "a list"
        text = json.dumps(self.value)
        return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def parse_json(text: str | bytes) -> Value:
    """The one value that a file holds.

    Raises:
      ValueError: it is not JSON, or nested too deep to be looked through.
    """
    try:
        return Value(json.loads(text))
    except RecursionError:
        raise ValueError("its brackets are nested too deep") from None


def parse_file(text: str | bytes, name: str, newest: int, what: str, of: Callable[[Value], Content]) -> Content:
    """What a file of this package holds, which says the number of its format.

    Args:
      text: of the file.
      name: how errors call it.
      newest: the format that is known here.
      what: how an error goes on of a file that is none: "is not a shardmill manifest".
      of: what becomes of the content; raises ValueError.

    Raises:
      CorruptDataError: it is no such file, or one of a newer format.
    """
    try:
        content = parse_json(text)
        if content["format"].integer(1) <= newest:
            return of(content)
    except ValueError as error:
        raise CorruptDataError(f"{name} {what}: {error}") from error
    raise CorruptDataError(f"{name} is of a newer format than this shardmill reads; upgrade shardmill")


def parse_large_json(text: str | bytes) -> Value:
    """As `parse_json`, three times as fast; an integer of more than 64 bits is a fraction.

    What orjson does not take, such as half a character, Python's parser is asked of, which has its own words for it.
    """
    import orjson  # by who has large files to read alone

    with suppress(orjson.JSONDecodeError):
        return Value(orjson.loads(text))
    return parse_json(text)
