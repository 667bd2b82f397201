"""Profiles of versions, and the drift and skew of features between them."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

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
    Severity,
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
    # Features by name, in the manifest's order; made once, because checks ask for them once a feature
    features: Mapping[str, Feature] = field(init=False, repr=False, compare=False)

    splits: Mapping[str, int] = field(init=False, repr=False, compare=False)  # examples by split, in that order

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", {feature.name: feature for feature in self.manifest.features})
        object.__setattr__(self, "splits", {split.name: split.examples for split in self.manifest.splits})

    @property
    def version(self) -> str:
        """Return the version's number, such as `1.0.0`."""
        return self.manifest.version

    @property
    def examples(self) -> int:
        """Return the number of examples in all splits."""
        return sum(split.examples for split in self.manifest.splits)

    @property
    def filled_splits(self) -> dict[str, int]:
        """Return the number of examples by split, of the splits that have any."""
        return {split: examples for split, examples in self.splits.items() if examples}

    @property
    def training_split(self) -> str:
        """Return `train`, or the first split with examples; "" if no split has any."""
        return "train" if "train" in self.filled_splits else next(iter(self.filled_splits), "")

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
        """Return the examples by class over all splits, including empty classes; None if not recorded."""
        counts = Counter(dict.fromkeys(feature.class_names, 0))
        for split, examples in self.splits.items():
            summary = self.summary(split, feature.name)
            classes = None if summary is None else summary.classes
            if examples and classes is None:
                return None
            counts.update(classes or {})
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
        total = math.fsum(summary.classes.values()) + summary.without_name
        return {"": Frequencies(summary.classes, total)} if total else {}
    found: dict[str, Frequencies] = {}
    words: dict[str, Mapping[Any, int] | None] = {
        "formats": summary.formats,
        "encodings": summary.encodings,
        "rates": summary.frames_by_rate,
        "channels": summary.files_by_channels,
    }
    for word, counted in words.items():
        if counted and any(counted.values()):
            counts = {str(key): count for key, count in counted.items()}
            found[word] = Frequencies(counts, sum(counts.values()))
    if summary.top_values is not None and summary.numbers is None:
        top = Counter[str]()  # values that are cut may look the same
        for entry in summary.top_values:
            top[str(entry.value)] += entry.count
        total = number_of_values(summary, examples)
        if total:
            found[""] = Frequencies(dict(top), total, _max_unseen_count(summary, total))
    return found


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
    found = {word: _make_histogram(numbers) for word, numbers in words.items() if numbers is not None}
    return {word: histogram for word, histogram in found.items() if histogram is not None and histogram.total}


def _make_histogram(numbers: Numbers) -> Histogram | None:
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
    """Return True if integers are nearly all distinct, start no lower, end higher, and are as dense as before."""
    numbers, numbers_before = _find_distinct_integers(now), _find_distinct_integers(then)
    if numbers is None or numbers_before is None:
        return False
    (low, high, spacing), (low_before, high_before, spacing_before) = numbers, numbers_before
    return low >= low_before and high > high_before and 1 / _SPACING <= spacing / spacing_before <= _SPACING


def _find_distinct_integers(summary: FeatureSummary) -> tuple[int, int, float] | None:
    """Return minimum, maximum and mean gap of integers that are nearly all distinct; None for other values."""
    numbers, count = summary.numbers, summary.count
    if numbers is None or numbers.mean is None or summary.distinct is None or count is None or count < 2:
        return None
    low, high = numbers.minimum, numbers.maximum
    if summary.per_example is not None or not isinstance(low, int) or not isinstance(high, int):
        return None  # lists or floats
    if high == low or summary.distinct.count < _DISTINCT * count:
        return None
    if not _MIDDLE[0] <= (numbers.mean - low) / (high - low) <= _MIDDLE[1]:
        return None
    return low, high, (high - low) / (count - 1)


_ROUNDED = 1e-9  # bits: divergences that differ by less are the same


@dataclass(frozen=True, slots=True)
class Side:
    """One of two compared samples of a feature: its values in one split of one version."""

    name: str  # of the split, in sentences
    summary: FeatureSummary
    examples: int  # of the split

    @property
    def sample_size(self) -> float:
        """Return the number of independent values."""
        return sample_size(self.summary, self.examples)


