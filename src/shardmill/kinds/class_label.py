"""`class_label`: int64 ids of classes that have names."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from shardmill.features.feature import Feature
from shardmill.kinds import tfds_entries
from shardmill.kinds.base import Entry, FeatureKind
from shardmill.records.example import FeatureValue


class ClassLabelKind(FeatureKind):
    """Ids from 0 to the number of classes less 1."""

    name = "class_label"
    has_classes = True

    def tfds(self, feature: Feature) -> Entry:
        """A ClassLabel, whose names stand in a file of their own, or a list of them; where it may be missing, ids."""
        if not feature.required or len(feature.shape) > 1:
            return super().tfds(feature)
        if feature.shape:
            return tfds_entries.sequence(self.tfds(replace(feature, shape=())), feature.shape[0])
        label = {"numClasses": str(len(feature.class_names))}
        return {"pythonClassName": f"{tfds_entries.PACKAGE}.class_label_feature.ClassLabel", "classLabel": label}

    def annotate(self, proto: Any, feature: Feature) -> None:
        """A domain of categories."""
        proto.int_domain.min = 0
        proto.int_domain.max = len(feature.class_names) - 1
        proto.int_domain.is_categorical = True

    def from_schema(self, proto: Any, plain: Feature, notes: Mapping[str, str]) -> Feature | None:
        """Categories: how many there are is known, but not their names, which stand in a labels file."""
        if plain.dtype != "int64" or not proto.int_domain.is_categorical:
            return None
        return replace(plain, kind=self.name, class_names=("",) * (proto.int_domain.max + 1))

    def value_faults(self, feature: Feature, values: FeatureValue) -> list[str]:
        """Ids of no class."""
        classes = len(feature.class_names)
        return [
            f"feature {feature.name!r} is {value}; expected 0 to {classes - 1}"
            for value in map(int, values)
            if not 0 <= value < classes
        ]

    def shown(self, feature: Feature, value: Any) -> str | None:
        """The id, and the name of its class."""
        if isinstance(value, bytes):
            return None
        is_known = 0 <= value < len(feature.class_names)
        return f"{value} ({feature.class_names[value] if is_known else 'no such class'})"

    @property
    def padding(self) -> int:
        """The id of no class: 0 is one."""
        return -1

    def words(self, feature: Feature) -> str:
        """How many classes there are."""
        number = len(feature.class_names)
        return f"class_label, {number:,} class{'' if number == 1 else 'es'}"
