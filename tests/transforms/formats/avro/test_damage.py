"""Avro files that are damaged, or no tables: which records are lost, and what is said of them."""

import bz2
import io
import json
import lzma
import tracemalloc
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.data.example import encode_varint
from shardmill.errors import UserError
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.formats.avro import AvroFormat, Frame, read_header
from shardmill.transforms.formats.format import FileRef, UnreadableError
from tests.support.avro_files import SYNC, array, avro, file_ref, record
from tests.support.format_files import infer
from tests.support.format_files import read_numbered as read

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
        (
            record(x="int")["fields"] and {**record(), "fields": [{"name": "x", "type": "int"}] * 2},
            "column 'x' is there twice",
        ),
        ("string", "each value is of type string; expected records"),
        (array("int"), "each value is of type array; expected records"),
        (["null", "int"], "each value is of type union; expected records"),
    ],
)
def test_what_is_no_table_is_a_mistake(tmp_path: Path, schema: Any, reason: str) -> None:
    text = json.dumps(schema).encode()
    file = file_ref(tmp_path, HEAD + encode_varint(2 * len(text)) + text + b"\0" + SYNC)
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


@settings(max_examples=150, deadline=None)
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
    monkeypatch.setattr("shardmill.transforms.formats.avro._MAX_BLOCK_BYTES", most)
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
