"""Profiles of versions, and the drift and skew of features between them."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from shardmill.data.features import Feature, features_of_kind
from shardmill.data.kinds import kind_of
from shardmill.metadata.manifest import Manifest
from shardmill.quality.distances import (
    Frequencies,
    Histogram,
    Interval,
    divergence_floor,
    jensen_shannon,
    jensen_shannon_lower_bound,
    l_infinity_lower_bound,
    l_infinity_upper_bound,
    share_floor,
)
from shardmill.quality.limits import (
    NO_LIMITS,
    NO_OVERRIDES,
    ByFeature,
    CheckResult,
    Limits,
    LimitsByCheck,
    feature_limits,
)
from shardmill.quality.stats_file import FeatureSummary, SplitSummary, StatsFile
from shardmill.quality.stats_values import MAX_TOP_VALUES, MIN_SAMPLED, SAMPLE_SIZE, Numbers

_ROUNDING = 1e-6  # of a quantile's error, by which the file may have rounded it


@dataclass(frozen=True, slots=True)
class Profile:
    """A version's manifest and the statistics of its splits."""

    manifest: Manifest
    stats: StatsFile

    @property
    def version(self) -> str:
        """Return the version."""
        return self.manifest.version

    @property
    def examples(self) -> int:
        """Return the number of examples in all splits."""
        return sum(split.examples for split in self.manifest.splits)

    @property
    def splits(self) -> dict[str, int]:
        """Return the number of examples by split, in the manifest's order."""
        return {split.name: split.examples for split in self.manifest.splits}

    @property
    def features(self) -> dict[str, Feature]:
        """Return the features by name, in the manifest's order."""
        return {feature.name: feature for feature in self.manifest.features}

    @property
    def labels(self) -> tuple[Feature, ...]:
        """Return the features that are class labels."""
        return features_of_kind(self.manifest.features, "class_label")

    def summary(self, split: str, feature: str) -> FeatureSummary | None:
        """Return the statistics of a feature in a split; None if there are none."""
        return self.stats.splits[split].features.get(feature) if split in self.stats.splits else None

    def summaries(self, feature: str) -> Iterator[tuple[SplitSummary, FeatureSummary]]:
        """Yield each split that has examples, with its statistics of a feature."""
        for split in self.stats.splits.values():
            if split.examples and feature in split.features:
                yield split, split.features[feature]

    def class_counts(self, feature: Feature) -> Counter[str] | None:
        """Return the examples by class over all splits, including empty classes; None if a split with examples lacks
        the counts.
        """
        counts = Counter(dict.fromkeys(feature.class_names, 0))
        for split, examples in self.splits.items():
            summary = self.summary(split, feature.name)
            if examples and (summary is None or summary.classes is None):
                return None
            counts.update(summary.classes or {} if summary is not None else {})
        return counts

    def presence(self, split: str, feature: str) -> float | None:
        """Return the share of a split's examples that have a feature; None if unknown."""
        summary, examples = self.summary(split, feature), self.splits[split]
        if summary is not None and summary.count is not None and summary.missing is not None:
            return summary.count / examples if examples else None
        return 1.0 if examples and self.features[feature].required else None

    def numeric_mean(self, feature: str) -> float | None:
        """Return the mean of a feature's numbers over all splits; None if it has none, or a split lacks it."""
        total, count = 0.0, 0.0
        for split, summary in self.summaries(feature):
            if summary.numbers is None or summary.numbers.mean is None:
                if summary.count == 0:
                    continue
                return None
            values = number_of_values(summary, split.examples)
            total, count = total + summary.numbers.mean * values, count + values
        return total / count if count else None


def number_of_values(summary: FeatureSummary, examples: int) -> float:
    """Return the number of a feature's values in a split of `examples` examples."""
    present = examples if summary.count is None else summary.count
    if summary.per_example is not None and summary.per_example.mean is not None:
        return present * summary.per_example.mean
    return float(present)


def sample_size(summary: FeatureSummary, examples: int) -> float:
    """Return the number of independent values of a feature in a split; values of one list are not independent."""
    present = examples if summary.count is None else summary.count
    size = min(present, number_of_values(summary, examples))
    return min(size, SAMPLE_SIZE) if summary.top_values_from else size


