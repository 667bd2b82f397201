"""Describe a data set: manifest, schema, TFDS metadata, statistics and notices."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from shardmill.data import features as object_detection
from shardmill.data.codecs import Codec
from shardmill.data.features import Feature, Features, Renames, features_of_kind, mark_labels, translated_features
from shardmill.flag_values import quote
from shardmill.metadata import file_names, schema, tfds_metadata
from shardmill.metadata.labels import labels_files
from shardmill.metadata.manifest import Manifest, ShardEntry, SplitEntry, file_checksums
from shardmill.metadata.schema import to_label_map
from shardmill.metadata.tfds_metadata import SplitInfo
from shardmill.metadata.versions import BuildRecord
from shardmill.quality import feature_stats
from shardmill.quality.duplicates import Duplicates, shorten_overlaps
from shardmill.quality.stats_file import SplitSummary, StatsFile, StatsSection
from shardmill.reading.dataset import supervised_pair
from shardmill.text import mask_urls, plural
from shardmill.transforms.options.job_options import CONTENT, CheckOptions, OutputOptions, parse_splits
from shardmill.transforms.shards.balance import ShardCount, cut_stratum
from shardmill.transforms.shards.divisions import Divisions
from shardmill.transforms.shards.sources import FileIndex, ShardInfo
from shardmill.transforms.statistics.files import SplitStats
from shardmill.transforms.stores import storage
from shardmill.transforms.workers.rejects import Rejects


@dataclass(frozen=True, kw_only=True)
class PublishOptions(OutputOptions):
    """Options of publishing: metadata, and limits above which nothing is published."""

    codec: Codec  # format of the shards; without dataset_info.json if TFDS cannot read it
    shard_counts: Mapping[str, ShardCount]  # requested, by split; `""` for all other splits
    source: str  # the input as the user gave it
    configuration: Mapping[str, Any]  # see shardmill.metadata.manifest
    versions: Mapping[str, str]  # of libraries, see there
    job: str  # nonce chosen by the launcher; not in any published file
    checks: CheckOptions | None = None  # checks before publishing, or None
    build_record: BuildRecord | None = None  # initial build record; None to write none
    index_options: FileIndex | None = None  # the part of the index of files that the launcher knows, or None
    schema_constraints: str = ""  # constraints from --schema, published again, see shardmill.metadata.schema

    @property
    def temporary(self) -> str:
        """Name of the job's temporary directory, in the version directory."""
        return file_names.temporary_folder(self.name, self.job)

    @property
    def folder(self) -> str:
        """Path of the job's temporary directory."""
        return self.path(self.temporary)

    def path(self, *names: str) -> str:
        """Return the path of a file in the version directory."""
        return storage.join(self.directory, *names)

    @property
    def failed_rejects(self) -> str:
        """Path of the rejects file of a job that fails because of them, next to the version directory."""
        return storage.join(self.parent, f"{self.version}-rejects.jsonl")


@dataclass(frozen=True, slots=True)
class Build:
    """Everything that a job found, planned and wrote, complete before publishing."""

    records: int  # in the input; must equal written plus rejected
    size_bytes: int  # of the input
    fingerprint: int  # of the input
    splits: Sequence[str]  # in order, with empty ones
    divisions: Divisions
    shards: Sequence[ShardInfo]
    rejects: Rejects
    stats: Mapping[str, SplitStats]  # of each split that has examples
    notices: Sequence[str] = ()  # notices of the route
    duplicates: Duplicates | None = None  # examples with equal contents; None if not searched
    sections: Mapping[str, StatsSection] = field(default_factory=dict)  # of stats.json, those of add-ons by key
    make_further_files: Callable[[], Mapping[str, bytes]] | None = None  # by name, after all other checks
    further_file_notices: Callable[[Mapping[str, bytes]], Sequence[str]] | None = None  # about the further files
    are_gathered: bool = False  # True if examples are made of all records of a key
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)  # further counts of splits, by unit and split


