"""Collect the content of a version's report as JSON-ready data."""

import json
import posixpath
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from shardmill.addons.reports.pictures import Picture, Pictures, find_pictures
from shardmill.data.features import Feature
from shardmill.data.kinds import kind_of
from shardmill.errors import CorruptDataError, UserError, describe_damage
from shardmill.metadata import file_names
from shardmill.metadata.manifest import SplitEntry
from shardmill.metadata.versions import BuildRecord, record_path
from shardmill.pipelines.reports.summary import format_share
from shardmill.quality.checks import run_checks
from shardmill.quality.limits import LEAKAGE_THRESHOLD, CheckResult, worst_severity
from shardmill.quality.profile import Profile, number_of_values
from shardmill.quality.stats_file import FeatureSummary, StatsFile
from shardmill.reading.dataset import Dataset, open_dataset
from shardmill.text import listed
from shardmill.transforms.options.job_options import CheckOptions, suggest_accepting
from shardmill.transforms.publishing.build_records import STAGED_RECORD, read_record
from shardmill.transforms.publishing.catalog import (
    failed_version_commands,
    find_version_folder,
    is_failed_folder,
    open_version,
    parent_folder,
)
from shardmill.transforms.stores import storage
from shardmill.transforms.workers.rejects import MOST_REASONS, ReasonCounter


def split_entry(split: SplitEntry, stats: StatsFile | None = None) -> dict[str, Any]:
    """Return a split as a JSON entry, with its shards' sizes in examples, and its further counts."""
    summary = None if stats is None else stats.splits.get(split.name)
    counts = [shard.examples for shard in split.shards] or [0]
    return {
        "name": split.name,
        "examples": split.examples,
        **({} if summary is None else summary.counts),
        "size_bytes": split.size_bytes,
        "rejected": split.rejected,
        "shards": len(split.shards),
        "smallest": min(counts),
        "largest": max(counts),
    }


_MOSTLY = 0.5  # of the examples
_FEWEST = 20  # values, below which it is no wonder that all differ


def alerts(summaries: Mapping[str, tuple[int, FeatureSummary]], role: str = "") -> list[str]:
    """Return alerts on a feature.

    Args:
        summaries: (examples, statistics of the feature) by split; splits without examples are left out
        role: of the feature; features that shardmill adds, such as `filename`, and labels may predict the label
    """
    own = () if role in ("source", "label") else (_warn_of_leakage,)
    kinds = (*own, _warn_of_missing, _warn_of_distinct, _warn_of_nonfinite, _warn_of_unnamed)
    return [alert for find in kinds for alert in find(summaries)]


def _warn_of_leakage(summaries: Mapping[str, tuple[int, FeatureSummary]]) -> Iterator[str]:
    found = {split: one.label_association for split, (_, one) in summaries.items() if one.label_association is not None}
    best = max(found, key=lambda split: found[split], default="")
    if best and found[best] > LEAKAGE_THRESHOLD:
        yield f"looks like the label: reduces errors in predicting it by {found[best]:.1%} in {best}"


def _warn_of_missing(summaries: Mapping[str, tuple[int, FeatureSummary]]) -> Iterator[str]:
    counted = {split: (examples, one.missing) for split, (examples, one) in summaries.items() if one.missing}
    everywhere = len(counted) == len(summaries) and all(missing == examples for examples, missing in counted.values())
    if counted and everywhere:
        yield "missing everywhere"
        return
    for split, (examples, missing) in counted.items():
        if missing == examples:
            yield f"missing in all of {split}"
        elif missing is not None and missing > _MOSTLY * examples:
            yield f"mostly missing: {format_share(missing, examples)} of {split}"


def _warn_of_distinct(summaries: Mapping[str, tuple[int, FeatureSummary]]) -> Iterator[str]:
    constant = [split for split, (_, one) in summaries.items() if _is_constant(one)]
    if constant and len(constant) == len(summaries):
        yield "constant"  # or one value a split, which the top values show
    elif constant:
        yield f"one value in {', '.join(constant)}"
    unique = [split for split, (examples, one) in summaries.items() if _is_unique(one, examples)]
    if unique and len(unique) == len(summaries):
        exact = all(one.distinct is not None and one.distinct.is_exact for _, one in summaries.values())
        yield "unique: every value differs" if exact else "unique or nearly so, by an estimate"


