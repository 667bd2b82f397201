"""Recognise, measure and check image files by their bytes, without a decoder."""

import struct
import threading
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from shardmill.data import spans
from shardmill.transforms.columns.arrow import data_of, offsets_of
from shardmill.transforms.files.image_geometry import UPRIGHT, ImageError, Picture, UnreadableError, read_orientation
from shardmill.transforms.formats.conventions import is_16_bit_png

_FILE_HEADER, _CORE_HEADER, _INFO_HEADER = 14, 12, 40  # bytes; the core header is OS/2's
_MASKS = (0xFF0000, 0xFF00, 0xFF)  # of red, green and blue in four bytes that lie blue first
_COMPRESSIONS = {1: "RLE of 8 bits", 2: "RLE of 4 bits", 4: "JPEG", 5: "PNG"}  # biCompression: not decoded
_RGB, _BITFIELDS = 0, 3  # biCompression
# A palette as bytes: blue, green, red and one unused
_GREYS = b"".join(bytes((level, level, level, 0)) for level in range(256))


def measure_bmp(data: bytes) -> tuple[int, int]:
    """Return (width, height) of a BMP image; raise an IndexError if the header is cut short."""
    data[25]
    if int.from_bytes(data[14:18], "little") == _CORE_HEADER:
        return data[18] | data[19] << 8, data[20] | data[21] << 8
    height = int.from_bytes(data[22:26], "little", signed=True)  # negative: rows from the top
    return int.from_bytes(data[18:22], "little", signed=True), abs(height)


