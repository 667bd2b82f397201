"""Keys that records of several splits have: dealt out so that each meets its equals, and counted. Pure."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from transforms.sharding.divisions import Grouped

_PARTS = 256  # that keys are dealt out to by their first bits

Dealt = tuple[int, tuple[str, bytes]]  # a part, a split, and some of its keys there


def deal_out(run: Any, read: Callable[[Any], Grouped]) -> Iterator[Dealt]:
    """The different keys of a run by their first bits; `read` gives its keys by split."""
    for split, (keys, *_) in read(run).items():
        distinct = np.unique(keys)
        bounds = np.searchsorted(distinct >> np.uint64(56), np.arange(_PARTS + 1, dtype=np.uint64))
        for part in np.flatnonzero(np.diff(bounds)).tolist():
            yield part, (split, distinct[bounds[part] : bounds[part + 1]].tobytes())


def shared_keys(found: Iterable[tuple[str, bytes]]) -> int:
    """How many of the keys of a part are there with more than one split."""
    by_split: dict[str, list[np.ndarray]] = {}
    for split, keys in found:
        by_split.setdefault(split, []).append(np.frombuffer(keys, np.uint64))
    each = [np.unique(np.concatenate(keys)) for keys in by_split.values()]
    _, splits = np.unique(np.concatenate(each), return_counts=True)
    return int((splits > 1).sum())
