"""Versions of a data set: open, list, compare, check and delete them, and update LATEST."""

import json
import os
import shlex
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import partial

from shardmill.errors import CorruptDataError, UserError
from shardmill.metadata import file_names
from shardmill.metadata.manifest import Manifest, crc32c_hex, success_text
from shardmill.metadata.versions import resolve_version, version_numbers
from shardmill.reading.dataset import Dataset, check_sha256, open_dataset
from shardmill.text import listed, shorten
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import ChangedError, FileStat, StoredFile

_THREADS = 16  # each version is a request or three of an object store


@dataclass(frozen=True, slots=True)
class VersionState:
    """The state of a version's folder."""

    version: str  # name of the version
    published: bool  # it has `_SUCCESS`; if not, its deletion was interrupted
    modified: float  # time of publication, by the store's clock, in seconds since 1970


def list_versions(parent: str) -> list[VersionState]:
    """List the versions in a data set's folder, newest first, except those that a job is building or publishing."""
    with ThreadPoolExecutor(_THREADS, "shardmill-versions") as pool:
        return [
            state for state in pool.map(partial(_read_state, parent), _list_version_names(parent)) if state is not None
        ]


def find_newest_version(parent: str, prefix: str = "") -> str:
    """Return the first of `list_versions` that begins with `prefix`, or "".

    On object stores it makes only the requests that this needs.
    """
    names = (name for name in _list_version_names(parent) if name.startswith(prefix))
    return next((name for name in names if _read_state(parent, name) is not None), "")


def _list_version_names(parent: str) -> list[str]:
    names = filter(file_names.is_version, storage.list_folders(parent))
    return sorted(names, key=version_numbers, reverse=True)


def list_published(parent: str) -> list[VersionState]:
    """List the published versions of a data set, newest first."""
    return [state for state in list_versions(parent) if state.published]


def _read_state(parent: str, version: str) -> VersionState | None:
    directory = storage.join(parent, version)
    success = _stat_if_exists(storage.join(directory, file_names.SUCCESS))
    if success is not None:
        return VersionState(version, True, success.modified)
    manifest = _stat_if_exists(storage.join(directory, file_names.MANIFEST))
    if manifest is None or storage.exists(storage.join(directory, file_names.PUBLISHING)):
        return None
    return VersionState(version, False, manifest.modified)


def _stat_if_exists(path: str) -> FileStat | None:
    try:
        return storage.stat_file(path)
    except FileNotFoundError:
        return None


def is_failed_folder(directory: str) -> bool:
    """Return True if `directory` is `…/failed/<version>`, where a version that failed its checks is kept."""
    path = os.path.abspath(directory) if storage.is_local(directory) else directory.rstrip("/")
    above, _, version = path.rpartition("/")
    is_named_so = file_names.is_version(version) and above.rpartition("/")[2] == file_names.FAILED
    return is_named_so and not storage.exists(storage.join(path, file_names.SUCCESS))


def open_version(path: str, sha256: str | None = None) -> Dataset:
    """Open a version as `open_dataset` does, or one that failed its checks and is kept in `failed/<version>`.

    Readers of data sets open no failed version; commands that people look with do.
    """
    if is_failed_folder(directory := path.rstrip("/") or "/"):
        return open_failed(directory, sha256)
    return open_dataset(path, storage.StorageFiles(), None, sha256)


def open_failed(directory: str, sha256: str | None = None) -> Dataset:
    """Open the failed version that is kept in `directory`.

    Raise a UserError if nothing is kept there. Raise a CorruptDataError if its manifest was changed.
    """
    path = storage.join(directory, file_names.MANIFEST)
    try:
        text = storage.read_bytes(path)
    except FileNotFoundError:
        above = parent_folder(directory)
        kept = [
            name
            for name in storage.list_folders(above)
            if storage.exists(storage.join(above, name, file_names.FAILED_MARK))
        ]
        others = f"; kept in {above}: {listed(sorted(kept), _MAX_SHOWN, ', …')}" if kept else ""
        raise UserError(f"{directory}: no version that failed its checks is kept there{others}") from None
    crc32c, found = crc32c_hex(text), check_sha256(text, path, sha256)
    if crc32c != (written := read_failed_mark(directory).get("manifest", crc32c)):
        raise CorruptDataError(f"{path} is not the file that was written: its crc32c is {crc32c}, not {written}")
    return Dataset(directory, Manifest.from_json(text, path), storage.StorageFiles(), crc32c, found)


