"""Metadata files for other readers: features.json and dataset_info.json of TFDS, and transform.json."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from shardmill.data import feature_kind
from shardmill.data.codecs import PLAIN_CODEC
from shardmill.data.features import Feature, Features, find_feature
from shardmill.data.kinds import kind_of
from shardmill.metadata import file_names
from shardmill.metadata.json_values import OPTIONAL, Json, JsonObject, Value, parse_fields, parse_file, write_fields

TFDS_CANNOT = "TFDS cannot decode"  # so begin the notices of what only other readers can


@dataclass(frozen=True, slots=True)
class SplitInfo:
    """A split as TFDS describes it."""

    name: str
    shard_lengths: tuple[int, ...]  # examples in each shard
    size_bytes: int  # of all shards


def to_features_json(features: Features, languages: Sequence[str] = ()) -> str:
    """Return the text of `features.json`; features that are all texts of `languages` are a Translation, as in TFDS."""
    are_texts = all(feature.dtype == "bytes" for feature in features)
    if languages and are_texts and {feature.name for feature in features} == set(languages):
        translation = {"languages": sorted(languages)}
        return dump_json(feature_kind.make_entry("translation_feature.Translation", translation=translation))
    entries: dict[str, dict[str, Any]] = {}
    members: dict[str, dict[str, dict[str, Any]]] = {}
    for feature in features:
        if not feature.member:
            entries[feature.name] = kind_of(feature).tfds_entry(feature)
            continue
        found = members.setdefault(feature.sequence, {})
        if not found:
            entries[feature.sequence] = feature_kind.sequence_entry(feature_kind.features_dict_entry(found))
        found[feature.member] = kind_of(feature).tfds_member_entry(feature)
    return dump_json(feature_kind.features_dict_entry(entries))


def to_dataset_info_json(
    name: str,
    version: str,
    splits: Sequence[SplitInfo],
    supervised: tuple[str, str] | None,
    description: str,
    file_format: str = PLAIN_CODEC.file_format,
    template: str = file_names.DEFAULT_TEMPLATE,
) -> str:
    """Return the text of `dataset_info.json`; `supervised` names the input and target of `as_supervised=True`."""
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
    """Return input (image, `text`, array or audio) and target of `as_supervised=True`; None if either is absent."""
    text = find_feature(features, "text")
    inputs = [(rank, item.name) for item in features if (rank := _input_rank(item, item is text)) is not None]
    found = min(inputs, key=lambda pair: pair[0])[1] if inputs else label  # the first of those of a rank
    return (found, label) if found != label and any(item.name == label for item in features) else None


def _input_rank(feature: Feature, is_text: bool) -> int | None:
    rank = kind_of(feature).input_rank
    if rank is None and feature.name == "image":
        rank = 0
    return min(1, 1 if rank is None else rank) if is_text else rank


_EXPONENT = re.compile(rb"e([+-]?)([0-9]+)(?=,?\n)")  # no string ends without a quote
_SMALL = re.compile(rb"0\.0000[0-9]*(?=,?\n)")


def dump_json(content: Mapping[str, Any]) -> str:
    """Return JSON in the style of all our files: indented, keys in the given order, one newline at the end."""
    return dump_json_bytes(content).decode()


def dump_json_bytes(content: Mapping[str, Any]) -> bytes:
    """Return the UTF-8 of `dump_json`. It is that of Python's own encoder, which takes twenty times as long."""
    import orjson  # by who writes files alone

    try:
        text: bytes = orjson.dumps(content, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # integers beyond 64 bits, and keys that are no strings
        return (json.dumps(content, indent=2, ensure_ascii=False) + "\n").encode()
    # Python writes 1e-05, which releases of orjson write as 1e-5 or as 0.00001.
    if _SMALL.search(text):  # for no copy of a large text is made in vain
        text = _SMALL.sub(_respell_number, text)
    if _EXPONENT.search(text):
        text = _EXPONENT.sub(lambda found: b"e%s%s" % (found[1] or b"+", found[2].zfill(2)), text)
    return text


def _respell_number(found: re.Match[bytes]) -> bytes:
    is_whole = found.string[found.start() - 1] in b" -"  # and no part of 10.00001
    return repr(float(found[0])).encode() if is_whole else found[0]


FORMAT = 1  # raised when a reader of the previous format would misread the file
HEAD_ENTRIES = 10  # entries of a vocabulary that are listed


def _parse_head(value: Value) -> tuple[tuple[str, int], ...]:
    pairs = (pair.items() for pair in value.items())
    return tuple((entry.text(), count.integer()) for entry, count in pairs)


def _parse_unknown(value: Value) -> dict[str, tuple[int, int]]:
    splits = value.entries().items()
    return {split: (found["values"].integer(), found["unknown"].integer()) for split, found in splits}


@dataclass(frozen=True, slots=True)
class VocabularySummary(JsonObject):
    """A summary of a vocabulary."""

    file: str  # its entries, one a line; relative to the version's folder
    entries: int  # number of entries
    distinct: int  # distinct values before any threshold or limit
    head: tuple[tuple[str, int], ...] = field(metadata={"parse": _parse_head})  # most frequent entries with counts
    # by split: number of values, and of those out of the vocabulary
    unknown: Mapping[str, tuple[int, int]] = field(metadata={"parse": _parse_unknown})

    def to_json(self) -> Json:
        """Return the summary of a vocabulary as a JSON object."""
        unknown = {split: {"values": n, "unknown": out} for split, (n, out) in self.unknown.items()}
        return {**write_fields(self), "unknown": unknown}


@dataclass(frozen=True, slots=True)
class Asset(JsonObject):
    """A file of a graph whose lines were found by analysis, such as a vocabulary."""

    file: str  # relative to the version's folder
    entries: int  # number of lines
    head: tuple[str, ...]  # first lines


@dataclass(frozen=True, slots=True)
class ModuleSummary(JsonObject):
    """A summary of a graph made by a module's preprocessing_fn."""

    name: str  # of the module's file
    sha256: str  # of its text
    found: str  # SHA-256 of TFT's analysis: numbers in the graph, and assets
    assets: tuple[Asset, ...] = ()  # such as vocabularies


@dataclass(frozen=True, slots=True)
class TransformedOutput(JsonObject):
    """One feature of transformed examples."""

    name: str
    feature: str  # raw feature it is made of; "" if a module made it
    steps: tuple[Mapping[str, Any], ...] = ()  # in order, each `{name: parameters}`; none if unchanged
    constants: Mapping[str, Any] = field(default_factory=dict)  # found by analysis, by name
    vocabulary: VocabularySummary | None = field(default=None, metadata=OPTIONAL)
    # constants of these examples, if those of a previous version are used
    drift: Mapping[str, Any] = field(default_factory=dict, metadata=OPTIONAL)


@dataclass(frozen=True, slots=True)
class TransformFile:
    """The content of transform.json."""

    analyzed: Mapping[str, int]  # number of examples analyzed, by split
    outputs: tuple[TransformedOutput, ...]  # in order
    # dataset and version of the constants; "" if from these examples
    former: str = field(default="", metadata=OPTIONAL)
    module: ModuleSummary | None = field(default=None, metadata=OPTIONAL)  # made the graph; None if --transform did

    def to_json(self) -> str:
        """Return the text of transform.json."""
        content = {"format": FORMAT, **write_fields(self)}
        content["outputs"] = content.pop("outputs")  # comes last
        return json.dumps(content, ensure_ascii=False, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes, name: str) -> "TransformFile":
        """Parse the text of a transform.json, called `name` in errors.

        Raise a CorruptDataError if it is not a transform.json, or of a newer format.
        """
        problem = "does not say what was found for a transform"
        return cls(**parse_file(text, name, FORMAT, problem, partial(parse_fields, cls)))
