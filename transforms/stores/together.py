"""Requests that do not depend on each other, under way at once: of an object store each is a wait of some 30 ms. And
settings of the process that jobs under way at once share."""

import threading
from collections.abc import Callable, Hashable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from shardmill.transforms.stores import storage

_lock = threading.Lock()
_shared: dict[Hashable, tuple[ExitStack, list[None]]] = {}  # contexts that are entered, with an item for each user


@contextmanager
def hold_shared(key: Hashable, context: Callable[[], AbstractContextManager[Any]]) -> Iterator[None]:
    """Hold a context that changes settings of the process, together with all other threads that hold that of `key`.

    The first thread enters the context and the last one leaves it, in whatever order they come and go.
    """
    with _lock:
        if key not in _shared:
            stack = ExitStack()
            stack.enter_context(context())
            _shared[key] = stack, []
        stack, users = _shared[key]
        users.append(None)
    try:
        yield
    finally:
        with _lock:
            users.pop()
            if not users:
                del _shared[key]
                stack.close()


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
