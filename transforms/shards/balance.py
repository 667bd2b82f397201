"""Record keys, the number of shards, and how evenly records fill them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from shardmill.data import spans
from shardmill.transforms.columns.arrow import narrow_codes, text_buffers
from shardmill.transforms.options.job_options import MAX_SHARDS


@dataclass(frozen=True, slots=True)
class ShardCount:
    """The number of shards of a split, given directly or as the size in bytes of each shard."""

    number: int | None = None
    size_bytes: int | None = None

    def __post_init__(self) -> None:
        if (self.number is None) == (self.size_bytes is None):
            raise ValueError("expected either a number of shards or a size in bytes")

    def resolve(self, examples: int, size_bytes: int) -> int:
        """Return the number of shards, none of them empty, for examples of `size_bytes` in all."""
        wanted = self.number if self.size_bytes is None else -(-size_bytes // self.size_bytes)
        return min(max(wanted or 1, 1), examples, MAX_SHARDS)


def example_cuts(examples: int, shards: int) -> list[int]:
    """Return the shards - 1 ranks that divide `examples` examples into shards whose sizes differ by at most one."""
    return [index * examples // shards for index in range(1, shards)]


def byte_cuts(sizes: np.ndarray, shards: int) -> list[int]:
    """Return the shards - 1 ranks that divide a sequence into parts whose bytes differ by at most the largest size.

    Such cuts exist for every sequence (Bárány and Grinberg, "Block partitions of sequences", 2013). Take a lower bound
    x on the size of a part, and m = max(sizes). Consecutive prefix sums are at most m apart. So the ends of the j-th
    part that keep every part within [x, x + m] are all the prefix sums between a lowest and a highest one. For the
    largest x whose lowest chain does not pass the total, the total is reachable. So a bisection on x and one walk back
    give the cuts. `sizes` are positive int64 of shape (n,), in key order; `shards` is from 1 to n.
    """
    prefix = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    total, largest = int(prefix[-1]), int(sizes.max(initial=0))
    low, high = 0, total // shards
    while low < high:
        middle = (low + high + 1) // 2
        if _chain_lowest(prefix, shards, middle)[-1] <= total:
            low = middle
        else:
            high = middle - 1
    lowest, highest = _chain_lowest(prefix, shards, low), _chain_highest(prefix, shards, low + largest)
    cuts, end = [], total
    for index in range(shards - 1, 0, -1):
        # Of the ends that reach `end` and can be reached, the one nearest to even.
        floor = max(lowest[index], end - low - largest)
        target = min(max(total * index // shards, floor), end - low, highest[index])
        rank = int(np.searchsorted(prefix, target, side="right")) - 1
        if prefix[rank] < floor:
            rank += 1
        cuts.append(rank)
        end = int(prefix[rank])
    return cuts[::-1]


def _chain_lowest(prefix: np.ndarray, shards: int, least: int) -> list[int]:
    """Return the smallest prefix sums at which parts of `least` bytes or more can end; total + 1 past the end."""
    chain, position = [0], 0
    for _ in range(shards):
        rank = int(np.searchsorted(prefix, position + least, side="left"))
        position = int(prefix[rank]) if rank < len(prefix) else int(prefix[-1]) + 1
        chain.append(position)
    return chain


def _chain_highest(prefix: np.ndarray, shards: int, most: int) -> list[int]:
    """Return the largest prefix sums at which parts of at most `most` bytes can end."""
    chain, position = [0], 0
    for _ in range(shards):
        position = int(prefix[int(np.searchsorted(prefix, position + most, side="right")) - 1])
        chain.append(position)
    return chain


ShardKey = tuple[str, int]  # (split, shard index)


def cut_into_shards(count: Callable[[str, int, int], int], split: str, examples: int, size_bytes: int) -> list[int]:
    """Return the ranks at which the shards of a split begin, `count` of them, equal in examples."""
    return example_cuts(examples, count(split, examples, size_bytes))


def shard_count(counts: Mapping[str, ShardCount], split: str, examples: int, size_bytes: int) -> int:
    """Return the number of shards of a split; `counts[""]` holds for splits that `counts` does not name."""
    return counts.get(split, counts[""]).resolve(examples, size_bytes)


def estimate_shard_count(counts: Mapping[str, ShardCount], size_bytes: int) -> int:
    """Estimate the number of shards from the input size; the splits that `counts` does not name count as one."""
    return sum(count.resolve(size_bytes, size_bytes) for count in counts.values())


_TIE_SEED = 0x9E3779B97F4A7C15  # any constant that no user gives as a seed
_FEW = 4  # bounds: to compare all keys with each is faster than to search them for every key
_SPLIT_SALT = 0x5851F42D4C957F2D  # so that equal seeds do not correlate the split with the order


def hash_strings(values: pa.Array, seed: int) -> np.ndarray:
    """Return xxh3_64 of the UTF-8 bytes of each string of an Arrow array or list: uint64, shape (n,)."""
    data, offsets = text_buffers(pa.array(values, pa.string()))
    return spans.hashes(data, offsets[:-1], offsets[1:], seed)


def order_keys(identities: pa.Array, positions: pa.Array, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return order keys (key, tie), both uint64 of shape (n,): the tie distinguishes examples of one identity."""
    return hash_strings(identities, seed), hash_strings(positions, seed ^ _TIE_SEED)