def _is_constant(summary: FeatureSummary) -> bool:
    # Infinite and NaN values are not counted as distinct
    others = summary.numbers.infinity + summary.numbers.nan if summary.numbers is not None else 0
    return summary.distinct is not None and summary.distinct.count == 1 and not others


def _is_unique(summary: FeatureSummary, examples: int) -> bool:
    values = number_of_values(summary, examples)
    if summary.distinct is None or values < _FEWEST or summary.per_example is not None:
        return False
    if summary.numbers is not None and isinstance(summary.numbers.minimum, float):
        return False  # of fractions it is no wonder
    return summary.distinct.count >= values * (1 - 2 * (summary.distinct.relative_error or 0.0))


def _warn_of_nonfinite(summaries: Mapping[str, tuple[int, FeatureSummary]]) -> Iterator[str]:
    for split, (_, one) in summaries.items():
        for word, count in (("NaN", one.numbers.nan), ("infinite", one.numbers.infinity)) if one.numbers else ():
            if count:
                yield f"{count:,} {word} in {split}"


def _warn_of_unnamed(summaries: Mapping[str, tuple[int, FeatureSummary]]) -> Iterator[str]:
    for split, (_, one) in summaries.items():
        if one.is_mixed:
            yield f"of different types in {split}"
        if one.without_name:
            yield f"{one.without_name:,} ids without a name in {split}"


FORMAT = 1  # raised when a program that reads the previous format would misread it

_NAMES = 3  # of rejected records, of each reason
_WORDS = {"ok": "good", "unknown": "good; some checks had no data", "warn": "look at it", "error": "bad"}


@dataclass(frozen=True, slots=True)
class ReportSources:
    """The data that a report is made from."""

    profile: Profile  # of the version
    baseline: Profile | None  # profile of the version compared with; None for none
    no_baseline: str  # why `baseline` is None, as a sentence
    results: Sequence[CheckResult]  # of the checks
    checked: str  # when and against what the checks ran, as text
    record: BuildRecord | None  # of the build; None if unreadable or missing
    rejects: Iterable[str] = ()  # the lines of rejects/
    pictures: Pictures = field(default_factory=Pictures)  # the images to show
    folder: str = ""  # of the version


def report_content(sources: ReportSources, with_statistics: bool = True) -> dict[str, Any]:
    """Return the content of a report, in the page's order; raise CorruptDataError if a line of rejects/ is malformed.

    `shardmill report --json` prints it, docs/json.md describes it, and the page shows it. It depends only on the files
    in a version's folder and on the build's record, so the same files give the same content. With statistics, it has
    those of features by split; the page takes them from the profile.
    """
    profile = sources.profile
    manifest, severity = profile.manifest, worst_severity(sources.results)
    return {
        "format": FORMAT,
        "name": manifest.name,
        "version": manifest.version,
        "verdict": {
            "severity": severity,
            "words": _WORDS[severity],
            "checked": sources.checked,
            "checks": [result.to_json() for result in sources.results],
            "accepted": {} if sources.record is None else dict(sources.record.accepted),
            "commands": _suggest_commands(sources.record, sources.folder),
        },
        "splits": [split_entry(split, profile.stats) for split in manifest.splits],
        "changes": _describe_changes(sources),
        "labels": [_count_labels(profile, feature, sources.baseline) for feature in profile.labels],
        "features": [_describe_feature(profile, feature, with_statistics) for feature in manifest.features],
        "pictures": _describe_pictures(sources.pictures),
        "duplicates": None if profile.stats.duplicates is None else profile.stats.duplicates.to_json(),
        **profile.stats.sections_json(),
        "rejects": _describe_rejects(sources),
        "shards": [
            {"split": split.name, "file": shard.file, "examples": shard.examples, "size_bytes": shard.size_bytes}
            for split in manifest.splits
            for shard in split.shards
        ],
        "made": _describe_build(sources),
    }


