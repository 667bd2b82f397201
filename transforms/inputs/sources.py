"""PTransforms that find the files of an input: by listing, from manifests or from annotations."""

import posixpath
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import repeat
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsSingleton

from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.arrow import BATCH_ROWS, concatenate, convert_batch, split_large_batch, to_batches
from shardmill.transforms.inputs import annotations, found_files, manifest_files, manifest_table
from shardmill.transforms.inputs.findings import FoundInput, IndexedFiles, combine_outputs, with_findings
from shardmill.transforms.inputs.folders import IMAGES, FileKind, FolderRoles, NameRules
from shardmill.transforms.inputs.listing import FoundFiles, ListingItem, list_input, list_singly
from shardmill.transforms.inputs.summary import MOST_SAMPLED, InputSummary, summarize_batch
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import FileStat, changed_error, error_text
from shardmill.transforms.stores.storage import raise_if_store_failed
from shardmill.transforms.stores.streams import combined_identity, file_identity
from shardmill.transforms.workers.elements import Spread

NO_COMPANIONS = found_files.AddedCompanions()
_SAMPLED_OF_FOLDER = 1_000  # names that are compared with each other, at most
_THREADS = 32  # of look-ups and reads, each of which is a request to an object store of tens of milliseconds


def find_companion(
    found: FoundInput, finder: found_files.CompanionFinder, name: str, position: int | None
) -> found_files.FoundCompanion | None:
    """Return an image's companion; reject the image and return None if it has none."""
    companion = finder.find(name, position)
    if isinstance(companion, str):
        found.reject(Reject(name, position, "index", companion))
        return None
    return companion


@dataclass(eq=False)
class ReadManifest(beam.PTransform):
    """Find the files that manifests name, in CSV, JSON lines or Parquet: root -> IndexedFiles."""

    manifests: Sequence[manifest_files.ManifestFile]  # relative names are taken from the folder of each
    root: str  # common folder that all names become relative to
    allow_outside: bool  # True if files may be elsewhere
    reserved: tuple[str, ...] = manifest_table.RESERVED  # names that no further column may have
    # column and file names of the manifests
    names: manifest_table.ManifestNames = field(default_factory=manifest_table.ManifestNames)
    identities: bool = False  # True to record file identities, for the detection of changes
    is_first_kept: bool = False  # True to reject all rows of a file but the first
    temporary: str | None = None  # temporary directory of the job; None in a dry run

    def expand(self, pbegin: beam.pvalue.PBegin) -> Any:  # Indexed; Beam reads annotations as element types
        """Read twice on one worker, for types and for rows; drop duplicate rows and look up file sizes on all."""
        revisions = [_find_revision(manifest.path) for manifest in self.manifests]
        files = pbegin | "Manifests" >> beam.Create([tuple(self.manifests)])
        infer = beam.Map(_infer_columns, revisions, self.reserved, self.names)
        columns = AsSingleton(files | "Columns" >> infer.with_output_types(manifest_table.ManifestColumns))
        reader = manifest_table.ManifestReader(
            self.manifests, _NO_COLUMNS, self.names, self.allow_outside, self.reserved
        )
        read = beam.FlatMap(_read_rows, columns, revisions, reader, self.temporary)
        how = (self.root, self.allow_outside, self.identities, self.temporary, self.names.companions)
        paths, objects = [manifest.path for manifest in self.manifests], self.names.objects_column
        measure = _MeasureRowsFn(*how, objects=objects, paths=paths, is_first_kept=self.is_first_kept)
        rows = files | "Read" >> with_findings(read, "rows", tuple[int, pa.RecordBatch])
        by_name = rows["rows"] | "ByName" >> beam.GroupByKey()
        measured = by_name | "Measure" >> with_findings(beam.ParDo(measure, columns), "files")
        return IndexedFiles(measured["files"], *combine_outputs(measured, rows))


def _find_revision(path: str) -> str:
    try:
        return storage.read_revision(path)
    except OSError as error:
        raise_if_store_failed(error, path)
        return ""


def _infer_columns(
    manifests: Sequence[manifest_files.ManifestFile],
    revisions: Sequence[str],
    reserved: tuple[str, ...],
    names: manifest_table.ManifestNames,
) -> manifest_table.ManifestColumns:
    _check_manifests(manifests, revisions)
    return manifest_table.infer_columns(manifests, reserved, names)


