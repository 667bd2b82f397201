"""PTransforms that find the input: a folder or glob, or the rows of a manifest. Batches of references come out."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

import transforms.workers.coder  # noqa: F401, registers the coder of batches
from shardmill.metadata.rejects import Reject
from transforms.columns.nested import ColumnError
from transforms.columns.types import ColumnType, merge_types, value_type
from transforms.inputs.companions import COMPANIONS, Companion, paths_of, with_companions
from transforms.inputs.file_kind import IMAGES, FileKind
from transforms.inputs.file_list import (
    RESERVED,
    USUAL_NAMES,
    ManifestNames,
    Row,
    digest,
    is_textual,
    read_all,
)
from transforms.inputs.folders import FolderRoles
from transforms.inputs.found import FOUND
from transforms.inputs.image_names import image_names
from transforms.inputs.listing import Found, Listed, list_input
from transforms.inputs.manifests import ManifestFile, line_of
from transforms.inputs.masks import Masks
from transforms.inputs.spread import PARSED, deal_out, number_of_parts, rows_at_once, without_duplicates
from transforms.inputs.summary import InputSummary, summarize_batch, summarize_skipped
from transforms.rejects.part import RejectsPart, RejectsWriter, parts_of
from transforms.stores import storage
from transforms.stores.error_text import error_text
from transforms.stores.failures import raise_if_store_failed
from transforms.stores.identity import identity_of, identity_of_all
from transforms.stores.links import LinksInside
from transforms.workers.batches import BATCH_ROWS, batches, bounded, concatenate
from transforms.workers.merging import Merging

NO_SUCH_FILE = "no such file"
REJECTS, SUMMARIES = "rejects", "summaries"
_REMOTE_THREADS = 32  # a look-up on an object store is one request, tens of milliseconds


class Indexed(NamedTuple):
    """What indexing gives: FOUND batches, rejects, and the one InputSummary of all of it."""

    files: beam.PCollection[pa.RecordBatch]
    rejects: beam.PCollection[RejectsPart]
    summary: beam.PCollection[InputSummary]


@dataclass(eq=False)
class ListFiles(beam.PTransform):
    """Root -> Indexed: every file of a folder or a glob.

    Attributes:
      pattern: the folder or glob.
      kind: of the files that a folder is searched for.
      roles: what their folders mean, where --folders says it.
      identities: whether references say which files are still what they were.
      temporary: the job's temporary directory; None in a dry run.
      masks: the folder of the files' masks, if they have any.
    """

    pattern: str
    kind: FileKind = IMAGES
    roles: FolderRoles | None = None
    identities: bool = False
    temporary: str | None = None
    masks: str | None = None

    def expand(self, pbegin: beam.pvalue.PBegin) -> Any:  # Indexed; Beam reads annotations as element types
        """List on one worker; a listing is a stream of small things."""
        outputs = (
            pbegin
            | "Pattern" >> beam.Create([self.pattern])
            | "List"
            >> beam.FlatMap(_list, self.kind, self.roles, self.identities, self.temporary, self.masks)
            .with_output_types(pa.RecordBatch)
            .with_outputs(REJECTS, SUMMARIES, main="files")
        )
        return indexed(outputs["files"], outputs)


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
                    self.names.companions,
                )
            )
            .with_output_types(pa.RecordBatch)
            .with_outputs(REJECTS, SUMMARIES, main="files")
        )
        return indexed(measured["files"], measured, rows)


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


def _list(
    pattern: str,
    kind: FileKind,
    roles: FolderRoles | None,
    identities: bool,
    temporary: str | None,
    masks: str | None = None,
) -> Iterator[Any]:
    listed = list_input(pattern, kind)
    yield from index_listing(listed, roles, identities, temporary, Masks(masks) if masks is not None else None)


def index_listing(
    listed: Iterable[Listed],
    roles: FolderRoles | None = None,
    identities: bool = False,
    temporary: str | None = None,
    masks: Masks | None = None,
) -> Iterator[Any]:
    """FOUND batches of what was listed; rejects, which `temporary` is for, and summaries, tagged.

    References without `identities` are eight bytes a file smaller, which would not compress. With `masks`, each file
    has its own beside it, and one without is a reject.
    """
    summary = other = InputSummary()
    rejects = RejectsWriter(temporary)
    schema = FOUND if masks is None else FOUND.append(COMPANIONS)
    first: str | None = None

    def rows() -> Iterator[tuple[Any, ...]]:
        nonlocal other, first
        for item in listed:
            if isinstance(item, Found) and masks is not None:
                first = item.name if first is None else first
                mask = masks.of(item.name)
                if isinstance(mask, str):
                    rejects.add([Reject(item.name, None, "index", mask)])
                    other = other.merge(InputSummary(rejected=1))
                    continue
                path, size, of_mask = mask
                identity = identity_of(item.size_bytes, item.stamp, item.modified) if identities else None
                both = identity_of_all(identity, [(path, of_mask)]) if identities else None
                yield item.name, item.size_bytes + size, None, None, None, None, None, both, [path]
            elif isinstance(item, Found):
                identity = identity_of(item.size_bytes, item.stamp, item.modified) if identities else None
                yield item.name, item.size_bytes, None, None, None, None, None, identity
            elif isinstance(item, Reject):
                rejects.add([item])
                other = other.merge(InputSummary(rejected=1))
            else:
                other = other.merge(summarize_skipped(item.kind, item.name))

    for batch in batches(rows(), schema):
        yield from bounded(batch)
        summary = summary.merge(summarize_batch(batch, roles=roles))
    if masks is not None and first is not None:
        masks.check_used(first)
        other = other.merge(InputSummary(notices=frozenset(masks.notices())))
    yield from tagged(rejects.close())
    yield TaggedOutput(SUMMARIES, summary.merge(other))


def tagged(parts: Iterable[RejectsPart]) -> Iterator[TaggedOutput]:
    """Parts of rejects, tagged as such."""
    return (TaggedOutput(REJECTS, part) for part in parts)


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
    yield TaggedOutput(SUMMARIES, InputSummary(rejected=rejected))


class MeasureFn(beam.DoFn):
    """Sizes of the files that rows name, looked up by many threads where each is a request.

    Its parameters are those of `measure`, and the job's temporary directory; None in a dry run.
    """

    def __init__(
        self,
        root: str,
        textual: bool,
        allow_outside: bool,
        identities: bool,
        temporary: str | None = None,
        companions: Sequence[Companion] = (),
    ) -> None:
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
        measured, types, rejects = measure(
            batch, self._root, self._textual, self._allow_outside, self._pool.map, self._identities, self._companions
        )
        yield from tagged(parts_of(rejects, self._temporary))
        if len(measured):
            yield from bounded(measured)
        summary = summarize_batch(measured, types) if len(measured) else InputSummary()
        first = _missing(rejects, self._companions)
        named = image_names(measured, self._root) if len(measured) else {}
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
        companions: Sequence[Companion] = (),
    ) -> None:
        super().__init__(root, is_textual(manifests[0].path), allow_outside, identities, temporary, companions)
        self._paths = [manifest.path for manifest in manifests]

    def process(self, part: tuple[int, Iterable[pa.RecordBatch]]) -> Iterator[Any]:
        """The rows of one part, which all of one name are in."""
        rows, repeated = without_duplicates(concatenate(part[1]), self._paths)
        yield from tagged(parts_of(repeated, self._temporary))
        yield TaggedOutput(SUMMARIES, InputSummary(rejected=len(repeated)))
        for start in range(0, len(rows), BATCH_ROWS):
            yield from super().process(rows.slice(start, BATCH_ROWS))


def measure(
    batch: pa.RecordBatch,
    root: str,
    textual: bool,
    allow_outside: bool = False,
    map_: Callable[..., Iterable[tuple[int, int | None] | str]] = map,
    identities: bool = False,
    companions: Sequence[Companion] = (),
) -> tuple[pa.RecordBatch, dict[str, ColumnType], list[Reject]]:
    """A manifest's rows with the sizes of their files, the types of their columns, and a Reject for each that has none.

    Args:
      batch: FOUND, with sizes of 0.
      root: the folder of the manifest.
      textual: whether the values of its columns are text.
      allow_outside: whether symbolic links may lead out of that folder.
      map_: looks up sizes where any is a request; local ones take microseconds.
      identities: whether the files' identities are set too.
      companions: further files of each row; its size is that of all.
    """
    paths = [uri or storage.join(root, name) for name, uri in zip(*(batch[i].to_pylist() for i in (0, 2)), strict=True)]
    size_of = partial(_size, inside=None if allow_outside or not storage.is_local(root) else LinksInside(root))
    beside = paths_of(batch)
    every = [*paths, *(path for row in beside for path in row)]
    looked_at = iter(list(map(size_of, every) if all(map(storage.is_local, every)) else map_(size_of, every)))
    sizes = [next(looked_at) for _ in paths]
    if companions:
        sizes = [
            _together(found, companions, row, [next(looked_at) for _ in row], root)
            for found, row in zip(sizes, beside, strict=True)
        ]
    types: dict[str, ColumnType] = {}
    rejects: list[Reject] = []
    keep = []
    for row, found in enumerate(sizes):
        problem = found if isinstance(found, str) else None
        if problem is None:
            try:
                types = merge_types(types, _row_types(json.loads(batch["columns"][row].as_py()), textual))
            except ColumnError as error:
                problem = str(error)
        if problem is not None:
            line = line_of(batch["line"][row].as_py())
            rejects.append(Reject(batch["name"][row].as_py(), line, "index", problem))
        keep.append(problem is None)
    known = [(0, None) if isinstance(found, str) else found for found in sizes]
    batch = batch.set_column(1, FOUND.field("size"), pa.array([size for size, _ in known], pa.int64()))
    if identities:
        made = pa.array([identity for _, identity in known], pa.uint64())
        batch = batch.set_column(FOUND.get_field_index("identity"), FOUND.field("identity"), made)
    return batch.filter(pa.array(keep, pa.bool_())), types, rejects


def _together(
    found: tuple[int, int | None] | str,
    companions: Sequence[Companion],
    paths: Sequence[str],
    others: Sequence[tuple[int, int | None] | str],
    root: str,
) -> tuple[int, int | None] | str:
    """Size and identity of a row's file and its companions, or why one has none."""
    sides = []
    for item, path, other in zip(companions, paths, others, strict=True):
        if isinstance(other, str):
            there = f": {path.removeprefix(storage.join(root, ''))}" if other == NO_SUCH_FILE else ""
            return found if isinstance(found, str) else f"{item.what}: {other}{there}"
        sides.append((path, *other))
    if isinstance(found, str):
        return found
    size, identity = found
    together = identity_of_all(identity, [(path, of_other) for path, _, of_other in sides])
    return size + sum(more for _, more, _ in sides), together


