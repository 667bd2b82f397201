"""Values in a recipe: options, variables, durations, dates, and Beam options."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from fractions import Fraction
from typing import Any, TypeVar

from shardmill.errors import UserError
from shardmill.flag_values import OptionValueError
from shardmill.pipelines.config.yaml_nodes import Node
from shardmill.text import did_you_mean
from shardmill.transforms.options.declare import Option, Options, expected_words, options_of

Section = TypeVar("Section", bound=Options)
_FLAG = re.compile(r"--(\w+)")


def parse_value(option: Option, node: Node) -> Any:
    """Parse the value of an option; raises UserError with the flag's own message and the line."""
    value = node.to_plain()
    if option.type is bool and option.flag.parse is None and isinstance(value, str):
        value = {"true": True, "false": False}.get(value, value)
    try:
        return option.parse(value)
    except UserError as error:
        raise node.error(str(error)) from None
    except (TypeError, ValueError, AttributeError, KeyError):  # a list or a mapping that this flag cannot be
        raise node.error(f"--{option.name}: expected it as on the command line: {option.flag.help}") from None


def parse_section(cls: type[Section], entries: Mapping[str, Node], place: Node) -> Section:
    """Make the section `cls` from `entries`, which are at or below the node `place`; raises UserError."""
    known = {option.name: option for option in options_of(cls)}
    values = {}
    for name, node in entries.items():
        if name not in known:
            raise node.error(f"unknown key {name!r} in {cls.title}; {expected_words(name, known)}")
        try:
            values[known[name].field] = parse_value(known[name], node)
        except UserError as error:
            raise UserError(_without_dashes(str(error))) from None
    try:
        return cls(**values)
    except UserError as error:
        raise UserError(_without_dashes(str(with_line(error, entries, place)))) from None


def with_line(error: UserError, lines: Mapping[str, Node], place: Node) -> UserError:
    """Return `error` with the line of the first flag it names that is in `lines`, else with that of `place`."""
    return next((lines[name] for name in _FLAG.findall(str(error)) if name in lines), place).error(str(error))


def _without_dashes(sentence: str) -> str:
    return _FLAG.sub(r"\1", sentence)


NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(r"(\$?)\$\{([^}]*)\}")  # `$${` is a `${` that is literal


def parse_set(pairs: Iterable[str]) -> dict[str, str]:
    """Parse `--set NAME=value` arguments into values by name; raises UserError."""
    values: dict[str, str] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or NAME.fullmatch(name) is None:
            raise UserError(f"--set {pair}: expected NAME=value, such as BUCKET=gs://photos")
        if name in values:
            raise UserError(f"--set {name}=… is given twice; give it once")
        values[name] = value
    return values


@dataclass(frozen=True, slots=True)
class Variables:
    """The values of `${NAME}`."""

    set_values: Mapping[str, str]  # by --set
    environment_names: tuple[str, ...] = ()  # environment variables that the recipe may read
    environment: "Mapping[str, str] | None" = None  # all environment variables

    def fill(self, recipe: Node) -> Node:
        """Return `recipe` with values in place of names; raises UserError if a name has none."""
        return recipe.map_texts(self._fill)

    def _fill(self, node: Node) -> str:
        def value(match: re.Match[str]) -> str:
            return match[0][1:] if match[1] else self._find_value(match[2], node)

        return _REFERENCE.sub(value, node.text())

    def _find_value(self, name: str, node: Node) -> str:
        if NAME.fullmatch(name) is None:
            raise node.error(f"${{{name}}}: expected a name of letters, digits and '_'; $${{ is a literal ${{")
        if name in self.set_values:
            return self.set_values[name]
        if name in self.environment_names:
            if (found := (self.environment or {}).get(name)) is not None:
                return found
            raise node.error(f"${{{name}}}: there is no environment variable {name}; set it, or give --set {name}=…")
        meant = did_you_mean(name, [*self.set_values, *self.environment_names], "; did you mean ${{{}}}?")
        raise node.error(f"${{{name}}} has no value: give --set {name}=…, or name it under environment{meant}")


def environment_names(recipe: Node) -> tuple[str, ...]:
    """Return the environment variables that a recipe lists under `environment`; raises UserError."""
    node = recipe.mapping().get("environment")
    items = () if node is None else node.value if isinstance(node.value, tuple) else (node,)
    for item in items:
        if NAME.fullmatch(item.text()) is None:
            raise item.error(
                f"environment: {item.text()!r} is not the name of a variable; expected a list such as [BUCKET, REGION]"
            )
    return tuple(item.text() for item in items)


def names_in(recipe: Node) -> set[str]:
    """Return the names of the variables that `recipe` uses."""
    found = (_REFERENCE.finditer(node.text()) for node in recipe.texts())
    return {match[2] for matches in found for match in matches if not match[1]}


def check_all_used(set_values: Mapping[str, str], used_names: set[str], files: str) -> None:
    """Check that the recipes use each name of --set; raises UserError."""
    for name in set_values:
        if name not in used_names:
            meant = did_you_mean(name, sorted(used_names), "; did you mean {}?")
            raise UserError(f"--set {name}=…: there is no ${{{name}}} in {files}{meant}")


