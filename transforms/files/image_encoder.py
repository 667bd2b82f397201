"""Encode image files as examples."""

import hashlib
import io
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from PIL import Image

from shardmill.data import example, spans
from shardmill.data.example import entry_prefix
from shardmill.data.features import NO_RENAMES, OBJECT_DETECTION_KEYS, Feature, Features, Renames
from shardmill.data.tfrecord import OVERHEAD
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.arrow import data_of, offsets_of
from shardmill.transforms.files import image_codec, image_companions, image_features
from shardmill.transforms.files.encoding import (
    Encoded,
    FileEncoder,
    ManifestColumns,
    RecordPlace,
    RecordSpans,
    StoredFile,
    column_stats,
    decode_columns,
    describe_refusal,
    file_features,
)
from shardmill.transforms.files.image_geometry import UPRIGHT, ImageError, Picture
from shardmill.transforms.files.image_headers import (
    PLAIN,
    PLAIN_FORMATS,
    ImageHeader,
    PlainImages,
    Properties,
    find_properties,
    read_plain_images,
)
from shardmill.transforms.files.image_objects import TFDS_NAMES, ObjectEncoder, object_features, take_rows
from shardmill.transforms.files.references import LABELS
from shardmill.transforms.findings import Occurrences
from shardmill.transforms.inputs.found_files import Companion, companion_paths, hash_statuses
from shardmill.transforms.inputs.manifest_files import line_in_manifest
from shardmill.transforms.inputs.summary import InputSummary
from shardmill.transforms.layout.files import Layout
from shardmill.transforms.layout.objects import rotation_reason
from shardmill.transforms.options.image_options import MAX_PIXELS
from shardmill.transforms.shards.sources import EncodedChunk
from shardmill.transforms.statistics.contents import FileContents, digest_content, encode_names
from shardmill.transforms.statistics.files import CompanionStats, ImageStats, ManifestStats, SplitStats
from shardmill.transforms.statistics.images import Extremes, MeasuredImages
from shardmill.transforms.statistics.observations import ImageObserver
from shardmill.transforms.stores import storage

with suppress(ImportError):  # where it is not compiled, no image is read to be framed
    from shardmill._native import encode_images

_COMPANIONS_PREFIX = "beside:"  # before what the companions of an image were made of
# Planned bytes that are read at once; files of a task with more are so large that Python's share is small
_COMPILED_BYTES = 16 << 20
_PROPERTIES_PREFIX = "has:"  # before the properties of the image that was found
_FOUND_PREFIX = "found:"  # before the width, height and orientation of a picture that was re-encoded


class _Annotations(NamedTuple):
    companions: Sequence[image_companions.EncodedCompanion] | None = None
    rows: pa.RecordBatch | None = None  # see ObjectEncoder.place; shared by several images
    row: int | None = None  # this image's row in them


_NO_ANNOTATIONS = _Annotations()


_ENTRIES_BYTES = 128  # room in an Example for the tags, sizes and numbers of an image


@dataclass(frozen=True, slots=True, eq=False)
class FramedImages:
    """Framed Examples of images."""

    framed: NDArray[np.uint8]
    places: NDArray[np.int64]  # start of each record, and end of the last: (n + 1,)
    values: NDArray[np.int64]  # start of each image: (n,)
    digests: NDArray[np.uint64]  # xxh3_128 of each image with its height and width, 0 if they are small: (n, 2)


