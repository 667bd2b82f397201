"""Parts of many files at once.

Each system call gives the interpreter away, and a thread waits longer to have it back than for a small part of a file
that is in memory: parts of local files are read in one call of the extension module.
"""

from typing import Any

from shardmill.records.spans import Places
from shardmill.transforms.stores import storage

try:
    from shardmill._native import read_ranges as _read_some
except ImportError:  # not compiled

    def _read_some(paths: list[str], offsets: Places, target: Any, places: Places) -> int:
        """As if the first were to be read alone."""
        return 0


def read_ranges(paths: list[str], offsets: Places, target: Any, places: Places) -> None:
    """Fill `target[places[n]:places[n + 1]]` from each of n paths at its offset.

    Args:
      paths: n of them, which may be the same.
      offsets: int64, shape (n,).
      target: uint8, shape (m,), to be written to.
      places: int64, shape (n + 1,), ascending, m at most.

    Raises:
      OSError: one cannot be read; EOFError if it ends before.
    """
    done = _read_some(paths, offsets, target, places) if all(map(storage.is_local, paths)) else 0
    for n in range(done, len(paths)):
        storage.read_into(paths[n], int(offsets[n]), memoryview(target)[places[n] : places[n + 1]])
