"""Encode image files as examples."""

import hashlib
import io
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from PIL import Image

from shardmill.data import example
from shardmill.data.features import NO_RENAMES, OBJECT_DETECTION_KEYS, Renames
from shardmill.data.tfrecord import OVERHEAD
from shardmill.transforms.columns.arrow import data_of, offsets_of
from shardmill.transforms.files import image_codec
from shardmill.transforms.files.encoding import Encoded, FileEncoder, ManifestColumns, RecordSpan
from shardmill.transforms.files.image_codec import (
    Reencode,
    check_image,
    check_pixel_count,
    measure_image,
    pillow_orientation,
    reencode,
)
from shardmill.transforms.files.image_geometry import UPRIGHT, ImageError, Picture
from shardmill.transforms.files.image_headers import PLAIN, ImageHeader, PlainImages, Properties, find_properties
from shardmill.transforms.files.image_masks import CompanionEncoder, EncodedCompanion
from shardmill.transforms.files.image_objects import ObjectEncoder
from shardmill.transforms.inputs.found_files import companion_paths
from shardmill.transforms.layout.files import Layout
from shardmill.transforms.layout.objects import rotation_reason
from shardmill.transforms.options.image_options import MAX_PIXELS
from shardmill.transforms.statistics.files import CompanionStats, ImageProperties, ImageStats, SplitStats
from shardmill.transforms.statistics.images import Extremes, MeasuredImages
from shardmill.transforms.stores import storage

with suppress(ImportError):  # where it is not compiled, no image is read to be framed
    from shardmill._native import frame_images

_COMPANIONS_PREFIX = "beside:"  # before what the companions of an image were made of
_PROPERTIES_PREFIX = "has:"  # before the properties of the image that was found
_FOUND_PREFIX = "found:"  # before the width, height and orientation of a picture that was re-encoded


class _Annotations(NamedTuple):
    """The encoded companions and objects of an image."""

    companions: Sequence[EncodedCompanion] | None = None
    rows: pa.RecordBatch | None = None  # see ObjectEncoder.place; shared by several images
    row: int | None = None  # this image's row in them


_NO_ANNOTATIONS = _Annotations()


