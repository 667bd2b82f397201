"""Files in the builds folder: build records, input digests and file indexes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from posixpath import basename

from shardmill.errors import CorruptDataError
from shardmill.metadata import file_names
from shardmill.metadata.versions import BuildRecord, failed_record_path, page_path, record_path, version_numbers
from shardmill.transforms.shards.sources import FileIndex, IndexedPiece, ShardInfo, ShardPiece, index_folder, index_name
from shardmill.transforms.stores import storage
from shardmill.transforms.stores import storage as renames
from shardmill.transforms.stores.storage import run_concurrently

_STAGED_RECORD = "_RECORD"


def write_record(parent: str, record: BuildRecord) -> str:
    """Write the record of a build and return its path.

    A published version has the record of the build that published it. A build that should have replaced it, but failed,
    has its record next to that one.

    Args:
        parent: folder of all versions.
        record: of a build that published a version, or tried to.

    Raises:
        OSError: if it cannot be written.
    """
    path = record_path(parent, record.version)
    if record.status not in ("published", "outrun") and _is_published(read_record(path)):
        path = failed_record_path(parent, record.version)
    if not _is_published(record):
        storage.delete([page_path(path)])  # that of a build before, of whose checks it tells
    storage.write_text(path, record.to_json() + "\n", f"{path}.{record.started.replace(':', '')}.tmp")
    return path


def read_record(path: str) -> BuildRecord | None:
    """Return the record at `path`, or None if it is missing or damaged.

    Raises:
        OSError: if the store fails.
    """
    try:
        return BuildRecord.from_json(storage.read_bytes(path), path)
    except (FileNotFoundError, CorruptDataError):
        return None


def _is_published(record: BuildRecord | None) -> bool:
    return record is not None and record.status in ("published", "outrun")


def find_newest_built(parent: str) -> str:
    """Return the newest version that was ever published according to the records, or "". It may have been deleted
    since.

    Raises:
        OSError: if the records cannot be listed.
    """
    folder = storage.join(parent, file_names.BUILDS)
    names = [name.removesuffix(".json") for name, _ in storage.list_files(folder) if name.endswith(".json")]
    versions = sorted(filter(file_names.is_version, names), key=version_numbers, reverse=True)
    return next((version for version in versions if _is_published(read_record(record_path(parent, version)))), "")


def stage_record(directory: str, temporary: str, record: BuildRecord) -> None:
    """Write the record of a version to its job's `temporary` folder before it is published; raise OSError if that
    fails.
    """
    storage.write_parts(_staged_record_path(directory, temporary), [f"{record.to_json()}\n".encode()])


def place_record(directory: str, temporary: str) -> None:
    """Move the job's staged record to the published version in `directory`. Does nothing if it is already done or
    no record was staged.

    The record and page of a failed build that should have replaced the previous version are deleted, because the
    published version is newer.
    """
    parent, _, version = directory.rpartition("/")
    parent = parent or ("/" if directory.startswith("/") else ".")
    staged, failed = _staged_record_path(directory, temporary), failed_record_path(parent, version)
    if storage.exists(staged):
        run_concurrently(
            directory,
            partial(storage.delete, [failed, page_path(failed)]),
            partial(renames.put_in_place, staged, record_path(parent, version)),
        )


def _staged_record_path(directory: str, temporary: str) -> str:
    return storage.join(storage.join(directory, temporary), _STAGED_RECORD)


_STAGED_INPUTS = "_INPUTS"


def inputs_path(parent: str, version: str) -> str:
    """Return the path of a version's inputs file; `parent` is the folder of all versions."""
    return storage.join(storage.join(parent, file_names.BUILDS), f"{version}.inputs")


def stage_inputs(folder: str, content: bytes) -> None:
    """Write the inputs file to a job's temporary directory; raise OSError if that fails."""
    storage.write_parts(_staged_inputs_path(folder), [content])


def delete_inputs(directory: str) -> None:
    """Delete the inputs file of the version in `directory`, which is about to be replaced or deleted."""
    storage.delete([_inputs_path_of(directory)])


def place_inputs(directory: str, temporary: str) -> None:
    """Move the file staged in the job's `temporary` directory to the published version in `directory`. Does
    nothing if it is already done or no file was staged.
    """
    renames.put_in_place(_staged_inputs_path(storage.join(directory, temporary)), _inputs_path_of(directory))


def _staged_inputs_path(folder: str) -> str:
    return storage.join(folder, _STAGED_INPUTS)


def _inputs_path_of(directory: str) -> str:
    parent, _, version = directory.rpartition("/")
    return inputs_path(parent or ("/" if directory.startswith("/") else "."), version)


@dataclass(frozen=True, slots=True)
class IndexOptions:
    """The part of a FileIndex that the launcher knows; attributes as there."""

    root: str
    seed: int
    encoding: Mapping[str, str]
    codec: str
    former: str = ""
    why: str = ""


def store_index(
    parent: str, version: str, manifest: bytes, shards: Sequence[ShardInfo], options: IndexOptions | None
) -> FileIndex | None:
    """Store the pieces of `shards` and their index next to the version that `manifest` describes; return the index.

    This can be done before that version is published, and repeated: files of an older version's index are not touched.
    """
    if options is None:
        return None
    folder = index_folder(parent, version)
    pieces = [(str(shard.name), shard.piece) for shard in shards if shard.piece is not None and shard.piece.path]
    storage.make_directory(folder)
    index = FileIndex(
        root=options.root,
        seed=options.seed,
        encoding=options.encoding,
        codec=options.codec,
        former=options.former,
        why=options.why,
        files=sum(shard.planned for shard in shards),
        reused=sum(shard.piece.reused for shard in shards if shard.piece is not None),
        damaged=sum(shard.piece.damaged for shard in shards if shard.piece is not None),
        pieces=tuple(_indexed_piece(shard, piece) for shard, piece in pieces),
    )
    paths = [piece.path for _, piece in pieces]
    run_concurrently(
        folder,
        partial(renames.rename, paths, [storage.join(folder, basename(path)) for path in paths]),
        partial(storage.write_text, storage.join(folder, index_name(manifest)), index.to_json(), sync=False),
    )
    return index


def delete_unindexed(parent: str, version: str, manifest: bytes) -> None:
    """Delete all files in a published version's index folder that the index for `manifest` does not name. Replaced
    versions and dead jobs leave such files.
    """
    folder = index_folder(parent, version)
    found = {name for name, _ in storage.list_files(folder)}
    if not found:
        return
    kept = {index_name(manifest)}
    if kept <= found:
        path = storage.join(folder, index_name(manifest))
        kept |= {piece.file for piece in FileIndex.from_json(storage.read_bytes(path), path).pieces}
    storage.delete(storage.join(folder, name) for name in sorted(found - kept))


def _indexed_piece(shard: str, piece: ShardPiece) -> IndexedPiece:
    return IndexedPiece(basename(piece.path), piece.crc32c, shard, piece.low, piece.high)
