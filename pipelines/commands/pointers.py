"""LATEST and tags of a data set: read them, and move them by hand."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from shardmill.errors import JobError, UserError
from shardmill.metadata import file_names
from shardmill.metadata.versions import is_tag, resolve_version, tag_path, version_numbers
from shardmill.transforms.publishing import catalog, publication
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import ChangedError


def read_named_versions(parent: str) -> dict[str, str]:
    """Return the named versions by the file that names them: LATEST and tags."""
    tags = {f"{file_names.TAGS}/{tag}": version for tag, version in catalog.read_tags(parent).items()}
    version = catalog.read_latest(parent)
    return {**({file_names.LATEST: version} if version else {}), **tags}


def version_under_way(parent: str) -> str:
    """Return a text that names the version being built, or left by an ended job; "" for none."""
    for version in storage.list_folders(parent):
        if file_names.is_version(version) and publication.is_under_way(storage.join(parent, version)):
            return f"{version} is being built, or its job was interrupted"
    return ""


def rollback(parent: str, requested: str | None) -> tuple[str, str]:
    """Point the LATEST of the data set in `parent` at another version; return its old and new target.

    Without a requested version or tag, that is the newest version older than LATEST's.

    Raises:
        UserError: there is no such version, or it is incomplete.
        JobError: a publication is under way, which would write LATEST as well; or another process wrote it meanwhile.
    """
    _check_no_publication(parent)
    found = storage.read(storage.join(parent, file_names.LATEST))
    before = catalog.version_in(found)
    if requested is None:
        version = _version_before(parent, before)
    else:
        version, _ = resolve_version(storage.StorageFiles(), parent, requested)
    directory = storage.join(parent, version)
    if problem := catalog.find_damage(directory):
        raise UserError(f"nothing was changed: {problem}")
    if version == before:
        return before, version
    with _refuse_conflicts(f"LATEST of {parent}"):
        catalog.write_latest(directory, version, uuid.uuid4().hex, found)
    if not storage.exists(storage.join(directory, file_names.SUCCESS)):  # a deletion began before it could see LATEST
        if before:
            catalog.write_latest(directory, before, uuid.uuid4().hex, storage.read(catalog.latest_path(directory)))
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
        raise UserError(f"LATEST of {parent} names {before!r}, which is no version; give the version to roll back to")
    for state in catalog.list_published(parent):
        if version_numbers(state.version) < version_numbers(before):
            return state.version
    raise UserError(
        f"{parent} has no version older than {before}, which LATEST names; give the version to point LATEST at"
    )


def set_tag(parent: str, requested: str, tag: str, move: bool) -> tuple[str, str]:
    """Point `tag` at a version of the data set in `parent`; return its old target ("" for none) and its new one.

    Raise a UserError if the version is missing or incomplete, the tag is invalid, or it names another version without
    `move`. Raise a JobError if the version was deleted meanwhile, or another process changed the tag.
    """
    _check_tag(tag)
    version, _ = resolve_version(storage.StorageFiles(), parent, requested)
    directory, path = storage.join(parent, version), tag_path(parent, tag)
    if problem := catalog.find_damage(directory):
        raise UserError(f"nothing was changed: {problem}")
    found = storage.read(path)
    before = catalog.version_in(found)
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
        if written is not None and catalog.version_in(written) == version:
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
    return catalog.version_in(found)


@contextmanager
def _refuse_conflicts(pointer: str) -> Iterator[None]:
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
