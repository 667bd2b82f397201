"""Data sets as input: their shards by split, and their features with the names of their classes."""

import json
import posixpath
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from shardmill.data.features import LANGUAGES_KEY, Features, translated_features
from shardmill.errors import CorruptDataError, UserError, describe_damage
from shardmill.filesystem import read_if_exists
from shardmill.metadata import file_names
from shardmill.metadata.file_names import DATASET_INFO, FEATURES, MANIFEST
from shardmill.metadata.manifest import Manifest
from shardmill.metadata.tfds_features import parse_features
from shardmill.metadata.versions import read_latest, version_numbers
from shardmill.text import listed

_MAX_SHOWN = 5
_STORES = ("gs", "s3", "az")


@dataclass(frozen=True, slots=True)
class InputDataSet:
    """One version of a data set, of shardmill or of TFDS."""

    directory: str
    shards: tuple[tuple[str, str], ...]  # (split, file name) of each
    features: Features  # those that its metadata describes; () if it describes none
    metadata: str  # path of the file that describes it
    configuration: Mapping[str, Any] = field(default_factory=dict)  # options of its job that further files depend on


def find_data_set(path: str) -> InputDataSet | None:
    """Return the data set at `path`: the folder of a version, or the folder of versions, of which LATEST is read.

    Raise a UserError if there are several versions and no LATEST.
    """
    from shardmill.transforms.inputs.listing import is_glob
    from shardmill.transforms.stores import storage
    from shardmill.transforms.stores.storage import raise_if_store_failed

    if is_glob(path) or path.partition("://")[0] not in (path, *_STORES):
        return None
    try:
        return _find(storage.StorageFiles(), path.rstrip("/") or path)
    except OSError as error:
        raise_if_store_failed(error, path)
        return None  # listing the input tells why


def _find(files: Any, folder: str) -> InputDataSet | None:
    from shardmill.transforms.stores import storage

    if (found := _read_version(files, folder)) is not None:
        return found
    with suppress(CorruptDataError):  # a file of another program
        if (latest := read_latest(files, folder)) is not None:
            return _read_version(files, storage.join(folder, latest[0]))
    versions = sorted(filter(file_names.is_version, files.folders(folder)), key=version_numbers)
    described = [each for name in versions if (each := _read_version(files, storage.join(folder, name))) is not None]
    if len(described) > 1:
        names = [posixpath.basename(each.directory) for each in described]
        raise UserError(
            f"--input {folder} holds {len(names)} versions of a data set, {listed(names, _MAX_SHOWN)}, and no LATEST;"
            f" give the folder of one, such as --input {described[-1].directory}"
        )
    return described[0] if described else None


def _read_version(files: Any, folder: str) -> InputDataSet | None:
    from shardmill.transforms.stores import storage

    path = storage.join(folder, MANIFEST)
    with suppress(NotADirectoryError):
        if (data := read_if_exists(files, path)) is not None:
            with suppress(CorruptDataError):  # of another program
                manifest = Manifest.from_json(data, path)
                shards = [(split.name, shard.file) for split in manifest.splits for shard in split.shards]
                kept = {"feature_names": manifest.configuration.get("feature_names")}
                kept[LANGUAGES_KEY] = list(translated_features(manifest.configuration))
                given = {name: value for name, value in kept.items() if value}
                return InputDataSet(folder, tuple(shards), manifest.features, path, given)
        path = storage.join(folder, DATASET_INFO)
        described = read_if_exists(files, storage.join(folder, FEATURES))
        if described is not None and (data := read_if_exists(files, path)) is not None:
            return _read_tfds(files, folder, described, data)
    return None


def _read_tfds(files: Any, folder: str, described: bytes, data: bytes) -> InputDataSet | None:
    from shardmill.transforms.stores import storage

    def read_names(name: str) -> tuple[str, ...]:
        found = read_if_exists(files, storage.join(folder, name))
        return () if found is None else tuple(found.decode().splitlines())

    path = storage.join(folder, FEATURES)
    try:
        shards = _shards_of_tfds(json.loads(data))
        features = parse_features(described, read_names)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise UserError(
            f"--input {folder}: {DATASET_INFO} or {FEATURES} is not as TFDS writes it:"
            f" {describe_damage(error)}; --input"
            f" '{folder}/*record*' reads the files without them"
        ) from None
    return InputDataSet(folder, shards, features, path)


def _shards_of_tfds(info: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    shards = []
    for split in info["splits"]:
        number = len(split["shardLengths"])
        template = split.get("filepathTemplate") or file_names.DEFAULT_TEMPLATE
        template = template.replace("{DATASET}", info["name"]).replace(
            "{FILEFORMAT}", info.get("fileFormat") or "tfrecord"
        )
        for shard in range(number):
            values = {"SPLIT": split["name"], "SHARD_INDEX": f"{shard:05d}", "NUM_SHARDS": f"{number:05d}"}
            values["SHARD_X_OF_Y"] = f"{shard:05d}-of-{number:05d}"
            shards.append((split["name"], template.format(**values)))
    return tuple(shards)
