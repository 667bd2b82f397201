"""Avro as rows: every type and codec, blocks of any size, and what damage loses."""

import bz2
import io
import lzma
import math
import tracemalloc
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.data.example import encode_varint
from shardmill.errors import UserError
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.conversion import convert_column
from shardmill.transforms.columns.nested import Nesting
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.formats.avro import AvroFormat, Frame, read_header
from shardmill.transforms.formats.format import FileRef, KeyColumn, UnreadableError, key_column_name
from tests.support.avro_files import SYNC, array, avro, column, file_ref, record, with_schema
from tests.support.format_files import Row, blocks, infer
from tests.support.format_files import read_numbered as read

FIXED = {"type": "fixed", "name": "two", "size": 2}
ENUM = {"type": "enum", "name": "letters", "symbols": ["a", "b"]}


@pytest.mark.parametrize(
    ("kind", "values", "expected_type", "expected"),
    [
        (["null", "boolean"], [True, None, False], ColumnType("bool", None, 2), [1, None, 0]),
        (["int", "null"], [1, None, -3], ColumnType("int64", None, 2), [1, None, -3]),
        ("long", [-(1 << 63), (1 << 63) - 1], ColumnType("int64", None, 2), [-(1 << 63), (1 << 63) - 1]),
        (["null", "float"], [1.5, None, math.inf], ColumnType("float32", None, 2), [1.5, None, math.inf]),
        ("double", [1.5], ColumnType("float32", None, 1), [1.5]),
        (["null", "string"], ["a", None, "ä\0"], ColumnType("bytes", None, 2), [b"a", None, "ä\0".encode()]),
        ("bytes", [b"\xff\0", b""], ColumnType("bytes", None, 2), [b"\xff\0", b""]),
        (FIXED, [b"\xff\0"], ColumnType("bytes", None, 1), [b"\xff\0"]),
        (["null", ENUM], ["a", None, "b"], ColumnType("bytes", None, 2), [b"a", None, b"b"]),
        ("null", [None, None], None, []),
        (["null", "int"], [None, None], None, []),
        (["int"], [1], ColumnType("int64", None, 1), [1]),
        (array("int"), [[1, 2], [3, 4]], ColumnType("int64", 2, 2), [[1, 2], [3, 4]]),
        (["null", array("string")], [["a"], None, ["b", "c"]], ColumnType("bytes", -1, 2), [[b"a"], [], [b"b", b"c"]]),
        (array("int"), [[], []], ColumnType("int64", 0, 2), [[], []]),
        (
            array(array("float")),
            [[[1, 2]], [[3, 4], [5, 6]]],
            ColumnType("float32", -1, 2, (2,)),
            [[1, 2], [3, 4, 5, 6]],
        ),
        (array(ENUM), [["a", "b"]], ColumnType("bytes", 2, 1), [[b"a", b"b"]]),
    ],
)
def test_every_type(
    tmp_path: Path, kind: Any, values: list[Any], expected_type: ColumnType | None, expected: list[Any]
) -> None:
    assert column(tmp_path, kind, values) == (expected_type, expected, [])


def logical(kind: str, logical_name: str, /, **more: Any) -> dict[str, Any]:
    return {"type": kind, "logicalType": logical_name, **more}


