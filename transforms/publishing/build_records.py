"""Where the records of builds lie, beside the versions: `<name>/builds/<version>.json`.

The record of a version that is published is staged in the temporary directory of its job, and whoever completes the
publication puts it in its place; the launcher, if it still lives, writes it again with the time that all took.
"""

from functools import partial

from shardmill.errors import CorruptDataError
from shardmill.metadata import naming
from shardmill.transforms.stores import renames, storage
from shardmill.transforms.stores.together import together
from shardmill.versions.build_record import BuildRecord, failed_record_path, page_path, record_path
from shardmill.versions.published import numbers

_STAGED = "_RECORD"


def write_record(parent: str, record: BuildRecord) -> str:
    """Write what became of a build; returns where.

    The record of a version that stands is that of the build which published it: one that should have replaced it, and
    did not, has its record beside that.

    Args:
      parent: the folder of all versions.
      record: of one that published a version, or tried to.

    Raises:
      OSError: it cannot be written.
    """
    path = record_path(parent, record.version)
    if record.status not in ("published", "outrun") and _is_published(read_record(path)):
        path = failed_record_path(parent, record.version)
    if not _is_published(record):
        storage.delete([page_path(path)])  # that of a build before, of whose checks it tells
    storage.write_text(path, record.to_json() + "\n", f"{path}.{record.started.replace(':', '')}.tmp")
    return path


def read_record(path: str) -> BuildRecord | None:
    """The record at `path`; None if there is none, or none that can be read.

    Raises:
      OSError: the store fails.
    """
    try:
        return BuildRecord.from_json(storage.read_bytes(path), path)
    except (FileNotFoundError, CorruptDataError):
        return None


def _is_published(record: BuildRecord | None) -> bool:
    return record is not None and record.status in ("published", "outrun")


def newest_built(parent: str) -> str:
    """The newest version that was published once, by the records, "" if there is none; it may be deleted by now.

    Raises:
      OSError: they cannot be listed.
    """
    folder = storage.join(parent, naming.BUILDS)
    names = [name.removesuffix(".json") for name, _ in storage.list_files(folder) if name.endswith(".json")]
    versions = sorted(filter(naming.is_version, names), key=numbers, reverse=True)
    return next((version for version in versions if _is_published(read_record(record_path(parent, version)))), "")


def stage(directory: str, temporary: str, record: BuildRecord) -> None:
    """Write the record of a version that is about to be published to its job's `temporary` folder; raises OSError."""
    storage.write_parts(_staged(directory, temporary), [f"{record.to_json()}\n".encode()])


def put_in_place(directory: str, temporary: str) -> None:
    """Let the record that the job staged be that of the version in `directory`, which is published; done once already,
    or of a job that staged none, this does nothing.

    The record of one that should have replaced the version before, and did not, goes with its page: what stands is
    newer."""
    parent, _, version = directory.rpartition("/")
    parent = parent or ("/" if directory.startswith("/") else ".")
    staged, failed = _staged(directory, temporary), failed_record_path(parent, version)
    if storage.exists(staged):
        together(
            directory,
            partial(storage.delete, [failed, page_path(failed)]),
            partial(renames.put_in_place, staged, record_path(parent, version)),
        )


def _staged(directory: str, temporary: str) -> str:
    return storage.join(storage.join(directory, temporary), _STAGED)
