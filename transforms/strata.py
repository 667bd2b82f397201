"""Classes in splits: cut exactly, or with whole groups as even as these allow: --stratify_by and --group_by."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import apache_beam as beam
import numpy as np

from shardmill.text import plural
from shardmill.transforms.execution.running import INLINE, Threads
from shardmill.transforms.options.job_options import Fractions, SplitOptions
from shardmill.transforms.shards.balance import assign_splits, cut_stratum, split_thresholds
from shardmill.transforms.shards.cuts import DivideKeys, FindExampleCuts
from shardmill.transforms.shards.divisions import Cuts, Division, Divisions, Grouped, count_keys, divide_distinct_keys

_MOST_MOVES = 256  # before all groups are looked at again, as most of the others do not move then
_LEAST_GAIN = 1e-9  # for which a group moves: about the square of a share of a class
_LEAST_SHARE = 0.001  # of a class that is in another split than it should be: less is not said


def cut_strata(
    split: SplitOptions, group: Callable[[Any], Grouped], threads: Threads = INLINE, has_key_examples: bool = False
) -> beam.PTransform[Any, Divisions]:
    """Return a transform that divides classes among splits: keys of batches or runs by class -> one Divisions.

    Each class is cut exactly; with --group_by, groups stay whole. With `has_key_examples`, a key is one example.
    """
    splits = split.splits or ()
    ranks_of = partial(cut_stratum, [fraction for _, fraction in splits])
    if split.group_by is None and not has_key_examples:
        return FindExampleCuts(group, ranks_of, threads)
    by_group = partial(divide_groups, splits, split.stratify_by or "")
    divide = by_group if split.group_by is not None else partial(divide_distinct_keys, ranks_of)
    return DivideKeys(partial(count_keys, group), divide, threads)


@dataclass(frozen=True, slots=True, eq=False)
class GroupCuts(Cuts):
    """The parts of whole groups: those of their hashes, but for the groups `keys`, whose parts are `ties`."""

    thresholds: np.ndarray  # first hash of every part but the first: uint64, shape (parts - 1,)

    def find_parts(self, keys: np.ndarray, ties: np.ndarray) -> np.ndarray:
        """Return the part of the group of each key: int64, shape (n,)."""
        parts, index = assign_splits(keys, self.thresholds), np.searchsorted(self.keys, keys)
        has_moved = np.searchsorted(self.keys, keys, side="right") > index
        parts[has_moved] = self.ties[index[has_moved]]
        return parts


def divide_groups(splits: Fractions, stratify_by: str, gathered: Grouped) -> Divisions:
    """Assign whole groups to splits, given their hashes and numbers of examples by class, in any order.

    Groups begin in the splits of their hashes, and those move by which classes become most even. So classes are never
    less even than by hashes, and most groups keep their split when the data grow.
    """
    names, parts = sorted(gathered), len(splits)
    if not names:
        return {}
    found = np.repeat(np.arange(len(names)), [len(gathered[name][0]) for name in names])
    keys, groups = np.unique(np.concatenate([gathered[name][0] for name in names]), return_inverse=True)
    pairs, which = np.unique(groups * len(names) + found, return_inverse=True)
    counts = np.bincount(which, np.concatenate([gathered[name][1] for name in names]))
    groups, classes = np.divmod(pairs, len(names))
    fractions = [fraction for _, fraction in splits]
    thresholds, shares = split_thresholds(fractions), counts / np.bincount(classes, counts)[classes]
    drawn = assign_splits(keys, thresholds)
    best = _even_out(groups, classes, shares, np.array(fractions, np.float64), drawn)
    table = np.bincount(classes * parts + best[groups], counts, len(names) * parts).reshape(-1, parts)
    notices = tuple(_describe_evenness(splits, stratify_by, names, table, np.bincount(classes)))
    cuts = GroupCuts(keys[best != drawn], best[best != drawn], thresholds)
    divided = (Division(int(sum(each)), cuts, notices=notices) for each in table)
    return OrderedDict(zip(names, divided, strict=True))  # no dict, of which Beam would encode the cuts for each class


def _even_out(
    groups: np.ndarray, classes: np.ndarray, shares: np.ndarray, fractions: np.ndarray, parts: np.ndarray
) -> np.ndarray:
    """Move groups to where classes become more even until no group gains; return the parts of all groups.

    An entry says that a group has a share of a class: `groups`, ascending, `classes` and `shares` have the shape (n,).
    How uneven the classes are is the sum of the squares by which their shares miss `fractions`, each by its fraction.
    """
    parts, number = parts.copy(), len(fractions)
    excess = np.bincount(classes * number + parts[groups], shares, (classes.max() + 1) * number)
    excess = excess.reshape(-1, number) - fractions
    squares, sizes = np.bincount(groups, shares**2), np.bincount(groups)
    ends = np.append(0, np.cumsum(sizes))

    def find_changes(first: int, stop: int) -> np.ndarray:
        """Return how much more uneven classes would be with each group of a range, alone, in each part."""
        rows, own, square = slice(ends[first], ends[stop]), parts[first:stop, None], squares[first:stop, None]
        index, columns = groups[rows] - first, excess[classes[rows]].T
        sums = np.stack([np.bincount(index, shares[rows] * column, stop - first) for column in columns], axis=1)
        changes = (square - 2 * np.take_along_axis(sums, own, axis=1)) / fractions[own]
        changes = changes + (square + 2 * sums) / fractions
        np.put_along_axis(changes, own, 0, axis=1)
        return changes

    while (gains := -find_changes(0, len(sizes)).min(axis=1)).max() > _LEAST_GAIN:
        least = gains.max() / 2  # few groups move this way: first those by which much is gained
        some = np.flatnonzero(gains >= least)
        for group in some[np.argsort(-gains[some], kind="stable")[:_MOST_MOVES]]:
            (changes,) = find_changes(group, group + 1)  # again, since others have moved
            if -changes.min() >= least:
                rows = slice(ends[group], ends[group + 1])
                excess[classes[rows], parts[group]] -= shares[rows]
                parts[group] = changes.argmin()
                excess[classes[rows], parts[group]] += shares[rows]
    return parts


def _describe_evenness(
    splits: Fractions, stratify_by: str, names: Sequence[str], table: np.ndarray, groups: np.ndarray
) -> Iterator[str]:
    """Yield notices of classes that whole groups keep from their fractions of the splits, or from some splits."""
    totals = table.sum(axis=1, keepdims=True)
    gaps = np.abs(table - totals * np.array([fraction for _, fraction in splits], np.float64))
    few, shares = np.flatnonzero(groups < len(splits)), gaps / totals
    missed = ((gaps > 0.999) & (shares > _LEAST_SHARE)).any(axis=1)  # else rounded as without groups
    if missed.any():
        row, column = np.unravel_index((shares * missed[:, None]).argmax(), gaps.shape)
        (split, fraction), share = splits[column], table[row, column] / totals[row, 0]
        yield (
            f"--stratify_by {stratify_by} with whole groups: {plural(missed.sum(), 'class misses', 'classes miss')} the"
            f" fractions of --splits by more than {_LEAST_SHARE:.1%}; the farthest is {names[row]!r}, of which {split}"
            f" has {share:.1%} in place of {float(fraction):.1%}"
        )
    if len(few):
        least = few[groups[few].argmin()]
        yield (
            f"--stratify_by {stratify_by}: {plural(len(few), 'class is', 'classes are')} in fewer groups than there are"
            f" splits, so not in all splits, such as {names[least]!r} in {plural(groups[least], 'group')}"
        )
