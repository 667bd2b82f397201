"""Streams between workers and those they work for break off where either ends first: Beam's threads that listen to them
say so with a traceback each, in the midst of what a job says."""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from grpc import RpcError

PATIENCE = 10.0  # seconds for a worker that a disk holds; others end in milliseconds
_LISTENERS = ("beam_control_read", "read_grpc_client_inputs", "run_worker")
_LOGS = ("apache_beam.runners.worker.data_plane", "apache_beam.runners.worker.sdk_worker")


@contextmanager
def no_word_of_lost_streams() -> Iterator[None]:
    """While the context lasts no such traceback is printed; on leaving it, wait for the threads whose streams broke."""
    hook = threading.excepthook

    def pass_on(failed: threading.ExceptHookArgs) -> None:
        if not isinstance(failed.exc_value, RpcError):
            hook(failed)

    threading.excepthook = pass_on
    for name in _LOGS:
        logging.getLogger(name).addFilter(_is_of_something_else)
    try:
        yield
        for thread in threading.enumerate():
            if thread.name.startswith(_LISTENERS):
                thread.join(PATIENCE)
    finally:
        threading.excepthook = hook
        for name in _LOGS:
            logging.getLogger(name).removeFilter(_is_of_something_else)


def _is_of_something_else(record: logging.LogRecord) -> bool:
    return record.exc_info is None or not isinstance(record.exc_info[1], RpcError)
