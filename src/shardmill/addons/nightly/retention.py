"""Delete expired versions, and what dead jobs left."""

import errno
import uuid
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial

from shardmill.addons.nightly.recipe import Recipe, RetainOptions
from shardmill.addons.nightly.recipe_values import format_duration
from shardmill.errors import LockedError
from shardmill.metadata import file_names
from shardmill.metadata.versions import version_numbers
from shardmill.pipelines.commands.pointers import read_named_versions, version_under_way
from shardmill.text import shorten
from shardmill.transforms.publishing import catalog, lease, publication
from shardmill.transforms.publishing.lease import Lease
from shardmill.transforms.publishing.publish import delete_expired_failures
from shardmill.transforms.stores import storage


def find_deletable_versions(
    states: Sequence[catalog.VersionState], protected: Collection[str], min_versions: int, max_age: float
) -> list[catalog.VersionState]:
    """Return the versions that may be deleted, the oldest first.

    Those `protected` (LATEST, tags, the baseline), the newest `min_versions`, and any younger than `max_age` seconds
    stay. Ages are taken at the newest publication, by the store's clock. So a launcher with a wrong clock deletes
    nothing for that, and nothing ages while the source has stopped.
    """

    def order(state: catalog.VersionState) -> list[int]:
        return version_numbers(state.version)

    published = sorted((state for state in states if state.published), key=order, reverse=True)
    now = max((state.modified for state in published), default=0.0)
    kept_versions = {state.version for state in published[:min_versions]} | set(protected)
    old = [state for state in states if now - state.modified > (max_age or -1) and state.version not in kept_versions]
    return sorted(old, key=order)


class Problem(str):
    """A message about what could not be deleted."""


def retain_by_recipe(recipe: Recipe, protected: Collection[str] = (), dry_run: bool = False) -> list[str]:
    """Call `retain` for the data set of a recipe; the versions that its builds read stay."""
    read = {recipe.checks.baseline, recipe.build.like, recipe.options.get("reuse")}
    parent = storage.join(recipe.output, recipe.name)
    return retain(parent, recipe.retain, {*protected, *filter(None, read)}, dry_run)


def retain(parent: str, options: RetainOptions, protected: Collection[str] = (), dry_run: bool = False) -> list[str]:
    """Delete what is no longer needed in `parent`, and return messages.

    That is: versions that both `options` allow, except those `protected`; failed versions that were kept long enough;
    and what dead jobs left. With `dry_run` nothing is deleted, and the messages say what would be.

    Raises nothing: the next build can delete what cannot be deleted now.
    """
    messages: list[str] = []
    for step in (_delete_failures, _delete_versions, _delete_remains):
        try:
            messages.extend(step(parent, options, protected, dry_run))
        except OSError as error:
            messages.append(Problem(f"older versions could not be deleted: {error}"))
    return messages


def _verb(dry_run: bool) -> str:
    return "would delete" if dry_run else "deleted"


def _delete_failures(parent: str, _: RetainOptions, __: Collection[str], dry_run: bool) -> Iterator[str]:
    """Delete failed versions that were kept long enough. No lease is needed, so that a full disk gets some room."""
    for folder in delete_expired_failures(parent, datetime.now(UTC), dry_run):
        yield f"{_verb(dry_run)} {folder}, which `keep_failed` keeps no longer"


def _delete_versions(parent: str, options: RetainOptions, protected: Collection[str], dry_run: bool) -> Iterator[str]:
    min_versions, max_age = options.min_versions, options.max_age
    if min_versions is None or max_age is None:
        return
    states = catalog.list_versions(parent)
    named = read_named_versions(parent)
    for file, version in named.items():
        if not file_names.is_version(version):
            yield Problem(f"{file} names {shorten(version)!r}, which is no version: until it does nothing is deleted")
            return
    if file_names.LATEST not in named:
        return
    deletions = find_deletable_versions(states, {*named.values(), *protected}, min_versions, max_age)
    if deletions and (builder := version_under_way(parent)):
        yield f"{builder}, and may read older versions: nothing is deleted now"
        return
    newest = "the newest stays" if min_versions == 1 else f"the newest {min_versions} stay"
    reason = f", which is older than {format_duration(max_age)}; {newest}" if max_age else f"; {newest}"
    for state in deletions:
        try:
            if dry_run or _delete(parent, state.version):
                yield f"{_verb(dry_run)} {state.version}{reason}"
        except LockedError as error:
            yield f"{state.version} is not deleted now: {error}"
        except OSError as error:
            yield Problem(f"{state.version} could not be deleted, the next build goes on with it: {error}")


def _delete_remains(parent: str, _: RetainOptions, __: Collection[str], dry_run: bool) -> Iterator[str]:
    versions = [version for version in storage.list_folders(parent) if file_names.is_version(version)]
    with ThreadPoolExecutor(_THREADS, "shardmill-remains") as pool:
        found = list(pool.map(_find_remains, [storage.join(parent, version) for version in versions]))
    for version, remains in zip(versions, found, strict=True):
        directory = storage.join(parent, version)
        if remains is None:
            continue
        is_deleted = not lease.is_maybe_building(directory) if dry_run else publication.delete_remains(directory)
        if not dry_run:
            storage.remove_empty(directory)
        if is_deleted and remains:
            yield f"{_verb(dry_run)} what a job that has ended left of {version}{remains}"


def _find_remains(directory: str) -> str | None:
    """Return the end of a sentence on what a job has left of a version, "" if no one cares; None if nothing."""
    if storage.exists(storage.join(directory, file_names.PUBLISHING)):  # a publication to be completed
        return None
    if any(storage.exists(storage.join(directory, name)) for name in (file_names.SUCCESS, file_names.MANIFEST)):
        return f": {file_names.LOCK}" if storage.exists(storage.join(directory, file_names.LOCK)) else None
    names = [name for name, _ in storage.list_files(directory)]
    if any(name != file_names.LOCK and not name.startswith(file_names.TEMP_PREFIX) for name in names):
        return None
    own = (file_names.LOCK, file_names.temporary_folder(publication.DELETION, ""))
    return ", which it did not publish" if any(not name.startswith(own) for name in names) else ""


_THREADS = 16  # each version is some requests of an object store
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT)


def _delete(parent: str, version: str) -> bool:
    """Delete a version; return False if LATEST or a tag names it by now. Raises LockedError and OSError."""
    directory = storage.join(parent, version)
    held = _take_deletion_lease(directory)
    try:
        gone = catalog.delete_version(directory, lambda: version in read_named_versions(parent).values())
    finally:
        held.release()
    storage.remove_empty(directory)
    return gone


def _take_deletion_lease(directory: str) -> Lease:
    """Take the lease of a version to be deleted. On a full disk, its page and inputs are deleted first to make room."""
    job = uuid.uuid4().hex
    take_lease = partial(lease.take_lease, directory, file_names.temporary_folder(publication.DELETION, job), job)
    try:
        return take_lease()
    except OSError as error:
        if error.errno not in _DISK_FULL:
            raise
    catalog.delete_build_files(directory)
    return take_lease()
