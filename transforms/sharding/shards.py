"""Shards by split and number, and how many there are."""

from collections.abc import Mapping

from shardmill.transforms.sharding.balance import ShardCount

ShardKey = tuple[str, int]  # (split, shard index)


def shard_count(counts: Mapping[str, ShardCount], split: str, examples: int, size_bytes: int) -> int:
    """Shards of a split by its name, `counts[""]` standing for the splits that `counts` does not name."""
    return counts.get(split, counts[""]).resolve(examples, size_bytes)


def about_how_many(counts: Mapping[str, ShardCount], size_bytes: int) -> int:
    """Shards of all splits, where `size_bytes` of input are all that is known; the splits that `counts` does not name
    are taken for one."""
    return sum(count.resolve(size_bytes, size_bytes) for count in counts.values())
