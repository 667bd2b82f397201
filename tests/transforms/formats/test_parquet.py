"""Parquet as rows: every type of Arrow, what statistics do not say, and what damage loses."""

import base64
import cProfile
import datetime
import decimal
import io
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as encryption
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.errors import UserError
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.conversion import convert_value
from shardmill.transforms.columns.nested import Nesting
from shardmill.transforms.columns.types import ColumnError, ColumnType, Inferred
from shardmill.transforms.formats.format import FileRef
from shardmill.transforms.formats.json_lines import JsonLinesFormat
from shardmill.transforms.formats.parquet import ParquetFormat
from shardmill.transforms.stores import storage
from tests.support import format_files
from tests.support.command import REPOSITORY
from tests.support.format_files import blocks, infer
from tests.support.parquet_files import column, file_ref, read, write

DAY, TIME = datetime.date(2024, 2, 29), datetime.datetime(2024, 2, 29, 1, 2, 3)
BYTES = ColumnType("bytes", None, 2)


@pytest.mark.parametrize(
    ("array", "expected_type", "expected"),
    [
        (pa.array([True, None, False]), ColumnType("bool", None, 2), [1, None, 0]),
        *(
            (pa.array([1, None, 3], kind), ColumnType("int64", None, 2), [1, None, 3])
            for kind in (pa.int8(), pa.int64(), pa.uint8())
        ),
        (pa.array([1, None, (1 << 63) - 1], pa.uint64()), ColumnType("int64", None, 2), [1, None, (1 << 63) - 1]),
        *(
            (pa.array([1.5, None, math.inf], kind), ColumnType("float32", None, 2), [1.5, None, math.inf])
            for kind in (pa.float16(), pa.float32(), pa.float64())
        ),
        *(
            (pa.array(["a", None, "ä\0"], kind), BYTES, [b"a", None, "ä\0".encode()])
            for kind in (pa.string(), pa.large_string(), pa.binary(), pa.large_binary(), pa.string_view())
        ),
        (pa.array([b"ab", None, b"\xff\0"], pa.binary(2)), BYTES, [b"ab", None, b"\xff\0"]),
        (pa.array(["a", None, "a"]).dictionary_encode(), BYTES, [b"a", None, b"a"]),
        (pa.array([5, None, 5]).dictionary_encode(), ColumnType("int64", None, 2), [5, None, 5]),
        (pa.array([DAY, None]), ColumnType("bytes", None, 1), [b"2024-02-29", None]),
        (pa.array([TIME], pa.timestamp("ms")), ColumnType("bytes", None, 1), [b"2024-02-29 01:02:03.000"]),
        (pa.array([TIME], pa.timestamp("us", "UTC")), ColumnType("bytes", None, 1), [b"2024-02-29 01:02:03.000000Z"]),
        (pa.array([TIME.time()], pa.time64("us")), ColumnType("bytes", None, 1), [b"01:02:03.000000"]),
        (pa.array([decimal.Decimal("1.50")]), ColumnType("bytes", None, 1), [b"1.50"]),
        (pa.array([None, None]), None, []),
        (pa.array([None, None], pa.int64()), None, []),
        (pa.array([[1, 2], None, [3, 4]]), ColumnType("int64", 2, 2), [[1, 2], None, [3, 4]]),
        (pa.array([[1], None, [3, 4]]), ColumnType("int64", -1, 2), [[1], [], [3, 4]]),
        (pa.array([[], None], pa.list_(pa.int64())), ColumnType("int64", 0, 1), [[], []]),
        (pa.array([[1.5], [2.5]], pa.large_list(pa.float64())), ColumnType("float32", 1, 2), [[1.5], [2.5]]),
        (pa.array([[1.5, 2], [3, 4]], pa.list_(pa.float32(), 2)), ColumnType("float32", 2, 2), [[1.5, 2], [3, 4]]),
        (pa.array([["a"], ["b", "c"]]), ColumnType("bytes", -1, 2), [[b"a"], [b"b", b"c"]]),
        (pa.array([[True], [False]]), ColumnType("bool", 1, 2), [[1], [0]]),
        (pa.array([[DAY]]), ColumnType("bytes", 1, 1), [[b"2024-02-29"]]),
        (pa.array([[[1, 2]], None, [[3, 4]]]), ColumnType("int64", 1, 2, (2,)), [[1, 2], None, [3, 4]]),
        (pa.array([[[1, 2]], None, [[3, 4], [5, 6]]]), ColumnType("int64", -1, 2, (2,)), [[1, 2], [], [3, 4, 5, 6]]),
        (
            pa.array([[[1.5]], []], pa.list_(pa.list_(pa.float64(), 1))),
            ColumnType("float32", -1, 2, (1,), 1),
            [[1.5], []],
        ),
        (pa.array([[[["a"], ["b"]]]]), ColumnType("bytes", 1, 1, (2, 1)), [[b"a", b"b"]]),
        (
            pa.array([["a", "a"]], pa.list_(pa.dictionary(pa.int32(), pa.string()))),
            ColumnType("bytes", 2, 1),
            [[b"a", b"a"]],
        ),
    ],
)
@pytest.mark.parametrize("statistics", [True, False])
def test_every_type(
    tmp_path: Path, array: pa.Array, expected_type: ColumnType, expected: list[Any], statistics: bool
) -> None:
    assert column(tmp_path, array, write_statistics=statistics) == (expected_type, expected, [])


