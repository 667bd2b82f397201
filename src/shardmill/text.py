"""Text for messages and terminals."""

import difflib
import re
import textwrap
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any, TextIO

_MAX_QUOTED = 60  # characters of a value: enough to know it by, and a sentence stays one
# Joiners, which are format characters but belong to words of Persian and Hindi, and to emoji.
_JOINERS = "\u200c\u200d"

# The marks behind a text in the vocabularies of published language models
END_MARKS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eos|>", "[EOS]", "<|im_end|>")


HIDDEN = "***"
_URL = re.compile(  # from its :// on; a password may hold a slash or @
    r"://(?:((?:[^\s/?#'\"]{,999}|[^\s/?#:'\"\[]{,999}:[^\s@]{,999})(?:@[^\s@'\"<>]{,999})*)@)?"
    r"([^\s?'\"<>]*)(?:\?([^\s'\"<>`\\]*[^\s'\"<>`\\:;,.)\]]))?"
)
_REFERENCE = re.compile(r"\$\{[^}]*\}")  # to an environment variable
# Parameters of URLs whose values are shown; any other value may be a secret
_SHOWN = ("host", "port", "sslmode", "charset", "driver", "connect_timeout", "application_name", "mode", "uri")


def mask_urls(value: Any) -> Any:
    """Return a text, or a list or dictionary with texts, with *** for users, passwords and parameters of URLs."""
    if isinstance(value, str):
        return _URL.sub(_mask_url, value) if "://" in value else value
    if isinstance(value, Mapping):
        return {key: mask_urls(item) for key, item in value.items()}
    return type(value)(map(mask_urls, value)) if isinstance(value, (list, tuple)) else value


def _mask_url(found: re.Match[str]) -> str:
    user, place, query = found.groups()
    name, _, password = (user or "").partition(":")
    if "?" in (user or ""):  # in which the query may have begun
        place = re.sub("&.*", f"&{HIDDEN}", place)
    is_shown = user is None or not _REFERENCE.sub("", password if name and password else user)
    text = f"://{'' if user is None else f'{user if is_shown else HIDDEN}@'}{place}"
    if query is None:
        return text
    is_web = found.string[max(found.start() - 5, 0) : found.start()].lower().endswith(("http", "https"))
    is_glob = not is_web and not re.match(r"[^/=]+=", query)  # such as gs://bucket/part-?.csv
    return f"{text}?{query if is_glob else mask_query(query)}"


def mask_query(query: str) -> str:
    """Return the parameters of a URL with *** for values that may be secret; `${NAME}` is shown."""
    pairs = (pair.partition("=") for pair in query.split("&"))
    return "&".join(
        f"{name}={value if name in _SHOWN or _REFERENCE.fullmatch(value) else HIDDEN}" if equal else HIDDEN
        for name, equal, value in pairs
    )


def to_printable(text: str) -> str:
    r"""Return `text` on one line, as `mask_urls` does; control characters, direction marks and lone surrogates are
    escaped, as `\x1b`.
    """
    text = mask_urls(text)
    if text.isprintable():
        return text
    return "".join(character if _is_shown(character) else repr(character)[1:-1] for character in text)


