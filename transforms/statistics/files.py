"""Statistics of examples made from files, one example a file."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, Self, runtime_checkable

from shardmill.data.features import Renames
from shardmill.quality.stats_file import FeatureSummary
from shardmill.transforms.findings import Mergeable, Occurrences, merged
from shardmill.transforms.statistics.images import Extremes, NumberStats
from shardmill.transforms.statistics.tables import TableStats

ClassNames = Mapping[str, Sequence[str]]  # by feature


class SplitStats(Protocol):
    """Interface of the statistics of a split's examples, or of a part of them."""

    def merge(self, other: Self) -> None:
        """Add the counts of `other`."""

    def label_counts(self, feature: str) -> Counter[int]:
        """Return the number of examples by class id of a class label."""

    def summary(self, class_names: ClassNames) -> dict[str, FeatureSummary]:
        """Return the statistics by feature, for stats.json."""


@runtime_checkable
class LocatedStats(Protocol):
    """Interface of statistics that hold the positions of some records."""

    def move_to_shard(self, shard: str, start: int) -> None:
        """Make positions within a chunk relative to the shard, in which the chunk begins at byte `start`."""


def count_labels(labels: Counter[int], ids: int | Sequence[int] | None) -> None:
    """Count a file's label by its class id; of several classes, count each id, and their number n as id -1 - n."""
    if isinstance(ids, int):
        labels[ids] += 1
    elif ids is not None:
        labels.update(ids)
        labels[-1 - len(ids)] += 1


def summarize_labels(labels: Counter[int], class_names: ClassNames) -> dict[str, FeatureSummary]:
    """Return the count of each class by name, as counted by `count_labels`; empty without a label."""
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
class ImageProperties(Mergeable):
    """Numbers of input images with a property that readers or re-encoding do not keep."""

    deep: int = 0  # images with more than 8 bits a channel
    transparent: int = 0
    transparent_tiffs: int = 0  # those of them that are TIFFs
    several_frames: int = 0
    more_bands: int = 0
    highest: NumberStats = field(default_factory=NumberStats)  # highest values of images of 16 bits a channel
    nodata: dict[str, Occurrences] = field(default_factory=dict)  # TIFFs by the value that their tag calls no data


@dataclass(slots=True)
class CompanionStats(Mergeable):
    """Statistics of one further image, such as a mask, of each example."""

    sizes: NumberStats = field(default_factory=NumberStats)  # in bytes
    formats: Counter[str] = field(default_factory=Counter)
    rotated: int = 0  # images to turn by EXIF
    properties: ImageProperties = field(default_factory=ImageProperties)
    source_kinds: dict[str, Occurrences] = field(default_factory=dict)  # files that a codec converted, by kind
    tops: Counter[int] = field(default_factory=Counter)  # masks of 0 and 255 alone, by their highest value

    def summary(self) -> FeatureSummary:
        """Return the statistics of the feature, for stats.json."""
        return FeatureSummary(
            formats=dict(sorted(self.formats.items())), size_bytes=self.sizes.summary(), turned_by_exif=self.rotated
        )


@dataclass(slots=True)
class ImageStats(Mergeable):
    """Statistics of images, and of the objects of annotated ones."""

    sizes: NumberStats = field(default_factory=NumberStats)  # in bytes
    heights: NumberStats = field(default_factory=NumberStats)  # in pixels
    widths: NumberStats = field(default_factory=NumberStats)
    formats: Counter[str] = field(default_factory=Counter)
    labels: Counter[int] = field(default_factory=Counter)  # by id
    rotated: int = 0  # images to turn by EXIF
    properties: ImageProperties = field(default_factory=ImageProperties)
    extremes: Extremes = field(default_factory=Extremes)
    objects: TableStats | None = None
    boxes: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("clipped", "dropped", "cropped"), 0))
    companions: dict[str, CompanionStats] = field(default_factory=dict)  # further files of the examples, by feature

    def move_to_shard(self, shard: str, start: int) -> None:
        self.extremes.move_to_shard(shard, start)

    def label_counts(self, feature: str) -> Counter[int]:
        """Return the number of images by class id if `feature` is `label`; otherwise the number of objects."""
        return self.labels if feature == "label" or self.objects is None else self.objects.label_counts(feature)

    def summary(self, class_names: ClassNames) -> dict[str, FeatureSummary]:
        image = FeatureSummary(
            formats=dict(sorted(self.formats.items())),
            size_bytes=self.sizes.summary(),
            turned_by_exif=self.rotated,
            extremes=self.extremes.summary(),
        )
        of_objects = {name: names for name, names in class_names.items() if name != "label"}
        of_images = {name: names for name, names in class_names.items() if name == "label" or self.objects is None}
        features = {"image": image, **summarize_labels(self.labels, of_images)}
        if self.objects is not None:
            features |= self.objects.summary(of_objects)
        if self.heights.count:
            features["height"], features["width"] = self.heights.feature_summary(), self.widths.feature_summary()
        features |= {feature: stats.summary() for feature, stats in self.companions.items()}
        return features


def merge_by_split(parts: Iterable[tuple[str, SplitStats]]) -> dict[str, SplitStats]:
    """Merge the statistics of each split's parts, which are not changed."""
    by_split: dict[str, SplitStats] = {}
    for split, stats in parts:
        by_split[split] = merged(by_split.get(split), stats)
    return by_split


@dataclass(slots=True)
class ManifestStats(Mergeable):
    """The statistics of a split's files and of a manifest's further columns, by their names there."""

    files: SplitStats  # statistics of the files' contents
    columns: TableStats  # of the columns, and of the label, with which columns are associated

    def move_to_shard(self, shard: str, start: int) -> None:
        if isinstance(self.files, LocatedStats):
            self.files.move_to_shard(shard, start)

    def label_counts(self, feature: str) -> Counter[int]:
        return self.files.label_counts(feature)

    def summary(self, class_names: ClassNames) -> dict[str, FeatureSummary]:
        of_files = self.files.summary(class_names)
        return {**of_files, **{name: of for name, of in self.columns.summary().items() if name not in of_files}}


def file_stats(stats: SplitStats) -> SplitStats:
    """Return the statistics of the files alone, without a manifest's further columns."""
    return stats.files if isinstance(stats, ManifestStats) else stats


@dataclass(frozen=True, slots=True)
class RenamedStats:
    """The statistics of a split, by the features' names in examples."""

    stats: SplitStats
    renames: Renames

    def merge(self, other: "RenamedStats") -> None:
        self.stats.merge(other.stats)

    def label_counts(self, feature: str) -> Counter[int]:
        return self.stats.label_counts(self.renames.original_name(feature))

    def summary(self, class_names: ClassNames) -> dict[str, FeatureSummary]:
        original = {self.renames.original_name(feature): names for feature, names in class_names.items()}
        return {self.renames(feature): values for feature, values in self.stats.summary(original).items()}


def rename_stats(stats: Mapping[str, SplitStats], renames: Renames) -> dict[str, SplitStats]:
    """Return the statistics of each split by the features' names in examples."""
    return {split: RenamedStats(of, renames) if renames.pairs else of for split, of in stats.items()}
