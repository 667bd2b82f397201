"""Encode masks as gray PNGs that fit their stored images."""

import io
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import ExifTags, Image, ImageOps

from shardmill.data.features import Feature
from shardmill.data.media import open_image
from shardmill.text import plural
from shardmill.transforms.files import image_codec
from shardmill.transforms.files.image_geometry import UPRIGHT, ImageError, Picture, inverse_orientation
from shardmill.transforms.files.image_headers import ImageHeader, check_structure, read_header
from shardmill.transforms.files.tiff import read_tiff

_LOSSLESS = ("png", "gif", "bmp", "tiff")
Color = tuple[int, int, int]  # red, green and blue, 0 to 255
_GRAY, _PALETTE = 0, 3  # colour types of a PNG: PNG (W3C), section 11.2.2
_PNG = b"\x89PNG"
_ONE = {"has": "has", "is": "is", "png": "PNG", "gray": "a gray PNG"}
_SEVERAL = {"has": "have", "is": "are", "png": "PNGs", "gray": "gray PNGs"}
_CONVERSIONS = {
    "palette": "{has} a palette, and {is} stored as {gray} of the places in it, for TensorFlow decodes palettes to"
    " colours",
    "shallow": "{has} 8 bits, and {is} stored with the same values in 16",
    "deep": "{has} 16 bits, and {is} stored with the same values in 8",
    "colours": "{has} colours that are all gray, and {is} stored as {gray}",
    "format": "{is} no {png}, and {is} stored as {gray} of the same values",
    "extremes": "{has} only the values 0 and 255; --mask_colors FILE stores 0 and 1, if FILE has the two lines"
    " 'background #000000' and 'object #ffffff'",
    "nodata": "{is} no {png}, and {is} stored as {gray}; the tag GDAL_NODATA calls pixels of {nodata} no data",
}


@dataclass(frozen=True, slots=True)
class MaskCodec:
    """The encoding of the masks of a job, as gray PNGs."""

    masks_seen: str = ""  # orientation of masks if EXIF makes it ambiguous: `stored`, `upright` or "" to reject
    dtype: str = "uint8"  # type of values
    colors: tuple[Color, ...] = ()  # colours whose places are the values of masks; () if pixels are values

    def encode(
        self, data: bytes, picture: Picture, settings: image_codec.Reencode | None, max_pixels: int, decodes: bool
    ) -> tuple[bytes, str]:
        """Encode a mask as a gray PNG with the size and orientation of its stored image; values are never blended.

        A mask has a number from 0 to 255, or 65,535, for each pixel. A gray PNG of the right bits and orientation is
        stored unchanged, and only decoded if `decodes`. Other masks are rewritten with the same values:

        * palette indices, of which TensorFlow's decoder would return the grays of the colours,
        * 16 bits whose values fit into 8,
        * 8 bits where masks have 16, which TensorFlow's decoder would scale,
        * colours that are all gray,
        * with colours, each pixel's colour as its place among them.

        Raise an ImageError if it is not a mask, or not of the `picture` as found.
        """
        header = read_header(data)
        if header.format not in _LOSSLESS:
            problem = f"a {header.format}, which may not keep the value of a pixel"
            raise ImageError(f"{problem}: make a PNG of it, by thresholds for instance")
        tiff = read_tiff(data) if header.format == "tiff" else None
        size = (header.width, header.height) if tiff is None else (tiff.width, tiff.height)
        image_codec.check_pixel_count(ImageHeader(header.format, *size), max_pixels)
        is_png = header.format == "png"
        if tiff is None and check_structure(data, header).orientation != UPRIGHT:
            raise ImageError("EXIF turns the mask itself: store its pixels as they are meant")
        turn = _find_turn(size, picture, settings is not None, self.masks_seen)
        is_plain = not self.colors and is_png and data[25] == _GRAY and (data[24] == 16) == (self.dtype == "uint16")
        if is_plain and turn == UPRIGHT and (settings is None or settings.size is None):
            if decodes:
                image_codec.check_decodes(data)
            return data, ""
        image_codec.check_decodes(data)
        values = _read_classes(data, self.colors).astype(self.dtype) if self.colors else _read_values(data, self.dtype)
        gray = "deep" if data[24] == 16 else "shallow"
        png = gray if data[25] == _GRAY else "palette" if data[25] == _PALETTE else "colours"
        other = f"nodata:{tiff.nodata}" if tiff is not None and tiff.nodata else "format"
        kind = "" if is_plain or self.colors else png if is_png else other
        return self.write(values, turn, settings), kind

    def write(self, values: np.ndarray, turn: int, settings: image_codec.Reencode | None) -> bytes:
        """Return a gray PNG of the values of pixels, (height, width), after they are turned and scaled."""
        # Of 16 bits Pillow picks other pixels than of 8, where two are as near; of 32 the same
        image = Image.fromarray(values.astype(np.int32) if self.dtype == "uint16" else values)
        if turn != UPRIGHT:
            image.getexif()[ExifTags.Base.Orientation] = turn
            image = ImageOps.exif_transpose(image)
        if settings is not None and settings.size is not None:
            image = image_codec.resize(image, settings.size, settings.mode, Image.Resampling.NEAREST)
        out = io.BytesIO()
        Image.fromarray(np.asarray(image).astype(self.dtype)).save(out, "PNG")
        return out.getvalue()

    def make_feature(self, name: str, classes: Sequence[tuple[int, str]] = ()) -> Feature:
        element, names = "" if self.dtype == "uint8" else self.dtype, dict(classes)
        table = tuple(names.get(value, "") for value in range(max(names, default=-1) + 1))
        return Feature(name, "bytes", "mask", class_names=table, encoding="png", role="label", element=element)

    def describe_conversion(self, source_kind: str, number: int) -> str:
        kind, _, nodata = source_kind.partition(":")
        one, several = (_CONVERSIONS[kind].format(**words, nodata=nodata) for words in (_ONE, _SEVERAL))
        return plural(number, f"mask {one}", f"masks {several}")


