"""Check the columns, counts, classes, leakage and drift of a version."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator

from shardmill.data.features import Feature
from shardmill.data.kinds import kind_of
from shardmill.metadata.manifest import SplitEntry
from shardmill.quality import profile
from shardmill.quality.distances import ratio_ceiling, ratio_floor, share_floor
from shardmill.quality.limits import (
    NO_OVERRIDES,
    ByFeature,
    CheckResult,
    Constraints,
    Limits,
    LimitsByCheck,
    check_shares,
    feature_limits,
    worst_severity,
)
from shardmill.quality.profile import Profile
from shardmill.text import did_you_mean, listed

_MAX_SHOWN = 5  # names in a sentence


def check_columns(new: Profile, old: Profile, limits: LimitsByCheck) -> Iterator[CheckResult]:
    """Check for features that were removed or added, or whose type changed."""
    before, now = old.features, new.features
    gone, added = [name for name in before if name not in now], [name for name in now if name not in before]
    yield from _check_count("columns_gone", "feature", gone, f"gone since {old.version}", limits["columns_gone"])
    yield from _check_count("columns_new", "feature", added, f"new since {old.version}", limits["columns_new"])
    types = [(name, describe_type(before[name]), describe_type(now[name])) for name in before if name in now]
    changed = [f"{name} ({then} -> {type_})" for name, then, type_ in types if then != type_]
    limit = limits["types_changed"]
    yield from _check_count("types_changed", "feature", changed, f"of another type than in {old.version}", limit)


def _check_count(
    check: str, noun: str, names: list[str], state: str, limit: Limits, feature: str = ""
) -> Iterator[CheckResult]:
    if limit.is_off:
        return
    severity, threshold = limit.check_maximum(len(names))
    plural = noun if len(names) == 1 else f"{noun}es" if noun.endswith("s") else f"{noun}s"
    message = f"{len(names)} {plural} {state}: {list_some(names)}" if names else f"no {noun} is {state}"
    feature_name = feature or (names[0].partition(" (")[0] if len(names) == 1 else "")
    yield CheckResult(check, severity, message, feature_name, value=len(names), threshold=threshold)


def list_some(names: Iterable[str]) -> str:
    """Return the first five names, and the number of others."""
    return listed(list(names), _MAX_SHOWN, " and {} more")


def describe_type(feature: Feature) -> str:
    """Return the type, kind, shape and unit of a feature: what readers need to parse it."""
    kind = f" {name}" if (name := kind_of(feature).display_name) else ""
    shape = "" if feature.shape == () else f"{[-1 if size is None else size for size in feature.shape]}"
    unit = f" in {feature.time}" if feature.time else ""
    return f"{feature.element or feature.dtype}{kind}{shape}{unit}"


def check_presence(
    new: Profile, old: Profile, limits: LimitsByCheck, overrides: ByFeature = NO_OVERRIDES
) -> Iterator[CheckResult]:
    """Check the decrease of each feature's share of examples, in each split of both versions."""
    for split in new.splits:
        if not new.splits[split] or not old.splits.get(split):
            continue
        for name in new.features:
            limit = feature_limits(name, limits, overrides)["presence_drop"]
            if name in old.features and not limit.is_off:
                yield _check_presence_drop(name, split, new, old, limit)


def _check_presence_drop(name: str, split: str, new: Profile, old: Profile, limit: Limits) -> CheckResult:
    now, before = new.presence(split, name), old.presence(split, name)
    if now is None or before is None:
        message = f"the number of examples of {split!r} with {name!r} is not on record"
        return CheckResult("presence_drop", "unknown", message, name, split)
    sizes = new.splits[split], old.splits[split]
    floor = share_floor((now * sizes[0] + before * sizes[1]) / sum(sizes), *sizes)
    severity, threshold = limit.check_maximum(before - now, floor)
    message = f"{100 * now:.3g} % of the examples of {split!r} have {name!r}, {100 * before:.3g} % in {old.version}"
    return CheckResult("presence_drop", severity, message, name, split, max(before - now, 0.0), threshold, floor)


# That all examples of a class fall into one of two samples: a class is there or it is not, so more is taken for a loss
# than of what is measured.
_PROBABILITY = 0.01