def _suggest_commands(record: BuildRecord | None, folder: str) -> list[dict[str, str]]:
    if record is None or record.status != "checks_failed" or not is_failed_folder(folder):
        return []
    commands = failed_version_commands(parent_folder(parent_folder(folder)), record.version, record.baseline)
    failed = [str(check.get("check")) for check in record.checks if check.get("severity") == "error"]
    if command := suggest_accepting(failed):
        commands.append(("build it again without these checks", command))
    return [{"what": what, "command": command} for what, command in commands]


def _describe_changes(sources: ReportSources) -> dict[str, Any]:
    new, old = sources.profile, sources.baseline
    if old is None:
        return {"against": None, "why": sources.no_baseline, "since": "", "differences": []}
    from shardmill.quality.difference import describe_changes, find_differences

    found = find_differences(new, old)
    since = describe_changes(new, old, found)
    return {"against": old.version, "why": "", "since": since, "differences": list(map(asdict, found))}


def _count_labels(profile: Profile, feature: Feature, baseline: Profile | None) -> dict[str, Any]:
    """Return examples or objects by class and split, and over all splits before and now; None for unknown counts."""
    counts: dict[str, dict[str, int] | None] = {}
    for split, examples in profile.splits.items():
        summary = profile.summary(split, feature.name)
        known = summary.classes if summary is not None else None if examples else {}
        counts[split] = None if known is None else {name: known.get(name, 0) for name in feature.class_names}
    return {
        "name": feature.name,
        "of": f"{feature.unit}s",
        "classes": list(feature.class_names),
        "splits": counts,
        "before": _count_before(profile, feature, baseline),
    }


def _count_before(profile: Profile, feature: Feature, baseline: Profile | None) -> dict[str, Any] | None:
    """Return the number of each class in the version compared with, over all splits, including classes that are gone;
    None if either version's is unknown.
    """
    before = None if baseline is None else baseline.features.get(feature.name)
    if baseline is None or before is None or not kind_of(before).has_classes or profile.class_counts(feature) is None:
        return None
    counts = baseline.class_counts(before)
    return None if counts is None else {"version": baseline.version, "classes": dict(counts)}


def _describe_feature(profile: Profile, feature: Feature, with_statistics: bool) -> dict[str, Any]:
    found = {
        split: (examples, summary)
        for split, examples in profile.splits.items()
        if examples and (summary := profile.summary(split, feature.name)) is not None
    }
    return {
        "name": feature.name,
        "dtype": feature.dtype,
        "kind": kind_of(feature).describe(feature),
        "role": feature.role,
        "alerts": alerts(found, feature.role),
        "splits": {split: summary.to_json() for split, (_, summary) in found.items()} if with_statistics else {},
    }


def _describe_pictures(pictures: Pictures) -> dict[str, Any]:
    def to_entries(shown: Iterable[Picture]) -> list[dict[str, str]]:
        return [{"split": one.split, "class": one.label, "file": one.file} for one in shown]

    return {
        "number_of_classes": pictures.number_of_classes,
        "classes": [{"class": name, "images": to_entries(shown)} for name, shown in pictures.classes],
        "extremes": [{"what": what, "images": to_entries(shown)} for what, shown in pictures.extremes],
        "look_alikes": [{**pair.facts, "images": to_entries(shown)} for pair, shown in pictures.pairs],
        "notes": list(pictures.notes),
    }


