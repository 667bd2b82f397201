"""Declare options as dataclass fields, with their flags, help and checks."""

import dataclasses
import inspect
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field
from functools import cache, partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from shardmill.errors import UserError
from shardmill.flag_values import OptionValueError, read_name
from shardmill.text import did_you_mean

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Group = TypeVar("Group", bound="DataclassInstance")


@dataclass(frozen=True, slots=True)
class Flag:
    """The command-line flag of an option: its help, syntax and checks."""

    help: str  # one line, without the default, which is appended
    parse: Callable[[Any], Any] | None = None  # text or final value to final value; None: the field's type
    choices: tuple[str, ...] = ()  # allowed values; () if `parse` and `check` decide
    check: Callable[[Any], str | None] | None = None  # returns what was expected, or None if the value is valid
    name: str = ""  # flag name, if not the field's
    other_name: str = ""  # second name of the flag on the command line; "" for none
    group: str = ""  # heading in --help, if not the class's `title`
    default_words: str = ""  # text for the default in --help
    metavar: str | None = None  # placeholder of the value in --help
    repeats: bool = False  # the flag may be repeated; the value is a tuple
    required: bool = False  # required on the command line despite the default
    hidden: bool = False  # no such flag exists; another flag sets the field
    affects_output: bool = True  # the value affects the output, so it is in manifest.json
    reads_file: bool = False  # `parse` looks at files: it is called once, before the options are constructed
    is_about_files: bool = False  # says how files are read, so it means nothing for rows that an add-on makes
    is_always_recorded: bool = True  # in the manifest even as the default; False for newer options
    to_json: Callable[[Any], Any] | None = None  # converts the value for the manifest; None: tuples become lists


def flag(default: Any = MISSING, help: str = "", **attributes: Any) -> Any:
    """Return a dataclass field that is an option; without `default` it is required. `attributes` are those of Flag."""
    return field(default=default, metadata={"flag": Flag(help, **attributes)})


newer_flag = partial(flag, is_always_recorded=False)  # of an option that manifests of earlier releases lack
name_flag = partial(flag, parse=read_name, metavar="COLUMN")  # of an option that names one column
newer_name_flag = partial(name_flag, is_always_recorded=False)


def or_none(text: str) -> str | None:
    """Convert an option's text for the manifest: None for ""."""
    return text or None


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a class: the field that holds it, its flag, type and default."""

    field: str
    name: str  # flag name without dashes
    type: type  # `bool`, `int`, `float` or `str`, of the value or its parts
    default: Any  # MISSING if the option is required
    group: str  # heading in --help
    flag: Flag
    owner: Any  # class of options that it was listed of

    def parse(self, value: Any) -> Any:
        """Parse and check `value`, given as text or as the final value; raises UserError if it is not allowed."""
        try:
            parsed = self.flag.parse(value) if self.flag.parse is not None else _convert_scalar(value, self.type)
        except OptionValueError as mistake:
            raise UserError(f"--{self.name}: {mistake}") from None
        if self.flag.choices and parsed not in self.flag.choices:
            choices = ", ".join(filter(None, self.flag.choices))
            raise UserError(f"--{self.name} {_command_line_text(value)}: expected one of {choices}")
        if self.flag.check is not None and (expected := self.flag.check(parsed)) is not None:
            raise UserError(f"--{self.name} {_command_line_text(value)}: {expected}")
        return parsed


def _command_line_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return ",".join(f"{key}={text}" if key else str(text) for key, text in value.items())
    if isinstance(value, tuple):
        return ",".join("=".join(map(str, part)) if isinstance(part, tuple) else str(part) for part in value)
    return str(value) if value != "" else "''"


def _convert_scalar(value: Any, kind: type) -> Any:
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
    raise OptionValueError(f"{value!r} is not {words[kind]}")


def _to_json(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _to_json(item) for name, item in value.items()}
    return list(value) if isinstance(value, tuple) else value.to_json() if hasattr(value, "to_json") else value


@cache
def _find_options(cls: type) -> tuple[Option, ...]:
    """Return the options that the dataclass `cls` declares and inherits, groups of base classes first."""
    hints = typing.get_type_hints(cls)
    return tuple(
        _make_option(cls, item, hints[item.name]) for item in dataclasses.fields(cls) if "flag" in item.metadata
    )


options_of: Callable[[type], tuple[Option, ...]] = _find_options  # type checkers refuse classes as arguments of a cache


def _make_option(cls: type, item: dataclasses.Field[Any], hint: Any) -> Option:
    declared: Flag = item.metadata["flag"]
    kinds = [kind for kind in (hint, *typing.get_args(hint)) if kind in (bool, int, float, str)]
    owner = next(base for base in cls.__mro__ if item.name in inspect.get_annotations(base))
    group = declared.group or getattr(owner, "title", "")
    return Option(item.name, declared.name or item.name, kinds[0] if kinds else str, item.default, group, declared, cls)


@dataclass(frozen=True, kw_only=True)
class Options:
    """Base class of option groups; each value is checked on construction."""

    title: ClassVar[str] = ""

    def __post_init__(self) -> None:
        for option in options_of(type(self)):
            value = getattr(self, option.field)
            if option.flag.reads_file or (value is None and option.default is None):
                continue
            object.__setattr__(self, option.field, option.parse(value))

    def subset(self, group: type[Group], **others: Any) -> Group:
        """Return the dataclass `group` with this object's values of the same names, and `others` for other fields."""
        names = {item.name for item in dataclasses.fields(group)} - others.keys()
        return group(**{name: getattr(self, name) for name in names if hasattr(self, name)}, **others)

    def to_json(self) -> dict[str, Any]:
        """Return the options that affect the output, for the manifest; without output paths or run options."""
        recorded = {}
        for option in options_of(type(self)):
            value, to_json = getattr(self, option.field), option.flag.to_json
            if option.flag.affects_output and (option.flag.is_always_recorded or value != option.default):
                recorded[option.field] = None if value is None else (to_json or _to_json)(value)
        return recorded

    @property
    def first_given_flag(self) -> str:
        """The first option that is not its default, as on the command line; "" if none."""
        given = ((option, getattr(self, option.field)) for option in options_of(type(self)))
        flags = (f"--{option.name} {_command_line_text(value)}" for option, value in given if value != option.default)
        return next(flags, "")


def check_no_repeats(names: Sequence[str], message: str) -> None:
    """Check that no name is there twice; raises OptionValueError with `message`, in which {} is the name."""
    for name in names:
        if names.count(name) > 1:
            raise OptionValueError(message.format(name))


def expected_words(word: str, known_words: Iterable[str]) -> str:
    """Return a hint for an unknown word: the most similar known word, or all known words."""
    names = list(known_words)
    return did_you_mean(word, names) or f"expected {'one of ' if len(names) > 1 else ''}{', '.join(names)}"


def read_option_file(name: str, path: str) -> bytes:
    """Read the file given as option --`name`; raises UserError if it cannot be read, JobError if its store fails."""
    from shardmill.transforms.stores import storage
    from shardmill.transforms.stores.protocol import file_error

    try:
        return storage.read_bytes(path)
    except OSError as error:
        raise file_error(f"--{name} {path}", error) from None
