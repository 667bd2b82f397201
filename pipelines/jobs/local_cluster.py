"""Workers and job servers of a cluster that the launcher starts on its own machine."""

import copy
import logging
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from apache_beam.options.pipeline_options import (
    DebugOptions,
    FlinkRunnerOptions,
    JobServerOptions,
    PipelineOptions,
    PortableOptions,
    SparkRunnerOptions,
    WorkerOptions,
)
from apache_beam.portability.api import beam_fn_api_pb2, beam_fn_api_pb2_grpc
from apache_beam.runners.portability.flink_runner import FlinkJarJobServer, FlinkRunner
from apache_beam.runners.portability.job_server import JavaJarJobServer, JobServer
from apache_beam.runners.portability.spark_runner import SparkJarJobServer, SparkRunner
from apache_beam.runners.worker.worker_pool_main import BeamFnExternalWorkerPoolServicer
from apache_beam.utils import thread_pool_executor

from shardmill.errors import UserError
from shardmill.pipelines.jobs import runner as runners
from shardmill.pipelines.jobs.worker import HOST
from shardmill.transforms.stores.storage import hold_shared

_WORKERS = "run_worker"  # Beam's threads that are workers
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
    with runners.silence_broken_streams(_WORKERS):
        try:
            external = copy.deepcopy(options)
            portable = external.view_as(PortableOptions)
            portable.environment_type, portable.environment_config = "EXTERNAL", f"{HOST}:{port}"
            yield external
        finally:
            pool.stop_all()
            server.stop(_GRACE)


_LINES = 2  # the last of a server that does not start, and why is in the log of nobody
_WATCHERS, _READERS, _PATIENCE = "(_run)", "(log_stdout)", 2.0  # gRPC's threads, Beam's of a server's log; seconds
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
    with _silence_closed_channels(), ExitStack() as stack:
        with _collect_server_log(type(server).__name__) as lines:
            _find_jar(name, server, options)
            stack.callback(_stop, server)
            try:
                started = _RunningServer(server.start())
            except (OSError, RuntimeError) as error:
                for thread in threading.enumerate():
                    if thread.name.endswith(_READERS):
                        thread.join(_PATIENCE)
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
    with runners.suppress_thread_tracebacks(is_closed_channel):
        try:
            yield
        finally:
            for thread in threading.enumerate():
                if thread not in before and thread.name.endswith(_WATCHERS):
                    thread.join(_PATIENCE)


def _make_server(runner: Any, options: PipelineOptions) -> JavaJarJobServer | None:
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
    lines: deque[str] = deque(maxlen=_LINES)
    log, handler = logging.getLogger(server), _LineHandler(lines)
    with ExitStack() as stack:
        stack.enter_context(runners.hold_log_level(server, logging.INFO))
        stack.enter_context(hold_shared(("apart", server), partial(runners.replace_attribute, log, "propagate", False)))
        log.addHandler(handler)
        stack.callback(log.removeHandler, handler)
        for name in _BEAM_LOGGERS:
            stack.enter_context(runners.hold_log_level(name, logging.CRITICAL))
        yield lines
