"""A worker process of a local launcher: `python -m shardmill.pipelines.jobs.worker PORT`."""

import logging
import os
import select
import signal
import socket
import sys
import threading
import time
from contextlib import suppress

HOST = "127.0.0.1"
_WATCH_INTERVAL_S, _GRACE_S = 0.2, 0.4


def end_with_launcher(port: int) -> None:
    """End this process as soon as its launcher at `port` ends or asks for it; end at once without a launcher."""
    try:
        connection = socket.create_connection((HOST, port))
    except OSError:
        os._exit(0)
    worker = os.getpid()
    if os.fork() == 0:  # a function may keep Python's lock for minutes, and the thread below waits for that
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        while os.getppid() == worker and not select.select([connection], [], [], _WATCH_INTERVAL_S)[0]:
            pass
        time.sleep(_GRACE_S)
        if os.getppid() == worker:
            os.kill(worker, signal.SIGKILL)
        os._exit(0)
    threading.Thread(target=_wait, args=(connection,), name="shardmill-launcher", daemon=True).start()


def _wait(connection: socket.socket) -> None:
    with suppress(OSError):  # reset, where it was killed
        connection.recv(1)
    os._exit(0)  # print nothing: the launcher reports the error


def main(port: str) -> None:
    """Run Beam's worker until Beam or the launcher ends it."""
    end_with_launcher(int(port))
    # What is logged goes to the launcher. Without any handler, the first warning while Beam is imported makes one to
    # stderr, and all later messages would be printed twice.
    logging.getLogger().addHandler(logging.NullHandler())
    from apache_beam.runners.worker import sdk_worker_main

    # Without these, Beam warns that it does not know their options.
    from shardmill.transforms.stores import patience  # noqa: F401  # noqa: F401
    from shardmill.transforms.workers import memory_options  # noqa: F401

    sdk_worker_main.main(sys.argv)


if __name__ == "__main__":
    main(sys.argv[1])
