"""An option is declared once, on the field of a frozen dataclass: what it means, how it is written, what is allowed.

The command line's flags, the validation of values from wherever they come, and the `configuration` of manifest.json are
derived from that; see `pipelines.flags`. Configurations are flat: groups of options are base classes, and `part` hands
one of them on whole.
"""

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterator
from dataclasses import MISSING, dataclass, field
from functools import cache
from typing import Any, ClassVar, TypeVar

from shardmill.errors import UserError

Group = TypeVar("Group", bound="Options")


class ValueMistake(ValueError):
    """What is wrong with the value of an option; the message follows the option's name."""


@dataclass(frozen=True, slots=True)
class Flag:
    """How the option of one field is written and shown.

    Attributes:
      help: one line, without the default, which is added.
      parse: a text, or a value as it is used, to the value as it is used; raises ValueMistake. None stands for the
        field's type.
      choices: all that is allowed; () where `parse` and `check` say it.
      check: the sentence that says what was expected, or None where the value is right.
      name: of the flag, where it is not that of the field.
      group: the heading in --help, where it is not the `title` of the class.
      default_words: how --help calls the default, where it is not the value.
      metavar: what --help shows for the value.
      repeats: whether the flag may be given several times; the value is a tuple.
      required: whether the command line must have it, although the configuration has a default.
      hidden: whether there is no such flag: another one sets the field.
      shapes: whether the value shapes the output, and so stands in manifest.json.
      told: whether it stands there as the default too; what came later than many manifests does not.
      to_json: the value there, where it is not the value itself.
    """

    help: str
    parse: Callable[[Any], Any] | None = None
    choices: tuple[str, ...] = ()
    check: Callable[[Any], str | None] | None = None
    name: str = ""
    group: str = ""
    default_words: str = ""
    metavar: str | None = None
    repeats: bool = False
    required: bool = False
    hidden: bool = False
    shapes: bool = True
    told: bool = True
    to_json: Callable[[Any], Any] | None = None


def flag(default: Any = MISSING, help: str = "", **attributes: Any) -> Any:
    """A field that is an option; without `default` it must be given. `attributes` are those of Flag."""
    return field(default=default, metadata={"flag": Flag(help, **attributes)})


@dataclass(frozen=True, slots=True)
class Option:
    """A declared option as its readers see it.

    Attributes:
      field: the name of the field.
      name: the flag's, without dashes.
      type: `bool`, `int`, `float` or `str`, of the value or of its parts.
      default: MISSING where it must be given.
      group: the heading in --help.
    """

    field: str
    name: str
    type: type
    default: Any
    group: str
    flag: Flag

    def parse(self, value: Any) -> Any:
        """`value`, as text or as it is used, checked.

        Raises:
          UserError: it is not allowed; the sentence names the flag, what was given, and what is allowed.
        """
        try:
            parsed = self.flag.parse(value) if self.flag.parse is not None else _plain(value, self.type)
        except ValueMistake as mistake:
            raise UserError(f"--{self.name}: {mistake}") from None
        if self.flag.choices and parsed not in self.flag.choices:
            raise UserError(
                f"--{self.name} {_shown(value)}: expected one of {', '.join(filter(None, self.flag.choices))}"
            )
        expected = self.flag.check(parsed) if self.flag.check is not None else None
        if expected is not None:
            raise UserError(f"--{self.name} {_shown(value)}: {expected}")
        return parsed


def _shown(value: Any) -> str:
    """`value` as it would stand on a command line."""
    if isinstance(value, tuple):
        return ",".join("=".join(map(str, part)) if isinstance(part, tuple) else str(part) for part in value)
    return str(value) if value != "" else "''"


def _plain(value: Any, kind: type) -> Any:
    """A bool, int, float or str, from itself or from a text."""
    if isinstance(value, kind) and (kind is bool or not isinstance(value, bool)):
        return value
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(value, str) and kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            pass
    words = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    raise ValueMistake(f"{value!r} is not {words[kind]}")


def options_of(cls: type) -> tuple[Option, ...]:
    """The options that the dataclass `cls` declares and inherits, groups of base classes first."""
    return _declared(cls)


@cache
def _declared(cls: type) -> tuple[Option, ...]:
    hints = typing.get_type_hints(cls)
    return tuple(_option(cls, item, hints[item.name]) for item in dataclasses.fields(cls) if "flag" in item.metadata)


def _option(cls: type, item: dataclasses.Field[Any], hint: Any) -> Option:
    declared: Flag = item.metadata["flag"]
    kinds = [kind for kind in (hint, *typing.get_args(hint)) if kind in (bool, int, float, str)]
    owner = next(base for base in cls.__mro__ if item.name in inspect.get_annotations(base))
    group = declared.group or getattr(owner, "title", "")
    return Option(item.name, declared.name or item.name, kinds[0] if kinds else str, item.default, group, declared)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Base of what a user chooses: every value is checked where it is made, whoever makes it."""

    title: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for option in options_of(type(self)):
            value = getattr(self, option.field)
            if value is None and option.default is None:
                continue
            object.__setattr__(self, option.field, option.parse(value))

    def part(self, group: type[Group]) -> Group:
        """The options of the base class `group`, as it: what a transform is given."""
        return group(**{item.name: getattr(self, item.name) for item in dataclasses.fields(group)})

    def to_json(self) -> dict[str, Any]:
        """The options that shape the output, for the manifest; not where it lies or how it was computed."""
        return dict(self._shaping())

    def _shaping(self) -> Iterator[tuple[str, Any]]:
        for option in options_of(type(self)):
            value = getattr(self, option.field)
            if option.flag.shapes and (option.flag.told or value != option.default):
                to_json = option.flag.to_json
                yield option.field, value if value is None or to_json is None else to_json(value)