def test_nan_is_a_value(tmp_path: Path) -> None:
    found, (value,), rejects = column(tmp_path, pa.array([math.nan]))

    assert (found, rejects) == (ColumnType("float32", None, 1), [])
    assert math.isnan(value)


@pytest.mark.parametrize(
    ("array", "reason"),
    [
        (pa.array([1, 1 << 63, 2], pa.uint64()), "9223372036854775808 does not fit a 64-bit integer"),
        (pa.array([1, 1e39, 2]), "1e+39 is beyond the range of float32"),
        (
            pa.array([[1], [1, 1 << 63], [2]], pa.list_(pa.uint64())),
            "9223372036854775808 does not fit a 64-bit integer",
        ),
        (pa.array([[1.0], [2, -1e39, 3], [2]]), "-1e+39 is beyond the range of float32"),
        (pa.array([[1.0], [2, None], [2]]), "a list with a null in it"),
        (pa.array([["a"], ["b", None], []]), "a list with a null in it"),
        (pa.array([[[1]], [[1, 2]], [[3]]]), "[[1, 2]] has 1 x 2 values, where 1 x 1 were expected"),
        (pa.array([[[1]], [[1], [1, 2]], [[3]]]), "lists of 1 and of 2 in one list; expected lists of one length"),
        (pa.array([[[1]], [[]], []]), "a list of empty lists; expected [] where there are none"),
        (pa.array([[[1]], [[1], None], []]), "a list of lists and values; expected lists alone, or values alone"),
    ],
)
def test_values_that_no_feature_can_hold(tmp_path: Path, array: pa.Array, reason: str) -> None:
    _, values, rejects = column(tmp_path, array)

    assert len(values) == 2
    assert rejects == [(2, f"column 'x': {reason}")]


@pytest.mark.parametrize(
    ("array", "types", "reason"),
    [
        (pa.array([1.5]), ColumnType("int64", None, 0), "1.5 is no integer"),
        (pa.array([1e30]), ColumnType("int64", None, 0), "1e+30 is no integer"),
        (pa.array(["a"]), ColumnType("int64", None, 0), "a is no integer"),
        (pa.array(["a"]), ColumnType("float32", None, 0), "a is no number"),
        (pa.array([1]), ColumnType("bool", None, 0), "1 is no true or false"),
        (pa.array([True]), ColumnType("int64", None, 0), "true is no integer"),
        (pa.array([[1]]), ColumnType("int64", 2, 0), "1 values, where 2 were expected"),
        (pa.array([[[1]]]), ColumnType("int64", -1, 0), "[[1]] has 1 x 1 values, where any number were expected"),
        (pa.array([[[1, 2]]]), ColumnType("int64", 2, 0, (2,)), "[[1, 2]] has 1 x 2 values, where 2 x 2 were expected"),
        (pa.array([[[1]]]), ColumnType("int64", None, 0), "a list of 1 x 1, where one value was expected"),
    ],
)
def test_values_that_do_not_fit_a_type_that_was_given(
    tmp_path: Path, array: pa.Array, types: ColumnType, reason: str
) -> None:
    assert column(tmp_path, array, types=types) == (types, [], [(1, f"column 'x': {reason}")])


