"""Locks on local directories and files that end with the process that holds them, however it ends."""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from transforms.stores import storage


@contextmanager
def locked(directory: str, wait: bool = True) -> Iterator[bool]:
    """Hold the lock of `directory`, which exists; whether it was got, which it always is where `wait`.

    Object stores have no locks, nor have some file systems: there it is got at once.
    """
    descriptor = _lock(directory, wait) if storage.is_local(directory) else None
    try:
        yield descriptor != _BUSY
    finally:
        release(descriptor)


def hold(path: str) -> int | None:
    """Hold the lock of the file at `path` until this process ends or calls `release`; None where there are no locks."""
    descriptor = _lock(path, wait=False)
    return None if descriptor == _BUSY else descriptor


def is_held(path: str) -> bool:
    """Whether a living process holds the lock of a local file."""
    try:
        descriptor = _lock(path, wait=False)
    except FileNotFoundError:
        return False
    release(descriptor)
    return descriptor == _BUSY


def release(descriptor: int | None) -> None:
    """Give a lock back."""
    if descriptor is not None and descriptor != _BUSY:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # not by closing alone: a process forked meanwhile has it open, too
        os.close(descriptor)


_BUSY = -1


def _lock(path: str, wait: bool) -> int | None:
    while True:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        kept = False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            with suppress(FileNotFoundError):
                # Else deleted, and perhaps made anew, meanwhile
                kept = os.path.samestat(os.fstat(descriptor), os.stat(path))
            if kept:
                return descriptor
        except BlockingIOError:
            return _BUSY
        except OSError as error:
            if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EBADF, errno.EINVAL):
                raise
            return None
        finally:
            if not kept:
                os.close(descriptor)
