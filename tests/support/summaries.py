"""What statistics say of features, as stats.json has it."""

from collections.abc import Mapping
from typing import Any

from shardmill.quality.stats_file import FeatureSummary


def as_json(features: Mapping[str, FeatureSummary]) -> dict[str, Any]:
    """Features by name, as stats.json has them."""
    return {name: feature.to_json() for name, feature in features.items()}