def failed_version_commands(parent: str, version: str, baseline: str) -> list[tuple[str, str]]:
    """Return (purpose, command) for each thing to do with a failed version that is kept; accepting it comes last.

    `baseline` is the version that it was compared with, or "".
    """
    folder, kept = shlex.quote(parent), f"{file_names.FAILED}/{version}"
    look = ("see what is in it", f"shardmill inspect {shlex.quote(storage.join(parent, kept))}")
    compare = ("see what changed", f"shardmill diff {folder} {baseline} {kept}")
    accept = ("publish it as it is", f"shardmill accept {folder} {version} --reason WHY")
    return [look, *([compare] if baseline else []), accept]


_MAX_SHOWN = 5  # versions in a message


def read_failed_mark(directory: str) -> dict[str, str]:
    """Return the content of the mark in the folder of a failed version; {} without a valid one."""
    try:
        found = json.loads(storage.read_bytes(storage.join(directory, file_names.FAILED_MARK)))
    except (FileNotFoundError, ValueError, RecursionError):
        return {}
    return {key: str(value) for key, value in found.items()} if isinstance(found, dict) else {}


def find_version_folder(parent: str, name: str) -> str:
    """Return the folder of a version, a tag, LATEST or `failed/<version>`; raises as `resolve_version`."""
    head, _, version = name.partition("/")
    if head == file_names.FAILED and file_names.is_version(version):
        return storage.join(parent, name)
    return storage.join(parent, resolve_version(storage.StorageFiles(), parent, name)[0])


def read_tags(parent: str) -> dict[str, str]:
    """Return the version of each tag of a data set; the content of a tag file is not checked."""
    folder, tags = storage.join(parent, file_names.TAGS), {}
    for name, _ in sorted(storage.list_files(folder)):
        if "/" not in name and not name.endswith(file_names.TEMP_SUFFIX):
            with suppress(FileNotFoundError):  # taken away since it was listed
                tags[name] = storage.read_bytes(storage.join(folder, name)).decode(errors="replace").strip()
    return tags


_ATTEMPTS = 100  # each of which another job has spoilt by publishing


def read_latest(folder: str) -> str:
    """Return the version that the LATEST in the folder of all versions names, or ""."""
    return version_in(storage.read(storage.join(folder, file_names.LATEST)))


def latest_path(directory: str) -> str:
    """Return the path of the LATEST next to a version directory."""
    return storage.join(parent_folder(directory), file_names.LATEST)


def parent_folder(directory: str) -> str:
    """Return the folder of all versions."""
    return directory.rpartition("/")[0] or ("/" if directory.startswith("/") else ".")


def is_newer(version: str, other: str) -> bool:
    """Return True if a version comes after another, number by number, or if `other` is not a version."""
    if not file_names.is_version(other):
        return True
    return version_numbers(version) > version_numbers(other)


def check_not_ahead(version: str, day: date | None, is_allowed: bool) -> None:
    """Raise a UserError if `day`, or the version as a date, is far ahead of the clock: LATEST would stay there."""
    days = [] if day is None else [("--date", day)]
    with suppress(ValueError, OverflowError):  # of a version that is no date
        days.append(("version", date(*version_numbers(version))))
    today = datetime.now(UTC).date()
    for name, found in days:
        if (found - today).days > _MOST_DAYS_AHEAD and not is_allowed:
            raise UserError(
                f"{name} {found} is {(found - today).days:,} days ahead of this machine's clock, {today}: LATEST would"
                " name that version, and no later night would move it; correct it, or give --allow_future"
            )


_MOST_DAYS_AHEAD = 2  # of a date: time zones and clocks differ by less
_KEPT_LATEST = "LATEST was not moved"


def is_about_latest(notice: str) -> bool:
    """Return True for the notice that LATEST names a newer version than the published one."""
    return notice.startswith(_KEPT_LATEST)


def describe_kept_latest(directory: str, latest: str, set_latest: bool) -> tuple[str, ...]:
    """Return a notice if LATEST names `latest`, which is newer than the version in `directory`; else none."""
    version = directory.rpartition("/")[2]
    if set_latest or not latest or is_newer(version, latest) or version == latest or _is_deleted(directory, latest):
        return ()
    advice = f"`shardmill rollback {parent_folder(directory)} {version}` lets it name {version}"
    return (f"{_KEPT_LATEST}: it names {latest}, which is newer; {advice}",)


def update_latest(directory: str, before: str, job: str, set_latest: bool = False) -> None:
    """Point LATEST at the published version in `directory`, unless it names a newer version that still exists.

    With `set_latest`, also replace a newer version if it is `before`, what LATEST named when the publication began.
    """
    version = directory.rpartition("/")[2]
    for _ in range(_ATTEMPTS):
        stored_file = storage.read(latest_path(directory))
        current = version_in(stored_file)
        forced = set_latest and current == before
        if current == version or not (forced or is_newer(version, current) or _is_deleted(directory, current)):
            if storage.is_local(directory):
                storage.delete([_temporary_path(directory, job)])  # an attempt that was killed left it
            return
        with suppress(ChangedError, FileExistsError):
            write_latest(directory, version, job, stored_file)
            return
    raise ChangedError(f"{latest_path(directory)} is written by others all the time")


