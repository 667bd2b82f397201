"""Rows by the group they belong to, in one sort: asking for each group which rows are its costs rows times groups."""

import numpy as np

from shardmill.transforms.columns.codes import narrow


def rows_of(codes: np.ndarray, groups: int) -> list[np.ndarray]:
    """The rows of each of `groups` groups, ascending: int64 each.

    Args:
      codes: the group of each row, from 0, shape (rows,).
      groups: how many there are; some may have no rows.
    """
    codes = narrow(codes, groups)
    order = np.argsort(codes, kind="stable")
    bounds = np.cumsum(np.bincount(codes, minlength=groups))[: groups - 1]
    return np.split(order, bounds)
