"""Order, values, keys and stored labels of rows, compared with plain Python."""

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from shardmill.metadata.labels import ClassNames
from shardmill.transforms.columns.arrow import Separated
from shardmill.transforms.columns.example_encoding import encode_framed
from shardmill.transforms.features.rows import EncodedRows
from shardmill.transforms.formats.format import FileRef
from shardmill.transforms.inputs.listing import assign_key_shares, to_refs
from shardmill.transforms.options.job_options import SplitOptions
from shardmill.transforms.records.encoding import PreparedRows, hash_keys, input_order_keys, read_labels
from shardmill.transforms.records.keys import KeyOptions, order_and_contents
from shardmill.transforms.statistics.contents import SEEDS, hash_lines
from shardmill.transforms.stores.protocol import FileStat

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


def test_hashes_of_keys() -> None:
    texts = pa.array([b"5", None, b"", b"\xff"], pa.large_binary())

    assert hash_keys(texts, 7).tolist() == [xxhash.xxh3_64_intdigest(text, 7) for text in (b"5", b"", b"", b"\xff")]
    assert hash_keys(texts.slice(2), 7).tolist() == hash_keys(texts, 7)[2:].tolist()


def test_ties_are_distinct_and_of_the_position_alone() -> None:
    one, other = FileRef("a.csv", "/x/a.csv", 100), FileRef("b.csv", "/x/b.csv", 100)
    lines = np.arange(1, 100_001)
    ties = hash_lines(one.name, lines)

    assert len(np.unique(np.concatenate([ties, hash_lines(other.name, lines)]))) == 200_000
    assert np.array_equal(hash_lines(FileRef("a.csv", "/elsewhere", 5, 1, 2).name, lines[50:]), ties[50:])
    assert 0.49 < (ties < np.uint64(1 << 63)).mean() < 0.51


@pytest.mark.parametrize("lines", [np.arange(1, 200_001), np.array([1, 2, 3, 10**9, 10**9 + 1])])
def test_input_order_is_that_of_names_then_lines(lines: np.ndarray) -> None:
    found = [FileStat("b.csv", 10**9), FileStat("a.csv", 5_000), FileStat("c/a.csv", 0)]
    files = assign_key_shares(to_refs(found, "/folder"))
    keys = np.concatenate([input_order_keys(file, lines) for file in files])

    assert [file.path for file in files] == ["/folder/a.csv", "/folder/b.csv", "/folder/c/a.csv"]
    assert keys.dtype == np.uint64
    assert (np.diff(keys[len(lines) : 2 * len(lines)].astype(object)) > 0).all()
    assert (np.diff(keys.astype(object)) >= 0).all()
    assert sum(file.key_span for file in files) < 1 << 64


CLASSES = ClassNames(("b", "a", "ä"))
LABEL_ROWS = st.lists(st.lists(st.sampled_from(["a", "b", "ä", "c"]), max_size=5), max_size=8)


@given(LABEL_ROWS, st.booleans(), st.integers(0, 3))
def test_lists_of_classes(rows: list[list[str]], is_text: bool, start: int) -> None:
    column = (
        pa.array([";".join(row).encode() for row in rows], pa.large_binary())
        if is_text
        else pa.array([[name.encode() for name in row] for row in rows], pa.large_list(pa.large_binary()))
    )

    read = read_labels(column.slice(start), Separated(";", "bytes") if is_text else None, CLASSES)

    rows = rows[start:]
    assert read.bad.tolist() == ["c" in row for row in rows]
    assert read.lengths.tolist() == list(map(len, rows))
    for place, row in enumerate(rows):
        if "c" in row:
            assert read.reason(place) == "class 'c' is not in --labels_file"
        else:
            once = list(dict.fromkeys(row))
            assert read.values[place].as_py() == [CLASSES.id(name) for name in once]
            assert read.repeated[place] == len(row) - len(once)


def test_numbers_in_a_text_stay_though_they_are_repeated() -> None:
    column = pa.array([b"1;1;-2", None, b"x;3", b"4"], pa.large_binary())

    read = read_labels(column, Separated(";", "int64"), None)

    assert read.bad.tolist() == [False, False, True, False]
    assert read.reason(2) == "'x' is not an integer (int64)"
    assert [read.values[row].as_py() for row in (0, 1, 3)] == [[1, 1, -2], [], [4]]
    assert read.repeated.tolist() == [0, 0, 0, 0]


def test_a_class_in_each_row() -> None:
    read = read_labels(pa.array([b"a", b"c", b"b"], pa.large_binary()), None, CLASSES)

    assert (read.values.to_pylist(), read.bad.tolist()) == ([1, None, 0], [False, True, False])
    assert read.reason(1) == "class 'c' is not in --labels_file"
