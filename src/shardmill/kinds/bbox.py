"""`bbox`: boxes around what is in a picture, [ymin, xmin, ymax, xmax], from 0 to 1 of its height and width."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np

from shardmill.features.feature import Feature
from shardmill.kinds import tfds_entries
from shardmill.kinds.base import Entry, FeatureKind
from shardmill.records.example import FeatureValue

_FORMAT = "REL_YXYX"  # as TFDS calls it


class BBoxKind(FeatureKind):
    """Boxes by TFDS's default: relative, the upper left corner before the lower right one."""

    name = "bbox"

    def tfds(self, feature: Feature) -> Entry:
        """A BBoxFeature, or a list of them."""
        return tfds_entries.boxes(feature)

    def annotate(self, proto: Any, feature: Feature) -> None:
        """What the numbers mean, which no field is for."""
        proto.annotation.tag.append(f"format:{_FORMAT}")

    def from_schema(self, proto: Any, plain: Feature, notes: Mapping[str, str]) -> Feature | None:
        """Fours of numbers noted to be boxes."""
        is_box = plain.dtype == "float32" and notes.get("format") == _FORMAT and plain.shape[-1:] == (4,)
        return replace(plain, kind=self.name) if is_box else None

    def value_faults(self, feature: Feature, values: FeatureValue) -> list[str]:
        """Boxes that reach out of the picture, or end before they begin."""
        boxes = np.asarray(cast(np.ndarray, values)).reshape(-1, 4)
        good = (boxes >= 0).all(1) & (boxes <= 1).all(1) & (boxes[:, :2] <= boxes[:, 2:]).all(1)
        return [
            f"feature {feature.name!r} has the box {box.tolist()}; expected [ymin, xmin, ymax, xmax] from 0 to 1"
            for box in boxes[~good]
        ]

    def words(self, feature: Feature) -> str:
        """What the numbers of a box are."""
        return "bbox, [ymin, xmin, ymax, xmax] from 0 to 1"
