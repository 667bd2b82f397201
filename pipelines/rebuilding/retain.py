"""Which older versions go: those that both `min_versions` and `max_age` allow to, and that nothing names or builds."""

import uuid
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress

from shardmill.errors import LockedError
from shardmill.metadata import naming
from shardmill.pipelines.recipes.durations import shown
from shardmill.pipelines.recipes.sections import RetainOptions
from shardmill.printable import beginning
from shardmill.transforms.publishing import job_folder, lease
from shardmill.transforms.publishing.catalog import VersionState, tags_in, versions_in
from shardmill.transforms.publishing.deletion import delete_version
from shardmill.transforms.publishing.latest import latest_in
from shardmill.transforms.stores import storage
from shardmill.versions.published import numbers


def deletable(
    states: Sequence[VersionState], named: Collection[str], min_versions: int, max_age: float
) -> list[VersionState]:
    """Those of a data set's versions that may go, the oldest first.

    Ages are those at the newest publication, all by the clock of the store: a launcher whose clock is wrong deletes
    nothing for that, and while the source has stopped nothing grows old.

    Args:
      states: of all versions.
      named: versions that stay whatever their age: LATEST, tags, the baseline.
      min_versions: as many of the newest published ones stay.
      max_age: in seconds; younger ones stay.
    """
    published = sorted((state for state in states if state.published), key=_order, reverse=True)
    now = max((state.modified for state in published), default=0.0)
    stay = {state.version for state in published[:min_versions]} | set(named)
    old = [state for state in states if now - state.modified > max_age and state.version not in stay]
    return sorted(old, key=_order)


def _order(state: VersionState) -> list[int]:
    return numbers(state.version)


def retain(parent: str, options: RetainOptions, stay: Collection[str] = ()) -> list[str]:
    """Delete what may go of the versions in `parent`; what there is to say, in sentences. Nothing is raised: what
    cannot be deleted today can be tomorrow.

    Args:
      parent: the folder of all versions.
      options: what allows a deletion; both must be given.
      stay: further versions that stay: the baseline, the one just built.
    """
    if options.min_versions is None or options.max_age is None:
        return []
    try:
        return list(_retain(parent, options.min_versions, options.max_age, stay))
    except OSError as error:
        return [f"older versions could not be deleted: {error}"]


def _retain(parent: str, min_versions: int, max_age: float, stay: Collection[str]) -> Iterator[str]:
    states = versions_in(parent)
    named = _named(parent)
    for file, version in named.items():
        if not naming.is_version(version):
            yield f"{file} names {beginning(version)!r}, which is no version: until it does nothing is deleted"
            return
    if naming.LATEST not in named:
        return
    going = deletable(states, {*named.values(), *stay}, min_versions, max_age)
    if going and (builder := builder_of(parent)):
        yield f"{builder}, and may read older versions: nothing is deleted now"
        return
    for state in going:
        yield from _delete(parent, state.version, min_versions, max_age)
    yield from _remove_remains(parent, {*named.values(), *(state.version for state in states)})


def _remove_remains(parent: str, others: Collection[str]) -> Iterator[str]:
    """Delete what dead jobs left of versions that they never published, and the folders in which a deletion that was
    killed has left no more than its lease; nobody lists them as versions."""
    for version in storage.list_folders(parent):
        if not naming.is_version(version) or version in others:
            continue
        directory, job = storage.join(parent, version), uuid.uuid4().hex
        names = [name for name, _ in storage.list_files(directory)]
        if any(name != naming.LOCK and not name.startswith(naming.TEMP_PREFIX) for name in names):
            continue
        with suppress(LockedError), lease.held(directory, _temporary(job), job):
            job_folder.clear_others(directory, _temporary(job))
            if any(not name.startswith((naming.LOCK, _temporary(""))) for name in names):
                yield f"deleted what a job that has ended left of {version}, which it did not publish"
        storage.remove_empty(directory)


def _temporary(job: str) -> str:
    return naming.temporary_folder("deletion", job)


def _named(parent: str) -> dict[str, str]:
    """Version by the file that names it: LATEST and tags."""
    tags = {f"{naming.TAGS}/{tag}": version for tag, version in tags_in(parent).items()}
    version = latest_in(parent)
    return {**({naming.LATEST: version} if version else {}), **tags}


def builder_of(parent: str) -> str:
    """Which version a job builds now, or did when it ended, in words; empty where there is none."""
    for version in storage.list_folders(parent):
        if naming.is_version(version) and job_folder.is_under_way(storage.join(parent, version)):
            return f"{version} is being built, or its job was interrupted"
    return ""


def _delete(parent: str, version: str, min_versions: int, max_age: float) -> Iterator[str]:
    directory, job = storage.join(parent, version), uuid.uuid4().hex
    try:
        with lease.held(directory, _temporary(job), job):
            gone = delete_version(directory, lambda: version in _named(parent).values())
        storage.remove_empty(directory)
        if gone:
            newest = "the newest stays" if min_versions == 1 else f"the newest {min_versions} stay"
            yield f"deleted {version}, which is older than {shown(max_age)}; {newest}"
    except LockedError as error:
        yield f"{version} is not deleted now: {error}"
    except OSError as error:
        yield f"{version} could not be deleted, the next build goes on with it: {error}"
