"""What indexing gives, whatever is indexed."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

import shardmill.transforms.workers.coder  # noqa: F401, registers the coder of batches
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.rejects.part import RejectsPart
from shardmill.transforms.workers.merging import Merging

REJECTS, SUMMARIES = "rejects", "summaries"


class Indexed(NamedTuple):
    """What indexing gives: FOUND batches, rejects, and the one InputSummary of all of it."""

    files: beam.PCollection[pa.RecordBatch]
    rejects: beam.PCollection[RejectsPart]
    summary: beam.PCollection[InputSummary]


def indexed(files: beam.PCollection[pa.RecordBatch], outputs: Any, *earlier: Any) -> Indexed:
    """What steps found, with the rejects and summaries of all of them."""
    rejects = outputs[REJECTS]
    summaries = outputs[SUMMARIES]
    if earlier:
        rejects = (rejects, *(step[REJECTS] for step in earlier)) | "AllRejects" >> beam.Flatten()
        summaries = (summaries, *(step[SUMMARIES] for step in earlier)) | "AllSummaries" >> beam.Flatten()
    merging = beam.CombineGlobally(Merging(InputSummary, InputSummary.merge))
    summary = summaries | "Summarize" >> merging.without_defaults()  # listing says one at least
    return Indexed(files, rejects, summary)


def tagged(parts: Iterable[RejectsPart]) -> Iterator[TaggedOutput]:
    """Parts of rejects, tagged as such."""
    return (TaggedOutput(REJECTS, part) for part in parts)
