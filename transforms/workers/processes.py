"""Worker processes of a local job: they call functions that would hold Python's lock for most of their time.

`open_workers` provides processes while a job runs. `offload` makes a function that calls another one in them. Without
open processes, such as on a cluster's workers, it calls the function in the calling thread.

All workers are forked from one process that has imported what they need, so start-up is paid once and memory is shared.
They end when the launcher closes its connections. The process above them kills them once the launcher has ended, for a
function that keeps Python's lock would not let them notice.
"""

import ctypes
import importlib
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
from typing import Any

from shardmill.errors import JobError
from shardmill.transforms.stores.storage import hold_shared
from shardmill.transforms.workers.resources import BASE_BYTES, container_bytes, core_count

START_AFTER_S = 4.0  # core seconds of calls in the launcher until worker processes start: twice what their start takes
_EXIT_TIMEOUT_S = 10.0
_WATCH_INTERVAL_S = 0.2
_WATCHES = (signal.SIGALRM, signal.SIGTERM)  # signals at which the process above the workers may kill them
_PR_SET_PDEATHSIG = 1  # prctl(2)
_PROGRAM = "import sys; from shardmill.transforms.workers.processes import main; main(*sys.argv[1:])"
_ENDED = (
    "a worker process ended before it answered: it was killed, perhaps for lack of memory, or it crashed; fewer"
    " --workers need less memory"
)


def worker_count(requested: int, cores: int, memory_bytes: int) -> int:
    """Return how many worker processes a job may have: as many as requested, or for 0 one for each core.

    A chosen number fits into the memory, with the launcher. A single process would only replace the launcher's
    threads, so the result is then 1, which means none.
    """
    return requested or max(min(cores, memory_bytes // BASE_BYTES - 1), 1)


class _EndedError(Exception):
    """A worker process has ended."""


class _Worker:
    """A connection to one worker process, and the functions that the process already has."""

    def __init__(self, end: socket.socket) -> None:
        self.end = end
        self.connection = Connection(os.dup(end.fileno()))
        self.known: set[bytes] = set()

    def call(self, token: bytes, function: bytes, arguments: tuple[Any, ...]) -> Any:
        """Return the result of the pickled `function`; raises what it raises, and _EndedError."""
        try:
            self.connection.send_bytes(token)
            if token not in self.known:
                self.connection.send_bytes(function)
                self.known.add(token)
            self.connection.send_bytes(pickle.dumps(arguments, pickle.HIGHEST_PROTOCOL))
            is_error, result = pickle.loads(self.connection.recv_bytes())
        except (EOFError, OSError):
            raise _EndedError from None
        if is_error:
            raise result
        return result


class WorkerPool:
    """Worker processes that are started when they pay off; any thread may call functions in them."""

    def __init__(self, count: int, modules: Sequence[str], start_after_s: float) -> None:
        """Start `count` processes once calls in this process have taken `start_after_s` core seconds; at once for 0.

        They have imported `modules`.
        """
        self.count, self._modules = count, modules
        self._start_after_s = start_after_s
        self._changed = threading.Condition()
        self._idle: list[_Worker] = []
        self._workers: list[_Worker] = []
        self._failure: JobError | None = None
        self._ready = self._closed = False
        self._spent_s = 0.0
        self._process: subprocess.Popen[bytes] | None = None
        if not start_after_s:
            self._start()

    @property
    def is_chosen(self) -> bool:
        """Return True if the job decides whether the processes start."""
        return self._start_after_s > 0

    @property
    def has_started(self) -> bool:
        return self._process is not None

    def call(self, token: bytes, function: Callable[..., Any], pickled: bytes, arguments: tuple[Any, ...]) -> Any:
        """Call a function in an idle process, or in this thread until the processes are ready."""
        with self._changed:
            is_ready = self._ready
            if is_ready:
                self._changed.wait_for(lambda: self._idle or self._failure is not None)
            if self._failure is not None:
                raise self._failure
            worker = self._idle.pop() if is_ready else None
        if worker is None:
            return self._call_here(function, arguments)
        try:
            return worker.call(token, pickled, arguments)
        except _EndedError:
            self._fail(JobError(_ENDED))
            raise JobError(_ENDED) from None
        finally:
            with self._changed:
                self._idle.append(worker)
                self._changed.notify()

    def _call_here(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        start = time.thread_time()
        try:
            return function(*arguments)
        finally:
            with self._changed:
                self._spent_s += time.thread_time() - start
                if self._spent_s >= self._start_after_s and not self.has_started and not self._closed:
                    self._start()

    def _fail(self, error: JobError) -> None:
        with self._changed:
            self._failure = self._failure or error
            self._changed.notify_all()

    def _start(self) -> None:
        ours, theirs = zip(*(socket.socketpair() for _ in range(self.count)), strict=True)
        path = os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))
        for end in (*ours, *theirs):
            end.setblocking(True)  # unlike other sockets after socket.setdefaulttimeout, which some libraries call
        descriptors = [end.fileno() for end in theirs]
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", _PROGRAM, str(os.getpid()), ",".join(self._modules), *map(str, descriptors)],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.DEVNULL,
            pass_fds=descriptors,
        )
        for end in theirs:
            end.close()
        self._workers = [_Worker(end) for end in ours]
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
        if self._process is None:
            return
        for worker in self._workers:
            with suppress(OSError):  # it has ended
                worker.end.shutdown(socket.SHUT_RDWR)
            worker.end.close()
        self._process.terminate()  # which kills its workers
        with suppress(subprocess.TimeoutExpired):  # a disk holds one
            self._process.wait(_EXIT_TIMEOUT_S)


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


