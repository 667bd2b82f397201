"""Exact quantiles of any number of float32 in little memory: two passes over all of them, by the two halves of their
bits."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

_HALF = 16  # bits
_SIGN = np.uint32(1 << 31)

Keys = NDArray[np.uint32]


def keys_of(numbers: NDArray[np.float32]) -> Keys:
    """Integers that are ordered as the numbers are."""
    bits = np.ascontiguousarray(numbers).view(np.uint32)
    return np.where(bits & _SIGN, ~bits, bits | _SIGN)


def numbers_of(keys: Keys) -> NDArray[np.float32]:
    """The numbers of such integers."""
    bits = np.where(keys & _SIGN, keys ^ _SIGN, ~keys)
    return bits.astype(np.uint32).view(np.float32)


def boundaries(number: int, read: Callable[[], Iterable[Keys]]) -> tuple[float, ...]:
    """What parts all numbers into `number` buckets of about equal size: of n sorted numbers those at the places
    n * i // number, as tft.quantiles finds them as long as it is exact.

    Args:
      number: of buckets.
      read: the keys of all numbers, in any order and parts; called twice.

    Returns:
      one less than there are buckets; none of no numbers.
    """
    high = np.zeros(1 << _HALF, np.int64)
    for keys in read():
        high += np.bincount(keys >> np.uint32(_HALF), minlength=1 << _HALF)
    total = int(high.sum())
    if not total:
        return ()
    ends = np.cumsum(high)
    ranks = [total * index // number for index in range(1, number)]
    places = [int(np.searchsorted(ends, rank, "right")) for rank in ranks]
    low = _low_halves(sorted(set(places)), read)
    within = {place: np.cumsum(counts) for place, counts in low.items()}
    found = [
        place << _HALF | int(np.searchsorted(within[place], rank - int(ends[place] - high[place]), "right"))
        for rank, place in zip(ranks, places, strict=True)
    ]
    return tuple(numbers_of(np.array(found, np.uint32)).tolist())


def _low_halves(places: Sequence[int], read: Callable[[], Iterable[Keys]]) -> dict[int, NDArray[np.int64]]:
    """How many keys have each lower half, of those whose upper half is one of `places`."""
    counts = {place: np.zeros(1 << _HALF, np.int64) for place in places}
    wanted = np.zeros(1 << _HALF, bool)
    wanted[places] = True
    for keys in read():
        mine = keys[wanted[keys >> np.uint32(_HALF)]]
        upper = mine >> np.uint32(_HALF)
        for place in np.unique(upper).tolist():
            lower = mine[upper == place] & np.uint32((1 << _HALF) - 1)
            counts[place] += np.bincount(lower, minlength=1 << _HALF)
    return counts
