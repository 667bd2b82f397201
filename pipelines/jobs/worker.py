"""A worker process of a local launcher: `python -m pipelines.jobs.worker PORT`."""

import logging
import os
import socket
import sys
import threading
from contextlib import suppress

HOST = "127.0.0.1"


def end_with_launcher(port: int) -> None:
    """End this process as soon as its launcher at `port` ends or says so; at once if there is none."""
    try:
        connection = socket.create_connection((HOST, port))
    except OSError:
        os._exit(0)
    threading.Thread(target=_wait, args=(connection,), name="shardmill-launcher", daemon=True).start()


def _wait(connection: socket.socket) -> None:
    with suppress(OSError):  # reset, where it was killed
        connection.recv(1)
    os._exit(0)  # without a word: the launcher says what is to be said


def main(port: str) -> None:
    """Run Beam's worker until Beam or the launcher ends it."""
    end_with_launcher(int(port))
    # What is logged goes to the launcher. Without any handler, the first warning while Beam is imported makes one to
    # stderr, where all else would be said a second time, options and all.
    logging.getLogger().addHandler(logging.NullHandler())
    from apache_beam.runners.worker import sdk_worker_main

    # Without these, Beam warns that it does not know their options.
    from shardmill.transforms.stores import patience  # noqa: F401  # noqa: F401
    from shardmill.transforms.workers import memory_options  # noqa: F401

    sdk_worker_main.main(sys.argv)


if __name__ == "__main__":
    main(sys.argv[1])