SCALARS = {
    "int64": st.integers(-(1 << 63), (1 << 63) - 1),
    "double": st.floats(allow_nan=False, allow_infinity=False),
    "bool": st.booleans(),
    "string": st.text("ab0", max_size=3),
}
COLUMNS = st.sampled_from(sorted(SCALARS)).flatmap(
    lambda kind: st.one_of(
        st.tuples(st.just(pa.type_for_alias(kind)), st.lists(SCALARS[kind] | st.none(), min_size=1, max_size=6)),
        st.tuples(
            st.just(pa.list_(pa.type_for_alias(kind))),
            st.lists(st.lists(SCALARS[kind] | st.none(), max_size=3) | st.none(), min_size=1, max_size=6),
        ),
        st.tuples(
            st.just(pa.list_(pa.list_(pa.type_for_alias(kind)))),
            st.lists(
                st.lists(st.lists(SCALARS[kind], min_size=1, max_size=2) | st.none(), max_size=2) | st.none(),
                min_size=1,
                max_size=6,
            ),
        ),
    )
)
DTYPES = st.sampled_from(["int64", "float32", "bytes", "bool"])
TYPES = st.one_of(
    st.builds(ColumnType, DTYPES, st.sampled_from([None, None, -1, 1, 2]), st.just(0)),
    st.builds(ColumnType, DTYPES, st.sampled_from([-1, 1, 2]), st.just(0), st.sampled_from([(1,), (2,)])),
)


@given(COLUMNS, TYPES, st.integers(1, 4), st.none() | st.sampled_from(["0", "1.5", "x", "true"]))
@settings(max_examples=80)
def test_values_become_what_those_of_json_do(
    tmp_path_factory: pytest.TempPathFactory,
    values: tuple[pa.DataType, list[Any]],
    types: ColumnType,
    rows: int,
    fill: str | None,
) -> None:
    kind, items = values
    _, found, rejects = column(tmp_path_factory.mktemp("parquet"), pa.array(items, kind), fill, types, rows=rows)
    stand_in = {None: None, "0": 0, "1.5": 1.5, "x": "x", "true": True}[fill]
    expected, refused = [], []
    for row, item in enumerate(items, 1):
        try:
            expected.append(convert_value(stand_in if item is None else item, types))
        except ColumnError:
            refused.append(row)

    assert found == expected
    assert [row for row, _ in rejects] == refused


@pytest.mark.parametrize("rows", [1, 2, 5, 100])
def test_row_groups_are_blocks(tmp_path: Path, rows: int) -> None:
    table = pa.table({"a": range(10), "b": [None, "x"] * 5})
    file = write(tmp_path, table, rows)
    found = blocks(ParquetFormat(), file)

    assert [block.offset for block in found] == list(range(math.ceil(10 / rows)))
    assert [block.first_line for block in found] == list(range(1, 11, rows))
    assert all(0 < block.length < file.size_bytes for block in found)
    assert {block.columns for block in found} == {("a", "b")}
    assert ParquetFormat().header(file) == ("a", "b")
    types = {"b": ColumnType("bytes", None, 5), "a": ColumnType("int64", None, 10)}
    assert infer(ParquetFormat(), file, ["b", "a"]) == Inferred(types, 10)
    expected = [(row, {"b": [b"x", None][row % 2], "a": row - 1}) for row in range(1, 11)]
    assert read(ParquetFormat(), file, types) == (expected, [])


