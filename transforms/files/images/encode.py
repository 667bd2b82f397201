"""Images as examples: read, checked, re-encoded if asked. Pure but for reading the files."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple, Self

import pyarrow as pa

from shardmill.features.object_detection import KEYS
from shardmill.features.renames import NO_RENAMES, Renames
from shardmill.records import example
from shardmill.transforms.files.encode import Encoded, FileEncoder, Laid
from shardmill.transforms.files.images import look
from shardmill.transforms.files.images.boxes import Picture
from shardmill.transforms.files.images.checked import check_pixels, checked_image
from shardmill.transforms.files.images.codec import Reencode, is_deep, measure, orientation, reencode
from shardmill.transforms.files.images.companions import Beside, CompanionEncoder
from shardmill.transforms.files.images.errors import ImageError
from shardmill.transforms.files.images.exif import UPRIGHT
from shardmill.transforms.files.images.header import ImageHeader
from shardmill.transforms.files.images.limits import MAX_PIXELS
from shardmill.transforms.files.images.objects import ObjectEncoder
from shardmill.transforms.files.noted_columns import Columns
from shardmill.transforms.formats.image_heads import is_deep_png
from shardmill.transforms.inputs.companions import paths_of
from shardmill.transforms.layout.coordinates import turned_reason
from shardmill.transforms.layout.files import Layout
from shardmill.transforms.statistics.extremes import Extremes, Measured
from shardmill.transforms.statistics.files import CompanionStats, ImageStats, SplitStats
from shardmill.transforms.stores import storage

_BESIDE = "beside:"  # before what the companions of an image were made of
_DEEP = "deep"  # where the image that was found has more than 8 bits a channel
_FOUND = "found:"  # before the width, height and orientation of a picture that was re-encoded


class _Noted(NamedTuple):
    """What was made of what is noted of an image.

    Attributes:
      beside: its companions.
      rows: as shardmill.transforms.files.images.objects.Noted has them, with the objects of several images.
      place: its row.
    """

    beside: Sequence[Beside] | None = None
    rows: pa.RecordBatch | None = None
    place: int | None = None


_NOTHING = _Noted()


def _noted(file: Encoded) -> _Noted:
    found: _Noted = file.noted or _NOTHING
    return found


@dataclass(frozen=True)
class ImageEncoder(FileEncoder):
    """Encodes references as tf.train.Example: image, label, filename, height, width, the objects in it, its companions,
    then a manifest's columns.

    Attributes:
      root: the folder that names are relative to.
      verify: how far an image is checked: `header` (format, dimensions, end of file), `decode` (every pixel) or `none`
        (not at all: then height and width are not known, and no features).
      reencode: how images are re-encoded; None passes their bytes through untouched.
      max_pixels: images of more are refused, before anything is decoded.
      coordinates: columns that name places in the picture: with them, an image that EXIF would turn is refused.
      renames: what the features are called.
      near_duplicates: whether pictures are hashed by how they look.
      objects: encodes what is annotated in images; None where nothing is.
      companions: encodes further files of each example; None where there are none.
      columns: of a manifest.
    """

    feature = "image"
    refusal = ImageError

    root: str
    verify: str = "header"
    reencode: Reencode | None = None
    max_pixels: int = MAX_PIXELS
    coordinates: tuple[str, ...] = ()
    renames: Renames = NO_RENAMES
    near_duplicates: bool = False
    objects: ObjectEncoder | None = None
    companions: CompanionEncoder | None = None
    columns: Columns = ()

    @property
    def measures(self) -> bool:
        """Whether examples have a height and a width."""
        return self.verify != "none" or self.reencode is not None

    def of_layout(self, layout: Layout) -> Self:
        """As the base says: with the names of the classes of objects, where these are stored too."""
        own = super().of_layout(layout)
        if own.objects is None or layout.object_classes is None:
            return own
        return replace(own, objects=replace(own.objects, class_names=layout.object_classes.names))

    def encode_file(self, path: str, data: bytes | None = None) -> Encoded:
        """Read, check and re-encode an image."""
        data, header = self._image(path, data)
        return self._encoded(data, self._looked_at(data, header))

    def remember(self, encoded: Encoded) -> str:
        """Format, width, height, orientation by EXIF, whether it was found with more than 8 bits a channel; the picture
        it was made of where objects are in it; what its companions were made of; and how it looks, where known."""
        header: ImageHeader = encoded.seen
        deep = f" {_DEEP}" if header.deep else ""
        look = f" {header.look} {header.looked_with}" if header.look else ""
        found = "" if header.found is None else f" {_FOUND}{','.join(map(str, header.found))}"
        beside = ""
        if self.companions is not None:
            beside = f" {_BESIDE}{self.companions.remembered(encoded.noted.beside)}"
        return f"{header.format} {header.width} {header.height} {header.orientation}{deep}{beside}{found}{look}"

    def recall(self, value: bytes, seen: str, record: bytes = b"") -> Encoded:
        """As the base says."""
        if self.companions is None:
            return self._encoded(value, self._looked_at(value, _header(seen)))
        told = seen.split(" ")
        beside = next(item for item in told if item.startswith(_BESIDE))
        told.remove(beside)
        found = self._encoded(value, self._looked_at(value, _header(" ".join(told))))
        recalled = self.companions.recalled(record, beside.removeprefix(_BESIDE), self.measures)
        return found._replace(noted=_Noted(beside=recalled))

    def depends_on(self) -> dict[str, str]:
        """As the base says: how a picture looks is looked at again where it is not known; of objects only that
        there are some."""
        told = super().depends_on()
        left_out = ("near_duplicates", "objects", *(["companions"] if self.companions is None else []))
        own = {name: value for name, value in told.items() if name not in left_out}
        return own if self.objects is None else {**own, "objects": "noted"}

    def prepare(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """As the base says: with where objects will be."""
        return batch if self.objects is None else self.objects.prepare(batch, self.reencode)

    def note(self, batch: pa.RecordBatch, files: Sequence[Encoded | Exception]) -> Sequence[Encoded | Exception]:
        """As the base says: images with the objects that are noted of them, and with their companions."""
        files = files if self.objects is None else self._with_objects(batch, files, self.objects)
        if self.companions is None:
            return files
        return [self._with_companions(*pair) for pair in zip(files, paths_of(batch), strict=True)]

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
            or file._replace(entries=file.entries + entries[place], noted=_noted(file)._replace(rows=rows, place=place))
            for number, (file, place) in enumerate(zip(files, places, strict=True))
        ]

    def _with_companions(self, file: Encoded | Exception, paths: Sequence[str]) -> Encoded | Exception:
        """An image with its companions, which are read unless they were recalled with it."""
        if isinstance(file, Exception) or self.companions is None:
            return file
        beside = _noted(file).beside
        if beside is None:
            decodes = self.verify == "decode"
            try:
                beside = self.companions.encode(
                    paths, file.seen.picture, self.reencode, self._image, self.max_pixels, decodes
                )
            except ImageError as error:
                return error
        return file._replace(
            entries=file.entries + self.companions.entries(beside), noted=_noted(file)._replace(beside=beside)
        )

    def looks(self, files: Sequence[Encoded]) -> list[str] | None:
        """As the base says."""
        return [file.seen.look for file in files] if self.near_duplicates else None

    def _looked_at(self, image: bytes, header: ImageHeader) -> ImageHeader:
        """`header` with how the image looks, if that is asked for and not known."""
        if not self.near_duplicates or (header.look and header.looked_with == self._looks_with):
            return header
        return replace(header, look=look.look_of(image), looked_with=self._looks_with)

    @cached_property
    def _looks_with(self) -> str:
        return look.version()

    def _encoded(self, image: bytes, header: ImageHeader) -> Encoded:
        sides = _size_entries(header.height, header.width, *self._sides) if self.measures else b""
        return Encoded(image, sides + self._told(image, header), header)

    def _told(self, image: bytes, header: ImageHeader) -> bytes:
        """What only the Object Detection API has said of an image."""
        if self.objects is None or not self.objects.names.of_api:
            return b""
        said = ((KEYS.format, header.format), (KEYS.sha256, hashlib.sha256(image).hexdigest()))
        return b"".join(example.entry(name, example.bytes_feature([text.encode()])) for name, text in said)

    @cached_property
    def _sides(self) -> tuple[str, str]:
        """What height and width are called: asked for each image, and a set of renames is slow to look up by."""
        return self.renames("height"), self.renames("width")

    def count(self, files: Sequence[Encoded], labels: Counter[int]) -> ImageStats:
        """The statistics of some images."""
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

    def _count_companions(self, files: Sequence[Sequence[Beside]]) -> dict[str, CompanionStats]:
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

    def point_out(self, stats: SplitStats, files: Sequence[Encoded], laid: Sequence[Laid]) -> SplitStats:
        """The extreme ones, of images that are measured, and the objects in them."""
        if self.objects is not None and isinstance(stats, ImageStats) and files:
            places = [file.noted.place for file in files]
            rows = files[0].noted.rows.take(pa.array(places))  # all share the rows
            stats.objects = self.objects.stats(rows, [name for name, _, _ in laid])
            stats.boxes = {what: sum(rows[what].to_pylist()) for what in stats.boxes}
        if self.measures and isinstance(stats, ImageStats):
            headers: list[ImageHeader] = [file.seen for file in files]
            widths, heights = [header.width for header in headers], [header.height for header in headers]
            names, offsets, lengths = zip(*laid, strict=True) if laid else ((), (), ())
            stats.extremes = Extremes.of(Measured(names, widths, heights, offsets, lengths))
        return stats

    def _image(self, path: str, data: bytes | None) -> tuple[bytes, ImageHeader]:
        """The bytes to store and their header; raises ImageError or OSError."""
        data = storage.read_bytes(path) if data is None else data
        if self.reencode is not None:
            before = ImageHeader(*measure(data))
            check_pixels(before, self.max_pixels)
            if self.coordinates and (turned := orientation(data)) != UPRIGHT:
                raise ImageError(turned_reason(turned, self.coordinates))
            asked = self.objects is not None or (self.companions is not None and self.companions.has_masks)
            found = Picture(before.width, before.height, orientation(data)) if asked else None
            stored, stored_format, width, height = reencode(data, self.reencode)
            return stored, ImageHeader(stored_format, width, height, found=found, deep=is_deep(data))
        if self.verify == "none":
            return data, ImageHeader("unchecked", 0, 0, deep=is_deep_png(data))
        return data, checked_image(data, self.verify, self.max_pixels)


@lru_cache(maxsize=4096)
def _header(seen: str) -> ImageHeader:
    image_format, width, height, orientation, *looked = seen.split(" ")
    header = ImageHeader(image_format, int(width), int(height), int(orientation))
    if looked and looked[0] == _DEEP:
        header = replace(header, deep=bool(looked.pop(0)))
    if looked and looked[0].startswith(_FOUND):
        header = replace(header, found=Picture(*map(int, looked.pop(0).removeprefix(_FOUND).split(","))))
    return replace(header, look=looked[0], looked_with=looked[1]) if looked else header


@lru_cache(maxsize=4096)
def _size_entries(height: int, width: int, *names: str) -> bytes:
    sides = zip(names, (height, width), strict=True)
    return b"".join(example.entry(name, example.int64_feature([pixels])) for name, pixels in sides)
