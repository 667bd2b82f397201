"""Text from data as a terminal may be given it: what would move its cursor, ring or hide what follows is shown, not
sent."""

import unicodedata

_QUOTED = 60  # characters of a value: enough to know it by, and a sentence stays one
# Joiners, which are format characters but belong to words of Persian and Hindi, and to emoji.
_JOINERS = "\u200c\u200d"


def printable(text: str) -> str:
    r"""`text` on one line: controls and line breaks, marks of direction and halves of characters are written as `\x1b`.

    Doing it twice changes nothing more.
    """
    if text.isprintable():
        return text
    return "".join(character if _is_shown(character) else repr(character)[1:-1] for character in text)


def beginning(text: str) -> str:
    """As much of a value as a sentence quotes: its first 60 characters."""
    return text[:_QUOTED]


def _is_shown(character: str) -> bool:
    is_space = unicodedata.category(character) == "Zs"  # of other widths, too
    return is_space or character.isprintable() or character in _JOINERS
