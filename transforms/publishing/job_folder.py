"""The temporary directory of a job: claimed by its launcher, given up by it, or by others once it is dead.

It holds a file, `_JOB`, that says that the job may still publish. Whoever gives the directory up deletes that file
first and then looks for a journal; a publication writes its journal first and then looks for that file: whichever comes
second sees the other, on object stores too, so no file of a publication that began is ever deleted as a dead job's. On
local disks the launcher also holds the file's lock, which tells living jobs from dead ones.
"""

from contextlib import suppress

from shardmill import naming
from shardmill.errors import CorruptDataError
from transforms.publishing.journal import Journal
from transforms.stores import locks, storage


def claim(directory: str, folder: str) -> int | None:
    """Make a job's folder in a version directory; returns what `locks.release` takes when the job has ended.

    Raises:
      OSError: it cannot be written.
    """
    path = _job_file(directory, folder)
    storage.write_text(path, f"{folder}\n", sync=False)
    return locks.hold(path) if storage.is_local(path) else None


def is_claimed(directory: str, folder: str) -> bool:
    """Whether a job's folder is still its own."""
    return storage.exists(_job_file(directory, folder))


def give_up(directory: str, folder: str) -> bool:
    """Delete a job's folder, unless its publication has begun; whether it is gone."""
    storage.delete([_job_file(directory, folder)])
    with suppress(CorruptDataError):
        journal = read_journal(directory)
        if journal is None or journal.temporary != folder:
            storage.delete_tree(storage.join(directory, folder))
            storage.abort_uploads(storage.join(directory, f"{folder}/"))
            return True
    return False


def clear_dead(directory: str, own: str) -> None:
    """Delete the folders of all other jobs but those that are known to live.

    Without locks, which object stores have none of, all others are taken for dead; one that is not fails, and publishes
    nothing.
    """
    for folder in storage.list_folders(directory):
        if folder.startswith(naming.TEMP_PREFIX) and folder != own and not _lives(directory, folder):
            give_up(directory, folder)


def is_under_way(directory: str) -> bool:
    """Whether a job builds or publishes the version in `directory`, or did when it was interrupted: without locks, who
    is dead cannot be known."""
    folders = [name for name in storage.list_folders(directory) if name.startswith(naming.TEMP_PREFIX)]
    if storage.is_local(directory):
        folders = [folder for folder in folders if _lives(directory, folder)]
    return bool(folders) or storage.exists(storage.join(directory, naming.PUBLISHING))


def _lives(directory: str, folder: str) -> bool:
    path = _job_file(directory, folder)
    return storage.is_local(path) and locks.is_held(path)


def _job_file(directory: str, folder: str) -> str:
    return storage.join(storage.join(directory, folder), naming.JOB_FILE)


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
