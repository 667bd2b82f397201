"""Text for messages and terminals."""

import unicodedata

_MAX_QUOTED = 60  # characters of a value: enough to know it by, and a sentence stays one
# Joiners, which are format characters but belong to words of Persian and Hindi, and to emoji.
_JOINERS = "\u200c\u200d"


def to_printable(text: str) -> str:
    r"""Return `text` on one line, with control characters, line breaks, direction marks and lone surrogates escaped as
    `\x1b`.

    The function is idempotent.
    """
    if text.isprintable():
        return text
    return "".join(character if _is_shown(character) else repr(character)[1:-1] for character in text)


def shorten(text: str) -> str:
    """Return the first 60 characters of a value, to quote in a message."""
    return text[:_MAX_QUOTED]


def _is_shown(character: str) -> bool:
    is_space = unicodedata.category(character) == "Zs"  # of other widths, too
    return is_space or character.isprintable() or character in _JOINERS
