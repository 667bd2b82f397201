"""Explanations of the files of a data set and of JSON output, for tests/support/reference.py."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple


@dataclass(frozen=True)
class Commented:
    """Comments on a JSON value by the paths of its keys, such as `splits[].name`, and its form in a page."""

    comments: Mapping[str, str]
    open: tuple[str, ...] = ()  # paths of short values that are shown on several lines
    most: Mapping[str, int] = field(default_factory=dict)  # items that are shown, by path


class File(NamedTuple):
    """A file of a data set: a glob for it, its meaning, the language of the example ("" for none) and its lines."""

    pattern: str
    meaning: str
    language: str = ""
    lines: int = 0


_CHECK = {
    "[].check": "its name, as in a recipe",
    "[].severity": "ok, warn, error, or unknown if the statistics do not tell",
    "[].sentence": "what was found",
    "[].feature": '"" if the check is about whole examples',
    "[].split": '"" if it is about all splits',
    "[].value": "the measured value; null if there is none",
    "[].threshold": "the threshold that decided, or the nearest one",
    "[].noise_floor": "what two random halves of the data may differ by; null if that does not apply",
}
_RECORD = {
    "format": "increases when a reader of the previous format would misunderstand this one",
    "name": "of the data set",
    "version": "that was built",
    "status": "published, unchanged, failed, checks_failed, locked, outrun, outdated, interrupted or launched",
    "started": "in UTC",
    "reason": "why the version was built, or why it was not published",
    "code_version": "a digest of the options and libraries that shape the bytes",
    "data_version": "a digest of the input",
    "baseline": 'the version that the checks compared with; "" if there was none',
    "before": 'the version in LATEST when the build started; "" if there was none',
    "seconds": "the duration of the build",
    "splits": "the number of examples by split",
    "rejected": "the number of rejected records",
    "checks": "the result of each check",
    **{f"checks{key}": comment for key, comment in _CHECK.items()},
    "page_checks": "checks that were not asked for, with default thresholds; only in the file, for the page",
    "accepted": "checks, by, at and reason, if the version was published although checks failed",
    "notices": "messages for the user",
    "since": "the changes since the version in LATEST, as text",
    "shardmill": "the version of shardmill",
    "reused": "the number of files whose records were copied from an older version; null if not counted",
    "read": "the number of files that were read; null if not counted",
}
_SUMMARY = {
    ".count": "values, or examples with the feature",
    ".missing": "examples without it",
    ".distinct": "number of different values, and whether it is exact",
    ".quantiles": "by share of the values",
    ".quantiles_relative_error": "0 if the quantiles are exact",
    ".histogram": "at most 32 buckets, whose bounds follow the data",
    ".top_values": "the most frequent values",
    ".label_association": "how well the feature predicts the label, 0 to 1",
}
_STATISTICS = "splits.train.features"

# Files by their headings, in the order of the page
FILES = {
    "Shards": File(
        "sales/1.0.0/sales-train.tfrecord-00000-of-00001",
        "A TFRecord file of `tf.train.Example` records. `shardmill inspect` shows them as text.\n\n"
        "- Shards of a split with several are numbered from `-00000-of-00008` to `-00007-of-00008`.\n"
        "- `--compression gzip` adds `.gz`.\n"
        "- With `--file_format array_record`, `.array_record` is in place of `.tfrecord`, and manifest.json has a"
        " `file_format`.",
    ),
    "features.json": File("sales/1.0.0/features.json", "The features in the form of TFDS.", "json"),
    "dataset_info.json": File(
        "sales/1.0.0/dataset_info.json",
        "The splits in the form of TFDS. It is missing for shards that TFDS cannot read: gzip, and raw records.",
        "json",
    ),
    "schema.pbtxt": File(
        "sales/1.0.0/schema.pbtxt",
        "The schema of tensorflow-metadata, for TensorFlow Transform, TFX and TFDV. `--schema` accepts it, too.",
        "text",
        16,
    ),
    "FeatureStats.pb": File(
        "sales/1.0.0/FeatureStats.pb", "The statistics as a binary proto, for `tfdv.load_stats_binary` and Facets."
    ),
    "Class names": File(
        "sales/1.0.0/city.labels.txt",
        "The class names of the feature `city`, one a line. The first line has id 0. `--labels_file` accepts it.",
        "text",
        9,
    ),
    "stats.json": File(
        "sales/1.0.0/stats.json", "Statistics of each feature by split, and examples with equal content.", "json"
    ),
    "manifest.json": File(
        "sales/1.0.0/manifest.json",
        "The table of contents: each shard and file with its checksum, the input, the options. It holds no time, host"
        " or output path.",
        "json",
    ),
    "Rejects": File(
        "sales/1.0.0/rejects/rejects-00000-of-00001.jsonl", "One line for each record that was left out.", "js", 9
    ),
    "_SUCCESS": File(
        "sales/1.0.0/_SUCCESS",
        "The checksum of `manifest.json`, written last. A folder without it is not a data set.",
        "text",
        9,
    ),
    "LATEST": File("sales/LATEST", "The version that readers open if none is named.", "text", 9),
    "Tags": File("sales/TAGS/paper", "The version that a tag names; `shardmill tag` writes it.", "text", 9),
    "Build record": File(
        "sales/builds/1.0.0.json", "The outcome of a build. `--json` prints the same, without `page_checks`.", "json"
    ),
    "Build page": File("sales/builds/1.0.0.html", "The [page](../reports.md) about the build."),
    "List of inputs": File(
        "sales/builds/1.0.0.inputs",
        "An Arrow file: name, size and stamp of each input file, and the options. A rebuild compares it.",
    ),
    "anomalies.pbtxt": File(
        "sales/failed/1.0.1/anomalies.pbtxt",
        "Only in a version that failed its checks: the findings in the form of tensorflow-metadata. This is its end.",
        "text",
        -24,
    ),
    "_FAILED": File(
        "sales/failed/1.0.1/_FAILED",
        "Only in a version that failed its checks: until when it is kept. `_RECORD` and `_INPUTS` are the files that"
        " `shardmill accept` moves to `builds/`.",
        "js",
        9,
    ),
}
# Files that the example does not have
OTHER_FILES = {
    "LOCK": "Exists while a job builds the version, and names the job.",
    "_PUBLISHING": "The journal of a publication. Another job, or `verify --repair`, completes it.",
    "transform.json": "The constants of `--transform` or `--module_file`; see [Preprocess](../transform.md).",
    "transform_graph": "The folder of TensorFlow Transform's graph.",
    "index": "The folder of positions of records, with `--index`.",
    "label_map.pbtxt": "The label map of the Object Detection API, with `--detection_api`.",
    "builds/1.0.0.files": "With `--reuse`: the place of each file's record.",
    "builds/1.0.0.failed.json": "The record of a failed attempt to replace a published version.",
    "1.0.0-rejects.jsonl": "The rejects of a job that failed because of them.",
}

COMMENTS = {
    "features.json": Commented(
        {
            "pythonClassName": "the class of TFDS that reads it",
            "featuresDict": "the features in their order",
            "featuresDict.features.city": "a label: an integer with class names",
            "featuresDict.features.price": "some examples lack it: a list of no value or one",
        },
        most={"featuresDict.features": 3},
    ),
    "dataset_info.json": Commented(
        {
            "name": "of the data set",
            "version": "of the data set",
            "description": "names the input",
            "fileFormat": "tfrecord, array_record or another of TFDS",
            "splits": "in their order",
            "splits[].filepathTemplate": "the names of the shards; --file_template changes it",
            "splits[].shardLengths": "examples of each shard",
        }
    ),
    "stats.json": Commented(
        {
            "splits": "statistics by split; only train is shown here",
            f"{_STATISTICS}": "by feature; only two are shown here",
            **{f"{_STATISTICS}.id{key}": comment for key, comment in _SUMMARY.items()},
            f"{_STATISTICS}.city.classes": "examples of each class",
            "duplicates": "examples with equal content, as in the JSON output of inspect",
        },
        most={"splits": 1, _STATISTICS: 2, f"{_STATISTICS}.id.quantiles": 2},
    ),
    "manifest.json": Commented(
        {
            "format": _RECORD["format"],
            "name": "of the data set",
            "version": "of the data set",
            "compression": '"" or gzip',
            "features": "in their order",
            "features[].kind": "tensor, class_label, image, …",
            "features[].shape": "[] for one value, -1 for a size that varies",
            "features[].required": "false if some examples lack the feature",
            "features[].role": "input, label, or metadata such as a file name",
            "splits": "with the checksum of each shard",
            "input": "the input, and a fingerprint of its files",
            "configuration": "each option that shapes the bytes",
            "versions": "of libraries that shape the bytes",
            "rejects": "the number of rejected records by reason",
            "notices": "messages of the build",
            "files": "the crc32c of each other file",
        },
        open=("splits[].shards", "splits[].shards[]"),
        most={"configuration": 5, "splits": 1},
    ),
    "Build record": Commented(_RECORD, most={"checks": 2}, open=("checks[]",)),
}

# Commands that print JSON, in the order of the page, each with its heading
OUTPUTS = {
    "shardmill rebuild sales.yaml --json": (
        "The record of a build",
        Commented(_RECORD, most={"checks": 1}, open=("checks[]",)),
    ),
    "shardmill inspect datasets/sales --json": (
        "inspect",
        Commented(
            {
                "format": _RECORD["format"],
                "name": "of the data set",
                "version": "that LATEST or the command names",
                "directory": "of the version",
                "features": "in their order",
                "splits": "in their order",
                "splits[].smallest": "examples of the smallest shard",
                "splits[].largest": "examples of the largest shard",
                "statistics": "by split and feature, as in stats.json; null if that cannot be read",
                "statistics_missing": "missing or damaged, if statistics is null",
                "duplicates": "examples with equal content",
                "near_duplicates": "images that look alike; null without --near_duplicates",
                "transform": "the constants of --transform; null without one",
                "notices": "messages of the build",
                "examples": "the first of each split, as texts",
            },
            open=("splits[]",),
            most={
                "features": 1,
                "splits": 1,
                "statistics": 1,
                "statistics.train": 1,
                "statistics.train.id.quantiles": 1,
                "examples": 1,
            },
        ),
    ),
    "shardmill diff datasets/sales 1.0.0 failed/1.0.1 --json": (
        "diff",
        Commented(
            {
                "old": "the first of the two versions",
                "new": "the second",
                "since": "all differences in one line",
                "differences": "the most important first",
                "differences[].what": "the kind of the difference",
                "differences[].words": "the difference as text",
                "differences[].before": "null if there was none",
                "differences[].after": "null if there is none",
                "checks": "what the checks of a rebuild find, with default thresholds",
            },
            open=("differences[]",),
            most={"checks": 1},
        ),
    ),
    "shardmill report datasets/sales --json": (
        "report",
        Commented(
            {
                "format": _RECORD["format"],
                "name": "of the data set",
                "version": "that LATEST or the command names",
                "verdict": "the worst of all checks",
                "splits": "as for inspect",
                "changes": "against the version before",
                "labels": "the classes, and the examples of each",
                "features": "the statistics of each feature by split",
                "features[].alerts": "what is unusual, as text",
                "pictures": "images of the classes, and unusual images",
                "duplicates": "examples with equal content",
                "near_duplicates": "images that look alike; null without --near_duplicates",
                "rejects": "by reason, with three names each",
                "shards": "of all splits",
                "made": "from what and how the version was made",
            },
            most={
                "features": 1,
                "features[].splits": 1,
                "features[].splits.train": 6,
                "verdict.checks": 1,
                "made.configuration": 2,
            },
        ),
    ),
}
