"""Statistics of integers that are not negative, exact and mergeable: sizes in bytes, dimensions in pixels."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from operator import mul

from shardmill.statistics.feature_summary import FeatureSummary
from shardmill.statistics.numbers import Bucket, Numbers


@dataclass(slots=True)
class NumberStats:
    """Count, range, mean and standard deviation of integers, and how many have each bit length (a histogram by powers
    of 2)."""

    count: int = 0
    minimum: int = 0
    maximum: int = 0
    total: int = 0
    squares: int = 0
    bit_lengths: Counter[int] = field(default_factory=Counter)

    def add(self, values: Iterable[int]) -> None:
        """Count non-negative `values`."""
        counted = list(values)
        if not counted:
            return
        low, high = min(counted), max(counted)
        self.minimum = min(self.minimum, low) if self.count else low
        self.maximum = max(self.maximum, high)
        self.count += len(counted)
        self.total += sum(counted)
        self.squares += sum(map(mul, counted, counted))
        self.bit_lengths.update(map(int.bit_length, counted))

    def merge(self, other: "NumberStats") -> None:
        """Add what `other` counted."""
        if not other.count:
            return
        self.minimum = min(self.minimum, other.minimum) if self.count else other.minimum
        self.maximum = max(self.maximum, other.maximum)
        self.count += other.count
        self.total += other.total
        self.squares += other.squares
        self.bit_lengths.update(other.bit_lengths)

    def summary(self) -> Numbers:
        """What stands in stats.json where they are one of several things that are said of a feature."""
        if not self.count:
            return Numbers(count=0)
        variance = (self.count * self.squares - self.total**2) / self.count**2
        return Numbers(
            count=self.count,
            minimum=self.minimum,
            maximum=self.maximum,
            mean=self.total / self.count,
            std_dev=math.sqrt(variance),
            histogram=tuple(Bucket.of_bits(bits, self.bit_lengths[bits]) for bits in sorted(self.bit_lengths)),
        )

    def feature(self) -> FeatureSummary:
        """What stands in stats.json where they are the feature."""
        return FeatureSummary(count=self.count, numbers=replace(self.summary(), count=None))