def _describe_rejects(sources: ReportSources) -> dict[str, Any]:
    manifest = sources.profile.manifest.rejects
    counts = {str(reason): int(times) for reason, times in manifest.get("reasons", {}).items()}
    has_counts, unsaid = bool(counts), ReasonCounter()
    names: dict[str, list[str]] = defaultdict(list)
    lines = iter(sources.rejects)
    for line in lines:
        try:
            reject = json.loads(line)
            reason, source, number = str(reject["reason"]), str(reject["source"]), reject["line"]
            unsaid.add(reason, int(reject.get("records") or 1), source)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            deque(lines, 0)  # at whose end it is known whether the file is the one that was written
            raise CorruptDataError(f"rejects/ has a line that is no reject: {describe_damage(error)}") from error
        known = reason in counts if has_counts else unsaid.is_counted(reason)
        if known and len(names[reason]) < _NAMES:  # lists only the most frequent reasons
            of = f" in {reject['manifest']}" if "manifest" in reject else ""
            names[reason].append(source if number is None else f"{source}:{number}{of}")
    counts = counts or unsaid.by_records(MOST_REASONS)
    return {
        "records": int(manifest.get("records", 0)),
        "of_no_split": max(sources.profile.manifest.rejected_without_split, 0),
        "read": sources.profile.manifest.input.get("records"),
        "reasons": [
            {"reason": reason, "records": times, "names": names.get(reason, [])}
            for reason, times in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        ],
    }


def _describe_build(sources: ReportSources) -> dict[str, Any]:
    manifest, record = sources.profile.manifest, sources.record
    return {
        "input": dict(manifest.input),
        "configuration": dict(manifest.configuration),
        "versions": dict(manifest.versions),
        "notices": list(dict.fromkeys([*manifest.notices, *(record.notices if record else ())])),
        "build": None
        if record is None
        else {key: getattr(record, key) for key in ("status", "started", "seconds", "reason")},
    }


CHECK = "damaged_shards"
_NAMED = 3  # shards, in a sentence


def damaged_shards(dataset: Dataset, unreadable: Mapping[str, str]) -> list[CheckResult]:
    """Return an error result if shards are missing, unreadable or of another size than in the manifest, else [].

    `shardmill verify` reads shards completely; this takes the reasons in `unreadable`, by shard.
    """
    root = f"{dataset.directory.rstrip('/')}/"
    sizes = {found.path.removeprefix(root): found.size_bytes for found in storage.stat_files(dataset.directory)}
    shards = [shard for split in dataset.manifest.splits for shard in split.shards]
    sentences = []
    for shard in shards:
        name, size_bytes = shard.file, sizes.get(shard.file)
        if size_bytes is None:
            sentences.append(f"{name} is missing")
        elif size_bytes != shard.size_bytes:
            sentences.append(f"{name} has {size_bytes:,} bytes, not {shard.size_bytes:,}")
        elif name in unreadable:
            sentences.append(f"{name} cannot be read ({unreadable[name]})")
    if not sentences:
        return []
    some = listed(sentences, _NAMED, ", …")
    sentence = f"{len(sentences):,} of {len(shards):,} shards are not what was written: {some}"
    return [CheckResult(CHECK, "error", sentence, value=float(len(sentences)))]


def read_sources(dataset: Dataset, against: str | None) -> ReportSources:
    """Read the sources of a report on a version, compared with `against`, or with what its build was compared with.

    Raises:
        UserError: stats.json is missing, or the version to compare with is not there.
        CorruptDataError: a file of either is damaged.
        OSError: the store fails.
    """
    parent, last = posixpath.split(dataset.directory)
    record_file = record_path(parent, last)
    if is_failed_folder(dataset.directory):
        parent, record_file = parent_folder(parent), storage.join(dataset.directory, STAGED_RECORD)
    record = read_record(record_file)
    if against is None:
        sources = sources_of_build(dataset, parent, record)
    else:
        profile, baseline = read_profile(dataset), read_profile(open_version(find_version_folder(parent, against)))
        pictures, results = find_pictures(dataset, profile), run_default_checks(profile, baseline)
        of, rejects = f"Checked now, against {baseline.version}.", _Rejects(dataset)
        sources = ReportSources(profile, baseline, "", results, of, record, rejects, pictures, dataset.directory)
    damaged = damaged_shards(dataset, sources.pictures.unreadable)
    return replace(sources, results=[*damaged, *sources.results])


