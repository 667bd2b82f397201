"""Which hashes of 64 bits differ in a few bits at most: every such pair, by multi-index hashing (Norouzi, Punjani and
Fleet, "Fast search in Hamming space with multi-index hashing", 2012).

Of D + 2 bands of bits, D differing bits leave two untouched: whatever is near stands together in at least one of the
orders by two bands. What stands together is compared with what follows it, so that memory stays that of the hashes.
"""

from collections.abc import Iterator
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from shardmill.transforms.contents.hashes import Hashes

Rows = NDArray[np.int64]
DISTANCE = 4  # bits, at most, in which hashes of pictures that look alike differ
_BITS = 64
_BANDS = 6  # at least: of two, 22 bits
_ROW_BITS = 40  # of a row's number, beside the 22 of its key


def distances(one: Hashes, other: Hashes) -> NDArray[np.uint8]:
    """In how many bits each two hashes differ: shape (n,)."""
    bits = one ^ other
    for shift, mask in ((1, 0x5555555555555555), (2, 0x3333333333333333), (4, 0x0F0F0F0F0F0F0F0F)):
        low = np.uint64(mask)
        bits = (bits & low) + ((bits >> np.uint64(shift)) & low)
    return ((bits * np.uint64(0x0101010101010101)) >> np.uint64(56)).astype(np.uint8)


def near_pairs(hashes: Hashes, distance: int = DISTANCE) -> Iterator[tuple[Rows, Rows, NDArray[np.uint8]]]:
    """Every two of some hashes that differ in `distance` bits or fewer, each pair once, some at a time.

    Args:
      hashes: no two of them equal.
      distance: in bits.

    Yields:
      The rows of the one, of the other, and their distances: shape (n,) each.
    """
    number = max(distance + 2, _BANDS)
    edges = [round(band * _BITS / number) for band in range(number + 1)]
    bands = list(pairwise(edges))
    for first, second in combinations(range(len(bands)), 2):
        low, high = bands[second]
        keys = (_bits(hashes, bands[first]) << np.uint64(high - low)) | _bits(hashes, bands[second])
        # Key and row in one number: sorted as they are, in a third of the time that an order of keys takes
        keys = (keys << np.uint64(_ROW_BITS)) | np.arange(len(hashes), dtype=np.uint64)
        keys.sort()
        order = (keys & np.uint64((1 << _ROW_BITS) - 1)).astype(np.int64)
        ordered, keys = hashes[order], keys >> np.uint64(_ROW_BITS)
        rows, step = np.flatnonzero(keys[1:] == keys[:-1]), 1
        while len(rows):
            one, other = ordered[rows], ordered[rows + step]
            apart = distances(one, other)
            near = np.flatnonzero(apart <= distance)
            near = near[_meet_first(one[near] ^ other[near], bands, first, second)]
            if len(near):
                yield order[rows[near]], order[rows[near] + step], apart[near]
            step += 1
            rows = rows[: np.searchsorted(rows, len(order) - step)]
            rows = rows[keys[rows] == keys[rows + step]]


def _bits(hashes: Hashes, band: tuple[int, int]) -> Hashes:
    start, stop = band
    return (hashes >> np.uint64(start)) & np.uint64((1 << (stop - start)) - 1)


def _meet_first(apart: Hashes, bands: list[tuple[int, int]], first: int, second: int) -> NDArray[np.bool_]:
    """Whether `first` and `second` are the first two bands without a difference: in later orders the pair is not met
    anew."""
    found = np.ones(len(apart), bool)
    for number, band in enumerate(bands[:second]):
        if number != first:
            found &= _bits(apart, band) != 0
    return found
