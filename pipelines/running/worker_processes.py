"""Worker processes of `--direct_running_mode multi_processing`: none outlives its launcher, however that ends.

Each connects to the launcher first of all (`pipelines/running/worker.py`) and ends when that connection does: because
the launcher ends it, or because the launcher is gone, killed perhaps, which the system itself tells the other side.
"""

import shlex
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Self

from apache_beam.portability import python_urns
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner
from grpc import RpcError

from pipelines.running.worker import HOST

_BACKLOG = 1024  # workers whose connections wait, as they all do until the end
_PATIENCE = 10.0  # seconds for a worker that a disk holds; others end in milliseconds
_LISTENERS = ("beam_control_read", "read_grpc_client_inputs")


class WorkerProcesses:
    """Where this launcher's workers connect. On leaving the context they are ended, and have ended."""

    def __init__(self) -> None:
        self._server = socket.create_server((HOST, 0), backlog=_BACKLOG)
        self._server.setblocking(False)

    @property
    def command(self) -> str:
        """The shell's command that starts one; `exec`, or the shell would stand between it and who started it."""
        port = str(self._server.getsockname()[1])
        return "exec " + shlex.join([sys.executable, "-m", "pipelines.running.worker", port])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        connections = []
        with self._server, suppress(BlockingIOError):
            while True:
                connections.append(self._server.accept()[0])
        # One that connects from here on is refused, and ends as well.
        with _no_word_of_lost_workers():
            for connection in connections:
                with suppress(OSError):  # it has ended already
                    connection.shutdown(socket.SHUT_WR)
            for connection in connections:
                connection.settimeout(_PATIENCE)
                with connection, suppress(OSError):
                    connection.recv(1)  # nothing, once the worker is gone


@contextmanager
def _no_word_of_lost_workers() -> Iterator[None]:
    """Beam's threads that listen to workers end with a traceback when these do: wait for that, and let none be
    printed."""
    hook = threading.excepthook

    def pass_on(failed: threading.ExceptHookArgs) -> None:
        if not isinstance(failed.exc_value, RpcError):
            hook(failed)

    threading.excepthook = pass_on
    try:
        yield
        for thread in threading.enumerate():
            if thread.name in _LISTENERS:
                thread.join(_PATIENCE)
    finally:
        threading.excepthook = hook


class LocalRunner(FnApiRunner):
    """Beam's local runner; its worker processes, where there are any, are ours."""

    def __init__(self, workers: WorkerProcesses | None, **more: Any) -> None:
        super().__init__(**more)
        self._workers = workers

    def run_via_runner_api(self, pipeline_proto: Any, options: Any) -> Any:
        """Run the graph, with another command wherever it is for a process."""
        for environment in pipeline_proto.components.environments.values():
            if self._workers is not None and environment.urn == python_urns.SUBPROCESS_SDK:
                environment.payload = self._workers.command.encode()
        return super().run_via_runner_api(pipeline_proto, options)
