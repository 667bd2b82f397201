"""Existing TFRecord files: what TensorFlow writes is read; whatever the damage, every record is a row or in a
reject."""

import bz2
import gzip
import io
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from shardmill.data import tfrecord
from shardmill.data.tfrecord import OVERHEAD
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.types import ColumnType, Inferred
from shardmill.transforms.formats.format import BlockRef, FileRef
from shardmill.transforms.formats.tfrecords import TFRecordFormat
from shardmill.transforms.stores import storage
from tests.support import format_files
from tests.support.encoded import encode_example
from tests.support.framed_records import flipped
from tests.support.later import Later

tf = Later("tensorflow")

EXAMPLES = [encode_example({"id": [number], "text": [b"x" * number]}) for number in range(7)]
FILE = b"".join(map(tfrecord.frame_record, EXAMPLES))
STARTS = [sum(len(example) + OVERHEAD for example in EXAMPLES[:number]) for number in range(8)]
Found = tuple[list[tuple[int, bytes]], list[Reject]]


def file_ref(folder: Path, data: bytes, name: str = "file.tfrecord") -> FileRef:
    return format_files.file_ref(folder, data, name)


def blocks(file: FileRef, size: int) -> list[BlockRef]:
    return format_files.blocks(TFRecordFormat(size), file)


def read(file: FileRef, size: int = 1 << 20) -> Found:
    found, rejects = format_files.read_numbered(TFRecordFormat(size), file, {})
    return [(line, row["record"]) for line, row in found], rejects


def infer(file: FileRef, size: int, columns: list[str] | None = None, values_of: str | None = None) -> Inferred:
    return format_files.infer(TFRecordFormat(size), file, columns, values_of)


def numbered(records: list[bytes]) -> list[tuple[int, bytes]]:
    return list(enumerate(records, 1))


@pytest.mark.slow
@pytest.mark.parametrize("compression", ["", "GZIP"])
@pytest.mark.parametrize("size", [1, 100, 1 << 20])
def test_what_tensorflow_writes(tmp_path: Path, compression: str, size: int) -> None:
    path = tmp_path / "file.tfrecord"
    examples = [
        tf.train.Example(
            features=tf.train.Features(
                feature={
                    "number": tf.train.Feature(int64_list=tf.train.Int64List(value=[index, -index])),
                    "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[bytes([index]) * index * 100])),
                }
            )
        ).SerializeToString()
        for index in range(20)
    ]
    with tf.io.TFRecordWriter(str(path), compression) as writer:
        for example in examples:
            writer.write(example)
    file = FileRef("file.tfrecord", str(path), path.stat().st_size)

    assert read(file, size) == (numbered(examples), [])
    assert infer(file, size) == Inferred(
        {"number": ColumnType("int64", 2, 20), "image": ColumnType("bytes", None, 20)}, 20
    )


@given(st.lists(st.integers(0, 400), max_size=20), st.integers(1, 2000), st.booleans())
def test_any_block_size_gives_the_records(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], block_size: int, zipped: bool
) -> None:
    records = [encode_example({"x": [b"y" * size]}) for size in sizes]
    data = b"".join(map(tfrecord.frame_record, records))
    name, stored = ("file.tfrecord.gz", gzip.compress(data)) if zipped else ("file.tfrecord", data)
    file = file_ref(tmp_path_factory.mktemp("records"), stored, name)
    found = list(blocks(file, block_size))

    assert read(file, block_size) == (numbered(records), [])
    assert infer(file, block_size).rows == len(records)
    assert sum(block.length for block in found) == (len(stored) if found else 0)
    if not zipped and len(data) >= 2 * block_size:
        assert all(block_size <= block.length < block_size + 500 for block in found[:-1])