def offload(function: Callable[..., Any], lock_share: float) -> Callable[..., Any]:
    """Return a function that calls `function`, with the same arguments, in a worker process if there are any.

    The function, its arguments and its result must be picklable. `lock_share` is the part of its core time for which it
    holds Python's lock. Threads use at most 1 / `lock_share` cores: if there are fewer, processes that were not
    requested would not help.
    """
    pool = _pool
    if pool is None or (pool.is_chosen and lock_share * core_count() < 1):
        return function
    from apache_beam.internal.cloudpickle import cloudpickle  # of functions that have no name in a module, too

    pickled: bytes = cloudpickle.dumps(function)
    token = blake2b(pickled, digest_size=16).digest()
    return lambda *arguments: pool.call(token, function, pickled, arguments)


def main(launcher: str, modules: str, *descriptors: str) -> None:
    """Import modules, fork a worker for each connection, and kill all of them once the launcher has ended."""
    workers: set[int] = set()

    def end_with_launcher(number: int, _: object) -> None:
        if number == signal.SIGTERM or os.getppid() != int(launcher):
            for worker in workers:
                os.kill(worker, signal.SIGKILL)
                os.waitpid(worker, 0)
            os._exit(0)

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the launcher, which ends the workers
    for number in _WATCHES:
        signal.signal(number, end_with_launcher)
    signal.setitimer(signal.ITIMER_REAL, _WATCH_INTERVAL_S, _WATCH_INTERVAL_S)
    for module in modules.split(","):
        importlib.import_module(module)
    connections = [Connection(int(descriptor)) for descriptor in descriptors]
    for connection in connections:
        worker = os.fork()
        if worker == 0:
            for number in _WATCHES:  # a fork has no timer
                signal.signal(number, signal.SIG_DFL)
            for other in connections:
                if other is not connection:
                    other.close()
            _serve(connection)
        workers.add(worker)
    for connection in connections:
        connection.close()
    with suppress(ChildProcessError):
        while True:
            workers.discard(os.wait()[0])
    signal.setitimer(signal.ITIMER_REAL, 0)  # before Python, at its end, takes the handlers away


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
