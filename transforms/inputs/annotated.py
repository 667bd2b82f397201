"""The PTransform that finds images by what annotates them: COCO's, VOC's or YOLO's files. Batches of references come
out, with the objects in each image."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import TaggedOutput

import shardmill.transforms.workers.coder  # noqa: F401, registers the coder of batches
from shardmill.metadata.rejects import Reject
from shardmill.transforms.inputs.annotations.objects import (
    ANNOTATED,
    IMAGE_ID,
    OBJECTS,
    Annotated,
    AnnotatedFiles,
    object_lists,
)
from shardmill.transforms.inputs.annotations.source import (
    AnnotationFiles,
    AnnotationSource,
    Categories,
    LeftOut,
    Listed,
    Notice,
)
from shardmill.transforms.inputs.companions import COMPANIONS, IN_FOLDER
from shardmill.transforms.inputs.indexed import REJECTS, SUMMARIES, indexed, tagged
from shardmill.transforms.inputs.located import locate
from shardmill.transforms.inputs.masks import Mask, Masks
from shardmill.transforms.inputs.read_manifests import MeasureFn
from shardmill.transforms.inputs.summary import InputSummary, summarize_skipped
from shardmill.transforms.rejects.part import RejectsWriter, parts_of
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.error_text import error_text
from shardmill.transforms.stores.failures import raise_if_store_failed
from shardmill.transforms.workers.batches import batches, bounded, to_batch
from shardmill.transforms.workers.spread import Spread

_REMOTE_THREADS = 32  # a file on an object store is one request, tens of milliseconds
_FILES_A_BATCH = 256  # of annotations, read by one worker at once
_BESIDE = pa.schema(list(ANNOTATED)[:-1])  # of an image, without its objects
# An image whose annotation is yet to be read
_LISTED = pa.schema(
    [
        pa.field("image", pa.string()),
        pa.field("annotation", pa.string()),
        pa.field("place", pa.int64()),
        pa.field("split", pa.string()),
    ]
)
# With its mask beside it
_LISTED_MASKED = pa.schema(
    [*_LISTED, pa.field("mask", pa.string()), pa.field("size", pa.int64()), pa.field("identity", pa.uint64())]
)


@dataclass(eq=False)
class ReadAnnotations(beam.PTransform):
    """Root -> Indexed: every image that is annotated, in ANNOTATED batches.

    Attributes:
      source: of the annotations.
      allow_outside: whether images may lie outside its root.
      identities: whether references say which files are still what they were.
      image_id: the column that holds what every image is known by, a text; "" for IMAGE_ID, of images that have one.
      masks: the folder of the images' masks, if they have any.
      temporary: the job's temporary directory; None in a dry run.
    """

    source: AnnotationSource
    allow_outside: bool = False
    identities: bool = False
    image_id: str = ""
    masks: str | None = None
    temporary: str | None = None

    def expand(self, pbegin: beam.pvalue.PBegin) -> Any:  # Indexed; Beam reads annotations as element types
        """List on one worker, masks too; read annotations that are files of their own, and look up sizes, on all."""
        masks = (self.masks, self.identities) if self.masks is not None else None
        listed = (
            pbegin
            | "Source" >> beam.Create([self.source])
            | "ListAnnotated"
            >> beam.FlatMap(_list, self.allow_outside, self.image_id, masks, self.temporary)
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
                (IN_FOLDER,) if self.masks is not None else (),
                tells_names=False,
            )
        ).with_output_types(pa.RecordBatch).with_outputs(REJECTS, SUMMARIES, main="files")
        return indexed(measured["files"], measured, read, listed)


def _first_name(batch: pa.RecordBatch) -> str:
    """What names a batch of listed or of annotated images: the first of them."""
    return str(batch.column(0)[0])


# Any: Beam checks annotations, and cannot check protocols
def _list(
    source: Any, allow_outside: bool, image_id: str, masked: tuple[str, bool] | None, temporary: str | None
) -> Iterator[Any]:
    """Batches of what a source lists; rejects and a summary, tagged."""
    pending: list[tuple[Any, ...]] = []
    summary = InputSummary()
    rejects = RejectsWriter(temporary)
    rejected = 0
    masks = Masks(*masked, annotated=True) if masked is not None else None
    first: str | None = None

    def reject(item: Reject) -> None:
        nonlocal rejected
        rejects.add([item])
        rejected += 1

    def mask_of(name: str, place: int) -> list[Mask]:
        """The mask of an image, if it is to have one and has; without it, it is a reject."""
        nonlocal first
        first = first or name
        mask = "" if masks is None else masks.of(name)
        if isinstance(mask, str):
            reject(Reject(name, place, "index", mask))
            return []
        return [mask]

    for item in source.listed():
        if isinstance(item, AnnotatedFiles):
            beside = None
            if masks is not None:
                item, beside = _masked(item, mask_of)
            yield from _batches(item, source.root, allow_outside, image_id, reject, beside)
        elif isinstance(item, Listed):
            row = (item.image, item.annotation, item.place, item.split)
            pending += [row] if masks is None else [(*row, *mask) for mask in mask_of(item.image, item.place)]
        elif isinstance(item, Categories):
            summary = summary.merge(InputSummary(categories={item.names: (1, item.path)}))
        elif isinstance(item, LeftOut):
            summary = summary.merge(InputSummary(left_out=Counter({item.what: item.annotations})))
        elif isinstance(item, Notice):
            summary = summary.merge(InputSummary(notices=frozenset([item.text])))
        elif isinstance(item, Reject):
            reject(item)
        else:
            summary = summary.merge(summarize_skipped(item.kind, item.name))
    yield from batches(pending, _LISTED if masks is None else _LISTED_MASKED, _FILES_A_BATCH)
    if masks is not None and first is not None:
        masks.check_used(first)
        summary = summary.merge(InputSummary(notices=frozenset(masks.notices())))
    yield from tagged(rejects.close())
    yield TaggedOutput(SUMMARIES, summary.merge(InputSummary(rejected=rejected)))


def _masked(files: AnnotatedFiles, mask_of: Callable[[str, int], list[Mask]]) -> tuple[AnnotatedFiles, list[Mask]]:
    """Those of some images that have a mask, and that of each."""
    found = [(place, mask) for place, image in enumerate(files.images) for mask in mask_of(image.name, image.place)]
    places = [place for place, _ in found]
    kept = AnnotatedFiles([files.images[place] for place in places], files.objects.take(pa.array(places, pa.int64())))
    return kept, [mask for _, mask in found]


def _batches(
    files: AnnotatedFiles,
    root: str,
    allow_outside: bool,
    image_id: str,
    reject: Callable[[Reject], None],
    masks: Sequence[Mask] | None = None,
) -> Iterator[pa.RecordBatch]:
    """ANNOTATED batches, with COMPANIONS where there are masks: of these are the sizes and identities, until files are
    looked up; of an image that may not be read, a Reject."""
    rows, kept = [], []
    for place, image in enumerate(files.images):
        try:
            name, uri = locate(image.name, root, allow_outside, "the images' folder")
        except ValueError as error:
            reject(Reject(image.name, image.place, "index", str(error)))
            continue
        width, height = image.size or (None, None)
        kept.append(place)
        columns = {image_id: str(image.columns.get(IMAGE_ID, name))} if image_id else image.columns
        _, size, identity = masks[place] if masks is not None else ("", 0, None)
        rows.append((name, size, uri, None, image.split, image.place, json.dumps(columns), identity, width, height))
    if rows:
        objects = files.objects if len(kept) == len(files.objects) else files.objects.take(pa.array(kept))
        found = to_batch(list(zip(*rows, strict=True)), _BESIDE)
        made = pa.RecordBatch.from_arrays([*found.columns, objects], schema=ANNOTATED)
        if masks is not None:
            made = made.append_column(COMPANIONS, pa.array([[masks[place][0]] for place in kept], COMPANIONS.type))
        yield from bounded(made)


def _left_out(images: Iterable[Annotated]) -> Counter[str]:
    """How many annotations of the images' objects say what no example holds, by what that is."""
    return Counter(what for image in images for what in image.left_out)