def _choose_features(
    check: str, new: Profile, split: str, old: Profile, old_split: str, at_most: int | None
) -> tuple[dict[str, Feature], list[CheckResult]]:
    """Return the features to compare: all, or `at_most` those whose means moved most, and a result that says so."""
    if at_most is None or len(new.features) <= at_most:
        return dict(new.features), []
    moved = {}
    for name in new.features:
        sides = new.summary(split, name), old.summary(old_split, name)
        now, then = (None if side is None else side.numbers for side in sides)
        if now is not None and then is not None and now.mean is not None and then.mean is not None:
            moved[name] = abs(now.mean - then.mean) / (max(now.std_dev or 0.0, then.std_dev or 0.0) or 1.0)
    chosen = set(sorted(new.features, key=lambda name: -moved.get(name, math.inf))[:at_most])
    message = (
        f"of {len(new.features):,} features in {split!r} only the {at_most:,} whose means moved most are compared here;"
        " `shardmill diff` compares all"
    )
    result = CheckResult(f"numeric_{check}", "unknown", message, split=split)
    return {name: new.features[name] for name in new.features if name in chosen}, [result]


def check_drift(
    new: Profile, old: Profile, limits: LimitsByCheck, overrides: ByFeature = NO_OVERRIDES, at_most: int | None = None
) -> Iterator[CheckResult]:
    """Check the values of each feature in each split that has examples in both versions; of more only `at_most`.

    Identifiers differ in every version, so their drift is an error only if `overrides` have a limit for it.
    """
    for split in new.filled_splits:
        if not old.splits.get(split):
            continue
        features, left_out = _choose_features("drift", new, split, old, split, at_most)
        yield from left_out
        for name, feature in features.items():
            before = old.features.get(name)
            if before is None or (before.dtype, before.kind) != (feature.dtype, feature.kind):
                continue  # which `columns` says
            now, then = _make_side(new, split, name, repr(split)), _make_side(old, split, name, old.version)
            if now is None and feature.role == "source":
                continue  # shardmill added it and counts nothing of it
            found = _compare_sides("drift", feature, split, now, then, feature_limits(name, limits, overrides))
            is_identifier = now and then and grows_like_an_identifier(now.summary, then.summary)
            is_judged = not is_identifier or "numeric_drift" in overrides.get(name, {})
            yield from found if is_judged else map(_drop_judgement, found)


def check_skew(
    new: Profile, limits: LimitsByCheck, overrides: ByFeature = NO_OVERRIDES, at_most: int | None = None
) -> Iterator[CheckResult]:
    """Check the values of each feature, of more only `at_most`, in the training split against each other split."""
    train = new.training_split
    for split in new.filled_splits:
        if split == train:
            continue
        features, left_out = _choose_features("skew", new, split, new, train, at_most)
        yield from left_out
        for name, feature in features.items():
            now, then = _make_side(new, split, name, repr(split)), _make_side(new, train, name, repr(train))
            if now is not None or feature.role != "source":
                yield from _compare_sides("skew", feature, split, now, then, feature_limits(name, limits, overrides))


def _drop_judgement(result: CheckResult) -> CheckResult:
    """Return a passed check in place of a drift warning, because a feature grows from version to version as ids do."""
    if result.check != "numeric_drift" or result.severity == "ok":
        return result
    sentence = (
        f"{result.sentence}; its integers are nearly all distinct and grow, as identifiers and times do: not judged; "
        f"in a recipe, `checks: {{columns: {{{result.feature}: {{numeric_drift: 0.3}}}}}}` checks it, off hides this"
    )
    return replace(result, severity="unknown", sentence=sentence)


def _with_remedy(result: CheckResult) -> CheckResult:
    if result.severity != "error":
        return result
    remedy = f"checks: {{columns: {{{result.feature}: {{{result.check}: off}}}}}}"
    return replace(result, sentence=f"{result.sentence}; if that is intended, accept it in the recipe: `{remedy}`")


def _make_side(profile: Profile, split: str, feature: str, name: str) -> Side | None:
    summary = profile.summary(split, feature)
    return None if summary is None else Side(name, summary, profile.splits[split])