def make_manifest(build: Build, features: Features, options: PublishOptions) -> Manifest:
    """Return the manifest of the data set that a job has written."""
    by_split: dict[str, list[ShardInfo]] = {split: [] for split in build.splits}
    for shard in sorted(build.shards, key=lambda shard: shard.name.shard):
        by_split[shard.name.split].append(shard)
    losses = build.rejects.losses
    in_examples = [shard.input_records for shard in build.shards if shard.input_records is not None]
    return Manifest(
        name=options.name,
        version=options.version,
        compression=options.codec.name,
        file_format=options.codec.file_format,
        features=mark_labels(features, options.configuration),
        splits=tuple(
            SplitEntry(
                split,
                tuple(ShardEntry(str(of.name), of.examples, of.size_bytes, f"{of.crc32c:08x}") for of in shards),
                sum(shard.rejected for shard in shards),
            )
            for split, shards in by_split.items()
        ),
        input={
            "pattern": options.source,
            "records": build.records,
            **({"in_examples": sum(in_examples)} if in_examples else {}),
            "size_bytes": build.size_bytes,
            "fingerprint": f"{build.fingerprint:032x}",
        },
        configuration=options.configuration,
        versions=options.versions,
        rejects={
            "records": build.rejects.records,
            "reasons": dict(build.rejects.reasons),
            **({"lost": losses.to_json()} if losses.files else {}),
        },
        notices=tuple(map(mask_urls, collect_notices(build, features, options))),
    )


def describe_build(record: BuildRecord, manifest: bytes, index: FileIndex | None = None) -> BuildRecord:
    """Return the build record with data from the manifest's bytes and the index of files."""
    parsed = Manifest.from_json(manifest, file_names.MANIFEST)
    described = replace(
        record,
        splits={split.name: split.examples for split in parsed.splits},
        rejected=int(parsed.rejects.get("records", 0)),
        notices=tuple(parsed.notices),
    )
    if index is None:
        return described
    return replace(described, notices=described.notices + index.notices, reused=index.reused, read=index.read)


def make_metadata_files(
    manifest: Manifest,
    build: Build,
    schema_constraints: str = "",
    more: Mapping[str, bytes] = MappingProxyType({}),
    checksums: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, bytes]:
    """Return the bytes of all metadata files and of `more` by name, except the rejects, which may be too many. The
    manifest is last and has the checksums of all files, including rejects and those in `checksums`.

    Raise a UserError if a label's name cannot be a file name, or two labels have the same.
    """
    labels = features_of_kind(manifest.features, "class_label")
    texts = labels_files(labels)
    if manifest.is_read_by_tfds:
        infos = [
            SplitInfo(split.name, tuple(shard.examples for shard in split.shards), split.size_bytes)
            for split in manifest.splits
            if split.shards
        ]
        supervised = supervised_pair(manifest)
        description = f"Made by shardmill from {manifest.input['pattern']}."
        texts[file_names.DATASET_INFO] = tfds_metadata.to_dataset_info_json(
            manifest.name,
            manifest.version,
            infos,
            supervised,
            description,
            manifest.codec.file_format,
            manifest.file_template,
        )
    if object_detection.has_object_detection_names(manifest.configuration):
        texts[file_names.LABEL_MAP] = to_label_map(next(label.class_names for label in labels if label.sequence))
    if not manifest.has_raw_records:
        texts[file_names.FEATURES] = tfds_metadata.to_features_json(
            manifest.features, translated_features(manifest.configuration)
        )
    texts[file_names.SCHEMA] = schema.to_pbtxt(manifest.features, schema_constraints)
    stats = make_stats_file(manifest, build)
    files = {name: text.encode() for name, text in texts.items()} | {file_names.STATS: stats.to_bytes()} | dict(more)
    files[file_names.FEATURE_STATS] = feature_stats.to_bytes(stats, manifest.features)
    sums = file_checksums(files) | {
        name: f"{found.crc32c:08x}" for name, found in rejects_by_file(build.rejects).items()
    }
    sums |= checksums
    files[file_names.MANIFEST] = replace(manifest, files=dict(sorted(sums.items()))).to_json().encode()
    return files


def make_stats_file(manifest: Manifest, build: Build) -> StatsFile:
    """Return the content of stats.json: counts, sizes and feature statistics of each split."""
    class_names = {label.name: label.class_names for label in features_of_kind(manifest.features, "class_label")}
    splits = {}
    for split in manifest.splits:
        found = build.stats[split.name].summary(class_names) if split.name in build.stats else {}
        counts = {unit: counts.get(split.name, 0) for unit, counts in build.counts.items()}
        order = dict.fromkeys([feature.name for feature in manifest.features] + sorted(found))
        features = {name: found[name] for name in order if name in found}
        splits[split.name] = SplitSummary(split.examples, split.size_bytes, split.rejected, features, counts)
    return StatsFile(splits, build.duplicates, build.sections)


