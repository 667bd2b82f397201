"""stats.json: what the examples of each split hold, feature by feature; the writer makes it of these types, and readers
get them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from shardmill.errors import CorruptDataError
from shardmill.metadata.json_values import Value, parse_large_json
from shardmill.metadata.tfds_metadata import dump_json
from shardmill.statistics.duplicates import Duplicates
from shardmill.statistics.feature_summary import FeatureSummary
from shardmill.statistics.members import Json, optional, present
from shardmill.statistics.near_duplicates import NearDuplicates


@dataclass(frozen=True, slots=True)
class SplitSummary:
    """A split: its examples, the size on disk of its shards, the records planned for it that were rejected, its
    features by name, in the manifest's order, and how many tokens there are; None where no text was tokenized."""

    examples: int
    size_bytes: int
    rejected: int
    features: Mapping[str, FeatureSummary] = field(default_factory=dict)
    tokens: int | None = None

    def to_json(self) -> Json:
        """As the file has it."""
        return {
            "examples": self.examples,
            "size_bytes": self.size_bytes,
            "rejected": self.rejected,
            **present(tokens=self.tokens),
            "features": {name: feature.to_json() for name, feature in self.features.items()},
        }

    @classmethod
    def from_json(cls, value: Value) -> "SplitSummary":
        """What the file has; raises ValueError."""
        examples, size_bytes, rejected = (value[key].integer() for key in ("examples", "size_bytes", "rejected"))
        features = {name: FeatureSummary.from_json(found) for name, found in value["features"].entries().items()}
        return cls(examples, size_bytes, rejected, features, optional(value, "tokens", Value.integer))


@dataclass(frozen=True, slots=True)
class StatsFile:
    """The whole file: splits by name, which examples have equal content, and which pictures look alike; None where
    nobody looked."""

    splits: Mapping[str, SplitSummary]
    duplicates: Duplicates | None = None
    near_duplicates: NearDuplicates | None = None

    def to_json(self) -> str:
        """The text of the file."""
        splits = {name: split.to_json() for name, split in self.splits.items()}
        found = present(
            duplicates=self.duplicates and self.duplicates.to_json(),
            near_duplicates=self.near_duplicates and self.near_duplicates.to_json(),
        )
        return dump_json({"splits": splits, **found})

    @classmethod
    def from_json(cls, text: str | bytes, name: str) -> "StatsFile":
        """Parse the text of the file called `name`. Keys that are not known here are passed over: a later version may
        add some.

        Raises:
          CorruptDataError: it is not such a file; the message names the file and the field.
        """
        try:
            content = parse_large_json(text)
            splits = {split: SplitSummary.from_json(found) for split, found in content["splits"].entries().items()}
            duplicates = optional(content, "duplicates", Duplicates.from_json)
            return cls(splits, duplicates, optional(content, "near_duplicates", NearDuplicates.from_json))
        except ValueError as error:
            raise CorruptDataError(f"{name} is damaged: {error}") from error
