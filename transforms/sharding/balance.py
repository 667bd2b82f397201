"""Shard arithmetic: how many shards a split gets, and at which ranks of its key order they are cut."""

from dataclasses import dataclass

import numpy as np

from shardmill.transforms.options.shards import MAX_SHARDS


@dataclass(frozen=True, slots=True)
class ShardCount:
    """How many shards a split gets: by number, or by the size in bytes that one should have."""

    number: int | None = None
    size_bytes: int | None = None

    def __post_init__(self) -> None:
        if (self.number is None) == (self.size_bytes is None):
            raise ValueError("expected either a number of shards or a size in bytes")

    def resolve(self, examples: int, size_bytes: int) -> int:
        """Shards for a split of `examples` examples and `size_bytes` bytes: none of them empty, none for an empty
        split."""
        if self.number is not None:
            wanted = self.number
        else:
            assert self.size_bytes is not None
            wanted = -(-size_bytes // self.size_bytes)
        return min(max(wanted, 1), examples, MAX_SHARDS)


def example_cuts(examples: int, shards: int) -> list[int]:
    """The shards - 1 ranks that cut `examples` examples into shards that differ by at most one."""
    return [index * examples // shards for index in range(1, shards)]


def byte_cuts(sizes: np.ndarray, shards: int) -> list[int]:
    """The shards - 1 ranks that cut a sequence into runs whose bytes differ by at most the largest size.

    Such cuts exist for every sequence (Bárány and Grinberg, "Block partitions of sequences", 2013). For a lower bound x
    on a run and m = max(sizes), the ends of the j-th run that keep every run within [x, x + m] are all the prefix sums
    between a lowest and a highest one, since consecutive prefix sums are at most m apart. The largest x whose lowest
    chain does not pass the total has the total within reach, so a bisection on x and one walk back give the cuts.

    Args:
      sizes: int64, shape (n,), positive, in key order.
      shards: from 1 to n.
    """
    prefix = np.concatenate(([0], np.cumsum(sizes, dtype=np.int64)))
    total, largest = int(prefix[-1]), int(sizes.max(initial=0))
    low, high = 0, total // shards
    while low < high:
        middle = (low + high + 1) // 2
        if _lowest_chain(prefix, shards, middle)[-1] <= total:
            low = middle
        else:
            high = middle - 1
    lowest, highest = _lowest_chain(prefix, shards, low), _highest_chain(prefix, shards, low + largest)
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


def _lowest_chain(prefix: np.ndarray, shards: int, least: int) -> list[int]:
    """The smallest prefix sums at which runs of at least `least` bytes can end; past the total: total + 1."""
    chain, position = [0], 0
    for _ in range(shards):
        rank = int(np.searchsorted(prefix, position + least, side="left"))
        position = int(prefix[rank]) if rank < len(prefix) else int(prefix[-1]) + 1
        chain.append(position)
    return chain


def _highest_chain(prefix: np.ndarray, shards: int, most: int) -> list[int]:
    """The largest prefix sums at which runs of at most `most` bytes can end."""
    chain, position = [0], 0
    for _ in range(shards):
        position = int(prefix[int(np.searchsorted(prefix, position + most, side="right")) - 1])
        chain.append(position)
    return chain
