"""PTransforms that find the files of an input: by listing, from manifests or from annotations."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

import shardmill.transforms.workers.elements  # noqa: F401
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.arrow import BATCH_ROWS, concatenate, convert_batch, split_large_batch, to_batches
from shardmill.transforms.inputs.annotations import (
    ANNOTATED,
    IMAGE_ID,
    OBJECTS,
    AnnotatedImage,
    AnnotatedImages,
    AnnotationFileSource,
    AnnotationSource,
    DeclaredClasses,
    IgnoredValues,
    ListedImage,
    Notice,
    build_object_lists,
)
from shardmill.transforms.inputs.folders import IMAGES, FileKind, FolderRoles
from shardmill.transforms.inputs.found_files import (
    COMPANIONS,
    FOUND,
    MASK_IN_FOLDER,
    Companion,
    Mask,
    MaskFolder,
    add_companions_field,
    count_missing,
    measure_rows,
    resolve_name,
)
from shardmill.transforms.inputs.listing import FoundFile, ListingItem, list_input
from shardmill.transforms.inputs.manifest_files import (
    PARSED,
    ManifestFile,
    ObjectsColumn,
    drop_duplicates,
    extract_objects,
    find_image_names,
    part_count,
    rows_at_once,
    split_by_name,
)
from shardmill.transforms.inputs.manifest_rows import (
    DEFAULT_NAMES,
    RESERVED,
    ManifestNames,
    Row,
    is_textual,
    read_all_rows,
    row_digest,
)
from shardmill.transforms.inputs.summary import InputSummary, summarize_batch, summarize_skipped
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import error_text
from shardmill.transforms.stores.storage import raise_if_store_failed
from shardmill.transforms.stores.streams import combined_identity, file_identity
from shardmill.transforms.workers.elements import MergeFn, Spread
from shardmill.transforms.workers.rejects import RejectsPart, RejectsWriter, make_parts

REJECTS, SUMMARIES = "rejects", "summaries"


class IndexedFiles(NamedTuple):
    """The result of indexing: FOUND batches, rejects, and one InputSummary of all."""

    files: beam.PCollection[pa.RecordBatch]
    rejects: beam.PCollection[RejectsPart]
    summary: beam.PCollection[InputSummary]


def combine_outputs(files: beam.PCollection[pa.RecordBatch], outputs: Any, *earlier: Any) -> IndexedFiles:
    """Combine files with the rejects and summaries of this and earlier steps."""
    rejects = outputs[REJECTS]
    summaries = outputs[SUMMARIES]
    if earlier:
        rejects = (rejects, *(step[REJECTS] for step in earlier)) | "AllRejects" >> beam.Flatten()
        summaries = (summaries, *(step[SUMMARIES] for step in earlier)) | "AllSummaries" >> beam.Flatten()
    merging = beam.CombineGlobally(MergeFn(InputSummary, InputSummary.merge))
    summary = summaries | "Summarize" >> merging.without_defaults()  # listing says one at least
    return IndexedFiles(files, rejects, summary)


def tag_rejects(parts: Iterable[RejectsPart]) -> Iterator[TaggedOutput]:
    """Yield parts of rejects as the output REJECTS."""
    return (TaggedOutput(REJECTS, part) for part in parts)


_LOOKUP_THREADS = 32  # a look-up on an object store is one request, tens of milliseconds


@dataclass(eq=False)
class ReadManifest(beam.PTransform):
    """Find the files that manifests name, in CSV, JSON lines or Parquet: root -> IndexedFiles."""

    manifests: Sequence[ManifestFile]  # relative names are taken from the folder of each
    root: str  # common folder that all names become relative to
    allow_outside: bool  # True if files may be elsewhere
    reserved: tuple[str, ...] = RESERVED  # names that no further column may have
    names: ManifestNames = DEFAULT_NAMES  # column and file names of the manifests
    identities: bool = False  # True to record file identities, for the detection of changes
    temporary: str | None = None  # temporary directory of the job; None in a dry run

    def expand(self, pbegin: beam.pvalue.PBegin) -> Any:  # Indexed; Beam reads annotations as element types
        """Parse on one worker; drop duplicate rows and look up file sizes on all."""
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
        return combine_outputs(measured["files"], measured, rows)


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
        for row in read_all_rows(manifests, allow_outside, reserved, names):
            if isinstance(row, Row):
                columns = {name: value for name, value in row.columns.items() if value not in missing}
                fields = (
                    row.name,
                    0,
                    row.uri,
                    row.label,
                    row.split,
                    row.line,
                    json.dumps(columns),
                    None,
                    row_digest(row),
                )
                yield (*fields, list(row.companions)) if names.companions else fields
            else:
                rejects.add([row])
                rejected += 1

    parts = 1
    with suppress(OSError):  # which reading it tells
        parts = part_count(sum(storage.size(manifest.path) for manifest in manifests))
    for batch in to_batches(rows(), add_companions_field(PARSED, names.companions), rows_at_once(parts)):
        yield from split_by_name(batch, parts)
    yield from tag_rejects(rejects.close())
    objects_column = names.objects
    classes = (
        {objects_column.names: (1, manifests[0].path)} if objects_column is not None and objects_column.names else {}
    )
    yield TaggedOutput(SUMMARIES, InputSummary(rejected=rejected, class_lists=classes))


class MeasureFn(beam.DoFn):
    """Look up the sizes of the files that rows name, in many threads if each is a request."""

    def __init__(
        self,
        root: str,
        textual: bool,
        allow_outside: bool,
        identities: bool,
        temporary: str | None = None,
        companions: Sequence[Companion] = (),
        finds_image_names: bool = True,
        objects: ObjectsColumn | None = None,
    ) -> None:
        self._finds_image_names, self._objects = finds_image_names, objects
        self._root, self._textual, self._companions = root, textual, companions
        self._allow_outside, self._identities = allow_outside, identities
        self._temporary = temporary

    def setup(self) -> None:
        self._pool = ThreadPoolExecutor(_LOOKUP_THREADS, "shardmill-size")

    def teardown(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def process(self, batch: Any) -> Iterator[Any]:
        """Yield the batch with sizes; rejects and a summary, tagged."""
        if self._objects is not None:
            batch, object_rejects, ignored = extract_objects(batch, self._objects)
            yield from tag_rejects(make_parts(object_rejects, self._temporary))
            yield TaggedOutput(SUMMARIES, InputSummary(rejected=len(object_rejects), ignored_properties=ignored))
        measured, types, rejects = measure_rows(
            batch, self._root, self._textual, self._allow_outside, self._pool.map, self._identities, self._companions
        )
        yield from tag_rejects(make_parts(rejects, self._temporary))
        if len(measured):
            yield from split_large_batch(measured)
        summary = summarize_batch(measured, types) if len(measured) else InputSummary()
        missing = count_missing(rejects, self._companions)
        image_names = find_image_names(measured, self._root) if len(measured) and self._finds_image_names else {}
        other_counts = InputSummary(rejected=len(rejects), missing_files=missing, image_names=image_names)
        yield TaggedOutput(SUMMARIES, summary.merge(other_counts))


class _MeasureRowsFn(MeasureFn):
    """Drop duplicate manifest rows, then look up sizes."""

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
        """Yield the rows of one part, which holds all rows of each of its names."""
        rows, repeated = drop_duplicates(concatenate(part[1]), self._paths)
        yield from tag_rejects(make_parts(repeated, self._temporary))
        yield TaggedOutput(SUMMARIES, InputSummary(rejected=len(repeated)))
        for start in range(0, len(rows), BATCH_ROWS):
            yield from super().process(rows.slice(start, BATCH_ROWS))


_ANNOTATION_THREADS = 32  # a file on an object store is one request, tens of milliseconds
_FILES_A_BATCH = 256  # of annotations, read by one worker at once
_IMAGE_COLUMNS = pa.schema(list(ANNOTATED)[:-1])  # of an image, without its objects
# An image whose annotation is yet to be read
_LISTED = pa.schema(
    [
        pa.field("image", pa.string()),
        pa.field("annotation", pa.string()),
        pa.field("place", pa.int64()),
        pa.field("split", pa.string()),
    ]
)
# With the image's mask
_LISTED_MASKED = pa.schema(
    [*_LISTED, pa.field("mask", pa.string()), pa.field("size", pa.int64()), pa.field("identity", pa.uint64())]
)


@dataclass(eq=False)
class ReadAnnotations(beam.PTransform):
    """Find every annotated image: root -> IndexedFiles, in ANNOTATED batches."""

    source: AnnotationSource
    allow_outside: bool = False  # True if images may be outside the source's root
    identities: bool = False  # True to record file identities, for the detection of changes
    image_id: str = ""  # text feature to hold each image's id; "" for IMAGE_ID, where images have one
    masks: str | None = None  # folder of masks, or None
    temporary: str | None = None  # temporary directory of the job; None in a dry run

    def expand(self, pbegin: beam.pvalue.PBegin) -> Any:  # Indexed; Beam reads annotations as element types
        """List images and masks on one worker; read annotation files and look up sizes on all."""
        masks = (self.masks, self.identities) if self.masks is not None else None
        listed = (
            pbegin
            | "Source" >> beam.Create([self.source])
            | "ListAnnotated"
            >> beam.FlatMap(_list_annotated, self.allow_outside, self.image_id, masks, self.temporary)
            .with_output_types(pa.RecordBatch)
            .with_outputs(REJECTS, SUMMARIES, main="rows")
        )
        read = (
            listed["rows"]
            | "Spread" >> Spread(_first_name).with_output_types(pa.RecordBatch)
            | "ReadAnnotations"
            >> beam.ParDo(_ReadFn(self.source, self.allow_outside, self.image_id, self.temporary))
            .with_output_types(pa.RecordBatch)
            .with_outputs(REJECTS, SUMMARIES, main="rows")
        )
        measured = read["rows"] | "Measure" >> beam.ParDo(
            MeasureFn(
                self.source.root,
                False,
                self.allow_outside,
                self.identities,
                self.temporary,
                (MASK_IN_FOLDER,) if self.masks is not None else (),
                finds_image_names=False,
            )
        ).with_output_types(pa.RecordBatch).with_outputs(REJECTS, SUMMARIES, main="files")
        return combine_outputs(measured["files"], measured, read, listed)


def _first_name(batch: pa.RecordBatch) -> str:
    """Return the key that spreads a batch of images over workers: the name of its first image."""
    return str(batch.column(0)[0])


# Any: Beam checks annotations, and cannot check protocols
def _list_annotated(
    source: Any, allow_outside: bool, image_id: str, mask_options: tuple[str, bool] | None, temporary: str | None
) -> Iterator[Any]:
    """Yield batches of the images that a source lists; rejects and a summary, tagged."""
    pending: list[tuple[Any, ...]] = []
    summary = InputSummary()
    rejects = RejectsWriter(temporary)
    rejected = 0
    masks = MaskFolder(*mask_options, annotated=True) if mask_options is not None else None
    first: str | None = None

    def reject(item: Reject) -> None:
        nonlocal rejected
        rejects.add([item])
        rejected += 1

    def find_masks(name: str, position: int) -> list[Mask]:
        """Return the image's mask in a list; reject the image and return [] if it needs one and has none."""
        nonlocal first
        first = first or name
        mask = "" if masks is None else masks.find_mask(name)
        if isinstance(mask, str):
            reject(Reject(name, position, "index", mask))
            return []
        return [mask]

    for item in source.list_images():
        if isinstance(item, AnnotatedImages):
            image_masks = None
            if masks is not None:
                item, image_masks = _with_masks(item, find_masks)
            yield from _annotated_batches(item, source.root, allow_outside, image_id, reject, image_masks)
        elif isinstance(item, ListedImage):
            row = (item.image, item.annotation, item.position, item.split)
            pending += [row] if masks is None else [(*row, *mask) for mask in find_masks(item.image, item.position)]
        elif isinstance(item, DeclaredClasses):
            summary = summary.merge(InputSummary(class_lists={item.names: (1, item.path)}))
        elif isinstance(item, IgnoredValues):
            summary = summary.merge(InputSummary(ignored_properties=Counter({item.name: item.count})))
        elif isinstance(item, Notice):
            summary = summary.merge(InputSummary(notices=frozenset([item.text])))
        elif isinstance(item, Reject):
            reject(item)
        else:
            summary = summary.merge(summarize_skipped(item.kind, item.name))
    yield from to_batches(pending, _LISTED if masks is None else _LISTED_MASKED, _FILES_A_BATCH)
    if masks is not None and first is not None:
        masks.check_used(first)
        summary = summary.merge(InputSummary(notices=frozenset(masks.notices())))
    yield from tag_rejects(rejects.close())
    yield TaggedOutput(SUMMARIES, summary.merge(InputSummary(rejected=rejected)))


