"""Profiles of versions, made of arrays as the writer makes them of records; statistics as stats.json has them."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from shardmill.data.features import DType, Feature
from shardmill.metadata.manifest import Manifest, ShardEntry, SplitEntry
from shardmill.quality.duplicates import Duplicates
from shardmill.quality.profile import Profile
from shardmill.quality.stats_file import FeatureSummary, SplitSummary, StatsFile
from shardmill.transforms.statistics.tables import TableStats

Columns = Mapping[str, Any]
_NARROW = {pa.float64(): pa.float32(), pa.list_(pa.float64()): pa.list_(pa.float32())}


def profile(
    splits: Mapping[str, Columns],
    classes: Mapping[str, Sequence[str]] = {},
    version: str = "1.0.1",
    rejected: int = 0,
    shards: Mapping[str, Sequence[int]] = {},
    **configuration: Any,
) -> Profile:
    """The profile of a version.

    Args:
      splits: columns by name, of each split: arrays or lists; None where an example lacks the feature.
      classes: the names of the classes of columns that are ids.
      version: its version.
      rejected: how many records were.
      shards: the examples of each shard; else a split is one.
      **configuration: in the manifest.
    """
    tables = {split: _table(columns) for split, columns in splits.items()}
    summaries, entries = {}, []
    for split, table in tables.items():
        random = np.random.default_rng(len(table))
        stats = TableStats()
        for batch in table.to_batches(max_chunksize=4096):
            stats.add(batch, random.integers(0, 2**63, len(batch)).astype(np.uint64), list(classes))
        features = stats.summary(classes) if len(table) else {}
        summaries[split] = SplitSummary(len(table), 100 * len(table), 0, features=features)
        sizes = shards.get(split, [len(table)])
        entries.append(
            SplitEntry(split, tuple(ShardEntry(f"{split}-{i}", n, 100 * n, "0" * 8) for i, n in enumerate(sizes)))
        )
    records = sum(map(len, tables.values())) + rejected
    manifest = Manifest(
        "clicks",
        version,
        "",
        tuple(_feature(name, tables.values(), classes) for name in next(iter(tables.values())).schema.names),
        tuple(entries),
        input={"records": records},
        configuration=configuration,
        rejects={"records": rejected, "reasons": {}},
    )
    # As a reader has it
    return Profile(manifest, StatsFile.from_json(StatsFile(summaries, Duplicates("records")).to_json(), "stats.json"))


def _table(columns: Columns) -> pa.Table:
    arrays = {name: pa.array(values) for name, values in columns.items()}
    narrow = {name: array.cast(_NARROW.get(array.type, array.type)) for name, array in arrays.items()}
    return pa.table(narrow)


def _feature(name: str, tables: Any, classes: Mapping[str, Sequence[str]]) -> Feature:
    columns = [table[name] for table in tables if name in table.schema.names]
    kind = columns[0].type
    is_list = pa.types.is_list(kind)
    inner = kind.value_type if is_list else kind
    dtype: DType = "int64" if pa.types.is_integer(inner) else "float32" if pa.types.is_floating(inner) else "bytes"
    required = not any(column.null_count for column in columns)
    shape = (None,) if is_list else ()
    if name in classes:
        return Feature(name, dtype, "class_label", shape, required, tuple(classes[name]), role="label")
    return Feature(name, dtype, "text" if dtype == "bytes" else "tensor", shape, required)


def as_json(features: Mapping[str, FeatureSummary]) -> dict[str, Any]:
    """Features by name, as stats.json has them."""
    return {name: feature.to_json() for name, feature in features.items()}
