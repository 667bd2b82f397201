"""Names of shards and of the other files in a version's folder."""

import re
import string
from collections.abc import Collection
from dataclasses import dataclass
from functools import lru_cache

from shardmill.data.codecs import CODECS, PLAIN_CODEC, Codec

DEFAULT_TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
_NUMBER = r"\d{5,}"
# Pattern of each word in a name that is parsed
_WORD_PATTERNS = {
    "DATASET": r"(?P<name>[A-Za-z]\w*)",
    "SPLIT": r"(?P<split>\w+)",
    "FILEFORMAT": r"(?P<format>\w+)",
    "SHARD_INDEX": rf"(?P<shard>{_NUMBER})",
    "NUM_SHARDS": rf"(?P<count>{_NUMBER})",
    "SHARD_X_OF_Y": rf"(?P<shard>{_NUMBER})-of-(?P<count>{_NUMBER})",
}
_LITERALS = re.compile(r"[\w.\-=+]*", re.ASCII)  # between words: what is safe in names on every store
_RESERVED_SUFFIXES = (".tmp", ".labels.txt", ".json", ".pbtxt", ".pb")  # of other files in the folder of shards


def template_problem(template: str) -> str | None:
    """Return why a template is invalid, as words that follow it in a sentence; None if it is valid."""
    if "/" in template:
        return "names a folder; all shards of a version are in the version's folder"
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        return f"is no template: {error}"
    words = [word for _, word, _, _ in parts if word is not None]
    odd = [word for word, (_, _, form, conversion) in zip(words, parts, strict=False) if form or conversion]
    unknown = [word for word in words if word not in _WORD_PATTERNS]
    if unknown or odd:
        known = ", ".join(f"{{{word}}}" for word in _WORD_PATTERNS)
        return f"has {{{(unknown or odd)[0]}}}; TFDS knows {known}"
    if twice := [word for word in words if words.count(word) > 1]:
        return f"has {{{twice[0]}}} twice"
    if "SHARD_X_OF_Y" in words and ("SHARD_INDEX" in words or "NUM_SHARDS" in words):
        return "has the number of a shard twice; {SHARD_X_OF_Y} is {SHARD_INDEX}-of-{NUM_SHARDS}"
    if "SPLIT" not in words:
        return "lacks {SPLIT}: shards of two splits would have one name"
    if "SHARD_X_OF_Y" not in words and "SHARD_INDEX" not in words:
        return "lacks {SHARD_X_OF_Y} or {SHARD_INDEX}: all shards of a split would have one name"
    if not all(_LITERALS.fullmatch(literal) for literal, _, _, _ in parts):
        return "has other characters between words than letters, digits and any of _-.=+"
    if any(".gz" in literal for literal, _, _, _ in parts):
        return "holds .gz, which --compression gzip adds to the names of compressed shards"
    if template.startswith((".", "_", "beam-temp-")) or template.endswith(_RESERVED_SUFFIXES):
        return "begins or ends as files of another kind do, which readers skip"
    return None


@lru_cache(maxsize=64)
def shard_name_pattern(template: str, name: str | None = None, split: str | None = None) -> re.Pattern[str]:
    """Return a pattern for shard names, optionally of one dataset or split; its group `suffix` is the codec's."""
    known = {"DATASET": name, "SPLIT": split}
    found = []
    for literal, word, _, _ in string.Formatter().parse(template):
        found.append(re.escape(literal))
        if word is not None:
            given = known.get(word)
            found.append(_WORD_PATTERNS[word] if given is None else re.escape(given))
    return re.compile(f"{''.join(found)}(?P<suffix>(?:\\.\\w+)?)", re.ASCII)


SUCCESS = "_SUCCESS"
PUBLISHING = "_PUBLISHING"  # the journal of a publication under way; see shardmill.transforms.publishing.publication
LOCK = "LOCK"  # who builds a version, in its directory while it is built; see shardmill.transforms.publishing.lease
LATEST = "LATEST"
TAGS = "TAGS"  # a folder next to the versions, with one file for each tag; see shardmill.metadata.versions
FAILED = "failed"  # a folder next to the versions, of versions that failed their checks
FAILED_MARK = "_FAILED"  # in the folder of such a version: the job that built it, and until when it is kept
BUILDS = "builds"  # a folder next to the versions; see shardmill.metadata.versions
MANIFEST = "manifest.json"
STATS = "stats.json"
FEATURE_STATS = "FeatureStats.pb"  # as TFX calls it; see shardmill.quality.feature_stats
SCHEMA = "schema.pbtxt"
ANOMALIES = "anomalies.pbtxt"  # of a version that failed its checks
FEATURES = "features.json"
LABEL_MAP = "label_map.pbtxt"  # of the Object Detection API; see shardmill.metadata.schema
DATASET_INFO = "dataset_info.json"
REJECTS_DIR = "rejects"
INDEX_DIR = "index"  # a folder of positions of records; see shardmill.data.shard_index
TRANSFORM = "transform.json"  # see shardmill.metadata.tfds_metadata
TRANSFORM_GRAPH = "transform_graph"  # a folder as TensorFlow Transform writes it
REJECTS_FILE = "rejects-00000-of-00001.jsonl"
TEMP_SUFFIX = ".tmp"  # of a metadata file on a local disk until it is whole
TEMP_PREFIX = "beam-temp-"  # FileBasedSink's own prefix for temporary directories

