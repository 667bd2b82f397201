"""shardmill.transforms.values.sequences: what is read back of rows is what was laid out."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from shardmill.data.features import Feature
from shardmill.transforms.columns.arrow import data_of, offsets_of
from shardmill.transforms.values.sequences import DecodedRows, row_records, row_widths

FEATURES = (
    Feature("n", "int64", shape=(None,)),
    Feature("x", "float32", shape=(None,)),
    Feature("text", "bytes", shape=(None,)),
    Feature("pair", "float32", shape=(None, 2)),
    Feature("label", "int64"),
)
_INTEGERS = st.integers(-(1 << 63), (1 << 63) - 1)
_FLOATS = st.floats(width=32, allow_nan=False)
ROWS = st.lists(
    st.tuples(
        st.binary(max_size=9), _INTEGERS, st.binary(), _INTEGERS, _FLOATS, st.binary(), st.tuples(_FLOATS, _FLOATS)
    ),
    min_size=1,
    max_size=12,
)


@given(ROWS, st.integers(0, 3))
def test_there_and_back(
    rows: list[tuple[bytes, int, bytes, int, float, bytes, tuple[float, float]]], before: int
) -> None:
    files, lines, ids, numbers, floats, texts, pairs = (list(column) for column in zip(*rows, strict=True))
    columns = [
        pa.array([7] * before + numbers, pa.int64())[before:],
        pa.array([7.0] * before + floats, pa.float32())[before:],
        pa.array([b"7"] * before + texts, pa.large_binary())[before:],
        pa.array([[1.0, 2.0]] * before + [list(pair) for pair in pairs], pa.large_list(pa.float32()))[before:],
        pa.array(numbers, pa.int64()),
    ]
    binary = pa.large_binary()
    widths = row_widths(FEATURES)
    assert widths == [8, 4, 0, 8, 8]
    records = row_records(pa.array(files, binary), pa.array(lines), pa.array(ids, binary), columns, widths)
    found = DecodedRows.decode(data_of(records), offsets_of(records)[:-1], widths)

    order = np.arange(len(rows))[::-1]
    assert (found.files.to_pylist(), found.lines.tolist(), found.ids.to_pylist()) == (files, lines, ids)
    assert found.column(0, "int64", order).to_pylist() == numbers[::-1]
    assert found.column(1, "float32", order).to_pylist() == floats[::-1]
    assert found.column(2, "bytes", order).to_pylist() == texts[::-1]
    assert found.column(3, "float32", order).to_pylist() == [value for pair in pairs[::-1] for value in pair]
