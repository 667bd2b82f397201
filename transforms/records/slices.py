"""PTransform that cuts runs at the shards' boundaries: what each shard reads of each run."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import AsSingleton

import transforms.workers.coder  # noqa: F401, registers the coder of batches
from transforms.records.run_file import Run, read_keys
from transforms.sharding.divisions import Divisions
from transforms.sharding.shards import ShardKey
from transforms.workers.batches import bounded, to_batch
from transforms.workers.gather import Gather
from transforms.workers.threads import ThreadedFlatMap

# Rows `start` to `stop` of a run: their keys in its index, their records from byte `offset`, `size` bytes.
SLICE = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("index_offset", pa.int64()),
        pa.field("start", pa.int64()),
        pa.field("stop", pa.int64()),
        pa.field("offset", pa.int64()),
        pa.field("size", pa.int64()),
    ]
)


@dataclass(eq=False)
class SliceRuns(beam.PTransform):
    """Runs -> (shard, SLICE batch) of every shard that has records in a run.

    Attributes:
      divisions: side input: how each split is cut.
      threads: in each worker, see ThreadedFlatMap.
    """

    divisions: beam.PCollection[Divisions]
    threads: int = 0

    def expand(self, pcoll: beam.PCollection[Run]) -> beam.PCollection[tuple[ShardKey, pa.RecordBatch]]:
        """Each run on its own."""
        return (
            pcoll
            | "Slice" >> beam.ParDo(ThreadedFlatMap(slice_run, self.threads), AsSingleton(self.divisions))
            | "GatherSlices" >> beam.ParDo(Gather(_batches)).with_output_types(tuple[ShardKey, pa.RecordBatch])
        )


def slice_run(run: Run, divisions: Divisions) -> list[tuple[ShardKey, tuple[Any, ...]]]:
    """A run's slices, as (shard, values of SLICE)."""
    slices: list[tuple[ShardKey, tuple[Any, ...]]] = []
    first = offset = 0
    for split, (keys, ties, sizes) in read_keys(run).items():
        ends = np.concatenate(([0], np.cumsum(sizes)))
        for shard, (start, stop) in enumerate(pairwise(divisions[split].cuts.bounds(keys, ties).tolist())):
            if start < stop:
                values = (offset + int(ends[start]), int(ends[stop] - ends[start]))
                slices.append(((split, shard), (run.path, run.index_offset, first + start, first + stop, *values)))
        first += len(keys)
        offset += int(ends[-1])
    return slices


def _batches(slices: list[tuple[ShardKey, tuple[Any, ...]]]) -> Iterator[tuple[ShardKey, pa.RecordBatch]]:
    """One batch of each shard's slices."""
    of_shard: dict[ShardKey, list[tuple[Any, ...]]] = {}
    for shard, values in slices:
        of_shard.setdefault(shard, []).append(values)
    for shard, rows in of_shard.items():
        for batch in bounded(to_batch([list(column) for column in zip(*rows, strict=True)], SLICE)):
            yield shard, batch
