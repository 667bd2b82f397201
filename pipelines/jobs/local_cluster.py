"""Workers and job servers that the launcher starts on its own machine."""

import copy
import logging
import shlex
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any, Self

from apache_beam.options.pipeline_options import (
    DebugOptions,
    FlinkRunnerOptions,
    JobServerOptions,
    PipelineOptions,
    PortableOptions,
    SparkRunnerOptions,
    WorkerOptions,
)
from apache_beam.portability import python_urns
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from apache_beam.runners.portability.flink_runner import FlinkJarJobServer, FlinkRunner
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from apache_beam.runners.portability.job_server import JavaJarJobServer, JobServer
from apache_beam.runners.portability.spark_runner import SparkJarJobServer, SparkRunner
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from apache_beam.utils import thread_pool_executor
from grpc import RpcError

from shardmill.errors import UserError
from shardmill.pipelines.jobs.worker import HOST
from shardmill.transforms.stores.storage import hold_shared

WORKER_EXIT_TIMEOUT_S = 10.0  # seconds for a worker that a disk holds; others end in milliseconds
_READERS = ("beam_control_read", "read_grpc_client_inputs")  # Beam's threads that read what workers send
_WORKERS = "run_worker"  # Beam's threads that are workers
_LOGS = ("apache_beam.runners.worker.data_plane", "apache_beam.runners.worker.sdk_worker")
_ignored: list[Callable[[threading.ExceptHookArgs], bool]] = []


@contextmanager
def silence_broken_streams(threads: str | tuple[str, ...]) -> Iterator[None]:
    """Suppress tracebacks of broken gRPC streams; on exit, wait for the threads whose names start with `threads`."""
    with ExitStack() as stack:
        stack.enter_context(suppress_thread_tracebacks(lambda failed: isinstance(failed.exc_value, RpcError)))
        for name in _LOGS:
            stack.enter_context(hold_shared(("filter", name), partial(_hold_filter, logging.getLogger(name))))
        yield
        for thread in threading.enumerate():
            if thread.name.startswith(threads):
                thread.join(WORKER_EXIT_TIMEOUT_S)


@contextmanager
def suppress_thread_tracebacks(is_ignored: Callable[[threading.ExceptHookArgs], bool]) -> Iterator[None]:
    """Within this context, print no traceback of a thread that fails with an error for which `is_ignored` is true."""
    with hold_shared("excepthook", _hold_thread_hook):
        _ignored.append(is_ignored)
        try:
            yield
        finally:
            _ignored.remove(is_ignored)


@contextmanager
def hold_log_level(name: str, level: int) -> Iterator[None]:
    """Within this context, set the level of a logger, for all runs that overlap."""
    with hold_shared(("level", name), partial(_hold_level, logging.getLogger(name), level)):
        yield


@contextmanager
def replace_attribute(target: Any, name: str, value: Any) -> Iterator[None]:
    """Within this context, replace an attribute of a module or object."""
    before = getattr(target, name)
    setattr(target, name, value)
    try:
        yield
    finally:
        setattr(target, name, before)


@contextmanager
def _hold_thread_hook() -> Iterator[None]:
    hook = threading.excepthook

    def pass_on(failed: threading.ExceptHookArgs) -> None:
        if not any(is_ignored(failed) for is_ignored in tuple(_ignored)):
            hook(failed)

    with replace_attribute(threading, "excepthook", pass_on):
        yield


@contextmanager
def _hold_filter(log: logging.Logger) -> Iterator[None]:
    log.addFilter(_is_other_record)
    try:
        yield
    finally:
        log.removeFilter(_is_other_record)


@contextmanager
def _hold_level(log: logging.Logger, level: int) -> Iterator[None]:
    before = log.level
    log.setLevel(level)
    try:
        yield
    finally:
        log.setLevel(before)


def _is_other_record(record: logging.LogRecord) -> bool:
    return record.exc_info is None or not isinstance(record.exc_info[1], RpcError)


_GRACE = 1  # seconds, at the end, for answers that are under way


