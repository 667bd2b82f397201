"""TFRecord framing, and records read in blocks."""

import io
import struct

import google_crc32c
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from shardmill.data import tfrecord
from shardmill.data.codecs import PLAIN_CODEC
from shardmill.data.spans import read_blocks
from shardmill.data.tfrecord import OVERHEAD, frame_record
from shardmill.errors import CorruptDataError

RECORDS = st.lists(st.one_of(st.binary(max_size=10), st.integers(0, 400).map(bytes)), max_size=8)


class ShortReads(io.BytesIO):
    """A file whose reads may end early, as a remote one's."""

    most = 7

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(size, self.most) if size is not None and size > 0 else size)


def outcome(data: bytes, block_bytes: int, file: type[io.BytesIO] = io.BytesIO) -> tuple[list[bytes], str]:
    """What comes out, and the error."""
    found: list[bytes] = []
    try:
        for records in read_blocks(file(data), "shard", block_bytes):
            found.extend(records)
    except CorruptDataError as error:
        return found, str(error)
    return found, ""


BOTH = settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(RECORDS, st.integers(1, 500))
@BOTH
@pytest.mark.usefixtures("is_compiled")
def test_records(records: list[bytes], block_bytes: int) -> None:
    assert outcome(b"".join(map(frame_record, records)), block_bytes) == (records, "")


@pytest.mark.usefixtures("is_compiled")
def test_more_records_than_a_block_holds() -> None:
    data = frame_record(b"") * 40_000
    blocks = list(read_blocks(io.BytesIO(data), "f", len(data)))
    assert [len(block) for block in blocks] == [16_384, 16_384, 7_232]
    damaged = data[:-1] + b"x"
    with pytest.raises(CorruptDataError, match=r"^f: record 39999 at byte 639984 fails its checksum$"):
        list(read_blocks(io.BytesIO(damaged), "f", len(data)))


@given(RECORDS.filter(bool), st.integers(1, 500), st.data())
@BOTH
@pytest.mark.usefixtures("is_compiled")
def test_damage(records: list[bytes], block_bytes: int, data: st.DataObject) -> None:
    damaged = bytearray(b"".join(map(frame_record, records)))
    if data.draw(st.booleans()):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del damaged[data.draw(st.integers(1, len(damaged))) :]

    assert outcome(bytes(damaged), block_bytes) == outcome(bytes(damaged), 1 << 20)


@pytest.mark.parametrize("cut", [0, 1, 5])
def test_short_reads(cut: int) -> None:
    data = b"".join(map(frame_record, [b"x" * 50, b"", b"y" * 9]))[: -cut or None]

    assert outcome(data, 1000, ShortReads) == outcome(data, 1 << 20)


# What tf.io.TFRecordWriter writes for the one record b"abc".
GOLDEN = bytes.fromhex("0300000000000000b099490e6162636e57f121")
THREE_RECORDS = [b"first", b"", b"third" * 100]
FILE = b"".join(map(tfrecord.frame_record, THREE_RECORDS))
STARTS = [0, OVERHEAD + 5, 2 * OVERHEAD + 5, 3 * OVERHEAD + 505]


def read(data: bytes) -> list[bytes]:
    return list(PLAIN_CODEC.read_records(io.BytesIO(data), "shard"))


def test_golden_bytes() -> None:
    assert tfrecord.frame_record(b"abc") == GOLDEN
    assert read(GOLDEN) == [b"abc"]


def test_the_mask_is_that_of_tensorflow() -> None:
    # crc32c("123456789") is 0xe3069283: RFC 3720's check value; then rotated right by 15 and moved.
    crc = google_crc32c.value(b"123456789")

    assert crc == 0xE3069283
    assert tfrecord.mask_crc(crc) == (((crc >> 15) | (crc << 17)) + 0xA282EAD8) % (1 << 32) == 0xC78AB0E5
    assert tfrecord.mask_crcs(np.array([crc, 0], np.uint32)).tolist() == [tfrecord.mask_crc(crc), tfrecord.mask_crc(0)]


@given(st.lists(st.binary(max_size=200), max_size=8))
def test_round_trip(records: list[bytes]) -> None:
    data = b"".join(map(tfrecord.frame_record, records))
    whole = b"".join(records)

    assert len(data) == sum(map(len, records)) + OVERHEAD * len(records)
    assert read(data) == records
    assert tfrecord.record_header(len(whole)) + whole + tfrecord.record_footer(records) == tfrecord.frame_record(whole)


@pytest.mark.parametrize("most", [1, 7])
def test_short_reads_are_continued(most: int) -> None:
    file = ShortReads(FILE)
    file.most = most
    assert list(PLAIN_CODEC.read_records(file, "shard")) == THREE_RECORDS


def test_a_file_cut_short_names_the_record_and_what_there_is_of_it() -> None:
    for size in range(1, len(FILE)):
        index = max(number for number, start in enumerate(STARTS) if start <= size)
        there, whole = size - STARTS[index], len(THREE_RECORDS[index]) + 4
        left = f"{there} of 12 header bytes" if there < 12 else f"{there - 12} of {whole} bytes"
        sentence = f"shard: record {index} at byte {STARTS[index]} is cut short: {left}" if there else ""
        assert outcome(FILE[:size], 1 << 20) == (THREE_RECORDS[:index], sentence)


def test_a_flipped_bit() -> None:
    """Records before it are given."""
    for index, start in enumerate(STARTS[:-1]):
        header = f"shard: record {index} at byte {start} has a length that fails its checksum"
        record = f"shard: record {index} at byte {start} fails its checksum"
        for bit in range(8 * (STARTS[index + 1] - start)):
            data = bytearray(FILE)
            data[start + bit // 8] ^= 1 << bit % 8
            assert outcome(bytes(data), 1 << 20) == (THREE_RECORDS[:index], header if bit < 8 * 12 else record)


def test_a_length_beyond_the_file() -> None:
    length = struct.pack("<Q", 1 << 40)
    data = length + struct.pack("<I", tfrecord.mask_crc(google_crc32c.value(length))) + b"short"

    with pytest.raises(CorruptDataError, match="record 0 at byte 0 is cut short: 5 of 1099511627780 bytes"):
        read(data)
