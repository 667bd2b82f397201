"""Names of columns in flags: one way to write lists such as `a,"b,c"` and pairs such as `"a=b"=7`, and to read them."""

import re
import shlex
from collections.abc import Iterable
from typing import Any

from shardmill.text import to_printable

# The texts that mean a missing value, unless others are given: what databases, spreadsheets, R and pandas write.
MISSING = ("", "NA", "N/A", "n/a", "NULL", "null", "#N/A", "<NA>")


class OptionValueError(ValueError):
    """An invalid value of an option; the message follows the option's name."""


def quote_item(name: str) -> str:
    """Return a name as an item of a list, in quotes as in CSV if need be."""
    if name and name[0] != "-" and name == name.strip() and set(name).isdisjoint(',="\r\n'):
        return name
    return '"' + name.replace('"', '""') + '"'


def quote(*names: str) -> str:
    """Return names as the value of a flag in a shell, such as `'a,"b,c"'`."""
    return _shell_word(",".join(map(quote_item, dict.fromkeys(names))))


def assign(name: str, value: str) -> str:
    """Return a name with a value as the value of a flag in a shell, such as `'"a=b"=7'`."""
    return _shell_word(f"{quote_item(name)}={value}")


def _shell_word(text: str) -> str:
    if text.isprintable():
        return shlex.quote(text)
    return "$'" + to_printable(text.replace("\\", "\\\\")).replace("'", "\\'") + "'"  # as bash reads it


def split_item(text: str, mark: str = ",") -> tuple[str, str | None]:
    """Split a text behind its first name, which is in quotes if it holds the mark, as in CSV.

    Return the name, and the text behind the mark or None: `"a,b",c` becomes a,b and c.
    """
    if found := re.match(rf'"((?:[^"]|"")*)"(?:{mark}|\Z)', text):
        return found[1].replace('""', '"'), text[found.end() :] if text[found.end() - 1] == mark else None
    name, _, rest = text.partition(mark)
    if not name or name.startswith('"'):
        raise OptionValueError(f"{text!r}: expected a name, such as age; a name with {mark} is in quotes, as in CSV")
    return name, rest if mark in text else None


class Name(str):
    """A name that a flag gave, without its quotes."""


def read_name(text: Any) -> Any:
    """Read the only name of a flag, which may be in quotes as in a list: `a,b` or `"a,b"`."""
    if not isinstance(text, str):
        raise OptionValueError(f"{text!r} is not a text")
    found = None if isinstance(text, Name) else re.fullmatch('"((?:[^"]|"")*)"', text)
    return Name(found[1].replace('""', '"')) if found else text


def split_names(text: str) -> tuple[str, ...]:
    """Split names as one line of CSV has them: `a,b,"c,d"`."""
    first, rest = split_item(text)
    names = [first]
    while rest is not None:
        name, rest = split_item(rest)
        names.append(name)
    return tuple(names)


def items_of(value: Any) -> Iterable[Any]:
    """Return the items of a value that may repeat: the pairs of a dictionary, or a text as the only item."""
    return value.items() if isinstance(value, dict) else (value,) if isinstance(value, str) else value


def split_pairs(given: Any, example: str, is_listed: bool = False, is_word: bool = False) -> list[tuple[str, Any]]:
    """Return pairs of texts such as `age=7` or `"a=b"=7`, of pairs or a mapping.

    If `is_listed`, a text is several pairs with commas between them. The first = separates, or before a word the last.
    `example` is for the message about another text.
    """
    pairs = []
    for item in items_of(given):
        if not isinstance(item, str):
            pairs.append(tuple(item))
            continue
        rest: str | None = item
        while rest is not None:
            name, value, rest = _split_pair(rest, is_listed, is_word)
            if value is None:
                raise OptionValueError(f"{item!r} is not {example}")
            pairs.append((name, value))
    return pairs


def _split_pair(text: str, is_listed: bool, is_word: bool) -> tuple[str, str | None, str | None]:
    if is_word and not text.startswith('"'):
        head, comma, rest = text.partition(",") if is_listed else (text, "", "")
        name, _, word = head.rpartition("=")
        return name, word if name else None, rest if comma else None
    name, value = split_item(text, "=")
    if not is_listed or not value:
        return name, value, None
    return (name, None, None) if "," in name and not text.startswith('"') else (name, *split_item(value))
