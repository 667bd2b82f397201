"""Keys that records of several groups have, such as splits. Pure."""

from collections.abc import Sequence

import numpy as np


def shared_keys(groups: Sequence[np.ndarray]) -> list[int]:
    """How many keys of each group exactly one of those before it has, so that a key of several is counted once.

    Args:
      groups: uint64, shape (n,), of each group; a key may be there several times.
    """
    each = [np.unique(keys) for keys in groups]
    every = np.concatenate([*each, np.zeros(0, np.uint64)])
    order = np.argsort(every, kind="stable")  # equal keys stay in the order of their groups
    keys, of_group = every[order], np.repeat(np.arange(len(each)), [len(keys) for keys in each])[order]
    is_first = np.diff(keys, prepend=~keys[:1]) != 0
    is_second = ~is_first & np.append(False, is_first[:-1])
    return np.bincount(of_group[is_second], minlength=len(each)).tolist()
