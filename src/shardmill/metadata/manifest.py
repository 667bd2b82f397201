"""manifest.json: what stands in a data set, shard by shard, and what it was made from.

It holds nothing that differs between two runs on the same input: no time, no host, no path of the output.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from shardmill.codecs.base import Codec
from shardmill.codecs.registry import CODECS
from shardmill.features.feature import Features
from shardmill.metadata import file_template
from shardmill.metadata import manifest_parser as parse
from shardmill.metadata.json_values import Value, parse_file
from shardmill.metadata.naming import ShardName
from shardmill.metadata.tfds_metadata import dump_json

FORMAT = 1  # raised when a reader of the former format would misread the file


@dataclass(frozen=True, slots=True)
class ShardEntry:
    """One shard file: its name, its examples, its size on disk and the crc32c of its bytes (8 hex digits)."""

    file: str
    examples: int
    size_bytes: int
    crc32c: str


@dataclass(frozen=True, slots=True)
class SplitEntry:
    """One split: its shards in order, and how many records planned for it were rejected while it was written."""

    name: str
    shards: tuple[ShardEntry, ...]
    rejected: int = 0

    @property
    def examples(self) -> int:
        """The number of examples in all shards."""
        return sum(shard.examples for shard in self.shards)

    @property
    def size_bytes(self) -> int:
        """The size on disk of all shards."""
        return sum(shard.size_bytes for shard in self.shards)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The whole file.

    Attributes:
      compression: the name of the shards' codec.
      input: what was read: `pattern`, `records`, `size_bytes`, and a `fingerprint` of all names and sizes; where an
        example is not one record, `in_examples`, how many records are in examples.
      configuration: the options that shape the output, by flag.
      versions: the libraries whose release can change the bytes.
      rejects: how many records were rejected, in all and by reason.
      notices: what the user was told at the end.
      files: the crc32c (8 hex digits) of every other file that describes the data set, rejects too, by name; empty in
        data sets made before there was this.
    """

    name: str
    version: str
    compression: str
    features: Features
    splits: tuple[SplitEntry, ...]
    input: Mapping[str, Any] = field(default_factory=dict)
    configuration: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    rejects: Mapping[str, Any] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def codec(self) -> Codec:
        """The format of the shards."""
        return CODECS[self.compression]

    @property
    def file_template(self) -> str:
        """By which shards are called."""
        return _template(self.configuration)

    @property
    def rejected_of_no_split(self) -> int:
        """Records that were left out before it was known of which split they are, or that are of none."""
        return int(self.rejects.get("records", 0)) - sum(split.rejected for split in self.splits)

    def split(self, name: str) -> SplitEntry:
        """The split called `name`.

        Raises:
          KeyError: there is none; the message names those there are.
        """
        for split in self.splits:
            if split.name == name:
                return split
        known = ", ".join(split.name for split in self.splits)
        raise KeyError(f"{self.name} {self.version} has no split {name!r}; it has {known}")

    def to_json(self) -> str:
        """The text of the file."""
        content = {"format": FORMAT, **asdict(self)}
        content["features"] = [_told(asdict(feature)) for feature in self.features]
        return dump_json(content)

    @classmethod
    def from_json(cls, text: str | bytes, name: str) -> "Manifest":
        """Parse the text of the file called `name`.

        Raises:
          CorruptDataError: it is not a manifest, or one of a newer format; the message names the file and what in it is
            no good.
        """
        return parse_file(text, name, FORMAT, "is not a shardmill manifest", cls._of)

    @classmethod
    def _of(cls, content: Value) -> "Manifest":
        name, codec = parse.dataset_name(content["name"]), CODECS[content["compression"].one_of(*CODECS)]
        configuration = parse.configuration(content.get("configuration", {}))
        called = (name, codec, _template(configuration))
        splits = tuple(_split(split, *called) for split in content["splits"].items())
        parse.check_splits(content["splits"], (split.name for split in splits))
        made = cls(
            name=name,
            version=parse.version(content["version"]),
            compression=codec.name,
            features=parse.features(content["features"], configuration),
            splits=splits,
            input=parse.source(content.get("input", {})),
            configuration=configuration,
            versions=content.get("versions", {}).mapping(),
            rejects=parse.rejects(content.get("rejects", {})),
            notices=tuple(notice.text() for notice in content.get("notices", []).items()),
            files=parse.files(content.get("files", {})),
        )
        parse.check_total(content.get("input", {}), content.get("rejects", {}), sum(split.examples for split in splits))
        return made


def _told(feature: dict[str, Any]) -> dict[str, Any]:
    """A feature without what only audio, renamed features, objects and times have: the manifests of others stay as they
    were."""
    rare = ("sample_rate", "channels", "original", "sequence", "time")
    return {key: value for key, value in feature.items() if value or key not in rare}


def _template(configuration: Mapping[str, Any]) -> str:
    return str(configuration.get("file_template") or file_template.DEFAULT)


def _split(value: Value, name: str, codec: Codec, template: str) -> SplitEntry:
    split, shards = parse.split_name(value["name"]), value["shards"].items()
    names = (ShardName(name, split, index, len(shards), codec, template) for index in range(len(shards)))
    return SplitEntry(split, tuple(map(_shard, shards, names)), value["rejected"].integer())


def _shard(value: Value, name: ShardName) -> ShardEntry:
    return ShardEntry(
        parse.shard_file(value["file"], name),
        value["examples"].integer(),
        value["size_bytes"].integer(),
        parse.crc32c(value["crc32c"]),
    )
