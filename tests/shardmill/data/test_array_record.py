"""ArrayRecord files: the library reads what is written, and its errors are those of a system or of damaged data."""

import errno
import io
import os
import random
import resource
import sys
import tempfile
from pathlib import Path

import pytest

from shardmill.data import array_record
from shardmill.data.array_record import ArrayRecordEncoder, open_reader, read_blocks, read_record
from shardmill.data.tfrecord import frame_record
from shardmill.errors import CorruptDataError, UserError


def written(records: list[bytes]) -> bytes:
    encoder = ArrayRecordEncoder()
    return b"".join([*(encoder.compress(frame_record(record)) for record in records), encoder.flush()])


def records_of(data: bytes) -> list[bytes]:
    return [record for block in read_blocks(io.BytesIO(data), "s") for record in block]


@pytest.fixture(scope="module")
def records() -> list[bytes]:
    """Records of all sizes, of which some are longer than a block of the file, and some compress well."""
    chance = random.Random(1)
    return [chance.randbytes(chance.choice([0, 1, 100, 3000, 70_000])) + b"a" * (n % 7 * 1000) for n in range(200)]


def test_no_shard_is_held_in_memory() -> None:
    """The library writes 16 MiB at a time."""
    encoder, framed = ArrayRecordEncoder(), frame_record(os.urandom(1 << 20))
    pieces = [*(len(encoder.compress(framed)) for _ in range(50)), len(encoder.flush())]

    assert sum(pieces) > 50 << 20
    assert max(pieces) <= 16 << 20


def test_it_is_the_file_that_the_library_writes(records: list[bytes], tmp_path: Path) -> None:
    """The options are those of TFDS's ArrayRecordFileAdapter.write_examples."""
    from array_record.python.array_record_module import ArrayRecordWriter

    writer = ArrayRecordWriter(str(tmp_path / "theirs"), "group_size:1")
    for record in records:
        writer.write(record)
    writer.close()

    theirs = (tmp_path / "theirs").read_bytes()
    assert written(records) == theirs
    assert theirs.startswith(array_record.SIGNATURE)


def test_a_file_on_a_disk_is_not_copied(records: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "s").write_bytes(written(records))
    monkeypatch.setattr(tempfile, "TemporaryFile", None)

    with open(tmp_path / "s", "rb") as file:
        assert [record for block in read_blocks(file, "s") for record in block] == records
        assert file.read() == b""  # by which a caller has its checksum


def test_any_record_is_read_alone(records: list[bytes], tmp_path: Path) -> None:
    (tmp_path / "s").write_bytes(written(records))
    reader = open_reader(str(tmp_path / "s"), "s")

    assert reader.num_records() == len(records)
    for number in (199, 0, 57):
        assert read_record(reader, number, "s") == records[number]


def test_a_damaged_record_is_named_after_those_before_it(records: list[bytes], tmp_path: Path) -> None:
    number = next(number for number in range(120, 200) if len(records[number]) >= 70_000)
    data = bytearray(written(records))
    data[data.index(records[number][1000:1100])] ^= 1
    found: list[bytes] = []

    def read_all() -> None:
        for block in read_blocks(io.BytesIO(data), "s"):
            found.extend(block)

    with pytest.raises(CorruptDataError, match=rf"^s: record {number}: Corrupted Riegeli/records file: [^;]+$"):
        read_all()
    assert found == records[:number]
    (tmp_path / "s").write_bytes(data)
    reader = open_reader(str(tmp_path / "s"), "s")
    assert read_record(reader, 0, "s") == records[0]
    with pytest.raises(CorruptDataError, match=rf"^s: record {number}: "):
        read_record(reader, number, "s")


@pytest.mark.parametrize("keep", [0, 10, 1 << 16, -(1 << 16), -1])
def test_a_file_that_is_cut_short_is_no_empty_one(records: list[bytes], keep: int) -> None:
    with pytest.raises(CorruptDataError, match=r"^s: not a whole ArrayRecord file: [^;]+$"):
        records_of(written(records)[:keep])
    assert records_of(written([])) == []


@pytest.mark.parametrize("at_end", [False, True])
def test_a_disk_without_room_is_an_error_of_the_system(at_end: bool) -> None:
    encoder, large = ArrayRecordEncoder(), frame_record(os.urandom(1 << 20))
    encoder.compress(large)
    write = encoder.flush if at_end else lambda: [encoder.compress(large) for _ in range(50)]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, before[1]))
    try:
        with pytest.raises(OSError, match=r"^\[Errno 27\] File too large: ") as error:
            write()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert (error.value.errno, error.value.filename) == (errno.EFBIG, tempfile.gettempdir())


def test_without_the_library_the_extra_is_named(records: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    data = written(records[:1])
    monkeypatch.setitem(sys.modules, "array_record", None)
    monkeypatch.delitem(sys.modules, "array_record.python", raising=False)
    monkeypatch.delitem(sys.modules, "array_record.python.array_record_module", raising=False)

    with pytest.raises(UserError, match=r"^ArrayRecord files need the library array_record; .*\[array_record\]'?$"):
        records_of(data)