def test_a_large_row_group_comes_in_batches(tmp_path: Path) -> None:
    file = write(tmp_path, pa.table({"x": np.arange(200_000)}), 200_000)
    (block,) = blocks(ParquetFormat(), file)
    parts = list(ParquetFormat().read(block, {"x": ColumnType("int64", None, 0)}))

    assert len(parts) > 2
    assert np.concatenate([part.lines for part in parts]).tolist() == list(range(1, 200_001))
    assert np.concatenate([part.batch["x"].to_numpy() for part in parts]).tolist() == list(range(200_000))


@pytest.mark.parametrize(
    "array", [pa.array([{"a": 1}]), pa.array([[{"a": 1}]]), pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int64()))]
)
def test_what_cannot_be_read_is_a_mistake_only_if_asked_for(tmp_path: Path, array: pa.Array) -> None:
    file = write(tmp_path, pa.table({"x": array, "y": [None], "z": pa.array([1])}))
    types = {"z": ColumnType("int64", None, 1)}
    sentence = (
        r"^file\.parquet: column 'x' is .*; expected numbers, strings or lists of them: --flatten .* --drop x leaves"
        " the column out$"
    )

    with pytest.raises(UserError, match=sentence):
        infer(ParquetFormat(), file)
    with pytest.raises(UserError, match=sentence):
        read(ParquetFormat(), file, {"x": ColumnType("bytes", None, 0)})
    assert (
        infer(ParquetFormat(), file, ["y", "z"])
        == infer(ParquetFormat(nesting=Nesting(drop=("x",))), file)
        == Inferred(types, 1)
    )
    assert read(ParquetFormat(), file, types) == ([(1, {"z": 1})], [])


def test_names_with_dots_beside_structs(tmp_path: Path) -> None:
    table = pa.table({"a": pa.array([{"b": 1}, {"b": 2}]), "a.b": [None, 2], "a.c": ["x", "y"]})
    file = write(tmp_path, table)
    types = {"a.b": ColumnType("int64", None, 1), "a.c": ColumnType("bytes", None, 2)}

    assert infer(ParquetFormat(), file, ["a.b", "a.c"]) == Inferred(types, 2)
    assert read(ParquetFormat(), file, types) == ([(1, {"a.b": None, "a.c": b"x"}), (2, {"a.b": 2, "a.c": b"y"})], [])


def test_a_column_that_is_there_twice(tmp_path: Path) -> None:
    file = write(tmp_path, pa.table([[1], [2]], names=["a", "a"]))

    with pytest.raises(UserError, match=r"^file\.parquet: column 'a' is there twice"):
        blocks(ParquetFormat(), file)


def test_columns_that_a_file_does_not_have(tmp_path: Path) -> None:
    file = write(tmp_path, pa.table({"x": [1, 2]}))
    types = {"y": ColumnType("bytes", None, 0), "z": ColumnType("float32", -1, 0)}

    assert infer(ParquetFormat(), file, ["y"]) == Inferred({}, 2)
    assert read(ParquetFormat(), file, types)[0] == [(1, {"y": None, "z": []}), (2, {"y": None, "z": []})]
    assert infer(ParquetFormat((("y", "7"),)), file, ["y"]) == Inferred({"y": ColumnType("int64", None, 2)}, 2)
    assert read(ParquetFormat((("y", "7"),)), file, {"y": ColumnType("int64", None, 2)})[0] == [
        (1, {"y": 7}),
        (2, {"y": 7}),
    ]
    assert read(ParquetFormat(), file, {})[0] == [(1, {}), (2, {})]


def test_calls_grow_with_the_columns_and_no_faster(tmp_path: Path) -> None:
    calls = []
    for columns in (50, 200):
        file = write(tmp_path, pa.table({f"c{index}": [1] for index in range(columns)}))
        with cProfile.Profile() as profile:
            read(ParquetFormat(), file, infer(ParquetFormat(), file).types)
        calls.append(sum(entry.callcount for entry in profile.getstats()))
    assert calls[1] < 5 * calls[0]


