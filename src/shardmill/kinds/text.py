"""`text`: bytes that are UTF-8."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from shardmill.features.feature import Feature
from shardmill.kinds import tfds_entries
from shardmill.kinds.base import Entry, FeatureKind


class TextKind(FeatureKind):
    """Strings."""

    name = "text"

    def tfds(self, feature: Feature) -> Entry:
        """A Text where every example has one; TFDS has no lists of them."""
        if feature.is_dense and not feature.shape:
            return {"pythonClassName": f"{tfds_entries.PACKAGE}.text_feature.Text", "text": {}}
        return super().tfds(feature)

    def from_schema(self, proto: Any, plain: Feature, notes: Mapping[str, str]) -> Feature | None:
        """One bytes that nothing else is said about."""
        return replace(plain, kind=self.name) if plain.dtype == "bytes" and not plain.shape else None
