"""Statistics of examples, exact and mergeable: integers only, so that no order of merging changes a digit."""

import copy
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, Self, runtime_checkable

from shardmill.statistics.feature_summary import FeatureSummary
from shardmill.transforms.statistics.extremes import Extremes
from shardmill.transforms.statistics.gathered import GatheredStats
from shardmill.transforms.statistics.number_stats import NumberStats

ClassNames = Mapping[str, Sequence[str]]  # by feature


class SplitStats(Protocol):
    """Statistics of the examples of a split, or of a part of it."""

    def merge(self, other: Self) -> None:
        """Add what `other` counted."""

    def label_counts(self, feature: str) -> Counter[int]:
        """Examples by class id of a class label."""

    def summary(self, class_names: ClassNames) -> dict[str, FeatureSummary]:
        """What stands in stats.json for a split: statistics by feature."""


@runtime_checkable
class Located(Protocol):
    """Statistics that say where some records lie."""

    def lie_in(self, shard: str, start: int) -> None:
        """Say that the records lie in a shard, counted from this byte of it; until then that of a chunk was meant."""


def count_labels(labels: Counter[int], ids: int | Sequence[int] | None) -> None:
    """Count the label of a file by its id; of a list of them each, and the list as -1 less its length, which no id
    is."""
    if isinstance(ids, int):
        labels[ids] += 1
    elif ids is not None:
        labels.update(ids)
        labels[-1 - len(ids)] += 1


def label_summaries(labels: Counter[int], class_names: ClassNames) -> dict[str, FeatureSummary]:
    """The count of each class, by name, for the one label that files have, as `count_labels` counts them; none where
    they have no label."""
    lengths = {-1 - key: number for key, number in labels.items() if key < 0}
    found = None
    if lengths:
        total, squares = (sum(length**power * number for length, number in lengths.items()) for power in (1, 2))
        counted = NumberStats(sum(lengths.values()), min(lengths), max(lengths), total, squares)
        found = replace(counted.summary(), count=None, histogram=None)
    return {
        feature: FeatureSummary(classes={name: labels[index] for index, name in enumerate(names)}, per_example=found)
        for feature, names in class_names.items()
    }


@dataclass(slots=True)
class CompanionStats:
    """Statistics of a further file of each example: sizes in bytes, formats, how many EXIF says to turn, how many were
    found with more than 8 bits a channel, and what masks were made of, where they were no gray PNG."""

    sizes: NumberStats = field(default_factory=NumberStats)
    formats: Counter[str] = field(default_factory=Counter)
    turned: int = 0
    deep: int = 0
    made_of: Counter[str] = field(default_factory=Counter)

    def merge(self, other: "CompanionStats") -> None:
        """Add what `other` counted."""
        self.sizes.merge(other.sizes)
        self.formats.update(other.formats)
        self.turned += other.turned
        self.deep += other.deep
        self.made_of.update(other.made_of)

    def summary(self) -> FeatureSummary:
        """What stands in stats.json of the feature."""
        return FeatureSummary(
            formats=dict(sorted(self.formats.items())),
            size_bytes=self.sizes.summary(),
            turned_by_exif=self.turned,
        )


@dataclass(slots=True)
class ImageStats:
    """Statistics of some images: sizes in bytes, dimensions in pixels, formats, labels by id, how many EXIF says to
    turn, how many were found with more than 8 bits a channel, which are extreme, and, where they are annotated, the
    objects in them, and how many boxes were changed; and of further files of the same examples, by feature."""

    sizes: NumberStats = field(default_factory=NumberStats)
    heights: NumberStats = field(default_factory=NumberStats)
    widths: NumberStats = field(default_factory=NumberStats)
    formats: Counter[str] = field(default_factory=Counter)
    labels: Counter[int] = field(default_factory=Counter)
    turned: int = 0
    deep: int = 0
    extremes: Extremes = field(default_factory=Extremes)
    objects: GatheredStats | None = None
    boxes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("clipped", "dropped", "cropped"), 0))
    beside: dict[str, CompanionStats] = field(default_factory=dict)

    def merge(self, other: "ImageStats") -> None:
        """Add what `other` counted."""
        self.sizes.merge(other.sizes)
        self.heights.merge(other.heights)
        self.widths.merge(other.widths)
        self.formats.update(other.formats)
        self.labels.update(other.labels)
        self.turned += other.turned
        self.deep += other.deep
        self.extremes.merge(other.extremes)
        if self.objects is not None and other.objects is not None:
            self.objects.merge(other.objects)
        else:
            self.objects = copy.deepcopy(self.objects or other.objects)
        self.boxes = {what: number + other.boxes[what] for what, number in self.boxes.items()}
        for feature, stats in other.beside.items():
            if feature in self.beside:
                self.beside[feature].merge(stats)
            else:
                self.beside[feature] = copy.deepcopy(stats)

    def lie_in(self, shard: str, start: int) -> None:
        """As `Located` says."""
        self.extremes.lie_in(shard, start)

    def label_counts(self, feature: str) -> Counter[int]:
        """Images by class id, or objects: all but `label` are theirs."""
        return self.labels if feature == "label" or self.objects is None else self.objects.label_counts(feature)

    def summary(self, class_names: ClassNames) -> dict[str, FeatureSummary]:
        """What stands in stats.json for a split: statistics by feature."""
        image = FeatureSummary(
            formats=dict(sorted(self.formats.items())),
            size_bytes=self.sizes.summary(),
            turned_by_exif=self.turned,
            extremes=self.extremes.summary(),
        )
        of_objects = {name: names for name, names in class_names.items() if name != "label"}
        of_images = {name: names for name, names in class_names.items() if name == "label" or self.objects is None}
        features = {"image": image, **label_summaries(self.labels, of_images)}
        if self.objects is not None:
            features |= self.objects.summary(of_objects)
        if self.heights.count:
            features["height"], features["width"] = self.heights.feature(), self.widths.feature()
        features |= {feature: stats.summary() for feature, stats in self.beside.items()}
        return features


def merge_by_split(parts: Iterable[tuple[str, SplitStats]]) -> dict[str, SplitStats]:
    """The statistics of each split from those of its parts, which stay as they are."""
    merged: dict[str, SplitStats] = {}
    for split, stats in parts:
        if split in merged:
            merged[split].merge(stats)
        else:
            merged[split] = copy.deepcopy(stats)
    return merged
