"""Retry failing stores for several minutes, as --store_patience and --s3_attempts allow."""

import os
import random
import threading
import time
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.transforms.stores.beam_filesystems import process_options
from shardmill.transforms.stores.protocol import (
    ChangedError,
    FileStat,
    GivenUpError,
    ObjectStore,
    Rename,
    StoredFile,
    Upload,
    call_with_timeout,
    has_short_timeouts,
    is_transient,
    mark_store_responsive,
    masked_error,
)

_SECONDS = 600
_FIRST_SECONDS, _LONGEST_SECONDS = 0.5, 30.0  # waited before operations are repeated; half of that in the worst of luck

Result = TypeVar("Result")
_withdrawn = threading.Event()  # in this process: if set, no thread waits for a store, and waiting threads stop
_withdrawn.set()


class PatienceOptions(PipelineOptions):
    """--store_patience; workers receive it with Beam's own options."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument(
            "--store_patience",
            type=_seconds,
            default=_SECONDS,
            help="Seconds for which steps repeat requests to an object store that is overloaded or unreachable",
        )


def _seconds(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ArgumentTypeError(f"expected seconds, 0 or more, not {text!r}")
    return int(text)


def set_patience(granted: bool = True) -> None:
    """Turn patience on in this process, which runs steps of a job, or off."""
    if granted:
        _withdrawn.clear()
    else:
        _withdrawn.set()


@contextmanager
def withdraw_at_exit() -> Iterator[None]:
    """On exit, turn off the patience that was turned on within this context."""
    try:
        yield
    finally:
        set_patience(False)


def call_with_retries(function: Callable[..., Result], *arguments: Any) -> Result:
    """Call `function` until it succeeds, or fails for another reason than a transient store error. It must be safe to
    repeat.

    Raises:
        GivenUpError: if the store failed for longer than --store_patience.
        Exception: any other exception of `function`.
    """
    until: float | None = None
    wait = _FIRST_SECONDS
    while True:
        try:
            result = function(*arguments)
            mark_store_responsive()
            return result
        except Exception as error:
            if _withdrawn.is_set() or not is_transient(error):
                raise
            patience = process_options().view_as(PatienceOptions).store_patience
            until = time.monotonic() + patience if until is None else until
            if time.monotonic() + wait > until:
                if not patience:
                    raise
                raise GivenUpError(
                    f"{masked_error(error) or error}; it was tried again for {patience} seconds"
                ) from error
            if _withdrawn.wait(random.uniform(wait / 2, wait)):  # the job has ended meanwhile
                raise
        wait = min(2 * wait, _LONGEST_SECONDS)


_DELETED = 1000  # at once: as many as one request of S3 deletes

Item = TypeVar("Item")


class RetryingStore:
    """An ObjectStore that repeats failed operations; each has the same outcome as if it had run once."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def read(self, url: str) -> bytes:
        return _call_store(self._store.read, url)

    def read_range(self, url: str, offset: int, length: int) -> bytes:
        return _call_store(self._store.read_range, url, offset, length)

    def write(self, url: str, data: bytes) -> None:
        _call_store(self._store.write, url, data)

    def upload(self, url: str) -> Upload | None:
        """Start an upload, without repeating it: the bytes already written are gone, so the writer must start again."""
        return self._store.upload(url)

    def create(self, url: str, data: bytes) -> None:
        """Create an object; after a lost response, the store recognizes its own bytes."""
        _call_store(self._store.create, url, data)

    def read_with_revision(self, url: str) -> StoredFile:
        return _call_store(self._store.read_with_revision, url)

    def replace(self, url: str, data: bytes, revision: str) -> None:
        """Replace an object; after a lost response, the store recognizes its own bytes."""
        _call_store(self._store.replace, url, data, revision)

    def delete_unchanged(self, url: str, revision: str) -> None:
        """Delete an unchanged object; if it is gone at a repetition, the first attempt deleted it."""
        attempts = 0

        def delete() -> None:
            nonlocal attempts
            attempts += 1
            try:
                self._store.delete_unchanged(url, revision)
            except ChangedError:
                if attempts == 1 or self._is_there(url):
                    raise

        _call_store(delete)

    def size(self, url: str) -> int:
        return _call_store(self._store.size, url)

    def stat(self, url: str) -> FileStat:
        return _call_store(self._store.stat, url)

    def stats(self, prefix: str) -> Iterator[FileStat]:
        return _resume_listing(lambda: self._store.stats(prefix), lambda found: found.path)

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        return _resume_listing(lambda: self._store.list(prefix), lambda found: found[0])

    def folders(self, prefix: str) -> Sequence[str]:
        return _call_store(self._store.folders, prefix)

    def delete(self, urls: Sequence[str]) -> None:
        for start in range(0, len(urls), _DELETED):
            _call_store(self._store.delete, urls[start : start + _DELETED])

    def rename(self, moves: Sequence[Rename]) -> None:
        """Rename objects; a source that is gone at a repetition was renamed by an earlier attempt."""
        remaining = list(moves)

        def rename() -> None:
            nonlocal remaining
            if len(attempts) > 0:
                remaining = [
                    move for move in remaining if self._is_there(move.source) or not self._is_there(move.destination)
                ]
            attempts.append(True)
            self._store.rename(remaining)

        attempts: list[bool] = []
        _call_store(rename)

    def abort_uploads(self, prefix: str) -> None:
        _call_store(self._store.abort_uploads, prefix)

    def _is_there(self, url: str) -> bool:
        try:
            self._store.size(url)
        except FileNotFoundError:
            return False
        return True


