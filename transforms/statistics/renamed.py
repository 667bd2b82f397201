"""Statistics of features that are published by other names than those they were counted by."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from shardmill.features.renames import Renames
from shardmill.statistics.feature_summary import FeatureSummary
from shardmill.transforms.statistics.files import ClassNames, SplitStats


@dataclass(frozen=True, slots=True)
class RenamedStats:
    """The statistics of a split, by the names in examples."""

    stats: SplitStats
    renames: Renames

    def merge(self, other: "RenamedStats") -> None:
        """Add what `other` counted."""
        self.stats.merge(other.stats)

    def label_counts(self, feature: str) -> Counter[int]:
        """Examples by class id of a class label."""
        return self.stats.label_counts(self.renames.original(feature))

    def summary(self, class_names: ClassNames) -> dict[str, FeatureSummary]:
        """What stands in stats.json for a split: statistics by feature."""
        original = {self.renames.original(feature): names for feature, names in class_names.items()}
        return {self.renames(feature): values for feature, values in self.stats.summary(original).items()}


def rename_stats(stats: Mapping[str, SplitStats], renames: Renames) -> dict[str, SplitStats]:
    """The statistics of each split, by the names in examples."""
    return (
        {split: RenamedStats(of_split, renames) for split, of_split in stats.items()} if renames.pairs else dict(stats)
    )