def check_bmp(data: bytes) -> None:
    """Raise an ImageError unless the BMP is complete and TensorFlow decodes it to the right colours.

    The headers are Windows' BITMAPFILEHEADER and BITMAPINFOHEADER. TensorFlow's decoder
    (tensorflow/core/kernels/image/decode_image_op.cc) ignores compression, masks and palette. It copies rows of 1, 3 or
    4 bytes a pixel, blue first, if the sizes add up to the file's size.
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
    _check_pixels(data, bits, compression, data[_FILE_HEADER + size :])
    (start,) = struct.unpack_from("<I", data, 10)
    width, height = measure_bmp(data)
    expected = start + (width * bits // 8 + 3) // 4 * 4 * height
    if start < _FILE_HEADER + size or len(data) != expected:
        raise UnreadableError(
            f"a bmp of {len(data)} bytes, where its header says {expected}, which TensorFlow does not decode"
        )


def _check_pixels(data: bytes, bits: int, compression: int, palette: bytes) -> None:
    if compression in _COMPRESSIONS:
        raise UnreadableError(f"a bmp compressed by {_COMPRESSIONS[compression]}, which TensorFlow does not decode")
    if compression not in (_RGB, _BITFIELDS):
        raise ImageError(f"a bmp of an unknown compression {compression}")
    if bits == 8 and compression == _RGB:
        if not palette.startswith(_GREYS):
            raise UnreadableError("a bmp with a palette, which TensorFlow decodes to wrong colours")
    elif bits not in (24, 32):
        raise UnreadableError(f"a bmp of {bits} bits a pixel, which TensorFlow does not decode")
    elif compression == _BITFIELDS and (bits == 24 or struct.unpack_from("<III", data.ljust(66, b"\0"), 54) != _MASKS):
        raise UnreadableError("a bmp whose masks say another order of colours, which TensorFlow ignores")


# Signatures from each format's specification; an ISO file's brand follows "ftyp" (ISO/IEC 14496-12, 23008-12).
_BRANDS = (
    (frozenset({b"avif", b"avis"}), "an AVIF image"),
    (frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"}), "a HEIC photo"),
)
_STARTS: tuple[tuple[Any, ...], ...] = (
    ((b"PK\x03\x04", b"PK\x05\x06"), "a zip archive"),
    (b"\x1f\x8b", "a gzip file, as .nii.gz files of nibabel are"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"%PDF-", "a PDF"),
    ((b"\xff\x0a", b"\0\0\0\x0cJXL \r\n\x87\n"), "a JPEG XL image"),
    (b"\0\0\0\x0cjP  \r\n\x87\n", "a JPEG 2000 image"),
    (b"8BPS", "a Photoshop file"),
    (b"\0\0\x01\0", "an icon (ICO)"),
    (b"icns", "an icon (ICNS), which holds pictures of several sizes; store one of them as a PNG"),
    (b"version https://git-lfs", "a Git LFS pointer, whose image was not pulled"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file, which h5py reads"),
    (b"MATLAB 5.0 MAT-file", "a MATLAB file, which scipy.io.loadmat reads"),
    (b"DICM", "a DICOM image, which pydicom reads", 128),
    (b"n+1\0", "a NIfTI volume, which nibabel reads", 344),
    (b"ID3", "an MP3 file"),
    (b"SIMPLE  =", "a FITS image, which astropy reads"),
    (b"\x93NUMPY", "a .npy array, which `shardmill arrays` reads"),
)
_TEXTS = (
    ((b"<!doctype html", b"<html"), "a web page (HTML), which a server may have answered in place of an image"),
    (b"<svg", "an SVG drawing"),
    (b"<?xml", "an XML file"),
)


READ_BY_PILLOW = frozenset({"an AVIF image", "a JPEG 2000 image", "a Photoshop file", "an icon (ICO)"})
READ_BY_NONE = frozenset({"a HEIC photo", "a JPEG XL image", "an SVG drawing"})


def describe_foreign(data: bytes) -> str:
    """Return what `data` is, with its article, such as `a zip archive`; "" if unknown."""
    if data[4:8] == b"ftyp":
        end = min(int.from_bytes(data[:4], "big"), 64)
        # The major one, then those it is compatible with
        brands = [data[8:12], *(data[at : at + 4] for at in range(16, end, 4))]
        for known, what in _BRANDS:
            if known & set(brands):
                return what
        return "a video or another ISO media file, whose frames ffmpeg writes as images"
    for start, what, *places in _STARTS:
        if data.startswith(start, *places):
            return what
    text = data[:512].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    for start, what in _TEXTS:
        if text.startswith(start):
            return "an SVG drawing" if start == b"<?xml" and b"<svg" in text else what
    return ""


_EXTENSION, _IMAGE, _TRAILER = 0x21, 0x2C, 0x3B  # how blocks begin
_CONTROL = 0xF9  # the extension that says which colour of the next frame is transparent (GIF89a, section 23)


def measure_gif(data: bytes) -> tuple[int, int]:
    """Return (width, height) of a GIF's screen, enlarged by its first frame, as by Pillow; raises IndexError."""
    screen, frame = (data[6] | data[7] << 8, data[8] | data[9] << 8), (0, 0, 0, 0)
    with suppress(IndexError, struct.error):  # of a GIF that check_gif refuses
        frame = struct.unpack_from("<HHHH", data, _find_first_frame(data)[0] + 1)
    return max(screen[0], frame[0] + frame[2]), max(screen[1], frame[1] + frame[3])


def check_gif(data: bytes) -> None:
    """Raise an ImageError unless the blocks of a GIF (GIF89a, sections 15 to 27) lead to its end, over some frame."""
    try:
        frames = _count_frames(data)
    except IndexError:
        raise ImageError("truncated: the gif has no end") from None
    if not frames:
        raise ImageError("a gif without a frame")


def has_transparent_colour(data: bytes) -> bool:
    """Return True if the first frame of a GIF that check_gif accepts has a transparent colour."""
    return _find_first_frame(data)[1]


def _find_first_frame(data: bytes) -> tuple[int, bool]:
    """Return where the first frame of a GIF begins, and whether it has a transparent colour."""
    position = 13 + _count_table_bytes(data[10])
    has_colour = False
    while data[position] == _EXTENSION:  # up to the first frame
        if data[position + 1] == _CONTROL:
            has_colour = data[position + 3] & 1 == 1
        position += 2
        while data[position]:
            position += 1 + data[position]
        position += 1
    return position, has_colour


