"""Files in the builds folder: build records, input digests and file indexes."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from posixpath import basename

from shardmill.errors import CorruptDataError
from shardmill.metadata import file_names
from shardmill.metadata.versions import BuildRecord, failed_record_path, page_path, record_path, version_numbers
from shardmill.transforms.publishing.catalog import parent_folder
from shardmill.transforms.shards.sources import FileIndex, IndexedPiece, ShardInfo, index_folder, index_name
from shardmill.transforms.stores import storage

STAGED_RECORD = "_RECORD"


def write_record(parent: str, record: BuildRecord) -> str:
    """Write the record of a build, in the folder `parent` of all versions, and return its path.

    A published version has the record of the build that published it. A build that should have replaced it, but failed,
    has its record next to that one.
    """
    path = record_path(parent, record.version)
    if record.status not in ("published", "outrun") and _is_published(read_record(path)):
        path = failed_record_path(parent, record.version)
    if not _is_published(record):
        storage.delete([page_path(path)])  # that of a build before, of whose checks it tells
    storage.write_text(path, record.to_json() + "\n", f"{path}.{record.started.replace(':', '')}.tmp")
    return path


def read_record(path: str) -> BuildRecord | None:
    """Return the record at `path`, or None if it is missing or damaged."""
    try:
        return BuildRecord.from_json(storage.read_bytes(path), path)
    except (FileNotFoundError, NotADirectoryError, CorruptDataError):
        return None


def _is_published(record: BuildRecord | None) -> bool:
    return record is not None and record.status in ("published", "outrun")


def find_newest_built(parent: str, prefix: str = "") -> str:
    """Return the newest version that was ever published according to the records, or ""; it may have been deleted.

    Only versions that begin with `prefix` count.
    """
    folder = storage.join(parent, file_names.BUILDS)
    names = [name.removesuffix(".json") for name, _ in storage.list_files(folder) if name.endswith(".json")]
    versions = sorted(filter(file_names.is_version, names), key=version_numbers, reverse=True)
    versions = [version for version in versions if version.startswith(prefix)]
    return next((version for version in versions if _is_published(read_record(record_path(parent, version)))), "")


def stage_record(directory: str, temporary: str, record: BuildRecord) -> None:
    """Write the record of a version to its job's `temporary` folder before it is published."""
    storage.write_parts(storage.join(directory, temporary, STAGED_RECORD), [f"{record.to_json()}\n".encode()])


def place_record(directory: str, temporary: str) -> None:
    """Move the job's staged record to the published version in `directory`, unless this is done or none was staged.

    The record and page of a failed build that should have replaced the previous version are deleted, because the
    published version is newer.
    """
    parent, version = parent_folder(directory), directory.rpartition("/")[2]
    staged, failed = storage.join(directory, temporary, STAGED_RECORD), failed_record_path(parent, version)
    if storage.exists(staged):
        storage.run_concurrently(
            directory,
            partial(storage.delete, [failed, page_path(failed)]),
            partial(storage.put_in_place, staged, record_path(parent, version)),
        )


STAGED_INPUTS = "_INPUTS"


def inputs_path(parent: str, version: str) -> str:
    """Return the path of a version's inputs file; `parent` is the folder of all versions."""
    return storage.join(parent, file_names.BUILDS, f"{version}.inputs")


def stage_inputs(folder: str, content: bytes) -> None:
    """Write the inputs file to a job's temporary directory."""
    storage.write_parts(storage.join(folder, STAGED_INPUTS), [content])


def inputs_path_of(directory: str) -> str:
    """Return the path of the inputs file of the version in `directory`."""
    return inputs_path(parent_folder(directory), directory.rpartition("/")[2])


def store_index(
    parent: str, version: str, manifest: bytes, shards: Sequence[ShardInfo], options: FileIndex | None
) -> FileIndex | None:
    """Store the pieces of `shards` and their index next to the version that `manifest` describes; return the index.

    This can be done before that version is published, and repeated: files of an older version's index are not touched.
    The launcher knows the part of the index in `options`, None for no index.
    """
    if options is None:
        return None
    folder = index_folder(parent, version)
    pieces = [(str(shard.name), shard.piece) for shard in shards if shard.piece is not None]
    stored = [(shard, piece) for shard, piece in pieces if piece.path]
    storage.make_directory(folder)
    index = replace(
        options,
        files=sum(shard.planned for shard in shards),
        reused=sum(piece.reused for _, piece in pieces),
        damaged=sum(piece.damaged for _, piece in pieces),
        pieces=tuple(
            IndexedPiece(basename(piece.path), piece.crc32c, shard, piece.low, piece.high) for shard, piece in stored
        ),
    )
    paths = [piece.path for _, piece in stored]
    storage.run_concurrently(
        folder,
        partial(storage.rename, paths, [storage.join(folder, basename(path)) for path in paths]),
        partial(storage.write_text, storage.join(folder, index_name(manifest)), index.to_json(), sync=False),
    )
    return index


def delete_unindexed(parent: str, version: str, manifest: bytes) -> None:
    """Delete what replaced versions and dead jobs left in an index folder: what `manifest`'s index does not name."""
    folder = index_folder(parent, version)
    found = {name for name, _ in storage.list_files(folder)}
    if not found:
        return
    kept = {index_name(manifest)}
    if kept <= found:
        path = storage.join(folder, index_name(manifest))
        kept |= {piece.file for piece in FileIndex.from_json(storage.read_bytes(path), path).pieces}
    storage.delete(storage.join(folder, name) for name in sorted(found - kept))
