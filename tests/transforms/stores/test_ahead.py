"""One item is made while another is used."""

import threading
from collections.abc import Iterator

import pytest

from shardmill.transforms.stores.prefetch import prefetch_one


def test_all_in_order() -> None:
    assert list(prefetch_one(iter(range(5)))) == list(range(5))
    assert list(prefetch_one([])) == []


def test_the_next_is_made_while_one_is_used() -> None:
    made = [threading.Event() for _ in range(3)]

    def items() -> Iterator[int]:
        for number, event in enumerate(made):
            event.set()
            yield number

    ahead = prefetch_one(items())
    assert next(ahead) == 0
    assert made[1].wait(60)
    assert not made[2].is_set()  # not before 1 is asked for
    assert list(ahead) == [1, 2]


def test_an_error_comes_where_its_item_would() -> None:
    def items() -> Iterator[int]:
        yield 1
        raise OSError("the store fails")

    ahead = prefetch_one(items())
    assert next(ahead) == 1
    with pytest.raises(OSError, match="the store fails"):
        next(ahead)


def test_whoever_stops_leaves_no_thread() -> None:
    before = threading.active_count()
    ahead = prefetch_one(iter(range(5)))
    next(ahead)
    ahead.close()  # type: ignore[attr-defined]
    assert threading.active_count() == before