def _count_frames(data: bytes) -> int:
    # The byte of the trailer also occurs among compressed pixels, so all blocks are walked.
    frames, position = 0, 13 + _count_table_bytes(data[10])
    while (block := data[position]) != _TRAILER:
        if block == _IMAGE:
            frames += 1
            if not (data[10] | data[position + 9]) & 0x80:
                raise ImageError(f"a gif whose frame {frames} has no colour map, neither its own nor the file's")
            bits = data[position + 10 + _count_table_bytes(data[position + 9])]
            if not 1 <= bits <= 8:
                raise ImageError(f"a gif whose frame {frames} is coded with {bits} bits, where 1 to 8 are possible")
            position += 11 + _count_table_bytes(data[position + 9])
        elif block == _EXTENSION:
            position += 2
            if not data[position]:
                raise UnreadableError(f"a gif with an empty extension at byte {position - 2}, which TensorFlow refuses")
        else:
            raise ImageError(f"a gif with {block:#04x} at byte {position}, where a block is due")
        while data[position]:
            position += 1 + data[position]
        position += 1
    return frames


def _count_table_bytes(flags: int) -> int:
    return 3 << (flags & 7) + 1 if flags & 0x80 else 0


try:
    from shardmill._native import plain_jpeg, plain_jpegs, read_images
except ImportError:  # not compiled

    def plain_jpegs(data: Any, starts: Any, ends: Any, out: Any) -> None:
        """Replace the C extension if it is not compiled: set all sizes to 0, as if no image were a plain JPEG."""
        out[:] = 0

    def plain_jpeg(data: Any) -> tuple[int, int, int, int] | None:
        """Replace the C extension if it is not compiled: return None, as if the file were no plain JPEG."""
        return None

    def read_images(
        root: bytes, paths: Any, places: spans.Positions, ranges: Any, max_pixels: int, target: Any, rows: Any
    ) -> int:
        """Replace the C extension if it is not compiled: leave all files to Python."""
        rows[:] = 0
        return 0


_SOF = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # frame headers; C4, C8 and CC are DHT, JPG and DAC
# Sequential and progressive, Huffman and arithmetic, as libjpeg-turbo does
_DECODED = frozenset({0xC0, 0xC1, 0xC2, 0xC9, 0xCA})
_ALONE = frozenset(range(0xD0, 0xD8)) | {0x01}  # markers without a length: RSTn, TEM
# Markers (ITU T.81, table B.1)
_EOI, _SOS, _DHT, _DAC, _DQT, _DNL, _DRI, _APP1, _COM = 0xD9, 0xDA, 0xC4, 0xCC, 0xDB, 0xDC, 0xDD, 0xE1, 0xFE
_APP14, _ADOBE_BYTES = 0xEE, 16  # Adobe's marker, and how long it is at least, as libjpeg has it
# Which may follow a scan
_AFTER_SCAN = frozenset({_SOS, _DHT, _DAC, _DQT, _DNL, _DRI, _COM, *range(0xE0, 0xF0)})
_IN_SCAN = {0x00, *range(0xD0, 0xD8), 0xFF}  # what may follow FF among compressed pixels: stuffing, RSTn, fill
_STRAY = bytes(byte not in _IN_SCAN for byte in range(256))
_WINDOW_BYTES = 1 << 20  # searched at once: a file of markers and nothing else must not become a list of them


def read_plain(data: bytes) -> tuple[int, int, int] | None:
    """Return (width, height, EXIF orientation) of a JPEG of the usual form, in a tenth of the time of a full check.

    Return None if either would refuse the file, and for all files left to them.
    """
    if (found := plain_jpeg(data)) is None:
        return None
    width, height, exif, end = found
    return width, height, read_orientation(data, exif, end) if exif else UPRIGHT


def plain_sizes(data: Any, starts: Any, ends: Any) -> np.ndarray:
    """Return the (width, height) of each image `data[start:end]` of a contiguous buffer: int64, shape (images, 2).

    Sizes are 0 for images that are not JPEGs as `read_plain` accepts them, or that have EXIF data.
    """
    sizes = np.empty((len(starts), 2), np.int64)
    plain_jpegs(data, np.ascontiguousarray(starts, np.int64), np.ascontiguousarray(ends, np.int64), sizes)
    return sizes


