"""The header of a BMP (Windows' BITMAPFILEHEADER and BITMAPINFOHEADER) as TensorFlow's decoder reads it.

That decoder (tensorflow/core/kernels/image/decode_image_op.cc) looks at no compression, no masks and no palette: it
copies rows of 1, 3 or 4 bytes a pixel, blue first, whatever they mean, if the sizes add up to those of the file.
"""

import struct

from shardmill.transforms.files.images.errors import ImageError, UnreadableError

_FILE_HEADER, _CORE_HEADER, _INFO_HEADER = 14, 12, 40  # bytes; the core header is OS/2's
_MASKS = (0xFF0000, 0xFF00, 0xFF)  # of red, green and blue in four bytes that lie blue first
_COMPRESSIONS = {1: "RLE of 8 bits", 2: "RLE of 4 bits", 4: "JPEG", 5: "PNG"}  # biCompression: not decoded
_RGB, _BITFIELDS = 0, 3  # biCompression
# A palette as bytes: blue, green, red and one unused
_GREYS = b"".join(bytes((level, level, level, 0)) for level in range(256))


def measure(data: bytes) -> tuple[int, int]:
    """(width, height); raises IndexError if the header is cut short."""
    data[25]
    if int.from_bytes(data[14:18], "little") == _CORE_HEADER:
        return data[18] | data[19] << 8, data[20] | data[21] << 8
    height = int.from_bytes(data[22:26], "little", signed=True)  # negative: rows from the top
    return int.from_bytes(data[18:22], "little", signed=True), abs(height)


def check(data: bytes) -> None:
    """Check that TensorFlow decodes the file, and to the right colours.

    Raises:
      ImageError: the file ends early, is of a kind that TensorFlow does not decode, or its sizes do not add up.
    """
    stated = int.from_bytes(data[2:6], "little")
    if len(data) < stated:
        raise ImageError("truncated: the bmp has no end")
    size = int.from_bytes(data[14:18], "little")
    if size < _INFO_HEADER:
        raise UnreadableError("a bmp with an OS/2 header, which TensorFlow does not decode")
    if len(data) < _FILE_HEADER + _INFO_HEADER:
        raise ImageError("truncated: the bmp header is cut short")
    bits, compression = struct.unpack_from("<HI", data, 28)
    _check_pixels(data, bits, compression)
    (start,) = struct.unpack_from("<I", data, 10)
    width, height = measure(data)
    expected = start + (width * bits // 8 + 3) // 4 * 4 * height
    if start < _FILE_HEADER + size or len(data) != expected:
        raise UnreadableError(
            f"a bmp of {len(data)} bytes, where its header says {expected}, which TensorFlow does not decode"
        )


def _check_pixels(data: bytes, bits: int, compression: int) -> None:
    if compression in _COMPRESSIONS:
        raise UnreadableError(f"a bmp compressed by {_COMPRESSIONS[compression]}, which TensorFlow does not decode")
    if compression not in (_RGB, _BITFIELDS):
        raise ImageError(f"a bmp of an unknown compression {compression}")
    if bits == 8 and compression == _RGB:
        if data[_palette(data) :][: len(_GREYS)] != _GREYS:
            raise UnreadableError("a bmp with a palette, which TensorFlow decodes to wrong colours")
    elif bits not in (24, 32):
        raise UnreadableError(f"a bmp of {bits} bits a pixel, which TensorFlow does not decode")
    elif compression == _BITFIELDS and (bits == 24 or struct.unpack_from("<III", data.ljust(66, b"\0"), 54) != _MASKS):
        raise UnreadableError("a bmp whose masks say another order of colours, which TensorFlow does not heed")


def _palette(data: bytes) -> int:
    return _FILE_HEADER + int.from_bytes(data[14:18], "little")
