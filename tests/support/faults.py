"""File operations that fail, or end the process, at the n-th: all that local, storage and locks call of `os`."""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from shardmill.transforms.stores import local, storage
from shardmill.transforms.stores import storage as locks

_CHANGES = frozenset(["open", "write", "fsync", "close", "replace", "link", "remove", "rmdir", "makedirs"])
_LOOKS = frozenset(["read", "walk", "scandir", "lstat", "stat", "fstat"])


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
        for module in (local, storage, locks):
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
