"""Locks on local directories and files that end with the process that holds them, however it ends."""

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from shardmill.transforms.stores import storage


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


def hold_new(path: str, text: str) -> int | None:
    """Write a file that is not there yet, in a folder that is, and hold its lock as `hold` does, from before it is
    whole."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
    kept = False
    try:
        kept = _try(descriptor, wait=False)
        os.write(descriptor, text.encode())
    finally:
        if not kept:
            os.close(descriptor)
    return descriptor if kept else None


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


_BUSY = -1  # in place of a descriptor: another process holds the lock


def _lock(path: str, wait: bool) -> int | None:
    while True:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        kept = False
        try:
            if not _try(descriptor, wait):
                return None
            with suppress(FileNotFoundError):
                # Else deleted, and perhaps made anew, meanwhile
                kept = os.path.samestat(os.fstat(descriptor), os.stat(path))
            if kept:
                return descriptor
        except BlockingIOError:
            return _BUSY
        finally:
            if not kept:
                os.close(descriptor)


def _try(descriptor: int, wait: bool) -> bool:
    """Lock an open file; False where the file system has no locks. Raises BlockingIOError."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        raise
    except OSError as error:
        if error.errno not in (errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EBADF, errno.EINVAL):
            raise
        return False
    return True