@pytest.mark.parametrize(
    ("fill", "values", "expected_type", "expected"),
    [
        ("0", [1, None], ColumnType("int64", None, 2), [1, 0]),
        ("0.5", [1, None], ColumnType("float32", None, 2), [1.0, 0.5]),
        ("none", [1, None], ColumnType("bytes", None, 2), [b"1", b"none"]),
        ("false", [True, None], ColumnType("bool", None, 2), [1, 0]),
        ("true", ["a", None], ColumnType("bytes", None, 2), [b"a", b"true"]),
        ('"0"', ["a", None], ColumnType("bytes", None, 2), [b"a", b"0"]),
        ("0", [[1, 2], None], ColumnType("int64", -1, 2), [[1, 2], [0]]),
        ("7", [None, None], ColumnType("int64", None, 2), [7, 7]),
        ("none", [1, 2], ColumnType("int64", None, 2), [1, 2]),
    ],
)
def test_fill_of_parquet_and_json(
    tmp_path: Path, fill: str, values: list[Any], expected_type: ColumnType, expected: list[Any]
) -> None:
    for rows in (1, 2):
        assert column(tmp_path, pa.array(values), fill, rows=rows) == (expected_type, expected, [])
    if expected == [7, 7]:
        assert column(tmp_path, pa.array(values, pa.int64()), fill) == (expected_type, expected, [])
    lines = "".join(json.dumps({"x": value}) + "\n" for value in values)
    format_, file = JsonLinesFormat(20, (("x", fill),)), format_files.file_ref(tmp_path, lines.encode())
    assert infer(format_, file).types == {"x": expected_type}
    found = format_files.read(format_, file, {"x": expected_type})
    assert ([row["x"] for row in found.rows], found.rejects) == (expected, [])


def test_values_are_what_they_are_as_strings(tmp_path: Path) -> None:
    table = pa.table(
        {
            "i": [1, 2, 2],
            "s": ["a", None, "ä"],
            "b": [True, False, None],
            "r": [b"\xff", b"a", None],
            "l": [[1], [], [2]],
        }
    )
    file = write(tmp_path, table, 2)
    expected = {
        "i": {"1", "2"},
        "s": {"a", "ä"},
        "b": {"true", "false"},
        "r": {"\\xff", "a"},
        "l": {"1", "2"},
        "none": set(),
    }

    for name, values in expected.items():
        assert infer(ParquetFormat(), file, [], name) == Inferred({}, 3, {name: frozenset(values)})
    assert infer(ParquetFormat((("s", "x"),)), file, [], "s").values == {"s": frozenset({"a", "ä", "x"})}


def test_a_file_without_rows(tmp_path: Path) -> None:
    assert blocks(ParquetFormat(), write(tmp_path, pa.table({"x": pa.array([], pa.int64())}))) == []


@pytest.mark.parametrize("data", [b"", b"PAR1", b"not a Parquet file", b"PAR1" * 9])
def test_what_is_no_parquet_file(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "file.parquet").write_bytes(data)
    (reject,) = ParquetFormat().index(file_ref(tmp_path / "file.parquet"))

    assert isinstance(reject, Reject)
    assert (reject.source, reject.line, reject.stage) == ("file.parquet", None, "index")
    assert reject.reason.startswith("not a Parquet file: ")
    assert "\n" not in reject.reason
    assert ParquetFormat().header(file_ref(tmp_path / "file.parquet")) == ()


@pytest.mark.parametrize("compression", ["snappy", "zstd"])
def test_any_damaged_byte(tmp_path: Path, compression: str) -> None:
    table = pa.table({"x": [f"text {number}" * 3 for number in range(40)], "y": [[number] for number in range(40)]})
    file = write(tmp_path, table, 20, compression=compression, write_page_checksum=True)
    whole = (tmp_path / "file.parquet").read_bytes()
    types = {"x": ColumnType("bytes", None, 40), "y": ColumnType("int64", 1, 40)}
    for position in range(4, len(whole), 5):
        data = bytearray(whole)
        data[position] ^= 0xFF
        (tmp_path / "file.parquet").write_bytes(data)
        for item in ParquetFormat().index(file):
            if isinstance(item, Reject):
                continue
            try:
                list(ParquetFormat().infer(item, None, ()))
                parts = list(ParquetFormat().read(item, types))
            except UserError:
                continue  # damage that makes another type of a column
            rows = sum(len(part.lines) for part in parts)
            assert rows == pq.read_metadata(file.path).row_group(item.offset).num_rows or any(
                part.rejects for part in parts
            )


