"""Whether a published version is whole, by names and sizes: one listing, and no shard is read."""

from shardmill.errors import CorruptDataError, UserError
from shardmill.metadata import naming
from shardmill.reading.dataset import open_dataset
from shardmill.transforms.stores import storage


def why_not_whole(directory: str) -> str:
    """What is wrong with the version in `directory`, in a sentence; empty where every file that its manifest names is
    there, shards in their sizes, and the manifest is the one that was sealed."""
    version = directory.rpartition("/")[2]
    try:
        manifest = open_dataset(directory, storage.StorageFiles()).manifest
    except (CorruptDataError, UserError) as error:
        return f"{version} is damaged: {error}"
    sizes = dict(storage.list_files(directory))
    for split in manifest.splits:
        for shard in split.shards:
            found = sizes.get(shard.file)
            if found != shard.size_bytes:
                what = "is missing" if found is None else f"has {found:,} bytes instead of {shard.size_bytes:,}"
                return f"{version} is damaged: {shard.file} {what}"
    missing = next((name for name in manifest.files if name not in sizes and name != naming.MANIFEST), None)
    return f"{version} is damaged: {missing} is missing" if missing is not None else ""
