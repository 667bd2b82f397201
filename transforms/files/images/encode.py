"""From references to framed examples: read, check, re-encode if asked, serialize. Pure but for reading the files."""

from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from shardmill import example, tfrecord
from shardmill.rejects import Reject
from shardmill.renames import NO_RENAMES, Renames
from transforms.files.images.codec import Reencode, check_decodes, measure, orientation, reencode
from transforms.files.images.errors import ImageError
from transforms.files.images.exif import UPRIGHT
from transforms.files.images.header import ImageHeader, check_structure, read_header
from transforms.files.images.limits import MAX_PIXELS
from transforms.layout.coordinates import turned_reason
from transforms.statistics.files import ImageStats
from transforms.stores import storage
from transforms.stores.error_text import error_text
from transforms.writing.source import EncodedChunk

_STAGE = "write"


@dataclass(frozen=True)
class ImageEncoder:
    """Encodes references as tf.train.Example: image, label, filename, height, width, then a manifest's columns.

    Attributes:
      root: the folder that names are relative to.
      verify: how far an image is checked: `header` (format, dimensions, end of file), `decode` (every pixel) or `none` (not at
        all: then height and width are not known, and no features).
      reencode: how images are re-encoded; None passes their bytes through untouched.
      max_pixels: images of more are refused, before anything is decoded.
      coordinates: columns that name places in the picture: with them, an image that EXIF would turn is refused.
      renames: what the features are called.
    """

    root: str
    verify: str = "header"
    reencode: Reencode | None = None
    max_pixels: int = MAX_PIXELS
    coordinates: tuple[str, ...] = ()
    renames: Renames = NO_RENAMES

    @property
    def measures(self) -> bool:
        """Whether examples have a height and a width."""
        return self.verify != "none" or self.reencode is not None

    def __call__(self, batch: pa.RecordBatch) -> EncodedChunk:
        """Encode the files of a PLANNED batch, in their order."""
        framed: list[bytes] = []
        rejects: list[Reject] = []
        sizes, heights, widths, formats, labels = [], [], [], [], []
        turned = 0
        columns = (batch[name].to_pylist() for name in ("name", "uri", "label", "line", "columns"))
        for name, uri, label, line, entries in zip(*columns, strict=True):
            path = uri or storage.join(self.root, name)
            try:
                image, header = self._image(path)
            except (ImageError, FileNotFoundError, PermissionError, IsADirectoryError) as error:
                rejects.append(Reject(name, line, _STAGE, reason(error)))
                continue
            except OSError as error:
                if not storage.is_local(path):
                    raise  # an object store that fails: the runner tries again, where a bad disk will not get better
                rejects.append(Reject(name, line, _STAGE, reason(error)))
                continue
            self._append(framed, name, image, header, label, entries)
            sizes.append(len(image))
            formats.append(header.format)
            turned += header.orientation != UPRIGHT
            heights.append(header.height)
            widths.append(header.width)
            labels.append(label)
        stats = ImageStats()
        stats.sizes.add(sizes)
        stats.formats.update(formats)
        stats.turned = turned
        if self.measures:
            stats.heights.add(heights)
            stats.widths.add(widths)
        stats.labels.update(label for label in labels if label is not None)
        return EncodedChunk(b"".join(framed), len(sizes), rejects, stats)

    def _image(self, path: str) -> tuple[bytes, ImageHeader]:
        """The bytes to store and their header; raises ImageError or OSError."""
        data = storage.read_bytes(path)
        if self.reencode is not None:
            self._check_pixels(ImageHeader(*measure(data)))
            if self.coordinates and (turned := orientation(data)) != UPRIGHT:
                raise ImageError(turned_reason(turned, self.coordinates))
            stored, stored_format, width, height = reencode(data, self.reencode)
            return stored, ImageHeader(stored_format, width, height)
        if self.verify == "none":
            return data, ImageHeader("unchecked", 0, 0)
        header = read_header(data)
        self._check_pixels(header)
        header = check_structure(data, header)
        if self.verify == "decode":
            check_decodes(data)
        return data, header

    def _check_pixels(self, header: ImageHeader) -> None:
        if header.width * header.height > self.max_pixels:
            raise ImageError(
                f"a {header.format} of {header.width} x {header.height} pixels is more than --max_pixels {self.max_pixels}: "
                "a decompression bomb?"
            )

    def _append(
        self, framed: list[bytes], name: str, image: bytes, header: ImageHeader, label: int | None, entries: bytes | None
    ) -> None:
        filename = name.encode()
        sizes = _size_entries(header.height, header.width, self.renames) if self.measures else b""
        after = (
            label_entry(label, self.renames)
            + example.bytes_entry_header(self.renames("filename"), len(filename))
            + filename
            + sizes
            + (entries or b"")
        )
        before = example.bytes_entry_header(self.renames("image"), len(image))
        before = example.example_header(len(before) + len(image) + len(after)) + before
        record = (before, image, after)
        framed.append(tfrecord.header(sum(map(len, record))))
        framed += record
        framed.append(tfrecord.footer(record))


@lru_cache(maxsize=4096)
def label_entry(label: int | None, renames: Renames) -> bytes:
    """The entry of a label by id; nothing for none."""
    return b"" if label is None else example.entry(renames("label"), example.int64_feature([label]))


@lru_cache(maxsize=4096)
def _size_entries(height: int, width: int, renames: Renames) -> bytes:
    sides = (("height", height), ("width", width))
    return b"".join(example.entry(renames(side), example.int64_feature([pixels])) for side, pixels in sides)


def reason(error: Exception) -> str:
    """Why a file could not be read, as it will stand in rejects/."""
    if isinstance(error, FileNotFoundError):
        return "no such file: it vanished after it was listed"
    if isinstance(error, OSError):
        return f"cannot be read: {error_text(error)}"
    return str(error)
