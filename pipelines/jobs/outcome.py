"""The outcome of a job, its record, and the recovery of interrupted publications."""

import json
import os
import shutil
import tempfile
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

import shardmill
from shardmill import errors
from shardmill.addons import registry
from shardmill.metadata import file_names
from shardmill.metadata.file_names import LATEST
from shardmill.metadata.manifest import Manifest
from shardmill.metadata.versions import BuildRecord, Status, page_path, record_path
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.reports import log
from shardmill.quality.profile import Profile
from shardmill.reading.dataset import Dataset
from shardmill.text import html_table
from shardmill.transforms.publishing import lease, publication
from shardmill.transforms.publishing.build_records import read_record, write_record
from shardmill.transforms.publishing.catalog import latest_path, write_latest
from shardmill.transforms.publishing.lease import Lease
from shardmill.transforms.shards.sources import FileIndex
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import StoredFile, file_error, limit_timeouts, os_error_text, writing_error

Failure = errors.UserError | errors.JobError | errors.CorruptDataError
_STATUSES: tuple[tuple[type[Exception], Status], ...] = (
    (errors.OutrunError, "outrun"),
    (errors.LockedError, "locked"),
    (errors.ChecksError, "checks_failed"),
    (errors.OutdatedError, "outdated"),
)


class Interrupted(KeyboardInterrupt):
    """An interrupted build; the message says what was published, the cause what interrupted it."""

    record: BuildRecord | None = None  # the build's record, if it has one
    has_begun_to_publish = False  # or has published: then the record that the job itself has staged counts


@dataclass(frozen=True, slots=True)
class Published:
    """A data set version that a job has published.

    Attributes:
        directory: folder of the version.
        splits: numbers of examples by split, in the splits' order.
        rejected: number of rejected records.
        notices: sentences about the input, as in the command's summary.
        dataset: the opened version; another job may have replaced it since.
    """

    directory: str
    splits: Mapping[str, int]
    rejected: int
    notices: tuple[str, ...]
    dataset: Dataset = field(repr=False, compare=False)

    @property
    def version(self) -> str:
        """Return the version, for example `1.0.0`."""
        return self.dataset.manifest.version

    def _repr_html_(self) -> str:
        rejected = [f"{self.rejected:,} records rejected: {self.directory}/rejects/"] if self.rejected else []
        notes = [*rejected, *(f"NOTE: {notice}" for notice in self.notices)]
        return html_table(f"Published: {self.directory}", ["split", "examples"], self.splits.items(), notes)


@dataclass(frozen=True, slots=True)
class Launched:
    """A job written as a template, which its runner runs and publishes after this process has ended."""

    directory: str  # of the version that it will publish
    template: str  # the path it was written to

    def __str__(self) -> str:
        return f"the job was written to {self.template}; that job alone writes {self.directory}, and publishes it"


@dataclass(frozen=True, slots=True)
class Built:
    """The end of a build: its record, the version that it published, and the error if it failed."""

    record: BuildRecord
    published: Published | None = None  # None if nothing was, or not yet, as for a launched job
    error: Failure | None = None  # the error that ended it; None for success
    index: FileIndex | None = None  # files remembered and reused; None without --reuse
    profile: Profile | None = None  # of the published version; None if its statistics cannot be read

    @property
    def exit_status(self) -> int:
        """Return the exit status of a command that ran only this build."""
        return 0 if self.error is None else self.error.exit_status


def begin_record(name: str, version: str) -> BuildRecord:
    """Return the record of a build that begins now; its status is "published", to be replaced if the build fails."""
    started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return BuildRecord(name, version, "published", started, shardmill=shardmill.__version__)


def failed_record(record: BuildRecord, error: Exception) -> BuildRecord:
    """Return `record` with the status and reason of a build that `error` ended."""
    status: Status = next((status for kind, status in _STATUSES if isinstance(error, kind)), "failed")
    return replace(record, status=status, reason=getattr(error, "sentence", str(error)))


