"""Checks of what values features have: against the version before (drift), and of train against other splits (skew)."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

from shardmill.checks.chance import divergence_floor, share_floor
from shardmill.checks.distances import (
    Frequencies,
    Histogram,
    Interval,
    jensen_shannon,
    least_jensen_shannon,
    least_l_infinity,
    most_l_infinity,
)
from shardmill.checks.identifiers import grows_like_an_identifier
from shardmill.checks.limits import ALIKE, OFF, ByFeature, Limits, LimitsByCheck, limits_of
from shardmill.checks.profile import Profile, frequencies, histograms, sample_size
from shardmill.checks.result import CheckResult
from shardmill.kinds.registry import kind_of
from shardmill.statistics.feature_summary import FeatureSummary

_ROUNDED = 1e-9  # bits: divergences that differ by less are the same


@dataclass(frozen=True, slots=True)
class Side:
    """A feature in the examples of a split.

    Attributes:
      name: of the split, as a sentence calls it.
      examples: of the split.
    """

    name: str
    summary: FeatureSummary
    examples: int


def drift(new: Profile, old: Profile, limits: LimitsByCheck, own: ByFeature = ALIKE) -> Iterator[CheckResult]:
    """The values of each feature, in each split that both versions have examples in; `own` are limits that hold for
    single features. Of an identifier, which differs in every version, nothing is an error but where it has its own."""
    for split in new.splits:
        if not new.splits[split] or not old.splits.get(split):
            continue
        for name, feature in new.features.items():
            before = old.features.get(name)
            if before is None or (before.dtype, before.kind) != (feature.dtype, feature.kind):
                continue  # which `columns` says
            now = _side(new, split, name, repr(split))
            if now is None and feature.role == "source":
                continue  # shardmill added it and counts nothing of it
            then = _side(old, split, name, old.version)
            found = compare("drift", name, split, kind_of(feature).has_classes, now, then, limits_of(name, limits, own))
            yield from found if "numeric_drift" in own.get(name, {}) else _judged(found, now, then)


def skew(new: Profile, limits: LimitsByCheck, own: ByFeature = ALIKE) -> Iterator[CheckResult]:
    """The values of each feature in train, or the first split, against each other split; see `drift`."""
    filled = [split for split, examples in new.splits.items() if examples]
    if len(filled) < 2:
        return
    train = "train" if "train" in filled else filled[0]
    for split in filled:
        for name, feature in new.features.items() if split != train else ():
            now, then = _side(new, split, name, repr(split)), _side(new, train, name, repr(train))
            if now is None and feature.role == "source":
                continue
            yield from compare(
                "skew", name, split, kind_of(feature).has_classes, now, then, limits_of(name, limits, own)
            )


def _judged(found: Iterator[CheckResult], now: Side | None, then: Side | None) -> Iterator[CheckResult]:
    is_identifier = now is not None and then is not None and grows_like_an_identifier(now.summary, then.summary)
    yield from map(_not_judged, found) if is_identifier else found


def _not_judged(result: CheckResult) -> CheckResult:
    """A result of the numbers of a feature that grows like an identifier."""
    if result.check != "numeric_drift" or result.severity == "ok":
        return result
    said = f"{result.sentence}; its integers are nearly all distinct and grow, as identifiers and times do: not judged"
    how = (
        f"in a recipe, `checks: {{columns: {{{result.feature}: {{numeric_drift: 0.3}}}}}}` has it judged, off is silent"
    )
    return replace(result, severity="unknown", sentence=f"{said}; {how}")


def _remedied(result: CheckResult) -> CheckResult:
    """A result with what to do where it is an error and all is as it should be."""
    if result.severity != "error":
        return result
    how = f"checks: {{columns: {{{result.feature}: {{{result.check}: off}}}}}}"
    return replace(result, sentence=f"{result.sentence}; if that is as it should be, a recipe says so: `{how}`")


def _side(profile: Profile, split: str, feature: str, name: str) -> Side | None:
    summary = profile.summary(split, feature)
    return None if summary is None else Side(name, summary, profile.splits[split])


def compare(
    check: str, feature: str, split: str, is_label: bool, now: Side | None, then: Side | None, limits: LimitsByCheck
) -> Iterator[CheckResult]:
    """What the values of a feature are on one side, against the other.

    Args:
      check: `drift` or `skew`.
      feature: its name.
      split: that the results are said of.
      is_label: whether it is ids of classes.
      now, then: None where nothing of it is on record.
      limits: by check.
    """
    of_values = f"{'label' if is_label else 'string'}_{check}"
    strings, numbers = limits.get(of_values, OFF), limits.get(f"numeric_{check}", OFF)
    if strings.is_off and numbers.is_off:
        return
    if now is not None and then is not None and 0 in (now.summary.count, then.summary.count):
        return  # no example has it on one side, which `presence` says
    values, buckets = set[str](), set[str]()
    if now is not None and then is not None:
        counted = frequencies(now.summary, now.examples), frequencies(then.summary, then.examples)
        spread = histograms(now.summary), histograms(then.summary)
        values, buckets = counted[0].keys() & counted[1].keys(), spread[0].keys() & spread[1].keys()
        for word in sorted(values) if not strings.is_off else ():
            pair = counted[0][word], counted[1][word]
            yield _remedied(_values(of_values, feature, split, word, (now, then), pair, strings))
        for word in sorted(buckets) if not numbers.is_off else ():
            both = spread[0][word], spread[1][word]
            yield _remedied(_numbers(f"numeric_{check}", feature, split, word, (now, then), both, numbers))
    if not values and not buckets:
        said = f"what values {feature!r} has in {split!r} is not on record, so nothing is compared"
        yield CheckResult(of_values, "unknown", said, feature, split)


def _values(
    check: str,
    feature: str,
    split: str,
    word: str,
    sides: tuple[Side, Side],
    counted: tuple[Frequencies, Frequencies],
    limit: Limits,
) -> CheckResult:
    now, then = counted
    value, least = least_l_infinity(now, then)
    sizes = sample_size(sides[0].summary, sides[0].examples), sample_size(sides[1].summary, sides[1].examples)
    shares = [now.share(value)[0], then.share(value)[0]]
    kinds = {**now.counts, **then.counts}
    pooled = max((_pooled(each, now, then, sizes) for each in kinds), key=lambda p: p * (1 - p), default=0.0)
    floor = share_floor(pooled, *sizes, len(kinds))
    severity, threshold = limit.over(least, floor)
    what = f"{word} of {feature!r}" if word else f"{feature!r}"
    said = f"{what} in {sides[0].name}: L-infinity {least:.3g} from {sides[1].name}"
    if least:
        said += f"; {value!r} is {shares[0]:.3g} of the values, {shares[1]:.3g} in {sides[1].name}"
    most = most_l_infinity(now, then)
    if severity == "ok" and limit.over(most, floor)[0] != "ok":
        severity, said = "unknown", f"{said}; it may be {most:.3g}, for not all values are on record"
    return CheckResult(check, severity, said, feature, split, least, threshold, floor)


def _pooled(value: str, now: Frequencies, then: Frequencies, sizes: tuple[float, float]) -> float:
    return (now.share(value)[0] * sizes[0] + then.share(value)[0] * sizes[1]) / sum(sizes)


def _numbers(
    check: str,
    feature: str,
    split: str,
    word: str,
    sides: tuple[Side, Side],
    spread: tuple[Histogram, Histogram],
    limit: Limits,
) -> CheckResult:
    sizes = sample_size(sides[0].summary, sides[0].examples), sample_size(sides[1].summary, sides[1].examples)
    least = least_jensen_shannon(*spread)
    floor = divergence_floor(least.bins, *sizes, least.tried)
    severity, threshold = limit.over(least.value, floor)
    what = f"{word} of {feature!r}" if word else f"{feature!r}"
    said = f"{what} in {sides[0].name}: Jensen-Shannon divergence {least.value:.3g} from {sides[1].name}"
    means = [mean for mean in map(_mean, (side.summary for side in reversed(sides))) if mean is not None]
    if not word and len(means) == 2:
        said += f"; mean {means[0]:.4g} -> {means[1]:.4g}"
    now, then = map(_wide, spread)
    evenly = jensen_shannon(now, then, nan_is_a_bin=True)
    if (
        severity == "ok"
        and evenly > least.value + _ROUNDED
        and limit.over(evenly, _all_bins_floor(spread, sizes))[0] != "ok"
    ):
        severity, said = "unknown", f"{said}; {evenly:.3g} if numbers are spread evenly over each bucket"
    return CheckResult(check, severity, said, feature, split, least.value, threshold, floor)


def _mean(summary: FeatureSummary) -> float | None:
    return summary.numbers.mean if summary.numbers is not None else None


def _all_bins_floor(spread: tuple[Histogram, Histogram], sizes: tuple[float, float]) -> float:
    return divergence_floor(sum(len(each.buckets) for each in spread), *sizes)


def _wide(histogram: Histogram) -> Histogram:
    """Buckets of integers as ranges that meet, where one of them holds several integers."""
    wide = [bucket for bucket in histogram.buckets if math.isfinite(bucket.low)]
    if not all(isinstance(bucket.low, int) for bucket in wide):
        return histogram
    met = (Interval(bucket.low, bucket.high + 1, bucket.numbers) for bucket in wide)
    return Histogram(
        (*met, *(bucket for bucket in histogram.buckets if not math.isfinite(bucket.low))), (), histogram.apart
    )
