"""TFRecords read a block at a time: the same records and errors as `tfrecord` gives, several times as fast."""

from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np

from shardmill.errors import CorruptDataError
from shardmill.records import spans
from shardmill.records.tfrecord import OVERHEAD, header, mask_all

# Read at once: enough to outweigh the calls, few enough for the cache and for memory that is used again
_BLOCK_BYTES = 256 << 10
_HEADER_BYTES, _FOOTER_BYTES = 12, 4  # of a TFRecord
_FOOTER = np.dtype("<u4")
_KNOWN_HEADERS = 1 << 16  # remembered, by the records' lengths: some megabytes at most


def read_blocks(file: BinaryIO, name: str, block_bytes: int = _BLOCK_BYTES) -> Iterator[list[bytes]]:
    """The payloads of an uncompressed TFRecord `file`, some at a time, every checksum verified.

    Raises:
      CorruptDataError: a record is cut short or fails its checksum; the message names `name`, record and offset. All
        records before it have been given.
    """
    headers: dict[int, bytes] = {}
    rest, index, offset = b"", 0, 0
    wanted = block_bytes
    while more := file.read(wanted):
        data = rest + more if rest else more
        payloads, ends, wanted, fault = _split(data, headers)
        bad = _first_bad(data, payloads, ends)
        if bad is not None:
            payloads, fault = payloads[:bad], "fails its checksum"
            ends = ends[:bad]
        if payloads:
            yield payloads
        index += len(payloads)
        position = ends[-1] + _FOOTER_BYTES if ends else 0
        offset += position
        if fault:
            raise CorruptDataError(f"{name}: record {index} at byte {offset} {fault}")
        rest = data[position:]
        wanted = max(wanted, block_bytes)
    if rest:
        cut = f"{name}: record {index} at byte {offset} is cut short"
        if len(rest) < _HEADER_BYTES:
            raise CorruptDataError(f"{cut}: {len(rest)} of {_HEADER_BYTES} header bytes")
        size = int.from_bytes(rest[:8], "little")
        if rest[:_HEADER_BYTES] != header(size):
            raise CorruptDataError(f"{name}: record {index} at byte {offset} has a length that fails its checksum")
        raise CorruptDataError(f"{cut}: {len(rest) - _HEADER_BYTES} of {size + _FOOTER_BYTES} bytes")


def _split(data: bytes, headers: dict[int, bytes]) -> tuple[list[bytes], list[int], int, str]:
    """Whole records in `data`: payloads, where each ends, the bytes lacking to a record begun, and a fault in a
    length."""
    payloads: list[bytes] = []
    ends: list[int] = []
    start, size = _HEADER_BYTES, len(data)
    while start <= size:
        head = data[start - _HEADER_BYTES : start]
        length = int.from_bytes(head[:8], "little")
        known = headers.get(length)
        if known is None:
            if len(headers) >= _KNOWN_HEADERS:
                headers.clear()
            known = headers[length] = header(length)
        if head != known:
            return payloads, ends, 0, "has a length that fails its checksum"
        end = start + length
        if end + _FOOTER_BYTES > size:
            return payloads, ends, end + _FOOTER_BYTES - size, ""
        payloads.append(data[start:end])
        ends.append(end)
        start = end + OVERHEAD
    return payloads, ends, 0, ""


def _first_bad(data: bytes, payloads: list[bytes], ends: list[int]) -> int | None:
    """The index of the first payload that fails its checksum."""
    if not payloads:
        return None
    stops = np.array(ends, np.int64)
    crcs = spans.checksums(data, stops - np.fromiter(map(len, payloads), np.int64, len(payloads)), stops)
    footers: Any = np.ndarray(len(data) - _FOOTER_BYTES + 1, _FOOTER, data, 0, (1,))  # one that begins at each byte
    wrong = np.flatnonzero(mask_all(crcs) != footers[stops])
    return int(wrong[0]) if len(wrong) else None
