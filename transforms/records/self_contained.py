"""Records with their entries before them: how a run lies in an object store, where a slice that says its own keys is
one request, and one whose keys lie elsewhere two."""

from typing import Any

import numpy as np

from shardmill.records import spans
from shardmill.records.tfrecord import OVERHEAD

# Of a record: its key, its tie (uint64) and its framed size (uint32); packed: 20 bytes
ENTRY = np.dtype([("key", "<u8"), ("tie", "<u8"), ("size", "<u4")])
_SIZE_AT = ENTRY.itemsize - 4


def with_entries(data: Any, entries: np.ndarray) -> np.ndarray:
    """Each record behind its entry: uint8, shape (bytes,).

    Args:
      data: framed records, one behind the other.
      entries: theirs, of dtype ENTRY, shape (records,).
    """
    each = np.full(len(entries), ENTRY.itemsize, np.int64)
    sizes = entries["size"].astype(np.int64)
    starts = np.cumsum(sizes) - sizes
    places = starts + np.arange(1, len(entries) + 1) * ENTRY.itemsize  # of records
    out = np.empty(int(sizes.sum()) + int(each.sum()), np.uint8)
    spans.copy(entries.view(np.uint8), np.cumsum(each) - each, each, out, places - ENTRY.itemsize)
    spans.copy(data, starts, sizes, out, places)
    return out


def entries_of(data: bytes | bytearray) -> np.ndarray:
    """The entries of the records in what `with_entries` made, or in some of it: of dtype ENTRY, shape (records,).

    Raises:
      ValueError: it does not end with a record.
    """
    try:
        starts = spans.chain(data, ENTRY.itemsize, _SIZE_AT, OVERHEAD)
    except ValueError as error:
        raise ValueError(f"{len(data):,} bytes of a run, which do not end with a record") from error
    return spans.gather(data, starts, np.full(len(starts), ENTRY.itemsize, np.int64))[0].view(ENTRY)
