"""Worker processes of `--direct_running_mode multi_processing`: none outlives its launcher, however that ends.

Each connects to the launcher first of all (`pipelines/running/worker.py`) and ends when that connection does: because
the launcher ends it, or because the launcher is gone, killed perhaps, which the system itself tells the other side.
"""

import shlex
import socket
import sys
from contextlib import suppress
from typing import Any, Self

from apache_beam.portability import python_urns
from apache_beam.runners.portability.fn_api_runner.fn_runner import FnApiRunner

from shardmill.pipelines.running.lost_streams import PATIENCE, no_word_of_lost_streams
from shardmill.pipelines.running.worker import HOST

_BACKLOG = 1024  # workers whose connections wait, as they all do until the end


class WorkerProcesses:
    """Where this launcher's workers connect. On leaving the context they are ended, and have ended."""

    def __init__(self) -> None:
        self._server = socket.create_server((HOST, 0), backlog=_BACKLOG)
        self._server.setblocking(False)

    @property
    def command(self) -> str:
        """The shell's command that starts one; `exec`, or the shell would stand between it and who started it."""
        port = str(self._server.getsockname()[1])
        return "exec " + shlex.join([sys.executable, "-m", "shardmill.pipelines.running.worker", port])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        connections = []
        with self._server, suppress(BlockingIOError):
            while True:
                connections.append(self._server.accept()[0])
        # One that connects from here on is refused, and ends as well.
        with no_word_of_lost_streams():
            for connection in connections:
                with suppress(OSError):  # it has ended already
                    connection.shutdown(socket.SHUT_WR)
            for connection in connections:
                connection.settimeout(PATIENCE)
                with connection, suppress(OSError):
                    connection.recv(1)  # nothing, once the worker is gone


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
