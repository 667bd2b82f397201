"""Values of untrusted JSON files; each is checked when it is read, and errors name its location."""

import json
import math
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields
from functools import cache, reduce
from operator import or_
from types import MappingProxyType, NoneType, UnionType
from typing import Any, Literal, Self, TypeVar, get_args, get_origin, get_type_hints

from shardmill.errors import CorruptDataError, describe_damage
from shardmill.text import is_unicode

Json = dict[str, Any]
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
            raise ValueError(f"{self._locate_member(key)} is missing")
        return Value(content[key], self._locate_member(key))

    def get(self, key: str, default: Any) -> "Value":
        """Return an object's member `key`, or `default`."""
        return Value(self.mapping().get(key, default), self._locate_member(key))

    def mapping(self) -> dict[str, Any]:
        """Return the value as an object."""
        return self._checked(dict, "an object")

    def items(self) -> list["Value"]:
        """Return the values of a list."""
        return [Value(item, f"{self.where}[{index}]") for index, item in enumerate(self._checked(list, "a list"))]

    def entries(self) -> dict[str, "Value"]:
        """Return the values of an object by key."""
        return {key: Value(value, self._locate_member(key)) for key, value in self.mapping().items()}

    def text(self) -> str:
        """Return the value as a string that UTF-8 can encode; JSON's escapes allow lone surrogates, which it cannot."""
        text: str = self._checked(str, "a string")
        if not is_unicode(text):
            raise self.wrong("a string of whole characters")
        return text

    def matching(self, matches: Callable[[str], object], description: str) -> str:
        """Return the value as a string for which `matches` is true; `description` describes the expected string."""
        text = self.text()
        if not matches(text):
            raise self.wrong(description)
        return text

    def one_of(self, *allowed: str) -> Any:
        """Return the value as one of the allowed strings."""
        if self.text() not in allowed:
            raise self.wrong(f"one of {', '.join(map(repr, allowed))}")
        return self.value

    def integer(self, low: int = 0, high: int = MAX_INTEGER) -> int:
        """Return the value as an integer from `low` to `high`."""
        if type(self.value) is not int or not low <= self.value <= high:
            raise self.wrong(f"an integer from {low} to {high}")
        return self.value

    def number(self) -> int | float:
        """Return the value as a finite number."""
        if not is_plain_number(self.value):
            raise self.wrong("a finite number")
        return self.value

    def flag(self) -> bool:
        """Return the value as a boolean."""
        return bool(self._checked(bool, "true or false"))

    def wrong(self, expected: str) -> ValueError:
        """Return the error for a value that differs from what was `expected`."""
        return ValueError(f"{self.where or 'the file'} is {self._describe()}; expected {expected}")

    def _checked(self, kind: type, description: str) -> Any:
        if not isinstance(self.value, kind):
            raise self.wrong(description)
        return self.value

    def _locate_member(self, key: str) -> str:
        return f"{self.where}.{key}" if self.where else key

    def _describe(self) -> str:
        if isinstance(self.value, (dict, list)):
            return "an object" if isinstance(self.value, dict) else "a list"
        text = json.dumps(self.value)
        return text if len(text) <= _MAX_SHOWN else f"{text[: _MAX_SHOWN - 1]}…"


def is_plain_integer(value: Any) -> bool:
    """Return True for a 64-bit integer."""
    return type(value) is int and -MAX_INTEGER <= value <= MAX_INTEGER


def is_plain_number(value: Any) -> bool:
    """Return True for a finite number."""
    return type(value) in (int, float) and -math.inf < value < math.inf


def is_plain_count(value: Any) -> bool:
    """Return True for a 64-bit integer that is not negative."""
    return is_plain_integer(value) and value >= 0


def parse_counts(value: Value) -> dict[str, int]:
    """Parse counts by name; raise ValueError if one is invalid."""
    found = value.value
    if isinstance(found, dict) and all(map(is_plain_count, found.values())):
        return dict(found)
    return {name: count.integer() for name, count in value.entries().items()}


# Metadata of dataclass fields that JSON leaves out while they have their default.
OPTIONAL = MappingProxyType({"is_optional": True})


class JsonObject:
    """A dataclass that is stored as a JSON object of its fields, in their order.

    The metadata of a field may be OPTIONAL, or have a function `parse` in place of the parser of the field's type.
    """

    __slots__ = ()

    def to_json(self) -> Json:
        """Return the dataclass as a JSON object."""
        return write_fields(self)

    @classmethod
    def from_json(cls, value: Value) -> Self:
        """Parse the dataclass from a JSON object; raise ValueError if it is invalid."""
        return cls(**parse_fields(cls, value))


