"""What a data set is, for people and for programs that build a model for it."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from shardmill.features.feature import Feature
from shardmill.filesystems.gfile import files_for
from shardmill.filesystems.local import Files
from shardmill.kinds.registry import kind_of
from shardmill.metadata.manifest import SplitEntry
from shardmill.printable import printable
from shardmill.reading.dataset import open_dataset
from shardmill.reading.selection import labels_of


@dataclass(frozen=True, slots=True)
class DatasetInfo:
    """A data set's description; printed, it is a short table.

    Attributes:
      directory: of the version that was opened.
      compression: of the shards, "" or "gzip".
      splits: by name; each has `examples`, `size_bytes` and `shards`.
      features: by name; each has `dtype`, `kind`, `shape`, `required`, `class_names` and `element`.
      label: the name of the feature to predict, the first of several, or None.
    """

    name: str
    version: str
    directory: str
    compression: str
    splits: Mapping[str, SplitEntry]
    features: Mapping[str, Feature]
    label: str | None

    @property
    def class_names(self) -> tuple[str, ...]:
        """The label's names by id; empty where the label has none."""
        return () if self.label is None else self.features[self.label].class_names

    def __str__(self) -> str:
        lines = [f"{self.name} {self.version} in {self.directory}"]
        for split in self.splits.values():
            amount = f"{split.examples:,} examples in {len(split.shards):,} shards, {split.size_bytes:,} bytes"
            lines.append(f"  split {split.name}: {amount}")
        for feature in self.features.values():
            lines.append(
                f"  feature {feature.name}: {_describe(feature)}{', the label' if feature.role == 'label' else ''}"
            )
        return "\n".join(map(printable, lines))


def info(directory: str | os.PathLike[str], *, version: str | None = None, files: Files | None = None) -> DatasetInfo:
    """Describe the data set in `directory`: a version's, or the one above it, whose LATEST names one.

    Args:
      directory: of the data set's version, or the one above it.
      version: one of those in the directory above, or a tag; None for the one that LATEST names.
      files: what to read through; None for local files, and TensorFlow's file system for gs:// and the like.

    Raises:
      UserError: there is no data set, or an unpublished one.
      CorruptDataError: its manifest cannot be read.
    """
    dataset = open_dataset(directory, files or files_for(directory), version)
    manifest = dataset.manifest
    labels = labels_of(manifest)
    return DatasetInfo(
        manifest.name,
        manifest.version,
        dataset.directory,
        manifest.compression,
        {split.name: split for split in manifest.splits},
        {feature.name: feature for feature in manifest.features},
        labels[0].name if labels else None,
    )


def _describe(feature: Feature) -> str:
    sizes = "".join(f"[{'any number' if size is None else size}]" for size in feature.shape)
    element = feature.element or feature.dtype
    kind = f", {name.replace('_', ' ')}" if (name := kind_of(feature).own_name) else ""
    kind = f", {feature.time} since 1970 in UTC" if feature.time else kind
    classes = f" of {len(feature.class_names)}" if feature.class_names else ""
    return f"{element}{sizes}{kind}{classes}{'' if feature.required else ', may be missing'}"
