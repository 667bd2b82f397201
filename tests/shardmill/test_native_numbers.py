"""Hostile numbers in every argument of the compiled extension, which writes nothing outside its buffers.

`make check NAME=sanitize` runs these tests with AddressSanitizer, and with UndefinedBehaviorSanitizer, which stops at
the first sum that overflows.
"""

import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from shardmill import _native
from shardmill.data.example import encode_varint, entry_prefix
from shardmill.data.tfrecord import frame_record, record_header
from tests.support.archives import tar
from tests.support.encoded import encode_example

HOSTILE = (0, 1, -1, 2**31, 2**32, 2**40, 2**63 - 1, -(2**63))
# Bounds whose differences are 2**40, 2**63 - 1, and a number that brings the sum back
WRAPPED = (0, 2**40, 2**40 + 2**63 - 1 - 2**64, 16, 32)
GUARD = 4096
FEATURES = ([b"id", b"text"], b"\x1a\x00\x0a\x01")


class Number(int):
    """A number that may be any."""


class Numbers(list[int]):
    """int64 numbers of which each may be any."""


class Out:
    """A buffer to be written to, with bytes around it that have to stay as they are."""

    def __init__(self, size: int, dtype: Any = np.int64) -> None:
        count = np.dtype(dtype).itemsize * size
        self._all = np.full(count + 2 * GUARD, 0xA5, np.uint8)
        self.view = self._all[GUARD : GUARD + count].view(dtype)

    def check(self) -> None:
        assert (self._all[:GUARD] == 0xA5).all()
        assert (self._all[-GUARD:] == 0xA5).all()


def make_calls(folder: Path, descriptor: int) -> dict[str, list[Any]]:
    """Return arguments of every function of the extension with which it succeeds."""
    path = str(folder / "records")
    size = (folder / "records").stat().st_size
    data, half = (folder / "records").read_bytes(), size // 2
    payloads = Numbers([12, half + 12]), Numbers([half - 4, size - 4])
    columns = [
        (b"\x0a\x01a", 0x0A, np.frombuffer(b"abcdef", np.uint8), Numbers([0, 2, 6]), None),
        (b"\x0a\x01b", 0x1A, Numbers([1, 300]), None, np.array([True, False])),
    ]
    sizes = Out(2)
    _native.size_entries(plain(columns), sizes.view)
    entries = Numbers(sizes.view.tolist())
    ends = Numbers([0, entries[0] + 18, sum(entries) + 36])
    places = Numbers([0, len(path), 2 * len(path)])
    rows = Numbers([0, 9, 1, 4, 4, 1, 0, 0, 0, 0, 9, 9, 1, 4, 4, 1, 0, 0, 0, 0])
    names = list(map(entry_prefix, ("image", "label", "filename", "height", "width")))
    return {
        "checksums": [data, *payloads, Out(2, np.uint32)],
        "hashes_by_seed": [data, *payloads, Numbers([1, 2]), Out(4)],
        "frame": [Out(size, np.uint8), Numbers([0, half, size])],
        "copy": [data, Numbers([0, 30]), Numbers([20, 10]), Out(40, np.uint8), Numbers([20, 0])],
        "count": [data, Number(97)],
        "find": [b"abcabc", Number(98), Out(2)],
        "chain": [struct.pack("<IIII", 0, 4, 7, 0), Number(4), Number(0), Out(4)],
        "find_before": [b"abcabc", Number(0), Number(6), Number(98), b"\1" * 256],
        "size_entries": [columns, sizes],
        "encode_rows": [columns, entries, ends, Out(ends[-1], np.uint8), True, True],
        "plain_jpeg": [b"\xff\xd8\xff\xd9"],
        "plain_jpegs": [data, *payloads, Out(4)],
        "read_whole_files": [[path, __file__], Number(1 << 20), Out(6)],
        "read_spans": [
            [path, __file__], Numbers([0, 0, 1]), Numbers([0, 9, 1]), Numbers([4, 4, 4]), Out(12, np.uint8),
            Numbers([0, 4, 8]),
        ],
        "read_images": [
            b"", (path * 2).encode(), places, Numbers([0, 10, 5, 10]), Number(99), Out(size, np.uint8), Out(20)
        ],
        "encode_images": [
            data, rows, names, Numbers([0, -1]), b"a.jpgb.jpg", Numbers([0, 5, 10]), b"xy", Numbers([0, 1, 2]),
            Out(400, np.uint8), Out(3), Out(2), Out(32, np.uint8),
        ],
        "parse_annotations": ['{"id": 1, "image_id": 2, "category_id": 3, "bbox": [0, 1, 2, 3]}'],
        "read_heads": [Number(descriptor), Number(0), Out(2048, np.uint8), Number(0), Number(0), "|jpg|"],
        "scan_members": [tar([("a.jpg", b"x" * 600), ("a.txt", b"y")]), Number(0), Number(0)],
        "split_records": [data, Number(0), Out(3), Out(3)],
        "scan_examples": [data, *payloads, *FEATURES, Out(12), Out(2, np.uint8)],
        "read_example": [Number(descriptor), Number(0), Number(half), *FEATURES, [Number(0), Number(1)]],
        "read_examples": [
            Numbers([descriptor] * 2), Numbers([0, half]), Numbers([half, size]), *FEATURES,
            [Out(2), [None] * 2], [None] * 2,
        ],
        "take_examples": [data, *payloads, *FEATURES, [Out(2), [None] * 2], [None] * 2],
    }  # fmt: skip


