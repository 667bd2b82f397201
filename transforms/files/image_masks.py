"""Masks and further images of an example, transformed with their image."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from PIL import Image

from shardmill.data import example
from shardmill.data.example import decode_example
from shardmill.data.features import NO_RENAMES, Feature, Features, Renames
from shardmill.data.media import open_image
from shardmill.text import plural
from shardmill.transforms.columns.example_bytes import FOOTER_BYTES, HEADER_BYTES
from shardmill.transforms.files.image_codec import (
    Reencode,
    check_decodes,
    measure_image,
    resize,
    translate_pillow_errors,
)
from shardmill.transforms.files.image_geometry import UPRIGHT, ImageError, Picture, inverse_orientation
from shardmill.transforms.files.image_headers import PLAIN, ImageHeader, Properties, check_structure, read_header
from shardmill.transforms.inputs.found_files import Companion
from shardmill.transforms.options.image_options import Color
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import changed_error, error_text
from shardmill.transforms.stores.storage import raise_if_store_failed

_LOSSLESS = ("png", "gif", "bmp", "tiff")
_TOPS = {"uint8": 255, "uint16": 65535}  # the highest value, by the type of values
_GRAY, _PALETTE = 0, 3  # colour types of a PNG: PNG (W3C), section 11.2.2
_PNG = b"\x89PNG"
_TURNS = {  # by EXIF's orientation, as PIL.ImageOps.exif_transpose has it
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class EncodedCompanion(NamedTuple):
    """A mask, as a gray PNG, or another companion as it is stored."""

    data: bytes
    header: ImageHeader | None = None  # of an image; None for a mask
    # of a converted mask: "palette", "deep", "shallow", "colours" or "format"; of an image: its properties or ""
    source_kind: str = ""


def encode_mask(
    data: bytes,
    picture: Picture,
    settings: Reencode | None,
    default_frame: str,
    max_pixels: int,
    decodes: bool = False,
    dtype: str = "uint8",
    colors: Sequence[Color] = (),
) -> EncodedCompanion:
    """Encode a mask as a gray PNG with the size and orientation of its stored image; values are never blended.

    A mask has a number from 0 to 255, or 65,535, for each pixel. A gray PNG of the right bits and orientation is stored
    unchanged, and only decoded if `decodes`. Other masks are rewritten with the same values:

    * palette indices, of which TensorFlow's decoder would return the grays of the colours,
    * 16 bits whose values fit into 8,
    * 8 bits where masks have 16, which TensorFlow's decoder would scale,
    * colours that are all gray,
    * with `colors`, each pixel's colour as its place among them.

    Raise an ImageError if it is not a mask, or not of the `picture` as found. `settings` are of the image.
    """
    header = read_header(data)
    if header.format not in _LOSSLESS:
        raise ImageError(
            f"a {header.format}, which may not keep the value of a pixel: make a PNG of it, by thresholds for instance"
        )
    width, height = measure_image(data)[1:] if header.format == "tiff" else (header.width, header.height)
    if width * height > max_pixels:
        raise ImageError(f"{width} x {height} pixels are more than --max_pixels {max_pixels}: a decompression bomb?")
    is_png = header.format == "png"
    if header.format != "tiff" and check_structure(data, header).orientation != UPRIGHT:
        raise ImageError("EXIF turns the mask itself: store its pixels as they are meant")
    turn = _find_turn((width, height), picture, settings is not None, default_frame)
    is_plain = not colors and is_png and data[25] == _GRAY and (data[24] == 16) == (dtype == "uint16")
    if is_plain and turn == UPRIGHT and (settings is None or settings.size is None):
        if decodes:
            check_decodes(data)
        return EncodedCompanion(data)
    check_decodes(data)
    values = _read_classes(data, colors).astype(dtype) if colors else _read_values(data, dtype)
    # Of 16 bits Pillow picks other pixels than of 8, where two are as near; of 32 the same
    image = Image.fromarray(values.astype(np.int32) if dtype == "uint16" else values)
    if turn != UPRIGHT:
        image = image.transpose(_TURNS[turn])
    if settings is not None and settings.size is not None:
        image = resize(image, settings.size, settings.mode, Image.Resampling.NEAREST)
    out = io.BytesIO()
    Image.fromarray(np.asarray(image).astype(dtype)).save(out, "PNG")
    return EncodedCompanion(out.getvalue(), source_kind="" if is_plain or colors else _name_kind(data, is_png))


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


def _name_kind(data: bytes, is_png: bool) -> str:
    if not is_png:
        return "format"
    if data[25] == _GRAY:
        return "deep" if data[24] == 16 else "shallow"
    return "palette" if data[25] == _PALETTE else "colours"


def _read_classes(data: bytes, colors: Sequence[Color]) -> np.ndarray:
    """Return the place in `colors` of each pixel's colour, shape (height, width); transparency is ignored."""
    with translate_pillow_errors("does not decode"), open_image(data) as image:
        if getattr(image, "n_frames", 1) > 1:
            raise ImageError("an animation, of which no picture is the mask")
        pixels = np.asarray(image.convert("RGB")).astype(np.uint32)
    codes = pixels[..., 0] << 16 | pixels[..., 1] << 8 | pixels[..., 2]
    known = np.array([red << 16 | green << 8 | blue for red, green, blue in colors], np.uint32)
    order = np.argsort(known)
    places = order[np.minimum(np.searchsorted(known[order], codes), len(known) - 1)]
    unknown = known[places] != codes
    if unknown.any():
        red, green, blue = pixels[unknown][0]
        raise ImageError(
            f"{plural(int(unknown.sum()), 'pixel has', 'pixels have')} a colour that --mask_colors does not"
            f" list, such as {red},{green},{blue}"
        )
    return places


