"""Every type of Arrow in Parquet, and every logical type of Avro: the feature that it becomes, its values as TensorFlow
reads them, and its notice. docs/types.md has the table."""

import datetime
import json
import re
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardmill.data.example import encode_varint
from tests.support.avro_files import avro, record
from tests.support.command import REPOSITORY, write_files
from tests.support.jobs import Jobs
from tests.support.later import Later
from tests.support.table_results import Table, convert, parquet, read_table

tf = Later("tensorflow")

DAY, TIME = datetime.date(2024, 2, 29), datetime.time(1, 2, 3, 4)
STAMP = 1_709_168_523_000_007  # in us
UUID = uuid.UUID("0b1e0000-12ab-4cd3-8ef4-0123456789ab")
TENSOR = pa.fixed_shape_tensor(pa.float32(), (2, 3))


class Case(NamedTuple):
    """A column of one type, the feature that it becomes, and the values in its first row."""

    array: pa.Array
    feature: str
    values: list[Any]
    notice: str = ""


def scalar(kind: pa.DataType, value: Any, feature: str, stored: Any, notice: str = "") -> Case:
    """A column of a value and a null."""
    return Case(pa.array([value, None], kind), f"{feature}?", [stored], notice)


def cast(kind: pa.DataType, value: int, feature: str, stored: Any, notice: str = "") -> Case:
    return scalar(kind, pa.scalar(value, pa.int64()).cast(kind), feature, stored, notice)


def extension(kind: pa.DataType, value: Any, feature: str, stored: Any, notice: str = "") -> Case:
    array = pa.ExtensionArray.from_storage(kind, pa.array([value, None], kind.storage_type))
    return Case(array, f"{feature}?", stored if isinstance(stored, list) else [stored], notice)


class Celsius(pa.ExtensionType):
    """An extension type of a user's own."""

    def __init__(self) -> None:
        super().__init__(pa.int16(), "acme.celsius")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> "Celsius":
        return cls()


