"""A small file as it was read, by which to tell later whether it still is the same."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stored:
    """A small file, read whole.

    Attributes:
      data: its bytes.
      revision: another one after each write: the generation on Google's store, the ETag on S3, which is of the content
        alone, and on disks what the file system knows of the file.
      modified: when it was written, in seconds since 1970, by the clock of its store; 0 where that keeps no time.
    """

    data: bytes
    revision: str
    modified: float


class ChangedError(OSError):
    """A file is not what it was when it was read: another process wrote or deleted it meanwhile."""


def check_created(url: str, data: bytes, read: Callable[[str], bytes]) -> None:
    """After a store refused to create an object: it did, if the object has those bytes, and its answer was lost and the
    request repeated. `read` gives an object's bytes, or raises FileNotFoundError.

    Raises:
      FileExistsError: it is another's.
    """
    if not _has(url, data, read):
        raise FileExistsError(f"{url} is there already") from None


def check_replaced(url: str, data: bytes, read: Callable[[str], bytes]) -> None:
    """As `check_created`, after a store refused to write an object in the place of one revision.

    Raises:
      ChangedError: it is another's, or gone.
    """
    if not _has(url, data, read):
        raise ChangedError(f"{url} was changed by another process") from None


def _has(url: str, data: bytes, read: Callable[[str], bytes]) -> bool:
    with suppress(FileNotFoundError):
        return read(url) == data
    return False
