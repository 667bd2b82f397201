"""The manifest of a version: its splits, shards, features and rejects."""

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import google_crc32c

from shardmill.data import features as roles
from shardmill.data.codecs import CODECS, PLAIN_CODEC, Codec
from shardmill.data.feature_kind import ELEMENT_TYPES
from shardmill.data.features import Feature, Features
from shardmill.metadata import file_names
from shardmill.metadata.file_names import MANIFEST, ShardName
from shardmill.metadata.json_values import Value, field_parsers, parse_file
from shardmill.metadata.tfds_metadata import dump_json
from shardmill.text import mask_urls

_CRC32C = re.compile(r"[0-9a-f]{8}")
_MAX_VALUES = 1 << 31  # in a feature: an Example has 2 GB at most
_MAX_DIMENSIONS = 64  # NumPy's


def _parse_features(values: Value, configured: Mapping[str, Any]) -> Features:
    """Parse the features; if an old manifest has no roles, infer them from the job's options `configured`."""
    found = tuple(map(_parse_feature, values.items()))
    _check_once(values, (feature.name for feature in found))
    if found and not any("role" in value.mapping() for value in values.items()):
        return roles.infer_roles(found, configured)
    return found


def _parse_feature(value: Value) -> Feature:
    # Of all that a feature may have most have a third, and a wide table has thousands.
    known = {"name", "dtype", *value.mapping()}
    return Feature(**{key: parse(value[key]) for key, parse in _FEATURE_PARSERS.items() if key in known})


def _parse_shape(value: Value) -> tuple[int | None, ...]:
    sizes = tuple(None if size.value is None else size.integer(0, _MAX_VALUES) for size in value.items())
    if len(sizes) > _MAX_DIMENSIONS or math.prod(size for size in sizes if size is not None) > _MAX_VALUES:
        raise value.wrong(f"{_MAX_DIMENSIONS} sizes and {_MAX_VALUES} values at most")
    return sizes


_FEATURE_PARSERS: Mapping[str, Callable[[Value], Any]] = {
    **field_parsers(Feature),
    "shape": _parse_shape,
    "element": lambda value: value.one_of("", *ELEMENT_TYPES),
}


def _parse_crc32c(value: Value) -> str:
    return value.matching(_CRC32C.fullmatch, "8 hex digits")


def _parse_files(value: Value) -> dict[str, str]:
    entries = value.entries()
    for name, entry in entries.items():
        if not file_names.is_inside(name):
            raise ValueError(f"{entry.where} is not the name of a file of the data set")
    return {name: _parse_crc32c(entry) for name, entry in entries.items()}


def _parse_configuration(value: Value) -> dict[str, Any]:
    """Parse the options that shaped the output, and check the types of those that readers use."""
    given = {name: option for name, option in value.entries().items() if option.value is not None}
    if "format" in given:
        given["format"].text()
    if (label := given.get("label")) is not None:
        for name in label.items() if isinstance(label.value, list) else [label]:
            name.text()
    if "max_pixels" in given:
        given["max_pixels"].integer(1)
    if "file_template" in given:
        given["file_template"].matching(
            lambda template: not file_names.template_problem(template), "a template of shards' names"
        )
    return value.mapping()


def _parse_rejects(value: Value) -> dict[str, Any]:
    value.get("records", 0).integer()
    for count in value.get("reasons", {}).entries().values():
        count.integer()
    return value.mapping()


def _parse_input(value: Value) -> dict[str, Any]:
    value.get("pattern", "").text()
    for name in ("records", "in_examples"):
        value.get(name, 0).integer()
    return value.mapping()


def _check_total(manifest: "Manifest") -> None:
    """Check that the records read equal those in shards plus those rejected; raise ValueError otherwise."""
    if "records" not in manifest.input or "records" not in manifest.rejects:
        return
    records, rejected = manifest.input["records"], manifest.rejects["records"]
    examples = manifest.input.get("in_examples", sum(split.examples for split in manifest.splits))
    if records != examples + rejected:
        raise ValueError(f"it counts {records} records read, but {examples} in its shards and {rejected} rejected")