MOMENT = 1_709_168_523_000_007
_STAMPS = {"millis": (MOMENT // 1000, "ms"), "micros": (MOMENT, "us"), "nanos": (MOMENT * 1000, "ns")}
DECIMAL = {"precision": 9, "scale": 7}


@pytest.mark.parametrize(
    ("kind", "stored", "expected"),
    [
        (logical("int", "date"), 19782, pa.array([19782], pa.date32())),
        (logical("int", "date"), -900_000, pa.array([-900_000], pa.date32())),  # no date of Python's
        (logical("int", "time-millis"), 5, pa.array([5], pa.time32("ms"))),
        (logical("long", "time-micros"), 5, pa.array([5], pa.time64("us"))),
        *(
            (logical("long", f"timestamp-{word}"), n, pa.array([n], pa.timestamp(unit, "UTC")))
            for word, (n, unit) in _STAMPS.items()
        ),
        *(
            (logical("long", f"local-timestamp-{word}"), n, pa.array([n], pa.timestamp(unit)))
            for word, (n, unit) in _STAMPS.items()
        ),
        (logical("bytes", "decimal", **DECIMAL), b"\x01", b"1E-7"),
        (logical("fixed", "decimal", name="d", size=4, **DECIMAL), b"\xff\xff\xff\xfe", b"-2E-7"),
        (logical("bytes", "decimal", precision=4), b"\x7b", b"123"),  # the scale is 0 by default
        (logical("fixed", "decimal", name="d", size=3, **DECIMAL), b"abc", pa.array([b"abc"])),
        (
            logical("fixed", "duration", name="d", size=12),
            bytes((14, 0, 0, 0, 3, 0, 0, 0, 0xDC, 5, 0, 0)),
            b"P14M3DT1.5S",
        ),
        (logical("string", "uuid"), "0b1e", pa.array(["0b1e"])),
        (logical("int", "unheard-of"), 7, pa.array([7])),
        (logical("bytes", "decimal", precision=2, scale=5), b"ab", pa.array([b"ab"])),  # invalid, and so skipped
    ],
)
def test_logical_types_are_what_parquet_makes_of_them(
    tmp_path: Path, kind: Any, stored: Any, expected: pa.Array | bytes
) -> None:
    bare = {name: value for name, value in kind.items() if name in ("type", "name", "size")}
    data = avro(record(x=bare), [{"x": stored}])  # as it is stored, and then as its schema says
    file = file_ref(tmp_path, with_schema(data, record(x=kind)))
    found = infer(AvroFormat(1024), file).types["x"]
    value = expected if isinstance(expected, bytes) else convert_column(expected, found).array[0].as_py()
    assert read(AvroFormat(1024), file, {"x": found}) == ([(1, {"x": value})], [])


@pytest.mark.parametrize("block_size", [1024, 1 << 20])
@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2", "xz", "zstandard", "snappy"])
def test_every_codec(tmp_path: Path, codec: str, block_size: int) -> None:
    numbers = range(3000)
    file = file_ref(tmp_path, written_by(codec, record(x="long"), [{"x": n} for n in numbers]))
    rows, rejects = read(AvroFormat(block_size), file, {"x": ColumnType("int64", None, 3000)})
    assert rejects == []
    assert rows == [(n + 1, {"x": n}) for n in numbers]


def written_by(codec: str, schema: Any, rows: list[Row]) -> bytes:
    """A file of blocks that fastavro may lack the library to compress."""
    if codec not in ("snappy", "zstandard"):
        return avro(schema, rows, codec=codec)
    plain = avro(schema, rows)
    start = plain.index(SYNC) + len(SYNC)
    out = plain[:start].replace(b"\x08null", encode_varint(2 * len(codec)) + codec.encode())
    for block in fastavro.block_reader(io.BytesIO(plain)):
        data = PACK[codec](block.bytes_.getvalue())  # type: ignore[attr-defined]
        out += encode_varint(2 * block.num_records) + encode_varint(2 * len(data)) + data + SYNC
    return out


MIXED = record(a=["null", "long"], b="string", c=array("double"))
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "a": st.none() | st.integers(-(1 << 63), (1 << 63) - 1),
            "b": st.text(max_size=20),
            "c": st.lists(st.floats(width=32), max_size=3),
        }
    ),
    min_size=1,
    max_size=60,
)


@settings(max_examples=60)
@given(rows=ROWS, block_bytes=st.integers(0, 500), block_size=st.integers(1, 3000))
def test_any_blocks_have_the_same_rows(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row], block_bytes: int, block_size: int
) -> None:
    file = file_ref(tmp_path_factory.mktemp("avro"), avro(MIXED, rows, block_bytes))
    format_ = AvroFormat(block_size)
    inferred = infer(format_, file)
    assert inferred == infer(AvroFormat(1 << 30), file)
    assert inferred.rows == len(rows)
    found, rejects = read(format_, file, dict(inferred.types))
    assert rejects == []
    with open(file.path, "rb") as stream:  # as fastavro itself reads it
        expected: list[Any] = list(fastavro.reader(stream))
    assert [number for number, _ in found] == list(range(1, len(rows) + 1))
    assert sum(block.records or 0 for block in blocks(format_, file)) == len(rows)
    for (_, row), other in zip(found, expected, strict=True):
        assert row.get("a") == other["a"]
        assert row["b"] == other["b"].encode()
        np.testing.assert_array_equal(np.array(row.get("c", []), np.float32), np.array(other["c"], np.float32))


