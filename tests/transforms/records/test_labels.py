"""Labels of rows as they are stored, held to plain Python."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from shardmill.metadata.labels import ClassNames
from shardmill.transforms.columns.arrow import Separated
from shardmill.transforms.records.encoding import read_labels

CLASSES = ClassNames(("b", "a", "ä"))
ROWS = st.lists(st.lists(st.sampled_from(["a", "b", "ä", "c"]), max_size=5), max_size=8)


@given(ROWS, st.booleans(), st.integers(0, 3))
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