def read_segments(data: bytes) -> tuple[int, int, int, int]:
    """Return (width, height, EXIF orientation, offset of the first scan), by ITU-T T.81, annex B, or raise an error."""
    width, height, turned, position = 0, 0, UPRIGHT, 2
    components, has_adobe_marker = 0, False
    while True:
        if data[position] != 0xFF:
            raise ImageError(f"a jpeg with {data[position]:#04x} at byte {position}, where a marker is due")
        marker = data[position + 1]
        if marker == 0xFF:  # fill byte
            position += 1
        elif marker in _ALONE:
            position += 2
        elif marker == _SOS:
            if components == 4 and not has_adobe_marker:
                raise UnreadableError("a CMYK jpeg without Adobe's marker, which TensorFlow decodes to wrong colours")
            return width, height, turned, position
        elif marker == _EOI:
            raise ImageError("a jpeg without a scan")
        else:
            end = position + 2 + (data[position + 2] << 8 | data[position + 3])
            if marker in _SOF:
                _check_jpeg_frame(marker, data[position + 4], width)
                height = data[position + 5] << 8 | data[position + 6]
                width = data[position + 7] << 8 | data[position + 8]
                components = data[position + 9] if end > position + 9 else 0
            elif marker == _APP1 and data.startswith(b"Exif\0\0", position + 4):
                turned = read_orientation(data, position + 10, end)
            elif marker == _APP14 and end >= position + _ADOBE_BYTES:
                has_adobe_marker |= data.startswith(b"Adobe", position + 4)
            position = end


def _check_jpeg_frame(marker: int, bits: int, width: int) -> None:
    if marker not in _DECODED:
        raise UnreadableError(
            f"a jpeg of the kind SOF{marker - 0xC0} (lossless or hierarchical), which TensorFlow does not decode"
        )
    if bits != 8:
        raise UnreadableError(f"a jpeg of {bits} bits a sample, which TensorFlow does not decode")
    if width:
        raise ImageError("a jpeg with two frame headers")


def check_jpeg(data: bytes, scan: int) -> None:
    """Raise an ImageError unless the markers of a JPEG lead from its first scan, at offset `scan`, to its end."""
    position = _find_segment_end(data, scan)
    in_scan = True
    for place in _find_markers(data, position):
        marker = data[place + 1]
        if place < position:  # within a segment
            continue
        if not in_scan and place != position and data[position:place].strip(b"\xff"):
            raise ImageError(f"a jpeg with {data[position]:#04x} at byte {position}, where a marker is due")
        if marker == _EOI:
            return
        if marker not in _AFTER_SCAN:
            raise ImageError(f"a jpeg with the marker {marker:#04x} at byte {place}, among its compressed pixels")
        in_scan = marker == _SOS
        position = _find_segment_end(data, place)
    raise ImageError("truncated: the jpeg has no end")


def _find_segment_end(data: bytes, segment: int) -> int:
    if len(data) < segment + 4:
        raise ImageError("truncated: the jpeg has no end")
    size = int.from_bytes(data[segment + 2 : segment + 4], "big")
    if size < 2:
        raise ImageError(f"a jpeg whose segment at byte {segment} has {size} bytes")
    return segment + 2 + size


def _find_markers(data: bytes, start: int) -> Iterable[int]:
    """Return the offset of each FF from `start` on that is not followed by what may be in a scan."""
    if len(data) - start <= _WINDOW_BYTES:
        return spans.find_before(data, min(start, len(data)), len(data), 0xFF, _STRAY)
    windows = range(start, len(data), _WINDOW_BYTES)
    found = (spans.find_before(data, first, min(first + _WINDOW_BYTES, len(data)), 0xFF, _STRAY) for first in windows)
    return chain.from_iterable(found)


_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}  # by colour type
_SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # of a pixel, by colour type
_PALETTE = 3  # the colour type whose samples are places in a palette
_FILTERS = 4  # the highest number of one
_BEYOND = 1 << 16  # bytes that may follow the last row, as some encoders write them
# Left, top, steps
_ADAM7 = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
_MAX_SIDE = 1_000_000  # pixels: PNG_USER_WIDTH_MAX and PNG_USER_HEIGHT_MAX of libpng


def measure_png(data: bytes) -> tuple[int, int]:
    """Return (width, height) of a PNG image; raise an IndexError if the header is cut short."""
    data[23]
    return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")


