"""Lists of columns, and what else is said of the columns of a table, as a user writes it."""

import csv
from typing import Any

from shardmill.transforms.options.declare import ValueMistake


def parse_names(value: Any) -> tuple[str, ...]:
    """Column names from `a,b,"c,d"`, a line of CSV, or a list of them.

    Raises:
      ValueMistake: there are none, or one is there twice.
    """
    names = tuple(next(csv.reader([value]), ())) if isinstance(value, str) else tuple(value)
    if not all(names) or (isinstance(value, str) and not names):
        raise ValueMistake(f"{value!r} is not a list of names, such as id,age,city")
    if len(set(names)) < len(names):
        raise ValueMistake(f"{value!r} names a column twice")
    return names


def parse_missing(value: Any) -> tuple[str, ...]:
    """The spellings of a missing value from `NA,null,-`, or a list of them; an empty field is always missing."""
    spellings = next(csv.reader([value]), ()) if isinstance(value, str) else value
    return tuple(dict.fromkeys(["", *spellings]))


def parse_fill(value: Any) -> tuple[tuple[str, str], ...]:
    """(column, value) of each `age=-1`; or pairs, or a mapping.

    Raises:
      ValueMistake: one of them is not column=value, or a column is there twice.
    """
    if isinstance(value, str):
        value = [value]
    pairs = list(value.items()) if isinstance(value, dict) else [_pair(item) for item in value]
    columns = [column for column, _ in pairs]
    for column in columns:
        if columns.count(column) > 1:
            raise ValueMistake(f"{column}=… is given twice")
    return tuple((column, str(text)) for column, text in pairs)


def _pair(item: Any) -> tuple[str, str]:
    column, equals, text = item.partition("=") if isinstance(item, str) else (item[0], "=", item[1])
    if not column or not equals:
        raise ValueMistake(f"{item!r} is not column=value, such as age=-1")
    return column, text


def parse_delimiter(value: Any) -> str:
    r"""One ASCII character; `\t` and `tab` stand for a tab.

    Raises:
      ValueMistake: it is none, or ends a line.
    """
    character = {"\\t": "\t", "tab": "\t"}.get(value, value)
    if not isinstance(character, str) or len(character) != 1 or not character.isascii() or character in "\r\n":
        raise ValueMistake(f"{value!r} is not one ASCII character, such as ';' or tab")
    return character


def parse_quote(value: Any) -> str:
    """One ASCII character, or none where quotes mean nothing."""
    return parse_delimiter(value) if value else ""
