"""TFRecord framing: length, masked crc32c of the length, payload, masked crc32c of the payload.

The format is that of tensorflow/core/lib/io/record_writer.h; the mask is crc32c.h's. A record may be given in pieces,
so that a large image is never copied to be framed.
"""

import struct
from collections.abc import Iterator, Sequence
from typing import BinaryIO

import google_crc32c
import numpy as np
from numpy.typing import NDArray

from shardmill.errors import CorruptDataError

OVERHEAD = 16  # bytes of framing a record: 8 of length, 4 and 4 of checksums
_MASK_DELTA = 0xA282EAD8  # kMaskDelta of tsl/lib/hash/crc32c.h, by which a stored checksum is masked
_HEADER = struct.Struct("<QI")
_LENGTH = struct.Struct("<Q")
_CRC = struct.Struct("<I")


def mask(crc: int) -> int:
    """Masked crc32c, so that a checksum of data that holds checksums stays a good one."""
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def mask_all(crcs: NDArray[np.uint32]) -> NDArray[np.uint32]:
    """As `mask`, of many at once: shape (n,)."""
    return ((crcs >> np.uint32(15)) | (crcs << np.uint32(17))) + np.uint32(_MASK_DELTA)


def header(size: int) -> bytes:
    """The 12 bytes before a payload of `size` bytes."""
    length = _LENGTH.pack(size)
    return length + _CRC.pack(mask(google_crc32c.value(length)))


def footer(pieces: Sequence[bytes]) -> bytes:
    """The 4 bytes after a payload that is the concatenation of `pieces`."""
    crc = 0
    for piece in pieces:
        crc = google_crc32c.extend(crc, piece)
    return _CRC.pack(mask(crc))


def frame(record: bytes) -> bytes:
    """`record` as it stands in a TFRecord file."""
    return b"".join((header(len(record)), record, footer((record,))))


def is_whole(framed: bytes) -> bool:
    """Whether `framed` is one record as `frame` makes it, both of whose checksums are right."""
    if len(framed) < OVERHEAD:
        return False
    size, crc = _HEADER.unpack_from(framed)
    if mask(google_crc32c.value(framed[:8])) != crc or size != len(framed) - OVERHEAD:
        return False
    return mask(google_crc32c.value(framed[12:-4])) == _CRC.unpack(framed[-4:])[0]


def read_records(file: BinaryIO, name: str) -> Iterator[bytes]:
    """The payloads of an uncompressed TFRecord `file`, every checksum verified.

    Raises:
      CorruptDataError: a record is cut short or fails its checksum; the message names `name`, record and offset.
    """
    offset = index = 0
    while head := _read(file, _HEADER.size):
        where = f"{name}: record {index} at byte {offset}"
        if len(head) < _HEADER.size:
            raise CorruptDataError(f"{where} is cut short: {len(head)} of {_HEADER.size} header bytes")
        size, crc = _HEADER.unpack(head)
        if mask(google_crc32c.value(head[:8])) != crc:
            raise CorruptDataError(f"{where} has a length that fails its checksum")
        body = _read(file, size + 4)
        if len(body) < size + 4:
            raise CorruptDataError(f"{where} is cut short: {len(body)} of {size + 4} bytes")
        payload = body[:size]
        if mask(google_crc32c.value(payload)) != _CRC.unpack(body[size:])[0]:
            raise CorruptDataError(f"{where} fails its checksum")
        yield payload
        offset += OVERHEAD + size
        index += 1


def _read(file: BinaryIO, size: int) -> bytes:
    """Up to `size` bytes, fewer only at the end of the file; remote file objects may return short reads."""
    data = file.read(size)
    while len(data) < size and (more := file.read(size - len(data))):
        data += more
    return data
