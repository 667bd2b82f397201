"""What is wrong with the files of a data set beside its shards: missing, not listed, changed, or at odds with its
manifest."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from google.protobuf import text_format
from google.protobuf.message import DecodeError
from tensorflow_metadata.proto.v0 import schema_pb2, statistics_pb2

from shardmill.errors import CorruptDataError
from shardmill.features.feature import Feature, of_kind
from shardmill.features.translation import languages_of
from shardmill.metadata import naming, schema, tfds_metadata
from shardmill.metadata.asked_schema import asked_of, with_asked
from shardmill.metadata.manifest import Manifest
from shardmill.metadata.seal import crc32c
from shardmill.reading.dataset import Dataset
from shardmill.statistics.stats_file import StatsFile
from shardmill.transforms.stores import storage
from shardmill.transforms.verification.shards import Fault

_REJECTS = f"{naming.REJECTS_DIR}/{naming.REJECTS_FILE}"
_MANY_REJECTS = 10_000  # which are read as they come, not held

_Check = Callable[[bytes, Manifest], Iterable[str]]
_TextCheck = Callable[[str, Manifest], Iterable[str]]


def dataset_faults(dataset: Dataset) -> list[Fault]:
    """What is wrong with a data set as a whole: its metadata files, and files that it should have, or should not."""
    manifest = dataset.manifest
    checks = _metadata_checks(manifest)
    faults = [
        Fault(name, message)
        for name in sorted({*checks, *manifest.files})
        for message in _check_text(dataset, name, checks)
    ]
    if manifest.files and not storage.size(storage.join(dataset.directory, naming.SUCCESS)):
        faults.append(Fault(naming.SUCCESS, "is empty; expected the checksum of the manifest"))
    if storage.exists(storage.join(dataset.directory, naming.PUBLISHING)):
        faults.append(
            Fault(naming.PUBLISHING, "an earlier run was interrupted while it published; --repair completes it")
        )
    listed = {shard.file for split in manifest.splits for shard in split.shards}
    expected = {*listed, *checks, *manifest.files, naming.MANIFEST, naming.SUCCESS, naming.PUBLISHING}
    for name, _ in sorted(storage.list_files(dataset.directory)):
        if name in expected or name.startswith(naming.TEMP_PREFIX):  # which the next run deletes
            continue
        if naming.is_shard(name, manifest.file_template) or naming.ShardName.parse(name) is not None:
            faults.append(Fault(name, "is a shard that the manifest does not list"))
        elif naming.is_dataset_file(name, manifest.name) and not name.endswith(naming.TEMP_SUFFIX):
            faults.append(Fault(name, "is a file that the manifest does not list"))
    return faults


def _metadata_checks(manifest: Manifest) -> dict[str, _Check]:
    """How each metadata file that there must be is checked, beside its checksum."""
    checks: dict[str, _TextCheck] = {
        naming.FEATURES: _check_features,
        naming.SCHEMA: _check_schema,
        naming.STATS: _check_stats,
    }
    for feature in of_kind(manifest.features, "class_label"):
        checks[naming.labels_file(feature.stem)] = partial(_check_labels, feature)
    if manifest.codec.is_read_by_tfds:
        checks[naming.DATASET_INFO] = _check_dataset_info
    if manifest.rejects.get("records"):
        checks[_REJECTS] = _check_rejects
    found: dict[str, _Check] = {
        name: partial(_of_text, check) for name, check in checks.items() if naming.is_inside(name)
    }
    if naming.FEATURE_STATS in manifest.files:  # which data sets made before there was it have not
        found[naming.FEATURE_STATS] = _check_feature_stats
    return found


def _of_text(check: _TextCheck, data: bytes, manifest: Manifest) -> Iterable[str]:
    return check(data.decode(), manifest)


def _check_text(dataset: Dataset, name: str, checks: Mapping[str, _Check]) -> list[str]:
    """What is wrong with a metadata file; that its checksum differs is said where nothing says more."""
    try:
        if name == _REJECTS and dataset.manifest.files and dataset.manifest.rejects.get("records", 0) > _MANY_REJECTS:
            return _check_lines(dataset, name)
        data = storage.read_bytes(storage.join(dataset.directory, name))
        found = list(checks[name](data, dataset.manifest)) if name in checks else []
        expected = dataset.manifest.files.get(name, crc32c(data))
        return found or (
            [f"has crc32c {crc32c(data)}; the manifest says {expected}"] if crc32c(data) != expected else []
        )
    except FileNotFoundError:
        return ["is missing"]
    except OSError as error:
        return [f"cannot be read: {error.strerror or error}"]
    except (AttributeError, KeyError, TypeError, ValueError, text_format.ParseError, DecodeError) as error:
        return [f"is not such a file: {type(error).__name__}: {' '.join(str(error).split())}"]


def _check_lines(dataset: Dataset, name: str) -> list[str]:
    """What is wrong with a file of very many lines, which is not held whole; raises as `Dataset.lines`."""
    try:
        for _ in dataset.lines(name):
            pass
    except CorruptDataError as error:
        return [str(error)]
    return []


def _check_features(text: str, manifest: Manifest) -> Iterator[str]:
    right = tfds_metadata.to_features_json(manifest.features, languages_of(manifest.configuration))
    return _differences("feature", *(_entries(json.loads(content)) for content in (text, right)))


def _entries(content: dict[str, Any]) -> dict[str, Any]:
    """What features.json says of each feature."""
    if "translation" in content:
        return dict.fromkeys(content["translation"]["languages"], content["pythonClassName"])
    entries: dict[str, Any] = content["featuresDict"]["features"]
    return entries


def _check_schema(text: str, manifest: Manifest) -> Iterator[str]:
    found = text_format.Parse(text, schema_pb2.Schema())
    expected = with_asked(schema.to_schema(manifest.features), asked_of(text))  # it may ask for what it likes
    return _differences(
        "feature", *({feature.name: feature for feature in proto.feature} for proto in (found, expected))
    )


def _check_labels(feature: Feature, text: str, _: Manifest) -> Iterator[str]:
    found = text.split("\n")[:-1]
    if len(found) != len(feature.class_names):
        yield f"has {len(found)} lines; the manifest has {len(feature.class_names)} classes"
    for index, (name, expected) in enumerate(zip(found, feature.class_names, strict=False)):
        if name != expected:
            yield f"class {index} is {name!r}; the manifest says {expected!r}"
            return  # the names after it are most likely only shifted


def _check_rejects(text: str, manifest: Manifest) -> Iterator[str]:
    found, expected = text.count("\n"), manifest.rejects["records"]
    # Of data sets made when each line was one record, and no checksum was kept
    if not manifest.files and found != expected:
        yield f"has {found} lines; the manifest counts {expected} rejected"


def _check_stats(text: str, manifest: Manifest) -> Iterator[str]:
    splits = StatsFile.from_json(text, naming.STATS).splits
    keys = ("examples", "size_bytes", "rejected")
    found, expected = (
        {name: {key: getattr(split, key) for key in keys} for name, split in pairs}
        for pairs in (splits.items(), ((split.name, split) for split in manifest.splits))
    )
    yield from _differences("split", found, expected)
    for name, split in splits.items():
        for feature, of_feature in split.features.items():
            counts = of_feature.classes
            lists = of_feature.per_example
            values = split.examples if lists is None else round((lists.mean or 0) * split.examples)
            if counts is not None and sum(counts.values()) != values:
                yield f"split {name!r}: the classes of {feature!r} add up to {sum(counts.values())}; expected {values}"


def _check_feature_stats(data: bytes, manifest: Manifest) -> Iterator[str]:
    datasets = statistics_pb2.DatasetFeatureStatisticsList.FromString(data).datasets
    found = {dataset.name: dataset.num_examples for dataset in datasets}
    yield from _differences("split", found, {split.name: split.examples for split in manifest.splits})
    known = {feature.name for feature in manifest.features}
    for dataset in datasets:
        names = [".".join(feature.path.step) for feature in dataset.features]
        yield from (
            f"split {dataset.name!r} has feature {name!r}, which is not in the manifest"
            for name in names
            if name not in known
        )


def _check_dataset_info(text: str, manifest: Manifest) -> Iterator[str]:
    content = json.loads(text)
    expected = {"name": manifest.name, "version": manifest.version}
    yield from _differences("field", {key: content.get(key) for key in expected}, expected)
    found = {split["name"]: (split["shardLengths"], split["numBytes"]) for split in content["splits"]}
    yield from _differences(
        "split",
        found,
        {
            split.name: ([str(shard.examples) for shard in split.shards], str(split.size_bytes))
            for split in manifest.splits
            if split.shards
        },
    )


def _differences(what: str, found: Mapping[str, Any], expected: Mapping[str, Any]) -> Iterator[str]:
    """A sentence for each key whose value is missing, too many, or another than the manifest's."""
    for name in expected:
        if name not in found:
            yield f"lacks {what} {name!r} of the manifest"
        elif found[name] != expected[name]:
            yield f"disagrees with the manifest on {what} {name!r}"
    yield from (f"has {what} {name!r}, which is not in the manifest" for name in found if name not in expected)
