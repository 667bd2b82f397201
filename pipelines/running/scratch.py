"""Temporary directories of the launcher: each is locked while its process lives, and those of the dead go with the next
run."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from shardmill.transforms.stores import locks

_LOCK = "lock"


@contextmanager
def scratch_folder(kind: str) -> Iterator[str]:
    """A new directory, `shardmill-<kind>-…`, while the context lasts; clears those that dead processes left."""
    _clear_dead()
    while True:
        folder = tempfile.mkdtemp(prefix=f"shardmill-{kind}-")
        path = os.path.join(folder, _LOCK)
        with suppress(FileNotFoundError):  # another process took it for that of a dead one
            Path(path).touch()
            held = locks.hold(path)
            if os.path.exists(path):
                break
    try:
        yield folder
    finally:
        locks.release(held)
        shutil.rmtree(folder, ignore_errors=True)


def _clear_dead() -> None:
    for path in Path(tempfile.gettempdir()).glob(f"shardmill-*/{_LOCK}"):
        with suppress(OSError):  # another user's, or another run was faster
            if path.stat().st_uid == os.getuid() and not locks.is_held(str(path)):
                shutil.rmtree(path.parent, ignore_errors=True)