def frequencies(summary: FeatureSummary, examples: int) -> dict[str, Frequencies]:
    """Return frequencies of values by property: "" for the feature itself, or for example `formats`."""
    if summary.classes is not None:
        counts: dict[str, float] = {**summary.classes}
        return _frequencies_by_word("", counts, math.fsum(counts.values()) + summary.without_name)
    found: dict[str, Frequencies] = {}
    words: dict[str, Mapping[str, int] | Mapping[int, int] | None] = {
        "formats": summary.formats,
        "encodings": summary.encodings,
        "rates": summary.frames_by_rate,
        "channels": summary.files_by_channels,
    }
    for word, counted in words.items():
        if counted:
            found |= _frequencies_by_word(
                word, {str(key): count for key, count in counted.items()}, sum(counted.values())
            )
    if summary.top_values is not None and summary.numbers is None:
        top = Counter[str]()  # values that are cut may look the same
        for entry in summary.top_values:
            top[str(entry.value)] += entry.count
        total = number_of_values(summary, examples)
        if total:
            found[""] = Frequencies(dict(top), total, _max_unseen_count(summary, total))
    return found


def _frequencies_by_word(word: str, counts: Mapping[str, float], total: float) -> dict[str, Frequencies]:
    return {word: Frequencies(counts, total)} if total else {}


def _max_unseen_count(summary: FeatureSummary, total: float) -> float:
    """Return the largest possible count of a value that is not among the recorded frequent ones."""
    top = summary.top_values or ()
    if summary.top_values_from:
        return max(total * MIN_SAMPLED / SAMPLE_SIZE, float(top[-1].count) if len(top) == MAX_TOP_VALUES else 0.0)
    if summary.distinct is not None and summary.distinct.is_exact and len(top) >= summary.distinct.count:
        return 0.0
    return float(top[-1].count) if len(top) == MAX_TOP_VALUES else 1.0  # what occurs once is not shown


def histograms(summary: FeatureSummary) -> dict[str, Histogram]:
    """Return distributions of numbers by property: "" for the feature itself, or for example `size_bytes`."""
    words = {"": summary.numbers, "size_bytes": summary.size_bytes, "length_bytes": summary.length_bytes}
    found = {word: _histogram(numbers) for word, numbers in words.items() if numbers is not None}
    return {word: histogram for word, histogram in found.items() if histogram is not None and histogram.total}


def _histogram(numbers: Numbers) -> Histogram | None:
    if numbers.histogram is None and not (numbers.nan or numbers.infinity):
        return None
    buckets = [Interval(bucket.low, bucket.high, bucket.count) for bucket in numbers.histogram or () if bucket.count]
    if numbers.infinity:  # of either sign: which, is not on record
        buckets.append(Interval(math.inf, math.inf, numbers.infinity))
    finite = math.fsum(bucket.numbers for bucket in buckets) - numbers.infinity
    share = finite / (finite + numbers.infinity) if finite else 0.0
    error = numbers.relative_error or 0.0
    quantiles = []
    for name, value in (numbers.quantiles or {}).items():
        slack = abs(value) * error * (1 + _ROUNDING) + (1 if error and isinstance(value, int) else 0)
        quantiles.append((value - slack, value + slack, float(name) * share))
    return Histogram(tuple(buckets), tuple(quantiles), float(numbers.nan))


_DISTINCT = 0.9  # of the integers, at least: distinct ones are estimated in large splits, and some records come twice
_SPACING = 4.0  # how much wider or narrower the gaps may have become; a unit that changed is a factor of 60 or more
_MIDDLE = (0.2, 0.8)  # where in its range the mean of what is dealt out one by one lies; amounts have a long tail


def grows_like_an_identifier(now: FeatureSummary, then: FeatureSummary) -> bool:
    """Return True if integers are nearly all distinct on both sides, start no lower, end higher, and are as dense as
    before.
    """
    spacing = _spacing(now), _spacing(then)
    if spacing[0] is None or spacing[1] is None or now.numbers is None or then.numbers is None:
        return False
    (low, high), (low_before, high_before) = _bounds(now.numbers), _bounds(then.numbers)
    return low >= low_before and high > high_before and 1 / _SPACING <= spacing[0] / spacing[1] <= _SPACING


