"""The structure of a JPEG from its markers: ITU-T T.81, annex B. No decoder is involved."""

from collections.abc import Iterable
from itertools import chain
from typing import Any

import numpy as np

from shardmill.records import spans
from shardmill.transforms.files.images.errors import ImageError, UnreadableError
from shardmill.transforms.files.images.exif import UPRIGHT, orientation

try:
    from shardmill._native import plain_jpeg, plain_jpegs
except ImportError:  # not compiled

    def plain_jpegs(data: Any, starts: Any, ends: Any, out: Any) -> None:
        """As if no image were plain."""
        out[:] = 0

    def plain_jpeg(data: Any) -> tuple[int, int, int, int] | None:
        """As if no file were plain."""
        return None


_SOF = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}  # frame headers; C4, C8 and CC are DHT, JPG and DAC
# Sequential and progressive, Huffman and arithmetic, as libjpeg-turbo does
_DECODED = frozenset({0xC0, 0xC1, 0xC2, 0xC9, 0xCA})
_ALONE = frozenset(range(0xD0, 0xD8)) | {0x01}  # markers without a length: RSTn, TEM
# Markers (ITU T.81, table B.1)
_EOI, _SOS, _DHT, _DAC, _DQT, _DNL, _DRI, _APP1, _COM = 0xD9, 0xDA, 0xC4, 0xCC, 0xDB, 0xDC, 0xDD, 0xE1, 0xFE
# Which may follow a scan
_AFTER_SCAN = frozenset({_SOS, _DHT, _DAC, _DQT, _DNL, _DRI, _COM, *range(0xE0, 0xF0)})
_IN_SCAN = {0x00, *range(0xD0, 0xD8), 0xFF}  # what may follow FF among compressed pixels: stuffing, RSTn, fill
_STRAY = bytes(byte not in _IN_SCAN for byte in range(256))
_WINDOW_BYTES = 1 << 20  # searched at once: a file of markers and nothing else must not become a list of them


def read_plain(data: bytes) -> tuple[int, int, int] | None:
    """(width, height, EXIF orientation) of a JPEG all of whose structure is good, up to its end marker.

    It is what `read_segments` and `check` find, in a tenth of their time; None where either would refuse the file, and
    wherever that is left to them.
    """
    found = plain_jpeg(data)
    if found is None:
        return None
    width, height, exif, end = found
    return width, height, orientation(data, exif, end) if exif else UPRIGHT


def plain_sizes(data: Any, starts: Any, ends: Any) -> np.ndarray:
    """The width and the height of each image `data[start:end]` that is a JPEG as `read_plain` knows it without EXIF:
    int64, shape (images, 2); 0 of all others.

    Args:
      data: a contiguous buffer.
      starts, ends: int64, shape (images,).

    Raises:
      ValueError: an image is not within the buffer.
    """
    sizes = np.empty((len(starts), 2), np.int64)
    plain_jpegs(data, np.ascontiguousarray(starts, np.int64), np.ascontiguousarray(ends, np.int64), sizes)
    return sizes


def read_segments(data: bytes) -> tuple[int, int, int, int]:
    """(width, height, EXIF orientation, offset of the first scan).

    Raises:
      ImageError: there is no marker where one is due, no scan, or a frame that TensorFlow does not decode.
      IndexError: the file ends before its first scan.
    """
    width, height, turned, position = 0, 0, UPRIGHT, 2
    while True:
        if data[position] != 0xFF:
            raise ImageError(f"a jpeg with {data[position]:#04x} at byte {position}, where a marker is due")
        marker = data[position + 1]
        if marker == 0xFF:  # fill byte
            position += 1
        elif marker in _ALONE:
            position += 2
        elif marker == _SOS:
            return width, height, turned, position
        elif marker == _EOI:
            raise ImageError("a jpeg without a scan")
        else:
            end = position + 2 + (data[position + 2] << 8 | data[position + 3])
            if marker in _SOF:
                _check_frame(marker, data[position + 4], width)
                height = data[position + 5] << 8 | data[position + 6]
                width = data[position + 7] << 8 | data[position + 8]
            elif marker == _APP1 and data.startswith(b"Exif\0\0", position + 4):
                turned = orientation(data, position + 10, end)
            position = end


def _check_frame(marker: int, bits: int, width: int) -> None:
    if marker not in _DECODED:
        raise UnreadableError(
            f"a jpeg of the kind SOF{marker - 0xC0} (lossless or hierarchical), which TensorFlow does not decode"
        )
    if bits != 8:
        raise UnreadableError(f"a jpeg of {bits} bits a sample, which TensorFlow does not decode")
    if width:
        raise ImageError("a jpeg with two frame headers")


def check(data: bytes, scan: int) -> None:
    """Walk the markers from the file's start to its end marker.

    Args:
      data: the file.
      scan: where the first scan begins.

    Raises:
      ImageError: the end is missing, or a marker stands where none belongs.
    """
    position = _after(data, scan)
    in_scan = True
    for place in _strays(data, position):
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
        position = _after(data, place)
    raise ImageError("truncated: the jpeg has no end")


def _after(data: bytes, segment: int) -> int:
    if len(data) < segment + 4:
        raise ImageError("truncated: the jpeg has no end")
    size = int.from_bytes(data[segment + 2 : segment + 4], "big")
    if size < 2:
        raise ImageError(f"a jpeg whose segment at byte {segment} has {size} bytes")
    return segment + 2 + size


def _strays(data: bytes, start: int) -> Iterable[int]:
    """The place of each FF from `start` on that stands before neither a compressed byte nor a restart marker's."""
    if len(data) - start <= _WINDOW_BYTES:
        return spans.find_before(data, min(start, len(data)), len(data), 0xFF, _STRAY)
    windows = range(start, len(data), _WINDOW_BYTES)
    found = (spans.find_before(data, first, min(first + _WINDOW_BYTES, len(data)), 0xFF, _STRAY) for first in windows)
    return chain.from_iterable(found)