def test_values_that_do_not_fit_are_rejects(tmp_path: Path) -> None:
    found, values, reasons = column(tmp_path, "double", [1.0, 1e300, 2.0])
    assert (found.dtype, values) == ("float32", [1.0, 2.0])
    assert reasons == ["column 'x': 1e+300 is beyond the range of float32"]


def test_fill_stands_for_null(tmp_path: Path) -> None:
    assert column(tmp_path, ["null", "int"], [1, None], fill="-1") == (ColumnType("int64", None, 2), [1, -1], [])


def test_text_that_is_not_utf8_stays_as_it_is(tmp_path: Path) -> None:
    data = avro(record(x="string"), [{"x": "caf__"}]).replace(b"caf__", b"caf\xe9\xff")
    rows, rejects = read(AvroFormat(1024), file_ref(tmp_path, data), {"x": ColumnType("bytes", None, 1)})
    assert (rows, rejects) == ([(1, {"x": b"caf\xe9\xff"})], [])


def test_keys_and_values_of_columns_that_are_no_features(tmp_path: Path) -> None:
    file = file_ref(tmp_path, avro(record(x="int", k=ENUM), [{"x": 1, "k": "a"}, {"x": 2, "k": "b"}]))
    format_ = AvroFormat(1024)
    (block,) = blocks(format_, file)
    (part,) = format_.read(block, {"x": ColumnType("int64", None, 2)}, [KeyColumn("k")])
    assert part.batch[key_column_name("k")].to_pylist() == [b"a", b"b"]
    assert infer(format_, file, ["x"], "k").values == {"k": frozenset("ab")}


NESTED = {"type": "record", "name": "node", "fields": [{"name": "next", "type": ["null", "node"]}]}


@pytest.mark.parametrize(
    ("kind", "value", "what"),
    [
        ({"type": "map", "values": "int"}, {"a": 1}, "a map"),
        (NESTED, {"next": {"next": None}}, "a record that may hold another one of itself"),
        (array(NESTED), [{"next": None}], "a record that may hold another one of itself"),
        (["null", "int", "string"], "a", "a union of int and string"),
        (logical("bytes", "decimal", precision=100), b"\1", "a decimal of 100 digits"),
    ],
)
def test_what_no_feature_holds_is_dropped_or_refused(tmp_path: Path, kind: Any, value: Any, what: str) -> None:
    data = avro(record(x="int", y="bytes" if isinstance(value, bytes) else kind), [{"x": 1, "y": value}])
    file = file_ref(tmp_path, with_schema(data, record(x="int", y=kind)))
    assert set(infer(AvroFormat(1024, nesting=Nesting(drop=("y",))), file).types) == {"x"}
    rows, _ = read(AvroFormat(1024), file, {"x": ColumnType("int64", None, 1)})
    assert rows == [(1, {"x": 1})]
    with pytest.raises(UserError) as caught:
        infer(AvroFormat(1024), file)
    flatten = "--flatten makes columns of the fields of objects, " if what == "a map" else ""
    assert str(caught.value) == (
        f"file.avro: column 'y' is {what}; expected numbers, strings or lists of them: {flatten}--json_columns y stores"
        " JSON text, and --drop y leaves the column out"
    )
    with pytest.raises(UserError, match="--drop y leaves the column out"):
        read(AvroFormat(1024), file, {"y": ColumnType("bytes", None, 1)})


def test_a_header_of_any_length(tmp_path: Path) -> None:
    schema = record(**{f"column_{number}": "int" for number in range(5000)})
    file = file_ref(tmp_path, avro(schema, [{f"column_{number}": number for number in range(5000)}]))
    assert len(AvroFormat(1024).header(file)) == 5000
    rows, _ = read(AvroFormat(1024), file, {"column_4999": ColumnType("int64", None, 1)})
    assert rows == [(1, {"column_4999": 4999})]


