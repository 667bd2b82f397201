"""Of a run those records are analyzed that are of the splits, whatever is read at once."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.data import tfrecord
from shardmill.errors import JobError
from shardmill.transforms.records.run_file import KeyedRecords, sort_records, write_sorted
from shardmill.transforms.records.staging import StagedFindings, check_examples, read_record_batches
from shardmill.transforms.statistics.tables import TableStats

NAMES = ("test", "train", "validation")


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.binary(max_size=40), st.integers(0, 2)), min_size=1, max_size=30),
    st.sets(st.sampled_from(NAMES)),
    st.integers(1, 200),
    st.integers(1, 9),
    st.booleans(),
)
def test_records_are_those_of_the_splits(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[tuple[bytes, int]],
    splits: set[str],
    at_once: int,
    most: int,
    self_contained: bool,
) -> None:
    numbers = np.arange(len(rows), dtype=np.uint64)
    framed = pa.array([tfrecord.frame_record(record) for record, _ in rows], pa.large_binary())
    groups = np.array([group for _, group in rows], np.int64)
    keyed = KeyedRecords(framed, numbers, numbers, groups, NAMES)
    run = write_sorted(str(tmp_path_factory.mktemp("runs") / "run"), sort_records(keyed), self_contained)

    batches = list(read_record_batches(run, splits, at_once, most))

    expected = [record for name in NAMES for record, group in rows if NAMES[group] == name and name in splits]
    assert [record for batch in batches for record in batch] == expected
    assert all(1 <= len(batch) <= most for batch in batches)


def test_there_must_be_examples_that_are_analyzed() -> None:
    staged = StagedFindings(record_count=7, stats={"train": TableStats(examples=0), "test": TableStats(examples=5)})

    assert check_examples(staged, ("train", "test")) == {"train": 0, "test": 5}
    with pytest.raises(JobError) as caught:
        check_examples(staged, ("train",))
    assert str(caught.value) == (
        "--module_file: no example is in split 'train', which is analyzed; those that have examples are test, of 7"
        " records that were read; --analyze_splits names others"
    )
