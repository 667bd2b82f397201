"""Values that are read from records at known places, with the compiled extension and without it."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardmill import _native
from shardmill.data.example import decode_example, encode_entry, encode_int64_feature, example_header
from shardmill.data.example_columns import ColumnReader
from shardmill.data.features import Feature
from shardmill.data.spans import RecordBlock
from shardmill.data.tfrecord import frame_record
from tests.support.encoded import encode_example

FEATURES = (
    Feature("id", "int64"),
    Feature("text", "bytes"),
    Feature("score", "float32", required=False),
    Feature("box", "float32", shape=(2, 2)),
    Feature("counts", "int64", shape=(3,)),
    Feature("tags", "bytes", shape=(None,)),
)
NAMES = [feature.name for feature in FEATURES if ColumnReader.can_read(feature)]


def example(number: int, **changes: Any) -> bytes:
    """A record of all features; None leaves a feature out."""
    values: dict[str, Any] = {
        "id": [number],
        "text": [b"t" * (number % 300)],
        "score": [number / 3],
        "box": np.arange(4, dtype=np.float32) * number,
        "counts": [number, -number, 1 << 62],
        "tags": [b"a", b"b"],
    }
    return encode_example({name: value for name, value in {**values, **changes}.items() if value is not None})


@contextmanager
def open_records(path: Path, records: list[bytes]) -> Iterator[tuple[int, np.ndarray]]:
    """A file of framed records: its descriptor, and where each record starts, and the last one ends."""
    framed = list(map(frame_record, records))
    path.write_bytes(b"".join(framed))
    descriptor = os.open(path, os.O_RDONLY)
    try:
        yield descriptor, np.cumsum([0, *map(len, framed)])
    finally:
        os.close(descriptor)


def check_row(found: Any, row: int, record: bytes) -> None:
    """Check one row of what `read` returned against a parser of its own."""
    columns, rest = found
    if row in rest:
        assert rest[row] == record
        return
    expected = decode_example(record)
    for name in columns:
        assert np.array_equal(np.ravel(columns[name][row]), np.ravel(np.asarray(expected[name])))


def test_plain_and_unusual_records(is_compiled: bool, tmp_path: Path) -> None:
    plain = [example(7), example(-1), example(0, text=[b""]), example((1 << 63) - 1, score=[-0.5])]
    entries = encode_entry("id", encode_int64_feature([5]))
    unusual = [
        example(1, score=None),
        example(2, counts=[1, 2]),
        example(3, text=[b"a", b"b"]),
        example(4, other=[1]),
        example(5, id=[b"5"]),
        example_header(2 * len(entries)) + 2 * entries,
        b"",
        b"no example",
    ]
    records = [*plain, *unusual, example(9)]
    reader = ColumnReader(FEATURES, NAMES)

    with open_records(tmp_path / "records", records) as (descriptor, bounds):
        found = reader.read(np.full(len(records), descriptor), bounds[:-1], bounds[1:])
        taken = reader.take(RecordBlock((tmp_path / "records").read_bytes(), bounds[:-1] + 12, bounds[1:] - 4))

    assert found is not None
    for row, record in enumerate(records):
        check_row(found, row, record)
        check_row(taken, row, record)
    assert found[1] == taken[1]
    if is_compiled:
        assert sorted(found[1]) == list(range(len(plain), len(plain) + len(unusual)))
        assert found[0]["box"].shape == (len(records), 2, 2)  # type: ignore[union-attr]


def test_many_records_of_two_files_in_any_order(is_compiled: bool, tmp_path: Path) -> None:
    records = [example(number) for number in range(4000)]
    records[77] = example(77, text=[b"x" * 600_000])
    reader = ColumnReader(FEATURES, ["counts", "text"])
    order = np.random.default_rng(0).permutation(2 * len(records))
    order[:500] = np.arange(500)  # neighbours, which are read together

    with (
        open_records(tmp_path / "a", records) as (first, bounds),
        open_records(tmp_path / "b", records[::-1]) as (second, other_bounds),
    ):
        files = np.repeat([first, second], len(records))[order]
        starts = np.concatenate([bounds[:-1], other_bounds[:-1]])[order]
        stops = np.concatenate([bounds[1:], other_bounds[1:]])[order]
        found = reader.read(files, starts, stops)
    data = (tmp_path / "a").read_bytes()
    taken = reader.take(RecordBlock(data, bounds[:-1] + 12, bounds[1:] - 4))

    assert found is not None
    assert list(found[0]) == ["text", "counts"]
    for row, number in enumerate(order.tolist()):
        check_row(found, row, [*records, *records[::-1]][number])
    for row, record in enumerate(records):
        check_row(taken, row, record)
    with pytest.raises(ValueError, match="outside its buffer"):
        reader.take(RecordBlock(data, np.array([0]), np.array([len(data) + 1])))


def test_one_record(is_compiled: bool, tmp_path: Path) -> None:
    records = [example(300, score=[0.25]), example(-5), example(1, score=None)]
    reader = ColumnReader(FEATURES, ["id", "text", "score"])
    assert reader.has_scalars_only
    assert not ColumnReader(FEATURES, NAMES).has_scalars_only

    with open_records(tmp_path / "records", records) as (descriptor, bounds):
        found = [reader.one(descriptor, start, stop) for start, stop in pairwise(bounds.tolist())]

    values: list[Any] = [[300, b"t" * 0, 0.25], [-5, b"t" * 295, float(np.float32(-5 / 3))], records[2]]
    assert found == (values if is_compiled else records)


def test_every_damaged_byte_and_wrong_places(is_compiled: bool, tmp_path: Path) -> None:
    records = [example(number) for number in (1, 2, 3)]
    reader = ColumnReader(FEATURES, ["id", "text"])
    path = tmp_path / "records"
    with open_records(path, records) as (descriptor, bounds):
        places = [(int(bounds[1]), int(bounds[2]))]
        data = path.read_bytes()
        for position in range(*places[0]):
            path.write_bytes(data[:position] + bytes([data[position] ^ 0x10]) + data[position + 1 :])
            assert reader.one(descriptor, *places[0]) is None
            assert reader.read(np.full(3, descriptor), bounds[:-1], bounds[1:]) is None
        path.write_bytes(data)
        start, stop = places[0]
        for wrong in ((start, stop - 1), (start + 1, stop), (start, stop + 1), (start, int(bounds[3])), (start, start)):
            assert reader.one(descriptor, *wrong) is None
            assert reader.read(np.array([descriptor]), np.array(wrong[:1]), np.array(wrong[1:])) is None
        for wrong in ((-1, stop), (stop, start), (start, start + 8), (start + (1 << 40), stop + (1 << 40))):
            assert reader.one(descriptor, *wrong) is None
            assert reader.read(np.array([descriptor]), np.array(wrong[:1]), np.array(wrong[1:])) is None


def test_features_of_any_length_are_refused() -> None:
    with pytest.raises(ValueError, match="any number of values"):
        ColumnReader(FEATURES, ["id", "tags"])


@pytest.mark.parametrize(
    ("columns", "rest", "count"),
    [
        ([None], [None, None], 1),
        ([], [None], 1),
        ([np.zeros(3, np.int64)[::2]], [None], 1),
        ([np.zeros(7, np.uint8)], [None], 1),
        ([[None]], [None], 1),
        ([np.zeros(1, np.int64)], [None], 2),
    ],
)
def test_wrong_buffers(columns: list[Any], rest: list[Any], count: int, tmp_path: Path) -> None:
    with open_records(tmp_path / "records", [example(1)]) as (descriptor, bounds):
        files = np.full(count, descriptor, np.int64)
        with pytest.raises((ValueError, TypeError)):
            _native.read_examples(files, bounds[:1], bounds[1:], [b"id"], b"\x1a\x00", columns, rest)
