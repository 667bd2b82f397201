"""The structure of a PNG from its chunks, each with its CRC: PNG (W3C), sections 5 and 11. No decoder is involved."""

import zlib

from shardmill.transforms.files.images.errors import ImageError, UnreadableError
from shardmill.transforms.files.images.exif import UPRIGHT, orientation

_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}  # by colour type
_SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # of a pixel, by colour type
_PALETTE = 3  # the colour type whose samples are places in a palette
_FILTERS = 4  # the highest number of one
_BEYOND = 1 << 16  # bytes that may follow the last row, as some encoders write them
# Left, top, steps
_ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
_MAX_SIDE = 1_000_000  # pixels: PNG_USER_WIDTH_MAX and PNG_USER_HEIGHT_MAX of libpng


def measure(data: bytes) -> tuple[int, int]:
    """(width, height); raises IndexError if the header is cut short."""
    data[23]
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


def check(data: bytes) -> int:
    """Walk the chunks from the file's start to its end chunk; returns the EXIF orientation.

    Raises:
      ImageError: a chunk is cut short, damaged or out of place, or the header makes no sense.
    """
    _check_header(data)
    view = memoryview(data)
    seen: set[bytes] = set()
    turned, position, before = UPRIGHT, 8, b""
    while True:
        size = int.from_bytes(data[position : position + 4], "big")
        kind, end = data[position + 4 : position + 8], position + 8 + size
        if end + 4 > len(data):
            raise ImageError("truncated: the png has no end")
        if zlib.crc32(view[position + 4 : end]) != int.from_bytes(data[end : end + 4], "big"):
            raise ImageError(f"a png whose chunk {_shown(kind)} at byte {position} is damaged: its CRC is wrong")
        _check_place(kind, size, before, seen, data[25])
        if kind == b"IEND":
            return turned
        if kind == b"eXIf":
            turned = orientation(data, position + 8, end)
        seen.add(kind)
        position, before = end + 4, kind


def _check_header(data: bytes) -> None:
    if data[8:16] != b"\0\0\0\x0dIHDR" or len(data) < 29:
        raise ImageError("a png that does not begin with its header, the chunk IHDR")
    depth, colour, compression, filtering, interlacing = data[24:29]
    if depth not in _DEPTHS.get(colour, ()) or compression or filtering or interlacing > 1:
        raise ImageError(
            f"a png of {depth} bits, colour type {colour}, compression {compression}, filter {filtering}, "
            f"interlacing {interlacing}, which the format does not have"
        )
    if max(measure(data)) > _MAX_SIDE:
        raise UnreadableError(f"a png with a side of more than {_MAX_SIDE:,} pixels, which TensorFlow does not decode")


def _check_place(kind: bytes, size: int, before: bytes, seen: set[bytes], colour: int) -> None:
    """That a chunk of `size` bytes may follow `before`, and those `seen`."""
    if kind == b"IDAT":
        if colour == _PALETTE and b"PLTE" not in seen:
            raise ImageError("a png without its palette, the chunk PLTE")
        good = kind not in seen or before == kind
    elif kind == b"IEND":
        if b"IDAT" not in seen:
            raise ImageError("a png without pixels, the chunk IDAT")
        good = size == 0
    elif kind == b"PLTE":
        good = kind not in seen and b"IDAT" not in seen and 0 < size <= 768 and size % 3 == 0 and colour not in (0, 4)
    elif kind == b"IHDR":
        good = not seen
    else:
        if not kind.isalpha():
            raise ImageError(f"a png with {_shown(kind)} where the name of a chunk is due")
        good = kind[0] & 0x20 != 0  # an ancillary chunk, which a decoder may pass over
    if not good:
        raise ImageError(f"a png with a chunk {_shown(kind)} of {size} bytes, where none belongs")


def _shown(kind: bytes) -> str:
    return ascii(kind.decode("latin-1"))


def check_pixels(data: bytes) -> None:
    """Inflate the pixels of a PNG that passed `check`, to the checksum at their end, and look at each row's filter.

    Pillow takes rows that are missing for black ones, and stops reading where it has its last row; libpng does neither.

    Raises:
      ImageError: the compressed stream is damaged, or does not hold the rows that the header says.
    """
    inflate = zlib.decompressobj()
    rows = _rows(data)
    size = sum(number * (1 + length) for number, length in rows)
    try:
        pixels = inflate.decompress(_compressed(data), size + _BEYOND)
    except zlib.error as error:
        raise ImageError(f"does not decode: {error}") from None
    if len(pixels) < size or not inflate.eof:
        raise ImageError("does not decode: the compressed pixels end early")
    place = 0
    for number, length in rows:
        end = place + number * (1 + length)
        if number and max(pixels[place : end : 1 + length]) > _FILTERS:
            raise ImageError("does not decode: a row has a filter that the format does not have")
        place = end


def _compressed(data: bytes) -> bytes:
    parts, position = [], 8
    while (kind := data[position + 4 : position + 8]) != b"IEND":
        end = position + 8 + int.from_bytes(data[position : position + 4], "big")
        if kind == b"IDAT":
            parts.append(data[position + 8 : end])
        position = end + 4
    return b"".join(parts)


def _rows(data: bytes) -> list[tuple[int, int]]:
    """(number of rows, bytes in each behind its filter), for each pass of an interlaced image that has pixels."""
    (width, height), bits = measure(data), data[24] * _SAMPLES[data[25]]
    passes = _ADAM7 if data[28] else ((0, 0, 1, 1),)
    sizes = [(-(-(width - left) // across), -(-(height - top) // down)) for left, top, across, down in passes]
    return [(rows, (columns * bits + 7) // 8) for columns, rows in sizes if columns > 0 and rows > 0]