def plain(argument: Any) -> Any:
    """Return an argument as the extension takes it."""
    if isinstance(argument, Out):
        return argument.view
    if isinstance(argument, Numbers):
        return np.array(argument, np.int64)
    return type(argument)(map(plain, argument)) if isinstance(argument, list | tuple) else argument


def outs(argument: Any) -> Iterator[Out]:
    if isinstance(argument, Out):
        yield argument
    elif isinstance(argument, list | tuple):
        for one in argument:
            yield from outs(one)


def hostile(argument: Any) -> Iterator[Any]:
    """Yield an argument with each of its numbers replaced by each hostile one."""
    if isinstance(argument, Number):
        yield from map(Number, HOSTILE)
    elif isinstance(argument, Numbers):
        for value in HOSTILE:
            yield Numbers([value] * len(argument))
            for n in range(len(argument)):
                yield Numbers([*argument[:n], value, *argument[n + 1 :]])
        for first in range(len(WRAPPED)):
            yield Numbers((WRAPPED[first:] + WRAPPED)[: len(argument)])
        for count in (0, len(argument) - 1, len(argument) + 1):
            yield Numbers((argument * 2)[:count])
    elif isinstance(argument, list | tuple):
        for n, one in enumerate(argument):
            for changed in hostile(one):
                yield type(argument)([*argument[:n], changed, *argument[n + 1 :]])


def call(name: str, arguments: list[Any]) -> Any:
    return getattr(_native, name)(*map(plain, arguments))


def call_guarded(name: str, arguments: list[Any]) -> None:
    """Call a function, which may refuse its arguments, and check that it writes to its buffers alone."""
    with suppress(ValueError, OverflowError, TypeError, MemoryError):
        call(name, arguments)
    for out in outs(arguments):
        out.check()


FUNCTIONS = sorted(name for name in vars(_native) if not name.startswith("_"))


@pytest.fixture
def calls(tmp_path: Path) -> Iterator[dict[str, list[Any]]]:
    record = frame_record(encode_example({"id": [5], "text": [b"t" * 40]}))
    (tmp_path / "records").write_bytes(2 * record)
    descriptor = os.open(tmp_path / "records", os.O_RDONLY)
    yield make_calls(tmp_path, descriptor)
    os.close(descriptor)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_hostile_numbers(calls: dict[str, list[Any]], name: str) -> None:
    call(name, calls[name])
    for arguments in hostile(calls[name]):
        call_guarded(name, arguments)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_two_hostile_numbers_at_once(calls: dict[str, list[Any]], name: str) -> None:
    arguments = calls[name]
    first, *others = [n for n, one in enumerate(arguments) if isinstance(one, Numbers)] or [0]
    for other, left, right in product(others, HOSTILE, HOSTILE):
        changed = {first: Numbers([left] * len(arguments[first])), other: Numbers([right] * len(arguments[other]))}
        call_guarded(name, [changed.get(n, one) for n, one in enumerate(arguments)])


