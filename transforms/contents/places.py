"""Where an example comes from as one integer: a hash of its file and line that can be undone by whoever knows the
files.

splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014), a bijection: no two lines of
a file share one.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from shardmill.records import spans

_GOLDEN = 0x9E3779B97F4A7C15  # 2**64 divided by the golden ratio, odd: splitmix64's increment
_MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)  # of splitmix64's finalizer, as are the shifts
_SHIFTS = (30, 27, 31)  # bits
_MASK = (1 << 64) - 1  # of 64 bits, as NumPy's integers have; Python's have as many as it takes


def place_of(name: str, lines: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The place of each of some lines of the file `name`: uint64, shape (n,)."""
    return _mixed(np.uint64(xxhash.xxh3_64_intdigest(name.encode())), lines)


def hashes_of(names: Sequence[str]) -> NDArray[np.uint64]:
    """What `places_of` takes of each of some files: uint64, shape (n,)."""
    return np.array([xxhash.xxh3_64_intdigest(name.encode()) for name in names], np.uint64)


def places_of(hashes: NDArray[np.uint64], lines: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The place of a line of each of some files, by `hashes_of` them, all at once: uint64, shape (n,)."""
    return _mixed(hashes, lines)


def _mixed(starts: Any, lines: NDArray[np.int64]) -> NDArray[np.uint64]:
    with np.errstate(over="ignore"):
        mixed = starts + lines.astype(np.uint64) * np.uint64(_GOLDEN)
        mixed = (mixed ^ (mixed >> np.uint64(_SHIFTS[0]))) * np.uint64(_MULTIPLIERS[0])
        mixed = (mixed ^ (mixed >> np.uint64(_SHIFTS[1]))) * np.uint64(_MULTIPLIERS[1])
    found: NDArray[np.uint64] = mixed ^ (mixed >> np.uint64(_SHIFTS[2]))
    return found


def find_places(places: Iterable[int], names: bytes) -> Mapping[int, tuple[str, int]]:
    """The file and the line of each of some places.

    With another file's name the inverse is any of 2^64 numbers, so the file is the one that gives the smallest line.

    Args:
      places: any.
      names: of the files, with NUL between them.
    """
    ends = np.append(spans.find(names, 0), len(names))
    starts = np.concatenate(([0], ends[:-1] + 1))
    hashes = spans.hashes(names, starts, ends)
    step = np.uint64(pow(_GOLDEN, -1, 1 << 64))
    found = {}
    for place in places:
        lines = (np.uint64(_unmixed(place)) - hashes) * step
        least = int(np.argmin(lines))
        found[place] = (names[starts[least] : ends[least]].decode(), int(lines[least]))
    return found


def _unmixed(place: int) -> int:
    """Undo what `_mixed` does to a sum of 64 bits."""
    mixed = _unshift(place, _SHIFTS[2])
    for shift, multiplier in zip(_SHIFTS[1::-1], _MULTIPLIERS[::-1], strict=True):
        mixed = _unshift(mixed * pow(multiplier, -1, 1 << 64) & _MASK, shift)
    return mixed


def _unshift(value: int, shift: int) -> int:
    """Undo x ^ x >> shift, of which three times are above 64 bits."""
    return value ^ (value >> shift) ^ (value >> 2 * shift)
