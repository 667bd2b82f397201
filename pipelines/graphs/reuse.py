"""Where a job over whole files takes records from instead of reading files: found out before the job starts."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from shardmill.errors import CorruptDataError, UserError
from shardmill.metadata import naming
from shardmill.pipelines.config.files import FilesConfig
from shardmill.transforms.files.former import Former
from shardmill.transforms.options.reuse import LATEST, NO, RECORD
from shardmill.transforms.publishing.file_index import files_folder, read_index
from shardmill.transforms.publishing.keep_files import RememberOptions
from shardmill.transforms.publishing.latest import latest
from shardmill.transforms.stores import storage
from shardmill.versions.published import published_versions


@dataclass(frozen=True, slots=True)
class Reuse:
    """What a job remembers for the next one, and where it takes records from, if anywhere."""

    remember: RememberOptions
    former: Former | None = None


def find_reuse(config: FilesConfig, encoding: Mapping[str, str]) -> Reuse | None:
    """What --reuse comes to; None where nothing is taken or remembered.

    Args:
      config: of the job.
      encoding: what becomes of a file depends on it, beside the file.

    Raises:
      UserError: the version that --reuse names is not published.
    """
    if config.reuse == NO:
        return None
    root = os.path.abspath(config.root) if storage.is_local(config.root) else config.root
    codec = config.codec.name
    found = _former(config, encoding, root)
    if isinstance(found, str):
        return Reuse(RememberOptions(root, config.seed, encoding, codec, why=found))
    return Reuse(RememberOptions(root, config.seed, encoding, codec, former=found.version), found)


def _former(config: FilesConfig, encoding: Mapping[str, str], root: str) -> Former | str:
    """The version to take records from, or why there is none."""
    if config.reuse == RECORD:
        return f"--reuse {RECORD} takes nothing from an older version"
    parent = storage.join(config.output, config.name)
    version = latest(config.directory) if config.reuse == LATEST else config.reuse
    if not version:
        return "no older version is published"
    directory = storage.join(parent, version)
    if not naming.is_version(version) or not storage.exists(storage.join(directory, naming.SUCCESS)):
        if config.reuse == LATEST:
            return f"LATEST names {version}, which is not published"
        there = published_versions(storage.StorageFiles(), directory)
        raise UserError(f"--reuse {version}: {directory} is not published{there}")
    try:
        index = read_index(parent, version)
    except (CorruptDataError, OSError) as error:
        return f"what {version} remembers of its files cannot be read: {error}"
    if index is None:
        return f"{version} remembers nothing of its files: it was made with --reuse {NO}, or was cut short at its end"
    if index.codec:
        return f"the shards of {version} are {index.codec}, in which a record has no place of its own"
    if index.root != root:
        return f"the files of {version} lie in {index.root}, not in {root}"
    if other := _differing(index.encoding, encoding):
        return f"{version} was encoded with another {', another '.join(other)}"
    return Former(version, directory, files_folder(parent, version), index)


def _differing(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """The options and libraries in which two encodings differ, by name."""
    return sorted(name for name in {*one, *other} if one.get(name) != other.get(name))