def _with_masks(
    files: AnnotatedImages, find_masks: Callable[[str, int], list[Mask]]
) -> tuple[AnnotatedImages, list[Mask]]:
    """Return the images that have a mask, and their masks."""
    pairs = [
        (index, mask) for index, image in enumerate(files.images) for mask in find_masks(image.name, image.position)
    ]
    indices = [index for index, _ in pairs]
    masked_images = AnnotatedImages(
        [files.images[index] for index in indices], files.objects.take(pa.array(indices, pa.int64()))
    )
    return masked_images, [mask for _, mask in pairs]


def _annotated_batches(
    files: AnnotatedImages,
    root: str,
    allow_outside: bool,
    image_id: str,
    reject: Callable[[Reject], None],
    masks: Sequence[Mask] | None = None,
) -> Iterator[pa.RecordBatch]:
    """Yield ANNOTATED batches, with COMPANIONS if there are masks; report a Reject for each image outside the root.

    The size and identity columns hold those of the masks until the images are looked up.
    """
    rows, kept_rows = [], []
    for index, image in enumerate(files.images):
        try:
            name, uri = resolve_name(image.name, root, allow_outside, "the images' folder")
        except ValueError as error:
            reject(Reject(image.name, image.position, "index", str(error)))
            continue
        width, height = image.size or (None, None)
        kept_rows.append(index)
        columns = {image_id: str(image.columns.get(IMAGE_ID, name))} if image_id else image.columns
        _, size, identity = masks[index] if masks is not None else ("", 0, None)
        rows.append((name, size, uri, None, image.split, image.position, json.dumps(columns), identity, width, height))
    if rows:
        objects = files.objects if len(kept_rows) == len(files.objects) else files.objects.take(pa.array(kept_rows))
        image_batch = convert_batch(list(zip(*rows, strict=True)), _IMAGE_COLUMNS)
        batch = pa.RecordBatch.from_arrays([*image_batch.columns, objects], schema=ANNOTATED)
        if masks is not None:
            batch = batch.append_column(
                COMPANIONS, pa.array([[masks[index][0]] for index in kept_rows], COMPANIONS.type)
            )
        yield from split_large_batch(batch)


