"""Records read in blocks: the same records and errors as `tfrecord` gives, whatever the size of a block."""

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.data.spans import read_blocks
from shardmill.data.tfrecord import frame_record, read_records
from shardmill.errors import CorruptDataError

RECORDS = st.lists(st.one_of(st.binary(max_size=10), st.integers(0, 400).map(bytes)), max_size=8)


class ShortReads(io.BytesIO):
    """A file whose reads may end early, as a remote one's."""

    def read(self, size: int | None = -1) -> bytes:
        return super().read(min(size, 7) if size is not None and size > 0 else size)


def outcome(data: bytes, block_bytes: int | None, file: type[io.BytesIO] = io.BytesIO) -> tuple[list[bytes], str]:
    """What comes out, and the error."""
    found: list[bytes] = []
    try:
        if block_bytes is None:
            found.extend(read_records(file(data), "f"))
        else:
            for records in read_blocks(file(data), "f", block_bytes):
                found.extend(records)
    except CorruptDataError as error:
        return found, str(error)
    return found, ""


@given(RECORDS, st.integers(1, 500))
@settings(deadline=None)
def test_records(records: list[bytes], block_bytes: int) -> None:
    assert outcome(b"".join(map(frame_record, records)), block_bytes) == (records, "")


@given(RECORDS.filter(bool), st.integers(1, 500), st.data())
@settings(deadline=None, max_examples=300)
def test_damage(records: list[bytes], block_bytes: int, data: st.DataObject) -> None:
    damaged = bytearray(b"".join(map(frame_record, records)))
    if data.draw(st.booleans()):
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    else:
        del damaged[data.draw(st.integers(1, len(damaged))) :]

    assert outcome(bytes(damaged), block_bytes) == outcome(bytes(damaged), None)


@pytest.mark.parametrize("cut", [0, 1, 5])
def test_short_reads(cut: int) -> None:
    data = b"".join(map(frame_record, [b"x" * 50, b"", b"y" * 9]))[: -cut or None]

    assert outcome(data, 1000, ShortReads) == outcome(data, None)
