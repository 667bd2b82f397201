"""What travels between stages: record batches of references to files, a few dozen bytes a file, never pixels.

A batch is the unit because a runner's cost is per element; its coder is a compressed Arrow IPC stream because a local
runner keeps what lies between stages in memory, several times over.
"""

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc

from shardmill.transforms.inputs.annotations.objects import PLANNED_OBJECTS
from shardmill.transforms.inputs.companions import COMPANIONS
from shardmill.transforms.workers.batches import concatenate

# A file as planned: label by id, `size` of the record to come, `columns` as serialized entries of the Example.
PLANNED = pa.schema(
    [
        pa.field("name", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("uri", pa.string()),
        pa.field("label", pa.int64()),
        pa.field("line", pa.int64()),
        pa.field("columns", pa.binary()),
        pa.field(
            "split", pa.dictionary(pa.int32(), pa.string())
        ),  # as strings, their offsets alone would be a sixth of a batch
        pa.field("key", pa.uint64()),
        pa.field("tie", pa.uint64()),
        pa.field("stratum", pa.string()),
        pa.field("split_key", pa.uint64()),
        pa.field("identity", pa.uint64()),
    ]
)

# Beside them, where files may have any number of labels: their ids; `label` is null then.
LABELS = pa.field("labels", pa.list_(pa.int64()))

# What a shard's writer needs of them.
_NEEDED = ("name", "size", "uri", "label", "line", "columns", "key", "tie", "identity")
SHARD = pa.schema([PLANNED.field(name) for name in _NEEDED])


def shard_columns(batch: pa.RecordBatch) -> list[str]:
    """The columns of a planned batch that a shard's writer needs: those of annotated images have their objects
    beside, files of several labels these, and those of several files the others."""
    beside = (*PLANNED_OBJECTS.names, LABELS.name, COMPANIONS.name)
    return [*SHARD.names, *(name for name in beside if name in batch.schema.names)]


def sorted_by_key(parts: Iterable[pa.RecordBatch]) -> pa.RecordBatch:
    """All rows of `parts` in the order of (key, tie): what makes the result independent of how they arrived.

    Names decide where even these are equal: among 10^9 files there may well be two with one hash.
    """
    batch = concatenate(parts)
    return batch.take(pc.sort_indices(batch, sort_keys=[(name, "ascending") for name in ("key", "tie", "name")]))
