"""What a report is made of, read from the folder of a version and from what lies beside it."""

import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from shardmill.checks.profile import Profile
from shardmill.checks.result import CheckResult
from shardmill.checks.run import run_checks
from shardmill.errors import CorruptDataError, UserError
from shardmill.metadata import naming
from shardmill.pipelines.reports.html.content import Sources
from shardmill.pipelines.reports.html.pictures import find_pictures
from shardmill.pipelines.reports.html.shards import damaged_shards
from shardmill.reading.dataset import Dataset, open_dataset
from shardmill.transforms.options.checks import CheckOptions
from shardmill.transforms.publishing.build_records import read_record
from shardmill.transforms.stores import storage
from shardmill.versions.build_record import BuildRecord, record_path
from shardmill.versions.tags import find_version


def read_sources(dataset: Dataset, against: str | None) -> Sources:
    """What a report on a data set is made of.

    Args:
      dataset: its version.
      against: the version or tag to compare with; None for the one that its build was compared with.

    Raises:
      UserError: stats.json is missing; the version to compare with is not there.
      CorruptDataError: a file of either is damaged.
      OSError: the store fails.
    """
    parent, last = posixpath.split(dataset.directory)
    record = read_record(record_path(parent, last))
    if against is None:
        sources = sources_of_build(dataset, parent, record)
        damaged = damaged_shards(dataset, sources.pictures.unreadable)
        return replace(sources, results=[*damaged, *sources.results])
    profile = _profile(dataset)
    version, _ = find_version(dataset.files, parent, against)
    baseline = _profile(open_dataset(storage.join(parent, version), dataset.files))
    pictures = find_pictures(dataset, profile)
    damaged = damaged_shards(dataset, pictures.unreadable)
    results = [*damaged, *run_checks(profile, baseline, CheckOptions().limits)]
    checked = f"Checked now, against {version}."
    return Sources(profile, baseline, "", results, checked, record, _Rejects(dataset), pictures)


def sources_of_build(
    dataset: Dataset,
    parent: str,
    record: BuildRecord | None,
    before: Profile | None = None,
    profile: Profile | None = None,
) -> Sources:
    """What a report on a build is made of.

    Args:
      dataset: what it made.
      parent: the folder of all versions.
      record: of the build; None if there is none that can be read.
      before: of the version that LATEST named as it began, where that is known: it may have been replaced since.
      profile: of what it made; None to read that.

    Raises: as `read_sources` does.
    """
    profile = profile or _profile(dataset)
    baseline, why = _compared_with(dataset, parent, record, before)
    results, checked = _results(profile, baseline, record)
    pictures = find_pictures(dataset, profile)
    return Sources(profile, baseline, why, results, checked, record, _Rejects(dataset), pictures)


def _profile(dataset: Dataset) -> Profile:
    try:
        return Profile.of(dataset)
    except FileNotFoundError:
        raise UserError(
            f"{dataset.directory} has no {naming.STATS}, which a report is made of; build that version again"
        ) from None


def _compared_with(
    dataset: Dataset, parent: str, record: BuildRecord | None, before: Profile | None
) -> tuple[Profile | None, str]:
    """The version that a build was checked against, or else the one before it; or None, and why there is none."""
    version = "" if record is None else record.baseline or record.before
    if record is None or not version:
        return None, "No version before it is on record; --against names one to compare with."
    if before is not None and before.version == version:
        return before, ""
    since = f" What was told then: {record.since}." if record.since else ""
    if version == record.version:
        return None, f"It replaced the version of the same number.{since}"
    try:
        return _profile(open_dataset(storage.join(parent, version), dataset.files)), ""
    except (UserError, CorruptDataError, OSError):
        return None, f"{version}, the version before it, cannot be read any more.{since}"


def _results(
    profile: Profile, baseline: Profile | None, record: BuildRecord | None
) -> tuple[Sequence[CheckResult], str]:
    """What the checks found, and when they were made: those on record, if there are any."""
    if record is None or not (record.checks or record.page_checks):
        return usual_checks(profile, baseline), _for_this_page(None if baseline is None else baseline.version)
    try:
        stood = [CheckResult.from_json(check) for check in record.checks or record.page_checks]
    except ValueError as error:
        raise CorruptDataError(f"the record of its build has a check that is none: {error}") from error
    if not record.checks:
        return stood, _for_this_page(record.before if all(one.check != "baseline" for one in stood) else None)
    of = f", against {record.baseline}" if record.baseline else ""
    if record.status == "checks_failed":
        return stood, f"Checked as it was to be published{of}, and not published."
    return stood, f"Checked before it was published{of}."


def usual_checks(profile: Profile, baseline: Profile | None) -> list[CheckResult]:
    """What the checks say, with their usual thresholds, of a version whose build made none."""
    return run_checks(profile, baseline, CheckOptions().limits)


def _for_this_page(against: str | None) -> str:
    by = "by itself" if against is None else f"against {against}"
    return f"Checked {by} for this page: its build made no checks."


@dataclass(frozen=True, slots=True)
class _Rejects:
    """The lines of rejects/, which may be too many for memory; raises CorruptDataError, as they are read."""

    dataset: Dataset

    def __iter__(self) -> Iterator[str]:
        name = f"{naming.REJECTS_DIR}/{naming.REJECTS_FILE}"
        if not self.dataset.manifest.rejects.get("records"):
            return
        try:
            yield from self.dataset.lines(name)
        except (FileNotFoundError, UnicodeDecodeError) as error:
            path = storage.join(self.dataset.directory, name)
            raise CorruptDataError(f"{path} cannot be read: {_why(error)}") from error


def _why(error: Exception) -> str:
    return "it is missing" if isinstance(error, FileNotFoundError) else "it is not UTF-8"