class _WorkerPool(BeamFnExternalWorkerPoolServicer):
    """Beam's worker pool, with workers known by the client that started them as well as by name.

    Each Flink TaskManager numbers its workers from one. In Beam's own pool the one that finished first stopped the
    worker of another, whose stream broke off.
    """

    def __init__(self, worker_requested: threading.Event, **settings: Any) -> None:
        super().__init__(**settings)
        self._asked = worker_requested
        self._lock = threading.Lock()
        self._started: dict[tuple[str, str], Any] = {}

    def StartWorker(self, request: Any, context: Any) -> Any:
        self._asked.set()
        with self._lock:
            answer = super().StartWorker(request, context)
            if not answer.error:
                self._started[context.peer(), request.worker_id] = self._worker_threads.pop(request.worker_id)
        return answer

    def StopWorker(self, request: Any, context: Any) -> Any:
        with self._lock:
            worker = self._started.pop((context.peer(), request.worker_id), None)
            if worker is None:
                return beam_fn_api_pb2.StopWorkerResponse()
            self._worker_threads[request.worker_id] = worker
            return super().StopWorker(request, context)

    def stop_all(self) -> None:
        """Stop the remaining workers: a cluster keeps them for a while, for later steps."""
        with self._lock:
            for (_, name), worker in self._started.items():
                self._worker_threads[name] = worker
                super().StopWorker(beam_fn_api_pb2.StopWorkerRequest(worker_id=name), None)
            self._started.clear()


@contextmanager
def loopback_workers(options: PipelineOptions, worker_requested: threading.Event) -> Iterator[PipelineOptions]:
    """Run a worker pool in this process, and yield options that point the cluster to it, if they ask for that.

    `worker_requested` is set once the cluster requests a worker.
    """
    uses_processes = options.view_as(DebugOptions).lookup_experiment("use_loopback_process_worker")
    if options.view_as(PortableOptions).environment_type != "LOOPBACK" or uses_processes:
        yield options
        return
    import grpc

    cache_bytes = options.view_as(WorkerOptions).max_cache_memory_usage_mb << 20
    pool = _WorkerPool(worker_requested, state_cache_size=cache_bytes)
    pings = [("grpc.http2.max_pings_without_data", 0), ("grpc.http2.max_ping_strikes", 0)]
    server = grpc.server(thread_pool_executor.shared_unbounded_instance(), options=pings)
    beam_fn_api_pb2_grpc.add_BeamFnExternalWorkerPoolServicer_to_server(pool, server)
    # `localhost` is two addresses. gRPC is content with one of them, and the port of the other may be somebody else's
    port = server.add_insecure_port(f"{HOST}:0")
    server.start()
    # A TaskManager ends its own in any order. The readers of workers are not waited for: Flink keeps their streams open
    # as long as --environment_cache_millis says, and a reader whose worker has ended says nothing when they break.
    with silence_broken_streams(_WORKERS):
        try:
            external = copy.deepcopy(options)
            portable = external.view_as(PortableOptions)
            portable.environment_type, portable.environment_config = "EXTERNAL", f"{HOST}:{port}"
            yield external
        finally:
            pool.stop_all()
            server.stop(_GRACE)


_LINES = 2  # the last of a server that does not start, and why is in the log of nobody
_WATCHERS, _PATIENCE = "(_run)", 2.0  # gRPC's threads, as Python names them; seconds: they look five times a second
_BEAM_LOGGERS = ("apache_beam.utils.subprocess_server", "")  # loggers of Beam's that tell how it starts one


class _RunningServer(JobServer):
    """A job server that already runs, and ends with the context that started it."""

    def __init__(self, service: Any) -> None:
        self._service = service

    def start(self) -> Any:
        return self._service

    def stop(self) -> None:
        pass


@contextmanager
def own_job_server(runner: Any, options: PipelineOptions) -> Iterator[None]:
    """Run a job server for `runner` while the context lasts, if it would start one itself.

    Beam would start it in the thread that runs the job and set a Ctrl-C handler there, which only the main thread may
    do. Ctrl-C would also stop the server before the job is cancelled through it.
    """
    server = _make_server(runner, options)
    if server is None:
        yield
        return
    name = type(runner).__name__
    with ExitStack() as stack:
        stack.enter_context(_silence_closed_channels())
        with _collect_server_log(type(server).__name__) as lines:
            _find_jar(name, server, options)
            stack.callback(_stop, server)
            try:
                started = _RunningServer(server.start())
            except (OSError, RuntimeError) as error:
                message = "; ".join(lines) or error
                raise UserError(f"--runner {name}: its job server does not start: {message}") from None
        runner.default_job_server = lambda _: started
        yield


def _stop(server: JavaJarJobServer) -> None:
    with _collect_server_log(type(server).__name__):
        server.stop()


