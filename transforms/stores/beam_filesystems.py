"""Beam file systems: the holder of pipeline options, and any Beam file system as an object store."""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, NoReturn

from apache_beam.io.filesystem import BeamIOError, CompressionTypes, FileSystem
from apache_beam.io.filesystems import FileSystems
from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.transforms.stores.protocol import TIME_STAMP, ChangedError, FileStat, ObjectStore, Rename, StoredFile


class BeamStore(ObjectStore):
    """An ObjectStore that uses Beam's FileSystems."""

    def read(self, url: str) -> bytes:
        with self._open(url) as file:
            return bytes(file.read())

    def read_with_stamp(self, url: str) -> tuple[bytes, str]:
        """Read a file; its stamp would be another request."""
        return self.read(url), ""

    def read_range(self, url: str, offset: int, length: int) -> bytes:
        with self._open(url) as file:
            file.seek(offset)
            return bytes(file.read(length))

    @contextmanager
    def _open(self, url: str) -> Iterator[Any]:
        try:
            with FileSystems.open(url, compression_type=CompressionTypes.UNCOMPRESSED) as file:
                yield file
        except PermissionError as error:
            raise PermissionError(f"{url}: {error}") from error
        except (OSError, BeamIOError) as error:
            missing = isinstance(error, FileNotFoundError) or not FileSystems.exists(url)
            raise (FileNotFoundError(f"{url}: not found") if missing else OSError(f"{url}: {error}")) from error

    def write(self, url: str, data: bytes) -> None:
        with FileSystems.create(url, compression_type=CompressionTypes.UNCOMPRESSED) as file:
            file.write(data)

    def create(self, url: str, data: bytes) -> None:
        """Write a file if `url` does not exist. FileSystems cannot detect that another process creates it meanwhile."""
        if FileSystems.exists(url):
            raise FileExistsError(f"{url} is there already")
        self.write(url, data)

    def read_with_revision(self, url: str) -> StoredFile:
        """Read a small file; its revision is a hash of its content, since FileSystems has no other."""
        data = self.read(url)
        return StoredFile(data, hashlib.sha256(data).hexdigest(), self.stat(url).modified)

    def replace(self, url: str, data: bytes, revision: str) -> None:
        """Write a file if its content is unchanged; another process may write between the check and the write."""
        self._check_unchanged(url, revision)
        self.write(url, data)

    def delete_unchanged(self, url: str, revision: str) -> None:
        """Delete a file if its content is unchanged; another process may write between the check and the deletion."""
        self._check_unchanged(url, revision)
        self.delete([url])

    def _check_unchanged(self, url: str, revision: str) -> None:
        try:
            unchanged = self.read_with_revision(url).revision == revision
        except FileNotFoundError:
            unchanged = False
        if not unchanged:
            raise ChangedError(f"{url} was changed by another process")

    def stat(self, url: str) -> FileStat:
        for found in self._match(url):
            if found.path == url:
                return found
        raise FileNotFoundError(f"{url}: not found")

    def stats(self, prefix: str) -> Iterator[FileStat]:
        found = (stat for stat in self._match(f"{prefix}**") if stat.path.startswith(prefix))
        yield from sorted(found, key=lambda stat: stat.path)

    def folders(self, prefix: str) -> Sequence[str]:
        """List the folders below `prefix`, found by listing all files below it: FileSystems cannot list folders."""
        names = (found.path[len(prefix) :].split("/") for found in self.stats(prefix))
        return sorted({parts[0] for parts in names if len(parts) > 1 and parts[0]})

    def delete(self, urls: Sequence[str]) -> None:
        there = [url for url in urls if FileSystems.exists(url)]
        if there:
            FileSystems.delete(there)

    def rename(self, moves: Sequence[Rename]) -> None:
        self.delete([move.destination for move in moves])
        for folder in sorted({move.destination.rpartition("/")[0] for move in moves}):
            if not FileSystems.exists(folder):  # a store of folders, such as HDFS, makes none by itself
                FileSystems.mkdirs(folder)
        FileSystems.rename([move.source for move in moves], [move.destination for move in moves])

    def _match(self, pattern: str) -> Iterator[FileStat]:
        try:
            results = FileSystems.match([pattern])
        except BeamIOError as error:
            if all(
                isinstance(cause, FileNotFoundError) for cause in (error.exception_details or {None: error}).values()
            ):
                return
            raise OSError(f"{pattern}: {error}") from error
        for result in results:
            for metadata in result.metadata_list:
                modified = float(metadata.last_updated_in_seconds or 0)
                yield FileStat(metadata.path, metadata.size_in_bytes, f"{TIME_STAMP}{modified}", modified)


_SCHEME = "shardmill-options"


def process_options() -> PipelineOptions:
    """Return the pipeline options that Beam's FileSystems has in this process; defaults before a pipeline exists."""
    return FileSystems.get_filesystem(f"{_SCHEME}://").options or _no_options()


@cache
def _no_options() -> PipelineOptions:
    return PipelineOptions([])


class OptionsFileSystem(FileSystem):
    """A file system without files that holds the pipeline options; Beam imports it in workers by this name."""

    def __init__(self, pipeline_options: Any) -> None:
        super().__init__(pipeline_options)
        self.options = pipeline_options

    @classmethod
    def scheme(cls) -> str:
        return _SCHEME

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise OSError(f"{_SCHEME}:// holds no files")

    join = split = mkdirs = has_dirs = _list = create = open = _refuse
    copy = rename = exists = size = last_updated = metadata = checksum = delete = _refuse
