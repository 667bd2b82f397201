"""Checks before publishing, on the worker that publishes: what fails them is kept apart, and nothing is published."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from shardmill.checks.anomalies import to_pbtxt
from shardmill.checks.profile import Profile
from shardmill.checks.result import CheckResult
from shardmill.checks.run import failures, run_checks
from shardmill.errors import ChecksError, CorruptDataError, UserError
from shardmill.metadata import naming
from shardmill.metadata.manifest import Manifest
from shardmill.reading.dataset import open_dataset
from shardmill.statistics.stats_file import StatsFile
from shardmill.transforms.options.checks import CheckOptions
from shardmill.transforms.publishing.before import version_before
from shardmill.transforms.publishing.build_records import write_record
from shardmill.transforms.publishing.describe import PublishOptions, rejects_files
from shardmill.transforms.rejects.gathered import Rejects
from shardmill.transforms.stores import renames, storage
from shardmill.transforms.stores.streams import write_stream
from shardmill.transforms.writing.shard_info import ShardInfo
from shardmill.versions.build_record import BuildRecord
from shardmill.versions.published import comparison
from shardmill.versions.tags import find_version

MARK = "_FAILED"  # in the folder of a version that failed: which job's it is, and until when it is kept
_SHOWN = 3  # failed checks in a sentence


@dataclass(frozen=True, slots=True)
class Checked:
    """What the checks found of a version that may be published, and the version it was compared with, "" if none."""

    baseline: str = ""
    results: tuple[CheckResult, ...] = ()

    def told(self, record: BuildRecord, now: datetime) -> BuildRecord:
        """`record` with what was found, up to `now`."""
        begun = datetime.fromisoformat(record.started)
        return replace(
            record,
            baseline=self.baseline,
            checks=tuple(result.to_json() for result in self.results),
            seconds=max((now - begun).total_seconds(), 0.0),
        )


def check(
    shards: Sequence[ShardInfo], files: Mapping[str, bytes], rejects: Rejects, options: PublishOptions, today: datetime
) -> Checked:
    """Compare the version that is about to be published with the one before it.

    Args:
      shards: in the job's temporary directory.
      files: that describe the version, their bytes by name.
      rejects: of the version.
      options: of publishing, with checks.
      today: the time, with its zone.

    Raises:
      ChecksError: it must not be published; the shards, the files and `anomalies.pbtxt` are kept in
        `<name>/failed/<version>`.
    """
    assert options.checks is not None
    delete_expired(options.parent, today)
    profile = Profile(
        Manifest.from_json(files[naming.MANIFEST], naming.MANIFEST),
        StatsFile.from_json(files[naming.STATS], naming.STATS),
    )
    baseline, said = _baseline(options.parent, options.checks)
    asked = options.checks
    results = list(said)
    if not failures(said):
        results += run_checks(profile, baseline, asked.limits, asked.schema, by_feature=asked.columns)
    if failed := failures(results):
        compared = None if baseline is None else baseline.manifest.features
        anomalies = {naming.ANOMALIES: to_pbtxt(results, compared).encode()}
        kept = keep_failed(shards, {**files, **anomalies}, rejects, options, today)
        against = "" if baseline is None else comparison(options.version, baseline.version)
        told = filter(None, (sentence(failed), against, kept))
        why = f"{'; '.join(told)}; nothing was published{_remedy(failed, options.checks)}"
        if options.record is not None:
            compared_with = baseline.version if baseline is not None else ""
            record = Checked(compared_with, tuple(results)).told(options.record, today)
            write_record(options.parent, replace(record, status="checks_failed", reason=why))
        raise ChecksError(why)
    return Checked(baseline.version if baseline is not None else "", tuple(results))


def _baseline(parent: str, checks: CheckOptions) -> tuple[Profile | None, tuple[CheckResult, ...]]:
    """What a version is compared with, None where nothing is published yet; and why it cannot be compared, or is with
    another than LATEST names."""
    files, said = storage.StorageFiles(), ""
    try:
        if checks.baseline == naming.LATEST:
            version, said = version_before(parent)
        else:
            version, _ = find_version(files, parent, checks.baseline)
        baseline = Profile.of(open_dataset(storage.join(parent, version), files)) if version else None
    except (UserError, CorruptDataError, FileNotFoundError) as error:
        why = f"{checks.baseline}, which this version is to be compared with, cannot be read: {error}"
        return None, (CheckResult("baseline", "error", f"{why}; {_instead(parent, checks.baseline)}"),)
    return baseline, (CheckResult("baseline", "warn", said),) if said else ()


def _instead(parent: str, baseline: str) -> str:
    if baseline != naming.LATEST:
        return "let baseline name another version"
    return (
        f"`shardmill rollback {parent} VERSION` lets LATEST name one that is whole; where there is none, delete the"
        " folder of the damaged one"
    )


def sentence(failed: Sequence[CheckResult]) -> str:
    """What failed, the first few: of as many checks as there are, not one of them for each split."""
    firsts = {result.check: result for result in reversed(failed)}
    order = sorted(failed, key=lambda result: result is not firsts[result.check])
    told = "; ".join(f"{result.check}: {result.sentence}{_over(result)}" for result in order[:_SHOWN])
    more = f"; and {len(failed) - _SHOWN} more" if len(failed) > _SHOWN else ""
    return f"{len(failed)} check{'' if len(failed) == 1 else 's'} failed: {told}{more}"


def _remedy(failed: Sequence[CheckResult], checks: CheckOptions) -> str:
    """How a recipe lets pass what is as it should be."""
    names = dict.fromkeys(result.check for result in failed if result.check in checks.limits)
    if not names:
        return ""
    allowed = ", ".join(f"{name}: warn" for name in names)
    return f"; if that is as it should be, `checks: {{{allowed}}}` in the recipe lets it pass"


def _over(result: CheckResult) -> str:
    return f" (error at {result.threshold:g})" if result.threshold else ""


def keep_failed(
    shards: Sequence[ShardInfo], files: Mapping[str, bytes], rejects: Rejects, options: PublishOptions, today: datetime
) -> str:
    """Move a version that must not be published to `<name>/failed/<version>`, where no reader looks; what to say of it.

    An attempt that comes after another of its job goes on where that one stopped.
    """
    assert options.checks is not None
    if not options.checks.keep_failed:
        return "its shards are not kept"
    folder = storage.join(storage.join(options.parent, naming.FAILED), options.version)
    until = today + timedelta(days=options.checks.keep_failed)
    if _mark(folder).get("job") != options.job:
        storage.delete_tree(folder)
        storage.make_directory(folder)
        mark = {"job": options.job, "until": until.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
        storage.write_text(storage.join(folder, MARK), json.dumps(mark) + "\n")
    for name, data in files.items():
        storage.write_bytes(storage.join(folder, name), data)
    for name, found in rejects_files(rejects).items():
        write_stream(storage.join(folder, name), found.chunks(), found.size_bytes)
    renames.rename([shard.temporary for shard in shards], [storage.join(folder, str(shard.name)) for shard in shards])
    return f"the shards are kept in {folder} until {until:%Y-%m-%d}"


def delete_expired(parent: str, today: datetime) -> None:
    """Delete the versions that failed and have been kept for long enough."""
    above = storage.join(parent, naming.FAILED)
    now = today.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    for name in storage.list_folders(above):
        folder = storage.join(above, name)
        if _mark(folder).get("until", now) < now:
            storage.delete_tree(folder)


def _mark(folder: str) -> dict[str, str]:
    try:
        found = json.loads(storage.read_bytes(storage.join(folder, MARK)))
    except (FileNotFoundError, ValueError):
        return {}
    return {key: str(value) for key, value in found.items()} if isinstance(found, dict) else {}
