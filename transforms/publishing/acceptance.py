"""Publish a version that failed its checks and is kept in `failed/`, as it is."""

import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from shardmill.errors import CorruptDataError, LockedError, UserError
from shardmill.metadata import file_names
from shardmill.metadata.manifest import Manifest
from shardmill.metadata.versions import BuildRecord, record_path
from shardmill.quality.checks import find_failures
from shardmill.quality.limits import CheckResult
from shardmill.reading.dataset import Dataset, open_dataset
from shardmill.text import listed, plural
from shardmill.transforms.options.job_options import Acceptance
from shardmill.transforms.publishing import build_records, catalog, lease, publication
from shardmill.transforms.publishing.build_records import delete_unindexed, read_record
from shardmill.transforms.publishing.catalog import is_newer, open_failed, read_failed_mark, read_latest
from shardmill.transforms.publishing.publication import Journal, Move, crc32c_of
from shardmill.transforms.publishing.publish import failure_message
from shardmill.transforms.stores import storage

_THREADS = 16  # files that are read at once
_SHOWN = 3  # faults in a message


@dataclass(frozen=True, slots=True)
class FailedVersion:
    """A version that failed its checks, and the folders where it is kept and would be published."""

    parent: str  # the folder of all versions
    version: str

    @property
    def folder(self) -> str:
        """The folder in `failed/`."""
        return storage.join(self.parent, file_names.FAILED, self.version)

    @property
    def directory(self) -> str:
        """The version directory."""
        return storage.join(self.parent, self.version)

    def is_published(self) -> bool:
        """Return True if exactly the kept version is published; raise UserError if another build of it is."""
        if not storage.exists(storage.join(self.directory, file_names.SUCCESS)):
            return False
        crc32c = open_dataset(self.directory, storage.StorageFiles()).manifest_crc32c
        kept = read_failed_mark(self.folder)
        record = read_record(record_path(self.parent, self.version))
        if kept.get("manifest") == crc32c or (not kept and record is not None and record.accepted.get("by")):
            return True
        raise UserError(
            f"{self.directory} is published already, by another build than the one that failed; accept replaces no"
            " version, and nothing was changed"
        )

    def read_record(self, manifest: Manifest) -> BuildRecord:
        """Return the record of the build that failed; a new one if its build made none."""
        found = read_record(storage.join(self.folder, build_records.STAGED_RECORD))
        started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        splits = {split.name: split.examples for split in manifest.splits}
        return found or BuildRecord(manifest.name, self.version, "checks_failed", started, splits=splits)


def accept_version(
    failed: FailedVersion, acceptance: Acceptance, set_latest: bool = False, keep_latest: bool = False
) -> bool:
    """Publish a version that failed its checks and is kept; return False if it was published already.

    The kept files are copied, and deleted once the version is published. So a run that is killed can be repeated.

    Args:
        set_latest: point LATEST at the version even if a newer one was published after it had failed.
        keep_latest: publish it although such a version exists, and leave LATEST to that one.

    Raises:
        UserError: nothing is kept, or another build of the version is published.
        CorruptDataError: a kept file is missing or damaged.
        LockedError: another job builds or publishes the version, or has published a newer one.
        JobError: an operation failed; the message says what was published.
    """
    if failed.is_published():
        storage.delete_tree(failed.folder)
        return False
    dataset = open_failed(failed.folder)
    manifest, job = dataset.manifest, uuid.uuid4().hex
    record = failed.read_record(manifest)
    latest = _check_latest(failed, record, set_latest or keep_latest)
    kept_latest = catalog.describe_kept_latest(failed.directory, latest, set_latest)
    record = replace(record, notices=record.notices + kept_latest)
    temporary = file_names.temporary_folder(manifest.name, job)
    moves = _check_kept_files(failed, dataset, temporary)
    templates = tuple({manifest.file_template} - {file_names.DEFAULT_TEMPLATE})
    journal = Journal(
        job, manifest.name, failed.version, temporary, latest, tuple(moves), set_latest and not keep_latest, templates
    )
    try:
        with lease.hold_lease(failed.directory, temporary, job):
            try:
                if failed.is_published():  # by another process that accepted it meanwhile
                    return False
                _stage(failed, journal, _accept_record(record, acceptance))
                with storage.locked(failed.directory):
                    publication.begin_publication(failed.directory, journal)
                    publication.complete_publication(failed.directory, journal)
            finally:
                publication.delete_unpublished(failed.directory, temporary)
    finally:
        storage.remove_empty(failed.directory)
    delete_unindexed(
        failed.parent, failed.version, storage.read_bytes(storage.join(failed.folder, file_names.MANIFEST))
    )
    storage.delete_tree(failed.folder)
    return True