def test_a_damaged_row_group_is_one_reject(tmp_path: Path) -> None:
    file = write(tmp_path, pa.table({"x": [f"text {number}" * 9 for number in range(40)]}), 20, use_dictionary=False)
    found = blocks(ParquetFormat(), file)
    data = bytearray((tmp_path / "file.parquet").read_bytes())
    start = pq.read_metadata(file.path).row_group(1).column(0).data_page_offset
    data[start : start + 200] = b"\xff" * 200
    (tmp_path / "file.parquet").write_bytes(data)
    rows, rejects = read(ParquetFormat(), file, {"x": ColumnType("bytes", None, 0)})

    assert len(found) == 2
    assert [row for row, _ in rows] == list(range(1, 21))
    ((row, reason),) = rejects
    assert row == 21
    assert reason.startswith("row group 1 cannot be read from row 21 on, all of which is lost: ")


FIXED = pa.list_(pa.float32(), 2)


@pytest.mark.parametrize(
    ("array", "expected_type", "expected"),
    [
        (pa.array([[1, 2], None, [3, 4], [5, 6]], FIXED), ColumnType("float32", 2, 3), [[1, 2], None, [3, 4], [5, 6]]),
        (pa.array([None, None, [3, 4], None], FIXED), ColumnType("float32", 2, 1), [None, None, [3, 4], None]),
        (
            pa.array([[[1, 2]], None, [[3, 4]], [[5, 6]]], pa.list_(FIXED, 1)),
            ColumnType("float32", 1, 3, (2,)),
            [[1, 2], None, [3, 4], [5, 6]],
        ),
        (
            pa.array([[[1, 2], [3, 4]], [], None, [[5, 6]]], pa.large_list(FIXED)),
            ColumnType("float32", -1, 3, (2,), 1),
            [[1, 2, 3, 4], [], [], [5, 6]],
        ),
        (
            pa.ExtensionArray.from_storage(
                pa.fixed_shape_tensor(pa.float32(), (2,)), pa.array([[1, 2], None, [3, 4], [5, 6]], FIXED)
            ),
            ColumnType("float32", 2, 3),
            [[1, 2], None, [3, 4], [5, 6]],
        ),
    ],
)
def test_nulls_among_lists_of_a_fixed_size(
    tmp_path: Path, array: pa.Array, expected_type: ColumnType, expected: list[Any]
) -> None:
    """Arrow refuses a row group for one of them; the other columns keep the types that the footer says, such as
    durations."""
    took = pa.array([datetime.timedelta(seconds=1)] * 4, pa.duration("s"))
    file = write(tmp_path, pa.table({"x": array, "took": took}), rows=2)
    found = infer(ParquetFormat(), file)
    assert (found.types, found.rows) == ({"x": expected_type, "took": ColumnType("int64", None, 4)}, 4)
    assert found.declared["took"].message.startswith(
        "column 'took' holds durations, of which the numbers of s are stored"
    )
    rows, rejects = read(ParquetFormat(), file, dict(found.types))
    assert rejects == []
    assert [row["x"] for _, row in rows] == expected
    assert {row["took"] for _, row in rows} == {1}


def test_a_null_within_a_list_is_still_a_reject(tmp_path: Path) -> None:
    array = pa.array([[[1, 2], None], [[3, 4], [5, 6]]], pa.list_(FIXED))
    rows, rejects = read(
        ParquetFormat(), write(tmp_path, pa.table({"x": array})), {"x": ColumnType("float32", 2, 1, (2,))}
    )
    assert rows == [(2, {"x": [3, 4, 5, 6]})]
    assert [row for row, _ in rejects] == [1]


