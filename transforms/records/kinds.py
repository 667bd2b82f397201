"""PTransform that counts the kinds of existing records' features, ahead of all else, so that odd records can be
rejected."""

from dataclasses import dataclass
from functools import partial

import apache_beam as beam
import pyarrow as pa

from shardmill.transforms.examples.decode import decode_parts
from shardmill.transforms.examples.kinds import Kinds, kinds_of, merge_kinds
from shardmill.transforms.formats.base import RecordFormat
from shardmill.transforms.inputs.blocks import Task
from shardmill.transforms.workers.merging import Merging
from shardmill.transforms.workers.threads import ThreadedFlatMap


@dataclass(eq=False)
class CountKinds(beam.PTransform):
    """Tasks -> the one Kinds of all records, if there are any tasks.

    Attributes:
      format: of the records, which has a column `record`.
      threads: in each worker, see ThreadedFlatMap.
    """

    format: RecordFormat
    threads: int = 0

    def expand(self, pcoll: beam.PCollection[Task]) -> beam.PCollection[Kinds]:
        """Each task on one worker."""
        counted = pcoll | "Count" >> beam.ParDo(ThreadedFlatMap(partial(_count, self.format), self.threads))
        return counted | "Merge" >> beam.CombineGlobally(Merging(dict, merge_kinds)).without_defaults()


def _count(format_: RecordFormat, task: Task) -> list[Kinds]:
    kinds: Kinds = {}
    for block in task:
        for rows in format_.read(block, {}):
            files = pa.repeat(block.file.name, len(rows.lines))
            kinds = merge_kinds(kinds, kinds_of(decode_parts(rows.batch["record"]), files, rows.lines))
    return [kinds]
