"""The PTransform that finds the files that manifests name. Batches of references come out."""

import json
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

from shardmill.transforms.inputs.annotations.huggingface import ObjectsColumn, with_objects
from shardmill.transforms.inputs.companions import Companion, with_companions
from shardmill.transforms.inputs.image_names import image_names
from shardmill.transforms.inputs.indexed import REJECTS, SUMMARIES, indexed, tagged
from shardmill.transforms.inputs.manifests.formats import is_textual
from shardmill.transforms.inputs.manifests.given import ManifestFile
from shardmill.transforms.inputs.manifests.names import RESERVED, USUAL_NAMES, ManifestNames
from shardmill.transforms.inputs.manifests.reading import read_all
from shardmill.transforms.inputs.manifests.rows import Row, digest
from shardmill.transforms.inputs.measure import measure, missing_of
from shardmill.transforms.inputs.spread import PARSED, deal_out, number_of_parts, rows_at_once, without_duplicates
from shardmill.transforms.inputs.summary import InputSummary, summarize_batch
from shardmill.transforms.rejects.part import RejectsWriter, parts_of
from shardmill.transforms.stores import storage
from shardmill.transforms.workers.batches import BATCH_ROWS, batches, bounded, concatenate

_REMOTE_THREADS = 32  # a look-up on an object store is one request, tens of milliseconds


@dataclass(eq=False)
class ReadManifest(beam.PTransform):
    """Root -> Indexed: every row of manifests, CSV, JSON lines or Parquet.

    Attributes:
      manifests: them; relative names are taken from the folder of each.
      root: the folder that all names are then relative to.
      allow_outside: whether files may lie elsewhere.
      reserved: names that no further column has.
      names: how files and labels are named.
      identities: whether references say which files are still what they were.
      temporary: the job's temporary directory; None in a dry run.
    """

    manifests: Sequence[ManifestFile]
    root: str
    allow_outside: bool
    reserved: tuple[str, ...] = RESERVED
    names: ManifestNames = USUAL_NAMES
    identities: bool = False
    temporary: str | None = None

    def expand(self, pbegin: beam.pvalue.PBegin) -> Any:  # Indexed; Beam reads annotations as element types
        """Parse on one worker; on all, leave out the second of equal rows and look up each file's size."""
        rows = (
            pbegin
            | "Path" >> beam.Create([tuple(self.manifests)])
            | "Parse"
            >> beam.FlatMap(_parse, self.allow_outside, self.reserved, self.names, self.temporary)
            .with_output_types(tuple[int, pa.RecordBatch])
            .with_outputs(REJECTS, SUMMARIES, main="rows")
        )
        measured = (
            rows["rows"]
            | "ByName" >> beam.GroupByKey()
            | "Measure"
            >> beam.ParDo(
                _MeasureRowsFn(
                    self.manifests,
                    self.root,
                    self.allow_outside,
                    self.identities,
                    self.temporary,
                    self.names,
                )
            )
            .with_output_types(pa.RecordBatch)
            .with_outputs(REJECTS, SUMMARIES, main="files")
        )
        return indexed(measured["files"], measured, rows)


def _parse(
    manifests: Sequence[ManifestFile],
    allow_outside: bool,
    reserved: tuple[str, ...],
    names: ManifestNames,
    temporary: str | None,
) -> Iterator[Any]:
    rejects = RejectsWriter(temporary)
    rejected = 0
    missing = ("", None) if is_textual(manifests[0].path) else (None,)

    def rows() -> Iterator[tuple[Any, ...]]:
        nonlocal rejected
        for row in read_all(manifests, allow_outside, reserved, names):
            if isinstance(row, Row):
                columns = {name: value for name, value in row.columns.items() if value not in missing}
                found = (row.name, 0, row.uri, row.label, row.split, row.line, json.dumps(columns), None, digest(row))
                yield (*found, list(row.companions)) if names.companions else found
            else:
                rejects.add([row])
                rejected += 1

    parts = 1
    with suppress(OSError):  # which reading it tells
        parts = number_of_parts(sum(storage.size(manifest.path) for manifest in manifests))
    for batch in batches(rows(), with_companions(PARSED, names.companions), rows_at_once(parts)):
        yield from deal_out(batch, parts)
    yield from tagged(rejects.close())
    told = names.objects
    classes = {told.names: (1, manifests[0].path)} if told is not None and told.names else {}
    yield TaggedOutput(SUMMARIES, InputSummary(rejected=rejected, categories=classes))


class MeasureFn(beam.DoFn):
    """Sizes of the files that rows name, looked up by many threads where each is a request.

    Its parameters are those of `measure`, the job's temporary directory, None in a dry run, whether to look for columns
    that name images, and the column that is of objects, if one is.
    """

    def __init__(
        self,
        root: str,
        textual: bool,
        allow_outside: bool,
        identities: bool,
        temporary: str | None = None,
        companions: Sequence[Companion] = (),
        tells_names: bool = True,
        objects: ObjectsColumn | None = None,
    ) -> None:
        self._tells_names, self._objects = tells_names, objects
        self._root, self._textual, self._companions = root, textual, companions
        self._allow_outside, self._identities = allow_outside, identities
        self._temporary = temporary

    def setup(self) -> None:
        """Make the threads."""
        self._pool = ThreadPoolExecutor(_REMOTE_THREADS, "shardmill-size")

    def teardown(self) -> None:
        """End the threads."""
        self._pool.shutdown(cancel_futures=True)

    def process(self, batch: Any) -> Iterator[Any]:
        """The batch with sizes; rejects and a summary, tagged."""
        if self._objects is not None:
            batch, of_objects, left_out = with_objects(batch, self._objects)
            yield from tagged(parts_of(of_objects, self._temporary))
            yield TaggedOutput(SUMMARIES, InputSummary(rejected=len(of_objects), left_out=left_out))
        measured, types, rejects = measure(
            batch, self._root, self._textual, self._allow_outside, self._pool.map, self._identities, self._companions
        )
        yield from tagged(parts_of(rejects, self._temporary))
        if len(measured):
            yield from bounded(measured)
        summary = summarize_batch(measured, types) if len(measured) else InputSummary()
        first = missing_of(rejects, self._companions)
        named = image_names(measured, self._root) if len(measured) and self._tells_names else {}
        others = InputSummary(rejected=len(rejects), missing=first, image_names=named)
        yield TaggedOutput(SUMMARIES, summary.merge(others))


class _MeasureRowsFn(MeasureFn):
    """The same of a manifest's rows, of which those that are there twice are left out."""

    def __init__(
        self,
        manifests: Sequence[ManifestFile],
        root: str,
        allow_outside: bool,
        identities: bool,
        temporary: str | None,
        names: ManifestNames,
    ) -> None:
        textual = is_textual(manifests[0].path)
        super().__init__(root, textual, allow_outside, identities, temporary, names.companions, objects=names.objects)
        self._paths = [manifest.path for manifest in manifests]

    def process(self, part: tuple[int, Iterable[pa.RecordBatch]]) -> Iterator[Any]:
        """The rows of one part, which all of one name are in."""
        rows, repeated = without_duplicates(concatenate(part[1]), self._paths)
        yield from tagged(parts_of(repeated, self._temporary))
        yield TaggedOutput(SUMMARIES, InputSummary(rejected=len(repeated)))
        for start in range(0, len(rows), BATCH_ROWS):
            yield from super().process(rows.slice(start, BATCH_ROWS))
