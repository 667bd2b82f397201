"""PTransform that finds the type of every column from all rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce

import apache_beam as beam

from shardmill.transforms.columns.inferred import Inferred, ValuesOf
from shardmill.transforms.formats.base import RecordFormat
from shardmill.transforms.inputs.blocks import Task
from shardmill.transforms.workers.merging import Merging
from shardmill.transforms.workers.threads import ThreadedFlatMap


@dataclass(eq=False)
class InferColumns(beam.PTransform):
    """Tasks -> the one Inferred of all rows, if there are any tasks.

    Attributes:
      format: of the records.
      columns: to look at; None stands for all.
      values_of: the columns whose distinct values are collected.
      threads: in each worker, see ThreadedFlatMap.
    """

    format: RecordFormat
    columns: Sequence[str] | None = None
    values_of: Sequence[ValuesOf] = ()
    threads: int = 0

    def expand(self, pcoll: beam.PCollection[Task]) -> beam.PCollection[Inferred]:
        """Look at each block on its own, then merge."""
        infer = partial(infer_task, self.format, self.columns, self.values_of)
        inferred = pcoll | "InferTask" >> beam.ParDo(ThreadedFlatMap(infer, self.threads))
        return inferred | "Merge" >> beam.CombineGlobally(Merging(Inferred, Inferred.merge)).without_defaults()


def infer_task(
    format_: RecordFormat, columns: Sequence[str] | None, values_of: Sequence[ValuesOf], task: Task
) -> list[Inferred]:
    """What the blocks of one task say."""
    parts = (part for block in task for part in format_.infer(block, columns, values_of))
    return [reduce(Inferred.merge, parts, Inferred())]