def check_png(data: bytes) -> int:
    """Return the EXIF orientation of a PNG, or raise an ImageError for its chunks; see PNG (W3C), sections 5 and 11."""
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
            raise ImageError(f"a png whose chunk {_format_kind(kind)} at byte {position} is damaged: its CRC is wrong")
        _check_chunk_order(kind, size, before, seen, data[25])
        if kind == b"IEND":
            return turned
        if kind == b"eXIf":
            turned = read_orientation(data, position + 8, end)
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
    if max(measure_png(data)) > _MAX_SIDE:
        raise UnreadableError(f"a png with a side of more than {_MAX_SIDE:,} pixels, which TensorFlow does not decode")


def _check_chunk_order(kind: bytes, size: int, before: bytes, seen: set[bytes], colour: int) -> None:
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
            raise ImageError(f"a png with {_format_kind(kind)} where the name of a chunk is due")
        good = kind[0] & 0x20 != 0  # an ancillary chunk, which a decoder may skip
    if not good:
        raise ImageError(f"a png with a chunk {_format_kind(kind)} of {size} bytes, where none belongs")


def _format_kind(kind: bytes) -> str:
    return ascii(kind.decode("latin-1"))


def check_png_pixels(data: bytes) -> None:
    """Raise an ImageError if the compressed pixels of a PNG that passed check_png are damaged or too few.

    Pillow takes missing rows for black ones and stops reading after its last row; libpng does neither.
    """
    inflate = zlib.decompressobj()
    (width, height), bits = measure_png(data), data[24] * _SAMPLES[data[25]]
    passes = _ADAM7 if data[28] else ((0, 0, 1, 1),)
    sizes = [(-(-(width - left) // across), -(-(height - top) // down)) for left, top, across, down in passes]
    rows = [(rows, (columns * bits + 7) // 8) for columns, rows in sizes if columns > 0 and rows > 0]  # of each pass
    size = sum(number * (1 + length) for number, length in rows)
    try:
        pixels = inflate.decompress(_join_compressed(data), size + _BEYOND)
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


def _join_compressed(data: bytes) -> bytes:
    parts, position = [], 8
    while (kind := data[position + 4 : position + 8]) != b"IEND":
        end = position + 8 + int.from_bytes(data[position : position + 4], "big")
        if kind == b"IDAT":
            parts.append(data[position + 8 : end])
        position = end + 4
    return b"".join(parts)


def check_tiff(data: bytes) -> None:
    """Raise an ImageError if a TIFF has more bands or pages than an image holds."""
    from shardmill.transforms.files.tiff import read_tiff

    tiff = read_tiff(data)
    tiff.check_bands(())
    tiff.check_pages()


_ANIMATED, _ALPHA = 0x02, 0x10  # flags of VP8X


def measure_webp(data: bytes) -> tuple[int, int]:
    """Return (width, height) of a WebP by RFC 9649, sections 2 and 3; raise an ImageError for other RIFF files."""
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


def check_webp(data: bytes) -> int:
    """Return the EXIF orientation of a WebP, or raise an ImageError for its end or what TensorFlow cannot decode."""
    end = int.from_bytes(data[4:8], "little") + 8
    if len(data) < end:
        raise ImageError("truncated: the webp has no end")
    kinds: set[bytes] = set()
    turned, position = UPRIGHT, 12
    while position + 8 <= end:
        kind, size = data[position : position + 4], int.from_bytes(data[position + 4 : position + 8], "little")
        if position + 8 + size > end:
            raise ImageError(f"a webp whose chunk {kind.decode('latin-1')!a} at byte {position} leads beyond its end")
        if kind == b"EXIF":
            turned = read_orientation(data, position + 8, position + 8 + size)
        kinds.add(kind)
        position += 8 + size + size % 2
    if (data[20] & _ANIMATED and data[12:16] == b"VP8X") or kinds & {b"ANIM", b"ANMF"}:
        raise ImageError(
            "an animated webp, on which tf.io.decode_image(…, expand_animations=False) corrupts memory; --image_format"
            " png --on_several_frames first stores its first frame"
        )
    if _has_alpha(data, kinds):
        raise UnreadableError("a webp with transparency, which TensorFlow does not decode as RGB")
    if not kinds & {b"VP8 ", b"VP8L"}:
        raise ImageError("a webp without pixels")
    return turned


def _has_alpha(data: bytes, kinds: set[bytes]) -> bool:
    if data[12:16] == b"VP8X":
        if data[20] & _ALPHA or b"ALPH" in kinds:
            return True
        lossless = data.find(b"VP8L", 12)
        return b"VP8L" in kinds and data[lossless + 12] & 0x10 != 0
    return data[12:16] == b"VP8L" and data[24] & 0x10 != 0


class Properties(NamedTuple):
    """Properties of an input image that notices count."""

    is_deep: bool = False  # True if it has more than 8 bits a channel
    is_transparent: bool = False  # True if pixels are transparent, which TensorFlow or re-encoding changes
    is_transparent_tiff: bool = False  # True if that is by the last of four bands of a TIFF
    has_frames: bool = False  # True if it has several frames or pages, of which the first is stored
    has_bands: bool = False  # True if it has more bands than --image_bands names
    highest: int = 0  # highest value of a re-encoded image of 16 bits a channel; 0 for others
    nodata: str = ""  # value of pixels that are no data, see Tiff

    def to_text(self) -> str:
        """Return the properties as text for `from_text`, without white space and commas."""
        *numbers, nodata = self
        return "/".join([*(str(int(number)) for number in numbers), *filter(None, [nodata])])

    @classmethod
    def from_text(cls, text: str) -> "Properties":
        """Return the properties that `to_text` gave as text."""
        *flags, highest, nodata = f"{text}/".split("/", 6)
        return cls._make([*(flag == "1" for flag in flags), int(highest), nodata.rstrip("/")])


PLAIN = Properties()
_DEEP = Properties(is_deep=True)
_TRANSPARENT = Properties(is_transparent=True)


@dataclass(slots=True)  # a frozen one takes a microsecond to make, and each image has one
class ImageHeader:
    """The properties of an image that are known without decoding it."""

    format: str  # `jpeg`, `png`, `gif`, `bmp`, `webp` or `tiff`
    width: int  # in pixels as stored, before EXIF rotation
    height: int  # in pixels as stored
    orientation: int = UPRIGHT  # EXIF orientation, 1 (upright) to 8; known once the structure was checked
    scan: int = field(default=0, compare=False)  # offset of a JPEG's first scan, unless checked
    observed: str = ""  # text that the observer of an add-on returned; "" without one
    observed_by: str = ""  # versions of the observer's libraries
    is_checked: bool = field(default=False, compare=False)  # True if the structure is known to be valid
    original: Picture | None = None  # picture before re-encoding, if requested
    properties: Properties = PLAIN

    @property
    def picture(self) -> Picture:
        """Picture in the input file."""
        return self.original or Picture(self.width, self.height, self.orientation)


def read_header(data: bytes) -> ImageHeader:
    """Recognise and measure the image in `data`, or raise an ImageError; a TIFF is only recognised, with size 0."""
    if not data:
        raise ImageError("the file is empty")
    if plain := read_plain(data):
        return ImageHeader("jpeg", *plain, is_checked=True)
    for magic, name in _MAGICS:
        if data.startswith(magic):
            try:
                header = _measure(data, name)
            except IndexError:
                raise ImageError(f"truncated: the {name} header is cut short") from None
            if name != "tiff" and (header.width <= 0 or header.height <= 0):
                raise ImageError(f"a {name} of {header.width} x {header.height} pixels")
            return header
    raise _unknown_format(data)


def check_structure(data: bytes, header: ImageHeader) -> ImageHeader:
    """Check that an image is complete and TensorFlow decodes it, and return `header` with the EXIF orientation."""
    if header.is_checked:
        return header
    if header.format == "tiff":
        check_tiff(data)
        raise UnreadableError("a TIFF, which TensorFlow does not decode")
    if header.format == "jpeg":
        check_jpeg(data, header.scan)
        return header
    turned = _CHECKS[header.format](data) or UPRIGHT
    if header.format == "gif" and has_transparent_colour(data):
        header = replace(header, properties=_TRANSPARENT)
    return header if turned == header.orientation else replace(header, orientation=turned)


def find_properties(data: bytes) -> Properties:
    """Return the properties of an image that is stored without a check, as far as its first bytes tell."""
    return _DEEP if is_16_bit_png(data) else PLAIN


def _unknown_format(data: bytes) -> ImageError:
    what = describe_foreign(data)
    if what in READ_BY_PILLOW:
        return UnreadableError(f"{what}, which TensorFlow does not decode")
    if what in READ_BY_NONE:
        return ImageError(f"{what}, which neither TensorFlow nor Pillow decodes: convert it first")
    return ImageError(f"not an image: {what or f'the file starts with {data[:8]!r}'}")


def _measure(data: bytes, name: str) -> ImageHeader:
    if name == "jpeg":
        width, height, turned, scan = read_segments(data)
        return ImageHeader(name, width, height, turned, scan)
    if name == "tiff":
        data[7]
        return ImageHeader(name, 0, 0)
    return ImageHeader(name, *_MEASURES[name](data), properties=find_properties(data))


_MEASURES = {"png": measure_png, "gif": measure_gif, "bmp": measure_bmp, "webp": measure_webp}
# Each returns the orientation, if files of the format have one.
_CHECKS: dict[str, Callable[[bytes], int | None]] = {
    "png": check_png,
    "gif": check_gif,
    "bmp": check_bmp,
    "webp": check_webp,
}
_MAGICS = (
    (b"\xff\xd8", "jpeg"),
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
    (b"BM", "bmp"),
    (b"RIFF", "webp"),
    (b"II*\0", "tiff"),
    (b"MM\0*", "tiff"),
    (b"II+\0", "tiff"),  # BigTIFF
    (b"MM\0+", "tiff"),
)


PLAIN_FORMATS = ("", "jpeg", "png")  # by number; the first is that of a file that is left to Python

# An image: where it is among the bytes that were read, its header, and the status of its file after it was read. The
# format is 0 if Python has to check the file, and all is 0 if it has to read it, too.
PLAIN_ROW = np.dtype(
    [
        (name, np.int64)
        for name in (
            *("start", "size"),
            *("format", "width", "height", "orientation", "is_deep"),
            *("file_size", "mtime_ns", "inode"),
        )
    ]
)


_memory = threading.local()


@dataclass(frozen=True, slots=True, eq=False)
class PlainImages:
    """Images that were read."""

    data: NDArray[np.uint8]  # the bytes of all
    rows: NDArray[Any]  # of PLAIN_ROW

    @property
    def is_read(self) -> NDArray[np.bool_]:
        """True for each file that was read."""
        return np.asarray(self.rows["inode"] != 0)

    @property
    def statuses(self) -> NDArray[np.int64]:
        """Size, mtime in ns and inode of each file after it was read: (n, 3)."""
        return self.rows.view(np.int64).reshape(len(self.rows), -1)[:, -3:]

    def value(self, row: int) -> bytes:
        """Return the bytes of an image."""
        start = self.rows["start"][row]
        return self.data[start : start + self.rows["size"][row]].tobytes()


def read_plain_images(
    root: str, paths: pa.StringArray, room: int, max_pixels: int, ranges: NDArray[np.int64] | None = None
) -> PlainImages:
    """Read files, and measure and check those that are JPEGs or PNGs without a fault, as `check_image` does.

    The bytes are valid until this thread reads other images: the memory is used again, for a fresh page costs as much
    as to read half of it.

    Args:
        root: what comes before each path: a folder with a slash, or "".
        paths: of local files.
        room: bytes to be read in all; a file that does not fit is not read.
        max_pixels: larger images are left to Python.
        ranges: (n, 2), offset and length of each image in its file; None for whole files. Parts of one file that
            follow each other are read from the file as it was opened once.
    """
    if getattr(_memory, "size", -1) < room:
        _memory.data, _memory.size = np.empty(room, np.uint8), room
    data: NDArray[np.uint8] = _memory.data[:room]
    rows = np.empty(len(paths), PLAIN_ROW)
    places = offsets_of(paths).astype(np.int64)
    read_images(root.encode(), data_of(paths), places, ranges, max_pixels, data, rows.view(np.int64))
    return PlainImages(data, rows)