def is_unicode(text: str) -> bool:
    """Return True if UTF-8 can encode `text`: it has no lone surrogates, which JSON and Python can hold."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shorten(text: str) -> str:
    """Return the first 60 characters of a value, to quote in a message."""
    return text[:_MAX_QUOTED]


def plural(number: int, one: str, several: str = "") -> str:
    """Format a count with its noun; the plural is `several`, or `one` with an `s`, as in `files without suffix`."""
    several = several or re.sub(r"(?= (?:that|without|whose) )|\Z", "s", one, count=1)
    return f"{number:,} {one if number == 1 else several}"


def listed(words: Sequence[str], most: int, rest: str = " and {:,} more") -> str:
    """Join the first `most` words with commas; `rest` formats the number of the others, if there are any."""
    return ", ".join(words[:most]) + (rest.format(len(words) - most) if len(words) > most else "")


def alternatives(words: Sequence[str]) -> str:
    """Join words as a choice, for example `a, b or c`."""
    return " or ".join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def did_you_mean(word: str, known_words: Iterable[str], hint: str = "did you mean {}?") -> str:
    """Return a hint with the known word that is most similar to an unknown one; "" if none is similar."""
    near = difflib.get_close_matches(word, list(known_words), 1)
    return hint.format(near[0]) if near else ""


FIRST_UNORDERED = 1 << 39  # number of the first row among rows without an order; no file has so many lines


def shown_line(line: int | None) -> int | None:
    """Return the number of a line for a message; None for a number that only tells rows without an order apart."""
    return None if line is None or line >= FIRST_UNORDERED else line


def describe_place(name: str, line: int, unit: str = "line") -> str:
    """Return a file and line for a message; rows without an order have no number."""
    return "a row without a number" if shown_line(line) is None else f"{name}, {unit} {line:,}"


def html_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[object]], notes: Iterable[str] = ()) -> str:
    """Return a table as HTML for a notebook, with its title above and notes below; all text is escaped."""
    from html import escape  # here: only notebooks need it

    def cells(tag: str, values: Iterable[object]) -> str:
        return "".join(
            f"<{tag}>{escape(to_printable(f'{value:,}' if type(value) is int else str(value)))}</{tag}>"
            for value in values
        )

    head = f"<thead><tr>{cells('th', columns)}</tr></thead>" if columns else ""
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    table = f"<table>{head}<tbody>{body}</tbody></table>" if body else ""
    return f"<div><p><b>{escape(to_printable(title))}</b></p>{table}{cells('p', notes)}</div>"


def _is_shown(character: str) -> bool:
    is_space = unicodedata.category(character) == "Zs"  # of other widths, too
    return is_space or character.isprintable() or character in _JOINERS


_LABEL = re.compile(r"(?:shardmill: )?(?:(NOTE|warning)|error): ")
_HANGING = "  "  # before all lines of a message but the first
# Words that stay on one line: a flag with its value, and a command or a piece of code in backticks
_UNIT = re.compile(r"`[^`]*`|--\w+(?:[= ](?:'[^']*'|\"[^\"]*\"|[^\s;,]+))?")
_TIED, _UNTIED = {ord(" "): "\0", ord(";"): "\1"}, {0: " ", 1: ";"}  # neither of the two is in printable text


def fit_terminal(text: str, stream: TextIO) -> str:
    """Wrap notices, warnings and errors to a terminal, and colour their labels; other streams get `text` as it is.

    A clause that names a flag has lines of its own, and neither a flag nor a command is cut.
    """
    if not stream.isatty():
        return text
    from rich.console import Console  # which follows NO_COLOR, TERM and COLUMNS

    console = Console(file=stream)
    has_colours = console.color_system is not None and not console.no_color
    return "\n".join(_fit_line(line, console.width, has_colours) for line in text.split("\n"))


def _fit_line(line: str, columns: int, has_colours: bool) -> str:
    if (label := _LABEL.match(line)) is None:
        return line
    paragraphs: list[str] = []
    clauses = _UNIT.sub(lambda unit: unit[0].translate(_TIED), line).split("; ")
    for has_flag, group in groupby(clauses, lambda clause: "--" in clause):
        paragraphs += list(group) if has_flag else ["; ".join(list(group))]  # noqa: B031
    wrapper = textwrap.TextWrapper(columns, _HANGING, _HANGING, break_long_words=False, break_on_hyphens=False)
    fitted = "\n".join(map(wrapper.fill, paragraphs))[len(_HANGING) :].translate(_UNTIED)
    colour = f"\x1b[1;{33 if label[1] else 31}m"
    return f"{colour}{label[0].rstrip()}\x1b[0m{fitted[label.end() - 1 :]}" if has_colours else fitted
