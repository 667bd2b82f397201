"""The job server that `--runner FlinkRunner` and `--runner SparkRunner` start themselves, by Java.

Beam would start it where the job is run, and says there what Ctrl-C does, which only a main thread may: a job is run
in another. And Ctrl-C would stop it before the job was cancelled, for which it is asked.
"""

import logging
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from apache_beam.options.pipeline_options import (
    FlinkRunnerOptions,
    JobServerOptions,
    PipelineOptions,
    PortableOptions,
    SparkRunnerOptions,
)
from apache_beam.runners.portability.flink_runner import FlinkJarJobServer, FlinkRunner
from apache_beam.runners.portability.job_server import JavaJarJobServer, JobServer
from apache_beam.runners.portability.spark_runner import SparkJarJobServer, SparkRunner

from shardmill.errors import UserError
from shardmill.pipelines.running.lost_streams import log_level, no_word_of
from shardmill.transforms.stores.together import hold_shared

_LINES = 2  # the last of a server that does not start, and why is in the log of nobody
_WATCHERS, _PATIENCE = "(_run)", 2.0  # gRPC's threads, as Python names them; seconds: they look five times a second
_BEAMS = ("apache_beam.utils.subprocess_server", "")  # loggers of Beam's that tell how it starts one


class _Started(JobServer):
    """One that runs, for whoever starts it."""

    def __init__(self, service: Any) -> None:
        self._service = service

    def start(self) -> Any:
        """What jobs are given to."""
        return self._service

    def stop(self) -> None:
        """It ends with the context that has started it."""


@contextmanager
def own_job_server(runner: Any, options: PipelineOptions) -> Iterator[None]:
    """While the context lasts `runner` has a job server, where it would start one itself.

    Args:
      runner: of a pipeline.
      options: Beam's, of the pipeline.

    Raises:
      UserError: it cannot be started.
    """
    server = _server(runner, options)
    if server is None:
        yield
        return
    name = type(runner).__name__
    with ExitStack() as stack:
        stack.enter_context(_no_word_of_closed_channels())
        with _said_by(type(server).__name__) as lines:
            _find_jar(name, server, options)
            stack.callback(_stop, server)
            try:
                started = _Started(server.start())
            except (OSError, RuntimeError) as error:
                said = "; ".join(lines) or error
                raise UserError(f"--runner {name}: its job server does not start: {said}") from None
        runner.default_job_server = lambda _: started
        yield


def _stop(server: JavaJarJobServer) -> None:
    with _said_by(type(server).__name__):
        server.stop()


@contextmanager
def _no_word_of_closed_channels() -> Iterator[None]:
    """While the context lasts no thread of gRPC says that the channel is closed whose state it watches; on leaving it,
    wait for those to end."""
    before = set(threading.enumerate())
    with no_word_of(_is_closed_channel):
        try:
            yield
        finally:
            for thread in threading.enumerate():
                if thread not in before and thread.name.endswith(_WATCHERS):
                    thread.join(_PATIENCE)


def _is_closed_channel(failed: threading.ExceptHookArgs) -> bool:
    return isinstance(failed.exc_value, ValueError) and "Channel closed" in str(failed.exc_value)


def _server(runner: Any, options: PipelineOptions) -> JavaJarJobServer | None:
    """The server that is to be started; None where one runs, or none is asked."""
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
    """Have its jar on this machine: it is downloaded once, where none is given."""
    own = f"--{name.removesuffix('Runner').lower()}_job_server_jar"
    try:
        server.local_jar(server.path_to_jar(), options.view_as(JobServerOptions).jar_cache_dir)
    except (OSError, RuntimeError, ValueError) as error:
        raise UserError(
            f"--runner {name}: there is no jar of its job server ({' '.join(str(error).split())}); give it by {own}, or"
            " --runner PortableRunner and the --job_endpoint of one that runs"
        ) from None


class _Keeping(logging.Handler):
    def __init__(self, lines: deque[str]) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        self._lines.append(record.getMessage())


@contextmanager
def _said_by(server: str) -> Iterator[deque[str]]:
    """The last lines of what a server says; what Beam says of its start is not shown."""
    lines: deque[str] = deque(maxlen=_LINES)
    log, handler = logging.getLogger(server), _Keeping(lines)
    with ExitStack() as stack:
        stack.enter_context(log_level(server, logging.INFO))
        stack.enter_context(hold_shared(("apart", server), partial(_apart, log)))
        log.addHandler(handler)
        stack.callback(log.removeHandler, handler)
        for name in _BEAMS:
            stack.enter_context(log_level(name, logging.CRITICAL))
        yield lines


@contextmanager
def _apart(log: logging.Logger) -> Iterator[None]:
    before = log.propagate
    log.propagate = False
    try:
        yield
    finally:
        log.propagate = before