def collect_notices(build: Build, features: Features, options: PublishOptions) -> list[str]:
    """Return all notices for the user, the route's first."""
    notices = list(build.notices)
    if build.rejects.losses.files:
        notices.append(str(build.rejects.losses))
    for split in build.splits:
        division = build.divisions.get(split)
        if division is None:
            notices.append(f"split {split!r} is empty")
            continue
        asked = options.shard_counts.get(split, options.shard_counts[""]).number
        if asked is not None and asked > division.parts:
            notices.append(
                f"split {split!r} has {division.examples} examples, so {division.parts} shards instead of {asked}"
            )
    if build.duplicates is not None:
        notices += _make_duplicate_notices(build.duplicates, options.configuration, build.are_gathered)
    notices += [notice for section in build.sections.values() for notice in section.notices()]
    given = options.configuration
    drawn = [fraction for _, fraction in parse_splits(given["splits"])] if given.get("splits") else []
    for feature in features_of_kind(features, "class_label"):
        column = Renames.of(options.configuration).original_name(feature.name)
        kept = 1 if feature.sequence and object_detection.has_object_detection_names(options.configuration) else 0
        has_groups = given.get("group_by") or "group" in (given.get("folders") or "").split("/")  # of any number
        is_spread = has_groups or given.get("stratify_by") in (column, "label")
        notices += _make_class_notices(build, feature, "" if feature.shape or is_spread else column, kept, drawn)
    return notices


def _make_duplicate_notices(duplicates: Duplicates, configuration: Mapping[str, Any], are_gathered: bool) -> list[str]:
    notices = shorten_overlaps(duplicates.describe(), "share contents")
    drawn = configuration.get("splits") is not None and not are_gathered  # else by keys
    if notices and drawn and configuration.get("group_by") != CONTENT:
        notices[-1] += f"; --group_by {CONTENT} keeps equals in one split"
    pairs = (pair for pair in duplicates.pairs if pair.one.split == pair.other.split and pair.one.line is None)
    if duplicates.conflicts is None and (pair := next(pairs, None)):  # of rows, which may be equal, but not of files
        copies = sum(found.examples - found.contents for found in duplicates.within.values())
        files = plural(copies, "file is a copy", "files are copies")
        notices.append(f"{files} of another in the same split, such as {str(pair.other)!r} of {str(pair.one)!r}")
    return [*notices, *([] if duplicates.conflicts is None else [duplicates.conflicts.describe()])]


def _make_class_notices(build: Build, feature: Feature, column: str, kept: int, drawn: Sequence[Any]) -> list[str]:
    """Return notices about classes without examples or in one split only, without the first `kept`, for no object."""
    names = feature.class_names
    counts = {split: stats.label_counts(feature.name) for split, stats in build.stats.items()}
    where = {index: [split for split, labels in counts.items() if labels[index]] for index in range(kept, len(names))}
    notices = []
    missing = [names[index] for index, splits in where.items() if not splits]
    if missing:
        notices.append(f"{_name_classes(missing)} no {feature.unit}s")
    single = [names[index] for index, splits in where.items() if len(splits) == 1]
    if single and len(counts) > 1:
        only = where[names.index(single[0])][0]
        sizes = [sum(labels[names.index(name)] for labels in counts.values()) for name in single]
        spread = sum(len({0, *cut_stratum(drawn, None, size), size}) == len(drawn) + 1 for size in sizes)
        which = "" if spread == len(single) else " that is large enough"
        remedy = f"; --stratify_by {quote(column)} spreads each class{which}" if column and spread else ""
        notices.append(f"{_name_classes(single)} {feature.unit}s in one split only ({single[0]!r}: {only}){remedy}")
    return notices


def _name_classes(classes: Sequence[str]) -> str:
    if len(classes) == 1:
        return f"class {classes[0]!r} has"
    return f"{len(classes)} classes, such as {classes[0]!r}, have"


def rejects_by_file(rejects: Rejects) -> dict[str, Rejects]:
    """Return the rejects by file name: one file, or none without rejects."""
    return {f"{file_names.REJECTS_DIR}/{file_names.REJECTS_FILE}": rejects} if rejects else {}
