"""What LATEST and the tags name, changed by hand."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from shardmill.errors import JobError, UserError
from shardmill.metadata import naming
from shardmill.transforms.publishing.catalog import published
from shardmill.transforms.publishing.latest import latest_path, named, write_latest
from shardmill.transforms.publishing.whole import why_not_whole
from shardmill.transforms.stores import conditional, storage
from shardmill.transforms.stores.stored import ChangedError
from shardmill.versions.published import numbers
from shardmill.versions.tags import find_version, is_tag, tag_path


def rollback(parent: str, wanted: str | None) -> tuple[str, str]:
    """Let the LATEST of the data set in `parent` name another version; returns what it named, and names.

    Args:
      parent: the folder of all versions.
      wanted: a version or a tag; None for the newest that is older than the one that LATEST names.

    Raises:
      UserError: there is no such version, or it is not whole.
      JobError: a publication is under way, which would write LATEST as well; or somebody else wrote it meanwhile.
    """
    _check_nothing_under_way(parent)
    found = conditional.read(storage.join(parent, naming.LATEST))
    before = named(found)
    version = _older(parent, before) if wanted is None else find_version(storage.StorageFiles(), parent, wanted)[0]
    directory = storage.join(parent, version)
    _check_whole(directory)
    if version == before:
        return before, version
    try:
        write_latest(directory, version, uuid.uuid4().hex, found)
    except (ChangedError, FileExistsError):
        raise JobError(
            f"LATEST of {parent} was written by another meanwhile, and stands; look, and try again"
        ) from None
    if not storage.exists(storage.join(directory, naming.SUCCESS)):  # a deletion began before it could see LATEST
        if before:
            write_latest(directory, before, uuid.uuid4().hex, conditional.read(latest_path(directory)))
        raise JobError(f"a deletion of {directory} had begun; LATEST names {before or version} as before")
    return before, version


def _check_nothing_under_way(parent: str) -> None:
    for version in storage.list_folders(parent):
        directory = storage.join(parent, version)
        if naming.is_version(version) and storage.exists(storage.join(directory, naming.PUBLISHING)):
            raise JobError(
                f"{directory} is being published, or its job was interrupted while it was, and that ends with LATEST:"
                f" wait for it, or `shardmill verify --repair {directory}` completes it; then roll back"
            )


def _older(parent: str, before: str) -> str:
    if not naming.is_version(before):
        raise UserError(f"LATEST of {parent} names {before!r}, no version to go back from; give the version to go to")
    older = [state.version for state in published(parent) if numbers(state.version) < numbers(before)]
    if not older:
        raise UserError(f"{parent} has no version that is older than {before}, which LATEST names")
    return older[0]


def _check_whole(directory: str) -> None:
    problem = why_not_whole(directory)
    if problem:
        raise UserError(f"nothing was changed: {problem}")


def set_tag(parent: str, wanted: str, tag: str, move: bool) -> tuple[str, str]:
    """Let `tag` name a version of the data set in `parent`; returns what it named, "" if nothing, and names.

    Args:
      parent: the folder of all versions.
      wanted: a version, another tag or LATEST.
      tag: the name.
      move: whether it may name another version already.

    Raises:
      UserError: there is no such version, it is not whole, `tag` can be none, or names another one and does not `move`.
      JobError: the version was deleted meanwhile, or somebody else gave or moved the tag.
    """
    check_tag(tag)
    version, _ = find_version(storage.StorageFiles(), parent, wanted)
    directory, path = storage.join(parent, version), tag_path(parent, tag)
    _check_whole(directory)
    found = conditional.read(path)
    before = named(found)
    if before == version:
        return before, version
    if before and not move:
        raise UserError(f"{tag} names {before} already; give --move, or another tag")
    with _alone(parent, tag):
        if found is None:
            conditional.create(path, f"{version}\n")
        else:
            conditional.replace(path, f"{version}\n", found)
    if not storage.exists(storage.join(directory, naming.SUCCESS)):  # a deletion began before it could see the tag
        written = conditional.read(path)
        if written is not None and named(written) == version:
            with _alone(parent, tag):
                conditional.delete(path, written)
        raise JobError(f"a deletion of {directory} had begun; {tag} names nothing now")
    return before, version


def delete_tag(parent: str, tag: str) -> str:
    """Take `tag` away; returns what it named.

    Raises:
      UserError: there is none.
      JobError: somebody else moved it, or took it away, meanwhile.
    """
    check_tag(tag)
    path = tag_path(parent, tag)
    found = conditional.read(path)
    if found is None:
        raise UserError(f"{parent} has no tag {tag!r}")
    with _alone(parent, tag):
        conditional.delete(path, found)
    return named(found)


@contextmanager
def _alone(parent: str, tag: str) -> Iterator[None]:
    """Raise a JobError where the file of a tag is no longer what was read."""
    try:
        yield
    except (ChangedError, FileExistsError):
        raise JobError(
            f"the tag {tag} of {parent} was written by another meanwhile, and stands; look, and try again"
        ) from None


def check_tag(tag: str) -> None:
    """Check that a version may be called `tag`; raises UserError."""
    if not is_tag(tag):
        raise UserError(f"{tag!r} can be no tag; expected letters, digits, '_', '.' and '-', and no version")
