"""Run DoFns in threads, count their progress and report their errors."""

import json
import os
import threading
import time
import uuid
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache
from itertools import chain, islice
from traceback import format_exception_only
from typing import Any, NamedTuple, TypeVar

import apache_beam as beam

from shardmill.errors import JobError, UserError
from shardmill.installed import describe_lack_of_memory
from shardmill.metadata.json_values import parse_json
from shardmill.transforms.execution.pool import count_usable_workers, offload
from shardmill.transforms.stores import patience, storage
from shardmill.transforms.stores.protocol import os_error_text
from shardmill.transforms.workers.elements import in_global_window
from shardmill.transforms.workers.resources import core_count

TWICE_THE_CORES = -2  # of the worker: where threads wait for a store about as long as they work


class Threads(NamedTuple):
    """Number of a worker's threads that call a function: 1 calls inline, 0 is one a core, TWICE_THE_CORES two a core.

    With a `lock_share`, worker processes may call the function instead; see `offload`.
    """

    number: int = 1
    lock_share: float = 0.0


INLINE, ONE_A_CORE = Threads(1), Threads(0)


class ThreadedFlatMap(beam.DoFn):
    """Calls `function(element, *side inputs)` in threads, as many elements ahead as there are threads, and keeps the
    order.

    All outputs are emitted before the bundle ends, so a repeated bundle repeats them all.
    """

    def __init__(self, function: Callable[..., Iterable[Any]], threads: Threads = ONE_A_CORE) -> None:
        """Call `function`, which must not be a generator: that would not run in a thread."""
        self._function, self.threads = function, threads

    def setup(self) -> None:
        wanted, lock_share = self.threads
        threads = {0: core_count(), TWICE_THE_CORES: 2 * core_count()}.get(wanted, wanted)
        workers = count_usable_workers(lock_share)
        self._threads = max(threads, workers)
        self._pool = ThreadPoolExecutor(self._threads, "shardmill-map") if self._threads > 1 else None
        self._window = self._threads + workers  # so that a slow call leaves the other processes something to do
        self._side: tuple[Any, ...] | None = None

    def bind(self, side: tuple[Any, ...]) -> Callable[[Any], Iterable[Any]]:
        """Return the function of one element; worker processes get side inputs once, with the function."""
        if self._side is None or any(one is not other for one, other in zip(side, self._side, strict=True)):
            self._side = side
            function, lock_share = self.choose(side)
            self._call = offload(lambda element: function(element, *side), lock_share)
        return self._call

    def choose(self, side: tuple[Any, ...]) -> tuple[Callable[..., Iterable[Any]], float]:
        """Return the function to call with `side`, and its share of time under Python's lock."""
        return self._function, self.threads.lock_share

    def teardown(self) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def start_bundle(self) -> None:
        self._pending: deque[Future[Iterable[Any]]] = deque()

    def process(self, element: Any, *side: Any) -> Iterator[Any]:
        """Start the call for `element`, and emit the results of earlier calls that must be awaited first."""
        call = self.bind(side)
        if self._pool is None:
            yield from self.emit(call(element))
            return
        self._pending.append(self._pool.submit(call, element))
        while len(self._pending) > self._window:
            yield from self.emit(self._pending.popleft().result())

    def finish_bundle(self) -> Iterator[Any]:
        while self._pending:
            for item in self.emit(self._pending.popleft().result()):
                yield in_global_window(item)

    def emit(self, items: Iterable[Any]) -> Iterable[Any]:
        """Return what to emit of one element's result; called in the worker's own thread, in order."""
        return items


Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_order(
    pool: Executor | None, function: Callable[[Item], Result], items: Iterable[Item], window: int
) -> Iterator[Result]:
    """Yield `function(item)` for each item in order, with at most `window` calls running in `pool`.

    Without a pool, or for a single item, calls run inline.
    """
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


_INTERVAL = 0.2  # seconds between two writes of one worker's file


@dataclass(frozen=True, slots=True)
class Progress:
    """Examples and bytes written so far, examples planned (0 before planning ends), and records staged before."""

    examples: int = 0
    size_bytes: int = 0
    planned_examples: int = 0
    staged: int = 0


class ProgressReporter:
    """Counts the work of some threads, and periodically writes the counts to a file in the launcher's folder."""

    def __init__(self, folder: str, counter: str = "examples") -> None:
        self._path = os.path.join(folder, f"{counter}-{os.getpid()}-{threading.get_ident()}.json")
        self._counter = counter
        self._examples = self._bytes = 0
        self._last = 0.0
        self._lock = threading.Lock()

    def add(self, examples: int, size_bytes: int) -> None:
        """Count written examples and bytes; any thread may call this."""
        with self._lock:
            self._examples += examples
            self._bytes += size_bytes
            now = time.monotonic()
            if now - self._last > _INTERVAL:
                self._write()
                self._last = now

    def flush(self) -> None:
        with self._lock:
            self._write()

    def _write(self) -> None:
        _write(self._path, {self._counter: self._examples, "size_bytes": self._bytes})


@cache
def find_reporter(folder: str, counter: str = "examples") -> ProgressReporter:
    """Return the reporter of this process."""
    return ProgressReporter(folder, counter)