def split_salt(seed: int) -> int:
    """Return the seed of the hashes that determine splits."""
    return seed ^ _SPLIT_SALT


def split_keys(groups: pa.Array, seed: int) -> np.ndarray:
    """Return the hashes that determine splits, equal for members of a group: uint64, shape (n,)."""
    return hash_strings(groups, split_salt(seed))


def split_thresholds(fractions: Sequence[Fraction]) -> np.ndarray:
    """Return the exclusive upper bound of each split but the last in the 64-bit range: uint64, shape (splits - 1,)."""
    bounds = [min(int(total * (1 << 64)), (1 << 64) - 1) for total in accumulate(fractions[:-1])]
    return np.array(bounds, dtype=np.uint64)


def assign_splits(keys: np.ndarray, bounds: np.ndarray) -> np.ndarray:
    """Return the index of each key's split: int64, shape (n,)."""
    if len(bounds) > _FEW:
        return np.searchsorted(bounds, keys, side="right")
    splits = np.zeros(len(keys), np.int64)
    for bound in bounds:
        splits += keys >= bound
    return splits


def cut_stratum(fractions: Sequence[Fraction], stratum: Any, size: int, size_bytes: int = 0) -> list[int]:
    """Return the ranks at which a class of `size` examples passes to the next split: exact, rounded half up."""
    return [min(int(total * size + Fraction(1, 2)), size) for total in accumulate(fractions[:-1])]


def count_shared_keys(groups: Sequence[np.ndarray]) -> list[int]:
    """Return, for each group, how many of its distinct keys exactly one earlier group has; so a key counts once."""
    each = [np.unique(keys) for keys in groups]
    every = np.concatenate([*each, np.zeros(0, np.uint64)])
    order = np.argsort(every, kind="stable")  # equal keys stay in the order of their groups
    keys, of_group = every[order], np.repeat(np.arange(len(each)), [len(keys) for keys in each])[order]
    is_first = np.diff(keys, prepend=~keys[:1]) != 0
    is_second = ~is_first & np.append(False, is_first[:-1])
    return np.bincount(of_group[is_second], minlength=len(each)).tolist()


def rows_by_group(codes: np.ndarray, groups: int) -> list[np.ndarray]:
    """Return the rows of each group, ascending, as int64 arrays; `codes` is the group of each row."""
    codes = narrow_codes(codes, groups)
    order = np.argsort(codes, kind="stable")
    bounds = np.cumsum(np.bincount(codes, minlength=groups))[: groups - 1]
    return np.split(order, bounds)
