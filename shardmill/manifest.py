"""manifest.json: what stands in a data set, shard by shard, and what it was made from.

It holds nothing that differs between two runs on the same input: no time, no host, no path of the output.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from shardmill.errors import CorruptDataError
from shardmill.features import Feature, Features
from shardmill.tfds_metadata import dump_json

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
      input: what was read: `pattern`, `records`, `size_bytes`, and a `fingerprint` of all names and sizes.
      configuration: the options that shape the output, by flag.
      versions: the libraries whose release can change the bytes.
      rejects: how many records were rejected, in all and by reason.
      notices: what the user was told at the end.
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

    def split(self, name: str) -> SplitEntry:
        """The split called `name`.

        Raises:
          KeyError: there is none; the message names those there are.
        """
        for split in self.splits:
            if split.name == name:
                return split
        known = ", ".join(split.name for split in self.splits)
        raise KeyError(f"{self.name} has no split {name!r}; it has {known}")

    def to_json(self) -> str:
        """The text of the file."""
        content = {"format": FORMAT, **asdict(self)}
        content["features"] = [asdict(feature) for feature in self.features]
        return dump_json(content)

    @classmethod
    def from_json(cls, text: str | bytes, name: str) -> "Manifest":
        """Parse the text of the file called `name`.

        Raises:
          CorruptDataError: it is not a manifest, or one of a newer format.
        """
        try:
            content = json.loads(text)
            if content.pop("format") > FORMAT:
                raise CorruptDataError(f"{name} is of a newer format than this shardmill reads; upgrade shardmill")
            content["features"] = tuple(
                Feature(**{**f, "shape": tuple(f["shape"]), "class_names": tuple(f["class_names"])}) for f in content["features"]
            )
            content["splits"] = tuple(
                SplitEntry(s["name"], tuple(ShardEntry(**shard) for shard in s["shards"]), s["rejected"]) for s in content["splits"]
            )
            content["notices"] = tuple(content["notices"])
            return cls(**content)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            if isinstance(error, CorruptDataError):
                raise
            raise CorruptDataError(f"{name} is not a shardmill manifest: {error}") from error