class _ReadFn(beam.DoFn):
    """Reads the annotations that are files of their own, by many threads where each is a request."""

    def __init__(self, source: AnnotationSource, allow_outside: bool, image_id: str, temporary: str | None) -> None:
        self._source, self._allow_outside, self._temporary = source, allow_outside, temporary
        self._image_id = image_id

    def setup(self) -> None:
        self._opened: AnnotationFiles | None = None
        self._pool = ThreadPoolExecutor(_REMOTE_THREADS, "shardmill-annotations")

    def teardown(self) -> None:
        self._pool.shutdown(cancel_futures=True)

    def process(self, batch: pa.RecordBatch) -> Iterator[Any]:
        if OBJECTS.names[-1] in batch.schema.names:
            yield batch
            return
        if self._opened is None:
            assert isinstance(self._source, AnnotationFiles), "only such a source lists what is read here"
            self._opened = self._source.opened()
        columns = [column.to_pylist() for column in batch.columns]
        listed = [Listed(*row) for row in zip(*columns[: len(_LISTED)], strict=True)]
        map_ = map if storage.is_local(self._source.root) else self._pool.map
        read = list(map_(self._read, listed))
        rejects = [item for item in read if isinstance(item, Reject)]
        images = [item for item in read if isinstance(item, Annotated)]
        masks = None
        if batch.schema.equals(_LISTED_MASKED):
            beside = zip(*columns[len(_LISTED) :], strict=True)
            masks = [mask for item, mask in zip(read, beside, strict=True) if isinstance(item, Annotated)]
        files = AnnotatedFiles(images, object_lists([image.objects for image in images]))
        yield from _batches(files, self._source.root, self._allow_outside, self._image_id, rejects.append, masks)
        yield from tagged(parts_of(rejects, self._temporary))
        yield TaggedOutput(SUMMARIES, InputSummary(rejected=len(rejects), left_out=_left_out(images)))

    def _read(self, listed: Listed) -> Annotated | Reject:
        path = storage.join(self._source.root, listed.annotation)
        try:
            assert self._opened is not None
            return self._opened.parsed(storage.read_bytes(path), listed)
        except OSError as error:
            raise_if_store_failed(error, path)
            return Reject(listed.annotation, None, "index", f"cannot be read: {error_text(error)}")