def _compare_sides(
    check: str, feature: Feature, split: str, now: Side | None, then: Side | None, limits: LimitsByCheck
) -> Iterator[CheckResult]:
    """Compare the values of a feature between two sides, None if nothing is recorded; `check` is `drift` or `skew`."""
    of_values = f"{'label' if kind_of(feature).has_classes else 'string'}_{check}"
    strings, numbers = limits.get(of_values, NO_LIMITS), limits.get(f"numeric_{check}", NO_LIMITS)
    if strings.is_off and numbers.is_off:
        return
    if now is not None and then is not None and 0 in (now.summary.count, then.summary.count):
        return  # no example has it on one side, which `presence` says
    name = feature.name
    values, buckets = set[str](), set[str]()
    if now is not None and then is not None:
        counted = frequencies(now.summary, now.examples), frequencies(then.summary, then.examples)
        spread = histograms(now.summary), histograms(then.summary)
        values, buckets = counted[0].keys() & counted[1].keys(), spread[0].keys() & spread[1].keys()
        for word in sorted(values) if not strings.is_off else ():
            found = _compare_values(word, name, (now, then), (counted[0][word], counted[1][word]), strings)
            yield _with_remedy(CheckResult(of_values, found.severity, found.message, name, split, *found[2:]))
        for word in sorted(buckets) if not numbers.is_off else ():
            found = _compare_numbers(word, name, (now, then), (spread[0][word], spread[1][word]), numbers)
            yield _with_remedy(CheckResult(f"numeric_{check}", found.severity, found.message, name, split, *found[2:]))
    if not values and not buckets:
        message = f"the values of {name!r} in {split!r} are not on record, so nothing is compared"
        yield CheckResult(of_values, "unknown", message, name, split)


def _name_subject(word: str, feature: str) -> str:
    return f"{word} of {feature!r}" if word else repr(feature)


class _Comparison(NamedTuple):
    """A measured distance between two samples of a feature, with its check and wording."""

    severity: Severity
    message: str
    distance: float
    threshold: float | None
    noise_floor: float


def _compare_values(
    word: str, feature: str, sides: tuple[Side, Side], counted: tuple[Frequencies, Frequencies], limit: Limits
) -> _Comparison:
    now, then = counted
    value, least = l_infinity_lower_bound(now, then)
    sizes = sides[0].sample_size, sides[1].sample_size
    shares = [now.share(value)[0], then.share(value)[0]]
    kinds = {**now.counts, **then.counts}
    pooled = [(now.share(each)[0] * sizes[0] + then.share(each)[0] * sizes[1]) / sum(sizes) for each in kinds]
    floor = share_floor(max(pooled, key=lambda p: p * (1 - p), default=0.0), *sizes, len(kinds))
    severity, threshold = limit.check_maximum(least, floor)
    message = f"{_name_subject(word, feature)} in {sides[0].name}: L-infinity {least:.3g} from {sides[1].name}"
    if least:
        message += f"; {value!r} is {shares[0]:.3g} of the values, {shares[1]:.3g} in {sides[1].name}"
    most = l_infinity_upper_bound(now, then)
    if severity == "ok" and limit.check_maximum(most, floor)[0] != "ok":
        severity, message = "unknown", f"{message}; it may be {most:.3g}, for not all values are on record"
    return _Comparison(severity, message, least, threshold, floor)


def _compare_numbers(
    word: str, feature: str, sides: tuple[Side, Side], spread: tuple[Histogram, Histogram], limit: Limits
) -> _Comparison:
    sizes = sides[0].sample_size, sides[1].sample_size
    least = jensen_shannon_lower_bound(*spread)
    floor = divergence_floor(least.bins, *sizes, least.tried)
    severity, threshold = limit.check_maximum(least.value, floor)
    distance = f"Jensen-Shannon divergence {least.value:.3g} from {sides[1].name}"
    message = f"{_name_subject(word, feature)} in {sides[0].name}: {distance}"
    numbers = [side.summary.numbers for side in reversed(sides)]
    means = [found.mean for found in numbers if found is not None and found.mean is not None]
    if not word and len(means) == 2:
        message += f"; mean {means[0]:.4g} -> {means[1]:.4g}"
    evenly = 0.0
    if spread[0] != spread[1]:
        evenly = jensen_shannon(_as_adjacent_ranges(spread[0]), _as_adjacent_ranges(spread[1]), nan_is_a_bin=True)
    all_bins_floor = divergence_floor(sum(len(each.buckets) for each in spread), *sizes)
    if severity == "ok" and evenly > least.value + _ROUNDED and limit.check_maximum(evenly, all_bins_floor)[0] != "ok":
        severity, message = "unknown", f"{message}; {evenly:.3g} if numbers are spread evenly over each bucket"
    return _Comparison(severity, message, least.value, threshold, floor)


def _as_adjacent_ranges(histogram: Histogram) -> Histogram:
    """Return integer buckets as adjacent ranges if all finite buckets are of integers."""
    wide = [bucket for bucket in histogram.buckets if math.isfinite(bucket.low)]
    if not all(isinstance(bucket.low, int) for bucket in wide):
        return histogram
    adjacent = (bucket._replace(high=bucket.high + 1) for bucket in wide)
    infinite = (bucket for bucket in histogram.buckets if not math.isfinite(bucket.low))
    return Histogram((*adjacent, *infinite), (), histogram.nan_count)
