"""Which shards of a version are not what was written, as far as a listing of its folder and what a page shows of them
say: none is read for it."""

from collections.abc import Iterator, Mapping

from shardmill.checks.result import CheckResult
from shardmill.reading.dataset import Dataset
from shardmill.transforms.stores import storage

CHECK = "damaged_shards"
_NAMED = 3  # shards, in a sentence


def damaged_shards(dataset: Dataset, unreadable: Mapping[str, str]) -> list[CheckResult]:
    """A result that fails where shards are missing or of another size, or cannot be read; none where all are as the
    manifest has them: `shardmill verify` reads them whole.

    Args:
      dataset: the version.
      unreadable: the shards that cannot be read, by name, and why.

    Raises:
      OSError: the folder cannot be listed.
    """
    root = f"{dataset.directory.rstrip('/')}/"
    sizes = {found.path.removeprefix(root): found.size_bytes for found in storage.stat_files(dataset.directory)}
    shards = [shard for split in dataset.manifest.splits for shard in split.shards]
    told = [
        words
        for shard in shards
        for words in _wrong(shard.file, shard.size_bytes, sizes.get(shard.file), unreadable.get(shard.file))
    ]
    if not told:
        return []
    more = ", …" if len(told) > _NAMED else ""
    sentence = f"{len(told):,} of {len(shards):,} shards are not what was written: {', '.join(told[:_NAMED])}{more}"
    return [CheckResult(CHECK, "error", sentence, value=float(len(told)))]


def _wrong(name: str, expected: int, found: int | None, why: str | None) -> Iterator[str]:
    if found is None:
        yield f"{name} is missing"
    elif found != expected:
        yield f"{name} has {found:,} bytes, not {expected:,}"
    elif why is not None:
        yield f"{name} cannot be read ({why})"
