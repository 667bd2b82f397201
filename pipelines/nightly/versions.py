"""Delete expired versions, and move LATEST and tags by hand."""

import errno
import uuid
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial

from shardmill.errors import JobError, LockedError, UserError
from shardmill.metadata import file_names
from shardmill.metadata.versions import is_tag, resolve_version, tag_path, version_numbers
from shardmill.pipelines.nightly.recipe import Recipe, RetainOptions
from shardmill.pipelines.nightly.recipe_values import format_duration
from shardmill.text import shorten
from shardmill.transforms.publishing import lease, publication
from shardmill.transforms.publishing.catalog import (
    VersionState,
    delete_build_files,
    delete_version,
    find_damage,
    latest_path,
    list_published,
    list_versions,
    read_latest,
    read_tags,
    version_in,
    write_latest,
)
from shardmill.transforms.publishing.lease import Lease
from shardmill.transforms.publishing.publish import delete_expired_failures
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import ChangedError


def find_deletable_versions(
    states: Sequence[VersionState], protected: Collection[str], min_versions: int, max_age: float
) -> list[VersionState]:
    """Return the versions that may be deleted, the oldest first.

    Those `protected` (LATEST, tags, the baseline), the newest `min_versions`, and any younger than `max_age` seconds
    stay. Ages are taken at the newest publication, by the store's clock. So a launcher with a wrong clock deletes
    nothing for that, and nothing ages while the source has stopped.
    """

    def order(state: VersionState) -> list[int]:
        return version_numbers(state.version)

    published = sorted((state for state in states if state.published), key=order, reverse=True)
    now = max((state.modified for state in published), default=0.0)
    kept_versions = {state.version for state in published[:min_versions]} | set(protected)
    old = [state for state in states if now - state.modified > max_age and state.version not in kept_versions]
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
    states = list_versions(parent)
    named = _read_named_versions(parent)
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
    for state in deletions:
        try:
            if dry_run or _delete(parent, state.version):
                yield f"{_verb(dry_run)} {state.version}, which is older than {format_duration(max_age)}; {newest}"
        except LockedError as error:
            yield f"{state.version} is not deleted now: {error}"
        except OSError as error:
            yield Problem(f"{state.version} could not be deleted, the next build goes on with it: {error}")


def _delete_remains(parent: str, _: RetainOptions, __: Collection[str], dry_run: bool) -> Iterator[str]:
    """Delete what dead jobs left: temporary folders, LOCK, and folders where nothing else is."""
    versions = [version for version in storage.list_folders(parent) if file_names.is_version(version)]
    with ThreadPoolExecutor(_THREADS, "shardmill-remains") as pool:
        found = list(pool.map(_find_remains, [storage.join(parent, version) for version in versions]))
    for version, remains in zip(versions, found, strict=True):
        directory = storage.join(parent, version)
        if remains is None:
            continue
        if dry_run:
            is_deleted = not lease.is_maybe_building(directory)
        else:
            is_deleted = publication.delete_remains(directory)
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


def _read_named_versions(parent: str) -> dict[str, str]:
    """Return the named versions by the file that names them: LATEST and tags."""
    tags = {f"{file_names.TAGS}/{tag}": version for tag, version in read_tags(parent).items()}
    version = read_latest(parent)
    return {**({file_names.LATEST: version} if version else {}), **tags}


def version_under_way(parent: str) -> str:
    """Return a text that names the version being built, or left by an ended job; "" for none."""
    for version in storage.list_folders(parent):
        if file_names.is_version(version) and publication.is_under_way(storage.join(parent, version)):
            return f"{version} is being built, or its job was interrupted"
    return ""


def _delete(parent: str, version: str) -> bool:
    """Delete a version; return False if LATEST or a tag names it by now. Raises LockedError and OSError."""
    directory = storage.join(parent, version)
    held = _take_deletion_lease(directory)
    try:
        gone = delete_version(directory, lambda: version in _read_named_versions(parent).values())
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
    delete_build_files(directory)
    return take_lease()