DURATION = "column '{}' holds durations, of which the numbers of {} are stored"
CASES = {
    "bool": scalar(pa.bool_(), True, "int64", 1),
    **{str(kind): scalar(kind, -7, "int64", -7) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    **{str(kind): scalar(kind, 7, "int64", 7) for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())},
    "float16": scalar(pa.float16(), np.float16(1.5), "float32", 1.5),
    "float32": scalar(pa.float32(), 1.5, "float32", 1.5),
    "float64": scalar(pa.float64(), 0.1, "float32", float(np.float32(0.1))),
    "decimal32": scalar(pa.decimal32(5, 2), Decimal("1.50"), "bytes", b"1.50"),
    "decimal64": scalar(pa.decimal64(12, 2), Decimal("-1.50"), "bytes", b"-1.50"),
    "decimal128": scalar(pa.decimal128(38, 2), Decimal("123456789012345678901234567890.25"), "bytes",
                         b"123456789012345678901234567890.25"),
    "decimal256": scalar(pa.decimal256(60, 1), Decimal("1" + "0" * 50 + ".5"), "bytes",
                         b"100000000000000000000000000000000000000000000000000.5"),
    "string": scalar(pa.string(), "é", "bytes", "é".encode()),
    "large_string": scalar(pa.large_string(), "é", "bytes", "é".encode()),
    "string_view": scalar(pa.string_view(), "a text beyond twelve bytes", "bytes", b"a text beyond twelve bytes"),
    "binary": scalar(pa.binary(), b"\xff\0", "bytes", b"\xff\0"),
    "large_binary": scalar(pa.large_binary(), b"\xff\0", "bytes", b"\xff\0"),
    "binary_view": scalar(pa.binary_view(), b"\xff\0", "bytes", b"\xff\0"),
    "fixed_size_binary": scalar(pa.binary(3), b"\xff\0a", "bytes", b"\xff\0a"),
    "date32": scalar(pa.date32(), DAY, "bytes", b"2024-02-29"),
    "date64": scalar(pa.date64(), DAY, "bytes", b"2024-02-29"),
    "time32[s]": scalar(pa.time32("s"), datetime.time(1, 2, 3), "bytes", b"01:02:03.000"),  # Parquet has no seconds
    "time32[ms]": scalar(pa.time32("ms"), datetime.time(1, 2, 3, 4000), "bytes", b"01:02:03.004"),
    "time64[us]": scalar(pa.time64("us"), TIME, "bytes", b"01:02:03.000004"),
    "time64[ns]": scalar(pa.time64("ns"), TIME, "bytes", b"01:02:03.000004000"),
    "timestamp[s]": cast(pa.timestamp("s"), STAMP // 10**6, "bytes", b"2024-02-29 01:02:03.000"),
    "timestamp[ms]": cast(pa.timestamp("ms"), STAMP // 10**3, "bytes", b"2024-02-29 01:02:03.000"),
    "timestamp[us]": cast(pa.timestamp("us"), STAMP, "bytes", b"2024-02-29 01:02:03.000007"),
    "timestamp[ns]": cast(pa.timestamp("ns"), STAMP * 1000, "bytes", b"2024-02-29 01:02:03.000007000"),
    "timestamp[us, tz=UTC]": cast(pa.timestamp("us", "UTC"), STAMP, "bytes", b"2024-02-29 01:02:03.000007Z"),
    "timestamp[us, tz=Europe/Berlin]": cast(pa.timestamp("us", "Europe/Berlin"), STAMP, "bytes",
                                            b"2024-02-29 02:02:03.000007+0100"),
    "timestamp[us, tz=-05:00]": cast(pa.timestamp("us", "-05:00"), STAMP, "bytes", b"2024-02-28 20:02:03.000007-0500"),
    **{f"duration[{unit}]": cast(pa.duration(unit), 90_061, "int64", 90_061, DURATION.format(f"duration[{unit}]", unit))
       for unit in ("s", "ms", "us", "ns")},
    "dictionary": scalar(pa.dictionary(pa.int8(), pa.string()), "a", "bytes", b"a"),
    "dictionary of numbers": scalar(pa.dictionary(pa.int32(), pa.int64()), 7, "int64", 7),
    "list": Case(pa.array([[1, 2], None]), "int64[2]?", [1, 2]),
    "list of several lengths": Case(pa.array([[1, 2], [3]]), "int64[]", [1, 2]),
    "list of lists": Case(pa.array([[[1.5, 2], [3, 4]], None], pa.list_(pa.list_(pa.float32()))), "float32[2, 2]?",
                          [1.5, 2, 3, 4]),
    "list of dictionaries": Case(pa.array([["a", "b"], None], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
                                 "bytes[2]?", [b"a", b"b"]),
    "list of durations": Case(pa.array([[5, 6], None], pa.list_(pa.duration("s"))), "int64[2]?", [5, 6],
                              DURATION.format("list of durations", "s")),
    "large_list": Case(pa.array([["a", "b"], None], pa.large_list(pa.string())), "bytes[2]?", [b"a", b"b"]),
    "fixed_size_list": Case(pa.array([[1, 2], None], pa.list_(pa.int8(), 2)), "int64[2]?", [1, 2]),
    "list_view": Case(pa.array([[1, 2], None], pa.list_view(pa.int32())), "int64[2]?", [1, 2]),
    "large_list_view": Case(pa.array([[1, 2], None], pa.large_list_view(pa.int32())), "int64[2]?", [1, 2]),
    "uuid": extension(pa.uuid(), UUID.bytes, "bytes", str(UUID).encode()),
    "list of uuid": Case(
        pa.ListArray.from_arrays([0, 1, 1], pa.array([UUID.bytes], pa.binary(16)).cast(pa.uuid())),
        "bytes[]", [str(UUID).encode()]),
    "bool8": extension(pa.bool8(), 1, "int64", 1),
    "json": extension(pa.json_(), '{"a": 1}', "bytes", b'{"a": 1}'),
    "fixed_shape_tensor": extension(TENSOR, [0, 1, 2, 3, 4, 5], "float32[2, 3]", [0, 1, 2, 3, 4, 5]),
    "fixed_shape_tensor with a permutation": extension(
        pa.fixed_shape_tensor(pa.int8(), (2, 3), permutation=[1, 0]), [0, 1, 2, 3, 4, 5], "int64[2, 3]",
        [0, 1, 2, 3, 4, 5],
        "column 'fixed_shape_tensor with a permutation' holds tensors with the permutation [1, 0], which is not"
        " applied: they have the shape 2,3 as they are stored"),
    "opaque": extension(
        pa.opaque(pa.binary(), "geometry", "acme"), b"\x01\x02", "bytes", b"\x01\x02",
        "column 'opaque' has the extension type arrow.opaque, of which the storage is read: binary"),
    "extension": Case(
        pa.ExtensionArray.from_storage(Celsius(), pa.array([21, None], pa.int16())), "int64?", [21],
        "column 'extension' has the extension type acme.celsius, of which the storage is read: int16"),
}  # fmt: skip


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """One file with a column of each type."""
    columns = {name: case.array for name, case in CASES.items()}
    types = parquet(pa.table({"row": [0, 1], **columns, "null": pa.nulls(2)}))
    folder = write_files(tmp_path_factory.mktemp("types"), {"in/a.parquet": types})
    return convert("parquet", folder / "in", folder)


def first_row(directory: Path) -> dict[str, list[Any]]:
    """The values of the row called 0, as TensorFlow's own classes parse them."""
    paths = [str(path) for path in sorted(directory.glob("*-train*"))]
    found = [tf.train.Example.FromString(record.numpy()) for record in tf.data.TFRecordDataset(paths)]
    (example,) = [each for each in found if each.features.feature["row"].int64_list.value[0] == 0]
    return {
        name: list(getattr(feature, feature.WhichOneof("kind")).value)
        for name, feature in example.features.feature.items()
    }


def feature_text(table: Table, name: str) -> str:
    (feature,) = (each for each in table.dataset.manifest.features if each.name == name)
    shape = ", ".join("" if size is None else str(size) for size in feature.shape)
    return feature.dtype + (f"[{shape}]" if feature.shape else "") + ("" if feature.required else "?")


@pytest.mark.slow
def test_every_type_becomes_a_feature_with_exactly_these_values(table: Table) -> None:
    found = first_row(table.directory)

    assert {name: feature_text(table, name) for name in CASES} == {name: case.feature for name, case in CASES.items()}
    assert {name: found[name] for name in CASES} == {name: case.values for name, case in CASES.items()}
    assert table.rejects() == []


def test_what_is_not_plain_is_said_once_and_nothing_else(table: Table) -> None:
    expected = [case.notice for case in CASES.values() if case.notice]
    named = [notice for notice in table.dataset.manifest.notices if "column" in notice]
    notices = [notice for notice in named if " is stored as text, and " not in notice]  # of decimals, dates and times
    others = [notice for notice in notices if notice not in expected]
    assert sorted(set(notices) & set(expected)) == sorted(expected)
    assert len(others) == 1
    assert "'null'" in others[0]


@pytest.mark.parametrize(
    "array",
    [
        pa.array([(1, 2, 3)], pa.month_day_nano_interval()),
        pa.RunEndEncodedArray.from_arrays([1], ["a"]),
        pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])]),
    ],
    ids=["month_day_nano_interval", "run_end_encoded", "union"],
)
def test_types_that_parquet_does_not_have(array: pa.Array) -> None:
    """If this fails, a new pyarrow writes them, and a case above is missing."""
    with pytest.raises(pa.ArrowNotImplementedError, match="Unhandled type"):
        parquet(pa.table({"x": array}))


