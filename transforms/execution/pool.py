"""Worker processes of a local job: they call functions that would hold Python's lock for most of their time.

`open_workers` provides processes while a job runs. `offload` makes a function that calls another one in them. Without
open processes, such as on a cluster's workers, it calls the function in the calling thread.

All workers are forked from one process that has imported what they need, so start-up is paid once and memory is shared.
They end when the launcher closes its connections. The process above them kills them once the launcher has ended, for a
function that keeps Python's lock would not let them notice.
"""

import ctypes
import gc
import importlib
import multiprocessing
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from hashlib import blake2b
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa

from shardmill.errors import JobError
from shardmill.transforms.stores.storage import hold_shared
from shardmill.transforms.workers.resources import BASE_BYTES, container_bytes, core_count, sharing

START_AFTER_S = 3.0  # core seconds of calls in the launcher until worker processes start: twice what their start takes
_EXIT_TIMEOUT_S = 10.0
_PR_SET_PDEATHSIG = 1  # prctl(2)
_PROGRAM = "import sys; from shardmill.transforms.execution.pool import main; main(*sys.argv[1:])"
_ENDED = (
    "a worker process ended before it answered: it was killed, perhaps for lack of memory, or it crashed; fewer"
    " --workers need less memory"
)


def worker_count(requested: int, cores: int, memory_bytes: int) -> int:
    """Return how many worker processes a job has: as many as requested, or for 0 one for each core that fit in memory.

    A single process would only replace the launcher's threads, so 1 means none.
    """
    return requested or max(min(cores, memory_bytes // BASE_BYTES - 1), 1)


class _Worker:
    def __init__(self, end: socket.socket) -> None:
        self.connection = Connection(os.dup(end.fileno()))
        self.known: set[bytes] = set()

    def call(self, token: bytes, function: bytes, arguments: bytes) -> bytes:
        """Return the answer to a call of the pickled `function`; raises EOFError or OSError once the process ended."""
        self.connection.send_bytes(token)
        if token not in self.known:
            self.connection.send_bytes(function)
            self.known.add(token)
        self.connection.send_bytes(arguments)
        return self.connection.recv_bytes()


class _Helper:
    """The process that forks the workers, and their connections.

    If this process has one thread only, the helper is forked from it, and shares what is imported. Otherwise it is a
    program of its own, which imports the modules again.
    """

    def __init__(self, count: int, modules: Sequence[str]) -> None:
        ours, theirs = zip(*(socket.socketpair() for _ in range(count + 1)), strict=True)
        for end in (*ours, *theirs):
            end.setblocking(True)  # unlike other sockets after socket.setdefaulttimeout, which some libraries call
        self._control, *self._ends = ours
        descriptors = [end.fileno() for end in theirs]
        arguments = ",".join(modules), *map(str, descriptors)
        if _has_one_thread():
            fork = multiprocessing.get_context("fork").Process(target=_run_fork, args=(ours, *arguments), daemon=True)
            fork.start()
            self._wait: Callable[[float], object] = fork.join
        else:
            path = os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))
            program = subprocess.Popen(
                [sys.executable, "-P", "-c", _PROGRAM, *arguments],
                env={**os.environ, "PYTHONPATH": path},
                stdin=subprocess.DEVNULL,
                pass_fds=descriptors,
            )
            self._wait = program.wait
        for end in theirs:
            end.close()

    def start(self) -> list[_Worker]:
        """Let the helper fork the workers."""
        self._control.send(b"s")
        return [_Worker(end) for end in self._ends]

    def end(self) -> None:
        """End the processes, and wait for their end."""
        for end in (self._control, *self._ends):
            with suppress(OSError):  # it has ended
                end.shutdown(socket.SHUT_RDWR)
            end.close()
        with suppress(subprocess.TimeoutExpired):  # a disk holds one
            self._wait(_EXIT_TIMEOUT_S)