def _missing(rejects: Sequence[Reject], companions: Sequence[Companion]) -> dict[str, tuple[int, str]]:
    """How many files are not there, and the first of them, of each kind that rows name."""
    names = {NO_SUCH_FILE: [reject.source for reject in rejects if reject.reason == NO_SUCH_FILE]}
    for item in companions:
        before = f"{item.what}: {NO_SUCH_FILE}: "
        names[item.what] = [
            reject.reason.removeprefix(before) for reject in rejects if reject.reason.startswith(before)
        ]
    return {kind: (len(found), min(found)) for kind, found in names.items() if found}


def _row_types(columns: dict[str, Any], textual: bool) -> dict[str, ColumnType]:
    types = {}
    for name, value in columns.items():
        try:
            column = value_type(value, textual)
        except ColumnError as error:
            raise ColumnError(f"column {name!r}: {error}") from None
        if column is not None:
            types[name] = column
    return types


def _size(path: str, inside: LinksInside | None) -> tuple[int, int | None] | str:
    """Size and identity of the file at `path`, or why it has none.

    Raises:
      OSError: a store failed; a runner tries again.
    """
    if inside is not None and storage.is_local(path) and not inside(path):
        return "a symbolic link leads outside the manifest's folder; give --allow_outside if that is meant"
    try:
        found = storage.stat_file(path)
        return found.size_bytes, identity_of(found.size_bytes, found.stamp, found.modified)
    except FileNotFoundError:
        return NO_SUCH_FILE
    except OSError as error:
        raise_if_store_failed(error, path)
        return f"cannot be read: {error_text(error)}"
