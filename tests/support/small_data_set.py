"""A data set of given examples, written as the command writes one: for tests of readers and of whole versions."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

from shardmill.data.features import Feature, Features, infer_roles
from shardmill.data.tfrecord import frame_record
from shardmill.metadata.manifest import Manifest, ShardEntry, SplitEntry, success_text
from shardmill.metadata.schema import to_pbtxt
from shardmill.metadata.tfds_metadata import SplitInfo, supervised_keys, to_dataset_info_json, to_features_json
from tests.support.encoded import encode_example

Example = Mapping[str, Any]


def encode(features: Features, example: Example) -> bytes:
    """A serialized example; a value is an array of its feature's shape, and one of an `array` feature is stored as raw
    bytes."""
    present = [feature for feature in features if feature.name in example]
    return encode_example({feature.name: _listed(feature, example[feature.name]) for feature in present})


def _listed(feature: Feature, value: Any) -> Any:
    if feature.kind == "array":
        return [
            value
            if isinstance(value, bytes)
            else np.asarray(value, np.dtype(feature.element).newbyteorder("<")).tobytes()
        ]
    if feature.dtype == "bytes":
        return [value] if isinstance(value, bytes) else list(np.ravel(np.array(value, object)))
    return np.ravel(np.asarray(value, feature.dtype))


def write_data_set(
    directory: Path,
    features: Features,
    examples: Sequence[Example],
    shards: int = 2,
    configuration: Mapping[str, Any] | None = None,
) -> Path:
    """A data set `n` whose split `train` has the examples, dealt out to shards in runs; its directory."""
    directory.mkdir(parents=True, exist_ok=True)
    entries = []
    for index, part in enumerate(np.array_split(np.arange(len(examples)), shards)):
        name = f"n-train.tfrecord-{index:05}-of-{shards:05}"
        data = b"".join(frame_record(encode(features, examples[number])) for number in part)
        (directory / name).write_bytes(data)
        entries.append(ShardEntry(name, len(part), len(data), f"{google_crc32c.value(data):08x}"))
    split = SplitEntry("train", tuple(entries))
    lengths = SplitInfo("train", tuple(entry.examples for entry in entries), split.size_bytes)
    keys = supervised_keys(features)
    manifest = Manifest(
        "n", "1.0.0", "", infer_roles(features, configuration or {}), (split,), configuration=configuration or {}
    )
    (directory / "manifest.json").write_text(manifest.to_json())
    (directory / "features.json").write_text(to_features_json(features))
    (directory / "dataset_info.json").write_text(to_dataset_info_json("n", "1.0.0", [lengths], keys, ""))
    (directory / "schema.pbtxt").write_text(to_pbtxt(features))
    (directory / "_SUCCESS").write_bytes(b"")
    return directory


def edit_manifest(directory: Path, edit: Callable[[Any], object]) -> None:
    """Change the manifest of a data set as one would who means it: sealed anew."""
    path = directory / "manifest.json"
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))
    (directory / "_SUCCESS").write_text(success_text(path.read_bytes()))


_VERSION_FEATURES = (Feature("x", "int64", "tensor", (), True),)


def make_version(parent: Path, version: str, latest: bool = False, age: float = 0.0, examples: int = 3) -> Path:
    """A published version of data set `n`, so many seconds old; its directory."""
    directory = write_data_set(parent / version, _VERSION_FEATURES, [{"x": [number]} for number in range(examples)], 2)

    def name(manifest: dict[str, object]) -> None:
        manifest["version"] = version

    edit_manifest(directory, name)
    for path in directory.iterdir():
        status = path.stat()
        os.utime(path, (status.st_atime - age, status.st_mtime - age))
    if latest:
        (parent / "LATEST").write_text(f"{version}\n")
    return directory
