"""A data set on disk, opened: its manifest and its shards, and nothing that is not published."""

import os
import posixpath
from collections.abc import Iterator
from dataclasses import dataclass

import google_crc32c

from shardmill.errors import CorruptDataError, UserError
from shardmill.filesystems.local import Files, LocalFiles, read_if_there, read_whole
from shardmill.metadata import naming
from shardmill.metadata.manifest import Manifest, ShardEntry
from shardmill.metadata.seal import crc32c, seal
from shardmill.statistics.stats_file import StatsFile
from shardmill.versions.published import published_versions, unended_publications
from shardmill.versions.tags import find_latest, find_version

_SHOWN = 60  # letters of what a file should not hold


@dataclass(frozen=True, slots=True)
class Dataset:
    """A published data set: its version directory, its manifest, the files it is read through, and the checksum of the
    manifest's file as it was opened, "" where nobody asked."""

    directory: str
    manifest: Manifest
    files: Files
    manifest_crc32c: str = ""

    def path(self, shard: ShardEntry) -> str:
        """The full path of a shard."""
        return posixpath.join(self.directory, shard.file)

    def metadata(self, name: str) -> bytes:
        """The bytes of a file that describes the data set.

        Raises:
          FileNotFoundError: it is missing.
          CorruptDataError: it is not what was written.
        """
        data = read_whole(self.files, posixpath.join(self.directory, name))
        expected = self.manifest.files.get(name)
        if expected is not None and crc32c(data) != expected:
            raise CorruptDataError(
                f"{posixpath.join(self.directory, name)} is not the file that was written: its crc32c is"
                f" {crc32c(data)}, the manifest says {expected}"
            )
        return data

    def lines(self, name: str) -> Iterator[str]:
        """The lines of a file that describes the data set and may be too large for memory, without their ends.

        Raises:
          FileNotFoundError: it is missing.
          UnicodeDecodeError: it is not UTF-8.
          CorruptDataError: it is not what was written, which is known at its end.
        """
        path, checksum = posixpath.join(self.directory, name), 0
        with self.files.open(path) as file:
            for line in file:
                checksum = google_crc32c.extend(checksum, line)
                yield line.removesuffix(b"\n").decode()
        expected = self.manifest.files.get(name, f"{checksum:08x}")
        if f"{checksum:08x}" != expected:
            raise CorruptDataError(
                f"{path} is not the file that was written: its crc32c is {checksum:08x}, the manifest says {expected}"
            )

    def stats(self) -> StatsFile:
        """What stands in stats.json.

        Raises:
          FileNotFoundError: it is missing.
          CorruptDataError: it is not what was written, or no such file.
        """
        return StatsFile.from_json(self.metadata(naming.STATS), posixpath.join(self.directory, naming.STATS))

    def records(self, shard: ShardEntry) -> Iterator[bytes]:
        """The serialized examples of a shard, every checksum verified and their number too.

        Raises:
          CorruptDataError: the shard is missing or not what was written.
        """
        try:
            raw = self.files.open(self.path(shard))
        except FileNotFoundError as error:
            raise CorruptDataError(f"{shard.file} is missing") from error
        count = 0
        with raw:
            for record in self.manifest.codec.records(raw, shard.file):
                count += 1
                yield record
        if count != shard.examples:
            raise CorruptDataError(f"{shard.file} holds {count} records; the manifest says {shard.examples}")


def open_dataset(path: str | os.PathLike[str], files: Files | None = None, version: str | None = None) -> Dataset:
    """Open the data set in `path`: a version directory, or the directory above it, whose LATEST names one.

    Args:
      path: of one of the two.
      files: what it is read through; None for local files.
      version: a version of the directory above, or a tag; None for the one that LATEST names.

    Raises:
      UserError: there is no data set, or an unpublished one (no _SUCCESS); it says which versions are published there;
        there is no such version or tag.
      CorruptDataError: its manifest cannot be read, or is not what was written; LATEST or a tag names no version.
    """
    files = files or LocalFiles()
    above = os.fspath(path).rstrip("/") or "/"
    if version is not None:
        _check_above(files, above, version)
    directory, naming_file = _find(files, above, version)
    while True:
        try:
            return _open(files, directory, naming_file)
        except (UserError, CorruptDataError):
            named = _find(files, above, version)
            if named == (directory, naming_file):
                raise
            directory, naming_file = named  # it names another by now, and what it named may have been deleted


def _find(files: Files, above: str, version: str | None) -> tuple[str, str]:
    """The version directory that is meant, and the file that names it, "" where none does."""
    if version is not None:
        found, naming_file = find_version(files, above, version)
    elif named := find_latest(files, above):
        found, naming_file = named
    else:
        return above, ""
    return posixpath.join(above, found), naming_file


def _open(files: Files, directory: str, naming_file: str) -> Dataset:
    """The data set in a version directory; raises as `open_dataset`."""
    success, manifest = (posixpath.join(directory, name) for name in (naming.SUCCESS, naming.MANIFEST))
    sealed = read_if_there(files, success)
    if sealed is None:
        what = f"{naming_file} names {posixpath.basename(directory)}, but " if naming_file else ""
        raise UserError(f"{what}{_why_unpublished(files, directory)}{published_versions(files, directory)}")
    text = read_if_there(files, manifest)
    if text is None:
        raise CorruptDataError(f"{manifest} is missing")
    content = Manifest.from_json(text, manifest)
    if sealed and sealed != seal(text).encode():  # empty in data sets made before it held anything
        raise CorruptDataError(
            f"{manifest} is not the file that was written: its crc32c is {crc32c(text)}, but {naming.SUCCESS} says "
            f"{sealed[:_SHOWN].decode(errors='replace').strip()!r}; one of the two was changed"
        )
    return Dataset(directory, content, files, crc32c(text))


def _check_above(files: Files, directory: str, version: str) -> None:
    """Check that `directory` may hold versions; raises UserError."""
    if naming.is_version(posixpath.basename(directory)) and files.exists(posixpath.join(directory, naming.MANIFEST)):
        raise UserError(
            f"version={version!r}: {directory} is a version already; give the folder above it, or no version"
        )


def _why_unpublished(files: Files, directory: str) -> str:
    """What is in a `directory` that has no _SUCCESS, and what to do."""
    if files.exists(posixpath.join(directory, naming.PUBLISHING)):
        return (
            f"{directory} has no _SUCCESS: its job was interrupted while it published; run it again, or "
            f"`shardmill verify --repair {directory}`, which completes it"
        )
    if files.exists(posixpath.join(directory, naming.MANIFEST)):
        return f"{directory} has no _SUCCESS: its job did not finish, and it is not a data set; run it again"
    if unended := unended_publications(files, directory):
        return (
            f"{directory} is not a data set yet: the job of its version {unended[0]} was interrupted while it"
            f" published; run it again, or `shardmill verify --repair {directory}`, which completes it"
        )
    return f"{directory} is not a data set: there is no _SUCCESS and no manifest.json in it"
