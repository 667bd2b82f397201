"""Small files that several processes write: each change is made only if the file still is what the process has read.

On object stores that is a condition of the request. On a local disk whoever replaces or deletes such a file holds the
lock of the very file that is there; a new one gets its name by a link, which fails where there is one.
"""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from shardmill.metadata.naming import TEMP_SUFFIX
from shardmill.transforms.stores import locks, storage
from shardmill.transforms.stores.clients import object_store
from shardmill.transforms.stores.stored import ChangedError, Stored


def read(path: str) -> Stored | None:
    """The file at `path`, None if there is none.

    Raises:
      OSError: it cannot be read.
    """
    try:
        return _read_local(path) if storage.is_local(path) else object_store(path).look(path)
    except FileNotFoundError:
        return None


def create(path: str, text: str, temporary: str | None = None) -> None:
    """Write a file that is not there yet: of several processes, one succeeds.

    Args:
      path: of the file.
      text: its content.
      temporary: a name of this process alone, in a folder of the same disk, that a local file is written under; by
        default one is invented.

    Raises:
      FileExistsError: it is there.
    """
    temporary = temporary or _own_name(path)
    with storage.cleaning_up(partial(_forget, path, temporary)):
        storage.create_text(path, text, temporary)


def replace(path: str, text: str, found: Stored, temporary: str | None = None) -> None:
    """Write a file anew that still is as it was `found`; `temporary` as in `create`.

    Raises:
      ChangedError: it is not.
    """
    if not storage.is_local(path):
        object_store(path).replace(path, text.encode(), found.revision)
        return
    temporary = temporary or _own_name(path)
    with storage.cleaning_up(partial(_forget, path, temporary)), _unchanged(path, found):
        storage.write_text(path, text, temporary)


def delete(path: str, found: Stored) -> None:
    """Delete a file that still is as it was `found`.

    Raises:
      ChangedError: it is not, or is gone.
    """
    if not storage.is_local(path):
        object_store(path).delete_unchanged(path, found.revision)
        return
    with _unchanged(path, found):
        storage.delete([path])


@contextmanager
def _unchanged(path: str, found: Stored) -> Iterator[None]:
    try:
        with locks.locked(path):
            if _read_local(path) != found:
                raise ChangedError(f"{path} was changed by another process")
            yield
    except FileNotFoundError as error:
        if error.filename not in (None, path):
            raise
        raise ChangedError(f"{path} was deleted by another process") from None


def _read_local(path: str) -> Stored:
    with open(path, "rb") as file:
        status = os.fstat(file.fileno())
        revision = f"{status.st_dev}:{status.st_ino}:{status.st_mtime_ns}"
        return Stored(file.read(), revision, status.st_mtime)


def _own_name(path: str) -> str:
    return f"{path}.{uuid.uuid4().hex}{TEMP_SUFFIX}"


def _forget(path: str, temporary: str) -> None:
    if storage.is_local(path):
        storage.delete([temporary])
