"""What staging saw, merged: elements that a runner may hand out again stay as they are."""

import copy

import numpy as np
import pyarrow as pa

from transforms.blocks import Inferred
from transforms.columns import ColumnType
from transforms.feature_kinds import Held
from transforms.feature_stats import TableStats
from transforms.stage_runs import Staged, _MergeStaged


def staged(value: int) -> Staged:
    batch = pa.RecordBatch.from_pydict({"x": pa.array([value], pa.int64())})
    stats = {"train": TableStats.of(batch, np.array([value], np.uint64))}
    inferred = Inferred({"x": ColumnType("int64", None, 1)}, 1)
    return Staged(1, 0, stats, inferred, {"x": {"int64": Held(1, ("a", value))}})


def test_merging_changes_no_element() -> None:
    elements = [staged(value) for value in range(4)]
    before = copy.deepcopy(elements)
    combine = _MergeStaged()
    merged = combine.create_accumulator()
    for element in elements:
        merged = combine.add_input(merged, element)
    assert elements == before
    assert merged.stats["train"].examples == 4
    assert merged.kinds == {"x": {"int64": Held(4, ("a", 0))}}
    again = combine.create_accumulator()
    for element in elements:
        again = combine.add_input(again, element)
    assert again.stats["train"].to_json() == merged.stats["train"].to_json()
