"""Parquet files that are damaged, encrypted, gone, or on a store that fails."""

import base64
import datetime
import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as encryption
import pytest

from shardmill.errors import UserError
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.nested import Nesting
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.formats.format import FileRef
from shardmill.transforms.formats.parquet import ParquetFormat
from shardmill.transforms.stores import storage
from tests.support.command import REPOSITORY
from tests.support.format_files import blocks, infer
from tests.support.parquet_files import file_ref, read, write


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