def _check_once(values: Value, names: Iterable[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise ValueError(f"{values.where} has {name!r} twice")


MANIFEST_FORMAT = 1  # raised when a reader of the previous format would misread the file


@dataclass(frozen=True, slots=True)
class ShardEntry:
    """A shard file, as the manifest lists it: its name, examples, size and checksum."""

    file: str
    examples: int
    size_bytes: int  # on disk
    crc32c: str  # 8 hex digits


@dataclass(frozen=True, slots=True)
class SplitEntry:
    """A split: its shards in order, and the number of its planned records that were rejected during writing."""

    name: str
    shards: tuple[ShardEntry, ...]
    rejected: int = 0

    @property
    def examples(self) -> int:
        """Return the number of examples in all shards."""
        return sum(shard.examples for shard in self.shards)

    @property
    def size_bytes(self) -> int:
        """Return the size on disk of all shards."""
        return sum(shard.size_bytes for shard in self.shards)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The content of manifest.json."""

    name: str
    version: str
    compression: str  # of the shards: "" or "gzip"
    features: Features
    splits: tuple[SplitEntry, ...]
    # `pattern`, `records`, `size_bytes`, `fingerprint` of names and sizes; `in_examples`: records used, if examples
    # combine records
    input: Mapping[str, Any] = field(default_factory=dict)
    configuration: Mapping[str, Any] = field(default_factory=dict)  # options that shape the output, by flag
    versions: Mapping[str, str] = field(default_factory=dict)  # of libraries whose releases can change the bytes
    rejects: Mapping[str, Any] = field(default_factory=dict)  # number of rejected records, in all and by reason
    notices: tuple[str, ...] = ()  # shown to the user at the end
    # crc32c (8 hex digits) of all other metadata files and rejects, by name; empty in old datasets
    files: Mapping[str, str] = field(default_factory=dict)
    file_format: str = PLAIN_CODEC.file_format  # of the shards

    @property
    def codec(self) -> Codec:
        """Return the format of the shards."""
        return CODECS[self.file_format, self.compression]

    @property
    def file_template(self) -> str:
        """Return the template of shard file names."""
        return _find_template(self.configuration)

    @property
    def has_raw_records(self) -> bool:
        """Return True if `shardmill reshard --record_type raw` passed records through unparsed, of any type."""
        return self.configuration.get("record_type") == "raw"

    @property
    def is_read_by_tfds(self) -> bool:
        """Return True if TFDS reads the shards, so that the dataset has the files that describe it to TFDS."""
        return self.codec.is_read_by_tfds and not self.has_raw_records

    @property
    def rejected_without_split(self) -> int:
        """Return the number of rejected records whose split is unknown."""
        return int(self.rejects.get("records", 0)) - sum(split.rejected for split in self.splits)

    def split(self, name: str) -> SplitEntry:
        """Return the split `name`.

        Raise a KeyError if the manifest has no such split; the message lists the splits.
        """
        for split in self.splits:
            if split.name == name:
                return split
        known = ", ".join(split.name for split in self.splits)
        raise KeyError(f"{self.name} {self.version} has no split {name!r}; it has {known}")

    def to_json(self) -> str:
        """Return the text of manifest.json."""
        content = {"format": MANIFEST_FORMAT, **asdict(self)}
        content["features"] = [_drop_empty_fields(asdict(feature)) for feature in self.features]
        if self.file_format == PLAIN_CODEC.file_format:  # which manifests did not have before there were others
            del content["file_format"]
        return dump_json(content)

    @classmethod
    def from_json(cls, text: str | bytes, name: str) -> "Manifest":
        """Parse the text of a manifest, called `name` in errors.

        Raise a CorruptDataError if it is not a manifest, or of a newer format; the message names the file and the
        faulty value.
        """
        return parse_file(text, name, MANIFEST_FORMAT, "is not a shardmill manifest", cls._from_value)

    @classmethod
    def _from_value(cls, content: Value) -> "Manifest":
        name = content["name"].matching(
            file_names.is_dataset_name, "the name of a data set: a letter, then letters, digits and '_'"
        )
        formats = dict.fromkeys(file_format for file_format, _ in CODECS)
        file_format = content.get("file_format", PLAIN_CODEC.file_format).one_of(*formats)
        compressions = [compression for known, compression in CODECS if known == file_format]
        codec = CODECS[file_format, content["compression"].one_of(*compressions)]
        configuration = _parse_configuration(content.get("configuration", {}))
        called = (name, codec, _find_template(configuration))
        splits = tuple(_parse_split(split, *called) for split in content["splits"].items())
        _check_once(content["splits"], (split.name for split in splits))
        manifest = cls(
            name=name,
            version=content["version"].matching(file_names.is_version, "three numbers, such as 1.0.0"),
            compression=codec.name,
            features=_parse_features(content["features"], configuration),
            splits=splits,
            input=_parse_input(content.get("input", {})),
            configuration=configuration,
            versions=content.get("versions", {}).mapping(),
            rejects=_parse_rejects(content.get("rejects", {})),
            notices=tuple(notice.text() for notice in content.get("notices", []).items()),
            files=_parse_files(content.get("files", {})),
            file_format=codec.file_format,
        )
        _check_total(manifest)
        return manifest


def _drop_empty_fields(feature: dict[str, Any]) -> dict[str, Any]:
    """Drop empty fields that few features have, so that manifests without such features stay unchanged."""
    rare = ("sample_rate", "channels", "original", "sequence", "time")
    return {key: value for key, value in feature.items() if value or key not in rare}


def _find_template(configuration: Mapping[str, Any]) -> str:
    return str(configuration.get("file_template") or file_names.DEFAULT_TEMPLATE)


def _parse_split(value: Value, name: str, codec: Codec, template: str) -> SplitEntry:
    split = value["name"].matching(file_names.is_split_name, "the name of a split: letters, digits and '_'")
    shards = value["shards"].items()
    names = (ShardName(name, split, index, len(shards), codec, template) for index in range(len(shards)))
    return SplitEntry(split, tuple(map(_parse_shard, shards, map(str, names))), value["rejected"].integer())


def _parse_shard(value: Value, name: str) -> ShardEntry:
    file = value["file"].matching(name.__eq__, repr(name))
    crc32c = _parse_crc32c(value["crc32c"])
    return ShardEntry(file, value["examples"].integer(), value["size_bytes"].integer(), crc32c)


def crc32c_hex(data: bytes) -> str:
    """Return the crc32c of `data` as 8 hex digits."""
    return f"{google_crc32c.value(data):08x}"


def file_checksums(files: Mapping[str, bytes]) -> dict[str, str]:
    """Return the crc32c of each file by its name, for `Manifest.files`."""
    return {name: crc32c_hex(data) for name, data in sorted(files.items())}


def success_text(manifest: bytes) -> str:
    """Return the text of `_SUCCESS` for a manifest."""
    return f"{MANIFEST} crc32c {crc32c_hex(manifest)}\n"


Certainty = Literal["exact", "estimated", "at least"]


@dataclass(frozen=True, slots=True)
class Reject:
    """A rejected record, or the unreadable rest of a file."""

    source: str  # file of the record
    line: int | None  # in that file, or in the manifest that names it
    stage: str  # step that rejected it
    reason: str
    # number of records; None if estimated once all files are read, see transforms.workers.rejects
    records: int | None = 1
    size_bytes: int = 0  # of the unreadable file on disk; 0 for a record that was read
    count: Certainty = "exact"  # certainty of `records`: exact (footer, index), estimated by bytes, or a lower bound
    manifest: str = ""  # with the line, if there are several manifests

    @property
    def counted_records(self) -> int:
        """Return the number of records that it adds to the input's total."""
        return 1 if self.records is None else self.records

    @property
    def is_loss(self) -> bool:
        """Return True if something could not even be read."""
        return self.records != 1 or self.size_bytes > 0 or self.count != "exact"

    def to_json(self) -> dict[str, Any]:
        """Return its line in rejects/; one record has no amount, and the manifest is left out if there is only one."""
        lost = {"records": self.records, "size_bytes": self.size_bytes, "count": self.count} if self.is_loss else {}
        of = {"manifest": self.manifest} if self.manifest else {}
        content = {"source": self.source, **of, "line": self.line, "stage": self.stage, "reason": self.reason, **lost}
        return dict(mask_urls(content))
