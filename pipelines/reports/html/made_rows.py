"""The rows of what a version was made of, and how: options and counts in words. Pure."""

from collections.abc import Mapping
from typing import Any

from shardmill.pipelines.reports.figures import figure, human_size

_NAMES = {"size_bytes": "size", "in_examples": "records in examples"}  # by the key in manifest.json
_SIZES = ("size_bytes", "shard_size")  # in bytes


def made_rows(values: Mapping[str, Any]) -> list[tuple[str, str]]:
    """A row for each of what manifest.json has under `input`, `configuration` or `versions`."""
    return [(_NAMES.get(key, key), _words(value, key)) for key, value in values.items()]


def _words(value: Any, key: str = "") -> str:
    if value is None or value == [] or value == {}:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int) and key in _SIZES:
        return human_size(value)
    if isinstance(value, (int, float)):
        return figure(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {_words(one)}" for name, one in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_words, value))
    return str(value) or '""'
