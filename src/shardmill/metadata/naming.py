"""Names on disk: TFDS's directory layout; what shards are called, shardmill.metadata.file_template says."""

import re
from collections.abc import Collection
from dataclasses import dataclass

from shardmill.codecs.base import Codec
from shardmill.codecs.registry import CODECS, PLAIN
from shardmill.metadata import file_template

SUCCESS = "_SUCCESS"
PUBLISHING = "_PUBLISHING"  # the journal of a publication under way; see shardmill.transforms.publishing.journal
LOCK = "LOCK"  # who builds a version, in its directory while it is built; see shardmill.transforms.publishing.lease
LATEST = "LATEST"
TAGS = "TAGS"  # a folder beside the versions, of files that hold one each; see shardmill.versions.tags
FAILED = "failed"  # a folder beside the versions, of those that failed their checks; see transforms.publishing.checking
BUILDS = "builds"  # a folder beside the versions; see shardmill.versions.build_record
MANIFEST = "manifest.json"
STATS = "stats.json"
FEATURE_STATS = "FeatureStats.pb"  # as TFX calls it; see shardmill.statistics.feature_stats
SCHEMA = "schema.pbtxt"
ANOMALIES = "anomalies.pbtxt"  # of a version that failed its checks
FEATURES = "features.json"
LABEL_MAP = "label_map.pbtxt"  # of the Object Detection API; see shardmill.metadata.label_map
DATASET_INFO = "dataset_info.json"
REJECTS_DIR = "rejects"
TRANSFORM = "transform.json"  # see shardmill.metadata.transform_file
TRANSFORM_GRAPH = "transform_graph"  # a folder as TensorFlow Transform writes it
REJECTS_FILE = "rejects-00000-of-00001.jsonl"
TEMP_SUFFIX = ".tmp"  # of a metadata file on a local disk until it is whole
TEMP_PREFIX = "beam-temp-"  # FileBasedSink's own prefix for temporary directories

MAX_NAME_BYTES = 255  # of a file, on all the usual file systems
# What parts of paths are separated by, controls, halves of characters, and what else ends a line.
_NO_FILE_NAME = re.compile("[/\\\\\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")
_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)
_SPLIT = re.compile(r"\w+", re.ASCII)
_VERSION = re.compile(r"\d+\.\d+\.\d+", re.ASCII)
_CODECS = {(codec.file_format, codec.suffix): codec for codec in CODECS.values()}


def is_dataset_name(name: str) -> bool:
    """Whether TFDS accepts `name` as the name of a data set: a letter, then letters, digits, `_`."""
    return _NAME.fullmatch(name) is not None


def is_split_name(split: str) -> bool:
    """Whether `split` can stand in a shard's file name: letters, digits, `_`."""
    return _SPLIT.fullmatch(split) is not None


def is_version(version: str) -> bool:
    """Whether `version` is three numbers, as TFDS wants them: `1.0.0`."""
    return _VERSION.fullmatch(version) is not None


def is_file_name(name: str) -> bool:
    """Whether a file can be called `name`, anywhere, and have TEMP_SUFFIX behind it; it is then no way to another
    folder."""
    if name in ("", ".", "..") or _NO_FILE_NAME.search(name):
        return False
    return len(name.encode()) + len(TEMP_SUFFIX) <= MAX_NAME_BYTES


def is_inside(path: str) -> bool:
    """Whether `path`, relative to a folder, stays in it: every part is a name."""
    return all(map(is_file_name, path.split("/")))


@dataclass(frozen=True, slots=True)
class ShardName:
    """The parts of a shard's file name: data set, split, index (from 0), number of shards of that split, the format of
    the file, and the template by which it is called."""

    name: str
    split: str
    shard: int
    num_shards: int
    codec: Codec = PLAIN
    template: str = file_template.DEFAULT

    def __str__(self) -> str:
        return _called(self.template, self.name, self.split, self.codec, f"{self.shard:05d}", f"{self.num_shards:05d}")

    @classmethod
    def parse(cls, text: str) -> "ShardName | None":
        """The parts of file name `text` by the default template, or None if it is not a shard's name."""
        match = file_template.pattern(file_template.DEFAULT).fullmatch(text)
        codec = None if match is None else _CODECS.get((match["format"], match["suffix"]))
        if match is None or codec is None:
            return None
        return cls(match["name"], match["split"], int(match["shard"]), int(match["count"]), codec)


def is_shard(text: str, template: str, name: str | None = None, split: str | None = None) -> bool:
    """Whether `text` can be the name of a shard by a template; of one data set, or of one split of it, where said."""
    match = file_template.pattern(template, name, split).fullmatch(text)
    if match is None:
        return False
    formats = [match["format"]] if "format" in match.groupdict() else [known for known, _ in _CODECS]
    return any((file_format, match["suffix"]) in _CODECS for file_format in formats)


def shards_glob(name: str, split: str, codec: Codec, template: str) -> str:
    """A glob for all shards of a split."""
    if template == file_template.DEFAULT:
        return f"{shard_prefix(name, split, codec)}-*"
    return _called(template, name, split, codec, "*", "*")


def _called(template: str, name: str, split: str, codec: Codec, shard: str, count: str) -> str:
    words = {"name": name, "split": split, "format": codec.file_format, "shard": shard, "count": count}
    return f"{file_template.filled(template, **words)}{codec.suffix}"


def shard_prefix(name: str, split: str, codec: Codec = PLAIN) -> str:
    """What WriteToTFRecord calls the file path prefix of a split: `flowers-train.tfrecord`."""
    return f"{name}-{split}.{codec.file_format}"


def labels_file(feature: str) -> str:
    """TFDS's name for the file that holds a ClassLabel's names, one a line; a feature may be called
    image/class/label."""
    return f"{feature.replace('/', '.')}.labels.txt"


MAX_LABEL_BYTES = MAX_NAME_BYTES - len(labels_file("")) - len(TEMP_SUFFIX)


def temporary_folder(name: str, job: str) -> str:
    """The temporary directory, in the version directory, of the job `job` that makes data set `name`."""
    return f"{TEMP_PREFIX}{name}-{job}"


def is_temporary_folder_of(name: str, job: str) -> bool:
    """Whether `name` is the temporary directory of the job `job`, whatever data set it makes."""
    return name.startswith(TEMP_PREFIX) and name.endswith(f"-{job}")


def is_transform_file(path: str) -> bool:
    """Whether `path`, relative to a version directory, is a file of its transform graph, or says what was found for
    it."""
    return path == TRANSFORM or path.startswith(f"{TRANSFORM_GRAPH}/")


def is_dataset_file(path: str, name: str, templates: Collection[str] = ()) -> bool:
    """Whether `path`, relative to the version directory of data set `name`, is one that shardmill writes there.

    Args:
      path: of a file.
      name: of the data set.
      templates: by which shards there are called, beside the default.
    """
    head, _, rest = path.removesuffix(TEMP_SUFFIX).partition("/")
    if rest:
        return head.startswith(TEMP_PREFIX) or head in (REJECTS_DIR, TRANSFORM_GRAPH)
    known = {
        SUCCESS,
        PUBLISHING,
        LOCK,
        MANIFEST,
        STATS,
        FEATURE_STATS,
        SCHEMA,
        FEATURES,
        DATASET_INFO,
        LABEL_MAP,
        TRANSFORM,
    }
    shards = any(is_shard(head, template, name) for template in {file_template.DEFAULT, *templates})
    return head in known or head.endswith(".labels.txt") or shards
