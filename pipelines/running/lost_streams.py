"""Streams between workers and those they work for break off where either ends first: Beam's threads that listen to them
say so with a traceback each, in the midst of what a job says."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from grpc import RpcError

from shardmill.transforms.stores.together import hold_shared

PATIENCE = 10.0  # seconds for a worker that a disk holds; others end in milliseconds
_LISTENERS = ("beam_control_read", "read_grpc_client_inputs", "run_worker")
_LOGS = ("apache_beam.runners.worker.data_plane", "apache_beam.runners.worker.sdk_worker")


_ignored: list[Callable[[threading.ExceptHookArgs], bool]] = []


@contextmanager
def no_word_of_lost_streams() -> Iterator[None]:
    """While the context lasts no such traceback is printed; on leaving it, wait for the threads whose streams broke."""
    with ExitStack() as stack:
        stack.enter_context(no_word_of(_is_lost_stream))
        for name in _LOGS:
            stack.enter_context(hold_shared(("filter", name), partial(_filtered, logging.getLogger(name))))
        yield
        for thread in threading.enumerate():
            if thread.name.startswith(_LISTENERS):
                thread.join(PATIENCE)


@contextmanager
def no_word_of(is_ignored: Callable[[threading.ExceptHookArgs], bool]) -> Iterator[None]:
    """While the context lasts print no traceback of a thread that fails with what `is_ignored` is true of."""
    with hold_shared("excepthook", _hook):
        _ignored.append(is_ignored)
        try:
            yield
        finally:
            _ignored.remove(is_ignored)


@contextmanager
def log_level(name: str, level: int) -> Iterator[None]:
    """Set the level of a logger while the context lasts, for all runs that overlap."""
    with hold_shared(("level", name), partial(_level, logging.getLogger(name), level)):
        yield


@contextmanager
def _hook() -> Iterator[None]:
    hook = threading.excepthook

    def pass_on(failed: threading.ExceptHookArgs) -> None:
        if not any(is_ignored(failed) for is_ignored in tuple(_ignored)):
            hook(failed)

    threading.excepthook = pass_on
    try:
        yield
    finally:
        threading.excepthook = hook


@contextmanager
def _filtered(log: logging.Logger) -> Iterator[None]:
    log.addFilter(_is_of_something_else)
    try:
        yield
    finally:
        log.removeFilter(_is_of_something_else)


@contextmanager
def _level(log: logging.Logger, level: int) -> Iterator[None]:
    before = log.level
    log.setLevel(level)
    try:
        yield
    finally:
        log.setLevel(before)


def _is_lost_stream(failed: threading.ExceptHookArgs) -> bool:
    return isinstance(failed.exc_value, RpcError)


def _is_of_something_else(record: logging.LogRecord) -> bool:
    return record.exc_info is None or not isinstance(record.exc_info[1], RpcError)
