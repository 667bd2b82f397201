"""Checks of the features: which there are, of what type, and in how many examples."""

from collections.abc import Iterable, Iterator

from shardmill.checks.chance import share_floor
from shardmill.checks.limits import ALIKE, ByFeature, Limits, LimitsByCheck, limits_of
from shardmill.checks.profile import Profile
from shardmill.checks.result import CheckResult
from shardmill.features.feature import Feature
from shardmill.kinds.registry import kind_of

_SHOWN = 5  # names in a sentence


def columns(new: Profile, old: Profile, limits: LimitsByCheck) -> Iterator[CheckResult]:
    """Features that are gone, or new, and those of another type."""
    before, now = old.features, new.features
    gone, added = [name for name in before if name not in now], [name for name in now if name not in before]
    yield from counted("columns_gone", "feature", gone, f"gone since {old.version}", limits["columns_gone"])
    yield from counted("columns_new", "feature", added, f"new since {old.version}", limits["columns_new"])
    changed = [
        f"{name} ({type_in_words(before[name])} -> {type_in_words(now[name])})"
        for name in before
        if name in now and type_in_words(before[name]) != type_in_words(now[name])
    ]
    limit = limits["types_changed"]
    yield from counted("types_changed", "feature", changed, f"of another type than in {old.version}", limit)


def counted(
    check: str, what: str, names: list[str], word: str, limit: Limits, feature: str = ""
) -> Iterator[CheckResult]:
    """How many of something there are, and which."""
    if limit.is_off:
        return
    severity, threshold = limit.over(len(names))
    plural = what if len(names) == 1 else f"{what}es" if what.endswith("s") else f"{what}s"
    said = f"{len(names)} {plural} {word}: {some(names)}" if names else f"no {what} is {word}"
    of = feature or (names[0].partition(" (")[0] if len(names) == 1 else "")
    yield CheckResult(check, severity, said, of, value=len(names), threshold=threshold)


def some(names: Iterable[str]) -> str:
    """The first few names."""
    listed = list(names)
    return ", ".join(listed[:_SHOWN]) + (f" and {len(listed) - _SHOWN} more" if len(listed) > _SHOWN else "")


def type_in_words(feature: Feature) -> str:
    """What readers must know to parse a feature: its type, kind, shape and unit."""
    kind = f" {name}" if (name := kind_of(feature).own_name) else ""
    shape = "" if feature.shape == () else f"{[-1 if size is None else size for size in feature.shape]}"
    unit = f" in {feature.time}" if feature.time else ""
    return f"{feature.element or feature.dtype}{kind}{shape}{unit}"


def presence(new: Profile, old: Profile, limits: LimitsByCheck, own: ByFeature = ALIKE) -> Iterator[CheckResult]:
    """How much smaller the share of examples is that have a feature, in each split of both; see `drift` for `own`."""
    for split in new.splits:
        if not new.splits[split] or not old.splits.get(split):
            continue
        for name in new.features:
            limit = limits_of(name, limits, own)["presence_drop"]
            if name in old.features and not limit.is_off:
                yield _drop(name, split, new, old, limit)


def _drop(name: str, split: str, new: Profile, old: Profile, limit: Limits) -> CheckResult:
    now, before = new.presence(split, name), old.presence(split, name)
    if now is None or before is None:
        said = f"how many examples of {split!r} have {name!r} is not on record"
        return CheckResult("presence_drop", "unknown", said, name, split)
    sizes = new.splits[split], old.splits[split]
    floor = share_floor((now * sizes[0] + before * sizes[1]) / sum(sizes), *sizes)
    severity, threshold = limit.over(before - now, floor)
    said = f"{100 * now:.3g} % of the examples of {split!r} have {name!r}, {100 * before:.3g} % in {old.version}"
    return CheckResult("presence_drop", severity, said, name, split, max(before - now, 0.0), threshold, floor)