class _Kms(encryption.KmsClient):
    """Keys that are wrapped in nothing."""

    def __init__(self, _: object) -> None:
        encryption.KmsClient.__init__(self)

    def wrap_key(self, key: bytes, _: str) -> bytes:
        return base64.b64encode(key)


def write_encrypted(folder: Path, **options: Any) -> FileRef:
    table = pa.table({"id": [1, 2, 3], "name": ["x", "y", "z"], "tags": [[1], [2, 3], [4]]})
    configuration = encryption.EncryptionConfiguration(footer_key="a", **options)
    keys = encryption.CryptoFactory(_Kms)  # which must outlive the writer
    properties = keys.file_encryption_properties(encryption.KmsConnectionConfig(), configuration)
    with pq.ParquetWriter(folder / "file.parquet", table.schema, encryption_properties=properties) as writer:
        writer.write_table(table)
    return file_ref(folder / "file.parquet")


def without(name: str) -> ParquetFormat:
    return ParquetFormat(nesting=Nesting(drop=(name,)))


@pytest.mark.parametrize("name", ["id", "name", "tags"])
def test_an_encrypted_column_is_named(tmp_path: Path, name: str) -> None:
    """In a process of its own: Arrow ends the one that asks it about such a column."""
    leaf = "tags.list.element" if name == "tags" else name
    file = write_encrypted(tmp_path, column_keys={"b": [leaf]}, plaintext_footer=True)
    program = f"""if True:
        from {__name__} import *
        file, others = {file!r}, ["id", "name", "tags"]
        others.remove({name!r})
        for columns in (None, [{name!r}]):
            with pytest.raises(UserError, match="file.parquet: column {name!r} is encrypted, .*--drop {name}"):
                infer(ParquetFormat(), file, columns)
        found = infer(without({name!r}), file)
        assert sorted(found.types) == sorted(others) and found.rows == 3
        assert len(read(ParquetFormat(), file, dict(found.types))[0]) == 3
        with pytest.raises(UserError, match="is encrypted"):
            read(ParquetFormat(), file, {{{name!r}: ColumnType("bytes", None, 1)}})
    """
    done = subprocess.run([sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_encrypted_footer_is_a_reject(tmp_path: Path) -> None:
    (reject,) = ParquetFormat().index(write_encrypted(tmp_path, uniform_encryption=True, plaintext_footer=False))
    assert isinstance(reject, Reject)
    assert reject.reason == "its footer is encrypted, and there is no key; decrypt the file"


def test_a_file_that_vanished_after_it_was_indexed(tmp_path: Path) -> None:
    file = write(tmp_path, pa.table({"x": [1]}))
    (block,) = blocks(ParquetFormat(), file)
    Path(file.path).unlink()
    (rows,) = ParquetFormat().read(block, {"x": ColumnType("int64", None, 0)})

    assert [reject.line for reject in rows.rejects] == [1]
    assert list(ParquetFormat().infer(block, None, ())) == []


class FailingFile(io.BytesIO):
    """A file on an object store that fails after some reads."""

    def __init__(self, data: bytes, reads: int) -> None:
        super().__init__(data)
        self._reads = reads

    def read(self, size: int | None = -1) -> bytes:
        self._reads -= 1
        if self._reads < 0:
            raise ConnectionResetError("the store hung up")
        return super().read(size)


def test_a_store_that_fails_is_no_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local = write(tmp_path, pa.table({"x": np.arange(10_000)}), 5_000, compression="none", use_dictionary=False)
    data = Path(local.path).read_bytes()
    file = FileRef(local.name, "gs://bucket/file.parquet", len(data))
    types = {"x": ColumnType("int64", None, 10_000)}
    failures = 0
    for reads in range(30):
        monkeypatch.setattr(storage, "open_read", lambda path, end, reads=reads: FailingFile(data, reads))
        try:
            rows, rejects = read(ParquetFormat(), file, types)
            assert ([row["x"] for _, row in rows], rejects) == (list(range(10_000)), [])
        except ConnectionResetError:
            failures += 1

    assert 0 < failures < 30