def test_intervals_of_parquet(jobs: Jobs) -> None:
    """INTERVAL, which DuckDB and Spark write and pyarrow does not: 12 bytes of months, days and milliseconds."""
    stored = [(14, 3, 1500), (0, 0, 0), (0, 0, 86_400_000), None]
    data = [None if each is None else b"".join(part.to_bytes(4, "little") for part in each) for each in stored]
    content = parquet(pa.table({"x": pa.array(data, pa.binary(12)), "n": [0, 1, 2, 3]}), store_schema=False)
    length = int.from_bytes(content[-8:-4], "little")
    footer = content[-8 - length : -8].replace(b"\x18\x01x\x00", b"\x18\x01x\x25\x2a\x00", 1)  # converted_type = 21
    jobs.write({"a.parquet": content[: -8 - length] + footer + len(footer).to_bytes(4, "little") + b"PAR1"})
    assert pq.ParquetFile("in/a.parquet").schema.column(0).converted_type == "INTERVAL"

    rows = jobs.build("parquet").table.rows

    assert {row["n"]: row.get("x") for row in rows} == {0: b"P14M3DT1.5S", 1: b"PT0S", 2: b"PT86400S", 3: None}


def test_a_unit_of_durations_that_differs_between_files(jobs: Jobs) -> None:
    tables = {unit: pa.table({"took": pa.array([5], pa.duration(unit)), "n": [1]}) for unit in ("s", "ms")}
    sentence = "column 'took' holds durations, of which the numbers of ms are stored, and in other files of s"
    jobs.refuse("parquet", sentence, files={f"{unit}.parquet": parquet(table) for unit, table in tables.items()})
    jobs.build("parquet --drop took")


