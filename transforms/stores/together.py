"""Requests that do not depend on each other, under way at once: of an object store each is a wait of some 30 ms."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from shardmill.transforms.stores import storage


def together(directory: str, *calls: Callable[[], Any]) -> list[Any]:
    """What each of `calls`, about files in `directory`, returns, in their order; on an object store all are under way
    at once, and have ended when this does. On a local disk, where nothing waits, each comes after the one before it.

    Raises: what the first of them that failed raised, in their order.
    """
    if storage.is_local(directory):
        return [call() for call in calls]
    with ThreadPoolExecutor(len(calls), "shardmill-together") as pool:
        futures = [pool.submit(call) for call in calls]
    return [future.result() for future in futures]
