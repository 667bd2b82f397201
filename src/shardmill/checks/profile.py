"""What a version holds, as far as manifest.json and stats.json say."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from shardmill.checks.distances import Frequencies, Histogram, Interval
from shardmill.features.feature import Feature, of_kind
from shardmill.metadata.manifest import Manifest
from shardmill.reading.dataset import Dataset
from shardmill.statistics.feature_summary import FeatureSummary
from shardmill.statistics.numbers import Numbers
from shardmill.statistics.stats_file import SplitSummary, StatsFile
from shardmill.statistics.values import FEWEST_SAMPLED, SAMPLED, TOP_VALUES

_ROUNDING = 1e-6  # of a quantile's error, by which the file may have rounded it


@dataclass(frozen=True, slots=True)
class Profile:
    """One version: its manifest, and the statistics of its splits."""

    manifest: Manifest
    stats: StatsFile

    @classmethod
    def of(cls, dataset: Dataset) -> "Profile":
        """The profile of a published version.

        Raises:
          CorruptDataError: stats.json is not what was written.
          FileNotFoundError: it is missing.
        """
        return cls(dataset.manifest, dataset.stats())

    @property
    def version(self) -> str:
        """Its version."""
        return self.manifest.version

    @property
    def examples(self) -> int:
        """Of all splits."""
        return sum(split.examples for split in self.manifest.splits)

    @property
    def splits(self) -> dict[str, int]:
        """Examples by split, in the manifest's order."""
        return {split.name: split.examples for split in self.manifest.splits}

    @property
    def features(self) -> dict[str, Feature]:
        """By name, in the manifest's order."""
        return {feature.name: feature for feature in self.manifest.features}

    @property
    def labels(self) -> tuple[Feature, ...]:
        """The features that are classes."""
        return of_kind(self.manifest.features, "class_label")

    def summary(self, split: str, feature: str) -> FeatureSummary | None:
        """What is known of a feature in a split; None where nothing is."""
        return self.stats.splits[split].features.get(feature) if split in self.stats.splits else None

    def summaries(self, feature: str) -> Iterator[tuple[SplitSummary, FeatureSummary]]:
        """What is known of a feature in each split that has examples."""
        for split in self.stats.splits.values():
            if split.examples and feature in split.features:
                yield split, split.features[feature]

    def class_counts(self, feature: Feature) -> Counter[str] | None:
        """Examples by class, in all splits; every class is named. None where a split with examples does not say."""
        counts = Counter(dict.fromkeys(feature.class_names, 0))
        for split, examples in self.splits.items():
            summary = self.summary(split, feature.name)
            if examples and (summary is None or summary.classes is None):
                return None
            counts.update(summary.classes or {} if summary is not None else {})
        return counts

    def presence(self, split: str, feature: str) -> float | None:
        """The share of a split's examples that have a feature; None where nobody knows."""
        summary, examples = self.summary(split, feature), self.splits[split]
        if summary is not None and summary.count is not None and summary.missing is not None:
            return summary.count / examples if examples else None
        return 1.0 if examples and self.features[feature].required else None

    def numeric_mean(self, feature: str) -> float | None:
        """The mean of a feature's numbers in all splits; None where it has none, or a split does not say."""
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
    """How many values a feature has in a split of so many examples."""
    present = examples if summary.count is None else summary.count
    if summary.per_example is not None and summary.per_example.mean is not None:
        return present * summary.per_example.mean
    return float(present)


def sample_size(summary: FeatureSummary, examples: int) -> float:
    """How many independent values a feature has in a split of so many examples: those of one list are not."""
    present = examples if summary.count is None else summary.count
    size = min(present, number_of_values(summary, examples))
    return min(size, SAMPLED) if summary.top_values_from else size


def frequencies(summary: FeatureSummary, examples: int) -> dict[str, Frequencies]:
    """How often values occur, by what they are of: "" the feature itself, or a word such as `formats`."""
    if summary.classes is not None:
        counts: dict[str, float] = {**summary.classes}
        return _told("", counts, math.fsum(counts.values()) + summary.without_name)
    found: dict[str, Frequencies] = {}
    words: dict[str, Mapping[str, int] | Mapping[int, int] | None] = {
        "formats": summary.formats,
        "encodings": summary.encodings,
        "rates": summary.frames_by_rate,
        "channels": summary.files_by_channels,
    }
    for word, counted in words.items():
        if counted:
            found |= _told(word, {str(key): count for key, count in counted.items()}, sum(counted.values()))
    if summary.top_values is not None and summary.numbers is None:
        top = Counter[str]()  # values that are cut may look the same
        for entry in summary.top_values:
            top[str(entry.value)] += entry.count
        total = number_of_values(summary, examples)
        if total:
            found[""] = Frequencies(dict(top), total, _unseen(summary, total))
    return found


def _told(word: str, counts: Mapping[str, float], total: float) -> dict[str, Frequencies]:
    return {word: Frequencies(counts, total)} if total else {}


def _unseen(summary: FeatureSummary, total: float) -> float:
    """How often a value occurs at most that is not among the most frequent ones on record."""
    top = summary.top_values or ()
    if summary.top_values_from:
        return max(total * FEWEST_SAMPLED / SAMPLED, float(top[-1].count) if len(top) == TOP_VALUES else 0.0)
    if summary.distinct is not None and summary.distinct.is_exact and len(top) >= summary.distinct.count:
        return 0.0
    return float(top[-1].count) if len(top) == TOP_VALUES else 1.0  # what occurs once is not shown


def histograms(summary: FeatureSummary) -> dict[str, Histogram]:
    """How numbers are distributed, by what they are of: "" the feature itself, or a word such as `size_bytes`."""
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
