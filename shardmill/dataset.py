"""A data set on disk, opened: its manifest and its shards, and nothing that is not published."""

import gzip
import os
import posixpath
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, Protocol, cast

from shardmill import naming
from shardmill.errors import CorruptDataError, UserError
from shardmill.manifest import Manifest, ShardEntry
from shardmill.tfrecord import read_records


class Files(Protocol):
    """The two operations a reader needs of a file system; see transforms.storage for object stores."""

    def open(self, path: str) -> BinaryIO:
        """Open `path` for reading; raises FileNotFoundError."""

    def exists(self, path: str) -> bool:
        """Whether there is a file at `path`."""


class LocalFiles:
    """The local file system."""

    def open(self, path: str) -> BinaryIO:
        """Open `path` for reading."""
        return open(path, "rb")

    def exists(self, path: str) -> bool:
        """Whether there is a file at `path`."""
        return os.path.isfile(path)

    def size(self, path: str) -> int:
        """The size of a file in bytes; raises FileNotFoundError."""
        return os.stat(path).st_size


@dataclass(frozen=True, slots=True)
class Dataset:
    """A published data set: its version directory, its manifest, and the files it is read through."""

    directory: str
    manifest: Manifest
    files: Files

    def path(self, shard: ShardEntry) -> str:
        """The full path of a shard."""
        return posixpath.join(self.directory, shard.file)

    def records(self, shard: ShardEntry) -> Iterator[bytes]:
        """The serialized examples of a shard, every checksum verified and their number too.

        Raises:
          CorruptDataError: the shard is missing or not what was written.
        """
        try:
            raw = self.files.open(self.path(shard))
        except FileNotFoundError as error:
            raise CorruptDataError(f"{shard.file} is missing") from error
        with raw:
            file = cast(BinaryIO, gzip.GzipFile(fileobj=raw)) if self.manifest.compression == "gzip" else raw
            count = 0
            try:
                for record in read_records(file, shard.file):
                    count += 1
                    yield record
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise CorruptDataError(f"{shard.file}: the gzip stream is damaged after record {count}: {error}") from error
        if count != shard.examples:
            raise CorruptDataError(f"{shard.file} holds {count} records; the manifest says {shard.examples}")


def open_dataset(path: str | os.PathLike[str], files: Files | None = None) -> Dataset:
    """Open the data set in `path`: a version directory, or the directory above it, whose LATEST names one.

    Raises:
      UserError: there is no data set, or an unpublished one (no _SUCCESS).
      CorruptDataError: its manifest cannot be read.
    """
    files = files or LocalFiles()
    directory = os.fspath(path).rstrip("/") or "/"
    latest = posixpath.join(directory, naming.LATEST)
    if files.exists(latest):
        with files.open(latest) as file:
            directory = posixpath.join(directory, file.read().decode().strip())
    if not files.exists(posixpath.join(directory, naming.SUCCESS)):
        if files.exists(posixpath.join(directory, naming.MANIFEST)):
            raise UserError(f"{directory} has no _SUCCESS: its job did not finish, and it is not a data set; run it again")
        raise UserError(f"{directory} is not a data set: there is no _SUCCESS and no manifest.json in it")
    manifest = posixpath.join(directory, naming.MANIFEST)
    if not files.exists(manifest):
        raise CorruptDataError(f"{manifest} is missing")
    with files.open(manifest) as file:
        return Dataset(directory, Manifest.from_json(file.read(), manifest), files)
