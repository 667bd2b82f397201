"""References between stages: batches, their coder, and their order."""

import random
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.transforms.columns.arrow import convert_batch, to_batches
from shardmill.transforms.files.references import PLANNED, sorted_by_key
from shardmill.transforms.inputs.found_files import FOUND
from shardmill.transforms.workers.elements import RecordBatchCoder

NAME = st.text(max_size=10)
FOUND_ROWS = st.lists(
    st.tuples(
        NAME,
        st.integers(0, 1 << 40),
        st.none() | NAME,
        st.none() | NAME,
        st.none() | NAME,
        st.none() | st.integers(1, 1 << 40),
        st.none() | NAME,
        st.none() | st.integers(0, (1 << 64) - 1),
    ),
    max_size=30,
)


def planned(keys: list[tuple[int, int]]) -> pa.RecordBatch:
    rows = [(f"{key}-{tie}", 1, None, 0, None, b"\0\xff", "train", key, tie, None, None, None) for key, tie in keys]
    return convert_batch([list(column) for column in zip(*rows)], PLANNED)


@given(FOUND_ROWS, st.integers(1, 8))
@settings(max_examples=60, deadline=None)
def test_batches_hold_the_rows_in_order(rows: list[tuple[Any, ...]], size: int) -> None:
    made = list(to_batches(rows, FOUND, size))

    assert all(len(batch) == size for batch in made[:-1])
    assert all(0 < len(batch) <= size for batch in made)
    assert [tuple(row.values()) for batch in made for row in batch.to_pylist()] == rows


@given(FOUND_ROWS, st.data())
@settings(max_examples=60, deadline=None)
def test_the_coder_round_trips_batches_and_slices(rows: list[tuple[Any, ...]], data: st.DataObject) -> None:
    coder = RecordBatchCoder()
    for batch in to_batches(rows, FOUND):
        start = data.draw(st.integers(0, len(batch)))
        part = batch.slice(start, data.draw(st.integers(0, len(batch) - start)))
        for value in (batch, part):
            decoded = coder.decode(coder.encode(value))
            assert decoded.equals(value)
            assert decoded.schema == FOUND


def test_a_slice_does_not_carry_the_whole() -> None:
    batch = planned([(random.Random(1).getrandbits(64), index) for index in range(10_000)])
    coder = RecordBatchCoder()

    assert len(coder.encode(batch.slice(5000, 10))) < len(coder.encode(batch)) / 10


def test_beam_knows_the_coder() -> None:
    assert isinstance(beam.coders.registry.get_coder(pa.RecordBatch), RecordBatchCoder)
    assert RecordBatchCoder().is_deterministic()


@pytest.mark.parametrize("schema", [FOUND, PLANNED])
def test_no_rows_no_batches(schema: pa.Schema) -> None:
    assert list(to_batches([], schema)) == []


KEY = st.integers(0, 2) | st.integers(0, (1 << 64) - 1)


@given(st.lists(st.tuples(KEY, st.integers(0, 9)), min_size=1, max_size=40, unique=True), st.randoms())
@settings(max_examples=60, deadline=None)
def test_sorting_forgets_how_rows_arrived(keys: list[tuple[int, int]], shuffle: Any) -> None:
    shuffled = list(keys)
    shuffle.shuffle(shuffled)
    parts = [planned(shuffled[start : start + 7]) for start in range(0, len(keys), 7)]

    batch = sorted_by_key(parts)

    assert batch.equals(planned(sorted(keys)))


def test_unsigned_keys_sort_as_such() -> None:
    batch = sorted_by_key([planned([((1 << 64) - 1, 0), (1 << 63, 0), (0, 0)])])

    assert batch["key"].to_pylist() == [0, 1 << 63, (1 << 64) - 1]
