"""A listing in several ranges at once gives what one page after the other gives."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.transforms.stores.prefetch import Page, find_range_bounds, list_concurrently
from shardmill.transforms.stores.protocol import FileStat


class Store:
    """Objects by URL, some to a page."""

    def __init__(self, urls: list[str], page: int = 3) -> None:
        self.urls, self.page, self.asked = sorted(urls), page, list[tuple[str, str]]()

    def pages(self, prefix: str, first: str, end: str) -> Iterator[Page]:
        found = [url for url in self.urls if url.startswith(prefix) and first <= url and (not end or url < end)]
        for start in range(0, len(found), self.page):
            self.asked.append((first, end))
            yield [FileStat(url, 1, "", 0.0) for url in found[start : start + self.page]]

    def folders(self, prefix: str) -> list[str]:
        inner = {url[len(prefix) :].partition("/")[0] for url in self.urls if "/" in url[len(prefix) :]}
        return sorted(inner)[:10]  # a store gives as many as are in a page

    def listed(self, prefix: str) -> list[str]:
        found = list_concurrently(lambda first, end: self.pages(prefix, first, end), self.folders, prefix)
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
    assert find_range_bounds("s3://b/in/", "s3://b/in/train/b/7.jpg", folders.__getitem__) == [
        "s3://b/in/train/c/",
        "s3://b/in/train/i/",
    ]
