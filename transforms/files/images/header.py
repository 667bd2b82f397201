"""Image formats from their bytes: recognise, measure, and see whether TensorFlow's decoders would take the file. None
is called."""

from dataclasses import dataclass, field, replace

from shardmill.transforms.files.images import bmp as bmp_file
from shardmill.transforms.files.images import foreign as foreign_files
from shardmill.transforms.files.images import gif as gif_file
from shardmill.transforms.files.images import jpeg as jpeg_file
from shardmill.transforms.files.images import png as png_file
from shardmill.transforms.files.images import webp as webp_file
from shardmill.transforms.files.images.boxes import Picture
from shardmill.transforms.files.images.errors import ImageError, UnreadableError
from shardmill.transforms.files.images.exif import UPRIGHT
from shardmill.transforms.formats.image_heads import is_deep_png


@dataclass(slots=True)  # a frozen one takes a microsecond to make, and each image has one
class ImageHeader:
    """What is known of an image before it is decoded.

    Attributes:
      format: `jpeg`, `png`, `gif`, `bmp`, `webp` or `tiff`.
      width, height: in pixels as stored, before any EXIF rotation.
      orientation: by EXIF, 1 (upright) to 8; known once the structure was checked.
      scan: where the first scan of a JPEG begins, unless it was checked.
      look: as shardmill.transforms.files.images.look has it; "" where nobody looked.
      looked_with: what that depends on beside the picture.
      checked: whether the structure is known to be good.
      found: of an image that was re-encoded, the picture that it was made of, where somebody asks.
      deep: whether the image that was found has more than 8 bits a channel.
    """

    format: str
    width: int
    height: int
    orientation: int = UPRIGHT
    scan: int = field(default=0, compare=False)
    look: str = ""
    looked_with: str = ""
    checked: bool = field(default=False, compare=False)
    found: Picture | None = None
    deep: bool = False

    @property
    def picture(self) -> Picture:
        """The picture that was found in the image's file."""
        return self.found or Picture(self.width, self.height, self.orientation)


def read_header(data: bytes) -> ImageHeader:
    """Recognise the image in `data` and measure it. A TIFF is recognised only: its size reads 0.

    Raises:
      ImageError: empty, of no known format, or with a header that ends early or makes no sense.
    """
    if not data:
        raise ImageError("the file is empty")
    if plain := jpeg_file.read_plain(data):
        return ImageHeader("jpeg", *plain, checked=True)
    for magic, name in _MAGICS:
        if data.startswith(magic):
            try:
                header = _measure(data, name)
            except IndexError:
                raise ImageError(f"truncated: the {name} header is cut short") from None
            if name != "tiff" and (header.width <= 0 or header.height <= 0):
                raise ImageError(f"a {name} of {header.width} x {header.height} pixels")
            return header
    raise _unknown(data)


def check_structure(data: bytes, header: ImageHeader) -> ImageHeader:
    """Check that an image is whole, and of a kind that TensorFlow decodes as RGB, as far as is seen without decoding.

    Returns:
      `header`, with the orientation.

    Raises:
      ImageError: the end is missing, a chunk is damaged, or TensorFlow does not decode such a file.
    """
    if header.checked:
        return header
    turned = header.orientation
    if header.format == "jpeg":
        jpeg_file.check(data, header.scan)
    elif header.format == "png":
        turned = png_file.check(data)
    elif header.format == "gif":
        gif_file.check(data)
    elif header.format == "bmp":
        bmp_file.check(data)
    elif header.format == "webp":
        turned = webp_file.check(data)
    else:
        raise UnreadableError("a TIFF, which TensorFlow does not decode")
    return header if turned == header.orientation else replace(header, orientation=turned)


def _unknown(data: bytes) -> ImageError:
    what = foreign_files.describe(data)
    if what in foreign_files.READ_BY_PILLOW:
        return UnreadableError(f"{what}, which TensorFlow does not decode")
    if what in foreign_files.READ_BY_NONE:
        return ImageError(f"{what}, which neither TensorFlow nor Pillow decodes: convert it first")
    return ImageError(f"not an image: {what or f'the file starts with {data[:8]!r}'}")


def _measure(data: bytes, name: str) -> ImageHeader:
    if name == "jpeg":
        width, height, turned, scan = jpeg_file.read_segments(data)
        return ImageHeader(name, width, height, turned, scan)
    if name == "tiff":
        data[7]
        return ImageHeader(name, 0, 0)
    return ImageHeader(name, *_MEASURES[name](data), deep=is_deep_png(data))


_MEASURES = {"png": png_file.measure, "gif": gif_file.measure, "bmp": bmp_file.measure, "webp": webp_file.measure}
_MAGICS = (
    (b"\xff\xd8", "jpeg"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"BM", "bmp"),
    (b"RIFF", "webp"),
    (b"II*\0", "tiff"),
    (b"MM\0*", "tiff"),
)