@dataclass(frozen=True)
class ImageEncoder(FileEncoder):
    """Encoder of images as tf.train.Example, with the features height and width, objects and companions."""

    feature = "image"
    refusal = ImageError

    root: str  # folder that names are relative to
    # `header` (format, size, end of file), `decode` (every pixel) or `none` (no height and width)
    verify: str = "header"
    reencode: Reencode | None = None  # how images are re-encoded; None keeps their bytes
    max_pixels: int = MAX_PIXELS  # larger images are rejected before decoding
    coordinates: tuple[str, ...] = ()  # columns with coordinates; if any, EXIF-rotated images are rejected
    renames: Renames = NO_RENAMES  # of features
    near_duplicates: bool = False  # True to compute perceptual hashes
    objects: ObjectEncoder | None = None  # encoder of annotated objects; None without
    companions: CompanionEncoder | None = None  # encoder of companions; None without
    columns: ManifestColumns = ()  # of a manifest

    @property
    def has_sizes(self) -> bool:
        """True if examples have a height and a width."""
        return self.verify != "none" or self.reencode is not None

    def of_layout(self, layout: Layout) -> Self:
        """Return the encoder, with the class names of objects if there are any."""
        own = super().of_layout(layout)
        if own.objects is None:
            return own
        if layout.object_classes is None:  # annotations of whole images alone
            return replace(own, objects=None)
        return replace(own, objects=replace(own.objects, class_names=layout.object_classes.names))

    def encode_file(self, path: str, data: bytes | None = None) -> Encoded:
        """Read, check and re-encode an image."""
        data, header = self._load_image(path, data)
        return self._make_encoded(data, self._add_hash(data, header))

    def as_columns(self, encoded: Encoded) -> dict[str, Any]:
        """Return the image as Pillow opens it."""
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
        if self.companions is not None:
            parts.append(_COMPANIONS_PREFIX + self.companions.describe_companions(encoded.annotations.companions))
        if header.original is not None:
            parts.append(_FOUND_PREFIX + ",".join(map(str, header.original)))
        if header.perceptual_hash:
            parts += [header.perceptual_hash, header.hash_version]
        return " ".join(parts)

    def recall(self, value: bytes, remembered: str, record: bytes = b"") -> Encoded:
        if self.companions is None:
            return self._make_encoded(value, self._add_hash(value, _parse_header(remembered)))
        parts = remembered.split(" ")
        companion_text = next(item for item in parts if item.startswith(_COMPANIONS_PREFIX))
        parts.remove(companion_text)
        encoded = self._make_encoded(value, self._add_hash(value, _parse_header(" ".join(parts))))
        companions = self.companions.restore(record, companion_text.removeprefix(_COMPANIONS_PREFIX), self.has_sizes)
        return encoded._replace(annotations=_Annotations(companions=companions))

    def depends_on(self) -> dict[str, str]:
        """Return all options that an encoded image depends on; hashes and objects are added anew to a reused one."""
        options = super().depends_on()
        del options["near_duplicates"], options["objects"]
        if self.companions is None:
            del options["companions"]
        return options if self.objects is None else {**options, "objects": "noted"}

    def prepare(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Add the places of objects to a batch of planned images."""
        return batch if self.objects is None else self.objects.prepare(batch, self.reencode)

    def annotate(self, batch: pa.RecordBatch, files: Sequence[Encoded | Exception]) -> Sequence[Encoded | Exception]:
        """Add the annotated objects and companions to images."""
        files = files if self.objects is None else self._with_objects(batch, files, self.objects)
        if self.companions is None:
            return files
        return [self._with_companions(*pair) for pair in zip(files, companion_paths(batch), strict=True)]

    def digest_values(self, batch: pa.RecordBatch) -> list[bytes | None]:
        return super(ImageEncoder, replace(self, near_duplicates=False)).digest_values(batch)

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
        """Add companions to an image; read them unless they were recalled with it."""
        if isinstance(file, Exception) or self.companions is None:
            return file
        annotations: _Annotations = file.annotations
        if annotations.companions is None:
            picture, decodes = file.stats_data.picture, self.verify == "decode"
            try:
                found = self.companions.encode(
                    paths, picture, self.reencode, self._load_image, self.max_pixels, decodes
                )
            except ImageError as error:
                return error
            annotations = annotations._replace(companions=found)
        entries = file.entries + self.companions.encode_entries(annotations.companions or ())
        return file._replace(entries=entries, annotations=annotations)

    def perceptual_hashes(self, files: Sequence[Encoded]) -> list[str] | None:
        return [file.stats_data.perceptual_hash for file in files] if self.near_duplicates else None

    def _add_hash(self, image: bytes, header: ImageHeader) -> ImageHeader:
        """Return `header` with the perceptual hash, if it is requested and not yet known."""
        if not self.near_duplicates or (header.perceptual_hash and header.hash_version == self._hash_version):
            return header
        return replace(header, perceptual_hash=image_codec.perceptual_hash(image), hash_version=self._hash_version)

    @cached_property
    def _hash_version(self) -> str:
        return image_codec.hash_version()

    def _make_encoded(self, image: bytes, header: ImageHeader) -> Encoded:
        sides = _encode_size(header.height, header.width, *self._size_names) if self.has_sizes else b""
        return Encoded(image, sides + self._encode_detection_entries(image, header), header, _NO_ANNOTATIONS)

    def _encode_detection_entries(self, image: bytes, header: ImageHeader) -> bytes:
        """Return the features of an image that only the Object Detection API reads."""
        if self.objects is None or not self.objects.names.is_detection_api:
            return b""
        keys, texts = OBJECT_DETECTION_KEYS, (header.format, hashlib.sha256(image).hexdigest())
        features = (example.encode_bytes_feature([text.encode()]) for text in texts)
        return b"".join(map(example.encode_entry, (keys.format, keys.sha256), features))

    @cached_property
    def _size_names(self) -> tuple[str, str]:
        """Names of height and width; cached because a look-up in renames for each image is slow."""
        return self.renames("height"), self.renames("width")

    def count(self, files: Sequence[Encoded], labels: Counter[int]) -> ImageStats:
        headers: list[ImageHeader] = [file.stats_data for file in files]
        stats = ImageStats(formats=Counter([header.format for header in headers]), labels=labels)
        stats.sizes.add([len(file.value) for file in files])
        stats.rotated = sum([header.orientation != UPRIGHT for header in headers])
        count_properties(stats.properties, headers)
        if self.companions is not None:
            stats.companions = self._count_companions([file.annotations.companions for file in files])
        if self.has_sizes:
            stats.heights.add([header.height for header in headers])
            stats.widths.add([header.width for header in headers])
        return stats

    def _count_companions(self, files: Sequence[Sequence[EncodedCompanion]]) -> dict[str, CompanionStats]:
        stats_by_feature = {}
        assert self.companions is not None
        for index, item in enumerate(self.companions.companions):
            encoded = [companions[index] for companions in files]
            headers = [companion.header for companion in encoded if companion.header is not None]
            masks = [companion for companion in encoded if companion.header is None]
            stats = CompanionStats(formats=Counter([header.format for header in headers] + ["png"] * len(masks)))
            stats.rotated = sum(header.orientation != UPRIGHT for header in headers)
            count_properties(stats.properties, headers)
            stats.source_formats = Counter(mask.source_kind for mask in masks if mask.source_kind)
            stats.sizes.add([len(companion.data) for companion in encoded])
            stats_by_feature[item.feature] = stats
        return stats_by_feature

    def add_locations(self, stats: SplitStats, files: Sequence[Encoded], spans: Sequence[RecordSpan]) -> SplitStats:
        """Add the extremes of measured images, and the statistics of objects."""
        if self.objects is not None and isinstance(stats, ImageStats) and files:
            object_rows = [file.annotations.row for file in files]
            rows = files[0].annotations.rows.take(pa.array(object_rows))  # all share the rows
            stats.objects = self.objects.stats(rows, [name for name, _, _ in spans])
            stats.boxes = {count_name: sum(rows[count_name].to_pylist()) for count_name in stats.boxes}
        if self.has_sizes and isinstance(stats, ImageStats):
            headers: list[ImageHeader] = [file.stats_data for file in files]
            widths, heights = [header.width for header in headers], [header.height for header in headers]
            names, offsets, lengths = zip(*spans, strict=True) if spans else ((), (), ())
            stats.extremes = Extremes.from_images(MeasuredImages(names, widths, heights, offsets, lengths))
        return stats

    def _load_image(self, path: str, data: bytes | None) -> tuple[bytes, ImageHeader]:
        """Return the bytes to store and their header."""
        data = storage.read_bytes(path) if data is None else data
        if self.reencode is not None:
            header = ImageHeader(*measure_image(data))
            check_pixel_count(header, self.max_pixels)
            if self.coordinates and (orientation := pillow_orientation(data)) != UPRIGHT:
                raise ImageError(rotation_reason(orientation, self.coordinates))
            companions = () if self.companions is None else self.companions.companions
            needs_original = self.objects is not None or any(item.is_mask for item in companions)
            original = Picture(header.width, header.height, pillow_orientation(data)) if needs_original else None
            stored, stored_format, width, height, properties = reencode(data, self.reencode)
            return stored, ImageHeader(stored_format, width, height, original=original, properties=properties)
        if self.verify == "none":
            return data, ImageHeader("unchecked", 0, 0, properties=find_properties(data))
        return data, check_image(data, self.verify, self.max_pixels)


def count_properties(counts: ImageProperties, headers: Sequence[ImageHeader]) -> None:
    """Count the properties of images in `counts`."""
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
    return replace(header, perceptual_hash=rest[0], hash_version=rest[1]) if rest else header


@lru_cache(maxsize=4096)
def _encode_size(height: int, width: int, *names: str) -> bytes:
    sides = zip(names, (height, width), strict=True)
    return b"".join(example.encode_entry(name, example.encode_int64_feature([pixels])) for name, pixels in sides)


_ENTRIES_BYTES = 128  # room in an Example for the tags, sizes and numbers of an image


@dataclass(frozen=True, slots=True, eq=False)
class FramedImages:
    """Framed Examples of images."""

    framed: NDArray[np.uint8]
    places: NDArray[np.int64]  # start of each record, and end of the last: (n + 1,)
    digests: NDArray[np.uint64]  # xxh3_128 of each image with its height and width, 0 if they are small: (n, 2)


def frame_plain_images(
    images: PlainImages,
    names: Sequence[str],
    labels: NDArray[np.int64],
    files: pa.LargeStringArray,
    entries: pa.LargeBinaryArray,
) -> FramedImages:
    """Encode images as Examples and frame them: image, label, filename, height, width and other features.

    Args:
        names: names of those five features.
        labels: ids of classes, -1 for none.
        files: names of the files.
        entries: the serialized entries of other features of each image, which may be empty.
    """
    rows = images.rows
    number, encoded = len(rows), [name.encode() for name in names]
    size = number * (_ENTRIES_BYTES + OVERHEAD + sum(map(len, encoded))) + int(rows["size"].sum())
    of_files, of_entries = offsets_of(files), offsets_of(entries)
    size += int(of_files[-1] - of_files[0] + of_entries[-1] - of_entries[0])
    framed, places, digests = np.empty(size, np.uint8), np.empty(number + 1, np.int64), np.empty((number, 2), np.uint64)
    others = (data_of(files), of_files, data_of(entries), of_entries)
    frame_images(images.data, rows, encoded, labels, *others, framed, places, digests)
    return FramedImages(framed[: places[-1]], places, digests)