def report_plan(folder: str, examples: int) -> None:
    """Report the planned number of examples."""
    _write(os.path.join(folder, "plan.json"), {"planned_examples": examples})


def read_progress(folder: str) -> Progress:
    """Return the sum of what all workers have reported."""
    totals: Counter[str] = Counter()
    for name in os.listdir(folder):
        if name.endswith(".json"):
            with open(os.path.join(folder, name)) as file:
                totals.update(json.load(file))
    return Progress(**totals)


def _write(path: str, content: dict[str, int]) -> None:
    with suppress(OSError):  # of a full disk, say: nobody's job fails because its progress cannot be shown
        with open(f"{path}.tmp", "w") as file:
            json.dump(content, file)
        os.replace(f"{path}.tmp", path)


FAILURE_FILE = "failure"  # in the folder that launcher and workers share
STARTED_SUFFIX = "-begun"  # of a file next to it, which exists once the first step of a pipeline has begun


@dataclass(frozen=True, slots=True)
class Failure:
    """The description of an error that a step of a pipeline raised."""

    step: str  # full label of the step
    kind: str  # class in shardmill.errors; "" for any other error
    sentence: str  # message; of other errors, with their type

    @classmethod
    def from_error(cls, step: str, error: Exception) -> "Failure":
        """Describe `error`, which `step` raised."""
        if isinstance(error, (UserError, JobError)):
            return cls(step, type(error).__name__, str(error))
        if lack := describe_lack_of_memory(error):
            return cls(step, "", lack)
        if isinstance(error, OSError) and error.filename:
            return cls(step, "", os_error_text(error))
        return cls(step, "", " ".join("".join(format_exception_only(error)).split()))


class ReportingFn(beam.DoFn):
    """Wraps the DoFn `inner`, and writes the error with which it ends to a file.

    A later failed attempt overwrites the report of an earlier one, so that the last is shown. Cancellations of other
    attempts are not reported, because they are not the cause of a failure.
    """

    def __init__(self, inner: beam.DoFn, step: str, path: str, is_first: bool = False) -> None:
        self._inner, self._step, self._path, self._is_first = inner, step, path, is_first

    def __getattribute__(self, name: str) -> Any:
        # As Beam's own wrapper of a DoFn does it: whatever is asked of it is asked of the one inside. Beam asks for
        # all that there is, thousands of times a job.
        if name in ReportingFn.__dict__ or name.startswith("__"):
            return object.__getattribute__(self, name)
        own = object.__getattribute__(self, "__dict__")
        return own[name] if name in own else getattr(own["_inner"], name)

    @property
    def wrapped(self) -> beam.DoFn:
        """Return the inner DoFn."""
        return self._inner

    def _inspect_process(self) -> Any:
        """Return the parameters of the inner `process`; their defaults tell Beam what to pass."""
        return self._inner.get_function_arguments("process")

    def setup(self) -> None:
        """Set up the inner DoFn, and turn on retries of storage requests for minutes."""
        patience.set_patience()
        with self._report_errors():
            self._inner.setup()

    def process(self, *arguments: Any, **named: Any) -> Iterator[Any]:
        """Process an element; the first step of the pipeline also reports that it has begun."""
        with self._report_errors():
            if self._is_first:
                with suppress(OSError):
                    storage.write_text(f"{self._path}{STARTED_SUFFIX}", "", sync=False)
            yield from self._inner.process(*arguments, **named) or ()

    def finish_bundle(self) -> Iterable[Any] | None:
        with self._report_errors():
            results: Iterable[Any] | None = self._inner.finish_bundle()
            return None if results is None else list(results)

    @contextmanager
    def _report_errors(self) -> Iterator[None]:
        try:
            yield
        except CancelledError:
            raise
        except Exception as error:
            with suppress(Exception):  # the error itself is what counts, and goes on to the runner
                write_failure(self._path, Failure.from_error(self._step, error))
            raise


def write_failure(path: str, failure: Failure) -> None:
    """Write a failure to `path`, replacing an earlier one."""
    # Workers that fail at the same time write side by side
    storage.write_text(path, json.dumps(asdict(failure)), f"{path}-{uuid.uuid4().hex}", sync=False)


def read_failure(path: str) -> Failure | None:
    """Return the failure reported at `path`; None if it does not exist or cannot be read."""
    try:
        content = parse_json(storage.read_bytes(path))
        return Failure(content["step"].text(), content["kind"].text(), content["sentence"].text())
    except (OSError, ValueError):
        return None


def report_failures(pipeline: beam.Pipeline, path: str, reports_start: bool = False) -> None:
    """Make every step of a pipeline that does not run yet report its errors to `path`.

    With `reports_start`, the first step also reports that it has begun.
    """
    pipeline.visit(_DoFnWrapper(path, reports_start))


class _DoFnWrapper(beam.pipeline.PipelineVisitor):
    """Wraps the DoFn of each ParDo, except splittable ones, which are Beam's own."""

    def __init__(self, path: str, reports_start: bool) -> None:
        self._path, self._reports_start = path, reports_start

    def visit_transform(self, node: Any) -> None:
        step = node.transform
        if isinstance(step, beam.ParDo) and not isinstance(step.fn, ReportingFn) and not step.get_restriction_coder():
            step.fn = ReportingFn(step.fn, node.full_label, self._path, self._reports_start)
            self._reports_start = False
