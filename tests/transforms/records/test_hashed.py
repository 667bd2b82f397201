"""What orders rows, and what they hold: one hash for both where both are of whole records."""

import numpy as np
import pyarrow as pa
import pytest

from shardmill.transforms.columns.example_encoding import encode_framed
from shardmill.transforms.formats.format import FileRef
from shardmill.transforms.options.job_options import SplitOptions
from shardmill.transforms.records.encoding import EncodedRows, PreparedRows
from shardmill.transforms.records.keys import KeyOptions, order_and_contents
from shardmill.transforms.statistics.contents import SEEDS, hash_lines

FILE = FileRef("a.csv", "a.csv", 1000, 0, 1 << 60)
ROWS = pa.RecordBatch.from_pydict({"id": pa.array([1, 2, 3, 1]), "text": pa.array([b"x", b"y", b"x", b"x"])})


def halves(options: KeyOptions) -> tuple[list[int], list[int], list[int]]:
    lines = np.arange(1, 5)
    rows = PreparedRows(ROWS, hash_lines(FILE.name, lines), np.full(4, -1), ((FILE, lines),))
    keys = {"k": pa.array([b"1", b"2", b"3", b"4"], pa.large_binary())}
    order, held = order_and_contents(rows, EncodedRows(encode_framed(ROWS), ROWS, keys), options)
    assert held.positions.tolist() == rows.ties.tolist()
    return order.tolist(), held.high.tolist(), held.low.tolist()


def test_whole_records_are_hashed_once_for_their_order() -> None:
    order, high, low = halves(KeyOptions(SplitOptions(seed=5)))
    assert order == high
    assert low != high
    assert [values[0] == values[3] for values in (high, low)] == [True, True]
    assert [len(set(values)) for values in (high, low)] == [3, 3]


@pytest.mark.parametrize("seed", SEEDS)
def test_contents_have_128_bits_whatever_the_seed_is(seed: int) -> None:
    order, high, low = halves(KeyOptions(SplitOptions(seed=seed)))
    assert order in (high, low)
    assert high != low


@pytest.mark.parametrize(
    "options",
    [
        KeyOptions(SplitOptions(seed=5), "k"),
        KeyOptions(SplitOptions(no_shuffle=True)),
        KeyOptions(SplitOptions(seed=5), non_content=("id",)),
    ],
    ids=["key", "no_shuffle", "apart"],
)
def test_what_they_hold_is_none_of_their_order_elsewhere(options: KeyOptions) -> None:
    order, high, low = halves(options)
    assert len(set(order)) == (3 if options.non_content else 4)
    assert len(set(high)) == len(set(low)) == (2 if options.non_content else 3)


def test_rows_in_the_order_of_the_input_are_so_across_files() -> None:
    other = FileRef("b.csv", "b.csv", 1000, 1 << 60, 1 << 60)
    few, more = np.array([3, 9]), np.array([1, 2])
    rows = PreparedRows(ROWS, np.zeros(4, np.uint64), np.full(4, -1), ((FILE, few), (other, more)))
    order = rows.input_order().tolist()
    assert order == sorted(order)
