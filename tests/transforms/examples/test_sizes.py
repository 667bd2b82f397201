"""How long records are, and what stands before their values: each length has more bytes from a limit of its own on."""

import mmap

import numpy as np
import pyarrow as pa
import pytest

from shardmill.data import example
from shardmill.transforms.columns.example_encoding import MAX_RECORD_BYTES, encode_examples, example_sizes
from tests.support.framed_records import check, one_column


@pytest.mark.parametrize("limit", [1 << 7, 1 << 14])
@pytest.mark.parametrize("name", ["x", "n" * 50])
def test_each_size_before_a_string_grows_at_its_own_limit(limit: int, name: str) -> None:
    sizes = range(limit - 90, limit + 3)
    values = pa.array([b"v" * size for size in sizes], pa.binary())

    check(one_column(values, name))
    for row in range(len(values)):  # alone: no other row whose header has another length
        check(one_column(values.slice(row, 1), name))


@pytest.mark.parametrize("limit", [1 << 7, 1 << 14])
def test_each_size_before_a_list_grows_at_its_own_limit(limit: int) -> None:
    floats = [np.arange(count, dtype=np.float32) for count in range(limit // 4 - 10, limit // 4 + 2)]
    ints = [[-1, *range(100, 130)] * ((limit - back) // 43) + [1] * back for back in range(40)]
    strings = [[b"v" * 11] * (limit // 13 - 2) + [b"w" * size] for size in range(30)]

    check(one_column(pa.array(floats, pa.list_(pa.float32()))))
    check(one_column(pa.array(ints, pa.large_list(pa.int64()))))
    check(one_column(pa.array(strings, pa.list_(pa.binary()))))


def test_sizes_before_a_string_of_two_megabytes() -> None:
    limit = 1 << 21
    check(
        one_column(
            pa.array([b"v" * (limit - back) for back in (24, 18, 13, 9, 5, 4, 1, 0)], pa.large_binary()), "image"
        )
    )


def test_sizes_before_a_string_of_a_quarter_gigabyte() -> None:
    limit = 1 << 28
    for size in (limit - 1, limit):
        offsets = pa.py_buffer(np.array([0, size], np.int64))
        data = pa.py_buffer(np.zeros(size, np.uint8))  # never touched, so no memory
        batch = one_column(pa.LargeBinaryArray.from_buffers(pa.large_binary(), 1, [None, offsets, data]))
        entry_header = example.bytes_entry_header("x", size)
        header = example.example_header(len(entry_header) + size) + entry_header
        record = np.frombuffer(encode_examples(batch).buffers()[2], np.uint8)

        assert example_sizes(batch).tolist() == [len(record)]
        assert len(record) == len(header) + size
        assert record[: len(header)].tobytes() == header
        assert not record[len(header) :].any()


def test_sizes_of_values_that_are_not_there_to_read() -> None:
    size = 3 << 30
    with mmap.mmap(-1, size) as untouched:
        offsets = np.array([0, 5, size - 7, size], np.int64)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(untouched)]
        batch = one_column(pa.LargeBinaryArray.from_buffers(pa.large_binary(), 3, buffers))
        sizes = example_sizes(batch)
        with pytest.raises(
            ValueError, match=rf"row 1 makes a record of {sizes[1]} bytes, .* up to 2147483647; leave it out"
        ):
            encode_examples(batch)
        assert encode_examples(batch.slice(0, 1)).to_pylist() == [example.encode_example({"x": [bytes(5)]})]
        del batch, buffers

    headers = [example.bytes_entry_header("x", int(length)) for length in np.diff(offsets)]
    entries = [len(header) + int(length) for header, length in zip(headers, np.diff(offsets))]
    assert sizes.dtype == np.int64
    assert sizes.tolist() == [entry + len(example.example_header(entry)) for entry in entries]
    assert (sizes > MAX_RECORD_BYTES).tolist() == [False, True, False]