def _read_rows(
    manifests: Sequence[manifest_files.ManifestFile],
    columns: manifest_table.ManifestColumns,
    revisions: Sequence[str],
    reader: manifest_table.ManifestReader,
    temporary: str | None,
) -> Iterator[Any]:
    """Yield the rows of manifests in batches, each with its part number; rejects and a summary, tagged.

    `reader` is that of `manifests` before their `columns` were known. Raise a JobError if a manifest no longer has its
    one of `revisions`, before or after it is read.
    """
    _check_manifests(manifests, revisions)
    names = reader.names
    found, findings = FoundInput(temporary), manifest_table.ManifestFindings(names)
    parts = manifest_files.part_count(sum(storage.size(manifest.path) for manifest in manifests))
    waiting: list[pa.RecordBatch] = []
    for item in replace(reader, columns=columns).read(findings):
        if isinstance(item, Reject):
            found.reject(item)
            continue
        waiting.append(item)
        if sum(map(len, waiting)) >= manifest_files.rows_at_once(parts):
            yield from manifest_files.split_by_name(concatenate(waiting), parts)
            waiting = []
    if waiting:
        yield from manifest_files.split_by_name(concatenate(waiting), parts)
    _check_manifests(manifests, revisions)
    found.summary.notices |= frozenset((*columns.notices, *findings.notices(manifests[0].path)))
    if names.objects_column is not None and names.objects_column.names:
        found.summary.class_lists = {names.objects_column.names: (1, manifests[0].path)}
    yield from found.outputs()


def _check_manifests(manifests: Sequence[manifest_files.ManifestFile], revisions: Sequence[str]) -> None:
    for manifest, revision in zip(manifests, revisions, strict=True):
        if revision and not storage.is_unchanged(manifest.path, revision):
            raise changed_error(manifest.path)


_NO_COLUMNS = manifest_table.ManifestColumns()


