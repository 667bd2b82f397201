"""Statistics of small batches, gathered and counted together: to count one takes as long as some hundred rows."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from shardmill.statistics.feature_summary import FeatureSummary
from shardmill.transforms.statistics.tables import TableStats
from shardmill.transforms.statistics.values import Ties

_ROWS = 4096  # examples that are counted at once
_BYTES = 4 << 20  # of them, if they are large


@dataclass(slots=True)
class GatheredStats:
    """A TableStats of batches of one schema, which wait until there are enough of them.

    Attributes:
      labels: features that hold ids of classes.
      counted: the statistics of those that were counted.
      waiting: the others, with their ties.
      rows, size_bytes: of those that wait, about: counted once, for it takes as long as to count a batch.
    """

    labels: tuple[str, ...] = ()
    counted: TableStats = field(default_factory=TableStats)
    waiting: list[tuple[pa.RecordBatch, Ties]] = field(default_factory=list)
    rows: int = 0
    size_bytes: int = 0

    @classmethod
    def of(cls, batch: pa.RecordBatch, ties: Ties, labels: Sequence[str] = ()) -> "GatheredStats":
        """The statistics of a batch; see TableStats.add."""
        return cls(tuple(labels), waiting=[(batch, ties)], rows=len(batch), size_bytes=int(batch.nbytes))

    def merge(self, other: "GatheredStats") -> None:
        """Add what `other` counted, or was to count; it stays as it is."""
        self.labels = self.labels or other.labels
        self.counted.merge(other.counted)
        self.waiting += other.waiting
        self.rows += other.rows
        self.size_bytes += other.size_bytes
        if self.rows >= _ROWS or self.size_bytes >= _BYTES:
            self._count()

    def label_counts(self, feature: str) -> Counter[int]:
        """As TableStats has it."""
        return self._count().label_counts(feature)

    def summary(self, class_names: Mapping[str, Sequence[str]] = {}) -> dict[str, FeatureSummary]:
        """As TableStats has it."""
        return self._count().summary(class_names)

    def __getstate__(self) -> tuple[tuple[str, ...], TableStats]:
        return self.labels, self._count()

    def __setstate__(self, state: tuple[tuple[str, ...], TableStats]) -> None:
        (self.labels, self.counted), self.waiting, self.rows, self.size_bytes = state, [], 0, 0

    def _count(self) -> TableStats:
        if self.waiting:
            batches, ties = zip(*self.waiting, strict=True)
            self.counted.add(pa.concat_batches(batches), np.concatenate(ties), self.labels)
            self.waiting, self.rows, self.size_bytes = [], 0, 0
        return self.counted
