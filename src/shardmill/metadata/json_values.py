"""Values of untrusted JSON files; each is checked when it is read, and errors name its location."""

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
_MAX_SHOWN = 60  # letters of a value that is no good


@dataclass(slots=True)  # not frozen, which doubles what it takes: of a wide table there are a hundred thousand
class Value:
    """A value and its location, such as `splits[0].shards[1].examples`; methods raise ValueErrors that name both."""

    value: Any
    where: str = ""

    def __getitem__(self, key: str) -> "Value":
        """Return an object's member `key`, which must exist."""
        content = self.mapping()
        if key not in content:
            raise ValueError(f"{self._child(key)} is missing")
        return Value(content[key], self._child(key))

    def get(self, key: str, default: Any) -> "Value":
        """Return an object's member `key`, or `default`."""
        return Value(self.mapping().get(key, default), self._child(key))

    def mapping(self) -> dict[str, Any]:
        """Return the value as an object."""
        return self._checked(dict, "an object")

    def items(self) -> list["Value"]:
        """Return the values of a list."""
        return [Value(item, f"{self.where}[{index}]") for index, item in enumerate(self._checked(list, "a list"))]

    def entries(self) -> dict[str, "Value"]:
        """Return the values of an object by key."""
        return {key: Value(value, self._child(key)) for key, value in self.mapping().items()}

    def text(self) -> str:
        """Return the value as a string that UTF-8 can encode; JSON's escapes allow lone surrogates, which it cannot."""
        text: str = self._checked(str, "a string")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise self.wrong("a string of whole characters") from None
        return text

    def matching(self, pattern: re.Pattern[str], description: str) -> str:
        """Return the value as a string that `pattern` matches; `description` describes the expected string."""
        text = self.text()
        if pattern.fullmatch(text) is None:
            raise self.wrong(description)
        return text

    def one_of(self, *allowed: str) -> Any:
        """Return the value as one of the allowed strings."""
        if self.text() not in allowed:
            raise self.wrong(f"one of {', '.join(map(repr, allowed))}")
        return self.value

    def integer(self, low: int = 0, high: int = MAX_INTEGER) -> int:
        """Return the value as an integer from `low` to `high`."""
        if not isinstance(self.value, int) or isinstance(self.value, bool) or not low <= self.value <= high:
            raise self.wrong(f"an integer from {low} to {high}")
        return self.value

    def number(self) -> int | float:
        """Return the value as a finite number."""
        if (
            isinstance(self.value, bool)
            or not isinstance(self.value, (int, float))
            or not -math.inf < self.value < math.inf
        ):
            raise self.wrong("a finite number")
        return self.value

    def flag(self) -> bool:
        """Return the value as a boolean."""
        found: bool = self._checked(bool, "true or false")
        return found

    def wrong(self, expected: str) -> ValueError:
        """Return the error for a value that differs from what was `expected`."""
        return ValueError(f"{self.where or 'the file'} is {self._preview()}; expected {expected}")

    def _checked(self, kind: type, description: str) -> Any:
        if not isinstance(self.value, kind):
            raise self.wrong(description)
        return self.value

    def _child(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key

    def _preview(self) -> str:
        if isinstance(self.value, (dict, list)):
            return "an object" if isinstance(self.value, dict) else "a list"
        text = json.dumps(self.value)
        return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"


def parse_json(text: str | bytes) -> Value:
    """Parse a JSON file.

    Raises:
        ValueError: if it is not JSON, or nested too deeply.
    """
    try:
        return Value(json.loads(text))
    except RecursionError:
        raise ValueError("its brackets are nested too deep") from None


def parse_file(text: str | bytes, name: str, newest: int, problem: str, parse: Callable[[Value], Content]) -> Content:
    """Parse a JSON file of shardmill, which holds the number of its format.

    Args:
        text: the file's content.
        name: the file's name in errors.
        newest: the newest supported format.
        problem: the words after the name in an error, such as "is not a shardmill manifest".
        parse: parses the content; raises ValueError.

    Raises:
        CorruptDataError: if the file is invalid or of a newer format.
    """
    try:
        content = parse_json(text)
        if content["format"].integer(1) <= newest:
            return parse(content)
    except ValueError as error:
        raise CorruptDataError(f"{name} {problem}: {error}") from error
    raise CorruptDataError(f"{name} is of a newer format than this shardmill reads; upgrade shardmill")


def parse_large_json(text: str | bytes) -> Value:
    """Parse JSON three times as fast as `parse_json`; an integer of more than 64 bits becomes a float.

    Input that orjson refuses, such as lone surrogates, is parsed by Python's parser, which has its own error messages.
    """
    import orjson  # by who has large files to read alone

    with suppress(orjson.JSONDecodeError):
        return Value(orjson.loads(text))
    return parse_json(text)
