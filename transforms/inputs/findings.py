"""The rejects and the summary of steps that find the input."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

from shardmill.metadata.manifest import Reject
from shardmill.transforms.inputs.listing import Skipped
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.workers.elements import MergeFn
from shardmill.transforms.workers.rejects import RejectsPart, RejectsWriter

REJECTS, SUMMARIES = "rejects", "summaries"


class IndexedFiles(NamedTuple):
    """The input's files: batches of found files, rejects, and one summary of all."""

    files: beam.PCollection[pa.RecordBatch]
    rejects: beam.PCollection[RejectsPart]
    summary: beam.PCollection[InputSummary]


class FoundInput:
    """Collects the rejects and the summary of one step that finds input files."""

    def __init__(self, temporary: str | None, rejects: Iterable[Reject] = (), **counts: Any) -> None:
        """Begin with known rejects, and with fields of the summary."""
        self.summary = InputSummary(**counts)
        self._writer = RejectsWriter(temporary)
        self.reject(*rejects)

    def reject(self, *rejects: Reject) -> None:
        """Add rejects, and count their records."""
        self._writer.add(rejects)
        reasons = Counter(item.reason for item in rejects)
        self.summary.merge(InputSummary(rejected=sum(item.counted_records for item in rejects), reasons=reasons))

    def leave_out(self, item: Skipped | Reject) -> None:
        """Add a reject, or count something that is not part of the input."""
        if isinstance(item, Reject):
            self.reject(item)
        else:
            self.summary.merge(InputSummary(skipped={item.kind: (1, item.name)}))

    def outputs(self) -> Iterator[TaggedOutput]:
        """Yield the rejects and the summary, tagged."""
        yield from (TaggedOutput(REJECTS, part) for part in self._writer.close())
        yield TaggedOutput(SUMMARIES, self.summary)


def combine_outputs(*steps: Any) -> tuple[Any, Any]:
    """Return the rejects of all steps, and one summary of all."""
    rejects, summaries = ([step[tag] for step in steps] for tag in (REJECTS, SUMMARIES))
    if len(steps) > 1:
        rejects, summaries = [rejects | "AllRejects" >> beam.Flatten()], [summaries | "AllSummaries" >> beam.Flatten()]
    merging = beam.CombineGlobally(MergeFn(InputSummary))
    return rejects[0], summaries[0] | "Summarize" >> merging.without_defaults()  # a listing has at least one


def with_findings(transform: Any, main: str, element_type: Any = pa.RecordBatch) -> Any:
    """Return a ParDo with typed main outputs, and with rejects and summaries as further outputs."""
    return transform.with_output_types(element_type).with_outputs(REJECTS, SUMMARIES, main=main)