@pytest.mark.slow
def test_flattened_and_json_columns_of_such_types(jobs: Jobs) -> None:
    struct = pa.StructArray.from_arrays(
        [
            pa.array([5, 6], pa.duration("s")),
            pa.ExtensionArray.from_storage(pa.uuid(), pa.array([UUID.bytes, UUID.bytes], pa.binary(16))),
            pa.ExtensionArray.from_storage(TENSOR, pa.array([[0, 1, 2, 3, 4, 5]] * 2, TENSOR.storage_type)),
        ],
        ["took", "id", "tensor"],
    )
    files = {"a.parquet": parquet(pa.table({"x": struct, "row": [0, 1]}))}
    flat = jobs.build("parquet --flatten --name flat", files=files).directory
    texts = jobs.build("parquet --json_columns x --name texts").directory

    table = read_table(flat)
    assert first_row(flat) == {"x.took": [5], "x.id": [str(UUID).encode()], "x.tensor": [0, 1, 2, 3, 4, 5], "row": [0]}
    assert feature_text(table, "x.tensor") == "float32[2, 3]"
    assert DURATION.format("x.took", "s") in table.dataset.manifest.notices
    (text,) = first_row(texts)["x"]
    assert json.loads(text) == {"took": 5, "id": str(UUID), "tensor": [[0, 1, 2], [3, 4, 5]]}


AVRO: dict[str, tuple[dict[str, Any], Any, bytes]] = {
    "uuid (string)": ({"type": "string", "logicalType": "uuid"}, str(UUID), str(UUID).encode()),
    "uuid (fixed)": ({"type": "fixed", "name": "u", "size": 16, "logicalType": "uuid"}, UUID.bytes, str(UUID).encode()),
    "duration": (
        {"type": "fixed", "name": "d", "size": 12, "logicalType": "duration"},
        b"\x01\0\0\0\x02\0\0\0\xf4\x01\0\0",
        b"P1M2DT0.5S",
    ),
    "decimal (bytes)": (
        {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, (12345).to_bytes(3, "big"), b"123.45"),
    "decimal (fixed)": (
        {"type": "fixed", "name": "f", "size": 4, "logicalType": "decimal", "precision": 9, "scale": 2},
        (-12345).to_bytes(4, "big", signed=True), b"-123.45"),
    "big-decimal": ({"type": "bytes", "logicalType": "big-decimal"}, b"\x04\x30\x39\x04", b"123.45"),
    "date": ({"type": "int", "logicalType": "date"}, 19782, b"2024-02-29"),
    "time-millis": ({"type": "int", "logicalType": "time-millis"}, 3723004, b"01:02:03.004"),
    "time-micros": ({"type": "long", "logicalType": "time-micros"}, 3723000004, b"01:02:03.000004"),
    **{
        f"{local}timestamp-{unit}": (
            {"type": "long", "logicalType": f"{local}timestamp-{unit}"}, number, text + (b"" if local else b"Z"))
        for local in ("", "local-")
        for unit, number, text in (
            ("millis", STAMP // 1000, b"2024-02-29 01:02:03.000"),
            ("micros", STAMP, b"2024-02-29 01:02:03.000007"),
            ("nanos", STAMP * 1000, b"2024-02-29 01:02:03.000007000"),
        )
    },
    "enum": ({"type": "enum", "name": "e", "symbols": ["A", "B"]}, "B", b"B"),
    "fixed": ({"type": "fixed", "name": "x", "size": 3}, b"abc", b"abc"),
}  # fmt: skip


def test_every_logical_type_of_avro(jobs: Jobs) -> None:
    names = {name: f"c{number}" for number, name in enumerate(AVRO)}
    bare = {
        names[name]: {key: value for key, value in kind.items() if key in ("type", "name", "size", "symbols")}
        for name, (kind, _, _) in AVRO.items()
    }
    data = avro(record(**bare), [{names[name]: stored for name, (_, stored, _) in AVRO.items()}])  # as it is stored
    told = json.dumps(record(**{names[name]: kind for name, (kind, _, _) in AVRO.items()})).encode()
    sync = data[-16:]
    meta = b"".join(encode_varint(2 * len(part)) + part for part in (b"avro.schema", told, b"avro.codec", b"null"))
    body = data[data.index(sync) :]
    (row,) = jobs.build("avro", files={"a.avro": b"Obj\x01" + encode_varint(4) + meta + b"\0" + body}).table.rows

    assert {name: row[names[name]] for name in AVRO} == {name: expected for name, (_, _, expected) in AVRO.items()}


def test_the_docs_name_every_type() -> None:
    page = (REPOSITORY / "docs/types.md").read_text().partition("## Types of Parquet")[2]
    named = set(re.findall(r"`([^`]+)`", page))
    plain = {re.sub(r"( of | with |\[| \().*", "", name) for name in (*CASES, *AVRO)}
    assert plain - named == set()
    assert {"struct", "map", "union", "run_end_encoded", "month_day_nano_interval", "null"} <= named
