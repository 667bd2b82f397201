"""The text of manifest.json to its content, every name, type and range checked: a manifest may have come from anywhere.

What a later version adds is passed over: keys that are not known here, at any depth, are no fault of a file of the same
format.
"""

import math
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, get_args

from shardmill.features import roles
from shardmill.features.arrays import ELEMENTS
from shardmill.features.feature import DType, Feature, Features, Kind, Role, TimeUnit
from shardmill.metadata import file_template, naming
from shardmill.metadata.json_values import Value

_CRC32C = re.compile(r"[0-9a-f]{8}")
_MAX_VALUES = 1 << 31  # in a feature: an Example has 2 GB at most
_MAX_DIMENSIONS = 64  # NumPy's


def features(values: Value, configured: Mapping[str, Any]) -> Features:
    """The features; no name is there twice. Where a manifest, an old one, says no roles, `configured`
    tells them."""
    found = tuple(map(_feature, values.items()))
    _check_once(values, (feature.name for feature in found))
    if found and not any("role" in value.mapping() for value in values.items()):
        return roles.assumed(found, configured)
    return found


def _feature(value: Value) -> Feature:
    name = value["name"].text()
    shape = value.get("shape", [])
    sizes = tuple(None if size.value is None else size.integer(0, _MAX_VALUES) for size in shape.items())
    if len(sizes) > _MAX_DIMENSIONS or math.prod(size for size in sizes if size is not None) > _MAX_VALUES:
        raise shape.wrong(f"{_MAX_DIMENSIONS} sizes and {_MAX_VALUES} values at most")
    # Of all that a feature may have most have a third, and a wide table has thousands.
    known = value.mapping()
    others = {key: take(value[key]) for key, take in _OPTIONAL if key in known}
    return Feature(
        name=name,
        dtype=value["dtype"].one_of(*get_args(DType)),
        shape=sizes,
        **others,
    )


def _texts(value: Value) -> tuple[str, ...]:
    return tuple(item.text() for item in value.items())


_OPTIONAL: tuple[tuple[str, Callable[[Value], Any]], ...] = (
    ("kind", lambda value: value.one_of(*get_args(Kind))),
    ("required", Value.flag),
    ("class_names", _texts),
    ("encoding", Value.text),
    ("element", lambda value: value.one_of("", *ELEMENTS)),
    ("sample_rate", Value.integer),
    ("channels", Value.integer),
    ("role", lambda value: value.one_of(*get_args(Role))),
    ("original", Value.text),
    ("sequence", Value.text),
    ("time", lambda value: value.one_of(*get_args(TimeUnit))),
)


def split_name(value: Value) -> str:
    """A split's name."""
    if not naming.is_split_name(value.text()):
        raise value.wrong("the name of a split: letters, digits and '_'")
    return value.text()


def shard_file(value: Value, expected: naming.ShardName) -> str:
    """The name of the one file that a shard can have: no other folder's, no other shard's."""
    if value.text() != str(expected):
        raise value.wrong(repr(str(expected)))
    return value.text()


def crc32c(value: Value) -> str:
    """A checksum, 8 hex digits."""
    return value.matching(_CRC32C, "8 hex digits")


def dataset_name(value: Value) -> str:
    """A data set's name."""
    if not naming.is_dataset_name(value.text()):
        raise value.wrong("the name of a data set: a letter, then letters, digits and '_'")
    return value.text()


def version(value: Value) -> str:
    """A version."""
    if not naming.is_version(value.text()):
        raise value.wrong("three numbers, such as 1.0.0")
    return value.text()


def files(value: Value) -> dict[str, str]:
    """Checksums by the names of files in the version directory, or below it."""
    entries = value.entries()
    for name, entry in entries.items():
        if not naming.is_inside(name):
            raise ValueError(f"{entry.where} is not the name of a file of the data set")
    return {name: crc32c(entry) for name, entry in entries.items()}


def configuration(value: Value) -> dict[str, Any]:
    """The options that shaped the output; those that readers go by are of their types."""
    if (written := value.get("format", None)).value is not None:
        written.text()
    if (label := value.get("label", None)).value is not None:
        for name in label.items() if isinstance(label.value, list) else [label]:
            name.text()
    if (pixels := value.get("max_pixels", None)).value is not None:
        pixels.integer(1)
    if (template := value.get("file_template", None)).value is not None and file_template.problem(template.text()):
        raise template.wrong("a template of shards' names")
    return value.mapping()


def rejects(value: Value) -> dict[str, Any]:
    """How many records were rejected, in all and by reason."""
    value.get("records", 0).integer()
    for count in value.get("reasons", {}).entries().values():
        count.integer()
    return value.mapping()


def source(value: Value) -> dict[str, Any]:
    """What was read."""
    value.get("pattern", "").text()
    value.get("records", 0).integer()
    return value.mapping()


def check_total(read: Value, rejected: Value, examples: int) -> None:
    """Check that the records read are those in the shards and those rejected; raises ValueError."""
    if "records" not in read.mapping() or "records" not in rejected.mapping():
        return
    records, others = read["records"].integer(), rejected["records"].integer()
    if "in_examples" in read.mapping():
        examples = read["in_examples"].integer()
    if records != examples + others:
        raise ValueError(f"it counts {records} records read, but {examples} in its shards and {others} rejected")


def check_splits(values: Value, names: Iterable[str]) -> None:
    """Check that no split is there twice; raises ValueError."""
    _check_once(values, names)


def _check_once(values: Value, names: Iterable[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{values.where} has {name!r} twice")
        seen.add(name)