def _check_latest(failed: FailedVersion, record: BuildRecord, is_decided: bool) -> str:
    latest = read_latest(failed.parent)
    is_outrun = file_names.is_version(latest) and is_newer(latest, failed.version) and latest != record.before
    if is_outrun and not is_decided:
        raise LockedError(
            f"LATEST of {failed.parent} names {latest}, which is newer and was published after {failed.version} had"
            f" failed its checks, so nothing was published; --keep_latest publishes {failed.version} and leaves LATEST,"
            f" --set_latest points LATEST at {failed.version}"
        )
    return latest


def _check_kept_files(failed: FailedVersion, dataset: Dataset, temporary: str) -> list[Move]:
    """Read all files of a kept version and return their moves, the manifest last; raise CorruptDataError if one is
    missing or differs from what was written.
    """
    manifest = dataset.manifest
    if manifest.version != failed.version:
        raise CorruptDataError(f"{dataset.directory} holds version {manifest.version}; nothing was published")
    sizes = dict(storage.list_files(dataset.directory))
    shards = [shard for split in manifest.splits for shard in split.shards]
    expected = {shard.file: shard.crc32c for shard in shards} | dict(manifest.files)
    expected[file_names.MANIFEST] = dataset.manifest_crc32c

    def describe_fault(name: str) -> str:
        if name not in sizes:
            return f"{name} is missing"
        crc32c = crc32c_of(storage.join(dataset.directory, name))
        return "" if crc32c == expected[name] else f"{name} is not the file that was written: its crc32c is {crc32c}"

    with ThreadPoolExecutor(_THREADS, "shardmill-accept") as pool:
        faults = [fault for fault in pool.map(describe_fault, expected) if fault]
    if faults:
        raise CorruptDataError(
            f"{plural(len(faults), 'file')} of {dataset.directory} cannot be published:"
            f" {listed(faults, _SHOWN, ', …')}; nothing was published; build the version again"
        )
    return [Move(f"{temporary}/{name}", name, sizes[name], crc32c) for name, crc32c in expected.items()]


def _accept_record(record: BuildRecord, acceptance: Acceptance) -> BuildRecord:
    failures = find_failures(map(CheckResult.from_json, record.checks))
    accepted = acceptance.to_json(failures, datetime.now(UTC))
    reason = f"accepted by {acceptance.by}: {acceptance.reason}"
    if failures:
        reason += f"; {failure_message(failures)}"
    return replace(record, status="published", reason=reason, accepted=accepted)


def _stage(failed: FailedVersion, journal: Journal, record: BuildRecord) -> None:
    publication.delete_other_folders(failed.directory, journal.temporary)
    pairs = [(storage.join(failed.folder, move.file), storage.join(failed.directory, move.temporary))
             for move in journal.moves]  # fmt: skip
    with ThreadPoolExecutor(_THREADS, "shardmill-accept") as pool:
        for _ in pool.map(storage.copy, *zip(*pairs, strict=True)):
            pass
    with suppress(FileNotFoundError):
        build_records.stage_inputs(
            storage.join(failed.directory, journal.temporary),
            storage.read_bytes(storage.join(failed.folder, build_records.STAGED_INPUTS)),
        )
    build_records.stage_record(failed.directory, journal.temporary, record)
    copies = [copy for _, copy in pairs]
    storage.sync_files(copies)
    storage.sync_directories(publication.list_folders_of(copies, storage.join(failed.directory, journal.temporary)))
