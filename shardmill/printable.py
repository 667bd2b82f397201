"""Text from data as a terminal may be given it: what would move its cursor, ring or hide what follows is shown, not
sent."""

import unicodedata

# Joiners, which are format characters but belong to words of Persian and Hindi, and to emoji.
_JOINERS = "\u200c\u200d"


def printable(text: str) -> str:
    r"""`text` on one line: controls and line breaks, marks of direction and halves of characters are written as `\x1b`.

    Doing it twice changes nothing more.
    """
    return text if text.isprintable() else "".join(sign if _is_shown(sign) else repr(sign)[1:-1] for sign in text)


def _is_shown(sign: str) -> bool:
    return sign.isprintable() or sign in _JOINERS or unicodedata.category(sign) == "Zs"  # spaces of other widths
