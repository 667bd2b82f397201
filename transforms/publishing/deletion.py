"""Deleting a version so that, wherever it stops, what is left is whole or no version.

    withdrawn   `_SUCCESS` goes first: readers no longer open it, and all else is still there
    looked at   LATEST and the tags are read again: whoever lets one of them name a version looks for its `_SUCCESS`
                afterwards, so one of the two sees the other; where one names it, `_SUCCESS` is written again
    emptied     all other files but the manifest
    forgotten   what lies beside it for the builds after it, then the manifest

A folder with a manifest and without `_SUCCESS`, that no job has, is what an interrupted deletion left; the next one
goes on with it.
"""

from collections.abc import Callable

from shardmill.metadata import naming
from shardmill.metadata.seal import seal
from shardmill.transforms.stores import storage


def delete_version(directory: str, is_named: Callable[[], bool]) -> bool:
    """Delete the version in `directory`, whose lease the caller has; whether it is gone, but for the lease.

    Args:
      directory: of the version.
      is_named: whether LATEST or a tag names it by now.

    Raises:
      OSError: a file cannot be read or deleted; the version is whole, or none.
    """
    if is_named():
        return False
    success, manifest = (storage.join(directory, name) for name in (naming.SUCCESS, naming.MANIFEST))
    was_published = storage.exists(success)
    storage.delete([success])
    storage.sync_directories([directory])
    if is_named():
        if was_published:
            storage.write_text(success, seal(storage.read_bytes(manifest)))
        return False
    names = [name for name, _ in storage.list_files(directory) if name not in (naming.MANIFEST, naming.LOCK)]
    storage.delete(storage.join(directory, name) for name in names)
    storage.sync_directories([directory])
    _remove_folders(directory)
    _forget(directory)
    storage.delete([manifest])
    storage.remove_empty(directory)
    return True


def _remove_folders(directory: str) -> None:
    for folder in storage.list_folders(directory):
        storage.remove_empty(storage.join(directory, folder))


def _forget(directory: str) -> None:
    """Delete what lies beside the version for the builds after it; how it was built stays on record."""
    parent, _, version = directory.rpartition("/")
    builds = storage.join(parent, naming.BUILDS)
    names = [name for name, _ in storage.list_files(builds) if name.startswith(f"{version}.")]
    storage.delete(storage.join(builds, name) for name in names if "/" in name or not name.endswith(".json"))
    for folder in storage.list_folders(builds):
        if folder.startswith(f"{version}."):
            storage.remove_empty(storage.join(builds, folder))
