"""The page of a build, `<name>/builds/<version>.html`: that of `shardmill report`, beside the build's record."""

from contextlib import suppress
from dataclasses import replace

from shardmill.checks.profile import Profile
from shardmill.metadata import naming
from shardmill.metadata.manifest import Manifest
from shardmill.pipelines.reports import log
from shardmill.pipelines.reports.html.content import content
from shardmill.pipelines.reports.html.page import page
from shardmill.pipelines.reports.html.sources import sources_of_build, usual_checks
from shardmill.reading.dataset import Dataset, open_dataset
from shardmill.transforms.publishing.build_records import read_record
from shardmill.transforms.stores import storage
from shardmill.versions.build_record import BuildRecord, page_path, record_path


def write_page(
    parent: str,
    record: BuildRecord,
    path: str,
    before: Profile | None = None,
    made: tuple[Dataset, Profile] | None = None,
) -> None:
    """Write the page of a build that published a version, or whose version failed its checks and is kept; that it
    cannot be is a warning, and no reason to fail what has ended.

    Args:
      parent: the folder of all versions.
      record: of the build.
      path: where that lies.
      before: of the version that LATEST named as the build began, None where there was none or nobody knows.
      made: the version, opened, and its profile; None to read it.
    """
    try:
        dataset, profile = made or (_dataset(parent, record), None)
        if dataset is not None:
            sources = sources_of_build(dataset, parent, record, before, profile)
            text = page(content(sources, with_statistics=False), sources)
            out = page_path(path)
            storage.write_text(out, text, f"{out}.{record.started.replace(':', '')}.tmp")
    except Exception as error:  # a defect here, too, must not take the night
        log.warn(f"the page of this build could not be written: {str(error) or type(error).__name__}")


def with_page_checks(record: BuildRecord, profile: Profile | None, before: Profile | None) -> BuildRecord:
    """The record of a build that published a version and made no checks, with those of its page: of a wide table they
    take longer than all else, and need not be made whenever somebody asks for the page."""
    if record.checks or profile is None:
        return record
    with suppress(Exception):  # which `write_page` says, or `shardmill report`
        return replace(record, page_checks=tuple(result.to_json() for result in usual_checks(profile, before)))
    return record


def write_page_of(directory: str) -> None:
    """As `write_page`, of the version in `directory`, by the record that lies beside it; nothing without one."""
    parent, _, version = directory.rpartition("/")
    path = record_path(parent, version)
    try:
        record = read_record(path)
    except OSError as error:
        log.warn(f"the page of {version} could not be written: {error}")
        return
    if record is not None:
        write_page(parent, record, path)


def _dataset(parent: str, record: BuildRecord) -> Dataset | None:
    """What a build made; None if there is nothing of it."""
    files = storage.StorageFiles()
    if record.status in ("published", "outrun"):
        return open_dataset(storage.join(parent, record.version), files)
    folder = storage.join(storage.join(parent, naming.FAILED), record.version)
    path = storage.join(folder, naming.MANIFEST)
    if record.status != "checks_failed" or not files.exists(path):
        return None
    return Dataset(folder, Manifest.from_json(storage.read_bytes(path), path), files)