def record_interruption(
    parent: str, record: BuildRecord, cause: KeyboardInterrupt, record_first_failure: bool = False
) -> Interrupted:
    """Write the record of an interrupted build and return the exception to raise, with that record.

    If the version was published all the same, or its publication has begun, the record that the job has staged counts.
    The `cause` is an Interrupted if it already says what was published.
    """
    current = None
    with limit_timeouts(), suppress(OSError):
        current = read_record(record_path(parent, record.version)) if record.version else None
    is_published = current is not None and current.is_same_build(record) and current.status == "published"
    outcome = f"{storage.join(parent, record.version)} is published" if is_published else NOTHING_PUBLISHED
    interruption = cause if isinstance(cause, Interrupted) else Interrupted(outcome)
    if not is_published:
        current = replace(record, status="interrupted", reason=str(interruption))
        if record.version and not interruption.has_begun_to_publish:
            write_unpublished(parent, current, record_first_failure)
    interruption.record = current
    return interruption


def interruption_of_report(built: Built, cause: KeyboardInterrupt) -> Interrupted:
    """Return the exception to raise for a signal that came after a build had ended, with the build's record."""
    interruption = Interrupted(f"{built.record.name} {built.record.version}: {built.record.status}")
    interruption.record, interruption.__cause__ = built.record, cause
    return interruption


def write_unpublished(parent: str, record: BuildRecord, record_first_failure: bool = False) -> str:
    """Write the record of a build that published nothing, and return its path; "" if it was not written.

    A failure to write is only logged, for how the build ended matters more. With `record_first_failure` it is written
    even if there is no data set yet, as for a night that nobody watches. A command that failed at a prompt leaves
    nothing behind.
    """
    try:
        with limit_timeouts():
            if record_first_failure or storage.exists(storage.join(parent, LATEST)):
                return write_record(parent, record)
    except OSError as error:
        log.warn(record_warning(error))
    return ""


def record_warning(error: OSError) -> str:
    """Return the message for a record that cannot be written."""
    return f"the record of this build could not be written: {os_error_text(error)}"


def exit_interrupted(cause: BaseException | None) -> NoReturn:
    """End this process at once, with the exit status of its cause: a local runner's threads cannot be stopped."""
    os._exit(errors.interruption_status(cause))


@contextmanager
def name_published(directory: str) -> Iterator[None]:
    """Within this context, say of errors that a version is published, as of one that cannot be read any more."""
    try:
        yield
    except (errors.UserError, errors.CorruptDataError, OSError) as error:
        raise errors.JobError(f"{directory} is published, but {error}") from error


NOTHING_PUBLISHED = "nothing was published"
_CLEANUP_ATTEMPTS, _CLEANUP_PAUSE_S = 20, 0.02  # at clearing up, with so many seconds between them


def take_lease(config: JobConfig, detached: bool = False) -> Lease:
    """Take the lease of the version directory; a `detached` job may outlive this process.

    Raises a LockedError if another job builds that version, a UserError if it cannot be written, and a JobError if
    there is no room.
    """
    try:
        seconds = lease.DETACHED_LEASE_SECONDS if detached else lease.LEASE_SECONDS
        return lease.take_lease(config.directory, config.temporary, config.job, seconds, detached)
    except OSError as error:
        store_error = writing_error(error, config.directory)
        where = f": {store_error.filename}" if store_error.filename else ""
        raise file_error(f"--output {config.output} cannot be written{where}", store_error) from None


def read_success(config: JobConfig) -> StoredFile | None:
    """Return the stored `_SUCCESS` of the version directory, or None; it differs once the version is published."""
    return storage.read(storage.join(config.directory, file_names.SUCCESS))


def missing_folders(config: JobConfig) -> list[str]:
    """Return the local folders that the job will create, inner ones first."""
    folders = []
    path = os.path.abspath(config.directory)
    while storage.is_local(config.output) and not os.path.lexists(path):
        folders.append(path)
        path = os.path.dirname(path)
    return folders