def frame_plain_images(
    images: PlainImages, names: Sequence[str], labels: NDArray[np.int64], files: pa.StringArray, entries: pa.BinaryArray
) -> FramedImages:
    """Encode images as Examples and frame them: image, label, filename, height, width and other features.

    Args:
        names: names of those five features.
        labels: ids of classes, -1 for none.
        files: names of the files.
        entries: the serialized entries of other features of each image, which may be null.
    """
    rows = images.rows
    number, encoded = len(rows), list(map(entry_prefix, names))
    size = number * (_ENTRIES_BYTES + OVERHEAD + sum(map(len, encoded))) + int(rows["size"].sum())
    if entries.null_count:  # whose offsets need not be equal
        is_empty = entries.null_count == number
        entries = pa.repeat(pa.scalar(b"", entries.type), number) if is_empty else pc.fill_null(entries, b"")
    file_places, entry_places = (offsets_of(column).astype(np.int64) for column in (files, entries))
    size += int(file_places[-1] - file_places[0] + entry_places[-1] - entry_places[0])
    texts = (data_of(files), file_places, data_of(entries), entry_places)
    framed, digests = np.empty(size, np.uint8), np.empty((number, 2), np.uint64)
    places, values = np.empty(number + 1, np.int64), np.empty(number, np.int64)
    encode_images(images.data, rows.view(np.int64), encoded, labels, *texts, framed, places, values, digests)
    return FramedImages(framed[: places[-1]], places, values, digests)


