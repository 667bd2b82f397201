"""Ranges ahead: the bytes of the object however it is read, no range twice, and none that nobody is going to want."""

import io
import threading

import pytest

from shardmill.transforms.stores.prefetch import RangeReader, ReadAhead

CONTENT = bytes(range(256)) * 40  # 10,240
RANGE = 1000


class Object:
    """What is asked of it, in the order of its offsets; where `gone` is, nothing is left."""

    def __init__(self, gone: int = len(CONTENT)) -> None:
        self.asked: list[tuple[int, int]] = []
        self._gone, self._lock = gone, threading.Lock()

    def read_range(self, offset: int, length: int) -> bytes:
        with self._lock:
            self.asked.append((offset, length))
        if offset >= self._gone:
            raise EOFError(offset)
        return CONTENT[offset : min(offset + length, self._gone)]


def opened(source: Object, size: int = len(CONTENT)) -> io.BufferedReader:
    ranges = ReadAhead(source.read_range, size, RANGE)
    return io.BufferedReader(RangeReader(ranges.read, size, ranges.close), RANGE)


@pytest.mark.parametrize("size", [1, 7, 999, 1000, 1001, 2500, 5000, 20_000])
def test_the_whole_object_and_each_range_once(size: int) -> None:
    source, read = Object(), []
    with opened(source) as file:
        while data := file.read(size):
            read.append(data)
    assert b"".join(read) == CONTENT
    assert sum(length for _, length in source.asked) == len(CONTENT)
    assert len({offset for offset, _ in source.asked}) == len(source.asked)


def test_from_the_second_range_on_three_are_under_way() -> None:
    source = Object()
    with opened(source) as file:
        file.read(RANGE)
        assert source.asked == [(0, RANGE)]
        file.read(RANGE)
    assert [offset for offset, _ in sorted(source.asked)] == [0, 1000, 2000, 3000, 4000]


def test_nothing_behind_what_is_wanted_is_asked_for() -> None:
    source = Object()
    with opened(source, 2500) as file:
        assert file.read() == CONTENT[:2500]
    assert sum(length for _, length in source.asked) == 2500


def test_reading_elsewhere() -> None:
    source = Object()
    with opened(source) as file:
        for offset in (0, 1000, 2000, 9000, 500, 1500, 2500, 7777, 8777, 9777, 0):
            file.seek(offset)
            assert file.read(1000) == CONTENT[offset : offset + 1000]


def test_what_is_read_here_and_there_is_asked_for_alone() -> None:
    source = Object()
    with opened(source) as file:
        for offset in (0, 5000, 2000, 9000):
            file.seek(offset)
            file.read(10)
    assert [offset for offset, _ in source.asked] == [0, 5000, 2000, 9000]


def test_an_object_that_became_smaller_ends_there() -> None:
    with opened(Object(gone=3210)) as file:
        assert file.read() == CONTENT[:3210]


def test_a_fault_is_raised_where_its_range_is_read() -> None:
    def read_range(offset: int, length: int) -> bytes:
        if offset == 3000:
            raise ConnectionError("gone")
        return CONTENT[offset : offset + length]

    ranges = ReadAhead(read_range, len(CONTENT), RANGE)
    with io.BufferedReader(RangeReader(ranges.read, len(CONTENT), ranges.close), RANGE) as file:
        assert file.read(3000) == CONTENT[:3000]
        with pytest.raises(ConnectionError, match="gone"):
            file.read(1)
        assert ranges.read(3000 - RANGE, 5) == CONTENT[2000:2005]