def check_classes(
    new: Profile, old: Profile, limits: LimitsByCheck, overrides: ByFeature = NO_OVERRIDES
) -> Iterator[CheckResult]:
    """Check the classes of each label that both versions have, by name, over all splits."""
    for label in new.labels:
        before = old.features.get(label.name)
        if before is None or not kind_of(before).has_classes:
            continue
        limit = feature_limits(label.name, limits, overrides)
        moved, state = changed_ids(before, label), f"of another id than in {old.version}"
        yield from _check_count("classes_moved", "class", moved, state, limit["classes_moved"], label.name)
        counts, counts_before = new.class_counts(label), old.class_counts(before)
        if counts is None or counts_before is None:
            yield _report_unknown_classes("classes_gone", label)
            yield _report_unknown_classes("classes_new", label)
            yield _report_unknown_classes("classes_shrunk", label)
            continue
        gone, fresh = f"gone since {old.version}", f"new since {old.version}"
        yield from _check_missing("classes_gone", gone, counts_before, counts, limit["classes_gone"], label)
        yield from _check_missing("classes_new", fresh, counts, counts_before, limit["classes_new"], label)
        yield from _check_shrunk(old.version, counts_before, counts, limit["classes_shrunk"], label)


def _report_unknown_classes(check: str, label: Feature) -> CheckResult:
    message = f"the number of {label.unit}s of each class of {label.name!r} is not on record"
    return CheckResult(check, "unknown", message, label.name)


def _check_missing(
    check: str, state: str, present_counts: Counter[str], other_counts: Counter[str], limit: Limits, label: Feature
) -> Iterator[CheckResult]:
    if limit.is_off:
        return
    names = [name for name, count in present_counts.items() if count and not other_counts[name]]
    floor = max_examples_by_chance(present_counts.total(), other_counts.total())
    certain = [name for name in names if present_counts[name] > floor]
    severity, threshold = limit.check_maximum(len(certain))
    message = f"no class of {label.name!r} is {state}"
    if names:
        names_shown = list_some(f"{name!r} ({present_counts[name]:,} {label.unit}s)" for name in certain or names)
        plural = "class is" if len(certain or names) == 1 else "classes are"
        message = f"{len(certain or names)} {plural} {state}: {names_shown}"
    if names and not certain:
        message += "; so few that chance may do it"
    yield CheckResult(check, severity, message, label.name, value=len(names), threshold=threshold, noise_floor=floor)


def _check_shrunk(
    version: str, before: Counter[str], now: Counter[str], limit: Limits, label: Feature
) -> Iterator[CheckResult]:
    """Check the number of examples of each class that still has any, relative to the previous version."""
    if limit.is_off:
        return
    ratios = {name: now[name] / count for name, count in before.items() if count and now[name]}
    judged = {name: limit.check_minimum(ratio, ratio_floor(before[name])) for name, ratio in ratios.items()}
    severity = worst_severity(CheckResult("", found, "") for found, _ in judged.values())
    shrunk = sorted((name for name, (found, _) in judged.items() if found != "ok"), key=ratios.__getitem__)
    least = min(shrunk or ratios, key=ratios.__getitem__, default="")
    message = f"no class of {label.name!r} has shrunk so far since {version}"
    if shrunk:
        noun = "class has" if len(shrunk) == 1 else "classes have"
        shown = list_some(f"{name!r} ({before[name]:,} -> {now[name]:,} {label.unit}s)" for name in shrunk)
        message = f"{len(shrunk)} {noun} shrunk since {version}: {shown}"
    value, threshold = ratios.get(least), judged[least][1] if least else None
    floor = ratio_floor(before[least]) if least else None
    yield CheckResult("classes_shrunk", severity, message, label.name, "", value, threshold, floor)


def max_examples_by_chance(examples: int, other_examples: int) -> float:
    """Return how many of `examples` a class may have by chance, once in a hundred times, but none of the others."""
    if not examples or not other_examples:
        return 0.0  # one of the two has no examples at all, which no chance explains
    return math.log(_PROBABILITY) / math.log(examples / (examples + other_examples))


def changed_ids(before: Feature, now: Feature) -> list[str]:
    """Return the classes whose id changed, each with both ids."""
    ids = {name: index for index, name in enumerate(before.class_names)}
    return [
        f"{name!r} from {ids[name]} to {index}"
        for index, name in enumerate(now.class_names)
        if name in ids and ids[name] != index
    ]


