"""Words of a user that nothing knows."""

import difflib
from collections.abc import Iterable


def meant(word: str, known: Iterable[str]) -> str:
    """What an unknown word may be meant to be, or else all that are known."""
    names = list(known)
    near = difflib.get_close_matches(word, names, 1)
    return f"did you mean {near[0]}?" if near else f"expected {'one of ' if len(names) > 1 else ''}{', '.join(names)}"
