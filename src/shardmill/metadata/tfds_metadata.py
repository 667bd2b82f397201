"""Features and splits as TFDS's own JSON files, so that `tfds.builder_from_directory` needs no code.

The files are protobuf JSON of tensorflow_datasets/core/proto/{feature,dataset_info}.proto. A feature that may be
missing is a tensor of shape (None,), or (None, 4) if its values have shape (n, 4): it reads as zero or one value. What
is said of each of several objects is a Sequence of what is said of one.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from shardmill.codecs.registry import PLAIN
from shardmill.features.feature import Feature, Features, known_as
from shardmill.kinds import tfds_entries
from shardmill.kinds.registry import kind_of
from shardmill.metadata import file_template


@dataclass(frozen=True, slots=True)
class SplitInfo:
    """A split as TFDS sees it: the examples in each shard, and the bytes of all of them."""

    name: str
    shard_lengths: tuple[int, ...]
    size_bytes: int


def to_features_json(features: Features, languages: Sequence[str] = ()) -> str:
    """The text of `features.json`: a Translation, as TFDS's data sets of such have it, where all features are texts of
    `languages`."""
    are_texts = all(feature.dtype == "bytes" for feature in features)
    if languages and are_texts and {feature.name for feature in features} == set(languages):
        return dump_json(tfds_entries.translation(languages))
    entries: dict[str, dict[str, Any]] = {}
    members: dict[str, dict[str, dict[str, Any]]] = {}
    for feature in features:
        if not feature.member:
            entries[feature.name] = kind_of(feature).tfds(feature)
            continue
        if feature.sequence not in members:
            members[feature.sequence] = {}
            entries[feature.sequence] = tfds_entries.sequence(tfds_entries.features_dict(members[feature.sequence]))
        members[feature.sequence][feature.member] = kind_of(feature).tfds_member(feature)
    return dump_json(tfds_entries.features_dict(entries))


def to_dataset_info_json(
    name: str,
    version: str,
    splits: Sequence[SplitInfo],
    supervised: tuple[str, str] | None,
    description: str,
    file_format: str = PLAIN.file_format,
    template: str = file_template.DEFAULT,
) -> str:
    """The text of `dataset_info.json`; `supervised` names the input and target of `as_supervised=True`."""
    content: dict[str, Any] = {
        "name": name,
        "version": version,
        "description": description,
        "fileFormat": file_format,
        "splits": [
            {
                "name": split.name,
                "filepathTemplate": template,
                "shardLengths": [str(length) for length in split.shard_lengths],
                "numBytes": str(split.size_bytes),
            }
            for split in splits
        ],
    }
    if supervised is not None:
        content["supervisedKeys"] = {"tuple": {"items": [{"featureKey": key} for key in supervised]}}
    return dump_json(content)


def supervised_keys(features: Features, label: str = "label") -> tuple[str, str] | None:
    """Input and target of `as_supervised=True` among all features, if there are any: image, `text`, array or audio, and
    `label`."""
    text = known_as(features, "text")
    inputs = [(rank, item.name) for item in features if (rank := _input_rank(item, item is text)) is not None]
    found = min(inputs, key=lambda pair: pair[0])[1] if inputs else label  # the first of those of a rank
    return (found, label) if found != label and any(item.name == label for item in features) else None


def _input_rank(feature: Feature, is_text: bool) -> int | None:
    """Which feature is the input: that of the least rank; None for one that is none. Of many strings, such as columns,
    that is the text which is called so."""
    rank = kind_of(feature).input_rank
    if rank is None and feature.name == "image":
        rank = 0
    return min(1, 1 if rank is None else rank) if is_text else rank


def dump_json(content: Mapping[str, Any]) -> str:
    """JSON the way all our files have it: indented, keys in the order given, one newline at the end."""
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"
