"""Arrays as examples: the raw values of .npy files. Pure but for reading the files."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from shardmill.features.renames import NO_RENAMES, Renames
from shardmill.statistics.feature_summary import FeatureSummary
from shardmill.statistics.numbers import Numbers
from shardmill.transforms.files.arrays.layout import ArrayLayout
from shardmill.transforms.files.arrays.npy import ArrayType, NpyError, read_array
from shardmill.transforms.files.encode import Encoded, FileEncoder
from shardmill.transforms.files.noted_columns import Columns
from shardmill.transforms.layout.files import Layout
from shardmill.transforms.statistics.files import ClassNames, label_summaries
from shardmill.transforms.statistics.number_stats import NumberStats
from shardmill.transforms.stores import storage


@dataclass(slots=True)
class ArrayStats:
    """Statistics of some arrays: sizes in bytes, the range of their finite values unless they are complex, labels by
    id."""

    feature: str
    sizes: NumberStats = field(default_factory=NumberStats)
    low: int | float | None = None
    high: int | float | None = None
    nan: int = 0
    infinity: int = 0
    labels: Counter[int] = field(default_factory=Counter)

    def add(self, data: bytes, element: str) -> None:
        """Count one array's values: min and max are exact, in whatever order arrays come."""
        self.sizes.add([len(data)])
        values = np.frombuffer(data, np.dtype(element).newbyteorder("<"))
        if values.dtype.kind == "f":
            finite = np.isfinite(values)
            if not finite.all():
                nan = int(np.count_nonzero(np.isnan(values)))
                self.nan += nan
                self.infinity += len(values) - int(np.count_nonzero(finite)) - nan
                values = values[finite]
        if values.dtype.kind != "c" and len(values):
            low, high = values.min().item(), values.max().item()
            self._widen(low + 0, high + 0)  # -0.0 becomes 0.0, or the order would show; a boolean becomes an integer

    def _widen(self, low: int | float | None, high: int | float | None) -> None:
        if low is not None and high is not None:
            self.low = low if self.low is None else min(self.low, low)
            self.high = high if self.high is None else max(self.high, high)

    def merge(self, other: "ArrayStats") -> None:
        """Add what `other` counted."""
        self.sizes.merge(other.sizes)
        self._widen(other.low, other.high)
        self.nan += other.nan
        self.infinity += other.infinity
        self.labels.update(other.labels)

    def label_counts(self, feature: str) -> Counter[int]:
        """Arrays by class id; `label` is the only class label there is."""
        return self.labels

    def summary(self, class_names: ClassNames) -> dict[str, FeatureSummary]:
        """What stands in stats.json for a split: statistics by feature."""
        values = Numbers(minimum=self.low, maximum=self.high, nan=self.nan, infinity=self.infinity)
        array = FeatureSummary(size_bytes=self.sizes.summary(), values=None if values == Numbers() else values)
        return {self.feature: array, **label_summaries(self.labels, class_names)}


@dataclass(frozen=True)
class ArrayEncoder(FileEncoder):
    """Encodes references as tf.train.Example: the array, label, filename, then a manifest's columns.

    Attributes:
      root: the folder that names are relative to.
      feature: the name of the array's feature.
      expected: what all arrays are; others are rejects.
      example: the name of the file that says so, for rejects; "" where --shape and --dtype do.
      renames: what the features are called.
      columns: of a manifest.
    """

    refusal = NpyError
    said = ("example",)

    root: str
    feature: str = "image"
    expected: ArrayType | None = None
    example: str = ""
    renames: Renames = NO_RENAMES
    columns: Columns = ()

    def of_layout(self, layout: Layout) -> "ArrayEncoder":
        """As the base says: for arrays as the input has them."""
        assert isinstance(layout, ArrayLayout)
        return replace(super().of_layout(layout), expected=layout.array, example=layout.example)

    def encode_file(self, path: str, data: bytes | None = None) -> Encoded:
        """Read an array and check its type."""
        assert self.expected is not None
        return Encoded(read_array(storage.read_bytes(path) if data is None else data, self.expected, self.example))

    def count(self, files: Sequence[Encoded], labels: Counter[int]) -> ArrayStats:
        """The statistics of some arrays."""
        assert self.expected is not None
        stats = ArrayStats(self.feature, labels=labels)
        for file in files:
            stats.add(file.value, self.expected.element)
        return stats
