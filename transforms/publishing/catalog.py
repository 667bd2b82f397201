"""The versions of a data set as they lie in its folder: which are published, which are what a deletion left."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from shardmill.metadata import naming
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import FileStat
from shardmill.versions.published import numbers

_THREADS = 16  # each version is a request or three of an object store


@dataclass(frozen=True, slots=True)
class VersionState:
    """A version's folder.

    Attributes:
      version: its name.
      published: whether it has its `_SUCCESS`; without, it is not a data set, but has a manifest: a deletion was
        interrupted.
      modified: when it was published, by the clock of its store, in seconds since 1970.
    """

    version: str
    published: bool
    modified: float


def versions_in(parent: str) -> list[VersionState]:
    """What lies in the folder of a data set, the newest version first; not what a job builds, or publishes now.

    Raises:
      OSError: it cannot be listed.
    """
    names = [name for name in storage.list_folders(parent) if naming.is_version(name)]
    names.sort(key=numbers, reverse=True)
    with ThreadPoolExecutor(_THREADS, "shardmill-versions") as pool:
        return [state for state in pool.map(lambda name: _state(parent, name), names) if state is not None]


def newest_version(parent: str) -> str:
    """As the first of `versions_in`, "" if there is none: of an object store no more is asked than that takes."""
    names = [name for name in storage.list_folders(parent) if naming.is_version(name)]
    names.sort(key=numbers, reverse=True)
    return next((name for name in names if _state(parent, name) is not None), "")


def published(parent: str) -> list[VersionState]:
    """The published versions of a data set, the newest first; raises as `versions_in`."""
    return [state for state in versions_in(parent) if state.published]


def _state(parent: str, version: str) -> VersionState | None:
    directory = storage.join(parent, version)
    success = _stat(storage.join(directory, naming.SUCCESS))
    if success is not None:
        return VersionState(version, True, success.modified)
    manifest = _stat(storage.join(directory, naming.MANIFEST))
    if manifest is None or storage.exists(storage.join(directory, naming.PUBLISHING)):
        return None
    return VersionState(version, False, manifest.modified)


def _stat(path: str) -> FileStat | None:
    try:
        return storage.stat_file(path)
    except FileNotFoundError:
        return None


def tags_in(parent: str) -> dict[str, str]:
    """Version by tag, of a data set; what such a file holds is shown as it is.

    Raises:
      OSError: they cannot be read.
    """
    return dict(_tags(storage.join(parent, naming.TAGS)))


def _tags(folder: str) -> Iterator[tuple[str, str]]:
    for name, _ in sorted(storage.list_files(folder)):
        if "/" not in name and not name.endswith(naming.TEMP_SUFFIX):
            try:
                yield name, storage.read_bytes(storage.join(folder, name)).decode(errors="replace").strip()
            except FileNotFoundError:  # taken away since it was listed
                continue