@dataclass(frozen=True)
class ImageEncoder(FileEncoder):
    """Encoder of images as tf.train.Example, with the features height and width, objects and companions."""

    feature = "image"
    refusal = ImageError

    root: str  # folder that names are relative to
    # `header` (format, size, end of file), `decode` (every pixel) or `none` (no height and width)
    verify: str = "header"
    reencode: image_codec.Reencode | None = None  # how images are re-encoded; None keeps their bytes
    max_pixels: int = MAX_PIXELS  # larger images are rejected before decoding
    coordinates: tuple[str, ...] = ()  # columns with coordinates; if any, EXIF-rotated images are rejected
    renames: Renames = NO_RENAMES  # of features
    observer: ImageObserver | None = None  # of an add-on
    objects: ObjectEncoder | None = None  # encoder of annotated objects; None without
    companions: tuple[Companion, ...] = ()  # of each image
    columns: ManifestColumns = ()  # of a manifest

    @property
    def has_sizes(self) -> bool:
        """True if examples have a height and a width."""
        return self.verify != "none" or self.reencode is not None

    def of_layout(self, layout: Layout) -> Self:
        own = super().of_layout(layout)
        if own.objects is None:
            return own
        if layout.object_classes is None:  # annotations of whole images alone
            return replace(own, objects=None)
        return replace(own, objects=replace(own.objects, class_names=layout.object_classes.names))

    def encode_file(self, path: str, data: bytes | None = None) -> Encoded:
        data, header = self._load_image(path, data)
        return self._make_encoded(data, self._observe(data, header))

    def as_columns(self, encoded: Encoded) -> dict[str, Any]:
        try:
            return {self.feature: Image.open(io.BytesIO(encoded.value))}
        except (OSError, ValueError, Image.DecompressionBombError) as error:
            raise ValueError(f"not an image that Pillow opens: {error}") from None

    def remember(self, encoded: Encoded) -> str:
        """Return what reuse needs of the header: format, width, height, EXIF orientation and what else is known."""
        header: ImageHeader = encoded.stats_data
        parts = [header.format, str(header.width), str(header.height), str(header.orientation)]
        if header.properties != PLAIN:
            parts.append(_PROPERTIES_PREFIX + header.properties.to_text())
        if self.companions:
            kinds = (companion.source_kind for companion in encoded.annotations.companions)
            parts.append(_COMPANIONS_PREFIX + ",".join(kinds))
        if header.original is not None:
            parts.append(_FOUND_PREFIX + ",".join(map(str, header.original)))
        if header.observed:
            parts += [header.observed, header.observed_by]
        return " ".join(parts)

    def recall(self, value: bytes, remembered: str, record: bytes = b"") -> Encoded:
        if not self.companions:
            return self._make_encoded(value, self._observe(value, _parse_header(remembered)))
        parts = remembered.split(" ")
        companion_text = next(item for item in parts if item.startswith(_COMPANIONS_PREFIX))
        parts.remove(companion_text)
        encoded = self._make_encoded(value, self._observe(value, _parse_header(" ".join(parts))))
        kinds = companion_text.removeprefix(_COMPANIONS_PREFIX)
        companions = image_companions.restore_companions(self.companions, self.renames, record, kinds, self.has_sizes)
        return encoded._replace(annotations=_Annotations(companions=companions))

    def depends_on(self) -> dict[str, str]:
        options = super().depends_on()
        del options["observer"], options["objects"]
        if not self.companions:
            del options["companions"]
        return options if self.objects is None else {**options, "objects": "noted"}

    def prepare(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch if self.objects is None else self.objects.prepare(batch, self.reencode)

    @property
    def is_compiled(self) -> bool:
        """True if local images are stored as they are, and nothing is computed of their pixels."""
        own = self.reencode is None and not self.companions and self.observer is None
        names = None if self.objects is None else self.objects.names
        return (
            spans.COMPILED
            and storage.is_local(self.root)
            and own
            and self.verify == "header"
            and (names is None or not names.is_detection_api)
        )

    def encode_compiled(
        self, batch: pa.RecordBatch, stored_files: Sequence[StoredFile | None], returns_places: bool
    ) -> tuple[EncodedChunk, list[RecordPlace | None]] | None:
        """Read, check and frame images in two compiled calls; those that are unusual are checked in Python."""
        sizes = batch["size"].to_numpy()
        room = int(sizes.sum())
        is_stored = any(stored_files)
        if not self.is_compiled or is_stored or LABELS.name in batch.schema.names or room > _COMPILED_BYTES:
            return None
        paths, root = batch["name"], storage.join(self.root, "")
        if batch["uri"].null_count < len(batch):
            paths, root = pc.coalesce(batch["uri"], pc.binary_join_element_wise(root, paths, "")), ""
        images = read_plain_images(root, paths, room, self.max_pixels)
        is_read, unusual = images.is_read, dict[int, Encoded | Exception]()
        with storage.note_objects() as objects:
            for row in np.flatnonzero(images.rows["format"] == 0).tolist():
                data = images.value(row) if is_read[row] else None
                unusual[row] = self._try_encode(root + paths[row].as_py(), data, int(sizes[row]), None)
        revisions = np.where(is_read, hash_statuses(images.statuses), -1)
        self._check_unchanged(batch, stored_files, revisions, objects)
        return self._frame_images(batch, _add_unusual(images, unusual), unusual, returns_places)

    def _frame_images(
        self, batch: pa.RecordBatch, images: PlainImages, unusual: Mapping[int, Encoded | Exception], has_places: bool
    ) -> tuple[EncodedChunk, list[RecordPlace | None]]:
        """Annotate and frame images; `unusual` holds those that were checked in Python, by row, or their errors."""
        errors = {row: file for row, file in unusual.items() if isinstance(file, Exception)}
        own_errors, objects = errors, None
        if self.objects is not None:
            sides = images.rows[["width", "height", "orientation"]].tolist()
            pictures: list[Picture | None] = list(map(Picture._make, sides))
            for row in errors:
                pictures[row] = None
            object_rows, places, problems = self.objects.annotate(batch, pictures, None)
            objects = take_rows(object_rows, places)
            errors = {**problems, **errors}
        headers = {
            row: file.stats_data for row, file in unusual.items() if isinstance(file, Encoded) and row not in errors
        }
        reasons = {row: describe_refusal(errors[row]) for row in sorted(errors)}
        names, lines = batch["name"], batch["line"]
        rejects = [Reject(names[row].as_py(), lines[row].as_py(), "write", reason) for row, reason in reasons.items()]
        kept = np.arange(len(batch))
        if errors:
            kept = np.setdiff1d(kept, list(errors))
            batch, images = batch.take(pa.array(kept)), PlainImages(images.data, images.rows[kept])
            objects = None if objects is None else objects.take(pa.array(kept))
        entries, labels = batch["columns"], batch["label"]
        labels = (pc.fill_null(labels, -1) if labels.null_count else labels).to_numpy()
        if objects is not None:
            pair = (column.cast(pa.large_binary()) for column in (objects["entries"], entries))
            entries = pc.binary_join_element_wise(*pair, pa.scalar(b"", pa.large_binary()), null_handling="replace")
        framed = frame_plain_images(images, self._feature_names, labels, batch["name"], entries)
        stats = self._count_images(images, framed, list(headers.values()), labels, batch["name"].to_pylist(), objects)
        chunk = EncodedChunk(framed.framed, len(batch), rejects, stats)
        if self.columns:
            entries = [entry or b"" for entry in batch["columns"].to_pylist()]
            chunk.columns = decode_columns(self.columns, self.renames, entries)
            of_files = ([None if label < 0 else label for label in labels.tolist()], *_names_and_lines(batch))
            chunk.stats = ManifestStats(stats, column_stats(chunk.columns, *of_files))
        if len(batch):
            chunk.contents = _contents_of(batch, images, framed, labels, self._size_names)
        if not has_places:
            return chunk, []
        found: dict[int, RecordPlace | None] = {
            row: RecordPlace(reason=reason)
            for row, reason in reasons.items()
            if row in own_errors and not isinstance(errors[row], OSError)
        }
        starts = framed.places[:-1]
        spans_of = np.stack((starts, np.diff(framed.places), framed.values - starts), axis=1).tolist()
        for row, (offset, length, value_offset), header in zip(
            kept.tolist(), spans_of, images.rows.tolist(), strict=True
        ):
            _, size, number, width, height, orientation, is_deep, *_ = header
            known = headers.get(row) or ImageHeader(
                PLAIN_FORMATS[number], width, height, orientation, properties=Properties(is_deep=bool(is_deep))
            )
            seen = self.remember(Encoded(b"", stats_data=known))
            found[row] = RecordPlace(offset, length, value_offset, size, seen)
        return chunk, [found.get(row) for row in range(len(kept) + len(errors))]

    def _count_images(
        self,
        images: PlainImages,
        framed: FramedImages,
        unusual: Sequence[ImageHeader],
        labels: NDArray[np.int64],
        names: list[str],
        objects: pa.RecordBatch | None,
    ) -> ImageStats:
        rows = images.rows
        numbers = Counter(rows["format"].tolist())
        formats = Counter({name: numbers[number] for number, name in enumerate(PLAIN_FORMATS) if number in numbers})
        formats.pop("", None)
        stats = ImageStats(formats=formats, labels=Counter(labels[labels >= 0].tolist()))
        count_headers(stats, unusual, [""] * len(unusual))  # none is a TIFF
        heights, widths = rows["height"].tolist(), rows["width"].tolist()
        stats.sizes.add(rows["size"].tolist())
        stats.heights.add(heights)
        stats.widths.add(widths)
        stats.rotated = int(np.count_nonzero(rows["orientation"] != UPRIGHT))
        stats.properties.deep += int(rows["is_deep"].sum())
        offsets, lengths = framed.places[:-1].tolist(), np.diff(framed.places).tolist()
        stats.extremes = Extremes.from_images(MeasuredImages(names, widths, heights, offsets, lengths))
        if objects is not None and self.objects is not None and names:
            self._count_objects(stats, objects, names, self.objects)
        return stats

    @staticmethod
    def _count_objects(stats: ImageStats, rows: pa.RecordBatch, names: Sequence[str], objects: ObjectEncoder) -> None:
        stats.objects = objects.stats(rows, names)
        stats.boxes = {count_name: sum(rows[count_name].to_pylist()) for count_name in stats.boxes}

    def annotate(self, batch: pa.RecordBatch, files: Sequence[Encoded | Exception]) -> Sequence[Encoded | Exception]:
        files = files if self.objects is None else self._with_objects(batch, files, self.objects)
        if not self.companions:
            return files
        return [self._with_companions(*pair) for pair in zip(files, companion_paths(batch), strict=True)]

    def digest_values(self, batch: pa.RecordBatch) -> list[bytes | None]:
        return super(ImageEncoder, replace(self, observer=None)).digest_values(batch)

    def _with_objects(
        self, batch: pa.RecordBatch, files: Sequence[Encoded | Exception], objects: ObjectEncoder
    ) -> Sequence[Encoded | Exception]:
        pictures = [file.stats_data.picture if isinstance(file, Encoded) else None for file in files]
        rows, places, errors = objects.annotate(batch, pictures, self.reencode)
        entries = rows["entries"].to_pylist()
        annotated: list[Encoded | Exception] = []
        for number, (file, place) in enumerate(zip(files, places, strict=True)):
            if isinstance(file, Encoded) and place is not None:
                annotations = file.annotations._replace(rows=rows, row=place)
                file = file._replace(entries=file.entries + entries[place], annotations=annotations)
            annotated.append(errors.get(number, file))
        return annotated

    def _with_companions(self, file: Encoded | Exception, paths: Sequence[str]) -> Encoded | Exception:
        if isinstance(file, Exception):
            return file
        annotations: _Annotations = file.annotations
        if annotations.companions is None:
            picture, decodes = file.stats_data.picture, self.verify == "decode"
            try:
                how = (picture, self.reencode, self._load_image, self.max_pixels, decodes)
                found = image_companions.encode_companions(self.companions, paths, *how)
            except ImageError as error:
                return error
            annotations = annotations._replace(companions=found)
        entries = [
            example.bytes_entry_header(self.renames(item.feature), len(companion.data)) + companion.data
            for item, companion in zip(self.companions, annotations.companions or (), strict=True)
        ]
        return file._replace(entries=b"".join((file.entries, *entries)), annotations=annotations)

    def _observe(self, image: bytes, header: ImageHeader) -> ImageHeader:
        """Return `header` with the observer's text, unless it is known from an older build."""
        if self.observer is None or (header.observed and header.observed_by == self.observer.version):
            return header
        return replace(header, observed=self.observer.observe(image), observed_by=self.observer.version)

    def _make_encoded(self, image: bytes, header: ImageHeader) -> Encoded:
        sides = _encode_size(header.height, header.width, *self._size_names) if self.has_sizes else b""
        entries, observed = sides + self._encode_detection_entries(image, header), header.observed
        return Encoded(image, entries, header, _NO_ANNOTATIONS, observed)

    def _encode_detection_entries(self, image: bytes, header: ImageHeader) -> bytes:
        if self.objects is None or not self.objects.names.is_detection_api:
            return b""
        keys, texts = OBJECT_DETECTION_KEYS, (header.format, hashlib.sha256(image).hexdigest())
        features = (example.encode_bytes_feature([text.encode()]) for text in texts)
        return b"".join(map(example.encode_entry, (keys.format, keys.sha256), features))

    @cached_property
    def _feature_names(self) -> tuple[str, ...]:
        return tuple(map(self.renames, (self.feature, "label", "filename", "height", "width")))

    @cached_property
    def _size_names(self) -> tuple[str, str]:
        """Names of height and width; cached because a look-up in renames for each image is slow."""
        return self.renames("height"), self.renames("width")

    def count(self, files: Sequence[Encoded], labels: Counter[int], spans: RecordSpans) -> ImageStats:
        headers: list[ImageHeader] = [file.stats_data for file in files]
        names, offsets, lengths = zip(*spans, strict=True) if spans else ((), (), ())
        stats = ImageStats(labels=labels)
        stats.sizes.add([len(file.value) for file in files])
        count_headers(stats, headers, names)
        if self.companions:
            stats.companions = self._count_companions([file.annotations.companions for file in files], names)
        if self.has_sizes:
            widths, heights = [header.width for header in headers], [header.height for header in headers]
            stats.heights.add(heights)
            stats.widths.add(widths)
            stats.extremes = Extremes.from_images(MeasuredImages(names, widths, heights, offsets, lengths))
        if self.objects is not None and files:
            rows = take_rows(files[0].annotations.rows, [file.annotations.row for file in files])  # all share the rows
            self._count_objects(stats, rows, names, self.objects)
        return stats

    def _count_companions(
        self, files: Sequence[Sequence[image_companions.EncodedCompanion]], names: Sequence[str]
    ) -> dict[str, CompanionStats]:
        stats_by_feature = {}
        for index, item in enumerate(self.companions):
            encoded = [companions[index] for companions in files]
            headers = [companion.header for companion in encoded if companion.header is not None]
            stats = CompanionStats()
            if item.codec is None:
                count_headers(stats, headers, names)
            else:
                stats.formats["png"] = len(encoded)
                stats.source_kinds = Occurrences.of_texts([companion.source_kind for companion in encoded], names)
                stats.tops = image_companions.count_extremes(companion.data for companion in encoded)
            stats.sizes.add([len(companion.data) for companion in encoded])
            stats_by_feature[item.feature] = stats
        return stats_by_feature

    def describe(
        self, summary: InputSummary, layout: Any, stats: Sequence[SplitStats] = (), for_tfds: bool = True
    ) -> tuple[Features, Sequence[str]]:
        written, boxes = ImageStats(), Counter[str]()
        for images in stats:
            if isinstance(images, ImageStats):
                written.merge(images)
                boxes += Counter(images.boxes)
        names = TFDS_NAMES if self.objects is None else self.objects.names
        # If images have sizes, their formats are known.
        encoding = next(iter(written.formats)) if len(written.formats) == 1 and self.has_sizes else ""
        annotations: Features = ()
        if names.is_detection_api:
            keys = (OBJECT_DETECTION_KEYS.format, OBJECT_DETECTION_KEYS.sha256)
            annotations = tuple(Feature(name, "bytes", "text", role="source") for name in keys)
        if self.objects is not None and layout.object_classes is not None:
            annotations += object_features(self.objects.members, layout.object_classes.names, names)
        formats = {name: list(found.formats) for name, found in written.companions.items()}
        annotations += image_companions.companion_features(
            self.companions, formats, self.has_sizes, summary.mask_classes
        )
        image = Feature("image", "bytes", "image", encoding=encoding)
        sizes = ("height", "width") if self.has_sizes else ()
        return file_features(layout, summary.records, image, sizes, annotations), [
            *image_features.turned_notices(written.rotated),
            *image_features.property_notices(written.properties, self.reencode is not None),
            *(image_features.animation_notices(written.formats) if for_tfds else ()),
            *(image_features.naming_notices(names) if for_tfds else ()),
            *image_features.box_notices(boxes),
            *image_companions.companion_notices(self.companions, written.companions, self.reencode is not None),
        ]

    def _load_image(self, path: str, data: bytes | None) -> tuple[bytes, ImageHeader]:
        data = storage.read_bytes(path) if data is None else data
        if self.reencode is not None:
            header = ImageHeader(*image_codec.measure_image(data))
            image_codec.check_pixel_count(header, self.max_pixels)
            if self.coordinates and (orientation := image_codec.pillow_orientation(data)) != UPRIGHT:
                raise ImageError(rotation_reason(orientation, self.coordinates))
            needs_original = self.objects is not None or any(item.codec for item in self.companions)
            original = (
                Picture(header.width, header.height, image_codec.pillow_orientation(data)) if needs_original else None
            )
            stored, stored_format, width, height, properties = image_codec.reencode(data, self.reencode)
            return stored, ImageHeader(stored_format, width, height, original=original, properties=properties)
        if self.verify == "none":
            return data, ImageHeader("unchecked", 0, 0, properties=find_properties(data))
        return data, image_codec.check_image(data, self.verify, self.max_pixels)


def count_headers(stats: ImageStats | CompanionStats, headers: Sequence[ImageHeader], names: Sequence[str]) -> None:
    """Count the formats, orientations and properties of images in `stats`, given the names of their files."""
    stats.formats.update([header.format for header in headers])
    stats.rotated += sum([header.orientation != UPRIGHT for header in headers])
    counts = stats.properties
    counts.nodata = Occurrences.of_texts([header.properties.nodata for header in headers], names)
    for header in headers:
        if (found := header.properties) is not PLAIN:  # as few have any
            counts.deep += found.is_deep
            counts.transparent += found.is_transparent
            counts.transparent_tiffs += found.is_transparent_tiff
            counts.several_frames += found.has_frames
            counts.more_bands += found.has_bands
            if found.highest:
                counts.highest.add([found.highest])


@lru_cache(maxsize=4096)
def _parse_header(remembered: str) -> ImageHeader:
    image_format, width, height, orientation, *rest = remembered.split(" ")
    header = ImageHeader(image_format, int(width), int(height), int(orientation))
    if rest and rest[0].startswith(_PROPERTIES_PREFIX):
        properties = Properties.from_text(rest.pop(0).removeprefix(_PROPERTIES_PREFIX))
        header = replace(header, properties=properties)
    if rest and rest[0].startswith(_FOUND_PREFIX):
        header = replace(header, original=Picture(*map(int, rest.pop(0).removeprefix(_FOUND_PREFIX).split(","))))
    return replace(header, observed=rest[0], observed_by=rest[1]) if rest else header


@lru_cache(maxsize=4096)
def _encode_size(height: int, width: int, *names: str) -> bytes:
    sides = zip(names, (height, width), strict=True)
    return b"".join(example.encode_entry(name, example.encode_int64_feature([pixels])) for name, pixels in sides)


def _add_unusual(images: PlainImages, unusual: Mapping[int, Encoded | Exception]) -> PlainImages:
    """Add the images that were checked in Python, by row, to those that were read."""
    data, rows = [images.data], images.rows
    for row, file in unusual.items():
        if isinstance(file, Encoded):
            header: ImageHeader = file.stats_data
            rows["width"][row], rows["height"][row], rows["orientation"][row] = header.picture
            if not rows["inode"][row]:
                rows["start"][row], rows["size"][row] = sum(map(len, data)), len(file.value)
                data.append(np.frombuffer(file.value, np.uint8))
    return images if len(data) == 1 else PlainImages(np.concatenate(data), rows)


def _names_and_lines(batch: pa.RecordBatch) -> tuple[list[str], list[int | None]]:
    return batch["name"].to_pylist(), list(map(line_in_manifest, batch["line"].to_pylist()))


def _contents_of(
    batch: pa.RecordBatch,
    images: PlainImages,
    framed: FramedImages,
    labels: NDArray[np.int64],
    size_names: tuple[str, str],
) -> FileContents:
    for row in np.flatnonzero(~framed.digests.any(axis=1)).tolist():  # of few bytes
        sides = _encode_size(int(images.rows["height"][row]), int(images.rows["width"][row]), *size_names)
        framed.digests[row] = np.frombuffer(digest_content(images.value(row), sides), np.uint64)
    names, lines = _names_and_lines(batch)
    if batch["line"].null_count == len(batch):  # of a folder
        column = batch["name"]
        places = offsets_of(column).astype(np.int64)
        hashes = spans.hashes(data_of(column), places[:-1], places[1:])
        no_lines = np.zeros(len(batch), np.int64)
        ids = (labels + 1).astype(np.uint64)
        return FileContents(framed.digests.tobytes(), encode_names(names), hashes, no_lines, ids)
    classes = [None if label < 0 else label for label in labels.tolist()]
    return FileContents.from_digests(names, lines, [framed.digests.tobytes()], classes)
