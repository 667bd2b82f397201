"""Read the rows of queries on all workers."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import apache_beam as beam

from shardmill.transforms.rows.sql import QueryPlan, Range, read_range
from shardmill.transforms.workers.elements import Spread


@dataclass(eq=False)
class ReadSql(beam.PTransform):
    """Read each range of a planned SQL query on any worker: root -> Arrow batches or dictionaries."""

    plan: QueryPlan

    def expand(self, pbegin: beam.pvalue.PBegin) -> beam.PCollection[Any]:
        ranges = pbegin | "Ranges" >> beam.Create(list(enumerate(self.plan.ranges)))
        spread = ranges | "SpreadRanges" >> Spread(lambda numbered: str(numbered[0]))
        return spread | "ReadRange" >> beam.FlatMap(_read_numbered, self.plan)


def _read_numbered(numbered: tuple[int, Range], plan: QueryPlan) -> Iterator[Any]:
    yield from read_range(plan, numbered[1])
