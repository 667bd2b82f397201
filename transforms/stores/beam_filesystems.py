"""Any other scheme that Beam's FileSystems knows (hdfs://, az://, …), by the same exact names.

FileSystems takes names for globs, so what a listing gives is compared with the name that was asked for.
"""

import hashlib
from collections.abc import Iterator, Sequence

from apache_beam.io.filesystem import BeamIOError, CompressionTypes
from apache_beam.io.filesystems import FileSystems

from shardmill.transforms.stores.protocol import TIME_STAMP, FileStat, Rename
from shardmill.transforms.stores.stored import ChangedError, Stored


class BeamStore:
    """shardmill.transforms.stores.protocol.ObjectStore through FileSystems alone."""

    def read(self, url: str) -> bytes:
        """The bytes of a file as they are stored."""
        try:
            with FileSystems.open(url, compression_type=CompressionTypes.UNCOMPRESSED) as file:
                return bytes(file.read())
        except (OSError, BeamIOError) as error:
            raise self._error(url, error) from error

    def read_range(self, url: str, offset: int, length: int) -> bytes:
        """Some of a file's bytes."""
        try:
            with FileSystems.open(url, compression_type=CompressionTypes.UNCOMPRESSED) as file:
                file.seek(offset)
                return bytes(file.read(length))
        except (OSError, BeamIOError) as error:
            raise self._error(url, error) from error

    def write(self, url: str, data: bytes) -> None:
        """Write a file; one that is there is replaced."""
        with FileSystems.create(url, compression_type=CompressionTypes.UNCOMPRESSED) as file:
            file.write(data)

    def upload(self, url: str) -> None:
        """None: Beam's file system writes it."""

    def create(self, url: str, data: bytes) -> None:
        """Write a file that is not there yet; what FileSystems can do tells no better which of two came first."""
        if FileSystems.exists(url):
            raise FileExistsError(f"{url} is there already")
        self.write(url, data)

    def look(self, url: str) -> Stored:
        """A small file; what FileSystems can do knows no revision of it but its bytes."""
        data = self.read(url)
        return Stored(data, hashlib.sha256(data).hexdigest(), self.stat(url).modified)

    def replace(self, url: str, data: bytes, revision: str) -> None:
        """Write a file if its bytes are the same; between the two another process may come."""
        self._check_unchanged(url, revision)
        self.write(url, data)

    def delete_unchanged(self, url: str, revision: str) -> None:
        """Delete a file if its bytes are the same; between the two another process may come."""
        self._check_unchanged(url, revision)
        self.delete([url])

    def _check_unchanged(self, url: str, revision: str) -> None:
        try:
            unchanged = self.look(url).revision == revision
        except FileNotFoundError:
            unchanged = False
        if not unchanged:
            raise ChangedError(f"{url} was changed by another process")

    def size(self, url: str) -> int:
        """The size of a file in bytes."""
        return self.stat(url).size_bytes

    def stat(self, url: str) -> FileStat:
        """A file as FileSystems describes it."""
        for found in self._match(url):
            if found.path == url:
                return found
        raise FileNotFoundError(f"{url}: not found")

    def stats(self, prefix: str) -> Iterator[FileStat]:
        """Files whose URL starts with `prefix`."""
        found = (stat for stat in self._match(f"{prefix}**") if stat.path.startswith(prefix))
        yield from sorted(found, key=lambda stat: stat.path)

    def list(self, prefix: str) -> Iterator[tuple[str, int]]:
        """Files whose URL starts with `prefix`."""
        for stat in self.stats(prefix):
            yield stat.path, stat.size_bytes

    def folders(self, prefix: str) -> Sequence[str]:
        """Names of folders below `prefix`, from all the files below them: what FileSystems can do lists no folders."""
        names = (url[len(prefix) :].split("/") for url, _ in self.list(prefix))
        return sorted({parts[0] for parts in names if len(parts) > 1 and parts[0]})

    def delete(self, urls: Sequence[str]) -> None:
        """Delete files; one that is gone already is no error."""
        there = [url for url in urls if FileSystems.exists(url)]
        if there:
            FileSystems.delete(there)

    def rename(self, moves: Sequence[Rename]) -> None:
        """Rename each source to its destination, which need not be free."""
        self.delete([move.destination for move in moves])
        for folder in sorted({move.destination.rpartition("/")[0] for move in moves}):
            if not FileSystems.exists(folder):  # a store of folders, such as HDFS, makes none by itself
                FileSystems.mkdirs(folder)
        FileSystems.rename([move.source for move in moves], [move.destination for move in moves])

    def abort_uploads(self, prefix: str) -> None:
        """Nothing to do: what FileSystems can do knows of no uploads."""

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

    def _error(self, url: str, error: Exception) -> OSError:
        if isinstance(error, PermissionError):
            return PermissionError(f"{url}: {error}")
        missing = isinstance(error, FileNotFoundError) or not FileSystems.exists(url)
        return FileNotFoundError(f"{url}: not found") if missing else OSError(f"{url}: {error}")
