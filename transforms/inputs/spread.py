"""The rows of a manifest on all workers: rows of one name meet, so that equal ones are found without a list of all."""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from shardmill.metadata.rejects import Reject
from shardmill.transforms.inputs.found import FOUND
from shardmill.transforms.inputs.manifests.given import line_of, manifest_of
from shardmill.transforms.sharding.group_rows import rows_of
from shardmill.transforms.sharding.keys import hash_strings
from shardmill.transforms.workers.batches import BATCH_ROWS, bounded

# FOUND, and a hash of all that the row says: of equal rows, the second and later are left out
PARSED = FOUND.append(pa.field("digest", pa.binary(16)))
_PART_BYTES = 1 << 20  # of a manifest: some ten thousand rows
_MOST_PARTS = 1024
_ROWS_A_PART = 256  # below which a batch is mostly metadata
_MOST_ROWS = 200_000  # dealt out at once: some hundred megabytes


def number_of_parts(size_bytes: int) -> int:
    """Into how many parts a manifest of so many bytes is dealt out."""
    return min(max(size_bytes // _PART_BYTES, 1), _MOST_PARTS)


def rows_at_once(parts: int) -> int:
    """How many rows are gathered before they are dealt out."""
    return min(max(_ROWS_A_PART * parts, BATCH_ROWS), _MOST_ROWS)


def deal_out(batch: pa.RecordBatch, parts: int) -> Iterator[tuple[int, pa.RecordBatch]]:
    """The rows of a PARSED batch by their part, which is a hash of the name."""
    codes = (hash_strings(batch["name"].to_pylist(), 0) % np.uint64(parts)).astype(np.int64)
    for part, rows in enumerate(rows_of(codes, parts)):
        if len(rows):
            yield from ((part, some) for some in bounded(batch.take(pa.array(rows))))


def without_duplicates(batch: pa.RecordBatch, path: str | Sequence[str]) -> tuple[pa.RecordBatch, list[Reject]]:
    """PARSED rows, all of their names, as FOUND ones in the order of their lines; a Reject for each that equals an
    earlier one. Equal names with other columns are not equal rows.

    Args:
      batch: the rows in any order.
      path: of the manifest, or of each of several.
    """
    batch = batch.take(pa.array(np.argsort(batch["line"].to_numpy(), kind="stable")))
    first: dict[bytes, int] = {}
    keep, rejects = [], []
    for row, (digest, line) in enumerate(zip(batch["digest"].to_pylist(), batch["line"].to_pylist(), strict=True)):
        before = first.setdefault(digest, line)
        keep.append(before == line)
        if before != line:
            name = batch["name"][row].as_py()
            of_first = path if isinstance(path, str) else path[manifest_of(before)]
            rejects.append(Reject(name, line, "index", f"duplicate of line {line_of(before)} in {of_first}"))
    found = batch.drop_columns(["digest"])
    return (found if all(keep) else found.filter(pa.array(keep, pa.bool_()))), rejects
