"""LATEST, beside the versions: it names the newest that was published, and is only ever replaced by whoever has read
what it replaces."""

from contextlib import suppress

from shardmill.metadata import naming
from shardmill.transforms.stores import conditional, storage
from shardmill.transforms.stores.stored import ChangedError, Stored
from shardmill.versions.published import numbers

_ATTEMPTS = 100  # each of which another job has spoilt by publishing


def latest(directory: str) -> str:
    """What the LATEST beside a version directory names; empty if there is none."""
    return latest_in(parent(directory))


def latest_in(folder: str) -> str:
    """What the LATEST in the folder of all versions names; empty if there is none."""
    return named(conditional.read(storage.join(folder, naming.LATEST)))


def latest_path(directory: str) -> str:
    """The LATEST beside a version directory."""
    return storage.join(parent(directory), naming.LATEST)


def parent(directory: str) -> str:
    """The folder of all versions."""
    return directory.rpartition("/")[0] or ("/" if directory.startswith("/") else ".")


def is_newer(version: str, other: str) -> bool:
    """Whether a version comes after another, number by number; after what is no version comes each."""
    if not naming.is_version(other):
        return True
    return numbers(version) > numbers(other)


def announce(directory: str, before: str, job: str, set_latest: bool = False) -> None:
    """Let LATEST name the version in `directory`, unless it names a newer one, by now or for long.

    Args:
      directory: of the version, which is published.
      before: what LATEST named when its publication began.
      job: its nonce.
      set_latest: whether it takes the place of a newer version as well, of the one that was named before.

    Raises:
      OSError: it cannot be written.
    """
    version = directory.rpartition("/")[2]
    for _ in range(_ATTEMPTS):
        found = conditional.read(latest_path(directory))
        other = named(found)
        forced = set_latest and other == before
        if other == version or not (forced or is_newer(version, other) or _is_lost(directory, other)):
            if storage.is_local(directory):
                storage.delete([_temporary(directory, job)])  # an attempt that was killed left it
            return
        with suppress(ChangedError, FileExistsError):
            write_latest(directory, version, job, found)
            return
    raise ChangedError(f"{latest_path(directory)} is written by others all the time")


def write_latest(directory: str, version: str, job: str, found: Stored | None) -> None:
    """Let the LATEST beside a version directory name a version, if it still is as it was `found`.

    Raises:
      ChangedError, FileExistsError: it is not.
    """
    path = latest_path(directory)
    if found is None:
        conditional.create(path, f"{version}\n", _temporary(directory, job))
    else:
        conditional.replace(path, f"{version}\n", found, _temporary(directory, job))


def _temporary(directory: str, job: str) -> str:
    return f"{latest_path(directory)}.{job}{naming.TEMP_SUFFIX}"


def _is_lost(directory: str, version: str) -> bool:
    """Whether nothing of a version is there that LATEST names: it was deleted, by hand perhaps."""
    there = storage.join(parent(directory), version)
    return not any(
        storage.exists(storage.join(there, name)) for name in (naming.SUCCESS, naming.PUBLISHING, naming.LOCK)
    )


def named(found: Stored | None) -> str:
    """What a LATEST names that was `found`."""
    return "" if found is None else found.data.decode(errors="replace").strip()