class ShortReads(io.BytesIO):
    """The streams of some stores return fewer bytes than asked for, and more later."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(size if size is None or size < 0 else min(size, 5))


def test_short_reads_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = file_ref(tmp_path, FILE)
    monkeypatch.setattr(storage, "open_read", lambda *_: ShortReads(FILE))

    assert len(list(blocks(file, 20))) > 2
    assert read(file, 20) == (numbered(EXAMPLES), [])


def test_many_small_and_some_large_records_are_split(tmp_path: Path) -> None:
    records = [encode_example({"x": [b"y" * (200_000 if number % 100 == 7 else 20)]}) for number in range(1000)]
    file = file_ref(tmp_path, b"".join(map(tfrecord.frame_record, records)))

    assert len(list(blocks(file, 300_000))) > 3
    assert read(file, 300_000) == (numbered(records), [])


@pytest.mark.parametrize("name", ["file.tfrecord", "file.tfrecord.gz"])
@pytest.mark.parametrize("zipped", [False, True])
def test_the_contents_say_whether_a_file_is_gzipped(tmp_path: Path, name: str, zipped: bool) -> None:
    assert read(file_ref(tmp_path, gzip.compress(FILE) if zipped else FILE, name)) == (numbered(EXAMPLES), [])


@pytest.mark.parametrize(("name", "level"), [("file.tfrecord", 0), ("file.tfrecord.gz", 1), ("file.tfrecord.zlib", 9)])
def test_zlib_data_under_any_name(tmp_path: Path, name: str, level: int) -> None:
    assert read(file_ref(tmp_path, zlib.compress(FILE, level), name)) == (numbered(EXAMPLES), [])


@pytest.mark.parametrize(
    ("data", "kind"),
    [
        (bz2.compress(FILE), "bzip2 data"),
        (zstandard.compress(FILE), "Zstandard data"),
        (b"\xff\xd8\xff\xe0" + bytes(50), "JPEG images"),
        (b"PAR1" + bytes(50), "Parquet files"),
        (b"a.txt" + bytes(252) + b"ustar\x0000" + bytes(300), "tar archives"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "pointers of Git LFS, for which `git lfs pull`"),
        (b"<!DOCTYPE html><title>403</title>", "HTML or XML texts"),
        (b'{"a": 1}\n' * 9, "JSON texts"),
        ("id,größe\n".encode() * 50, "texts"),
    ],
)
@pytest.mark.parametrize("size", [1, 100, 1 << 20])
def test_a_file_of_another_kind_is_named(tmp_path: Path, data: bytes, kind: str, size: int) -> None:
    found, (reject,) = read(file_ref(tmp_path, data), size)

    assert found == []
    assert reject.reason.startswith(f"record 1 at byte 0 is no record: the file begins as {kind}")
    assert reject.reason.endswith("bytes are lost")


def test_a_length_that_looks_like_gzip(tmp_path: Path) -> None:
    record = encode_example({"x": [b"y" * 0x88B00]})
    record = encode_example({"x": [b"y" * (0x88B00 + 0x88B1F - len(record))]})
    file = file_ref(tmp_path, tfrecord.frame_record(record))

    assert (tmp_path / "file.tfrecord").read_bytes().startswith(b"\x1f\x8b\x08")
    assert read(file) == ([(1, record)], [])


@pytest.mark.parametrize("block_size", [1, 50, 1 << 20])
def test_a_file_cut_short_anywhere(tmp_path: Path, block_size: int) -> None:
    for size in range(1, len(FILE)):
        records, rejects = read(file_ref(tmp_path, FILE[:size]), block_size)
        whole = max(number for number, start in enumerate(STARTS) if start <= size)

        assert records == numbered(EXAMPLES[:whole])
        if size == STARTS[whole]:
            assert rejects == []
            continue
        have, need = size - STARTS[whole], STARTS[whole + 1] - STARTS[whole]
        lost = f"is cut short, {have} of {need if have >= 12 else 12} bytes, which are lost"
        reason = f"record {whole + 1} at byte {STARTS[whole]} {lost}"
        assert rejects == [Reject("file.tfrecord", whole + 1, "read", reason, 1, have, "at least")]


@pytest.mark.parametrize("block_size", [1, 1 << 20])
def test_any_flipped_bit(tmp_path: Path, block_size: int) -> None:
    for bit in range(8 * STARTS[3]):
        data = bytearray(FILE)
        data[bit // 8] ^= 1 << bit % 8
        number = max(number for number, start in enumerate(STARTS) if start <= bit // 8)
        records, (reject,) = read(file_ref(tmp_path, bytes(data)), block_size)
        where = f"record {number + 1} at byte {STARTS[number]}"

        if bit // 8 < STARTS[number] + 12:
            lost = len(FILE) - STARTS[number]
            assert records == numbered(EXAMPLES)[:number]
            what = f"has a length that fails its checksum; the remaining {lost} bytes are lost"
        else:
            assert records == numbered(EXAMPLES)[:number] + numbered(EXAMPLES)[number + 1 :]
            what = "fails its checksum"
        assert reject.reason == f"{where} {what}"
        assert (reject.source, reject.line, reject.stage) == ("file.tfrecord", number + 1, "read")


def test_a_gzipped_file_cut_short_anywhere(tmp_path: Path) -> None:
    whole = gzip.compress(FILE)
    for size in range(1, len(whole)):
        records, rejects = read(file_ref(tmp_path, whole[:size], "file.tfrecord.gz"), 50)

        assert records == numbered(EXAMPLES)[: len(records)], size
        (reject,) = rejects
        assert reject.line == len(records) + 1
        assert reject.reason.endswith("the rest of the file is lost")


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zlib.compress])
def test_how_many_records_are_behind_a_broken_length(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    """Three quarters of the file, as is estimated by those before."""
    examples = [encode_example({"id": [n], "name": [b"%x" % (n * 2654435761 % 2**32)]}) for n in range(3000)]
    records = list(map(tfrecord.frame_record, examples))
    start = len(b"".join(records[:750]))
    stored = compress(flipped(b"".join(records), start))
    found, (reject,) = read(file_ref(tmp_path, stored))

    assert found == numbered(examples[:750])
    assert (reject.line, reject.count) == (751, "estimated")
    assert abs((reject.records or 0) - 2250) < 150
    assert abs(reject.size_bytes / len(stored) - 0.75) < 0.1


def test_a_broken_length_in_a_gzipped_file(tmp_path: Path) -> None:
    data = bytearray(FILE)
    data[STARTS[2]] ^= 1
    records, rejects = read(file_ref(tmp_path, gzip.compress(data), "file.tfrecord.gz"), 50)

    assert records == numbered(EXAMPLES)[:2]
    assert [reject.reason for reject in rejects] == [
        f"record 3 at byte {STARTS[2]} has a length that fails its checksum; the rest of the file is lost"
    ]


@pytest.mark.parametrize("data", [b"x", b"not a TFRecord file at all, but a text", bytes(100)])
def test_what_is_no_tfrecord_file(tmp_path: Path, data: bytes) -> None:
    records, rejects = read(file_ref(tmp_path, data))

    assert records == []
    assert [reject.line for reject in rejects] == [1]


def test_an_empty_file_has_no_blocks(tmp_path: Path) -> None:
    assert list(blocks(file_ref(tmp_path, b""), 10)) == []


def test_a_file_that_vanished_after_it_was_indexed(tmp_path: Path) -> None:
    file = file_ref(tmp_path, FILE)
    (block,) = blocks(file, 1 << 20)
    (tmp_path / "file.tfrecord").unlink()
    (rows,) = TFRecordFormat(100).read(block, {})

    assert [reject.reason for reject in rows.rejects] == [
        "record 1 at byte 0 cannot be read, and all that follows is lost: No such file or directory"
    ]


@pytest.mark.parametrize("size", [1, 100, 1 << 20])
def test_records_that_are_no_examples(tmp_path: Path, size: int) -> None:
    records = [EXAMPLES[0], b"\xff\xff", EXAMPLES[1], b"text", b"", EXAMPLES[2]]
    file = file_ref(tmp_path, b"".join(map(tfrecord.frame_record, records)))
    found, rejects = read(file, size)

    # An empty record is an empty Example
    assert found == [(1, EXAMPLES[0]), (3, EXAMPLES[1]), (5, b""), (6, EXAMPLES[2])]
    assert rejects == [
        Reject("file.tfrecord", number, "read", f"record {number} is not a tf.train.Example") for number in (2, 4)
    ]
    assert infer(file, size).rows == 4


def test_infer_honours_columns_and_values(tmp_path: Path) -> None:
    file = file_ref(tmp_path, FILE)

    assert infer(file, 1, ["text"], "id") == Inferred(
        {"text": ColumnType("bytes", None, 7)}, 7, {"id": frozenset("0123456")}
    )