def clean_up(config: JobConfig, created_folders: Sequence[str], previous_success: StoredFile | None) -> str:
    """Delete the temporary files of a failed job whose lease has ended, and the folders it created if they are empty.

    If its publication has begun, nothing is deleted: all files are there, and the next run completes it. Files that
    cannot be deleted are reported; the next run deletes them. `previous_success` is the version's _SUCCESS file before
    the job began. Return a sentence on what was published.
    """
    folder = storage.join(config.directory, config.temporary)
    completes = f"the next run, or `shardmill verify --repair {config.directory}`, completes it"
    for _ in range(_CLEANUP_ATTEMPTS):
        failed: OSError | None = None
        try:
            if not publication.delete_unpublished(config.directory, config.temporary):
                return f"the publication of {config.directory} had begun: {completes}"
        except OSError as error:  # threads of the job still write there, or the store fails, as it did for the job
            failed = error
        if not storage.is_local(folder) or not os.path.lexists(folder):
            break
        time.sleep(_CLEANUP_PAUSE_S)
    if failed is not None:
        log.warn(
            f"{folder} could not be deleted, nor perhaps {file_names.LOCK} next to it; the next run deletes them:"
            f" {os_error_text(failed)}"
        )
    try:
        now = read_success(config)
    except OSError:
        return f"it is not known whether {config.directory} is published; if that had begun, {completes}"
    if now is not None and now != previous_success:
        return f"{config.directory} is published"
    with suppress(OSError):  # another job may have begun there
        for path in created_folders:
            os.rmdir(path)
    return NOTHING_PUBLISHED


def recover(config: JobConfig) -> bool:
    """Complete the publication that an earlier run of this version began; return True if that run was like this one.

    The job must hold the version's lease. True means that nothing is left to do. Raises a UserError if the version is
    now published by a different run and --overwrite was not given, and a JobError if it cannot be completed now.
    """
    message = _complete_version(config.directory, True, config.job)
    if message is None:
        return False
    log.info(message)
    if config.overwrite or not storage.exists(storage.join(config.directory, file_names.SUCCESS)):
        return False
    path = storage.join(config.directory, file_names.MANIFEST)
    manifest = Manifest.from_json(storage.read_bytes(path), path)
    is_of_same_flags = json.loads(json.dumps(config.to_json())) == manifest.configuration
    if config.inputs and is_of_same_flags and manifest.input.get("pattern") == config.pattern:
        log.warn("the input was not read again; --overwrite does")
        return True
    raise errors.UserError(
        f"{config.directory} is a published data set, of other flags or another input; give --overwrite to replace it,"
        " or another --version to keep both"
    )


_SCRATCH_PREFIXES = tuple(f"shardmill-{kind}-" for kind in ("plan", "progress", "rows", "verify"))


def delete_stale_folders() -> None:
    """Delete the scratch folders of dead processes: nobody holds the lock of the folder."""
    for folder in Path(tempfile.gettempdir()).glob("shardmill-*"):
        with suppress(OSError):  # another user's, or another run was faster
            if folder.name.startswith(_SCRATCH_PREFIXES) and folder.stat().st_uid == os.getuid():
                held = storage.hold_lock(str(folder))  # while it is deleted: a new process may be about to hold it
                if held is not None:
                    delete_folder(str(folder))
                    storage.release_lock(held)


def delete_folder(folder: str) -> None:
    """Delete a local folder as far as possible; raises KeyboardInterrupt if a signal comes meanwhile.

    In shutil.rmtree of Python 3.11, a signal just after a descriptor was closed closes it again, and that error hides
    the signal.
    """
    try:
        shutil.rmtree(folder, ignore_errors=True)
    except OSError as error:
        if isinstance(error.__context__, KeyboardInterrupt):
            raise error.__context__ from None
        raise


def write_page_of(directory: str, only_if_missing: bool = False) -> bool:
    """Write the page of the published version in `directory` from its record; a failure is a warning.

    Return False if it has no record, or with `only_if_missing` a page: its job may have ended before it wrote that.
    """
    parent, _, version = directory.rpartition("/")
    path = record_path(parent, version)
    try:
        record = None if only_if_missing and storage.exists(page_path(path)) else read_record(path)
    except OSError as error:
        if not only_if_missing:  # else the job reads these files next, and its error says it
            log.warn(f"{page_path(path)} could not be written: {os_error_text(error)}")
        return False
    if record is None or record.status not in ("published", "outrun"):
        return False
    for pages in registry.modules("page"):
        pages.write_page(parent, record, path)
    return True


