"""The temporary directory of a job, in the version directory: deleted by its launcher, or by others once it is dead.

Who has the lease of the version directory clears it of all others' folders: only a job with the lease publishes. A
folder whose publication has begun, which a journal says, stays: all of the new version is there.
"""

from collections.abc import Collection
from contextlib import suppress

from shardmill.errors import CorruptDataError
from shardmill.metadata import naming
from shardmill.metadata.manifest import Manifest
from shardmill.transforms.publishing import lease
from shardmill.transforms.publishing.journal import Journal
from shardmill.transforms.stores import storage


def give_up(directory: str, folder: str) -> bool:
    """Delete a job's folder, unless its publication has begun; whether it is gone. The job has no lease any more."""
    with suppress(CorruptDataError):
        journal = read_journal(directory)
        if journal is None or journal.temporary != folder:
            storage.delete_tree(storage.join(directory, folder))
            storage.abort_uploads(storage.join(directory, f"{folder}/"))
            return True
    return False


def clear_others(directory: str, own: str) -> None:
    """Delete the folders of all other jobs; the lease is that of the job whose folder is `own`."""
    for folder in storage.list_folders(directory):
        if folder.startswith(naming.TEMP_PREFIX) and folder != own:
            give_up(directory, folder)


def is_under_way(directory: str) -> bool:
    """Whether a job builds or publishes the version in `directory`, or did when it was interrupted, as far as anybody
    knows."""
    return storage.exists(storage.join(directory, naming.PUBLISHING)) or lease.may_live(directory)


def templates_in(directory: str, names: Collection[str]) -> set[str]:
    """By which shards in a version directory are called, or will be: what its manifest says, and its journal, if these
    are among the `names` of its files and can be read."""
    found: set[str] = set()
    with suppress(CorruptDataError, FileNotFoundError):
        if naming.PUBLISHING in names and (journal := read_journal(directory)) is not None:
            found |= set(journal.templates)
    with suppress(CorruptDataError, FileNotFoundError):
        if naming.MANIFEST in names:
            path = storage.join(directory, naming.MANIFEST)
            found.add(Manifest.from_json(storage.read_bytes(path), path).file_template)
    return found


def read_journal(directory: str) -> Journal | None:
    """The journal in a version directory, None if no publication is under way.

    Raises:
      CorruptDataError: it cannot be read.
    """
    path = storage.join(directory, naming.PUBLISHING)
    try:
        return Journal.from_json(storage.read_bytes(path), path)
    except FileNotFoundError:
        return None