def write_latest(directory: str, version: str, job: str, stored_file: StoredFile | None) -> None:
    """Point the LATEST next to a version directory at a version; raise ChangedError or FileExistsError if it is no
    longer as `stored_file`.
    """
    path, temporary = latest_path(directory), _temporary_path(directory, job)
    if stored_file is None:
        storage.create(path, f"{version}\n", temporary)
    else:
        storage.replace(path, f"{version}\n", stored_file, temporary)


def _temporary_path(directory: str, job: str) -> str:
    return f"{latest_path(directory)}.{job}{file_names.TEMP_SUFFIX}"


def _is_deleted(directory: str, version: str) -> bool:
    """Return True if nothing is left of a version that LATEST names, for example because somebody deleted it."""
    names = (file_names.SUCCESS, file_names.PUBLISHING, file_names.LOCK)
    return not any(storage.exists(storage.join(parent_folder(directory), version, name)) for name in names)


def version_in(found: StoredFile | None) -> str:
    """Return the version that a LATEST file names, or "" if there is no file."""
    return "" if found is None else found.data.decode(errors="replace").strip()


def find_previous_version(parent: str) -> tuple[str, str]:
    """Return the version that LATEST names, or the newest published one if that is not published or there is no LATEST.
    The version is "" if none is published; the second item is a notice, or "".

    If somebody deleted a file, the next version of a data set must not be treated as its first.
    """
    latest = read_latest(parent)
    if file_names.is_version(latest) and storage.exists(storage.join(parent, latest, file_names.SUCCESS)):
        return latest, ""
    published = [state.version for state in list_published(parent)]
    if not published:
        return "", ""
    problem = f"LATEST names {shorten(latest)!r}, which is not published" if latest else "there is no LATEST"
    return published[0], f"{problem}: {published[0]}, the newest that is published, takes its place"


def find_damage(directory: str) -> str:
    """Return a sentence on what is wrong with a version, or "": its manifest, a missing file, or a shard's size."""
    version = directory.rpartition("/")[2]
    try:
        manifest = open_dataset(directory, storage.StorageFiles()).manifest
    except (CorruptDataError, UserError) as error:
        return f"{version} is damaged: {error}"
    sizes = dict(storage.list_files(directory))
    for split in manifest.splits:
        for shard in split.shards:
            found = sizes.get(shard.file)
            if found is None:
                return f"{version} is damaged: {shard.file} is missing"
            if found != shard.size_bytes:
                return f"{version} is damaged: {shard.file} has {found:,} bytes instead of {shard.size_bytes:,}"
    missing = next((name for name in manifest.files if name not in sizes and name != file_names.MANIFEST), None)
    return f"{version} is damaged: {missing} is missing" if missing is not None else ""


def delete_version(directory: str, is_named: Callable[[], bool]) -> bool:
    """Delete the version in `directory`, whose lease the caller holds. Return True if it is gone, except for the lease.

    After an OSError, the version is whole, or no version.

    `is_named` returns True if LATEST or a tag names it by now; then it is kept.
    """
    if is_named():
        return False
    success, manifest = (storage.join(directory, name) for name in (file_names.SUCCESS, file_names.MANIFEST))
    was_published = storage.exists(success)
    storage.delete([success])
    storage.sync_directories([directory])
    if is_named():
        if was_published:
            storage.write_text(success, success_text(storage.read_bytes(manifest)))
        return False
    names = [name for name, _ in storage.list_files(directory) if name not in (file_names.MANIFEST, file_names.LOCK)]
    storage.delete(storage.join(directory, name) for name in names)
    storage.sync_directories([directory])
    for folder in storage.list_folders(directory):
        storage.remove_empty(storage.join(directory, folder))
    delete_build_files(directory)
    storage.delete([manifest])
    storage.remove_empty(directory)
    return True


def delete_build_files(directory: str) -> None:
    """Delete the version's files for later builds in the builds folder, except its build record."""
    parent, _, version = directory.rpartition("/")
    builds = storage.join(parent, file_names.BUILDS)
    names = [name for name, _ in storage.list_files(builds) if name.startswith(f"{version}.")]
    storage.delete(storage.join(builds, name) for name in names if "/" in name or not name.endswith(".json"))
    for folder in storage.list_folders(builds):
        if folder.startswith(f"{version}."):
            storage.remove_empty(storage.join(builds, folder))