def _count_ignored(images: Iterable[AnnotatedImage]) -> Counter[str]:
    """Count the annotated facts of the images' objects that no example holds."""
    return Counter(name for image in images for name in image.ignored_properties)


class _ReadFn(beam.DoFn):
    """Read annotation files, in many threads if each is a request."""

    def __init__(self, source: AnnotationSource, allow_outside: bool, image_id: str, temporary: str | None) -> None:
        self._source, self._allow_outside, self._temporary = source, allow_outside, temporary
        self._image_id = image_id

    def setup(self) -> None:
        self._prepared_source: AnnotationFileSource | None = None
        self._pool = ThreadPoolExecutor(_ANNOTATION_THREADS, "shardmill-annotations")

    def teardown(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def process(self, batch: pa.RecordBatch) -> Iterator[Any]:
        if OBJECTS.names[-1] in batch.schema.names:
            yield batch
            return
        if self._prepared_source is None:
            assert isinstance(self._source, AnnotationFileSource), "only such a source lists what is read here"
            self._prepared_source = self._source.prepare()
        columns = [column.to_pylist() for column in batch.columns]
        listed = [ListedImage(*row) for row in zip(*columns[: len(_LISTED)], strict=True)]
        map_ = map if storage.is_local(self._source.root) else self._pool.map
        read = list(map_(self._read, listed))
        rejects = [item for item in read if isinstance(item, Reject)]
        images = [item for item in read if isinstance(item, AnnotatedImage)]
        masks = None
        if batch.schema.equals(_LISTED_MASKED):
            mask_rows = zip(*columns[len(_LISTED) :], strict=True)
            masks = [mask for item, mask in zip(read, mask_rows, strict=True) if isinstance(item, AnnotatedImage)]
        files = AnnotatedImages(images, build_object_lists([image.objects for image in images]))
        yield from _annotated_batches(
            files, self._source.root, self._allow_outside, self._image_id, rejects.append, masks
        )
        yield from tag_rejects(make_parts(rejects, self._temporary))
        yield TaggedOutput(SUMMARIES, InputSummary(rejected=len(rejects), ignored_properties=_count_ignored(images)))

    def _read(self, listed_image: ListedImage) -> AnnotatedImage | Reject:
        path = storage.join(self._source.root, listed_image.annotation)
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
    temporary: str | None = None  # temporary directory of the job; None in a dry run
    masks: str | None = None  # folder of masks, or None

    def expand(self, pbegin: beam.pvalue.PBegin) -> Any:  # Indexed; Beam reads annotations as element types
        """List on one worker; a listing is a stream of small items."""
        outputs = (
            pbegin
            | "Pattern" >> beam.Create([self.pattern])
            | "List"
            >> beam.FlatMap(_list_files, self.kind, self.roles, self.identities, self.temporary, self.masks)
            .with_output_types(pa.RecordBatch)
            .with_outputs(REJECTS, SUMMARIES, main="files")
        )
        return combine_outputs(outputs["files"], outputs)


def _list_files(
    pattern: str,
    kind: FileKind,
    roles: FolderRoles | None,
    identities: bool,
    temporary: str | None,
    masks: str | None = None,
) -> Iterator[Any]:
    listed = list_input(pattern, kind)
    yield from index_listing(
        listed, roles, identities, temporary, MaskFolder(masks, identities) if masks is not None else None
    )


def index_listing(
    listed: Iterable[ListingItem],
    roles: FolderRoles | None = None,
    identities: bool = False,
    temporary: str | None = None,
    masks: MaskFolder | None = None,
) -> Iterator[Any]:
    """Yield FOUND batches of listed files; rejects and a summary, tagged.

    Without `identities`, references are eight bytes a file smaller, which would not compress. With `masks`, each file
    gets its mask as companion; a file without one is rejected.
    """
    summary, other_counts = InputSummary(), InputSummary()
    rejects = RejectsWriter(temporary)
    schema = FOUND if masks is None else FOUND.append(COMPANIONS)
    first: str | None = None

    def rows() -> Iterator[tuple[Any, ...]]:
        nonlocal other_counts, first
        for item in listed:
            if isinstance(item, FoundFile) and masks is not None:
                first = item.name if first is None else first
                mask = masks.find_mask(item.name)
                if isinstance(mask, str):
                    rejects.add([Reject(item.name, None, "index", mask)])
                    other_counts = other_counts.merge(InputSummary(rejected=1))
                    continue
                path, size, mask_identity = mask
                identity = file_identity(item.size_bytes, item.stamp, item.modified) if identities else None
                combined = combined_identity(identity, [(path, mask_identity)]) if identities else None
                yield item.name, item.size_bytes + size, None, None, None, None, None, combined, [path]
            elif isinstance(item, FoundFile):
                identity = file_identity(item.size_bytes, item.stamp, item.modified) if identities else None
                yield item.name, item.size_bytes, None, None, None, None, None, identity
            elif isinstance(item, Reject):
                rejects.add([item])
                other_counts = other_counts.merge(InputSummary(rejected=1))
            else:
                other_counts = other_counts.merge(summarize_skipped(item.kind, item.name))

    for batch in to_batches(rows(), schema):
        yield from split_large_batch(batch)
        summary = summary.merge(summarize_batch(batch, roles=roles))
    if masks is not None and first is not None:
        masks.check_used(first)
        other_counts = other_counts.merge(InputSummary(notices=frozenset(masks.notices())))
    yield from tag_rejects(rejects.close())
    yield TaggedOutput(SUMMARIES, summary.merge(other_counts))
