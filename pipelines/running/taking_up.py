"""Interrupted publications, brought to their end: by the next run of their data set, or by `shardmill verify
--repair`."""

import json
import os
import uuid
from collections.abc import Iterator
from contextlib import suppress

from shardmill.errors import CorruptDataError, LockedError, UserError
from shardmill.metadata import naming
from shardmill.metadata.manifest import Manifest
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.reports import log
from shardmill.pipelines.reports.build_page import write_page_of
from shardmill.transforms.publishing import job_folder, lease, publication
from shardmill.transforms.publishing.latest import latest_path, write_latest
from shardmill.transforms.stores import conditional, locks, storage


def take_up(config: JobConfig) -> bool:
    """Complete what an earlier run of this version, whose lease the job has now, began to publish; whether that was a
    run like this one, so all is done.

    Raises:
      UserError: the version is published now, is not of a run like this one, and --overwrite was not given.
      JobError: it cannot be completed now.
    """
    said = _complete(config.directory, True, config.job)
    if said is None:
        return False
    log.say(said)
    if config.overwrite or not storage.exists(storage.join(config.directory, naming.SUCCESS)):
        return False
    if _made_alike(config):
        log.warn("the input was not read again; --overwrite does")
        return True
    raise UserError(
        f"{config.directory} is a published data set, of other flags or another input; give --overwrite to replace it,"
        " or another --version to keep both"
    )


def _made_alike(config: JobConfig) -> bool:
    path = storage.join(config.directory, naming.MANIFEST)
    manifest = Manifest.from_json(storage.read_bytes(path), path)
    mine = json.loads(json.dumps(config.to_json()))
    return mine == manifest.configuration and manifest.input.get("pattern") == config.source.split(" ", 1)[1]


def complete_interrupted(parent: str) -> list[str]:
    """Bring to its end what dead jobs began to publish of the versions in `parent`; what was done, in sentences.

    Whoever compares the input with what stands must do so first: what a dead job began to publish is of its own input.

    Raises:
      JobError: a publication cannot be completed now.
      OSError: the folder cannot be read or written.
    """
    said = []
    for version in storage.list_folders(parent):
        if naming.is_version(version):
            with suppress(LockedError):  # it is not dead
                said.append(_repair_version(storage.join(parent, version), discard=True))
    return [sentence for sentence in said if sentence is not None]


def repair(path: str) -> list[str]:
    """Bring to its end every publication that was interrupted in `path`, a version directory or the folder above.

    Returns:
      What was done, in sentences.

    Raises:
      LockedError: the job lives whose publication it is.
      JobError: a publication cannot be completed.
      OSError: the folder cannot be read or written.
    """
    directory = path.rstrip("/") or "/"
    if storage.is_local(directory):
        directory = os.path.abspath(directory)
    versions = [directory]
    if not naming.is_version(directory.rpartition("/")[2]):
        versions = [
            storage.join(directory, folder) for folder in storage.list_folders(directory) if naming.is_version(folder)
        ]
    said = [sentence for version in versions if (sentence := _repair_version(version)) is not None]
    return [*said, *_repair_latest(versions)]


def _repair_version(directory: str, discard: bool = False) -> str | None:
    if not storage.exists(storage.join(directory, naming.PUBLISHING)):
        return None
    job = uuid.uuid4().hex
    with lease.held(directory, naming.temporary_folder("repair", job), job):
        said = _complete(directory, discard, job)
    if said is not None and storage.exists(storage.join(directory, naming.SUCCESS)):
        write_page_of(directory)
    return said


def _repair_latest(versions: list[str]) -> Iterator[str]:
    """Let LATEST name the one version that was asked about, or that there is, where it names none."""
    whole = [version for version in versions if storage.exists(storage.join(version, naming.SUCCESS))]
    if len(whole) != 1 or not _is_shardmills(whole[0]):
        return
    (directory,) = whole
    found = conditional.read(latest_path(directory))
    named = "" if found is None else found.data.decode(errors="replace").strip()
    if naming.is_version(named) and storage.exists(
        storage.join(storage.join(directory.rpartition("/")[0], named), naming.SUCCESS)
    ):
        return
    write_latest(directory, directory.rpartition("/")[2], uuid.uuid4().hex, found)
    yield f"LATEST {f'named {named}, which is not published; it' if named else 'was missing; it'} names {directory} now"


def _is_shardmills(directory: str) -> bool:
    """Whether `directory` is a version directory beside which a LATEST belongs, and not a copy of one."""
    path = storage.join(directory, naming.MANIFEST)
    try:
        return Manifest.from_json(storage.read_bytes(path), path).version == directory.rpartition("/")[2]
    except (CorruptDataError, FileNotFoundError):
        return False


def _complete(directory: str, discard: bool, job: str) -> str | None:
    """Complete what was begun in a version directory, whose lease is that of `job`; what to say of it, None if there
    was nothing."""
    if not storage.exists(storage.join(directory, naming.PUBLISHING)):
        return None
    with locks.locked(directory):  # a worker of the dead job may live, and publish
        journal = job_folder.read_journal(directory)
        if journal is None:
            return None
        lost = publication.settle(directory, journal, discard, job)
    return lost or f"completed the publication of {directory}, in which an earlier run was interrupted"