def _call_store(function: Callable[..., Result], *arguments: Any) -> Result:
    return (call_with_timeout if has_short_timeouts() else call_with_retries)(function, *arguments)


def _resume_listing(begin: Callable[[], Iterator[Item]], name_of: Callable[[Item], str]) -> Iterator[Item]:
    """Yield a sorted listing; after an error, start it again and skip the items already yielded."""
    last: str | None = None
    found = begin()

    def following() -> Item | None:
        nonlocal found
        try:
            return next((item for item in found if last is None or name_of(item) > last), None)
        except Exception:
            found = begin()
            raise

    while (item := _call_store(following)) is not None:
        last = name_of(item)
        yield item


# In this mode botocore waits up to 0.05, 0.1, 0.2, … and at last 20 seconds before each further attempt; after SlowDown
# it starts at 1 second. The mean wait is half of that: two and a half minutes in all, and less than one minute once in
# a hundred thousand requests. Each repetition counts against the client's quota, so threads must not share a client
# (transforms/stores/s3_clients.py; Beam makes one for each file). 24 attempts use two thirds of the quota.
_ATTEMPTS = 24
_MODE = "standard"
VARIABLES = ("AWS_RETRY_MODE", "AWS_MAX_ATTEMPTS")  # what botocore reads them from


class S3RetryOptions(PipelineOptions):
    """--s3_attempts; workers receive it with Beam's own options."""

    @classmethod
    def _add_argparse_args(cls, parser: Any) -> None:
        parser.add_argument(
            "--s3_attempts",
            type=_attempts,
            default=_ATTEMPTS,
            help="Number of attempts at each request to S3; 24 take about two and a half minutes",
        )


def _attempts(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise ArgumentTypeError(f"expected a number of attempts, 1 or more, not {text!r}")
    return int(text)


def set_retries(options: PipelineOptions) -> None:
    """Set the number of attempts for S3 clients made from now on, unless AWS's own variables set it.

    It is called before each request: a view of the options takes a tenth of a request's time.
    """
    if all(name in os.environ for name in VARIABLES):
        return
    os.environ.setdefault("AWS_RETRY_MODE", _MODE)
    os.environ.setdefault("AWS_MAX_ATTEMPTS", str(options.view_as(S3RetryOptions).s3_attempts))
