"""Statistics of images in a column of rows: sizes, dimensions, formats. Mergeable, in any order."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from shardmill.statistics.feature_summary import FeatureSummary
from shardmill.transforms.statistics.number_stats import NumberStats
from shardmill.transforms.statistics.values import Codes, Ties

_UPRIGHT = 1  # the orientation by EXIF of what need not be turned
PICTURE = pa.struct(
    {
        "size_bytes": pa.int64(),
        "width": pa.int32(),
        "height": pa.int32(),
        "format": pa.string(),
        "orientation": pa.int8(),
    }
)


def picture_array(
    sizes: np.ndarray,
    widths: np.ndarray,
    heights: np.ndarray,
    formats: Sequence[str],
    orientations: np.ndarray,
    missing: np.ndarray,
) -> pa.StructArray:
    """What is known of some images, null where one is `missing`; each is of shape (images,)."""
    columns = zip((sizes, widths, heights, formats, orientations), PICTURE, strict=True)
    arrays = [pa.array(values, kind.type) for values, kind in columns]
    return pa.StructArray.from_arrays(arrays, fields=list(PICTURE), mask=pa.array(missing))


@dataclass(slots=True)
class PictureStats:
    """Statistics of images of which PICTURE is known."""

    sizes: NumberStats = field(default_factory=NumberStats)
    widths: NumberStats = field(default_factory=NumberStats)
    heights: NumberStats = field(default_factory=NumberStats)
    formats: Counter[str] = field(default_factory=Counter)
    turned: int = 0

    @property
    def kind(self) -> str:
        """A word for images."""
        return "images"

    def add(self, values: pa.Array, ties: Ties) -> Codes | None:
        """Count images, an array of PICTURE."""
        sizes, widths, heights, formats, orientations = (part.to_pylist() for part in values.flatten())
        self.sizes.add(sizes)
        self.widths.add(widths)
        self.heights.add(heights)
        self.formats.update(formats)
        self.turned += sum(orientation != _UPRIGHT for orientation in orientations)
        return None

    def merge(self, other: "PictureStats") -> None:
        """Add what `other` counted."""
        self.sizes.merge(other.sizes)
        self.widths.merge(other.widths)
        self.heights.merge(other.heights)
        self.formats.update(other.formats)
        self.turned += other.turned

    def summary(self, class_names: Sequence[str] | None) -> FeatureSummary:
        """What stands in stats.json."""
        return FeatureSummary(
            formats=dict(sorted(self.formats.items())),
            size_bytes=self.sizes.summary(),
            width=self.widths.summary(),
            height=self.heights.summary(),
            turned_by_exif=self.turned,
        )
