"""Checks of the classes of labels: gone, new, with another id, with few examples."""

import math
from collections import Counter
from collections.abc import Iterator

from shardmill.checks.columns import counted, some
from shardmill.checks.limits import ALIKE, ByFeature, Limits, LimitsByCheck, limits_of
from shardmill.checks.profile import Profile
from shardmill.checks.result import CheckResult
from shardmill.features.feature import Feature
from shardmill.kinds.registry import kind_of

# That all examples of a class fall into one of two samples: a class is there or it is not, so more is taken for a loss
# than of what is measured.
_CHANCE = 0.01


def classes(new: Profile, old: Profile, limits: LimitsByCheck, own: ByFeature = ALIKE) -> Iterator[CheckResult]:
    """Classes of each label that both versions have, by name, in all splits together; see `drift` for `own`."""
    for label in new.labels:
        before = old.features.get(label.name)
        if before is None or not kind_of(before).has_classes:
            continue
        limit = limits_of(label.name, limits, own)
        moved = moved_ids(before, label)
        yield from counted(
            "classes_moved", "class", moved, f"of another id than in {old.version}", limit["classes_moved"], label.name
        )
        counts, counts_before = new.class_counts(label), old.class_counts(before)
        if counts is None or counts_before is None:
            for check in ("classes_gone", "classes_new"):
                said = f"how many {label.unit}s each class of {label.name!r} has is not on record"
                yield CheckResult(check, "unknown", said, label.name)
            continue
        gone, fresh = f"gone since {old.version}", f"new since {old.version}"
        yield from _missing("classes_gone", gone, counts_before, counts, limit["classes_gone"], label)
        yield from _missing("classes_new", fresh, counts, counts_before, limit["classes_new"], label)


def _missing(
    check: str, word: str, there: Counter[str], not_there: Counter[str], limit: Limits, label: Feature
) -> Iterator[CheckResult]:
    if limit.is_off:
        return
    names = [name for name, count in there.items() if count and not not_there[name]]
    floor = most_by_chance(there.total(), not_there.total())
    certain = [name for name in names if there[name] > floor]
    severity, threshold = limit.over(len(certain))
    said = f"no class of {label.name!r} is {word}"
    if names:
        told = some(f"{name!r} ({there[name]:,} {label.unit}s)" for name in certain or names)
        plural = "class is" if len(certain or names) == 1 else "classes are"
        said = f"{len(certain or names)} {plural} {word}: {told}"
    if names and not certain:
        said += "; so few that chance may do it"
    yield CheckResult(check, severity, said, label.name, value=len(names), threshold=threshold, noise_floor=floor)


def most_by_chance(there: int, not_there: int) -> float:
    """How many examples a class may have among `there` without any among `not_there`, once in a hundred times."""
    if not there or not not_there:
        return 0.0  # one of the two has no examples at all, which no chance explains
    return math.log(_CHANCE) / math.log(there / (there + not_there))


def moved_ids(before: Feature, now: Feature) -> list[str]:
    """The classes that have another id than before, with both."""
    ids = {name: index for index, name in enumerate(before.class_names)}
    return [
        f"{name!r} from {ids[name]} to {index}"
        for index, name in enumerate(now.class_names)
        if name in ids and ids[name] != index
    ]


def smallest_class(new: Profile, limits: LimitsByCheck, own: ByFeature = ALIKE) -> Iterator[CheckResult]:
    """The class of fewest examples of each label; see `drift` for `own`."""
    for label in new.labels:
        limit = limits_of(label.name, limits, own)["min_examples_per_class"]
        if limit.is_off:
            continue
        counts = new.class_counts(label)
        if not counts:
            said = f"how many {label.unit}s each class of {label.name!r} has is not on record"
            yield CheckResult("min_examples_per_class", "unknown", said, label.name)
            continue
        name, fewest = min(counts.items(), key=lambda item: item[1])
        severity, threshold = limit.under(fewest)
        under = sum(count < threshold for count in counts.values()) if threshold is not None else 0
        said = f"class {name!r} of {label.name!r} has {fewest:,} {label.unit}s"
        said += f"; {under} classes have fewer than {threshold:g}" if under > 1 else ""
        yield CheckResult("min_examples_per_class", severity, said, label.name, value=fewest, threshold=threshold)
