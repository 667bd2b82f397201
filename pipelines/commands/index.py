"""`shardmill index`: write the positions of records next to shards that exist."""

import os
import posixpath
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from shardmill.data.shard_index import ALL, INDEX_FOLDER
from shardmill.errors import UserError
from shardmill.metadata import file_names
from shardmill.metadata.manifest import Reject
from shardmill.pipelines.commands.frame import STORE_OPTIONS, Command, Result, add_directory, reach_paths, run_here
from shardmill.pipelines.config.data_sets import find_data_set
from shardmill.reading.dataset import open_dataset
from shardmill.text import plural
from shardmill.transforms.inputs.folders import FileKind, split_of_file
from shardmill.transforms.inputs.listing import FoundFile, input_root, is_glob, list_input
from shardmill.transforms.publishing.shard_indexes import index_folder, index_version
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import file_error

_TFRECORDS = FileKind("TFRecord files", r"(?:tfrecords?|tfr)(?:-\d+(?:-of-\d+)?)?(?:\.gz)?", has_signature=True)


COMMANDS = (
    Command(
        name="index",
        description="Write the position of each record to index/, next to the shards: for random access, and for NVIDIA"
        " DALI. Every record is read and checked.",
        epilog=f"{STORE_OPTIONS} Exit status: 0 done; 1 a shard is damaged, or the index could not be written; 2 a"
        " mistake in a flag, or no TFRecord files; 4 a job builds this version.",
        examples=("datasets/flowers", "'other/train-*.tfrecord'"),
        add_arguments=partial(
            add_directory,
            help_text="Folder of a version or of a data set, or a folder or a glob of TFRecord files. Local, gs://,"
            " s3:// or az://",
        ),
        run=run_here(lambda args: index_shards(args.directory)),
    ),
)


@dataclass(frozen=True, slots=True, repr=False)
class Indexed(Result):
    """The result of `index`.

    Attributes:
        directories: folders that the folder `index` was written to.
        shards: number of shards.
        records: number of their records.
    """

    directories: tuple[str, ...]
    shards: int
    records: int

    @property
    def text(self) -> str:
        amount = f"{plural(self.records, 'record')} in {plural(self.shards, 'shard')}"
        return f"{', '.join(storage.join(folder, INDEX_FOLDER) for folder in self.directories)}: {amount}"


def index(directory: str | os.PathLike[str], *, beam_options: Sequence[str] = ()) -> Indexed:
    """Write the position of each record to `index/`, next to the shards, as `shardmill index` does.

    Every record is read and checked. The manifest of a version is not changed.

    Args:
        directory: folder of a version or of its data set; or a folder or a glob of TFRecord files.
        beam_options: options of Apache Beam for access to an object store.

    Returns:
        The folders with an index now, and the number of their shards and records.

    Raises:
        UserError: there are no TFRecord files, or they are compressed.
        CorruptDataError: a shard is damaged.
        JobError: a job builds the version, or the index cannot be written.
    """
    with reach_paths("index", beam_options, path := os.fspath(directory)):
        return index_shards(path)


def index_shards(path: str) -> Indexed:
    """Write the index of the shards at `path`, see `shardmill.index`."""
    path = path.rstrip("/") or "/"
    try:
        found = find_data_set(path)
        if found is not None and posixpath.basename(found.metadata) == file_names.MANIFEST:
            dataset = open_dataset(found.directory, storage.StorageFiles())
            return Indexed((found.directory,), len(found.shards), index_version(dataset))
        folders = _list_files(path) if found is None else {found.directory: _by_split(found.shards)}
        records = sum(index_folder(folder, splits) for folder, splits in folders.items())
    except OSError as error:
        raise file_error(f"{path} cannot be indexed", error) from None
    return Indexed(tuple(folders), sum(len(names) for splits in folders.values() for names in splits.values()), records)


def _by_split(shards: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    splits: dict[str, list[str]] = {}
    for split, name in shards:
        splits.setdefault(split, []).append(name)
    return splits


def _list_files(path: str) -> dict[str, dict[str, list[str]]]:
    """Return the TFRecord files at `path` by folder and split; the split is `all` if the names do not give it."""
    if storage.is_local(path) and not is_glob(path) and not os.path.exists(path):
        raise UserError(f"{path}: no such file or folder")
    root = input_root(path)
    folders: dict[str, list[str]] = {}
    for item in list_input(path, _TFRECORDS):
        if isinstance(item, Reject):
            raise UserError(f"{storage.join(root, item.source)} {item.reason}")
        if isinstance(item, FoundFile):
            folder, _, name = storage.join(root, item.name).rpartition("/")
            folders.setdefault(folder or ("/" if root.startswith("/") else "."), []).append(name)
    if not folders:
        raise UserError(f"{path}: no TFRecord files and no data set there")
    return {folder: _by_split(_find_splits(sorted(names))) for folder, names in sorted(folders.items())}


def _find_splits(names: Sequence[str]) -> list[tuple[str, str]]:
    splits = [split_of_file(name) for name in names]
    return [(ALL if None in splits else str(split), name) for split, name in zip(splits, names, strict=True)]
