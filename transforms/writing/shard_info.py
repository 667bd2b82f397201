"""What is known of a shard once it is written."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shardmill.metadata.naming import ShardName
from shardmill.transforms.contents.looks import LooksSection
from shardmill.transforms.contents.section import Section
from shardmill.transforms.preprocessing.gather import Gathered
from shardmill.transforms.statistics.files import SplitStats
from shardmill.transforms.writing.remembered import Piece


@dataclass(frozen=True, slots=True)
class ShardInfo:
    """A shard as written: where it lies now, and what will stand in the manifest of it.

    Attributes:
      name: its final file name.
      temporary: the path it was written to.
      planned: references it was to hold; `planned == examples + rejected`.
      crc32c: of the bytes on disk.
      stats: of its examples, where they were gathered in writing.
      piece: what is remembered of its files for the next build, if anything.
      section: what its examples hold, where that was gathered in writing.
      made_of: records of the input that are in its examples; None where that is one each.
      noted: what was counted for what the user is told, by what it is.
      looks: how its pictures look, where anybody asked.
      gathered: of its examples, what --transform takes constants of, where that was gathered in writing.
    """

    name: ShardName
    temporary: str
    planned: int
    examples: int
    rejected: int
    size_bytes: int
    crc32c: int
    stats: SplitStats | None = None
    piece: Piece | None = None
    section: Section | None = None
    looks: LooksSection | None = None
    made_of: int | None = None
    noted: Mapping[str, int] = field(default_factory=dict)
    gathered: Gathered | None = None

    @property
    def done(self) -> int:
        """References, or records, that are in its examples."""
        return self.examples if self.made_of is None else self.made_of
