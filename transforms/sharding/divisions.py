"""How groups of keys are divided into parts, strata into splits and splits into shards."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from shardmill.transforms.sharding import balance
from shardmill.transforms.sharding.key_histogram import Cuts, Histogram, to_cuts
from shardmill.transforms.tokens.pack import Share, shares, tokens_of

# The keys of a batch or a run by group: group -> (keys, ties, sizes), arrays of shape (n,).
Grouped = dict[Any, tuple[np.ndarray, np.ndarray, np.ndarray]]


@dataclass(frozen=True, slots=True, eq=False)
class Division:
    """How one group is divided.

    Attributes:
      examples: that it has.
      size_bytes: theirs.
      cuts: where parts begin.
      shares: what each part has of the group's tokens, where these are packed; see shardmill.transforms.tokens.pack.
      shared: how many of its keys exactly one group before it has, too, where that is counted: the sum over groups is
        that of the keys that are in several.
    """

    examples: int
    size_bytes: int
    cuts: Cuts
    shares: tuple[Share, ...] = ()
    shared: int = 0

    @property
    def parts(self) -> int:
        """The number of parts; none of an empty group."""
        return len(self.cuts.keys) + 1 if self.examples else 0


Divisions = dict[Any, Division]


def divide(histograms: dict[Any, Histogram], picked: Iterable[tuple[Any, tuple[int, int]]]) -> Divisions:
    """The divisions of groups by their histograms and the (group, (key, tie)) at which each is cut."""
    cuts: dict[Any, list[tuple[int, int]]] = {group: [] for group in histograms}
    for group, pair in picked:
        cuts[group].append(pair)
    return {
        group: Division(counted.total, counted.size_bytes, to_cuts(cuts[group]))
        for group, counted in histograms.items()
    }


def divide_by_blocks(keys: np.ndarray, ties: np.ndarray, sizes: np.ndarray, parts: int, block: int) -> Division:
    """The division of one group of packed documents into `parts` whose blocks of so many tokens differ by one at most,
    from all its keys, ties and sizes, each of shape (n,)."""
    order = np.lexsort((ties, keys))
    first, each = shares(tokens_of(sizes[order]), block, parts)
    at = order[np.array(first, np.int64)]
    cuts = to_cuts(zip(keys[at].tolist(), ties[at].tolist(), strict=True))
    return Division(sum(share.blocks for share in each), int(sizes.sum()), cuts, tuple(each))


def divide_by_keys(keys: np.ndarray, rows: np.ndarray, sizes: np.ndarray, parts: int, by_bytes: bool) -> Division:
    """The division of one group into `parts`, each of whole keys, whose keys, or their bytes, differ by those of one at
    most; `keys` may be there several times, each with the bytes of its `rows`, all of shape (n,)."""
    every, which = np.unique(keys, return_inverse=True)
    parts = min(parts, len(every))
    weights = np.bincount(which, sizes, len(every)).astype(np.int64)
    ranks = balance.byte_cuts(weights, parts) if by_bytes else balance.example_cuts(len(every), parts)
    cuts = to_cuts((key, 0) for key in every[np.array(ranks, np.int64)].tolist())
    return Division(len(every), int(sizes.sum()), cuts)


def divide_by_bytes(keys: np.ndarray, ties: np.ndarray, sizes: np.ndarray, parts: int) -> Division:
    """The division of one group into `parts` by bytes, from all its keys, ties and sizes, each of shape (n,)."""
    order = np.lexsort((ties, keys))
    at = order[np.array(balance.byte_cuts(sizes[order], parts), np.int64)]
    cuts = to_cuts(zip(keys[at].tolist(), ties[at].tolist(), strict=True))
    return Division(len(sizes), int(sizes.sum()), cuts)