def rollback(parent: str, requested: str | None) -> tuple[str, str]:
    """Point the LATEST of the data set in `parent` at another version; return its old and new target.

    Without a requested version or tag, that is the newest version older than LATEST's.

    Raises:
        UserError: there is no such version, or it is incomplete.
        JobError: a publication is under way, which would write LATEST as well; or another process wrote it meanwhile.
    """
    _check_no_publication(parent)
    found = storage.read(storage.join(parent, file_names.LATEST))
    before = version_in(found)
    if requested is None:
        version = _version_before(parent, before)
    else:
        version, _ = resolve_version(storage.StorageFiles(), parent, requested)
    directory = storage.join(parent, version)
    _check_complete(directory)
    if version == before:
        return before, version
    with _refuse_conflicts(f"LATEST of {parent}"):
        write_latest(directory, version, uuid.uuid4().hex, found)
    if not storage.exists(storage.join(directory, file_names.SUCCESS)):  # a deletion began before it could see LATEST
        if before:
            write_latest(directory, before, uuid.uuid4().hex, storage.read(latest_path(directory)))
        raise JobError(f"a deletion of {directory} had begun; LATEST names {before or version} as before")
    return before, version


def _check_no_publication(parent: str) -> None:
    for version in storage.list_folders(parent):
        directory = storage.join(parent, version)
        if file_names.is_version(version) and storage.exists(storage.join(directory, file_names.PUBLISHING)):
            raise JobError(
                f"{directory} is being published, or its job was interrupted while it was, and that ends with LATEST:"
                f" wait for it, or `shardmill verify --repair {directory}` completes it; then roll back"
            )


def _version_before(parent: str, before: str) -> str:
    if not file_names.is_version(before):
        raise UserError(
            f"LATEST of {parent} names {before!r}, which is not a version; give the version to roll back to"
        )
    for state in list_published(parent):
        if version_numbers(state.version) < version_numbers(before):
            return state.version
    raise UserError(
        f"{parent} has no version older than {before}, which LATEST names; give the version to point LATEST at"
    )


def _check_complete(directory: str) -> None:
    if problem := find_damage(directory):
        raise UserError(f"nothing was changed: {problem}")


def set_tag(parent: str, requested: str, tag: str, move: bool) -> tuple[str, str]:
    """Point `tag` at a version of the data set in `parent`; return its old target ("" for none) and its new one.

    Raise a UserError if the version is missing or incomplete, the tag is invalid, or it names another version without
    `move`. Raise a JobError if the version was deleted meanwhile, or another process changed the tag.
    """
    _check_tag(tag)
    version, _ = resolve_version(storage.StorageFiles(), parent, requested)
    directory, path = storage.join(parent, version), tag_path(parent, tag)
    _check_complete(directory)
    found = storage.read(path)
    before = version_in(found)
    if before == version:
        return before, version
    if before and not move:
        raise UserError(f"{tag} names {before} already; give --move, or another tag")
    with _refuse_conflicts(f"the tag {tag} of {parent}"):
        if found is None:
            storage.create(path, f"{version}\n")
        else:
            storage.replace(path, f"{version}\n", found)
    if not storage.exists(storage.join(directory, file_names.SUCCESS)):  # a deletion began before it could see the tag
        written = storage.read(path)
        if written is not None and version_in(written) == version:
            with _refuse_conflicts(f"the tag {tag} of {parent}"):
                storage.delete_if_unchanged(path, written)
        raise JobError(f"a deletion of {directory} had begun; {tag} names nothing now")
    return before, version


def delete_tag(parent: str, tag: str) -> str:
    """Delete `tag` and return the version that it named.

    Raise a UserError if there is no such tag. Raise a JobError if another process changed or deleted it meanwhile.
    """
    _check_tag(tag)
    path = tag_path(parent, tag)
    found = storage.read(path)
    if found is None:
        raise UserError(f"{parent} has no tag {tag!r}")
    with _refuse_conflicts(f"the tag {tag} of {parent}"):
        storage.delete_if_unchanged(path, found)
    return version_in(found)


@contextmanager
def _refuse_conflicts(pointer: str) -> Iterator[None]:
    """Raise a JobError if the file of `pointer` is no longer what was read."""
    try:
        yield
    except (ChangedError, FileExistsError):
        raise JobError(
            f"{pointer} was changed by another job meanwhile, and this command left it as it is; look at it,"
            " then try again"
        ) from None


def _check_tag(tag: str) -> None:
    if not is_tag(tag):
        raise UserError(f"{tag!r} cannot be a tag; expected letters, digits, '_', '.' and '-', and not a version")
