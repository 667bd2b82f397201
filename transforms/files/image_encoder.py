"""Encode image files as examples."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple, Self

import pyarrow as pa

from shardmill.data import example
from shardmill.data.features import NO_RENAMES, OBJECT_DETECTION_KEYS, Renames
from shardmill.transforms.files import image_codec
from shardmill.transforms.files.encoding import Encoded, FileEncoder, ManifestColumns, RecordSpan
from shardmill.transforms.files.image_codec import (
    Reencode,
    check_image,
    check_pixel_count,
    is_deep,
    measure_image,
    pillow_orientation,
    reencode,
)
from shardmill.transforms.files.image_geometry import UPRIGHT, ImageError, Picture
from shardmill.transforms.files.image_headers import ImageHeader
from shardmill.transforms.files.image_masks import CompanionEncoder, EncodedCompanion
from shardmill.transforms.files.image_objects import ObjectEncoder
from shardmill.transforms.formats.conventions import is_16_bit_png
from shardmill.transforms.inputs.found_files import companion_paths
from shardmill.transforms.layout.files import Layout
from shardmill.transforms.layout.objects import turned_reason
from shardmill.transforms.options.image_options import MAX_PIXELS
from shardmill.transforms.statistics.files import CompanionStats, ImageStats, SplitStats
from shardmill.transforms.statistics.images import Extremes, MeasuredImages
from shardmill.transforms.stores import storage

_COMPANIONS_PREFIX = "beside:"  # before what the companions of an image were made of
_DEEP = "deep"  # where the image that was found has more than 8 bits a channel
_FOUND_PREFIX = "found:"  # before the width, height and orientation of a picture that was re-encoded


class _Annotations(NamedTuple):
    """The encoded companions and objects of an image."""

    beside: Sequence[EncodedCompanion] | None = None
    rows: pa.RecordBatch | None = None  # see Noted; shared by several images
    place: int | None = None  # this image's row in them


_NO_ANNOTATIONS = _Annotations()


def _annotations_of(file: Encoded) -> _Annotations:
    found: _Annotations = file.noted or _NO_ANNOTATIONS
    return found


@dataclass(frozen=True)
class ImageEncoder(FileEncoder):
    """Encoder of images as tf.train.Example: image, label, filename, height, width, objects, companions, manifest
    columns.
    """

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
    def measures(self) -> bool:
        """True if examples have a height and a width."""
        return self.verify != "none" or self.reencode is not None

    def of_layout(self, layout: Layout) -> Self:
        """Add the names of the classes of objects, in case they are stored too."""
        own = super().of_layout(layout)
        if own.objects is None or layout.object_classes is None:
            return own
        return replace(own, objects=replace(own.objects, class_names=layout.object_classes.names))

    def encode_file(self, path: str, data: bytes | None = None) -> Encoded:
        """Read, check and re-encode an image."""
        data, header = self._image(path, data)
        return self._encoded(data, self._looked_at(data, header))

    def remember(self, encoded: Encoded) -> str:
        """Return format, width, height, EXIF orientation and, if known, what reuse needs further.

        These are a flag for more than 8 bits a channel, the sources of companions, the picture before re-encoding, and
        the perceptual hash.
        """
        header: ImageHeader = encoded.seen
        deep = f" {_DEEP}" if header.deep else ""
        look = f" {header.look} {header.looked_with}" if header.look else ""
        found = "" if header.found is None else f" {_FOUND_PREFIX}{','.join(map(str, header.found))}"
        beside = ""
        if self.companions is not None:
            beside = f" {_COMPANIONS_PREFIX}{self.companions.remembered(encoded.noted.beside)}"
        return f"{header.format} {header.width} {header.height} {header.orientation}{deep}{beside}{found}{look}"

    def recall(self, value: bytes, seen: str, record: bytes = b"") -> Encoded:
        if self.companions is None:
            return self._encoded(value, self._looked_at(value, _header(seen)))
        told = seen.split(" ")
        beside = next(item for item in told if item.startswith(_COMPANIONS_PREFIX))
        told.remove(beside)
        found = self._encoded(value, self._looked_at(value, _header(" ".join(told))))
        recalled = self.companions.recalled(record, beside.removeprefix(_COMPANIONS_PREFIX), self.measures)
        return found._replace(noted=_Annotations(beside=recalled))

    def depends_on(self) -> dict[str, str]:
        """Leave out perceptual hashes, which are computed again if unknown; of objects, keep only that there are
        some.
        """
        told = super().depends_on()
        left_out = ("near_duplicates", "objects", *(["companions"] if self.companions is None else []))
        own = {name: value for name, value in told.items() if name not in left_out}
        return own if self.objects is None else {**own, "objects": "noted"}

    def prepare(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Add the places of objects."""
        return batch if self.objects is None else self.objects.prepare(batch, self.reencode)

    def note(self, batch: pa.RecordBatch, files: Sequence[Encoded | Exception]) -> Sequence[Encoded | Exception]:
        """Add the annotated objects and companions to images."""
        files = files if self.objects is None else self._with_objects(batch, files, self.objects)
        if self.companions is None:
            return files
        return [self._with_companions(*pair) for pair in zip(files, companion_paths(batch), strict=True)]

    def _with_objects(
        self, batch: pa.RecordBatch, files: Sequence[Encoded | Exception], objects: ObjectEncoder
    ) -> Sequence[Encoded | Exception]:
        pictures = [file.seen.picture if isinstance(file, Encoded) else None for file in files]
        rows, places, errors = objects.note(batch, pictures, self.reencode)
        entries = rows["entries"].to_pylist()
        return [
            file
            if place is None or isinstance(file, Exception)
            else errors.get(number)
            or file._replace(
                entries=file.entries + entries[place], noted=_annotations_of(file)._replace(rows=rows, place=place)
            )
            for number, (file, place) in enumerate(zip(files, places, strict=True))
        ]

    def _with_companions(self, file: Encoded | Exception, paths: Sequence[str]) -> Encoded | Exception:
        """Add companions to an image; read them unless they were recalled with it."""
        if isinstance(file, Exception) or self.companions is None:
            return file
        beside = _annotations_of(file).beside
        if beside is None:
            decodes = self.verify == "decode"
            try:
                beside = self.companions.encode(
                    paths, file.seen.picture, self.reencode, self._image, self.max_pixels, decodes
                )
            except ImageError as error:
                return error
        return file._replace(
            entries=file.entries + self.companions.entries(beside), noted=_annotations_of(file)._replace(beside=beside)
        )

    def looks(self, files: Sequence[Encoded]) -> list[str] | None:
        return [file.seen.look for file in files] if self.near_duplicates else None

    def _looked_at(self, image: bytes, header: ImageHeader) -> ImageHeader:
        """Return `header` with the perceptual hash, if it is requested and not yet known."""
        if not self.near_duplicates or (header.look and header.looked_with == self._looks_with):
            return header
        return replace(header, look=image_codec.perceptual_hash(image), looked_with=self._looks_with)

    @cached_property
    def _looks_with(self) -> str:
        return image_codec.hash_version()

    def _encoded(self, image: bytes, header: ImageHeader) -> Encoded:
        sides = _size_entries(header.height, header.width, *self._sides) if self.measures else b""
        return Encoded(image, sides + self._told(image, header), header)

    def _told(self, image: bytes, header: ImageHeader) -> bytes:
        """Return the features of an image that only the Object Detection API reads."""
        if self.objects is None or not self.objects.names.of_api:
            return b""
        said = (
            (OBJECT_DETECTION_KEYS.format, header.format),
            (OBJECT_DETECTION_KEYS.sha256, hashlib.sha256(image).hexdigest()),
        )
        return b"".join(
            example.encode_entry(name, example.encode_bytes_feature([text.encode()])) for name, text in said
        )

    @cached_property
    def _sides(self) -> tuple[str, str]:
        """Names of height and width; cached because a look-up in renames for each image is slow."""
        return self.renames("height"), self.renames("width")

    def count(self, files: Sequence[Encoded], labels: Counter[int]) -> ImageStats:
        headers: list[ImageHeader] = [file.seen for file in files]
        stats = ImageStats(formats=Counter([header.format for header in headers]), labels=labels)
        stats.sizes.add([len(file.value) for file in files])
        stats.turned = sum([header.orientation != UPRIGHT for header in headers])
        stats.deep = sum([header.deep for header in headers])
        if self.companions is not None:
            stats.beside = self._count_companions([file.noted.beside for file in files])
        if self.measures:
            stats.heights.add([header.height for header in headers])
            stats.widths.add([header.width for header in headers])
        return stats

    def _count_companions(self, files: Sequence[Sequence[EncodedCompanion]]) -> dict[str, CompanionStats]:
        found = {}
        assert self.companions is not None
        for place, item in enumerate(self.companions.companions):
            of_item = [beside[place] for beside in files]
            headers = [one.header for one in of_item if one.header is not None]
            found[item.feature] = stats = CompanionStats(
                formats=Counter("png" if one.header is None else one.header.format for one in of_item),
                turned=sum(header.orientation != UPRIGHT for header in headers),
                deep=sum(header.deep for header in headers),
                made_of=Counter(one.made_of for one in of_item if one.made_of and one.header is None),
            )
            stats.sizes.add([len(one.data) for one in of_item])
        return found

    def point_out(self, stats: SplitStats, files: Sequence[Encoded], laid: Sequence[RecordSpan]) -> SplitStats:
        """Add the extremes of measured images, and the statistics of objects."""
        if self.objects is not None and isinstance(stats, ImageStats) and files:
            places = [file.noted.place for file in files]
            rows = files[0].noted.rows.take(pa.array(places))  # all share the rows
            stats.objects = self.objects.stats(rows, [name for name, _, _ in laid])
            stats.boxes = {what: sum(rows[what].to_pylist()) for what in stats.boxes}
        if self.measures and isinstance(stats, ImageStats):
            headers: list[ImageHeader] = [file.seen for file in files]
            widths, heights = [header.width for header in headers], [header.height for header in headers]
            names, offsets, lengths = zip(*laid, strict=True) if laid else ((), (), ())
            stats.extremes = Extremes.of(MeasuredImages(names, widths, heights, offsets, lengths))
        return stats

    def _image(self, path: str, data: bytes | None) -> tuple[bytes, ImageHeader]:
        """Return the bytes to store and their header; raise an ImageError or OSError."""
        data = storage.read_bytes(path) if data is None else data
        if self.reencode is not None:
            before = ImageHeader(*measure_image(data))
            check_pixel_count(before, self.max_pixels)
            if self.coordinates and (turned := pillow_orientation(data)) != UPRIGHT:
                raise ImageError(turned_reason(turned, self.coordinates))
            asked = self.objects is not None or (self.companions is not None and self.companions.has_masks)
            found = Picture(before.width, before.height, pillow_orientation(data)) if asked else None
            stored, stored_format, width, height = reencode(data, self.reencode)
            return stored, ImageHeader(stored_format, width, height, found=found, deep=is_deep(data))
        if self.verify == "none":
            return data, ImageHeader("unchecked", 0, 0, deep=is_16_bit_png(data))
        return data, check_image(data, self.verify, self.max_pixels)


@lru_cache(maxsize=4096)
def _header(seen: str) -> ImageHeader:
    image_format, width, height, orientation, *looked = seen.split(" ")
    header = ImageHeader(image_format, int(width), int(height), int(orientation))
    if looked and looked[0] == _DEEP:
        header = replace(header, deep=bool(looked.pop(0)))
    if looked and looked[0].startswith(_FOUND_PREFIX):
        header = replace(header, found=Picture(*map(int, looked.pop(0).removeprefix(_FOUND_PREFIX).split(","))))
    return replace(header, look=looked[0], looked_with=looked[1]) if looked else header


@lru_cache(maxsize=4096)
def _size_entries(height: int, width: int, *names: str) -> bytes:
    sides = zip(names, (height, width), strict=True)
    return b"".join(example.encode_entry(name, example.encode_int64_feature([pixels])) for name, pixels in sides)
