"""File operations and requests to stores that fail, or end the process, at the n-th; and a record of file operations.

The operations are all that local and storage call of `os`, and all that boto3's, Google's and Azure's clients ask for
by urllib3.
"""

import errno
import os
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from urllib3.connection import HTTPConnection

from shardmill.transforms.stores import local, storage

_CHANGES = frozenset(["open", "write", "fsync", "close", "replace", "link", "remove", "rmdir", "makedirs"])
_LOOKS = frozenset(["read", "walk", "scandir", "lstat", "stat", "fstat"])


def rename_nine(sources: list[str], destinations: list[str], **_: object) -> None:
    """Rename the first nine files, and fail."""
    for source, destination in zip(sources[:9], destinations, strict=False):
        os.makedirs(os.path.dirname(destination), exist_ok=True)
        os.replace(source, destination)
    raise OSError("stopped")


class Faults:
    """Counts operations; at number `at`, from 0, `strike` is called in its place."""

    def __init__(self, at: int | None, strike: Callable[[], None]) -> None:
        self.count = 0
        self._at, self._strike = at, strike

    def wrap(self, operation: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            self.count += 1
            if self.count - 1 == self._at:
                self._strike()
            return operation(*arguments, **more)

        return call


class FaultyOs:
    """The module `os` with operations that may fail; `close` closes even so, as it does."""

    def __init__(self, faults: Faults, changes_only: bool) -> None:
        self._wrapped = {
            name: faults.wrap(getattr(os, name)) for name in (_CHANGES if changes_only else _CHANGES | _LOOKS)
        }

        def close(descriptor: int) -> None:
            os.close(descriptor)
            faults.wrap(lambda: None)()

        self._wrapped["close"] = close
        self._wrapped["fsync"] = faults.wrap(lambda descriptor: None)  # the kernel lives on, so what is written is

    def __getattr__(self, name: str) -> Any:
        return self._wrapped.get(name) or getattr(os, name)


@contextmanager
def faulty(at: int | None, strike: Callable[[], None]) -> Iterator[Faults]:
    """Let file operation number `at` strike; of those that change something alone, where it kills."""
    faults = Faults(at, strike)
    with pytest.MonkeyPatch.context() as patch:
        for module in (local, storage):
            patch.setattr(module, "os", FaultyOs(faults, strike is kill))
        for module in (local, storage):
            patch.setattr(module, "open", faults.wrap(open), raising=False)
        yield faults


def fail() -> None:
    """As a broken disk does."""
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def kill() -> None:
    """End this process as SIGKILL does: nothing is cleaned up, nothing is flushed."""
    os._exit(9)


def in_child(function: Callable[[], None]) -> int:
    """Call `function` in a forked process; its exit status, 0 where it returned, 2 at a failed assertion, 1 at another
    error."""
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            function()
            status = 0
        except AssertionError:
            status = 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


class RecordingOs:
    """The module `os`, which notes in `done` what was synced, renamed, linked and removed, and in what order."""

    def __init__(self, root: Path) -> None:
        self.done: list[tuple[str, str]] = []
        self._root = root

    def fsync(self, descriptor: int) -> None:
        self._note("sync", os.readlink(f"/proc/self/fd/{descriptor}"))
        os.fsync(descriptor)

    def replace(self, source: str, destination: str) -> None:
        self._note("rename from", source)
        self._note("rename to", destination)
        os.replace(source, destination)

    def link(self, source: str, destination: str) -> None:
        self._note("link", destination)
        os.link(source, destination)

    def remove(self, path: str) -> None:
        self._note("remove", path)
        os.remove(path)

    def _note(self, what: str, path: str) -> None:
        self.done.append((what, os.path.relpath(path, self._root)))

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def last(self, *wanted: tuple[str, str]) -> int:
        """When the last of these was done."""
        return max(self.done.index(step) for step in wanted)


# A request is refused before it is sent; it is done, but its answer is lost; or this process asks for nothing any more
STRIKES = ("refused", "answer lost", "killed")
# Of who asks, and of buckets, which Google's client asks in a thread of its own
_NOT_COUNTED = re.compile(r"/token|/storage/v1/b/[^/?]+([?]|$)")


class Killed(BaseException):
    """This process has ended, as far as a store can tell."""


class Requests:
    """Counts them; number `at`, from 0, is struck."""

    def __init__(self, at: int, strike: str) -> None:
        self.count = 0
        self._at, self._strike = at, strike
        self._lock = threading.Lock()
        self._lost = threading.local()

    def begin(self, path: str) -> None:
        """A request is about to be sent."""
        self._lost.now = False
        if _NOT_COUNTED.match(path):
            return
        with self._lock:
            number, self.count = self.count, self.count + 1
        if number == self._at and self._strike == "refused":
            raise ConnectionRefusedError(f"request {number}")
        self._lost.now = number == self._at and self._strike == "answer lost"
        if number >= self._at and self._strike == "killed":
            raise Killed

    def answered(self) -> None:
        """The answer to the request that this thread sent last has come."""
        if getattr(self._lost, "now", False):
            raise ConnectionResetError("the answer is lost")


@contextmanager
def struck(at: int, strike: str) -> Iterator[Requests]:
    """Let request number `at` of this process be struck."""
    requests = Requests(at, strike)
    send, answer = HTTPConnection.putrequest, HTTPConnection.getresponse

    def putrequest(self: Any, method: str, url: str, *arguments: Any, **more: Any) -> None:
        requests.begin(url)
        send(self, method, url, *arguments, **more)

    def getresponse(self: Any) -> Any:
        found = answer(self)
        requests.answered()
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(HTTPConnection, "putrequest", putrequest)
        patch.setattr(HTTPConnection, "getresponse", getresponse)
        yield requests