def write_fields(record: Any) -> Json:
    """Return the JSON object of a dataclass's fields, without optional ones that have their default."""
    return {
        name: to_plain(value)
        for name, default, is_optional in _defaults_of(record.__class__)
        if (value := getattr(record, name)) != default or not is_optional
    }


def changed_fields(record: Any) -> dict[str, Any]:
    """Return a dataclass's fields that differ from their defaults, by name."""
    defaults = _defaults_of(record.__class__)
    return {name: value for name, default, _ in defaults if (value := getattr(record, name)) != default}


@cache
def _defaults_of(cls: Any) -> list[tuple[str, Any, bool]]:
    defaults = (item.default if item.default_factory is MISSING else item.default_factory() for item in fields(cls))
    return [(item.name, default, "is_optional" in item.metadata) for item, default in zip(fields(cls), defaults)]


def to_plain(value: Any) -> Any:
    """Return a value as JSON has it: records as objects, tuples as lists, and keys as text."""
    if value is None or isinstance(value, (str, int, float)):
        return value
    if (write := getattr(value, "to_json", None)) is not None:
        return write()
    if isinstance(value, Mapping):
        return {str(key): to_plain(item) for key, item in value.items()}
    return [to_plain(item) for item in value]


def parse_fields(cls: Any, value: Value, with_defaults: bool = False) -> dict[str, Any]:
    """Parse the fields of a dataclass by their types; unknown members are ignored.

    Args:
        with_defaults: all fields that have a default may be absent, not only the optional ones.

    Raises:
        ValueError: if a member is missing or invalid.
    """
    known, parsers = value.mapping(), field_parsers(cls)
    return {
        name: parsers[name](value[name])
        for name, default, is_optional in _defaults_of(cls)
        if name in known or not (is_optional or (with_defaults and default is not MISSING))
    }


@cache
def field_parsers(cls: Any) -> dict[str, Callable[[Value], Any]]:
    """Return the parser of each field of a dataclass, by name."""
    hints = get_type_hints(cls)
    return {item.name: item.metadata.get("parse") or parser_of(hints[item.name]) for item in fields(cls)}


_PARSERS: dict[Any, Callable[[Value], Any]] = {
    bool: Value.flag,
    int: Value.integer,
    str: Value.text,
    int | float: Value.number,
    Mapping[str, Any]: Value.mapping,
    Mapping[str, int]: parse_counts,
}


def parser_of(hint: Any) -> Callable[[Value], Any]:
    """Return the parser of a type: a plain type, Literal, tuple, Mapping or JsonObject, or one of these or None."""
    if hint in _PARSERS:
        return _PARSERS[hint]
    kind, arguments = get_origin(hint), get_args(hint)
    if kind is Literal:
        return lambda value: value.one_of(*arguments)
    if kind is tuple:
        item = parser_of(arguments[0])
        return lambda value: tuple(map(item, value.items()))
    if kind is Mapping:
        member = parser_of(arguments[1])
        return lambda value: {key: member(found) for key, found in value.entries().items()}
    if kind is UnionType:
        return parser_of(reduce(or_, (argument for argument in arguments if argument is not NoneType)))
    return hint.from_json


def parse_json(text: str | bytes) -> Value:
    """Parse a JSON file; raise ValueError if it is not JSON, or nested too deeply."""
    try:
        return Value(json.loads(text))
    except (RecursionError, ValueError) as error:
        raise ValueError(describe_damage(error)) from None


def parse_file(text: str | bytes, name: str, newest: int, problem: str, parse: Callable[[Value], Content]) -> Content:
    """Parse a JSON file of shardmill, which holds the number of its format, at most `newest`.

    An error has the words `problem` after the file's name, such as "is not a shardmill manifest". Raise a
    CorruptDataError if the file is invalid, which `parse` reports as ValueError, or of a newer format.
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

    Without orjson, as in an installation that only reads, it is as fast as that.
    Input that orjson refuses, such as lone surrogates, is parsed by Python's parser, which has its own error messages.
    """
    with suppress(ImportError, ValueError):  # of orjson.JSONDecodeError
        import orjson  # here: only large files need it

        return Value(orjson.loads(text))
    return parse_json(text)
