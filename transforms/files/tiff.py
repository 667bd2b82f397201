"""Tags, pages and bands of TIFF files; pixels of more bands than Pillow reads are decoded by tifffile, an extra."""

import io
import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from PIL import TiffImagePlugin

from shardmill.installed import install_hint
from shardmill.transforms.files.image_geometry import UPRIGHT, ImageError
from shardmill.transforms.stores.protocol import error_text

_STARTS = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")  # classic and BigTIFF
# Tags of TIFF 6.0
_SUBFILE, _WIDTH, _HEIGHT, _BITS, _PHOTOMETRIC, _ORIENTATION, _SAMPLES = 254, 256, 257, 258, 262, 274, 277
_EXTRA, _FORMAT = 338, 339
_NODATA = 42113  # GDAL_NODATA: the driver "GTiff" of GDAL
_SMALLER, _MASK = 1, 4  # bits of NewSubfileType: a page that is a smaller copy of another, or its mask
_COLOURS = {2: 3, 5: 4, 6: 3, 8: 3}  # samples of a pixel by PhotometricInterpretation; 1 for all others
_ALPHAS = (1, 2)  # ExtraSamples that are transparency
_MOST_PAGES = 100_000  # against files whose pages lead round
_UNSIGNED = 1  # SampleFormat


def is_tiff(data: bytes) -> bool:
    """Return True if `data` begins like a TIFF."""
    return data.startswith(_STARTS)


@dataclass(frozen=True)
class Tiff:
    """The first page of a TIFF, and the number of its pages without smaller copies and masks."""

    width: int  # in pixels as stored
    height: int
    bits: int  # of a sample, the most of all bands
    samples: int  # bands, with transparency
    photometric: int
    extra: tuple[int, ...]  # meanings of the samples beyond the colours
    is_unsigned: bool  # True if samples are unsigned integers
    orientation: int
    nodata: str  # value of pixels that are no data, without white space and commas; "" for none
    pages: int

    @cached_property
    def has_alpha(self) -> bool:
        """True if the last sample says how opaque a pixel is."""
        return self._extra_samples == 1 and self.extra[:1] != () and self.extra[0] in _ALPHAS

    @property
    def _extra_samples(self) -> int:
        return self.samples - _COLOURS.get(self.photometric, 1)

    def check_bands(self, chosen: tuple[int, ...]) -> None:
        """Raise an ImageError if bands would be lost, or if a chosen band, counted from 1, does not exist."""
        if chosen and max(chosen) > self.samples:
            raise ImageError(f"a TIFF of {self.samples} bands, of which --image_bands names band {max(chosen)}")
        if not chosen and self._extra_samples > self.has_alpha:
            three = "1,2,3" if self.samples > 2 else "1"
            raise ImageError(
                f"a TIFF of {self.samples} bands, of which an image holds 1 or 3; --image_format png --image_bands"
                f" {three} stores those, and `shardmill arrays` stores all bands"
            )

    def check_pages(self) -> None:
        """Raise an ImageError if there are several pages."""
        if self.pages > 1:
            raise ImageError(
                f"a TIFF of {self.pages} pages, of which an image holds one; --image_format png --on_several_frames"
                " first stores the first one, and `shardmill arrays` stores all pages"
            )


def read_tiff(data: bytes) -> Tiff:
    """Read the tags of a TIFF, without its pixels; raise an ImageError if they are cut short or incomplete."""
    try:
        header = data[:16] if data[2:4] in (b"+\0", b"\0+") else data[:8]
        page = TiffImagePlugin.ImageFileDirectory_v2(header)
        file, first, pages, seen = io.BytesIO(data), None, 0, set[int]()
        while page.next and page.next not in seen and len(seen) < _MOST_PAGES:
            seen.add(page.next)
            file.seek(page.next)
            page.load(file)
            if first is None:
                first = _describe(page)
                pages = 1
            elif not page.get(_SUBFILE, 0) & (_SMALLER | _MASK):
                pages += 1
        if page.next:
            raise ValueError("a page leads back to another")
    except Exception as error:  # what Pillow's parsing happens to raise
        raise ImageError(f"a TIFF whose tags cannot be read: {error_text(error)}") from error
    if first is None:
        raise ImageError("truncated: a TIFF without a page")
    return Tiff(**first, pages=pages)


def _describe(page: Any) -> dict[str, Any]:
    bits, formats = page.get(_BITS, (1,)), page.get(_FORMAT, (_UNSIGNED,))
    return {
        "width": page[_WIDTH],
        "height": page[_HEIGHT],
        "bits": max(bits),
        "samples": page.get(_SAMPLES, 1),
        "photometric": page.get(_PHOTOMETRIC, 1),
        "extra": tuple(page.get(_EXTRA, ())),
        "is_unsigned": set(formats) == {_UNSIGNED},
        "orientation": page.get(_ORIENTATION, UPRIGHT),
        "nodata": "".join(re.findall(r"[^\s,\0]+", str(page.get(_NODATA, "")))[:1]),
    }


def read_array(data: bytes, first_page: bool = False) -> np.ndarray:
    """Decode a TIFF to an array of shape (height, width), with pages first and bands last if there are several.

    Raise an ImageError if tifffile is missing or cannot decode the file, or if pages differ.
    """
    try:
        import tifffile
    except ImportError:
        raise ImageError(f"needs the library tifffile; {install_hint('tiff')}") from None
    try:
        read_tiff(data)  # tifffile follows pages that lead round for ever
        with tifffile.TiffFile(io.BytesIO(data)) as file:
            pages = [page for page in file.pages if not getattr(page, "subfiletype", 0) & (_SMALLER | _MASK)]
            arrays = [_bands_last(page) for page in (pages[:1] if first_page else pages)]
    except (MemoryError, ImageError):
        raise
    except Exception as error:  # of damage, or of a compression whose package imagecodecs is missing
        hint = f"; {install_hint('tiff')}" if "imagecodecs" in str(error) else ""
        raise ImageError(f"a TIFF that tifffile does not decode: {error_text(error)}{hint}") from error
    if len({(array.shape, array.dtype) for array in arrays}) > 1:
        raise ImageError(f"a TIFF of {len(arrays)} pages of different sizes or types, which are no array")
    return arrays[0] if len(arrays) == 1 else np.stack(arrays)


def _bands_last(page: Any) -> np.ndarray:
    array: np.ndarray = page.asarray()
    if page.axes not in ("YX", "YXS", "SYX"):
        raise ImageError(f"its axes are {page.axes}; expected rows, columns and bands")
    return np.moveaxis(array, 0, -1) if page.axes == "SYX" else array


def read_bands(data: bytes, tiff: Tiff, bands: tuple[int, ...]) -> np.ndarray:
    """Decode bands of the first page, counted from 1, or all if none are given; shape (height, width, bands).

    Raise an ImageError if samples are no unsigned integers of up to 16 bits, or cannot be decoded.
    """
    if not tiff.is_unsigned or tiff.bits > 16:
        raise ImageError(
            f"a TIFF of signed numbers, floats or more than 16 bits ({tiff.bits}), where white is undefined;"
            " `shardmill arrays` stores the values"
        )
    array = read_array(data, first_page=True)
    array = array[..., None] if array.ndim == 2 else array
    return array[..., [band - 1 for band in bands]] if bands else array