GOOD = avro(record(x="long"), [{"x": n} for n in range(100)], block_bytes=20)
START = GOOD.index(SYNC) + 16
HEAD = b"Obj\x01\x02\x16avro.schema"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not an Avro file: it is empty"),
        (b"PAR1 and so on", "not an Avro file: it begins with b'PAR1'"),
        (GOOD[: START - 5], "its header is cut short or damaged"),
        (HEAD + b"\x06{,}\0" + SYNC, "its schema cannot be read"),
        (HEAD + b'\x0a"foo"\0' + SYNC, "its schema cannot be read"),
        (b"Obj\x01\0" + SYNC, "its schema cannot be read"),
        (GOOD.replace(b"\x08null", b"\x08lz4x"), "its blocks are compressed by 'lz4x'; expected one of null, deflate"),
    ],
)
def test_what_is_no_avro_is_one_reject(tmp_path: Path, content: bytes, reason: str) -> None:
    file = file_ref(tmp_path, content)
    (reject,) = AvroFormat(1024).index(file)
    assert isinstance(reject, Reject)
    assert reason in reject.reason
    assert (reject.source, reject.stage, reject.records, reject.count) == ("file.avro", "index", None, "estimated")
    assert AvroFormat(1024).header(file) == ()


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({**record(), "fields": [{"name": "x", "type": "int"}] * 2}, "column 'x' is there twice"),
        ("string", "each value is of type string; expected records"),
        (array("int"), "each value is of type array; expected records"),
        (["null", "int"], "each value is of type union; expected records"),
    ],
)
def test_what_is_no_table_is_a_mistake(tmp_path: Path, schema: Any, reason: str) -> None:
    file = file_ref(tmp_path, with_schema(SYNC, schema))
    with pytest.raises(UserError, match=f"^file.avro: {reason}"):
        list(AvroFormat(1024).index(file))


def test_a_header_alone_has_columns_and_no_rows(tmp_path: Path) -> None:
    file = file_ref(tmp_path, GOOD[:START])
    assert list(AvroFormat(1024).index(file)) == []
    assert AvroFormat(1024).header(file) == ("x",)


def frames(data: bytes) -> list[tuple[int, int, int]]:
    """Of each block: where it starts, how long it is, how many records it has."""
    return [(block.offset, block.size, block.num_records) for block in fastavro.block_reader(io.BytesIO(data))]


@pytest.mark.parametrize("block_size", [1, 40, 1 << 20])
def test_a_block_that_cannot_be_decoded_loses_its_records_alone(tmp_path: Path, block_size: int) -> None:
    at, size, count = frames(GOOD)[1]
    before = frames(GOOD)[0][2]
    data = GOOD[: at + 2] + b"\xff" * (size - 18) + GOOD[at + size - 16 :]
    rows, (reject,) = read(AvroFormat(block_size), file_ref(tmp_path, data), {"x": ColumnType("int64", None, 100)})
    assert [number for number, _ in rows] == [n for n in range(1, 101) if not before < n <= before + count]
    assert all(row == {"x": number - 1} for number, row in rows)
    assert (reject.line, reject.records, reject.size_bytes, reject.count) == (before + 1, count, size, "exact")
    assert f"the block of {count} records at byte {at} cannot be decoded: " in reject.reason


def test_a_block_that_holds_more_than_its_records_is_not_trusted(tmp_path: Path) -> None:
    at, _, count = frames(GOOD)[1]
    data = GOOD[:at] + encode_varint(2 * (count - 1)) + GOOD[at + 1 :]
    _, (reject,) = read(AvroFormat(1 << 20), file_ref(tmp_path, data), {"x": ColumnType("int64", None, 100)})
    assert reject.records == count - 1


@pytest.mark.parametrize("block_size", [1, 1 << 20])
def test_a_file_cut_within_a_block_keeps_those_before(tmp_path: Path, block_size: int) -> None:
    every = frames(GOOD)
    at, size, count = every[2]
    before = sum(block[2] for block in every[:2])
    file = file_ref(tmp_path, GOOD[: at + size - 1])
    rows, (reject,) = read(AvroFormat(block_size), file, {"x": ColumnType("int64", None, 100)})
    assert [number for number, _ in rows] == list(range(1, before + 1))
    assert (reject.line, reject.records, reject.size_bytes, reject.count) == (before + 1, count, size - 1, "at least")
    assert f"the block at byte {at} is cut short" in reject.reason


def test_a_file_cut_between_blocks_is_whole(tmp_path: Path) -> None:
    at, _, _ = frames(GOOD)[2]
    rows, rejects = read(AvroFormat(1), file_ref(tmp_path, GOOD[:at]), {"x": ColumnType("int64", None, 100)})
    assert (len(rows), rejects) == (sum(block[2] for block in frames(GOOD)[:2]), [])