DAY = 86_400  # seconds
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": DAY, "w": 7 * DAY}  # seconds
_MAX_SECONDS = 36_500 * DAY  # a hundred years: what is older than that is a slip of the pen


def parse_duration(value: Any, least: float = 1e-9) -> float:
    """Parse seconds from a duration such as `26h`, at least `least`; a number is returned as it is."""
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", str(value).strip(), re.ASCII)
    if match is None:
        raise OptionValueError(f"{value!r} is not a length of time; expected a number and a unit, such as 26h or 30d")
    seconds = float(Fraction(match[1]) * _UNITS[match[2]])
    if not least <= seconds <= _MAX_SECONDS:
        raise OptionValueError(f"{value!r}: expected more than nothing, and at most a hundred years")
    return seconds


def parse_days(value: Any) -> int:
    """Parse whole days from a duration such as `7d`; an integer is returned as it is."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    seconds = parse_duration(value)
    if seconds % DAY:
        raise OptionValueError(f"{value!r} is not a number of whole days, such as 7d")
    return int(seconds) // DAY


def format_duration(seconds: float) -> str:
    """Format a duration in the largest unit that keeps it precise: 50h is not shown as 2.08d."""
    for unit, size in (("d", DAY), ("h", 3600), ("m", 60)):
        if seconds >= 3 * size or (seconds >= 2 * size and not seconds % size):
            return f"{seconds / size:.3g}{unit}"
    return f"{seconds:.3g}s"


_TOKENS = {"{YYYY}": "%Y", "{MM}": "%m", "{DD}": "%d"}
_TOKEN = re.compile(r"\{(?:YYYY|MM|DD)\}")
_WORD = re.compile(r"(?<!\$)\{[A-Za-z]+\}")  # which `{a,b}`, a choice in a glob, is not


def parse_date(value: Any) -> date:
    """Parse a day such as `2026-11-20`."""
    if isinstance(value, date):
        return value
    try:
        return datetime.strptime(str(value), "%Y-%m-%d").date()
    except ValueError:
        raise OptionValueError(f"{value!r} is not a day; expected year, month and day, such as 2026-11-20") from None


def has_dates(text: str) -> bool:
    """Return True if `text` depends on the day."""
    return _TOKEN.search(text) is not None


def unknown_date_word(text: str) -> str | None:
    """Return the first `{WORD}` of `text` that is not a date token; None without one."""
    return next((match[0] for match in _WORD.finditer(text) if match[0] not in _TOKENS), None)


def fill_date(text: str, day: date) -> str:
    """Fill the date tokens of `text` with one day."""
    for token, form in _TOKENS.items():
        text = text.replace(token, f"{day.year:04d}" if form == "%Y" else day.strftime(form))
    return text


def days_up_to(day: date, days: int) -> list[date]:
    """Return the last `days` days up to `day`, the oldest first."""
    return [day - timedelta(days=back) for back in reversed(range(days))]


def dated_glob(text: str, days: Sequence[date]) -> str:
    """Fill the date tokens of `text` with each of `days`, as one glob with a choice `{…,…}`.

    `dt={YYYY}-{MM}-{DD}/*.csv` for two days becomes `dt={2026-11-19,2026-11-20}/*.csv`.
    """
    if len(days) == 1 or not has_dates(text):
        return fill_date(text, days[-1])
    places = [match.span() for match in _TOKEN.finditer(text)]
    start, end = places[0][0], places[-1][1]
    choices = list(dict.fromkeys(fill_date(text[start:end], day) for day in days))
    choice = choices[0] if len(choices) == 1 else f"{{{','.join(choices)}}}"
    return f"{text[:start]}{choice}{text[end:]}"


def dated_version(text: str, day: date) -> str:
    """Fill the date tokens of a version; its numbers get no leading zeros, since TFDS would not find such a folder."""
    if not has_dates(text):
        return text
    return ".".join(str(int(part)) if part.isdecimal() else part for part in fill_date(text, day).split("."))


def beam_arguments(beam: Node) -> Iterator[str]:
    """Yield the options below `beam:` as command-line arguments; raises UserError if one is a mapping."""
    for name, node in beam.mapping().items():
        if isinstance(node.value, Mapping):
            raise node.error(f"{node.key} is a mapping; expected a text, true, or a list of texts")
        for item in node.value if isinstance(node.value, tuple) else (node,):
            if item.text() == "true":
                yield f"--{name}"
            elif item.text() != "false":
                yield f"--{name}={item.text()}"


def beam_entries(words: Sequence[str]) -> dict[str, str | list[str]]:
    """Convert command-line arguments to entries of `beam:`; a repeated option becomes a list."""
    found: dict[str, list[str]] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name, equals, value = word.removeprefix("--").partition("=")
            found.setdefault(name, []).append(value if equals else "true")
        elif found[name][-1] == "true":  # the option is the previous word
            found[name][-1] = word
        else:
            found[name].append(word)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}
