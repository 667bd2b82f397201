"""What a data set says of itself: manifest, schema, TFDS's files, statistics, notices. Pure."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from shardmill import naming, schema, tfds_metadata
from shardmill.features import Features
from shardmill.manifest import Manifest, ShardEntry, SplitEntry
from shardmill.tfds_metadata import SplitInfo
from transforms import storage
from transforms.balance import ShardCount
from transforms.find_cuts import Divisions
from transforms.input_summary import InputSummary
from transforms.layout import Layout
from transforms.refs import Reject
from transforms.stats import merge_by_split
from transforms.write_shards import ShardInfo


@dataclass(frozen=True, slots=True)
class PublishOptions:
    """What stands in the metadata, and when not to publish.

    Attributes:
      output: the folder of all data sets; `<output>/<name>/<version>` is this one's.
      name, version: of the data set.
      gzip: whether the shards are compressed; then TFDS cannot read them, and gets no dataset_info.json.
      max_reject_fraction: of the records in the input; more fail the job.
      shard_counts: as asked for, by split; `""` for the splits not named.
      source: the input as the user gave it.
      configuration, versions: see shardmill.manifest.
    """

    output: str
    name: str
    version: str
    gzip: bool
    max_reject_fraction: float
    shard_counts: Mapping[str, ShardCount]
    source: str
    configuration: Mapping[str, Any]
    versions: Mapping[str, str]

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
    """What was found, planned and written, once all of it is."""

    summary: InputSummary
    layout: Layout
    divisions: Divisions
    shards: Sequence[ShardInfo]
    rejects: Sequence[Reject]


def make_manifest(build: Build, features: Features, options: PublishOptions) -> Manifest:
    """The manifest of a build."""
    by_split: dict[str, list[ShardInfo]] = {split: [] for split in build.layout.splits}
    for shard in sorted(build.shards, key=lambda shard: shard.name.shard):
        by_split[shard.name.split].append(shard)
    reasons = Counter(reject.reason for reject in build.rejects)
    return Manifest(
        name=options.name,
        version=options.version,
        compression="gzip" if options.gzip else "",
        features=features,
        splits=tuple(
            SplitEntry(split, tuple(map(_entry, shards)), sum(shard.rejected for shard in shards))
            for split, shards in by_split.items()
        ),
        input={
            "pattern": options.source,
            "records": build.summary.matched,
            "size_bytes": build.summary.size_bytes,
            "fingerprint": f"{build.summary.fingerprint:032x}",
        },
        configuration=options.configuration,
        versions=options.versions,
        rejects={"records": len(build.rejects), "reasons": dict(sorted(reasons.most_common(100)))},
        notices=tuple(notices(build, options)),
    )


def _entry(shard: ShardInfo) -> ShardEntry:
    return ShardEntry(str(shard.name), shard.examples, shard.size_bytes, f"{shard.crc32c:08x}")


def metadata_texts(manifest: Manifest, build: Build) -> dict[str, str]:
    """The text of every file that describes the data set, by name; the manifest last."""
    texts = {
        naming.labels_file(feature.name): "".join(f"{name}\n" for name in feature.class_names)
        for feature in manifest.features
        if feature.kind == "class_label"
    }
    keys = {feature.name for feature in manifest.features}
    if manifest.compression == "":
        infos = [
            SplitInfo(split.name, tuple(shard.examples for shard in split.shards), split.size_bytes)
            for split in manifest.splits
            if split.shards
        ]
        supervised = ("image", "label") if {"image", "label"} <= keys else None
        description = f"Made by shardmill from {manifest.input['pattern']}."
        texts[naming.DATASET_INFO] = tfds_metadata.to_dataset_info_json(
            manifest.name, manifest.version, infos, supervised, description
        )
    texts[naming.FEATURES] = tfds_metadata.to_features_json(manifest.features)
    texts[naming.SCHEMA] = schema.to_pbtxt(manifest.features)
    texts[naming.STATS] = tfds_metadata.dump_json(stats_json(manifest, build))
    texts[naming.MANIFEST] = manifest.to_json()
    return texts


def stats_json(manifest: Manifest, build: Build) -> dict[str, Any]:
    """The content of stats.json: per split, counts, sizes, and statistics by feature."""
    merged = merge_by_split((shard.name.split, shard.stats) for shard in build.shards)
    class_names = build.layout.class_names.names if build.layout.class_names else None
    return {
        "splits": {
            split.name: {
                "examples": split.examples,
                "size_bytes": split.size_bytes,
                "rejected": split.rejected,
                "features": merged[split.name].to_json(class_names) if split.name in merged else {},
            }
            for split in manifest.splits
        }
    }


def notices(build: Build, options: PublishOptions) -> list[str]:
    """What the user must be told at the end, beside the layout's own notices."""
    said = list(build.layout.notices)
    for split in build.layout.splits:
        division = build.divisions.get(split)
        if division is None:
            said.append(f"split {split!r} is empty")
            continue
        asked = options.shard_counts.get(split, options.shard_counts[""]).number
        if asked is not None and asked > division.parts:
            said.append(f"split {split!r} has {division.examples} examples, so {division.parts} shards instead of {asked}")
    if build.layout.class_names is not None:
        said += _class_notices(build, build.layout.class_names.names)
    if not options.gzip:
        said += _film_notices(build)
    return said


def _film_notices(build: Build) -> list[str]:
    """What TensorFlow decodes to (frames, height, width, 3) unless told otherwise, and TFDS tells it nothing."""
    counts = {name: sum(shard.stats.formats[name] for shard in build.shards) for name in ("gif", "webp")}
    return [
        f"TFDS cannot decode {number:,} of the images, {name} by format, which TensorFlow takes for a film; "
        "give --image_format png, or decode with tf.io.decode_image(…, expand_animations=False)"
        for name, number in counts.items()
        if number
    ]


def _class_notices(build: Build, names: Sequence[str]) -> list[str]:
    merged = merge_by_split((shard.name.split, shard.stats) for shard in build.shards)
    where = {index: [split for split, stats in merged.items() if stats.labels[index]] for index in range(len(names))}
    said = []
    lost = [names[index] for index, splits in where.items() if not splits]
    if lost:
        said.append(f"{_some(lost)} no examples")
    single = [names[index] for index, splits in where.items() if len(splits) == 1]
    if single and len(merged) > 1:
        only = where[names.index(single[0])][0]
        said.append(f"{_some(single)} examples in one split only ({single[0]!r}: {only}); --stratify_by label spreads each class")
    return said


def _some(classes: Sequence[str]) -> str:
    if len(classes) == 1:
        return f"class {classes[0]!r} has"
    return f"{len(classes)} classes, such as {classes[0]!r}, have"


def rejects_text(rejects: Iterable[Reject]) -> str:
    """The lines of a rejects file, in the order of their sources."""
    ordered = sorted(rejects, key=lambda reject: (reject.source, reject.line or 0, reject.stage, reject.reason))
    return "".join(json.dumps(asdict(reject), ensure_ascii=False) + "\n" for reject in ordered)