def _read_values(data: bytes, dtype: str) -> np.ndarray:
    """Return the values of a mask's pixels, shape (height, width)."""
    if data.startswith(_PNG) and data[24] == 16 and data[25] != _GRAY:  # of which Pillow reads the upper 8 alone
        raise ImageError("a png of 16 bits with colours or transparency: make it gray, of one channel")
    with translate_pillow_errors("does not decode"), open_image(data) as image:
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
    if odd or values.max() > _TOPS[dtype]:
        shown = values.min() if values.min() < 0 else values.max()
        more = "; --mask_dtype uint16 takes values up to 65535" if not odd and values.max() <= _TOPS["uint16"] else ""
        raise ImageError(
            f"a mask with the value {shown}, where a pixel's is a whole number from 0 to {_TOPS[dtype]}{more}"
        )
    return np.ascontiguousarray(values.astype(dtype))


@dataclass(frozen=True)
class CompanionEncoder:
    """Encoder of the companions of images."""

    companions: tuple[Companion, ...]  # of each image
    masks_seen: str = ""  # orientation of masks if EXIF makes it ambiguous: `stored`, `upright` or "" to reject
    renames: Renames = NO_RENAMES  # of features
    mask_dtype: str = "uint8"  # type of mask values
    mask_colors: tuple[Color, ...] = ()  # colours whose places are the values of masks; () if pixels are values

    def encode(
        self,
        paths: Sequence[str],
        picture: Picture,
        settings: Reencode | None,
        encode_image: Callable[[str, bytes], tuple[bytes, ImageHeader]],
        max_pixels: int,
        decodes: bool,
    ) -> tuple[EncodedCompanion, ...]:
        """Read and encode the companions of one image, or raise an ImageError that begins with the name of one."""
        encoded = []
        for item, path, small in zip(self.companions, paths, storage.read_small(list(paths))[0], strict=True):
            try:
                data = storage.read_bytes(path) if small is None else small
                if item.is_mask:
                    how = (self.masks_seen, max_pixels, decodes, self.mask_dtype, self.mask_colors)
                    encoded.append(encode_mask(data, picture, settings, *how))
                else:
                    stored, header = encode_image(path, data)
                    properties = header.properties.to_text() if header.properties != PLAIN else ""
                    encoded.append(EncodedCompanion(stored, header, properties))
            except ImageError as error:
                raise ImageError(f"{item.display_name}: {error}") from error
            except FileNotFoundError:  # it was listed
                raise changed_error(path) from None
            except OSError as error:
                raise_if_store_failed(error, path)
                raise ImageError(f"{item.display_name}: cannot be read: {error_text(error)}") from error
        return tuple(encoded)

    def restore(self, record: bytes, source_kinds: str, has_sizes: bool) -> tuple[EncodedCompanion, ...]:
        """Return the companions in a framed example of a previous version."""
        values = decode_example(record[HEADER_BYTES:-FOOTER_BYTES])
        companions = []
        for item, source_kind in zip(self.companions, source_kinds.split(","), strict=True):
            data = bytes(values[self.renames(item.feature)][0])
            header = None
            if not item.is_mask:
                header = check_structure(data, read_header(data)) if has_sizes else ImageHeader("unchecked", 0, 0)
                if source_kind:
                    header = replace(header, properties=Properties.from_text(source_kind))
            companions.append(EncodedCompanion(data, header, source_kind))
        return tuple(companions)

    def encode_entries(self, companions: Sequence[EncodedCompanion]) -> bytes:
        """Return the serialized features of companions."""
        return b"".join(
            example.bytes_entry_header(self.renames(item.feature), len(companion.data)) + companion.data
            for item, companion in zip(self.companions, companions, strict=True)
        )


def companion_features(
    companions: Sequence[Companion], formats: dict[str, list[str]], has_known_formats: bool, mask_dtype: str = "uint8"
) -> Features:
    """Return the features of companions, in writing order; a single known format of a feature is its encoding."""
    features = []
    for item in companions:
        if item.is_mask:
            element = "" if mask_dtype == "uint8" else mask_dtype
            features.append(Feature(item.feature, "bytes", "mask", encoding="png", role="label", element=element))
        else:
            written = formats.get(item.feature, []) if has_known_formats else []
            features.append(Feature(item.feature, "bytes", "image", encoding=written[0] if len(written) == 1 else ""))
    return tuple(features)
