"""What storage needs of an object store: operations on objects by their exact names, many at once where one request
can."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from shardmill.errors import UserError
from shardmill.transforms.stores.stored import Stored

CHECKSUM_STAMP = "crc32c:"  # what a stamp begins with that is a checksum of the content
TIME_STAMP = "time:"  # and one that is the time when the file was written


@dataclass(frozen=True, slots=True)
class FileStat:
    """A file as its store describes it without reading it.

    Attributes:
      path: its path or URL.
      size_bytes: of it.
      stamp: another one wherever the content is another: the crc32c of it, its ETag, or the time in ns when it was
        written.
      modified: when it was written, by the clock of its store, in seconds since 1970.
    """

    path: str
    size_bytes: int
    stamp: str
    modified: float


class Rename(NamedTuple):
    """An object that is to have another URL, and how large it is."""

    source: str
    destination: str
    size_bytes: int


class Upload(Protocol):
    """A new object that is written as its bytes come."""

    def write(self, data: bytes) -> object:
        """Take more bytes; raises OSError."""

    def close(self) -> None:
        """Wait until the object is there, whole; raises OSError."""

    def abandon(self) -> None:
        """Let there be none: no more bytes come."""


class ObjectStore(Protocol):
    """Objects by URL. All raise FileNotFoundError for what is missing, a bucket too, PermissionError for an object that
    may not be read or written, and OSError for other failures."""

    def read(self, url: str) -> bytes:
        """The bytes of an object, in one request."""

    def read_range(self, url: str, offset: int, length: int) -> bytes:
        """At least one byte of an object, in one request: `length` bytes from `offset`, fewer at its end.

        Raises:
          EOFError: it ends before.
        """

    def write(self, url: str, data: bytes) -> None:
        """Write an object, in one request: it is there whole or not at all."""

    def upload(self, url: str) -> Upload | None:
        """A new object; None where Beam's file system writes what is too large for one request."""

    def create(self, url: str, data: bytes) -> None:
        """As `write`, but raises FileExistsError if there is one already, wherever the store can tell."""

    def look(self, url: str) -> Stored:
        """A small object, with what tells it from what is written there later."""

    def replace(self, url: str, data: bytes, revision: str) -> None:
        """As `write`, but raises ChangedError unless the object there is of that revision."""

    def delete_unchanged(self, url: str, revision: str) -> None:
        """Delete an object; raises ChangedError unless it is of that revision."""

    def size(self, url: str) -> int:
        """The size of an object in bytes."""

    def stat(self, url: str) -> FileStat:
        """An object as the store describes it, in one request."""

    def stats(self, prefix: str) -> Iterator[FileStat]:
        """Each object whose URL starts with `prefix`, sorted."""

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        """(URL, bytes) of each object whose URL starts with `prefix`, sorted."""

    def folders(self, prefix: str) -> Sequence[str]:
        """What stands, in URLs of objects that start with `prefix`, between it and a further slash; sorted, each
        once."""

    def delete(self, urls: Sequence[str]) -> None:
        """Delete objects; one that is gone already is no error."""

    def rename(self, moves: Sequence[Rename]) -> None:
        """Copy each source to its destination, then delete the sources."""

    def abort_uploads(self, prefix: str) -> None:
        """Forget uploads under `prefix` that were never completed, where the store keeps, and charges for, their
        parts."""


def split_url(url: str) -> tuple[str, str]:
    """(bucket, name of the object) of `url`; the name is empty for a bucket.

    Raises:
      UserError: there is no bucket in it.
    """
    bucket, _, name = url.partition("://")[2].partition("/")
    if not bucket:
        raise UserError(f"{url}: there is no bucket in it; expected {url.partition('://')[0]}://bucket/path")
    return bucket, name