def _has_one_thread() -> bool:
    """Return True if a fork of this process loses no thread, but that in which the allocator returns memory."""
    with suppress(OSError):  # where another thread ends meanwhile, or there is no /proc
        names = [Path(task, "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()]
        return threading.active_count() == 1 and len([name for name in names if name != "jemalloc_bg_thd"]) == 1
    return False


class WorkerPool:
    """Worker processes that are started when they pay off; any thread may call functions in them."""

    def __init__(self, count: int, modules: Sequence[str], start_after_s: float) -> None:
        """Start `count` processes that import `modules` once calls here have taken `start_after_s` core seconds."""
        self.count, self._modules = count, modules
        self._start_after_s = start_after_s
        self._changed = threading.Condition()
        self._idle: list[_Worker] = []
        self._workers: list[_Worker] = []
        self._failure: JobError | None = None
        self._ready = self._closed = False
        self._spent_s = 0.0
        self._helper = _Helper(count, modules) if _has_one_thread() else None
        self._has_started = False
        if not start_after_s:
            self._start()

    @property
    def is_chosen(self) -> bool:
        """Return True if the job decides whether the processes start."""
        return self._start_after_s > 0

    def call(self, token: bytes, function: Callable[..., Any], pickled: bytes, arguments: tuple[Any, ...]) -> Any:
        """Call a function in an idle process; in this thread until processes that the job chooses are ready."""
        if self.is_chosen and not self._ready and self._failure is None:
            return self._call_here(function, arguments)
        return self._call_in(None, token, pickled, arguments)

    def _call_in(self, worker: _Worker | None, token: bytes, pickled: bytes, arguments: tuple[Any, ...]) -> Any:
        """Call a function in one worker, by default in the first that is idle."""
        with self._changed:
            self._changed.wait_for(lambda: self._failure or (worker in self._idle if worker else self._idle))
            if self._failure is not None:
                raise self._failure
            worker = worker or self._idle[-1]
            self._idle.remove(worker)
        try:
            answer = worker.call(token, pickled, pickle.dumps(arguments, pickle.HIGHEST_PROTOCOL))
        except (EOFError, OSError):
            self._fail(JobError(_ENDED))
            raise JobError(_ENDED) from None
        finally:
            with self._changed:
                self._idle.append(worker)
                self._changed.notify_all()
        is_error, result = pickle.loads(answer)
        if is_error:
            raise result
        return result

    def call_each(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> list[Any]:
        """Call a function of a module once in each process, after its other calls; in none before all are ready."""
        pickled = pickle.dumps(function)
        workers = self._workers if self._ready else []
        return [self._call_in(worker, pickled, pickled, arguments) for worker in workers]

    def _call_here(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        start = time.thread_time()
        try:
            return function(*arguments)
        finally:
            with self._changed:
                self._spent_s += time.thread_time() - start
                if self._spent_s >= self._start_after_s and not self._has_started and not self._closed:
                    self._start()

    def _fail(self, error: JobError) -> None:
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    def _start(self) -> None:
        self._has_started = True
        self._helper = self._helper or _Helper(self.count, self._modules)
        self._workers = self._helper.start()
        threading.Thread(target=self._wait_until_ready, name="shardmill-workers", daemon=True).start()

    def _wait_until_ready(self) -> None:
        from shardmill.transforms.stores.beam_filesystems import process_options

        try:
            options = pickle.dumps(process_options())
            for worker in self._workers:
                worker.connection.send_bytes(options)
                worker.connection.recv_bytes()
        except Exception as error:
            why = "" if isinstance(error, (EOFError, OSError)) else f": {error}"
            self._fail(JobError(f"the worker processes did not start{why}; --workers 1 does without them"))
            return
        with self._changed:
            self._idle, self._ready = list(self._workers), True
            self._changed.notify_all()

    def close(self) -> None:
        """End the processes, and wait for their end."""
        with self._changed:
            self._closed = True
        self._fail(JobError("the worker processes ended with their job"))
        if self._helper is not None:
            self._helper.end()


_pool: WorkerPool | None = None


@contextmanager
def open_workers(requested: int, modules: Sequence[str]) -> Iterator[None]:
    """Provide worker processes to `offload` in this process while the context lasts; overlapping jobs share them.

    Args:
        requested: 1 for none, a number to start at once, or 0 to start one for each core if there is enough work.
        modules: names of the modules of the functions, which are imported once.
    """
    count = worker_count(requested, core_count(), container_bytes())
    if count == 1:
        yield
        return
    with hold_shared("workers", lambda: _hold_pool(count, modules, 0 if requested else START_AFTER_S)):
        yield


@contextmanager
def _hold_pool(count: int, modules: Sequence[str], start_after_s: float) -> Iterator[None]:
    global _pool
    _pool = pool = WorkerPool(count, modules, start_after_s)
    try:
        yield
    finally:
        _pool = None
        pool.close()


def count_usable_workers(lock_share: float) -> int:
    """Return how many worker processes may call a function that `offload` gets with this `lock_share`; 0 for none."""
    pool = _pool
    if pool is None or not lock_share or (pool.is_chosen and lock_share * core_count() < 1):
        return 0
    return pool.count


def offload(function: Callable[..., Any], lock_share: float) -> Callable[..., Any]:
    """Return a function that calls `function`, with the same arguments, in a worker process if there are any.

    The function, its arguments and its result must be picklable. `lock_share` is the part of its core time for which it
    holds Python's lock. Threads use at most 1 / `lock_share` cores: if there are fewer, processes that were not
    requested would not help. With 0 the function is returned as it is.
    """
    pool = _pool
    if pool is None or not count_usable_workers(lock_share):
        return function
    from apache_beam.internal.cloudpickle import cloudpickle  # of functions that have no name in a module, too

    pickled: bytes = cloudpickle.dumps(function)
    token = blake2b(pickled, digest_size=16).digest()
    return lambda *arguments: pool.call(token, function, pickled, arguments)


def call_everywhere(function: Callable[..., Any], *arguments: Any) -> list[Any]:
    """Return the results of `function(*arguments)` in this process and in each worker process that has started."""
    pool = _pool
    return [function(*arguments), *([] if pool is None else pool.call_each(function, arguments))]


def _run_fork(ends: Sequence[socket.socket], *arguments: str) -> None:
    """Run `main` in a fork of the launcher, which alone keeps its `ends` of the connections."""
    gc.freeze()  # which leaves the launcher's memory shared
    for end in ends:
        end.close()
    main(*arguments)
    os._exit(0)


def main(modules: str, control: str, *descriptors: str) -> None:
    """Import modules, fork a worker for each connection, and kill all of them once the launcher has ended."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for number in (signal.SIGINT, signal.SIGHUP):  # which end the launcher, and it ends the workers
        signal.signal(number, signal.SIG_IGN)
    if not os.read(int(control), 1):  # the job has ended
        return
    for module in modules.split(","):
        importlib.import_module(module)
    sharing.processes = len(descriptors)
    pa.set_cpu_count(1)  # for each worker has one core
    pa.set_io_thread_count(1)
    connections = [Connection(int(descriptor)) for descriptor in descriptors]
    workers = []
    for connection in connections:
        workers.append(os.fork())
        if workers[-1] == 0:
            for other in connections:
                if other is not connection:
                    other.close()
            _serve(connection)
    for connection in connections:
        connection.close()
    os.read(int(control), 1)  # returns once the launcher has ended, or its job
    for worker in workers:
        os.kill(worker, signal.SIGKILL)
        os.waitpid(worker, 0)


def _serve(connection: Connection) -> None:
    from apache_beam.io.filesystems import FileSystems

    from shardmill.transforms.stores import patience

    # Where the system can do so, it kills this process with the one above it
    getattr(ctypes.CDLL(None), "prctl", lambda *_: 0)(_PR_SET_PDEATHSIG, signal.SIGKILL)
    functions: dict[bytes, Callable[..., Any]] = {}
    try:
        FileSystems.set_options(pickle.loads(connection.recv_bytes()))
        patience.set_patience()
        connection.send_bytes(b"ready")
        while True:
            token = connection.recv_bytes()
            if token not in functions:
                functions[token] = pickle.loads(connection.recv_bytes())
            connection.send_bytes(_answer(functions[token], connection.recv_bytes()))
    except (EOFError, OSError):
        pass
    os._exit(0)


def _answer(function: Callable[..., Any], arguments: bytes) -> bytes:
    """Return the pickled pair of False and the result of a call, or of True and its error."""
    try:
        return pickle.dumps((False, function(*pickle.loads(arguments))), pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        with suppress(Exception):  # of an error that cannot be pickled
            pickled = pickle.dumps((True, error))
            if str(pickle.loads(pickled)[1]) == str(error):
                return pickled
        return pickle.dumps((True, RuntimeError(f"{type(error).__name__}: {error}")))
