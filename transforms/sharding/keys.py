"""Order keys and splits: pure functions of an example's identity, so neither moves as the data grows.

Hashes are xxh3_64 (https://xxhash.com), seeded. Two seeds, because reshuffling must not move an example from
training to test.
"""

from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
import xxhash

_TIE_SEED = 0x9E3779B97F4A7C15  # any constant that no user gives as a seed
_FEW = 4  # bounds: to compare all keys with each is faster than to search them for every key
_SPLIT_SALT = 0x5851F42D4C957F2D  # so that equal seeds do not correlate the split with the order


def hash_strings(values: Iterable[str], seed: int) -> np.ndarray:
    """xxh3_64 of each string's UTF-8 bytes: uint64, shape (n,)."""
    digest = xxhash.xxh3_64_intdigest
    return np.array([digest(value.encode(), seed) for value in values], dtype=np.uint64)


def order_keys(identities: Sequence[str], positions: Sequence[str], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Order keys (key, tie), both uint64 of shape (n,): key from the identity, tie from the position.

    Examples of one identity (several manifest rows on one image) keep apart by their tie.
    """
    return hash_strings(identities, seed), hash_strings(positions, seed ^ _TIE_SEED)


def split_salt(seed: int) -> int:
    """The seed of the hashes that decide splits."""
    return seed ^ _SPLIT_SALT


def split_keys(groups: Sequence[str], seed: int) -> np.ndarray:
    """What decides the split: uint64, shape (n,), equal for members of a group."""
    return hash_strings(groups, split_salt(seed))


def thresholds(fractions: Sequence[Fraction]) -> np.ndarray:
    """Upper bounds, exclusive, of each split but the last on the 64-bit ring: uint64, shape (splits - 1,)."""
    bounds, total = [], Fraction(0)
    for fraction in fractions[:-1]:
        total += fraction
        bounds.append(min(int(total * (1 << 64)), (1 << 64) - 1))
    return np.array(bounds, dtype=np.uint64)


def assign(keys: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """The index of the split of each key: int64, shape (n,)."""
    if len(bounds) > _FEW:
        return np.searchsorted(bounds, keys, side="right")
    splits = np.zeros(len(keys), np.int64)
    for bound in bounds:
        splits += keys >= bound
    return splits


def stratum_cuts(size: int, fractions: Sequence[Fraction]) -> list[int]:
    """Ranks at which a class of `size` examples passes from each split to the next: exact, rounded half up."""
    cuts, total = [], Fraction(0)
    for fraction in fractions[:-1]:
        total += fraction
        cuts.append(min(int(total * size + Fraction(1, 2)), size))
    return cuts
