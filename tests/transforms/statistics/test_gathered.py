"""What is gathered is counted as if it came at once, however it is merged, copied or sent."""

import copy
import pickle

import numpy as np
import pyarrow as pa
import pytest

from shardmill.transforms.statistics.sketches import mix
from shardmill.transforms.statistics.tables import BatchedStats, TableStats
from tests.support.summaries import as_json

NAMES = {"label": ["cat", "dog"]}


def batch_of(rows: int) -> pa.RecordBatch:
    generator = np.random.default_rng(rows)
    lists = [generator.integers(0, 9, length).tolist() for length in generator.integers(0, 4, rows)]
    return pa.RecordBatch.from_arrays(
        [pa.array(generator.integers(0, 2, rows)), pa.array(lists, pa.large_list(pa.int64()))], ["label", "list"]
    )


@pytest.mark.parametrize(("rows", "part"), [(10, 3), (9000, 64), (9000, 5000)])
def test_gathered_batches_are_counted_as_one(rows: int, part: int) -> None:
    batch, ties = batch_of(rows), mix(np.arange(rows, dtype=np.uint64))
    parts = [
        BatchedStats.from_batch(batch.slice(start, part), ties[start : start + part], ["label"])
        for start in range(0, rows, part)
    ]
    whole = BatchedStats()
    for each in reversed(parts):
        whole.merge(pickle.loads(pickle.dumps(each)) if len(parts) % 2 else copy.deepcopy(each))

    expected = TableStats.from_batch(batch, ties, ["label"])
    assert as_json(whole.summary(NAMES)) == as_json(expected.summary(NAMES))
    assert whole.label_counts("label") == expected.label_counts("label")


def test_many_rows_do_not_wait() -> None:
    whole = BatchedStats()
    for start in range(200):
        whole.merge(
            BatchedStats.from_batch(batch_of(100), mix(np.arange(start, start + 100, dtype=np.uint64)), ["label"])
        )
        assert sum(len(batch) for batch, _ in whole.pending) < 5000
    assert whole.table_stats.examples > 15_000
