"""A FlatMap whose calls run in threads of the worker: parallelism on one machine, where a local runner has none of its
own."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from itertools import chain, islice
from typing import Any, TypeVar

import apache_beam as beam

from shardmill.transforms.workers.cores import cores
from shardmill.transforms.workers.windowed import windowed

TWICE_THE_CORES = -2  # of the worker: where threads wait for a store about as long as they work


class ThreadedFlatMap(beam.DoFn):
    """Calls `function(element, *side inputs)` in threads, as many elements ahead as there are threads; order is kept.

    Whatever the function returns is emitted once, when its bundle ends at the latest, so a bundle that is repeated
    repeats it all.
    """

    def __init__(self, function: Callable[..., Iterable[Any]], threads: int = 0) -> None:
        """Args:

        function: returns, rather than yields, what to emit, TaggedOutput or not: a generator would run in no thread.
        threads: 1 calls inline, 0 stands for the number of the worker's cores, TWICE_THE_CORES for twice that.
        """
        self._function, self._wanted_threads = function, threads

    def setup(self) -> None:
        """Start the threads."""
        self._threads = {0: cores(), TWICE_THE_CORES: 2 * cores()}.get(self._wanted_threads, self._wanted_threads)
        self._pool = ThreadPoolExecutor(self._threads, "shardmill-map") if self._threads > 1 else None

    def teardown(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def start_bundle(self) -> None:
        """Nothing is under way."""
        self._pending: deque[Future[Iterable[Any]]] = deque()

    def process(self, element: Any, *side: Any) -> Iterator[Any]:
        """Start on `element`, and emit what is done of those before it."""
        if self._pool is None:
            yield from self.emit(self._function(element, *side))
            return
        self._pending.append(self._pool.submit(self._function, element, *side))
        while len(self._pending) > self._threads:
            yield from self.emit(self._pending.popleft().result())

    def finish_bundle(self) -> Iterator[Any]:
        """Emit the rest."""
        while self._pending:
            for item in self.emit(self._pending.popleft().result()):
                yield windowed(item)

    def emit(self, items: Iterable[Any]) -> Iterable[Any]:
        """What is emitted of `items`, which the function returned for one element; called in the worker's own thread,
        in order."""
        return items


Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_order(
    pool: Executor | None, function: Callable[[Item], Result], items: Iterable[Item], window: int
) -> Iterator[Result]:
    """`map` with at most `window` calls under way in `pool`, results in the order of items; inline without a pool, and
    where there is but one item, which nothing would be done beside."""
    items = iter(items)
    first = list(islice(items, 2))
    if pool is None or len(first) < 2:
        yield from map(function, chain(first, items))
        return
    pending: deque[Any] = deque()
    try:
        for item in chain(first, items):
            pending.append(pool.submit(function, item))
            if len(pending) >= window:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
    finally:
        for future in pending:
            future.cancel()