def sources_of_build(
    dataset: Dataset,
    parent: str,
    record: BuildRecord | None,
    before: Profile | None = None,
    profile: Profile | None = None,
) -> ReportSources:
    """Read the sources of a report on the build that made `dataset`; raises as `read_sources`.

    Args:
        record: of the build; None if unreadable or missing
        before: profile of the version that LATEST named as it began, if known: it may have been replaced since
        profile: of the version; None to read it
    """
    profile = profile or read_profile(dataset)
    baseline, why = _find_compared_profile(dataset, parent, record, before)
    results, checked = _find_results(profile, baseline, record)
    pictures = find_pictures(dataset, profile)
    return ReportSources(
        profile, baseline, why, results, checked, record, _Rejects(dataset), pictures, dataset.directory
    )


def read_profile(dataset: Dataset) -> Profile:
    """Read the profile of a version; raise UserError if its statistics are missing."""
    try:
        return Profile(dataset.manifest, dataset.stats())
    except FileNotFoundError:
        raise UserError(
            f"{dataset.directory} has no {file_names.STATS}, which a report is made of; build that version again"
        ) from None


def _find_compared_profile(
    dataset: Dataset, parent: str, record: BuildRecord | None, before: Profile | None
) -> tuple[Profile | None, str]:
    """Return the profile that a build was checked against, or else of the version before it; or None and the reason."""
    version = "" if record is None else record.baseline or record.before
    if record is None or not version:
        return None, "No version before it is on record; --against names one to compare with."
    if before is not None and before.version == version:
        return before, ""
    since = f" Its changes at that time: {record.since}." if record.since else ""
    if version == record.version:
        return None, f"It replaced the version of the same number.{since}"
    try:
        return read_profile(open_dataset(storage.join(parent, version), dataset.files)), ""
    except (UserError, CorruptDataError, OSError):
        return None, f"{version}, the version before it, cannot be read any more.{since}"


def _find_results(
    profile: Profile, baseline: Profile | None, record: BuildRecord | None
) -> tuple[Sequence[CheckResult], str]:
    """Return the results of a version's checks, from its build record if that has any, and when they were made."""
    if record is None or not (record.checks or record.page_checks):
        return run_default_checks(profile, baseline), _explain_checks(None if baseline is None else baseline.version)
    try:
        stood = [CheckResult.from_json(check) for check in record.checks or record.page_checks]
    except ValueError as error:
        raise CorruptDataError(f"the record of its build has a check that is none: {error}") from error
    if not record.checks:
        return stood, _explain_checks(record.before if all(one.check != "baseline" for one in stood) else None)
    of = f", against {record.baseline}" if record.baseline else ""
    if record.status == "checks_failed":
        return stood, f"Checked as it was to be published{of}, and not published."
    if record.accepted:
        return stood, f"Checked before it was published{of}, and accepted although checks failed."
    return stood, f"Checked before it was published{of}."


_COMPARED = 1000  # features of a split: of a wide table all take longer than its conversion


def run_default_checks(profile: Profile, baseline: Profile | None) -> list[CheckResult]:
    """Run the checks with default thresholds, for a version whose build made none."""
    return run_checks(profile, baseline, CheckOptions().limits, at_most=_COMPARED)


def _explain_checks(against: str | None) -> str:
    by = "by itself" if against is None else f"against {against}"
    return f"Checked {by} for this page: its build made no checks."


@dataclass(frozen=True, slots=True)
class _Rejects:
    """The lines of a version's rejects/, which may not fit into memory; raises CorruptDataError while they are read."""

    dataset: Dataset

    def __iter__(self) -> Iterator[str]:
        name = f"{file_names.REJECTS_DIR}/{file_names.REJECTS_FILE}"
        if not self.dataset.manifest.rejects.get("records"):
            return
        try:
            yield from self.dataset.lines(name)
        except (FileNotFoundError, UnicodeDecodeError) as error:
            path = storage.join(self.dataset.directory, name)
            problem = "it is missing" if isinstance(error, FileNotFoundError) else "it is not UTF-8"
            raise CorruptDataError(f"{path} cannot be read: {problem}") from error