def _spacing(summary: FeatureSummary) -> float | None:
    """Return the mean gap between at least two integers that are nearly all distinct; None for other values."""
    numbers, count = summary.numbers, summary.count
    if numbers is None or numbers.mean is None or summary.distinct is None or count is None or count < 2:
        return None
    if summary.per_example is not None:
        return None  # lists
    if not isinstance(numbers.minimum, int) or not isinstance(numbers.maximum, int):
        return None
    low, high = _bounds(numbers)
    if high == low or summary.distinct.count < _DISTINCT * count:
        return None
    if not _MIDDLE[0] <= (numbers.mean - low) / (high - low) <= _MIDDLE[1]:
        return None
    return (high - low) / (count - 1)


def _bounds(numbers: Numbers) -> tuple[float, float]:
    assert numbers.minimum is not None
    assert numbers.maximum is not None
    return numbers.minimum, numbers.maximum


_ROUNDED = 1e-9  # bits: divergences that differ by less are the same


@dataclass(frozen=True, slots=True)
class Side:
    """A feature in the examples of a split."""

    name: str  # of the split, in sentences
    summary: FeatureSummary
    examples: int  # of the split


def check_drift(
    new: Profile, old: Profile, limits: LimitsByCheck, overrides: ByFeature = NO_OVERRIDES
) -> Iterator[CheckResult]:
    """Check the values of each feature in each split that has examples in both versions.

    Identifiers differ in every version, so their drift is an error only if `overrides`, the limits of single
    features, sets
    one.
    """
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
            found = compare_sides(
                "drift", name, split, kind_of(feature).has_classes, now, then, feature_limits(name, limits, overrides)
            )
            yield from (
                found if "numeric_drift" in overrides.get(name, {}) else _without_identifier_drift(found, now, then)
            )


def check_skew(new: Profile, limits: LimitsByCheck, overrides: ByFeature = NO_OVERRIDES) -> Iterator[CheckResult]:
    """Check the values of each feature in train, or the first split, against each other split.

    `overrides` are limits of single features.
    """
    filled = [split for split, examples in new.splits.items() if examples]
    if len(filled) < 2:
        return
    train = "train" if "train" in filled else filled[0]
    for split in filled:
        for name, feature in new.features.items() if split != train else ():
            now, then = _side(new, split, name, repr(split)), _side(new, train, name, repr(train))
            if now is None and feature.role == "source":
                continue
            yield from compare_sides(
                "skew", name, split, kind_of(feature).has_classes, now, then, feature_limits(name, limits, overrides)
            )


def _without_identifier_drift(
    found: Iterator[CheckResult], now: Side | None, then: Side | None
) -> Iterator[CheckResult]:
    is_identifier = now is not None and then is not None and grows_like_an_identifier(now.summary, then.summary)
    yield from map(_without_judgement, found) if is_identifier else found


def _without_judgement(result: CheckResult) -> CheckResult:
    """Return a result without judgement, for a feature that grows like an identifier."""
    if result.check != "numeric_drift" or result.severity == "ok":
        return result
    message = (
        f"{result.sentence}; its integers are nearly all distinct and grow, as identifiers and times do: not judged"
    )
    remedy = (
        f"in a recipe, `checks: {{columns: {{{result.feature}: {{numeric_drift: 0.3}}}}}}` has it judged, off is silent"
    )
    return replace(result, severity="unknown", sentence=f"{message}; {remedy}")


def _with_remedy(result: CheckResult) -> CheckResult:
    """Append to an error how to accept it in a recipe."""
    if result.severity != "error":
        return result
    remedy = f"checks: {{columns: {{{result.feature}: {{{result.check}: off}}}}}}"
    return replace(result, sentence=f"{result.sentence}; if that is intended, accept it in the recipe: `{remedy}`")


def _side(profile: Profile, split: str, feature: str, name: str) -> Side | None:
    summary = profile.summary(split, feature)
    return None if summary is None else Side(name, summary, profile.splits[split])


def compare_sides(
    check: str, feature: str, split: str, is_label: bool, now: Side | None, then: Side | None, limits: LimitsByCheck
) -> Iterator[CheckResult]:
    """Compare the values of a feature between two sides.

    Args:
        check: `drift` or `skew`.
        feature: the feature's name.
        split: the split in the results.
        is_label: True for class ids.
        now, then: the sides; None if nothing is recorded.
        limits: by check.
    """
    of_values = f"{'label' if is_label else 'string'}_{check}"
    strings, numbers = limits.get(of_values, NO_LIMITS), limits.get(f"numeric_{check}", NO_LIMITS)
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
            yield _with_remedy(_compare_values(of_values, feature, split, word, (now, then), pair, strings))
        for word in sorted(buckets) if not numbers.is_off else ():
            both = spread[0][word], spread[1][word]
            yield _with_remedy(_compare_numbers(f"numeric_{check}", feature, split, word, (now, then), both, numbers))
    if not values and not buckets:
        message = f"what values {feature!r} has in {split!r} is not on record, so nothing is compared"
        yield CheckResult(of_values, "unknown", message, feature, split)