def test_sizes_whose_sum_wraps(calls: dict[str, list[Any]]) -> None:
    """The records of a foreign index: the sum of their sizes is less than a block, and they are read together."""
    descriptor = calls["read_examples"][0][0]
    bounds = np.array([0, 100, 100 + 2**40, 100 + 2**40 + 2**63 - 1 - 2**64, 200, 300], np.int64)
    for chosen in ([0, 2, 3], [0, 3, 4], [1, 2, 3], [2, 3, 4], [3, 2, 1], [2, 2, 3], [0, 1, 2], [3, 3, 0]):
        count = len(chosen)
        files = Numbers([descriptor] * count)
        starts, stops = Numbers(bounds[:-1][chosen].tolist()), Numbers(bounds[1:][chosen].tolist())
        call_guarded("read_examples", [files, starts, stops, *FEATURES, [Out(count), [None] * count], [None] * count])


SIZES = [value % 2**64 for value in HOSTILE] + [2**64 - 16, 2**63 - 16, 2**64 - 12, 2**32 - 12]


@pytest.mark.parametrize("size", SIZES)
def test_hostile_sizes_in_data(calls: dict[str, list[Any]], size: int) -> None:
    varint = encode_varint(size)
    value = b"\x0a\x02id\x12" + varint + b"\x1a" + varint + b"\x0a" + varint + varint
    for record in (b"\x0a" + varint, b"\x0a\x05\x0a" + varint, value, b"\x0a\x20\x0a" + varint + value):
        starts, ends = Numbers([0]), Numbers([len(record)])
        call_guarded("scan_examples", [record, starts, ends, *FEATURES, Out(6), Out(1, np.uint8)])
        call_guarded("take_examples", [record, starts, ends, *FEATURES, [Out(1), [None]], [None]])
    assert _native.split_records(record_header(size) + b"x" * 40, 0, *(np.empty(3, np.int64),) * 2)[0] == 0
    call_guarded("chain", [struct.pack("<II", size % 2**32, 0) * 3, 8, 0, Out(9)])
    if size < 8**11:
        head = tar([("a.jpg", b"")])[:512]
        head = head[:124] + b"%011o\0" % size + head[136:]
        head = head[:148] + b"%06o\0 " % (sum(head[:148]) + sum(head[156:]) + 8 * 32) + head[156:]
        assert len(_native.scan_members(head + bytes(512), 0, 0)) == (size < 2)
    found = _native.parse_annotations(
        f'{{"id": {size}, "image_id": -{size}, "category_id": 3, "bbox": [{size}, 1, 2, 1e{size % 500}]}}'
    )
    assert (found is None) == (size > 10**18)


@pytest.mark.parametrize("size", [0, 1, 2**31, 2**32 - 1, 2**32 - 12])
def test_hostile_sizes_in_a_png(tmp_path: Path, size: int) -> None:
    header = b"IHDR" + struct.pack(">II", 1, 1) + bytes([8, 0, 0, 0, 0])
    data = b"\x89PNG\r\n\x1a\n\0\0\0\r" + header + struct.pack(">II", zlib.crc32(header), size) + b"IDAT" + bytes(20)
    (tmp_path / "a").write_bytes(data)
    path, rows = str(tmp_path / "a").encode(), Out(10)
    call_guarded("read_images", [b"", path, Numbers([0, len(path)]), None, 99, Out(len(data), np.uint8), rows])
    assert rows.view[1:3].tolist() == [len(data), 0]
