"""Parts of a tar file on a local disk without the data of members that nobody is going to look at.

Images are nearly all of a data set's tar files. Where samples begin is in headers alone, and the types of columns are
in what is beside images: these stay where they are, and do not go through memory once more.
"""

import io
from typing import Any

from shardmill.transforms.formats.suffixes import IMAGE_SUFFIXES

try:
    from shardmill._native import read_heads as _read_heads
except ImportError:  # not compiled

    def _read_heads(descriptor: int, base: int, target: Any, held: int, at: int, suffixes: str | None) -> int:
        """As if it were no file that can be read so."""
        return -1


ANY, IMAGES = None, f"|{IMAGE_SUFFIXES}|"  # members whose data is left out, by their suffixes


def read_heads(
    stream: io.BufferedIOBase, base: int, target: memoryview, held: int, at: int, unread: str | None
) -> int | None:
    """Fill `target` with a part of a file, but for the data of some members, whose bytes mean nothing.

    Args:
      stream: of the file, which stands behind what was read.
      base: where `target` begins in the file.
      target: to be filled.
      held: how many of its first bytes are there already.
      at: where in `target` a header is.
      unread: ANY or IMAGES: of such members the data is left out, where their headers are plain.

    Returns:
      How many bytes were added, less than there was room for at the end of the file; None if it has to be read.
    """
    raw = getattr(stream, "raw", None)
    if not isinstance(raw, io.FileIO):
        return None
    filled = _read_heads(raw.fileno(), base, target, held, at, unread)
    if filled < 0:
        return None
    stream.seek(base + filled)
    return filled - held
