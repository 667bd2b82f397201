"""Checks of what lets a model know its answers before it is asked."""

from collections.abc import Iterator

from shardmill.checks.limits import ALIKE, ByFeature, LimitsByCheck, limits_of
from shardmill.checks.profile import Profile
from shardmill.checks.result import CheckResult

_TRAIN = "train"  # whose examples are to be seen: what is measured on is the others


def tells_label(profile: Profile, feature: str) -> float | None:
    """How well a feature tells the label, 0 to 1, in train or else the first split that has examples; None where nobody
    knows."""
    filled = [split for split, examples in profile.splits.items() if examples]
    if not filled:
        return None
    summary = profile.summary(_TRAIN if _TRAIN in filled else filled[0], feature)
    return None if summary is None or summary.label_association is None else float(summary.label_association)


def label_leakage(new: Profile, limits: LimitsByCheck, own: ByFeature = ALIKE) -> Iterator[CheckResult]:
    """How well each feature tells the label; `own` are limits that hold for single features."""
    for feature, known in new.features.items():
        limit, found = limits_of(feature, limits, own)["label_leakage"], tells_label(new, feature)
        if limit.is_off or found is None or known.role != "input":  # such as `filename`, in the label's folder
            continue
        severity, threshold = limit.over(found)
        said = f"who knows {feature!r} guesses the label wrongly {found:.1%} less often than who knows nothing"
        if severity != "ok":
            said = f"{said}: it looks like the label"
        yield CheckResult("label_leakage", severity, said, feature, "", found, threshold)


def similar_contents(new: Profile, limits: LimitsByCheck) -> Iterator[CheckResult]:
    """The share of each split's pictures that look like one in another split; nothing where nobody looked for such."""
    limit, near = limits["similar_contents"], new.stats.near_duplicates
    splits = {split: examples for split, examples in new.splits.items() if examples}
    if limit.is_off or near is None or len(splits) < 2:
        return
    for split, examples in splits.items():
        if split == _TRAIN:
            continue
        shared = near.elsewhere.get(split, 0)
        severity, threshold = limit.over(shared / examples)
        said = f"{shared:,} of {examples:,} pictures of {split!r} look like one of another split"
        yield CheckResult("similar_contents", severity, said, "", split, shared / examples, threshold)


def conflicting_labels(new: Profile, limits: LimitsByCheck) -> Iterator[CheckResult]:
    """The share of all examples whose content another example of another class has; nothing where there is none."""
    limit, duplicates = limits["conflicting_labels"], new.stats.duplicates
    if limit.is_off or duplicates is None or duplicates.conflicts is None or not new.examples:
        return
    found = sum(duplicates.conflicts.examples.values()) / new.examples
    severity, threshold = limit.over(found)
    yield CheckResult("conflicting_labels", severity, duplicates.conflicts.sentence(), "", "", found, threshold)


def shared_contents(new: Profile, limits: LimitsByCheck) -> Iterator[CheckResult]:
    """The share of each split's examples, or of the documents that these are cut from, whose content is in another
    split, too."""
    limit, duplicates = limits["shared_contents"], new.stats.duplicates
    counted = new.splits if duplicates is None or duplicates.documents is None else duplicates.documents
    splits = {split: number for split, number in counted.items() if number}
    if limit.is_off or len(splits) < 2:
        return
    if duplicates is None:
        yield CheckResult("shared_contents", "unknown", "which examples have equal content is not on record")
        return
    what = duplicates.compared
    for split, number in splits.items():
        if split == _TRAIN:
            continue
        shared = duplicates.elsewhere.get(split, 0)
        severity, threshold = limit.over(shared / number)
        one = f"{'an' if what[0] in 'aeiou' else 'a'} {what}"
        said = f"{shared:,} of {number:,} {what}s of {split!r} have the content of {one} of another split"
        yield CheckResult("shared_contents", severity, said, "", split, shared / number, threshold)
