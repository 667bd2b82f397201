"""Every kind of feature by its name."""

from collections.abc import Mapping

from shardmill.features.feature import Feature, Kind
from shardmill.kinds.array import ArrayKind
from shardmill.kinds.audio import AudioKind
from shardmill.kinds.base import FeatureKind
from shardmill.kinds.bbox import BBoxKind
from shardmill.kinds.boolean import BoolKind
from shardmill.kinds.class_label import ClassLabelKind
from shardmill.kinds.image import ImageKind
from shardmill.kinds.mask import MaskKind
from shardmill.kinds.text import TextKind

# An entry of schema.pbtxt is of the first that takes it for its own; the last takes all.
_EVERY = (
    ArrayKind(),
    AudioKind(),
    MaskKind(),
    ImageKind(),
    ClassLabelKind(),
    BoolKind(),
    BBoxKind(),
    TextKind(),
    FeatureKind(),
)
KINDS: Mapping[Kind, FeatureKind] = {kind.name: kind for kind in _EVERY}


def kind_of(feature: Feature) -> FeatureKind:
    """The kind of a feature."""
    return KINDS[feature.kind]