def check_smallest_class(
    new: Profile, limits: LimitsByCheck, overrides: ByFeature = NO_OVERRIDES
) -> Iterator[CheckResult]:
    """Check the class with the fewest examples of each label."""
    for label in new.labels:
        limit = feature_limits(label.name, limits, overrides)["min_examples_per_class"]
        if limit.is_off:
            continue
        counts = new.class_counts(label)
        if not counts:
            yield _report_unknown_classes("min_examples_per_class", label)
            continue
        name, fewest = min(counts.items(), key=lambda item: item[1])
        severity, threshold = limit.check_minimum(fewest)
        under = sum(count < threshold for count in counts.values()) if threshold is not None else 0
        message = f"class {name!r} of {label.name!r} has {fewest:,} {label.unit}s"
        message += f"; {under} classes have fewer than {threshold:g}" if under > 1 else ""
        yield CheckResult("min_examples_per_class", severity, message, label.name, value=fewest, threshold=threshold)


def check_examples(new: Profile, old: Profile, limits: LimitsByCheck) -> Iterator[CheckResult]:
    """Check the number of examples, in all and in each split.

    Splits by hash vary by chance, so each split has a noise floor; the total has none.
    """
    yield from _check_ratio("", new.examples, old.examples, old, limits, floored=False)
    if list(new.splits) == list(old.splits) and len(new.splits) == 1:
        return
    for split, before in old.splits.items():
        yield from _check_ratio(split, new.splits.get(split, 0), before, old, limits, floored=split in new.splits)


def _check_ratio(
    split: str, now: int, before: int, old: Profile, limits: LimitsByCheck, floored: bool
) -> Iterator[CheckResult]:
    under, over = limits["examples_under"], limits["examples_over"]
    subject = f"split {split!r} has" if split else "there are"
    message = f"{subject} {now:,} examples, {before:,} in {old.version}"
    if not before:
        yield CheckResult("examples_under", "ok", message, split=split)
        return
    ratio = now / before
    message = f"{message}: {ratio:.3g} times as many"
    if not under.is_off:
        floor = ratio_floor(before) if floored else None
        severity, threshold = under.check_minimum(ratio, floor)
        yield CheckResult("examples_under", severity, message, "", split, ratio, threshold, floor)
    if not over.is_off:
        ceiling = ratio_ceiling(before) if floored else None
        severity, threshold = over.check_maximum(ratio, ceiling or 0.0)
        yield CheckResult("examples_over", severity, message, "", split, ratio, threshold, ceiling)


def check_rejects(new: Profile, limits: LimitsByCheck) -> Iterator[CheckResult]:
    """Check the share of records that were rejected."""
    limit = limits["rejects_over"]
    if limit.is_off:
        return
    rejected, records = new.manifest.rejects.get("records", 0), new.manifest.input.get("records", 0)
    if not records:
        yield CheckResult("rejects_over", "unknown", "the number of records in the input is not on record")
        return
    lost = new.manifest.rejects.get("lost", {})
    about = "about " if lost.get("estimated") else "at least " if lost.get("uncounted_files") else ""
    severity, threshold = limit.check_maximum(rejected / records)
    message = f"{about}{rejected:,} of {records:,} records were rejected"
    yield CheckResult("rejects_over", severity, message, value=rejected / records, threshold=threshold)


def check_shards(new: Profile, limits: LimitsByCheck) -> Iterator[CheckResult]:
    """Check the smallest shard of each split, as a share of the mean; in bytes if shards are balanced by bytes."""
    limit = limits["shards_under"]
    if limit.is_off:
        return
    for split in new.manifest.splits:
        if len(split.shards) > 1:
            yield _check_smallest_shard(new, split, limits)


def _check_smallest_shard(new: Profile, split: SplitEntry, limits: LimitsByCheck) -> CheckResult:
    in_bytes = new.manifest.configuration.get("balance") == "bytes"
    sizes = [shard.size_bytes if in_bytes else shard.examples for shard in split.shards]
    mean = sum(sizes) / len(sizes)
    share = min(sizes) / mean if mean else 1.0
    severity, threshold = limits["shards_under"].check_minimum(share)
    unit = "bytes" if in_bytes else "examples"
    message = (
        f"the smallest of {len(sizes):,} shards of {split.name!r} has {min(sizes):,} {unit}, the mean is {mean:,.1f}"
    )
    if in_bytes and severity != "ok":
        # Shards of equal bytes may differ by the largest record, and how large that is, is not on record.
        severity, message = "unknown", f"{message}; a record that is larger than the difference would explain it"
    return CheckResult("shards_under", severity, message, "", split.name, share, threshold)


def measured_label_association(profile: Profile, feature: str) -> float | None:
    """Return how well a feature predicts the label, 0 to 1, in the training split; None if unknown."""
    filled = profile.filled_splits
    if not filled:
        return None
    summary = profile.summary(profile.training_split, feature)
    return None if summary is None or summary.label_association is None else float(summary.label_association)