def _compare_values(
    check: str,
    feature: str,
    split: str,
    word: str,
    sides: tuple[Side, Side],
    counted: tuple[Frequencies, Frequencies],
    limit: Limits,
) -> CheckResult:
    now, then = counted
    value, least = l_infinity_lower_bound(now, then)
    sizes = sample_size(sides[0].summary, sides[0].examples), sample_size(sides[1].summary, sides[1].examples)
    shares = [now.share(value)[0], then.share(value)[0]]
    kinds = {**now.counts, **then.counts}
    pooled = max((_pooled(each, now, then, sizes) for each in kinds), key=lambda p: p * (1 - p), default=0.0)
    floor = share_floor(pooled, *sizes, len(kinds))
    severity, threshold = limit.over(least, floor)
    what = f"{word} of {feature!r}" if word else f"{feature!r}"
    message = f"{what} in {sides[0].name}: L-infinity {least:.3g} from {sides[1].name}"
    if least:
        message += f"; {value!r} is {shares[0]:.3g} of the values, {shares[1]:.3g} in {sides[1].name}"
    most = l_infinity_upper_bound(now, then)
    if severity == "ok" and limit.over(most, floor)[0] != "ok":
        severity, message = "unknown", f"{message}; it may be {most:.3g}, for not all values are on record"
    return CheckResult(check, severity, message, feature, split, least, threshold, floor)


def _pooled(value: str, now: Frequencies, then: Frequencies, sizes: tuple[float, float]) -> float:
    return (now.share(value)[0] * sizes[0] + then.share(value)[0] * sizes[1]) / sum(sizes)


def _compare_numbers(
    check: str,
    feature: str,
    split: str,
    word: str,
    sides: tuple[Side, Side],
    spread: tuple[Histogram, Histogram],
    limit: Limits,
) -> CheckResult:
    sizes = sample_size(sides[0].summary, sides[0].examples), sample_size(sides[1].summary, sides[1].examples)
    least = jensen_shannon_lower_bound(*spread)
    floor = divergence_floor(least.bins, *sizes, least.tried)
    severity, threshold = limit.over(least.value, floor)
    what = f"{word} of {feature!r}" if word else f"{feature!r}"
    message = f"{what} in {sides[0].name}: Jensen-Shannon divergence {least.value:.3g} from {sides[1].name}"
    means = [mean for mean in map(_mean, (side.summary for side in reversed(sides))) if mean is not None]
    if not word and len(means) == 2:
        message += f"; mean {means[0]:.4g} -> {means[1]:.4g}"
    now, then = map(_as_adjacent_ranges, spread)
    evenly = jensen_shannon(now, then, nan_is_a_bin=True)
    if (
        severity == "ok"
        and evenly > least.value + _ROUNDED
        and limit.over(evenly, _all_bins_floor(spread, sizes))[0] != "ok"
    ):
        severity, message = "unknown", f"{message}; {evenly:.3g} if numbers are spread evenly over each bucket"
    return CheckResult(check, severity, message, feature, split, least.value, threshold, floor)


def _mean(summary: FeatureSummary) -> float | None:
    return summary.numbers.mean if summary.numbers is not None else None


def _all_bins_floor(spread: tuple[Histogram, Histogram], sizes: tuple[float, float]) -> float:
    return divergence_floor(sum(len(each.buckets) for each in spread), *sizes)


def _as_adjacent_ranges(histogram: Histogram) -> Histogram:
    """Return integer buckets as adjacent ranges if all finite buckets are of integers."""
    wide = [bucket for bucket in histogram.buckets if math.isfinite(bucket.low)]
    if not all(isinstance(bucket.low, int) for bucket in wide):
        return histogram
    met = (Interval(bucket.low, bucket.high + 1, bucket.numbers) for bucket in wide)
    return Histogram(
        (*met, *(bucket for bucket in histogram.buckets if not math.isfinite(bucket.low))), (), histogram.nan_count
    )
