"""Text for messages and terminals."""

import difflib
import unicodedata
from collections.abc import Iterable, Sequence

_MAX_QUOTED = 60  # characters of a value: enough to know it by, and a sentence stays one
# Joiners, which are format characters but belong to words of Persian and Hindi, and to emoji.
_JOINERS = "\u200c\u200d"

# The marks behind a text in the vocabularies of published language models
END_MARKS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "<|eos|>", "[EOS]", "<|im_end|>")


def to_printable(text: str) -> str:
    r"""Return `text` on one line; control characters, direction marks and lone surrogates are escaped, as `\x1b`."""
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
    """Format a count with its noun; the plural is `several`, or `one` with an `s`."""
    return f"{number:,} {one if number == 1 else several or f'{one}s'}"


def listed(words: Sequence[str], most: int, rest: str = " and {:,} more") -> str:
    """Join the first `most` words with commas; `rest` formats the number of the others, if there are any."""
    return ", ".join(words[:most]) + (rest.format(len(words) - most) if len(words) > most else "")


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
    return name if shown_line(line) is None else f"{name}, {unit} {line:,}"


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
