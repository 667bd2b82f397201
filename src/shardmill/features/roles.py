"""What features are for: how a writer marks the label, and what is known where a manifest, an old one, does not say."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from shardmill.features.feature import Features, of_kind
from shardmill.features.renames import Renames

# What shardmill itself added to examples, by the format in the manifest's configuration; images have none there.
_SOURCES = {
    None: ("filename", "height", "width"),
    "lines": ("filename", "line_number"),
    "text files": ("filename",),
    "arrays": ("filename",),
    "audio": ("filename", "sample_rate", "channels", "frames"),
}


def with_label(features: Features, configuration: Mapping[str, Any]) -> Features:
    """The features, of which those of `--label`, or `label`, by the names of the input, are labels."""
    given = configuration.get("label") or "label"
    names = tuple(map(Renames.of(configuration), [given] if isinstance(given, str) else given))
    return tuple(replace(feature, role="label") if feature.name in names else feature for feature in features)


def assumed(features: Features, configuration: Mapping[str, Any]) -> Features:
    """The features of a manifest that says no roles, with those, and the names before `--rename`, that the writer's
    configuration tells."""
    renames, written = Renames.of(configuration), configuration.get("format")
    known = written is not None or bool(of_kind(features, "image"))
    sources = tuple(map(renames, _SOURCES.get(written, ()))) if known else ()
    named = renames.features(renames.undone(features))
    marked = tuple(replace(feature, role="source") if feature.name in sources else feature for feature in named)
    return with_label(marked, configuration)