@contextmanager
def _silence_closed_channels() -> Iterator[None]:
    """Suppress gRPC's tracebacks about closed channels; on exit, wait for the threads that watch them."""

    def is_closed_channel(failed: threading.ExceptHookArgs) -> bool:
        return isinstance(failed.exc_value, ValueError) and "Channel closed" in str(failed.exc_value)

    before = set(threading.enumerate())
    with suppress_thread_tracebacks(is_closed_channel):
        try:
            yield
        finally:
            for thread in threading.enumerate():
                if thread not in before and thread.name.endswith(_WATCHERS):
                    thread.join(_PATIENCE)


def _make_server(runner: Any, options: PipelineOptions) -> JavaJarJobServer | None:
    """Return the job server to start; None if one runs already or none is needed."""
    if options.view_as(PortableOptions).job_endpoint:
        return None
    flink, spark = options.view_as(FlinkRunnerOptions), options.view_as(SparkRunnerOptions)
    if isinstance(runner, FlinkRunner) and not flink.flink_submit_uber_jar:
        flink.flink_master = FlinkRunner.add_http_scheme(flink.flink_master)
        return FlinkJarJobServer(options)
    if isinstance(runner, SparkRunner) and not spark.spark_submit_uber_jar:
        return SparkJarJobServer(options)
    return None


def _find_jar(name: str, server: JavaJarJobServer, options: PipelineOptions) -> None:
    """Make the server's jar available on this machine; it is downloaded once unless given."""
    own = f"--{name.removesuffix('Runner').lower()}_job_server_jar"
    try:
        server.local_jar(server.path_to_jar(), options.view_as(JobServerOptions).jar_cache_dir)
    except (OSError, RuntimeError, ValueError) as error:
        raise UserError(
            f"--runner {name}: there is no jar of its job server ({' '.join(str(error).split())}); give it by {own}, or"
            " --runner PortableRunner and the --job_endpoint of one that runs"
        ) from None


class _LineHandler(logging.Handler):
    def __init__(self, lines: deque[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())


@contextmanager
def _collect_server_log(server: str) -> Iterator[deque[str]]:
    """Collect a server's last log lines, and silence Beam's log of its start."""
    lines: deque[str] = deque(maxlen=_LINES)
    log, handler = logging.getLogger(server), _LineHandler(lines)
    with ExitStack() as stack:
        stack.enter_context(hold_log_level(server, logging.INFO))
        stack.enter_context(hold_shared(("apart", server), partial(replace_attribute, log, "propagate", False)))
        log.addHandler(handler)
        stack.callback(log.removeHandler, handler)
        for name in _BEAM_LOGGERS:
            stack.enter_context(hold_log_level(name, logging.CRITICAL))
        yield lines


_BACKLOG = 1024  # workers whose connections wait, as they all do until the end


class WorkerProcesses:
    """The socket that this launcher's workers connect to; leaving the context ends them and waits for their end.

    Each worker first connects to it (see worker.py), and ends when the launcher closes the connection. If the launcher
    is killed, the system closes it. So no worker outlives its launcher.
    """

    def __init__(self) -> None:
        self._server = socket.create_server((HOST, 0), backlog=_BACKLOG)
        self._server.setblocking(False)

    @property
    def command(self) -> str:
        """Return the shell command that starts a worker; without `exec` a shell would stay above it."""
        port = str(self._server.getsockname()[1])
        return "exec " + shlex.join([sys.executable, "-m", "shardmill.pipelines.jobs.worker", port])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        connections = []
        with self._server, suppress(BlockingIOError):
            while True:
                connections.append(self._server.accept()[0])
        # One that connects from here on is refused, and ends as well.
        with silence_broken_streams(_READERS):
            for connection in connections:
                with suppress(OSError):  # it has ended already
                    connection.shutdown(socket.SHUT_WR)
            for connection in connections:
                connection.settimeout(WORKER_EXIT_TIMEOUT_S)
                with connection, suppress(OSError):
                    connection.recv(1)  # nothing, once the worker is gone


class LocalRunner(FnApiRunner):
    """Beam's local runner, with our command for worker processes."""

    def __init__(self, workers: WorkerProcesses | None, **more: Any) -> None:
        super().__init__(**more)
        self._workers = workers

    def run_via_runner_api(self, pipeline_proto: Any, options: Any) -> Any:
        for environment in pipeline_proto.components.environments.values():
            if self._workers is not None and environment.urn == python_urns.SUBPROCESS_SDK:
                environment.payload = self._workers.command.encode()
        return super().run_via_runner_api(pipeline_proto, options)