def _find_turn(size: tuple[int, int], picture: Picture, upright: bool, default_frame: str) -> int:
    """Return the orientation by which a mask is turned to match its stored image, which is `upright` or unchanged."""
    stored = (picture.width, picture.height)
    if size not in (stored, picture.upright):
        raise ImageError(
            f"a mask of {size[0]} x {size[1]} pixels, where the image has {stored[0]} x {stored[1]}: is it that of"
            " another image?"
        )
    if picture.orientation == UPRIGHT:
        return UPRIGHT
    if stored != picture.upright:
        frame = "stored" if size == stored else "upright"
    elif not default_frame:
        raise ImageError(
            f"EXIF (orientation {picture.orientation}) turns the image, and nothing says whether its mask is of the"
            " turned one; give --masks_seen upright if masks are, else stored"
        )
    else:
        frame = default_frame
    if upright:
        return picture.orientation if frame == "stored" else UPRIGHT
    return inverse_orientation(picture.orientation) if frame == "upright" else UPRIGHT


def _read_classes(data: bytes, colors: Sequence[Color]) -> np.ndarray:
    """Return the place in `colors` of each pixel's colour, shape (height, width); transparency is ignored."""
    with image_codec.translate_pillow_errors("does not decode"), open_image(data) as image:
        if getattr(image, "n_frames", 1) > 1:
            raise ImageError("an animation, of which no picture is the mask")
        if image.mode.startswith(("I", "F")) or (data.startswith(_PNG) and data[24] == 16):  # would be cut to 8 bits
            raise ImageError("a mask of more than 8 bits, and --mask_colors lists colours of 8: leave the flag out")
        pixels = np.asarray(image.convert("RGB")).astype(np.uint32)
    codes = pixels[..., 0] << 16 | pixels[..., 1] << 8 | pixels[..., 2]
    known = np.array([red << 16 | green << 8 | blue for red, green, blue in colors], np.uint32)
    order = np.argsort(known)
    places = order[np.minimum(np.searchsorted(known[order], codes), len(known) - 1)]
    unknown = known[places] != codes
    if unknown.any():
        raise ImageError(
            f"{plural(int(unknown.sum()), 'pixel has', 'pixels have')} a colour that --mask_colors does not"
            f" list, such as {','.join(map(str, pixels[unknown][0]))}"
        )
    return places


def _read_values(data: bytes, dtype: str) -> np.ndarray:
    if data.startswith(_PNG) and data[24] == 16 and data[25] != _GRAY:  # of which Pillow reads the upper 8 alone
        raise ImageError("a png of 16 bits with colours or transparency: make it gray, of one channel")
    with image_codec.translate_pillow_errors("does not decode"), open_image(data) as image:
        if getattr(image, "n_frames", 1) > 1:
            raise ImageError("an animation, of which no picture is the mask")
        image.load()
        values = np.asarray(image.convert("L") if image.mode == "1" else image)
    if values.ndim == 3:
        colours = values[..., : 1 if values.shape[2] <= 2 else 3]  # what follows is how opaque a pixel is
        if (colours != colours[..., :1]).any():
            raise ImageError(
                "a picture of colours, where a mask has one number a pixel: give each class its number, or give"
                " --mask_colors, a file with the class of each colour"
            )
        opaque = values[..., -1] if values.shape[2] in (2, 4) else colours[..., 0]
        if (colours == colours[0, 0]).all() and (opaque != opaque[0, 0]).any():
            raise ImageError("a picture of one colour, whose shape is in its transparency: store that as a gray PNG")
        values = colours[..., 0]
    odd = not np.issubdtype(values.dtype, np.integer) or values.min() < 0
    if odd or values.max() > np.iinfo(dtype).max:
        shown = values.min() if values.min() < 0 else values.max()
        more = "; --mask_dtype uint16 takes values up to 65535" if not odd and values.max() <= 65535 else ""
        raise ImageError(
            f"a mask with the value {shown}, where a pixel's is a whole number from 0 to {np.iinfo(dtype).max}{more}"
        )
    return np.ascontiguousarray(values.astype(dtype))