@dataclass(eq=False)
class _MeasureFn(beam.DoFn):
    root: str
    allow_outside: bool
    identities: bool
    temporary: str | None
    companions: Sequence[found_files.Companion] = ()
    finds_image_names: bool = True  # True to look for columns that name image files
    objects: manifest_files.ObjectsColumn | None = None  # column of objects to extract

    def setup(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, "shardmill-size")

    def teardown(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def process(self, batch: Any, columns: manifest_table.ManifestColumns = _NO_COLUMNS) -> Iterator[Any]:
        """Yield the batch, whose further columns are `columns`, with sizes; rejects and a summary, tagged."""
        if self.objects is not None:
            batch, invalid, ignored = manifest_files.extract_objects(batch, self.objects)
            yield from FoundInput(self.temporary, invalid, ignored_properties=ignored).outputs()
        how = (self._pool.map, self.identities, self.companions)
        measured, rejects = found_files.measure_rows(batch, self.root, self.allow_outside, *how)
        found = FoundInput(self.temporary, rejects, missing_files=found_files.count_missing(rejects, self.companions))
        if len(measured):
            yield from split_large_batch(measured)
            found.summary.merge(summarize_batch(measured, found_files.present_types(measured, columns.kept)))
            if self.finds_image_names:
                found.summary.image_names = manifest_files.find_image_names(measured, self.root)
        yield from found.outputs()


@dataclass(eq=False)
class _MeasureRowsFn(_MeasureFn):
    paths: Sequence[str] = ()  # of the manifests
    is_first_kept: bool = False  # True to reject all rows of a file but the first

    def process(
        self, part: tuple[int, Iterable[pa.RecordBatch]], columns: manifest_table.ManifestColumns = _NO_COLUMNS
    ) -> Iterator[Any]:
        """Yield the rows of one part, which holds all rows of each of its names."""
        rows, repeated = manifest_files.drop_duplicates(concatenate(part[1]), self.paths, self.is_first_kept)
        names = Counter(rows["name"].to_pylist())
        later = names - Counter(names.keys())
        counts = {"rows": (later.total(), min(later))} if later else {}
        yield from FoundInput(self.temporary, repeated, repeated=counts).outputs()
        for start in range(0, len(rows), BATCH_ROWS):
            yield from super().process(rows.slice(start, BATCH_ROWS), columns)


_FILES_A_BATCH = 256  # of annotations, read by one worker at once
_IMAGE_COLUMNS = pa.schema(list(annotations.ANNOTATED)[:-1])  # of an image, without its objects
# An image whose annotation is yet to be read, and its companion
_LISTED = pa.schema({"image": pa.string(), "annotation": pa.string(), "place": pa.int64(), "split": pa.string()})
_PENDING = pa.schema(
    [*_LISTED, ("path", pa.string()), ("size", pa.int64()), ("identity", pa.uint64()), found_files.REVISION]
)


@dataclass(eq=False)
class ReadAnnotations(beam.PTransform):
    """Find every annotated image: root -> IndexedFiles, with the objects of each image."""

    source: annotations.AnnotationSource
    allow_outside: bool = False  # True if images may be outside the source's root
    identities: bool = False  # True to record file identities, for the detection of changes
    image_id: str = ""  # text feature to hold each image's id; "" for IMAGE_ID, where images have one
    further: found_files.AddedCompanions = NO_COMPANIONS  # that are found for each image
    temporary: str | None = None  # temporary directory of the job; None in a dry run

    def expand(self, pbegin: beam.pvalue.PBegin) -> Any:  # Indexed; Beam reads annotations as element types
        """List images and companions on one worker; read annotation files and look up sizes on all."""
        listing = (self.allow_outside, self.image_id, self.further, self.identities, self.temporary)
        list_ = beam.FlatMap(_list_annotated, *listing)
        read = beam.ParDo(_ReadFn(self.source, self.allow_outside, self.image_id, self.temporary))
        how = (self.source.root, self.allow_outside, self.identities, self.temporary, self.further.companions)
        measure = _MeasureFn(*how, finds_image_names=False)
        listed = pbegin | "Source" >> beam.Create([self.source]) | "ListAnnotated" >> with_findings(list_, "rows")
        spread = Spread(lambda batch: str(batch.column(0)[0])).with_output_types(pa.RecordBatch)
        annotated = listed["rows"] | "Spread" >> spread | "ReadAnnotations" >> with_findings(read, "rows")
        measured = annotated["rows"] | "Measure" >> with_findings(beam.ParDo(measure), "files")
        return IndexedFiles(measured["files"], *combine_outputs(measured, annotated, listed))


# Any: Beam checks annotations, and cannot check protocols
def _list_annotated(
    source: Any,
    allow_outside: bool,
    image_id: str,
    further: found_files.AddedCompanions,
    identities: bool,
    temporary: str | None,
) -> Iterator[Any]:
    pending: list[tuple[Any, ...]] = []
    found = FoundInput(temporary)
    finder = None if further.open is None else further.open(identities, True)
    for item in source.list_images():
        if isinstance(item, annotations.AnnotatedImages):
            of_images: list[found_files.FoundCompanion | None] | None = None
            if further.of_objects:
                of_images = [found_files.hold_companion(image.shapes) for image in item.images]
            elif finder is not None:
                of_images = [find_companion(found, finder, image.name, image.position) for image in item.images]
            yield from _annotated_batches(item, source.root, allow_outside, image_id, found, of_images)
        elif isinstance(item, annotations.ListedImage):
            companion = (None,) * 4 if finder is None else find_companion(found, finder, item.image, item.position)
            if companion is not None:
                pending.append((*item, *companion))
        elif isinstance(item, InputSummary):
            found.summary.merge(item)
        elif isinstance(item, str):
            found.summary.notices |= {item}
        else:
            found.leave_out(item)
    yield from to_batches(pending, _PENDING, _FILES_A_BATCH)
    if finder is not None:
        found.summary.merge(finder.finish())
    yield from found.outputs()


def _annotated_batches(
    files: annotations.AnnotatedImages,
    root: str,
    allow_outside: bool,
    image_id: str,
    found: FoundInput,
    further: Sequence[found_files.FoundCompanion | None] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield batches of annotated images, with their companions if there are any; reject images outside the root.

    Images without a companion are left out. The size, identity and revision columns hold those of the companions until
    the images are looked up.
    """
    rows, kept_rows, companions, revisions, ids = [], [], [], [], []
    none: Sequence[found_files.FoundCompanion] = [("", 0, None, None)] * len(files.images)
    for index, (image, companion) in enumerate(zip(files.images, further or none, strict=True)):
        if companion is None:
            continue
        try:
            name, uri = found_files.resolve_name(image.name, root, allow_outside, "the images' folder")
        except ValueError as error:
            found.reject(Reject(image.name, image.position, "index", str(error)))
            continue
        path, size, identity, revision = companion
        width, height = image.size or (None, None)
        ids.append(str(name if image.id is None else image.id).encode() if image_id else image.id)
        rows.append((name, size, uri, image.label, image.split, image.position, identity, width, height))
        kept_rows.append(index)
        companions.append([path])
        revisions.append(revision)
    if rows:
        objects = files.objects if len(kept_rows) == len(files.objects) else files.objects.take(pa.array(kept_rows))
        image_batch = convert_batch(list(zip(*rows, strict=True)), _IMAGE_COLUMNS)
        batch = pa.RecordBatch.from_arrays([*image_batch.columns, objects], schema=annotations.ANNOTATED)
        if further is not None:
            batch = batch.append_column(found_files.COMPANIONS, pa.array(companions, found_files.COMPANIONS.type))
            batch = batch.append_column(found_files.REVISION, pa.array(revisions, found_files.REVISION.type))
        if image_id or any(image.id is not None for image in files.images):
            kind = pa.large_binary() if image_id else pa.int64()
            batch = found_files.with_columns(batch, {image_id or annotations.IMAGE_ID: pa.array(ids, kind)})
        yield from split_large_batch(batch)


@dataclass(eq=False)
class _ReadFn(beam.DoFn):
    source: annotations.AnnotationSource
    allow_outside: bool
    image_id: str
    temporary: str | None

    def setup(self) -> None:
        self._prepared_source: annotations.AnnotationFileSource | None = None
        self._pool = ThreadPoolExecutor(_THREADS, "shardmill-annotations")

    def teardown(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def process(self, batch: pa.RecordBatch) -> Iterator[Any]:
        if annotations.OBJECTS.names[-1] in batch.schema.names:
            yield batch
            return
        if self._prepared_source is None:
            # only such a source lists what is read here
            assert isinstance(self.source, annotations.AnnotationFileSource)
            self._prepared_source = self.source.prepare()
        columns = [column.to_pylist() for column in batch.columns]
        listed = [annotations.ListedImage(*row) for row in zip(*columns[: len(_LISTED)], strict=True)]
        map_ = map if storage.is_local(self.source.root) else self._pool.map
        read = list(map_(self._read, listed))
        images = [item for item in read if isinstance(item, annotations.AnnotatedImage)]
        ignored = Counter(name for image in images for name in image.ignored_properties)
        rejects = [item for item in read if isinstance(item, Reject)]
        found = FoundInput(self.temporary, rejects, ignored_properties=ignored)
        rows = zip(read, zip(*columns[len(_LISTED) :], strict=True), strict=True)
        further = [row for item, row in rows if not isinstance(item, Reject)] if columns[-4][0] else None
        files = annotations.AnnotatedImages(images, annotations.build_object_lists([image.objects for image in images]))
        yield from _annotated_batches(files, self.source.root, self.allow_outside, self.image_id, found, further)
        yield from found.outputs()

    def _read(self, listed_image: annotations.ListedImage) -> annotations.AnnotatedImage | Reject:
        path = storage.join(self.source.root, listed_image.annotation)
        try:
            assert self._prepared_source is not None
            return self._prepared_source.parse_annotation(storage.read_bytes(path), listed_image)
        except OSError as error:
            raise_if_store_failed(error, path)
            return Reject(listed_image.annotation, None, "index", f"cannot be read: {error_text(error)}")


@dataclass(eq=False)
class ListFiles(beam.PTransform):
    """Find every file of a folder or a glob: root -> IndexedFiles."""

    pattern: str  # folder or glob
    kind: FileKind = IMAGES  # kind of files to look for in a folder
    roles: FolderRoles | None = None  # folder roles of --folders, if given
    identities: bool = False  # True to record file identities, for the detection of changes
    further: found_files.AddedCompanions = NO_COMPANIONS  # that are found for each image
    rules: NameRules | None = None  # labels and splits by the names of files, or None
    temporary: str | None = None  # temporary directory of the job; None in a dry run

    def expand(self, pbegin: beam.pvalue.PBegin) -> Any:  # Indexed; Beam reads annotations as element types
        """List the files on one worker, since a listing is a stream of small items."""
        kind, how = self.kind, (self.roles, self.identities, self.temporary, self.further, self.rules)
        list_ = beam.FlatMap(lambda pattern: index_listing(list_input(pattern, kind), *how))
        outputs = pbegin | "Pattern" >> beam.Create([self.pattern]) | "List" >> with_findings(list_, "files")
        return IndexedFiles(outputs["files"], *combine_outputs(outputs))


def index_listing(
    listed: Iterable[FoundFiles | ListingItem],
    roles: FolderRoles | None = None,
    identities: bool = False,
    temporary: str | None = None,
    further: found_files.AddedCompanions = NO_COMPANIONS,
    rules: NameRules | None = None,
) -> Iterator[Any]:
    """Yield batches of the listed files; rejects and a summary, tagged.

    Without `identities`, references are eight bytes a file smaller, which would not compress. With `further`,
    each file gets its companion; a file without one is rejected.
    """
    finder = None if further.open is None else further.open(identities, False)
    found, names = FoundInput(temporary), set[str]()
    sampled = Counter[str]()  # files by folder
    sample: list[str] = []

    def add_to_sample(*names: str) -> None:
        if len(sample) < MOST_SAMPLED:
            folder = posixpath.dirname(names[0])
            room = min(_SAMPLED_OF_FOLDER - sampled[folder], MOST_SAMPLED - len(sample))
            sample.extend(names[:room])
            sampled[folder] += min(room, len(names))

    def identify(file: FileStat) -> int | None:
        return file_identity(file.size_bytes, file.stamp, file.modified) if identities else None

    def rows() -> Iterator[tuple[Any, ...] | None]:
        for item in listed:
            if isinstance(item, FoundFiles) and finder is None and rules is None:
                add_to_sample(*item.names)
                ids = map(identify, item) if identities else repeat(None)
                sizes, revisions = item.statuses[:, 0].tolist(), found_files.hash_statuses(item.statuses).tolist()
                yield from zip(item.names, sizes, *[repeat(None)] * 4, ids, revisions)
            else:
                yield from map(describe, list_singly([item]))

    def describe(item: ListingItem) -> tuple[Any, ...] | None:
        """Return the row of a file with its companion, label and split; None for anything else."""
        if not isinstance(item, FileStat):
            found.leave_out(item)
            return None
        if finder is not None and finder.is_among_images(item.path):
            return None
        add_to_sample(name := item.path)
        size, identity, revision = item.size_bytes, identify(item), found_files.hash_revision(item)
        label = split = None
        if rules is not None:
            names.add(name)
            split = rules.find_split(name)
            if rules.label_pattern and (label := rules.find_label(name)) is None:
                found.reject(Reject(name, None, "index", f"not named as {rules.label_pattern!r} says"))
                return None
        if finder is None:
            return name, size, None, label, split, None, identity, revision
        if (companion := find_companion(found, finder, name, None)) is None:
            return None
        path, its_size, its_identity, its_revision = companion
        identity = combined_identity(identity, [(path, its_identity)]) if identities else None
        revision = found_files.add_revisions([revision, its_revision])
        return name, size + its_size, None, label, split, None, identity, revision, [path]

    schema = found_files.FOUND.append(found_files.REVISION)
    for batch in to_batches(filter(None, rows()), schema if finder is None else schema.append(found_files.COMPANIONS)):
        yield from split_large_batch(batch)
        found.summary.merge(summarize_batch(batch, roles=roles))
    if finder is not None:
        found.summary.merge(finder.finish())
    found.summary.sample = tuple(sorted(sample))
    if rules is not None:
        found.summary.notices |= frozenset(rules.notices(names))
    yield from found.outputs()
