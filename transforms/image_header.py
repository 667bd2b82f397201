"""Image formats from their bytes: recognise, measure, and see whether the file has its end. No decoder is involved.

Sources: JPEG ITU-T T.81 annex B; PNG (W3C) sections 5 and 11; GIF89a sections 15 to 27; BMP as Windows' BITMAPFILEHEADER and
BITMAPINFOHEADER; WebP RFC 9649.
"""

from dataclasses import dataclass

_PNG_END = b"IEND\xaeB`\x82"
_SOF = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # frame headers; C4, C8 and CC are DHT, JPG and DAC
_JPEG_END = b"\xff\xd9"
_ALONE = frozenset(range(0xD0, 0xD8)) | {0x01}  # markers without a length: RSTn, TEM


class ImageError(ValueError):
    """Why an image is refused, as it will stand in rejects/."""


@dataclass(frozen=True, slots=True)
class ImageHeader:
    """Format (`jpeg`, `png`, `gif`, `bmp`, `webp` or `tiff`) and size in pixels as stored, before any EXIF rotation."""

    format: str
    width: int
    height: int


def read_header(data: bytes) -> ImageHeader:
    """Recognise the image in `data` and measure it. A TIFF is recognised only: its size reads 0.

    Raises:
      ImageError: empty, of no known format, or with a header that ends early or makes no sense.
    """
    if not data:
        raise ImageError("the file is empty")
    for magic, name, measure in _FORMATS:
        if data.startswith(magic):
            try:
                width, height = measure(data)
            except IndexError:
                raise ImageError(f"truncated: the {name} header is cut short") from None
            if name != "tiff" and (width <= 0 or height <= 0):
                raise ImageError(f"a {name} of {width} x {height} pixels")
            return ImageHeader(name, width, height)
    raise ImageError(f"not an image: the file starts with {data[:8]!r}")


def check_end(data: bytes, header: ImageHeader) -> None:
    """Check that an image has a proper end.

    Raises:
      ImageError: the end is missing: the file was cut short.
    """
    if header.format == "jpeg":
        # Within the scans FF is always followed by 00 or RSTn, so an end marker after the first scan is the image's own.
        complete = data.endswith(_JPEG_END) or data.rfind(_JPEG_END) > _jpeg_segments(data)[1]
    elif header.format == "png":
        complete = data.rfind(_PNG_END) > 0
    elif header.format == "gif":
        complete = _gif_has_trailer(data)
    elif header.format == "webp":
        complete = len(data) >= int.from_bytes(data[4:8], "little") + 8
    elif header.format == "bmp":
        complete = len(data) >= int.from_bytes(data[2:6], "little")
    else:
        complete = True
    if not complete:
        raise ImageError(f"truncated: the {header.format} has no end")


def _jpeg(data: bytes) -> tuple[int, int]:
    size, _ = _jpeg_segments(data)
    return size


def _jpeg_segments(data: bytes) -> tuple[tuple[int, int], int]:
    """(width, height) of the frame and the offset of the first scan."""
    size, position = (0, 0), 2
    while True:
        if data[position] != 0xFF:
            raise ImageError(f"a jpeg with {data[position]:#04x} at byte {position}, where a marker is due")
        marker = data[position + 1]
        if marker == 0xFF:  # fill byte
            position += 1
        elif marker in _ALONE:
            position += 2
        elif marker == 0xDA:
            return size, position
        elif marker == 0xD9:
            raise ImageError("a jpeg without a scan")
        else:
            if marker in _SOF:
                height = data[position + 5] << 8 | data[position + 6]
                size = (data[position + 7] << 8 | data[position + 8], height)
            position += 2 + (data[position + 2] << 8 | data[position + 3])


def _png(data: bytes) -> tuple[int, int]:
    data[23]
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


def _gif(data: bytes) -> tuple[int, int]:
    return data[6] | data[7] << 8, data[8] | data[9] << 8


def _gif_has_trailer(data: bytes) -> bool:
    """Whether the blocks lead to a trailer; that byte alone also stands within compressed pixels."""
    try:
        position = 13 + _gif_table_bytes(data[10])
        while (block := data[position]) in (0x21, 0x2C):  # an extension, an image
            position += 2 if block == 0x21 else 11 + _gif_table_bytes(data[position + 9])
            while data[position]:
                position += 1 + data[position]
            position += 1
        return block == 0x3B
    except IndexError:
        return False


def _gif_table_bytes(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


def _bmp(data: bytes) -> tuple[int, int]:
    data[25]
    if int.from_bytes(data[14:18], "little") == 12:  # OS/2's BITMAPCOREHEADER
        return data[18] | data[19] << 8, data[20] | data[21] << 8
    height = int.from_bytes(data[22:26], "little", signed=True)  # negative: rows from the top
    return int.from_bytes(data[18:22], "little", signed=True), abs(height)


def _webp(data: bytes) -> tuple[int, int]:
    if data[8:12] != b"WEBP":
        raise ImageError(f"not an image: a RIFF file of {data[8:12]!r}")
    data[29]
    kind = data[12:16]
    if kind == b"VP8X":
        return 1 + int.from_bytes(data[24:27], "little"), 1 + int.from_bytes(data[27:30], "little")
    if kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        return 1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF)
    if kind == b"VP8 ":
        return (data[26] | data[27] << 8) & 0x3FFF, (data[28] | data[29] << 8) & 0x3FFF
    raise ImageError(f"a webp with an unknown first chunk {kind!r}")


def _tiff(data: bytes) -> tuple[int, int]:
    data[7]
    return 0, 0


_FORMATS = (
    (b"\xff\xd8", "jpeg", _jpeg),
    (b"\x89PNG\r\n\x1a\n", "png", _png),
    (b"GIF87a", "gif", _gif),
    (b"GIF89a", "gif", _gif),
    (b"BM", "bmp", _bmp),
    (b"RIFF", "webp", _webp),
    (b"II*\0", "tiff", _tiff),
    (b"MM\0*", "tiff", _tiff),
)