def complete_interrupted(parent: str) -> list[str]:
    """Complete the publications that dead jobs began in the folder `parent`, and return a sentence for each.

    Call it before comparing inputs: an interrupted publication belongs to its own input.
    """
    messages = []
    for version in _list_versions(parent):
        with suppress(errors.LockedError):  # it is not dead
            messages.append(_repair_version(version, discard=True))
    return [sentence for sentence in messages if sentence is not None]


def _list_versions(parent: str) -> list[str]:
    return [storage.join(parent, name) for name in storage.list_folders(parent) if file_names.is_version(name)]


def repair(path: str) -> list[str]:
    """Complete every interrupted publication in `path`, a version directory or the folder above, and fix LATEST.

    The LOCK of a job that has ended is deleted, and a page that it had not written yet is written.

    Return a sentence for each repair. Raises a LockedError if the publishing job is still alive, and a JobError if a
    publication cannot be completed.
    """
    directory = path.rstrip("/") or "/"
    if storage.is_local(directory):
        directory = os.path.abspath(directory)
    is_version = file_names.is_version(directory.rpartition("/")[2])
    versions = [directory] if is_version else _list_versions(directory)
    steps = _repair_version, _delete_dead_lock, _write_missing_page
    repairs = (step(version) for version in versions for step in steps)
    messages = [sentence for sentence in repairs if sentence is not None]
    return [*messages, *_repair_latest(versions)]


def _write_missing_page(directory: str) -> str | None:
    is_written = write_page_of(directory, only_if_missing=True)
    return f"wrote the page of {directory}, whose job had ended before it did" if is_written else None


def _delete_dead_lock(directory: str) -> str | None:
    owner = lease.read_holder(directory)
    if owner is None or publication.is_under_way(directory) or not publication.delete_remains(directory):
        return None
    return f"deleted the LOCK that {owner}, which has ended, left in {directory}"


def _repair_version(directory: str, discard: bool = False) -> str | None:
    if not storage.exists(storage.join(directory, file_names.PUBLISHING)):
        return None
    job = uuid.uuid4().hex
    with lease.hold_lease(directory, file_names.temporary_folder("repair", job), job):
        message = _complete_version(directory, discard, job)
    if message is not None and storage.exists(storage.join(directory, file_names.SUCCESS)):
        write_page_of(directory)
    return message


def _repair_latest(versions: list[str]) -> Iterator[str]:
    complete = [version for version in versions if storage.exists(storage.join(version, file_names.SUCCESS))]
    if len(complete) != 1 or not _is_version_folder(complete[0]):
        return
    (directory,) = complete
    parent, _, version = directory.rpartition("/")
    found = storage.read(latest_path(directory))
    named = "" if found is None else found.data.decode(errors="replace").strip()
    if file_names.is_version(named) and storage.exists(storage.join(parent, f"{named}/{file_names.SUCCESS}")):
        return
    write_latest(directory, version, uuid.uuid4().hex, found)
    yield f"LATEST {f'named {named}, which is not published; it' if named else 'was missing; it'} names {directory} now"


def _is_version_folder(directory: str) -> bool:
    path = storage.join(directory, file_names.MANIFEST)
    try:
        return Manifest.from_json(storage.read_bytes(path), path).version == directory.rpartition("/")[2]
    except (errors.CorruptDataError, FileNotFoundError):
        return False


def _complete_version(directory: str, discard: bool, job: str) -> str | None:
    if not storage.exists(storage.join(directory, file_names.PUBLISHING)):
        return None
    with storage.locked(directory):  # a worker of the dead job may live, and publish
        journal = publication.read_journal(directory)
        if journal is None:
            return None
        lost = publication.complete_or_undo(directory, journal, discard, job)
    return lost or f"completed the publication of {directory}, in which an earlier run was interrupted"
