"""Items of which the next is made while one is used: where each is an answer of a store, the waits are no longer one's
own."""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


def one_ahead(items: Iterable[Item]) -> Iterator[Item]:
    """`items`, each made in a thread of their own while whoever asks is busy with the one before.

    One item is made at a time, the last of them perhaps in vain.
    """
    iterator = iter(items)
    with ThreadPoolExecutor(1, "shardmill-ahead") as pool:
        following = pool.submit(_next, iterator)
        while found := following.result():
            following = pool.submit(_next, iterator)
            yield found[0]


def _next(iterator: Iterator[Item]) -> tuple[Item] | None:
    for item in iterator:
        return (item,)
    return None
