"""`bool`: int64 that are 0 or 1."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from shardmill.features.feature import DType, Feature
from shardmill.kinds.base import Entry, FeatureKind


class BoolKind(FeatureKind):
    """Truth values."""

    name = "bool"

    def tfds_member(self, feature: Feature) -> Entry:
        """A scalar bool, as TFDS's own data sets of objects have it."""
        entry = super().tfds_member(feature)
        entry["tensor"]["dtype"] = "bool"
        return entry

    def annotate(self, proto: Any, feature: Feature) -> None:
        """A domain of bools."""
        proto.bool_domain.SetInParent()

    def from_schema(self, proto: Any, plain: Feature, notes: Mapping[str, str]) -> Feature | None:
        """What has a domain of bools."""
        return replace(plain, kind=self.name) if proto.HasField("bool_domain") else None

    def column_type(self, feature: Feature) -> DType | Literal["bool"]:
        """A column of bools."""
        return "bool"
