"""What a data set says of itself: manifest, schema, TFDS's files, statistics, notices. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from shardmill.codecs.base import Codec
from shardmill.features import object_detection
from shardmill.features.feature import Feature, Features, of_kind
from shardmill.features.renames import Renames
from shardmill.features.roles import with_label
from shardmill.features.translation import languages_of
from shardmill.metadata import naming, schema, tfds_metadata
from shardmill.metadata.label_map import to_label_map
from shardmill.metadata.labels import labels_files
from shardmill.metadata.manifest import Manifest, ShardEntry, SplitEntry
from shardmill.metadata.seal import checksums
from shardmill.metadata.tfds_metadata import SplitInfo
from shardmill.reading.selection import supervised_of
from shardmill.statistics import feature_stats
from shardmill.statistics.duplicates import Duplicates
from shardmill.statistics.feature_summary import FeatureSummary
from shardmill.statistics.near_duplicates import CAVEAT, NearDuplicates
from shardmill.statistics.stats_file import SplitSummary, StatsFile
from shardmill.transforms.options.checks import CheckOptions
from shardmill.transforms.options.splits import CONTENT
from shardmill.transforms.publishing.file_index import FileIndex
from shardmill.transforms.publishing.keep_files import RememberOptions
from shardmill.transforms.rejects.gathered import Rejects
from shardmill.transforms.sharding.balance import ShardCount
from shardmill.transforms.sharding.divisions import Divisions
from shardmill.transforms.statistics.files import SplitStats
from shardmill.transforms.stores import storage
from shardmill.transforms.writing.shard_info import ShardInfo
from shardmill.versions.build_record import BuildRecord

_PAIRS_OF_SPLITS = 3  # that share contents, told one by one


@dataclass(frozen=True, slots=True)
class PublishOptions:
    """What stands in the metadata, and when not to publish.

    Attributes:
      output: the folder of all data sets; `<output>/<name>/<version>` is this one's.
      name, version: of the data set.
      codec: the format of the shards; one that TFDS cannot read gets no dataset_info.json.
      max_reject_fraction: of the records in the input; more fail the job.
      on_damaged_file: "fail" or "reject", where nobody knows for certain how many records of a file cannot be read.
      shard_counts: as asked for, by split; `""` for the splits not named.
      source: the input as the user gave it.
      configuration, versions: see shardmill.metadata.manifest.
      job: the nonce of the job, which its launcher chose; in no file that is published.
      overwrite: whether a published version is replaced.
      checks: what must hold before it is published; None where nothing is checked.
      record: what the record of the build begins with; None where none is written.
      remember: what the next build is told of the files, where it is told anything.
      set_latest: whether LATEST names this version then, although it names a newer one.
      asked: what --schema asks of the features beside what they are, see shardmill.metadata.asked_schema; it is
        published again.
    """

    output: str
    name: str
    version: str
    codec: Codec
    max_reject_fraction: float
    shard_counts: Mapping[str, ShardCount]
    source: str
    configuration: Mapping[str, Any]
    versions: Mapping[str, str]
    job: str
    overwrite: bool = False
    on_damaged_file: str = "fail"
    checks: CheckOptions | None = None
    record: BuildRecord | None = None
    remember: RememberOptions | None = None
    set_latest: bool = False
    asked: str = ""

    @property
    def temporary(self) -> str:
        """The name of the job's temporary directory, in the version directory."""
        return naming.temporary_folder(self.name, self.job)

    @property
    def folder(self) -> str:
        """The job's temporary directory."""
        return storage.join(self.directory, self.temporary)

    @property
    def directory(self) -> str:
        """The version directory."""
        return storage.join(self.parent, self.version)

    @property
    def parent(self) -> str:
        """The directory of all versions."""
        return storage.join(self.output, self.name)

    @property
    def failed_rejects(self) -> str:
        """Where the rejects of a job that failed for them are written: beside the version directory."""
        return storage.join(self.parent, f"{self.version}-rejects.jsonl")


