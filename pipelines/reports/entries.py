"""Features, splits and their statistics as JSON has them."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from shardmill.metadata.manifest import Manifest, SplitEntry
from shardmill.statistics.stats_file import SplitSummary, StatsFile


def feature_entries(manifest: Manifest) -> list[dict[str, Any]]:
    """The features as JSON has them: all that manifest.json says of each."""
    return [asdict(feature) for feature in manifest.features]


def split_entry(split: SplitEntry, stats: StatsFile | None = None) -> dict[str, Any]:
    """A split as JSON has it: what it holds, and its shards' sizes in examples; its tokens, where there are some."""
    summary = None if stats is None else stats.splits.get(split.name)
    counts = [shard.examples for shard in split.shards] or [0]
    return {
        "name": split.name,
        "examples": split.examples,
        **({} if summary is None or summary.tokens is None else {"tokens": summary.tokens}),
        "size_bytes": split.size_bytes,
        "rejected": split.rejected,
        "shards": len(split.shards),
        "smallest": min(counts),
        "largest": max(counts),
    }


def near_duplicates_entry(stats: StatsFile | None) -> Mapping[str, Any] | None:
    """Which pictures look alike, as it stands in stats.json; None where nobody looked."""
    return None if stats is None or stats.near_duplicates is None else stats.near_duplicates.to_json()


def statistics_entry(split: SplitSummary) -> Mapping[str, Any]:
    """The features of a split by name, as they stand in stats.json."""
    return {name: summary.to_json() for name, summary in split.features.items()}
