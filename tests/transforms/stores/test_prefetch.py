"""Tests of transforms/stores/prefetch.py."""

import io
import threading
from collections.abc import Iterator
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.transforms.stores import prefetch as prefetching
from shardmill.transforms.stores.protocol import FileStat


def test_all_in_order() -> None:
    assert list(prefetching.prefetch_one(iter(range(5)))) == list(range(5))
    assert list(prefetching.prefetch_one([])) == []


def test_the_next_is_made_while_one_is_used() -> None:
    made = [threading.Event() for _ in range(3)]

    def items() -> Iterator[int]:
        for number, event in enumerate(made):
            event.set()
            yield number

    ahead = prefetching.prefetch_one(items())
    assert next(ahead) == 0
    assert made[1].wait(60)
    assert not made[2].is_set()  # not before 1 is asked for
    assert list(ahead) == [1, 2]


def test_an_error_comes_where_its_item_would() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("the store fails")

    ahead = prefetching.prefetch_one(items())
    assert next(ahead) == 1
    with pytest.raises(OSError, match="the store fails"):
        next(ahead)


def test_whoever_stops_leaves_no_thread() -> None:
    before = set(threading.enumerate())
    ahead = prefetching.prefetch_one(iter(range(5)))
    next(ahead)
    ahead.close()  # type: ignore[attr-defined]
    assert set(threading.enumerate()) <= before


class Store:
    """Objects by URL, some to a page."""

    def __init__(self, urls: list[str], page: int = 3) -> None:
        self.urls, self.page, self.asked = sorted(urls), page, list[tuple[str, str]]()

    def pages(self, prefix: str, first: str, end: str) -> Iterator[prefetching.Page]:
        found = [url for url in self.urls if url.startswith(prefix) and first <= url and (not end or url < end)]
        for start in range(0, len(found), self.page):
            self.asked.append((first, end))
            yield [FileStat(url, 1, "", 0.0) for url in found[start : start + self.page]]

    def folders(self, prefix: str) -> list[str]:
        inner = {url[len(prefix) :].partition("/")[0] for url in self.urls if "/" in url[len(prefix) :]}
        return sorted(inner)[:10]  # a store gives as many as are in a page

    def listed(self, prefix: str) -> list[str]:
        found = prefetching.list_concurrently(lambda first, end: self.pages(prefix, first, end), self.folders, prefix)
        return [item.path for item in found]


NAMES = st.lists(
    st.lists(st.sampled_from(["a", "a.b", "a-", "b", "é", "z", "~"]), min_size=1, max_size=4).map("/".join),
    max_size=80,
    unique=True,
)


@given(names=NAMES, prefix=st.sampled_from(["s3://b/", "s3://b/a", "s3://b/a/"]), page=st.integers(1, 6))
def test_any_objects_come_sorted_and_once(names: list[str], prefix: str, page: int) -> None:
    urls = [f"s3://b/{name}" for name in names]
    assert Store(urls, page).listed(prefix) == sorted(url for url in urls if url.startswith(prefix))


def images(split: str, classes: int, each: int) -> list[str]:
    return [f"s3://b/in/{split}{label:03d}/{number}.jpg" for label in range(classes) for number in range(each)]


@pytest.mark.parametrize(
    ("urls", "most"),
    [
        pytest.param(images("", 40, 3), 13, id="a page a class"),
        pytest.param(images("", 300, 1), 9, id="three classes a page, as many as folders are told of"),
        pytest.param(images("train/", 40, 3) + images("val/", 40, 3), 13, id="below splits"),
    ],
)
def test_ranges_are_of_some_pages(urls: list[str], most: int) -> None:
    store = Store(urls)
    assert store.listed("s3://b/in/") == sorted(urls)
    assert len(set(store.asked)) <= most
    assert len(set(store.asked)) > 1, "one page after the other"


def test_what_is_small_or_flat_is_listed_as_it_was() -> None:
    for urls in (images("", 2, 3), [f"s3://b/in/{number}" for number in range(30)], []):
        store = Store(urls)
        assert store.listed("s3://b/in/") == sorted(urls)
        assert set(store.asked) <= {("", "")}


def test_cuts_are_folders_after_the_last_object() -> None:
    folders = {"s3://b/in/": ["train", "val"], "s3://b/in/train/": list("abcdefghijk")}
    # Two pages held three folders, train itself, a and some of b: four hold some six
    assert prefetching.find_range_bounds("s3://b/in/", "s3://b/in/train/b/7.jpg", folders.__getitem__) == [
        "s3://b/in/train/c/",
        "s3://b/in/train/i/",
    ]


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
    ranges = prefetching.ReadAhead(source.read_range, size, RANGE)
    return io.BufferedReader(prefetching.RangeReader(ranges.read, size, ranges.close), RANGE)


@pytest.mark.parametrize("size", [1, 7, 999, 1000, 1001, 2500, 5000, 20_000])
def test_the_whole_object_and_each_range_once(size: int) -> None:
    source, read = Object(), []
    with opened(source) as file:
        while data := file.read(size):
            read.append(data)
    assert b"".join(read) == CONTENT
    assert [len(part) for part in iter(partial(opened(Object(), RANGE + 1).read, RANGE), b"")] == [RANGE, 1]
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

    ranges = prefetching.ReadAhead(read_range, len(CONTENT), RANGE)
    with io.BufferedReader(prefetching.RangeReader(ranges.read, len(CONTENT), ranges.close), RANGE) as file:
        assert file.read(3000) == CONTENT[:3000]
        with pytest.raises(ConnectionError, match="gone"):
            file.read(1)
        assert ranges.read(3000 - RANGE, 5) == CONTENT[2000:2005]
