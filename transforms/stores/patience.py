"""Retry failing stores for several minutes, as --store_patience and --s3_attempts allow."""

import os
import random
import threading
import time
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, TypeVar

from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.transforms.stores import protocol
from shardmill.transforms.stores.beam_filesystems import process_options

_SECONDS = 600
# In this mode botocore waits up to 0.05, 0.1, 0.2, … and at last 20 seconds before each further attempt; after SlowDown
# it starts at 1 second. The mean wait is half of that: two and a half minutes in all, and less than one minute once in
# a hundred thousand requests. Each repetition counts against the client's quota, so threads must not share a client
# (transforms/stores/s3.py; Beam makes one for each file). 24 attempts use two thirds of the quota.
_ATTEMPTS = 24
_MODE = "standard"
VARIABLES = ("AWS_RETRY_MODE", "AWS_MAX_ATTEMPTS")  # what botocore reads them from
FIRST_SECONDS, _LONGEST_SECONDS = 0.5, 30.0  # waited before operations are repeated; half of that in the worst of luck

Result = TypeVar("Result")
_withdrawn = threading.Event()  # in this process: if set, no thread waits for a store, and waiting threads stop
_withdrawn.set()


class PatienceOptions(PipelineOptions):
    """--store_patience and --s3_attempts; workers receive them with Beam's own options."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument(
            "--store_patience",
            type=partial(_parse_number, "seconds", 0),
            default=_SECONDS,
            help="Seconds for which steps repeat requests to an object store that is overloaded or unreachable",
        )
        parser.add_argument(
            "--s3_attempts",
            type=partial(_parse_number, "a number of attempts", 1),
            default=_ATTEMPTS,
            help="Number of attempts at each request to S3; 24 take about two and a half minutes",
        )


def _parse_number(expected: str, least: int, text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) >= least):
        raise ArgumentTypeError(f"expected {expected}, {least} or more, not {text!r}")
    return int(text)


def set_patience(granted: bool = True) -> None:
    """Let storage requests of this process be retried for minutes, as in steps of a job, or no longer."""
    if granted:
        _withdrawn.clear()
    else:
        _withdrawn.set()


def is_patient() -> bool:
    """Return True if storage requests of this process are retried for minutes."""
    return not _withdrawn.is_set()


@contextmanager
def withdraw_at_exit() -> Iterator[None]:
    """On exit, turn off the patience that was turned on within this context."""
    try:
        yield
    finally:
        set_patience(False)


def call_with_retries(function: Callable[..., Result], *arguments: Any) -> Result:
    """Call `function`, which must be safe to repeat, until it succeeds or fails for another reason than a transient
    store error; raise GivenUpError if the store failed for longer than --store_patience.
    """
    until: float | None = None
    wait = FIRST_SECONDS
    while True:
        try:
            result = function(*arguments)
            protocol.mark_store_responsive()
            return result
        except Exception as error:
            if _withdrawn.is_set() or not protocol.is_transient(error):
                raise
            patience = process_options().view_as(PatienceOptions).store_patience
            until = time.monotonic() + patience if until is None else until
            if time.monotonic() + wait > until:
                if not patience:
                    raise
                raise protocol.GivenUpError(
                    f"{protocol.masked_error(error) or error}; it was tried again for {patience} seconds"
                ) from error
            if _withdrawn.wait(random.uniform(wait / 2, wait)):  # the job has ended meanwhile
                raise
        wait = min(2 * wait, _LONGEST_SECONDS)


_DELETED = 1000  # at once: as many as one request of S3 deletes


class RetryingStore:
    """An ObjectStore that repeats failed operations; each has the same outcome as if it had run once.

    After a lost response, `create` and `replace` recognize their own bytes. An upload is not repeated: the bytes
    already written are gone, so the writer must start again.
    """

    def __init__(self, store: protocol.ObjectStore) -> None:
        self._store, self.upload = store, store.upload

    def __getattr__(self, operation: str) -> Any:
        """Return an operation that can be repeated as it is."""
        return partial(_call_store, getattr(self._store, operation))

    def delete_unchanged(self, url: str, revision: str) -> None:
        """Delete an unchanged object; if it is gone at a repetition, the first attempt deleted it."""
        attempts = 0

        def delete() -> None:
            nonlocal attempts
            attempts += 1
            try:
                self._store.delete_unchanged(url, revision)
            except protocol.ChangedError:
                if attempts == 1 or self._is_there(url):
                    raise

        _call_store(delete)

    def stats(self, prefix: str) -> Iterator[protocol.FileStat]:
        return _resume_listing(lambda: self._store.stats(prefix))

    def delete(self, urls: Sequence[str]) -> None:
        for start in range(0, len(urls), _DELETED):
            _call_store(self._store.delete, urls[start : start + _DELETED])

    def rename(self, moves: Sequence[protocol.Rename]) -> None:
        """Rename objects; a source that is gone at a repetition was renamed by an earlier attempt."""
        remaining: Sequence[protocol.Rename] | None = None

        def rename() -> None:
            nonlocal remaining
            if remaining is None:
                remaining = moves
            else:
                remaining = [
                    move for move in remaining if self._is_there(move.source) or not self._is_there(move.destination)
                ]
            self._store.rename(remaining)

        _call_store(rename)

    def _is_there(self, url: str) -> bool:
        try:
            self._store.size(url)
        except FileNotFoundError:
            return False
        return True


def _call_store(function: Callable[..., Result], *arguments: Any) -> Result:
    return (protocol.call_with_timeout if protocol.has_short_timeouts() else call_with_retries)(function, *arguments)


def _resume_listing(begin: Callable[[], Iterator[protocol.FileStat]]) -> Iterator[protocol.FileStat]:
    """Yield a sorted listing; after an error, start it again and skip the items already yielded."""
    last: str | None = None
    found = begin()

    def following() -> protocol.FileStat | None:
        nonlocal found
        try:
            return next((item for item in found if last is None or item.path > last), None)
        except Exception:
            found = begin()
            raise

    while (item := _call_store(following)) is not None:
        last = item.path
        yield item


def set_retries(options: PipelineOptions) -> None:
    """Set the number of attempts for S3 clients made from now on, unless AWS's own variables set it.

    It is called before each request: a view of the options takes a tenth of a request's time.
    """
    if all(name in os.environ for name in VARIABLES):
        return
    os.environ.setdefault("AWS_RETRY_MODE", _MODE)
    os.environ.setdefault("AWS_MAX_ATTEMPTS", str(options.view_as(PatienceOptions).s3_attempts))
