"""Framing of many records, as shardmill.data.tfrecord and TensorFlow read them, and varints of arrays."""

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.data import tfrecord
from shardmill.data.codecs import PLAIN_CODEC
from shardmill.data.example import encode_varint
from shardmill.transforms.columns import example_bytes
from tests.support.later import Later

tf = Later("tensorflow")

RECORDS = st.lists(
    st.one_of(st.binary(max_size=40), st.sampled_from([0, 255, 256, 4095, 4096, 70_000]).map(lambda n: b"r" * n)),
    max_size=20,
)


def array(records: list[bytes]) -> pa.LargeBinaryArray:
    return pa.array(records, pa.large_binary())


@given(RECORDS)
@settings(max_examples=200)
def test_framed_as_one_by_one(records: list[bytes]) -> None:
    framed = example_bytes.frame(array(records))
    framed.validate(full=True)

    assert framed.to_pylist() == list(map(tfrecord.frame_record, records))
    assert list(PLAIN_CODEC.read_records(io.BytesIO(b"".join(framed.to_pylist())), "memory")) == records


@given(st.lists(st.lists(st.binary(max_size=40), max_size=4), max_size=9))
def test_framed_from_parts(records: list[list[bytes]]) -> None:
    framing = example_bytes.RecordFramer()
    whole = [tfrecord.frame_record(b"".join(parts)) for parts in records]

    assert [framing.add(parts) for parts in records] == list(map(len, whole))
    assert bytes(framing.framed()) == b"".join(whole)


@given(RECORDS, st.integers(0, (1 << 64) - 1))
def test_hashes_are_those_of_the_payloads(records: list[bytes], seed: int) -> None:
    hashes = example_bytes.payload_hashes(example_bytes.frame(array(records)), [seed, 7])

    assert hashes.dtype == np.uint64
    assert hashes.tolist() == [[xxhash.xxh3_64_intdigest(record, own) for record in records] for own in (seed, 7)]


@given(RECORDS, st.integers(0, 20), st.integers(0, 20))
def test_slices(records: list[bytes], start: int, count: int) -> None:
    part = array(records).slice(min(start, len(records)), count)
    framed = example_bytes.frame(array(records)).slice(min(start, len(records)), count)

    assert example_bytes.frame(part).equals(framed)
    assert example_bytes.payload_hashes(framed, [7])[0].tolist() == [
        xxhash.xxh3_64_intdigest(record, 7) for record in part.to_pylist()
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("mean", "count"), [(10, 5000), (300, 8000), (20_000, 100)])
def test_many_records(mean: int, count: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(mean)
    records = [rng.bytes(size) for size in rng.integers(0, 2 * mean, count).tolist()]
    framed = example_bytes.frame(array(records))
    path = tmp_path / "shard.tfrecord"
    path.write_bytes(framed.buffers()[2])

    with path.open("rb") as file:
        assert list(PLAIN_CODEC.read_records(file, str(path))) == records
    assert list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator()) == records
    assert example_bytes.payload_hashes(framed, [3])[0].tolist() == [
        xxhash.xxh3_64_intdigest(record, 3) for record in records
    ]


@pytest.mark.parametrize("size", [(1 << 8) - 1, 1 << 8, (1 << 16) - 1, 1 << 16, (1 << 24) - 1, 1 << 24])
def test_checksums_of_lengths(size: int) -> None:
    record = bytes(size)

    assert example_bytes.frame(array([record, b"x", record])).to_pylist() == list(
        map(tfrecord.frame_record, (record, b"x", record))
    )


# Varints

LIMITS = [*(1 << bits for bits in range(0, 64, 7)), (1 << 32), (1 << 64) - 1]
NUMBERS = st.one_of(
    st.integers(0, (1 << 64) - 1), st.integers(0, 64).map(lambda bits: (1 << bits) - 1), st.sampled_from(LIMITS)
)


def beginnings(items: np.ndarray, lengths: list[int]) -> list[bytes]:
    return [item.tobytes()[:length] for item, length in zip(items, lengths)]


@given(st.one_of(st.lists(NUMBERS, min_size=1, max_size=20), NUMBERS.map(lambda number: [number] * 3)))
@settings(max_examples=200)
def test_those_of_one_number_each(numbers: list[int]) -> None:
    values = np.array(numbers, np.uint64)
    expected = [encode_varint(number) for number in numbers]
    lengths = list(map(len, expected))
    widths = example_bytes.varint_widths(values)

    assert np.broadcast_to(widths, len(values)).tolist() == lengths
    assert isinstance(widths, int) == (len(set(lengths)) == 1)
    assert example_bytes.max_size(widths) == max(lengths)
    assert beginnings(example_bytes.encode_varints(values, widths), lengths) == expected


@given(st.lists(st.integers(0, (1 << 63) - 1), min_size=1, max_size=10))
def test_widths_of_signed_numbers(numbers: list[int]) -> None:
    widths = example_bytes.varint_widths(np.array(numbers, np.int64))

    assert np.broadcast_to(widths, len(numbers)).tolist() == [len(encode_varint(number)) for number in numbers]


@pytest.mark.parametrize("number", [0, 127, 128, 1 << 35, (1 << 64) - 1])
def test_the_width_of_one_number(number: int) -> None:
    assert example_bytes.varint_widths(number) == len(encode_varint(number))


def test_no_numbers() -> None:
    none = np.zeros(0, np.uint64)

    assert example_bytes.encode_varints(none, example_bytes.varint_widths(none)).shape == (0,)