@dataclass(frozen=True, slots=True)
class Build:
    """What was found, planned and written, once all of it is.

    Attributes:
      records: in the input, good or bad: what written and rejected must add up to.
      size_bytes, fingerprint: of the input.
      splits: in their order, empty ones too.
      stats: of each split that has examples.
      notices: what the user must be told at the end, beside what every route says.
      duplicates: which examples have equal content; None where nobody looked.
      near_duplicates: which pictures look alike; None where nobody asked.
      more: makes further files of the version, by name, once all else is checked.
      tokens: of each split, how many tokens its examples have; None where no text is tokenized.
      said_of_more: what the user must be told of these.
    """

    records: int
    size_bytes: int
    fingerprint: int
    splits: Sequence[str]
    divisions: Divisions
    shards: Sequence[ShardInfo]
    rejects: Rejects
    stats: Mapping[str, SplitStats]
    notices: Sequence[str] = ()
    duplicates: Duplicates | None = None
    near_duplicates: NearDuplicates | None = None
    more: Callable[[], Mapping[str, bytes]] | None = None
    said_of_more: Callable[[Mapping[str, bytes]], Sequence[str]] | None = None
    tokens: Mapping[str, int] | None = None


def make_manifest(build: Build, features: Features, options: PublishOptions) -> Manifest:
    """The manifest of a build."""
    by_split: dict[str, list[ShardInfo]] = {split: [] for split in build.splits}
    for shard in sorted(build.shards, key=lambda shard: shard.name.shard):
        by_split[shard.name.split].append(shard)
    losses = build.rejects.losses
    return Manifest(
        name=options.name,
        version=options.version,
        compression=options.codec.name,
        features=with_label(features, options.configuration),
        splits=tuple(
            SplitEntry(split, tuple(map(_entry, shards)), sum(shard.rejected for shard in shards))
            for split, shards in by_split.items()
        ),
        input={
            "pattern": options.source,
            "records": build.records,
            **_in_examples(build.shards),
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
        notices=tuple(notices(build, features, options)),
    )


def _in_examples(shards: Sequence[ShardInfo]) -> dict[str, int]:
    made_of = [shard.made_of for shard in shards if shard.made_of is not None]
    return {"in_examples": sum(made_of)} if made_of else {}


def described(record: BuildRecord, manifest: bytes, index: FileIndex | None = None) -> BuildRecord:
    """The record of a build with what stands in its manifest, of which these are the bytes, and in the index of its
    files."""
    found = Manifest.from_json(manifest, naming.MANIFEST)
    splits = {split.name: split.examples for split in found.splits}
    made = replace(record, splits=splits, rejected=int(found.rejects.get("records", 0)), notices=tuple(found.notices))
    if index is None:
        return made
    return replace(made, notices=made.notices + index.notices, reused=index.reused, read=index.read)


def _entry(shard: ShardInfo) -> ShardEntry:
    return ShardEntry(str(shard.name), shard.examples, shard.size_bytes, f"{shard.crc32c:08x}")


def metadata_files(
    manifest: Manifest, build: Build, asked: str = "", more: Mapping[str, bytes] = MappingProxyType({})
) -> dict[str, bytes]:
    """The bytes of every file that describes the data set, by name, but for the rejects, which may be too many; the
    manifest last, with all others' checksums and theirs; `asked` as in PublishOptions, and `more` files beside.

    Raises:
      UserError: a label's name is no name of a file, or two have the same.
    """
    labels = of_kind(manifest.features, "class_label")
    texts = labels_files(labels)
    if manifest.codec.is_read_by_tfds:
        infos = [
            SplitInfo(split.name, tuple(shard.examples for shard in split.shards), split.size_bytes)
            for split in manifest.splits
            if split.shards
        ]
        supervised = supervised_of(manifest)
        description = f"Made by shardmill from {manifest.input['pattern']}."
        texts[naming.DATASET_INFO] = tfds_metadata.to_dataset_info_json(
            manifest.name,
            manifest.version,
            infos,
            supervised,
            description,
            manifest.codec.file_format,
            manifest.file_template,
        )
    if object_detection.is_asked(manifest.configuration):
        texts[naming.LABEL_MAP] = to_label_map(next(label.class_names for label in labels if label.sequence))
    texts[naming.FEATURES] = tfds_metadata.to_features_json(manifest.features, languages_of(manifest.configuration))
    texts[naming.SCHEMA] = schema.to_pbtxt(manifest.features, asked)
    stats = stats_file(manifest, build)
    texts[naming.STATS] = stats.to_json()
    files = {name: text.encode() for name, text in texts.items()} | dict(more)
    files[naming.FEATURE_STATS] = feature_stats.to_bytes(stats, manifest.features)
    sums = checksums(files) | {name: f"{found.crc32c:08x}" for name, found in rejects_files(build.rejects).items()}
    files[naming.MANIFEST] = replace(manifest, files=dict(sorted(sums.items()))).to_json().encode()
    return files


def stats_file(manifest: Manifest, build: Build) -> StatsFile:
    """What stands in stats.json: per split, counts, sizes, and statistics by feature."""
    class_names = _class_names(manifest.features)
    return StatsFile(
        {
            split.name: SplitSummary(
                split.examples,
                split.size_bytes,
                split.rejected,
                (
                    _in_order(build.stats[split.name].summary(class_names), manifest)
                    if split.name in build.stats
                    else {}
                ),
                None if build.tokens is None else build.tokens.get(split.name, 0),
            )
            for split in manifest.splits
        },
        build.duplicates,
        build.near_duplicates,
    )


def _in_order(features: Mapping[str, FeatureSummary], manifest: Manifest) -> dict[str, FeatureSummary]:
    """Statistics in the order of the features, whichever was seen first."""
    names = [feature.name for feature in manifest.features]
    return {name: features[name] for name in [*names, *sorted(features.keys() - set(names))] if name in features}


def notices(build: Build, features: Features, options: PublishOptions) -> list[str]:
    """What the user must be told at the end, beginning with the route's own notices."""
    said = list(build.notices)
    if build.rejects.losses.files:
        said.append(str(build.rejects.losses))
    for split in build.splits:
        division = build.divisions.get(split)
        if division is None:
            said.append(f"split {split!r} is empty")
            continue
        asked = options.shard_counts.get(split, options.shard_counts[""]).number
        if asked is not None and asked > division.parts:
            said.append(
                f"split {split!r} has {division.examples} examples, so {division.parts} shards instead of {asked}"
            )
    if build.duplicates is not None:
        said += _duplicate_notices(build.duplicates, options.configuration)
    if build.near_duplicates is not None:
        said += _near_notices(build.near_duplicates)
    for feature in of_kind(features, "class_label"):
        column = Renames.of(options.configuration).original(feature.name)
        kept = 1 if feature.sequence and object_detection.is_asked(options.configuration) else 0
        said += _class_notices(build, feature, "" if feature.shape else column, kept)
    return said


def _duplicate_notices(duplicates: Duplicates, configuration: Mapping[str, Any]) -> list[str]:
    """That splits share contents, and what would keep them from it where splits are drawn; and that labels differ."""
    told = _first(duplicates.sentences(), "share contents")
    drawn = configuration.get("splits") is not None and configuration.get("sequence_by") is None  # else by ids
    if told and drawn and configuration.get("group_by") != CONTENT:
        told[-1] += f"; --group_by {CONTENT} keeps equals in one split"
    return [*told, *([] if duplicates.conflicts is None else [duplicates.conflicts.sentence()])]


def _near_notices(near: NearDuplicates) -> list[str]:
    """That splits share pictures that look alike, and which were not compared."""
    told = _first(near.sentences(), "share pictures that look alike")
    if told:
        told[-1] += f"; {CAVEAT}: look at the pairs on the page of the build"
    return [*told, *(f"near duplicates: {left}" for left in (near.left_out(),) if left)]


def _first(sentences: Sequence[str], share: str) -> list[str]:
    more = len(sentences) - _PAIRS_OF_SPLITS
    return [*sentences[:_PAIRS_OF_SPLITS], *([f"{more} more pairs of splits {share}"] if more > 0 else [])]


def _class_names(features: Features) -> dict[str, Sequence[str]]:
    return {feature.name: feature.class_names for feature in of_kind(features, "class_label")}


def _class_notices(build: Build, feature: Feature, column: str, kept: int) -> list[str]:
    """What must be said of classes but the first ones, which are `kept` for no object."""
    names = feature.class_names
    counts = {split: stats.label_counts(feature.name) for split, stats in build.stats.items()}
    where = {index: [split for split, labels in counts.items() if labels[index]] for index in range(kept, len(names))}
    said = []
    lost = [names[index] for index, splits in where.items() if not splits]
    if lost:
        said.append(f"{_some(lost)} no {feature.unit}s")
    single = [names[index] for index, splits in where.items() if len(splits) == 1]
    if single and len(counts) > 1:
        only = where[names.index(single[0])][0]
        remedy = f"; --stratify_by {column} spreads each class" if column else ""
        said.append(f"{_some(single)} {feature.unit}s in one split only ({single[0]!r}: {only}){remedy}")
    return said


def _some(classes: Sequence[str]) -> str:
    if len(classes) == 1:
        return f"class {classes[0]!r} has"
    return f"{len(classes)} classes, such as {classes[0]!r}, have"


def rejects_files(rejects: Rejects) -> dict[str, Rejects]:
    """The files of the rejects, by name: one, or none where there are none."""
    return {f"{naming.REJECTS_DIR}/{naming.REJECTS_FILE}": rejects} if rejects else {}
