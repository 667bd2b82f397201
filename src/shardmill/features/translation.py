"""Which texts of an example, or tokens of texts, are one another's translations, as the configuration in manifest.json
tells."""

from collections.abc import Mapping
from typing import Any

from shardmill.features.renames import Renames

LANGUAGES = "languages"  # in that configuration


def languages_of(configuration: Mapping[str, Any]) -> tuple[str, ...]:
    """The features that are texts of several languages, or their tokens, by the names in examples; () where there are
    none."""
    return tuple(map(Renames.of(configuration), configuration.get(LANGUAGES) or ()))
