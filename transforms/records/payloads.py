"""The records in framed ones that lie one after the other. Pure."""

import numpy as np

from shardmill.transforms.examples.framing import FOOTER_BYTES, HEADER_BYTES


def payloads(framed: bytes, sizes: np.ndarray, gap: int = 0) -> list[bytes]:
    """Each record without its frame.

    Args:
      framed: the bytes.
      sizes: of each record with its frame: int64, shape (records,).
      gap: bytes before each that are not of it.
    """
    ends = np.cumsum(sizes + gap)
    starts = ends - sizes + HEADER_BYTES
    return [framed[start:end] for start, end in zip(starts.tolist(), (ends - FOOTER_BYTES).tolist(), strict=True)]
