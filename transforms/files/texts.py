"""From references to text files to framed examples: text, label, filename. Pure but for reading the files."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from shardmill import example, tfrecord
from shardmill.features import Feature, Features
from shardmill.rejects import Reject
from shardmill.renames import NO_RENAMES, Renames
from transforms.examples.encode import MAX_RECORD_BYTES
from transforms.files.images.encode import label_entry, reason
from transforms.layout.files import Layout
from transforms.statistics.files import ClassNames, NumberStats
from transforms.stores import storage
from transforms.writing.source import EncodedChunk

_STAGE = "write"


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

    def to_json(self, class_names: ClassNames) -> dict[str, Any]:
        """What stands in stats.json for a split."""
        features: dict[str, Any] = {"text": {"length_bytes": self.lengths.to_json()}}
        for feature, names in class_names.items():
            features[feature] = {"classes": {name: self.labels[index] for index, name in enumerate(names)}}
        return features


@dataclass(frozen=True)
class TextFileEncoder:
    """Encodes references as tf.train.Example: text as UTF-8, label, filename.

    Attributes:
      root: the folder that names are relative to.
      encoding: of the files.
      renames: what the features are called.
    """

    root: str
    encoding: str = "utf-8"
    renames: Renames = NO_RENAMES

    def __call__(self, batch: pa.RecordBatch) -> EncodedChunk:
        """Encode the files of a PLANNED batch, in their order."""
        framed: list[bytes] = []
        rejects: list[Reject] = []
        stats = TextStats()
        lengths = []
        for name, label in zip(batch["name"].to_pylist(), batch["label"].to_pylist(), strict=True):
            path = storage.join(self.root, name)
            try:
                text = self._text(path)
            except (_TextError, FileNotFoundError, PermissionError, IsADirectoryError) as error:
                rejects.append(Reject(name, None, _STAGE, reason(error)))
                continue
            except OSError as error:
                if not storage.is_local(path):
                    raise  # an object store that fails: the runner tries again
                rejects.append(Reject(name, None, _STAGE, reason(error)))
                continue
            entries = (
                example.entry(self.renames("text"), example.bytes_feature([text])),
                label_entry(label, self.renames),
                example.entry(self.renames("filename"), example.bytes_feature([name.encode()])),
            )
            record = (example.example_header(sum(map(len, entries))), *entries)
            framed += (tfrecord.header(sum(map(len, record))), *record, tfrecord.footer(record))
            lengths.append(len(text))
            if label is not None:
                stats.labels[label] += 1
        stats.lengths.add(lengths)
        return EncodedChunk(b"".join(framed), len(lengths), rejects, stats)

    def _text(self, path: str) -> bytes:
        """The text to store, without a byte order mark; raises _TextError or OSError."""
        data = storage.read_bytes(path)
        try:
            text = data.decode(self.encoding).removeprefix("\ufeff")
        except UnicodeDecodeError as error:
            raise _TextError(f"byte {error.start} is not {self.encoding}: {error.reason}") from None
        if not text.strip():
            raise _TextError("the file is empty" if not text else "the file holds nothing but white space")
        if len(data) > MAX_RECORD_BYTES // 4:
            raise _TextError(f"the file has {len(data):,} bytes; an example of text is at most {MAX_RECORD_BYTES // 4:,}")
        return text.encode()


class _TextError(ValueError):
    """A file that holds no text, as it will stand in rejects/."""


def text_features(layout: Layout) -> Features:
    """The features, in the order in which they are encoded."""
    label: Sequence[Feature] = ()
    if layout.class_names is not None:
        label = [Feature("label", "int64", "class_label", class_names=layout.class_names.names)]
    return (Feature("text", "bytes", "text"), *label, Feature("filename", "bytes", "text"))