@pytest.mark.parametrize("block_size", [1, 1 << 20])
@pytest.mark.parametrize("damage", ["marker", "size", "count"])
def test_where_no_block_follows_the_rest_is_estimated(tmp_path: Path, block_size: int, damage: str) -> None:
    every = frames(GOOD)
    at, size, _ = every[3]
    before = sum(block[2] for block in every[:3])
    mark = at + size - 1
    data = {
        "marker": GOOD[:mark] + b"?" + GOOD[mark + 1 :],
        "size": GOOD[: at + 1] + encode_varint(1 << 50) + GOOD[at + 2 :],
        "count": GOOD[:at] + encode_varint((1 << 50) + 1) + GOOD[at + 1 :],
    }[damage]
    rows, (reject,) = read(AvroFormat(block_size), file_ref(tmp_path, data), {"x": ColumnType("int64", None, 100)})
    assert len(rows) == before
    assert (reject.line, reject.count, reject.size_bytes) == (before + 1, "estimated", len(data) - at)
    assert reject.records
    assert f"the block at byte {at:,} " in reject.reason


@settings(max_examples=150)
@given(at=st.integers(START, len(GOOD) - 1), byte=st.integers(0, 255), codec=st.sampled_from(["null", "deflate"]))
def test_any_byte_that_is_damaged_is_no_crash(
    tmp_path_factory: pytest.TempPathFactory, at: int, byte: int, codec: str
) -> None:
    data = GOOD if codec == "null" else avro(record(x="long"), [{"x": n} for n in range(100)], 20, codec)
    at = min(at, len(data) - 1)
    file = file_ref(tmp_path_factory.mktemp("avro"), data[:at] + bytes([byte]) + data[at + 1 :])
    format_ = AvroFormat(64)
    infer(format_, file)
    rows, rejects = read(format_, file, {"x": ColumnType("int64", None, 100)})
    assert len(rows) == 100 or rejects


PACK: dict[str, Callable[[bytes], bytes]] = {
    "deflate": lambda data: zlib.compress(data)[2:-1],  # as fastavro does: a part of the checksum stays behind
    "bzip2": bz2.compress,
    "snappy": lambda data: pa.compress(data, codec="snappy", asbytes=True) + zlib.crc32(data).to_bytes(4, "big"),
    "xz": lzma.compress,
    "zstandard": zstandard.compress,
}
MEGABYTE = 1_000_000


def decode(codec: str, text: bytes, most: int, monkeypatch: pytest.MonkeyPatch, cut: int = 0) -> list[Any]:
    """The value of a block of one record, where one may hold `most` bytes and `cut` of it are missing."""
    monkeypatch.setattr("shardmill.transforms.formats.avro.MAX_BLOCK_BYTES", most)
    data = avro(record(x="string"), [])
    header = replace(read_header(io.BytesIO(data), FileRef("a.avro", "a.avro", len(data))), codec=codec)
    packed = PACK[codec](encode_varint(2 * len(text)) + text)
    frame = Frame(0, len(packed), 1, packed[: len(packed) - cut])
    values: list[Any] = header.decode(frame, ["x"])["x"].to_pylist()
    return values


@pytest.mark.parametrize("codec", PACK)
def test_a_block_holds_so_much_and_no_more(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"a" * 1000
    assert decode(codec, text, 1002, monkeypatch) == [text]  # two bytes say how long it is
    assert decode(codec, b"a" * 1022, 1024, monkeypatch) == [b"a" * 1022]  # 1,024 of which the low seven bits are none
    with pytest.raises(UnreadableError, match=r"hold 1,002 bytes" if codec == "snappy" else "to more than 1,001 bytes"):
        decode(codec, text, 1001, monkeypatch)


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "zstandard"])  # whose libraries' memory is not Python's
def test_no_more_of_a_block_is_held_than_one_may_hold(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"a" * 30 * MEGABYTE
    packed = PACK[codec](encode_varint(2 * len(text)) + text)
    monkeypatch.setitem(PACK, codec, lambda _: packed)
    text = b""
    tracemalloc.start()
    with pytest.raises(UnreadableError):
        decode(codec, text, MEGABYTE, monkeypatch)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 * MEGABYTE


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz"])
def test_a_compressed_block_that_ends_early_is_said_to(codec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UnreadableError, match="its bytes end too early"):
        decode(codec, b"abc" * 1000, MEGABYTE, monkeypatch, cut=20)
