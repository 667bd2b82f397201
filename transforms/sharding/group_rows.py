"""Rows by the group they belong to, in one sort: asking for each group which rows are its costs rows times groups."""

import numpy as np


def rows_of(codes: np.ndarray, groups: int) -> list[np.ndarray]:
    """The rows of each of `groups` groups, ascending: int64 each.

    Args:
      codes: the group of each row, from 0, shape (rows,).
      groups: how many there are; some may have no rows.
    """
    order = np.argsort(codes, kind="stable")
    bounds = np.searchsorted(codes[order], np.arange(1, groups))
    return np.split(order, bounds)
