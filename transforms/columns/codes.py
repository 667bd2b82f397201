"""Codes: the number, from 0, of the group that each row belongs to."""

import numpy as np
from numpy.typing import NDArray


def narrow(codes: NDArray[np.int64], groups: int) -> NDArray[np.unsignedinteger]:
    """Codes below `groups` as unsigned integers of as few bytes as hold them: of one byte or two NumPy's stable sort is
    a radix sort, several times as fast as one of eight."""
    return codes.astype(np.min_scalar_type(max(groups - 1, 0)), copy=False)
