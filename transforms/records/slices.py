"""PTransform that cuts runs at the shards' boundaries: what each shard reads of each run."""

from collections.abc import Iterator
from dataclasses import dataclass

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsSingleton

import shardmill.transforms.workers.coder  # noqa: F401, registers the coder of batches
from shardmill.transforms.records.run_file import Run
from shardmill.transforms.records.slice import SLICE, Slice, slice_run
from shardmill.transforms.sharding.divisions import Divisions
from shardmill.transforms.sharding.shards import ShardKey
from shardmill.transforms.workers.batches import bounded, to_batch
from shardmill.transforms.workers.gather import Gather
from shardmill.transforms.workers.threads import ThreadedFlatMap


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


def _batches(slices: list[tuple[ShardKey, Slice]]) -> Iterator[tuple[ShardKey, pa.RecordBatch]]:
    """One batch of each shard's slices."""
    of_shard: dict[ShardKey, list[Slice]] = {}
    for shard, part in slices:
        of_shard.setdefault(shard, []).append(part)
    for shard, rows in of_shard.items():
        for batch in bounded(to_batch([list(column) for column in zip(*rows, strict=True)], SLICE)):
            yield shard, batch