# Files in a version's folder other than shards and labels files
_FILES = (
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
)
MAX_NAME_BYTES = 255  # of a file, on all the usual file systems
# What parts of paths are separated by, controls, halves of characters, and what else ends a line.
_NO_FILE_NAME = re.compile("[/\\\\\x00-\x1f\x7f-\x9f\ud800-\udfff\u2028\u2029]")
_NAME = re.compile(r"[A-Za-z]\w*", re.ASCII)
_SPLIT = re.compile(r"\w+", re.ASCII)
_VERSION = re.compile(r"\d+\.\d+\.\d+", re.ASCII)
_CODECS = {(codec.file_format, codec.suffix): codec for codec in CODECS.values()}


def is_dataset_name(name: str) -> bool:
    """Return True if TFDS accepts `name` as a dataset's name: a letter, then letters, digits and `_`."""
    return _NAME.fullmatch(name) is not None


def is_split_name(split: str) -> bool:
    """Return True if `split` can be part of a shard's file name: letters, digits and `_`."""
    return _SPLIT.fullmatch(split) is not None


def is_version(version: str) -> bool:
    """Return True if `version` consists of three numbers, as TFDS requires: `1.0.0`."""
    return _VERSION.fullmatch(version) is not None


def is_file_name(name: str) -> bool:
    """Return True if `name` is a valid file name on every system, even with TEMP_SUFFIX, and leads to no folder."""
    if name in ("", ".", "..") or _NO_FILE_NAME.search(name):
        return False
    return len(name.encode()) + len(TEMP_SUFFIX) <= MAX_NAME_BYTES


def is_inside(path: str) -> bool:
    """Return True if `path`, relative to a folder, stays in it: every part is a valid name."""
    return all(map(is_file_name, path.split("/")))


@dataclass(frozen=True, slots=True)
class ShardName:
    """The parts of a shard's file name."""

    name: str  # of the dataset
    split: str
    shard: int  # from 0
    num_shards: int  # of the split
    codec: Codec = PLAIN_CODEC
    template: str = DEFAULT_TEMPLATE

    def __str__(self) -> str:
        return _shard_file_name(
            self.template, self.name, self.split, self.codec, f"{self.shard:05d}", f"{self.num_shards:05d}"
        )

    @classmethod
    def parse(cls, text: str) -> "ShardName | None":
        """Parse the file name `text` by the default template; None if it is not a shard's name."""
        match = shard_name_pattern(DEFAULT_TEMPLATE).fullmatch(text)
        codec = None if match is None else _CODECS.get((match["format"], match["suffix"]))
        if match is None or codec is None:
            return None
        return cls(match["name"], match["split"], int(match["shard"]), int(match["count"]), codec)


def is_shard(text: str, template: str, name: str | None = None, split: str | None = None) -> bool:
    """Return True if `text` can be a shard's name by a template, optionally of one dataset or one split."""
    match = shard_name_pattern(template, name, split).fullmatch(text)
    if match is None:
        return False
    formats = [match["format"]] if "format" in match.groupdict() else [known for known, _ in _CODECS]
    return any((file_format, match["suffix"]) in _CODECS for file_format in formats)


def shards_glob(name: str, split: str, codec: Codec, template: str) -> str:
    """Return a glob for all shards of a split."""
    if template == DEFAULT_TEMPLATE:
        return f"{shard_prefix(name, split, codec)}-*"
    return _shard_file_name(template, name, split, codec, "*", "*")


def _shard_file_name(template: str, name: str, split: str, codec: Codec, shard: str, count: str) -> str:
    """Return the template filled in, with the codec's suffix; `shard` and `count` are numbers or `*`."""
    stem = template.format(
        DATASET=name,
        SPLIT=split,
        FILEFORMAT=codec.file_format,
        SHARD_INDEX=shard,
        NUM_SHARDS=count,
        SHARD_X_OF_Y=f"{shard}-of-{count}",
    )
    return f"{stem}{codec.suffix}"


def shard_prefix(name: str, split: str, codec: Codec = PLAIN_CODEC) -> str:
    """Return the file path prefix of a split in WriteToTFRecord's sense: `flowers-train.tfrecord`."""
    return f"{name}-{split}.{codec.file_format}"


def labels_file(feature: str) -> str:
    """Return TFDS's name for the file of a feature's class names; the feature may be called image/class/label."""
    return f"{feature.replace('/', '.')}.labels.txt"


MAX_LABEL_BYTES = MAX_NAME_BYTES - len(labels_file("")) - len(TEMP_SUFFIX)


def temporary_folder(name: str, job: str) -> str:
    """Return the name of a job's temporary folder in the version's folder of dataset `name`."""
    return f"{TEMP_PREFIX}{name}-{job}"


def is_transform_file(path: str) -> bool:
    """Return True if `path`, relative to a version's folder, belongs to its transform graph or is transform.json."""
    return path == TRANSFORM or path.startswith(f"{TRANSFORM_GRAPH}/")


def is_dataset_file(path: str, name: str, templates: Collection[str] = ()) -> bool:
    """Return True if shardmill writes a file `path` into the version's folder of dataset `name`.

    Shards may be named by any of `templates` or by the default one.
    """
    head, _, rest = path.removesuffix(TEMP_SUFFIX).partition("/")
    if rest:
        return head.startswith(TEMP_PREFIX) or head in (REJECTS_DIR, TRANSFORM_GRAPH, INDEX_DIR)
    if head in _FILES or head.endswith(".labels.txt"):
        return True
    return any(is_shard(head, template, name) for template in {DEFAULT_TEMPLATE, *templates})
