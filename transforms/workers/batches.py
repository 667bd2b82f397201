"""Arrow RecordBatches as Beam's elements: a batch is the unit, because a runner's cost is per element."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

BATCH_ROWS = 10_000  # of references: some hundred kilobytes
ELEMENT_BYTES = 2 << 20  # of an element, about, uncompressed: runners hold several, and like none of many megabytes


def batches(rows: Iterable[Sequence[Any]], schema: pa.Schema, size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """Collect `rows`, tuples in the order of `schema`, into batches of at most `size` rows."""
    columns: list[list[Any]] = [[] for _ in schema]
    for row in rows:
        for column, value in zip(columns, row, strict=True):
            column.append(value)
        if len(columns[0]) == size:
            yield to_batch(columns, schema)
            columns = [[] for _ in schema]
    if columns[0]:
        yield to_batch(columns, schema)


def bounded(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The rows of a batch in as few batches as are no larger than an element may be, or of one row."""
    if batch.nbytes <= ELEMENT_BYTES or len(batch) == 1:
        yield batch
        return
    middle = len(batch) // 2
    yield from bounded(batch.slice(0, middle))
    yield from bounded(batch.slice(middle))


def to_batch(columns: Sequence[Any], schema: pa.Schema) -> pa.RecordBatch:
    """A batch of `schema` from its columns."""
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def concatenate(parts: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """All rows of `parts`, at least one batch, in one."""
    return pa.concat_batches(list(parts))
