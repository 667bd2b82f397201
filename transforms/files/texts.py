"""Text files as examples: one text each, as UTF-8. Pure but for reading the files."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from shardmill.features.feature import Feature, Features
from shardmill.features.renames import NO_RENAMES, Renames
from shardmill.statistics.feature_summary import FeatureSummary
from shardmill.transforms.examples.encode import MAX_RECORD_BYTES
from shardmill.transforms.files.encode import Encoded, FileEncoder
from shardmill.transforms.files.features import file_features
from shardmill.transforms.layout.files import Layout
from shardmill.transforms.statistics.files import ClassNames, label_summaries
from shardmill.transforms.statistics.number_stats import NumberStats
from shardmill.transforms.stores import storage


@dataclass(slots=True)
class TextStats:
    """Statistics of some text files: their lengths in bytes as stored, and labels by id."""

    lengths: NumberStats = field(default_factory=NumberStats)
    labels: Counter[int] = field(default_factory=Counter)

    def merge(self, other: "TextStats") -> None:
        """Add what `other` counted."""
        self.lengths.merge(other.lengths)
        self.labels.update(other.labels)

    def label_counts(self, feature: str) -> Counter[int]:
        """Texts by class id; `label` is the only class label there is."""
        return self.labels

    def summary(self, class_names: ClassNames) -> dict[str, FeatureSummary]:
        """What stands in stats.json for a split."""
        text = FeatureSummary(length_bytes=self.lengths.summary())
        return {"text": text, **label_summaries(self.labels, class_names)}


class _TextError(ValueError):
    """A file that holds no text, as it will stand in rejects/."""


@dataclass(frozen=True)
class TextFileEncoder(FileEncoder):
    """Encodes references as tf.train.Example: text as UTF-8, label, filename.

    Attributes:
      root: the folder that names are relative to.
      encoding: of the files.
      renames: what the features are called.
    """

    feature = "text"
    refusal = _TextError
    max_bytes = MAX_RECORD_BYTES // 4  # in memory thrice: as stored, decoded, and as UTF-8

    root: str
    encoding: str = "utf-8"
    renames: Renames = NO_RENAMES

    def encode_file(self, path: str, data: bytes | None = None) -> Encoded:
        """Read and decode a text; a byte order mark is left out."""
        data = storage.read_bytes(path) if data is None else data
        try:
            text = data.decode(self.encoding).removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            raise _TextError(f"byte {error.start} is not {self.encoding}: {error.reason}") from None
        if not text.strip():
            raise _TextError("the file is empty" if not text else "the file holds nothing but white space")
        return Encoded(text.encode())

    def count(self, files: Sequence[Encoded], labels: Counter[int]) -> TextStats:
        """The statistics of some texts."""
        stats = TextStats(labels=labels)
        stats.lengths.add(len(file.value) for file in files)
        return stats


def text_features(layout: Layout) -> Features:
    """The features, in the order in which they are encoded; texts have no further columns."""
    return file_features(layout, 0, Feature("text", "bytes", "text"))
