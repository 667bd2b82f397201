"""What a report says, as data: `shardmill report --json` prints it, docs/json.md describes it, the page shows it. Pure.

It is of what lies in a version's folder and of the record of its build alone, so that the same files give the same.
"""

import json
from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from shardmill.checks.difference import differences, since
from shardmill.checks.profile import Profile
from shardmill.checks.result import CheckResult, worst
from shardmill.errors import CorruptDataError
from shardmill.features.feature import Feature
from shardmill.kinds.registry import kind_of
from shardmill.pipelines.reports.entries import near_duplicates_entry, split_entry
from shardmill.pipelines.reports.html.alerts import alerts
from shardmill.pipelines.reports.html.pictures import Picture, Pictures
from shardmill.transforms.rejects.reasons import MOST_REASONS, ReasonCounter
from shardmill.versions.build_record import BuildRecord

FORMAT = 1  # raised when a program that reads the former format would misread it

_NAMES = 3  # of rejected records, of each reason
_WORDS = {"ok": "good", "unknown": "good, as far as is known", "warn": "look at it", "error": "bad"}


@dataclass(frozen=True, slots=True)
class Sources:
    """What a report is made of.

    Attributes:
      profile: of the version.
      baseline: of the one that it is compared with; None if there is none.
      no_baseline: why there is none, in a sentence.
      results: of the checks.
      checked: when and against what the checks were made, in words.
      record: of the build; None if there is none that can be read.
      rejects: the lines of rejects/.
      pictures: the images to show.
    """

    profile: Profile
    baseline: Profile | None
    no_baseline: str
    results: Sequence[CheckResult]
    checked: str
    record: BuildRecord | None
    rejects: Iterable[str] = ()
    pictures: Pictures = field(default_factory=Pictures)


def content(sources: Sources, with_statistics: bool = True) -> dict[str, Any]:
    """All that a report says, in the page's order.

    Args:
      sources: what it is made of.
      with_statistics: whether features have, by split, what stats.json says; the page takes that of the profile.

    Raises:
      CorruptDataError: a line of rejects/ is none.
    """
    profile = sources.profile
    manifest = profile.manifest
    return {
        "format": FORMAT,
        "name": manifest.name,
        "version": manifest.version,
        "verdict": _verdict(sources),
        "splits": [split_entry(split, profile.stats) for split in manifest.splits],
        "changes": _changes(sources),
        "labels": [_label(profile, feature) for feature in profile.labels],
        "features": [_feature(profile, feature, with_statistics) for feature in manifest.features],
        "pictures": _pictures(sources.pictures),
        "duplicates": None if profile.stats.duplicates is None else profile.stats.duplicates.to_json(),
        "near_duplicates": near_duplicates_entry(profile.stats),
        "rejects": _rejects(sources),
        "shards": [
            {"split": split.name, "file": shard.file, "examples": shard.examples, "size_bytes": shard.size_bytes}
            for split in manifest.splits
            for shard in split.shards
        ],
        "made": _made(sources),
    }


def _verdict(sources: Sources) -> dict[str, Any]:
    severity = worst(sources.results)
    return {
        "severity": severity,
        "words": _WORDS[severity],
        "checked": sources.checked,
        "checks": [result.to_json() for result in sources.results],
    }


def _changes(sources: Sources) -> dict[str, Any]:
    new, old = sources.profile, sources.baseline
    if old is None:
        return {"against": None, "why": sources.no_baseline, "since": "", "differences": []}
    found = [asdict(difference) for difference in differences(new, old)]
    return {"against": old.version, "why": "", "since": since(new, old), "differences": found}


def _label(profile: Profile, feature: Feature) -> dict[str, Any]:
    """Examples, or objects, by class and split; None where a split does not say."""
    counts: dict[str, dict[str, int] | None] = {}
    for split, examples in profile.splits.items():
        summary = profile.summary(split, feature.name)
        known = summary.classes if summary is not None else None if examples else {}
        counts[split] = None if known is None else {name: known.get(name, 0) for name in feature.class_names}
    return {"name": feature.name, "of": f"{feature.unit}s", "classes": list(feature.class_names), "splits": counts}


def _feature(profile: Profile, feature: Feature, with_statistics: bool) -> dict[str, Any]:
    found = {
        split: (examples, summary)
        for split, examples in profile.splits.items()
        if examples and (summary := profile.summary(split, feature.name)) is not None
    }
    return {
        "name": feature.name,
        "dtype": feature.dtype,
        "kind": kind_of(feature).words(feature),
        "role": feature.role,
        "alerts": alerts(found, feature.role),
        "splits": {split: summary.to_json() for split, (_, summary) in found.items()} if with_statistics else {},
    }


def _pictures(pictures: Pictures) -> dict[str, Any]:
    def told(shown: Iterable[Picture]) -> list[dict[str, str]]:
        return [{"split": one.split, "class": one.label, "file": one.file} for one in shown]

    return {
        "number_of_classes": pictures.number_of_classes,
        "classes": [{"class": name, "images": told(shown)} for name, shown in pictures.classes],
        "extremes": [{"what": what, "images": told(shown)} for what, shown in pictures.extremes],
        "look_alikes": [{"bits": bits, "images": told(shown)} for bits, shown in pictures.look_alikes],
        "notes": list(pictures.notes),
    }


def _rejects(sources: Sources) -> dict[str, Any]:
    manifest = sources.profile.manifest.rejects
    counts = {str(reason): int(times) for reason, times in manifest.get("reasons", {}).items()}
    told, unsaid = bool(counts), ReasonCounter()
    names: dict[str, list[str]] = defaultdict(list)
    lines = iter(sources.rejects)
    for line in lines:
        try:
            reject = json.loads(line)
            reason, source, number = str(reject["reason"]), str(reject["source"]), reject["line"]
            unsaid.add(reason, int(reject.get("records") or 1), source)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            deque(lines, 0)  # at whose end it is known whether the file is the one that was written
            raise CorruptDataError(f"rejects/ has a line that is no rejected record: {error}") from error
        known = reason in counts if told else unsaid.knows(reason)
        if known and len(names[reason]) < _NAMES:  # of very many reasons, the most frequent are told
            of = f" in {reject['manifest']}" if "manifest" in reject else ""
            names[reason].append(source if number is None else f"{source}:{number}{of}")
    counts = counts or unsaid.by_records(MOST_REASONS)
    return {
        "records": int(manifest.get("records", 0)),
        "of_no_split": max(sources.profile.manifest.rejected_of_no_split, 0),
        "read": sources.profile.manifest.input.get("records"),
        "reasons": [
            {"reason": reason, "records": times, "names": names.get(reason, [])}
            for reason, times in sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        ],
    }


def _made(sources: Sources) -> dict[str, Any]:
    manifest, record = sources.profile.manifest, sources.record
    return {
        "input": dict(manifest.input),
        "configuration": dict(manifest.configuration),
        "versions": dict(manifest.versions),
        "notices": list(dict.fromkeys([*manifest.notices, *(sources.record.notices if sources.record else ())])),
        "build": None
        if record is None
        else {"status": record.status, "started": record.started, "seconds": record.seconds, "reason": record.reason},
    }
