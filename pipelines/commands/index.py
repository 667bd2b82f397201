"""`shardmill index`: write the positions of records next to shards that exist."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from shardmill.addons.registry import find_or_open
from shardmill.data.shard_index import INDEX_FOLDER
from shardmill.pipelines.commands import frame
from shardmill.reading.dataset import Dataset, open_dataset
from shardmill.text import plural
from shardmill.transforms.publishing.shard_indexes import index_folder, index_version
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import file_error

COMMANDS = (
    frame.Command(
        name="index",
        description="Write the position of each record to index/, next to the shards: for random access, and for NVIDIA"
        " DALI. Every record is read and checked.",
        epilog=f"{frame.STORE_OPTIONS} Exit status: 0 done; 1 a shard is damaged, or the index could not be written; 2"
        " a mistake in a flag, or no TFRecord files; 4 a job builds this version.",
        examples=("datasets/flowers", "'other/train-*.tfrecord'"),
        add_arguments=partial(
            frame.add_directory,
            help_text="Folder of a version or of a data set, or a folder or a glob of TFRecord files. Local, gs://,"
            " s3:// or az://",
        ),
        run=frame.run_here(lambda args: index(args.directory, beam_options=frame.REACHED)),
    ),
)


@dataclass(frozen=True, slots=True, repr=False)
class Indexed(frame.Result):
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
    path = os.fspath(directory).rstrip("/") or "/"
    with frame.reach_paths("index", beam_options, path):
        try:
            found = find_or_open(path, lambda path: open_dataset(path, storage.StorageFiles()))
            if isinstance(found, Dataset):
                shards = sum(len(split.shards) for split in found.manifest.splits)
                return Indexed((found.directory,), shards, index_version(found))
            folders = found.by_folder()
            records = sum(index_folder(folder, splits) for folder, splits in folders.items())
        except OSError as error:
            raise file_error(f"{path} cannot be indexed", error) from None
    return Indexed(tuple(folders), sum(len(names) for splits in folders.values() for names in splits.values()), records)
