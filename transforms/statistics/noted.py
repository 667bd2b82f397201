"""Statistics of files together with those of what a manifest says of each."""

from collections import Counter
from dataclasses import dataclass

from shardmill.statistics.feature_summary import FeatureSummary
from shardmill.transforms.statistics.files import ClassNames, Located, SplitStats
from shardmill.transforms.statistics.gathered import GatheredStats


@dataclass(slots=True)
class NotedStats:
    """The statistics of a split's files, and of a manifest's further columns, by the names that they have there.

    Attributes:
      files: of what the files hold.
      columns: of the columns, and of the label, by which it is told which column tells it.
    """

    files: SplitStats
    columns: GatheredStats

    def merge(self, other: "NotedStats") -> None:
        """Add what `other` counted."""
        self.files.merge(other.files)
        self.columns.merge(other.columns)

    def lie_in(self, shard: str, start: int) -> None:
        """As `Located` says."""
        if isinstance(self.files, Located):
            self.files.lie_in(shard, start)

    def label_counts(self, feature: str) -> Counter[int]:
        """Files by class id."""
        return self.files.label_counts(feature)

    def summary(self, class_names: ClassNames) -> dict[str, FeatureSummary]:
        """What stands in stats.json for a split: statistics by feature."""
        of_files = self.files.summary(class_names)
        return {**of_files, **{name: of for name, of in self.columns.summary().items() if name not in of_files}}


def of_files(stats: SplitStats) -> SplitStats:
    """What was counted of files alone."""
    return stats.files if isinstance(stats, NotedStats) else stats