def _check_label_leakage(new: Profile, limits: LimitsByCheck, overrides: ByFeature) -> Iterator[CheckResult]:
    """Check how well each feature predicts the label, except those such as `filename`, in the label's folder."""
    for feature, description in new.features.items():
        limit = feature_limits(feature, limits, overrides)["label_leakage"]
        association = measured_label_association(new, feature)
        if limit.is_off or association is None or description.role != "input":
            continue
        severity, threshold = limit.check_maximum(association)
        message = f"knowing {feature!r} avoids {association:.1%} of the errors in guessing the label"
        if severity != "ok":
            message = f"{message}: it looks like the label"
        yield CheckResult("label_leakage", severity, message, feature, "", association, threshold)


def _check_conflicting_labels(new: Profile, limits: LimitsByCheck) -> Iterator[CheckResult]:
    """Check the share of examples that equal an example of another class; yield nothing if there are none."""
    limit, duplicates = limits["conflicting_labels"], new.stats.duplicates
    if limit.is_off or duplicates is None or duplicates.conflicts is None or not new.examples:
        return
    share = sum(duplicates.conflicts.examples.values()) / new.examples
    severity, threshold = limit.check_maximum(share)
    yield CheckResult("conflicting_labels", severity, duplicates.conflicts.describe(), "", "", share, threshold)


def _check_shared_contents(new: Profile, limits: LimitsByCheck) -> Iterator[CheckResult]:
    """Check the share of each split's examples, or of their documents, that are also in another split."""
    duplicates = new.stats.duplicates
    counted = new.splits if duplicates is None or duplicates.documents is None else duplicates.documents
    splits = {split: number for split, number in counted.items() if number}
    if duplicates is None:
        if not limits["shared_contents"].is_off and len(splits) > 1:
            yield CheckResult("shared_contents", "unknown", "which examples have equal content is not on record")
        return
    noun = duplicates.compared
    words = f"{noun}s of {{}} have the content of {'an' if noun[0] in 'aeiou' else 'a'} {noun} of another split"
    yield from check_shares("shared_contents", limits, splits, duplicates.elsewhere, words)


def run_checks(
    new: Profile,
    old: Profile | None,
    limits: LimitsByCheck,
    constraints: Constraints | None = None,
    by_feature: ByFeature | None = None,
    at_most: int | None = None,
) -> list[CheckResult]:
    """Return the results of all checks, in an order that depends only on the two versions.

    Without an `old` version to compare with, a result says so. `limits` are the thresholds by check; those of
    `by_feature` override those of `constraints`, a schema, and of all features. A result says if only `at_most`
    features' values are compared in each split.
    """
    feature_overrides, schema_limits = by_feature or {}, {} if constraints is None else constraints.limits()
    overrides = {
        name: {**schema_limits.get(name, {}), **feature_overrides.get(name, {})}
        for name in (*schema_limits, *feature_overrides)
    }
    results = [
        *check_rejects(new, limits),
        *check_shards(new, limits),
        *_check_unknown_features(new, feature_overrides),
        *check_smallest_class(new, limits, overrides),
        *profile.check_skew(new, limits, overrides, at_most),
        *_check_shared_contents(new, limits),
        *(result for section in new.stats.sections.values() for result in section.checks(new.filled_splits, limits)),
        *_check_conflicting_labels(new, limits),
        *_check_label_leakage(new, limits, overrides),
    ]
    if constraints is not None:
        from shardmill.quality.constraints import check_constraints  # late: it needs protos

        results += check_constraints(new, old, constraints)
    if old is None:
        message = "no version to compare with: what changed is not checked"
        return [CheckResult("baseline", "unknown", message), *results]
    return [
        *check_examples(new, old, limits),
        *check_columns(new, old, limits),
        *check_presence(new, old, limits, overrides),
        *check_classes(new, old, limits, overrides),
        *profile.check_drift(new, old, limits, overrides, at_most),
        *results,
    ]


def _check_unknown_features(new: Profile, overrides: ByFeature) -> Iterator[CheckResult]:
    for name in overrides:
        if name not in new.features:
            hint = did_you_mean(name, new.features, "; did you mean {!r}?")
            message = f"there is no feature {name!r}, which has thresholds of its own{hint}"
            yield CheckResult("columns", "warn", message, name)


def find_failures(results: Iterable[CheckResult]) -> list[CheckResult]:
    """Return the results that prevent publication."""
    return [result for result in results if result.severity == "error"]
