"""Existing TFRecord files, plain or compressed, and ArrayRecord files, whose records pass through;
shardmill.data.tfrecord and array_record cite the formats' sources.
"""

import re
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import BinaryIO, cast

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from shardmill.data import array_record, spans
from shardmill.data.example import EXAMPLE, EXAMPLE_LIST, SEQUENCE_EXAMPLE, message_kind
from shardmill.data.tfrecord import OVERHEAD, mask_crc, mask_crcs
from shardmill.errors import CorruptDataError, UserError
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.arrow import slices
from shardmill.transforms.columns.example_decoding import (
    decode_examples,
    find_other_messages,
    flag_non_examples,
    infer_examples,
)
from shardmill.transforms.columns.types import ColumnNames, ColumnTypes, Inferred, ValuesOf
from shardmill.transforms.formats import format as formats
from shardmill.transforms.formats.format import STAGE, BlockRef, Damage, FileRef, Keys, Rows
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import error_text
from shardmill.transforms.stores.storage import raise_if_store_failed
from shardmill.transforms.stores.streams import Decompressed, TruncatedError, open_gzip, open_zlib
from shardmill.transforms.workers.resources import find_memory_problem

RECORD = "record"
_HEADER = struct.Struct("<QI")
_GZIP_MAGIC = b"\x1f\x8b"  # RFC 1952, section 2.3.1
HEAD_BYTES = 4 << 10  # more than what zlib takes to say the twelve bytes of a record's header
_HOP_BYTES = 64 << 10  # read at once where only headers are wanted
_FOOTER = np.dtype("<u4")
_COPIES = 10  # of a record at once: one of 400 MB took 4.4 GB
_FIRST = 8  # records of a file, whose kind it has
_FIRST_BYTES = 64 << 10  # read at once to find them
_FIRST_TEXT = 200  # bytes, which are all printable in a text
_MAGIC = (
    (b"\xff\xd8\xff", "JPEG images"),
    (b"\x89PNG\r\n\x1a\n", "PNG images"),
    (b"GIF8", "GIF images"),
    (b"RIFF", "RIFF files (WebP, WAV or AVI)"),
    (b"fLaC", "FLAC audio"),
    (b"OggS", "Ogg audio"),
    (b"ID3", "MP3 audio"),
    (b"\x93NUMPY", "NumPy arrays"),
    (b"PK\x03\x04", "zip archives"),
    (_GZIP_MAGIC, "gzip data, each compressed for itself"),
    (b"\x78\x9c", "zlib data, each compressed for itself"),
    (b"\x80\x04\x95", "Python pickles"),
    (b"\x80\x05\x95", "Python pickles"),
    (b"BZh", "bzip2 data"),
    (b"\x28\xb5\x2f\xfd", "Zstandard data"),
    (b"PAR1", "Parquet files"),
    (b"Obj\x01", "Avro files"),
    (b"\x89HDF", "HDF5 files"),
    (b"version https://git-lfs.github.com", "pointers of Git LFS, for which `git lfs pull` gets the files,"),
)
_TEXT_KINDS = {"<": "HTML or XML texts", "{": "JSON texts", "[": "JSON texts"}  # by the first letter
_TENSOR_START = re.compile(rb"\x08[\x01-\x20]\x12")  # a TensorProto: its dtype, and its shape

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TFRecordFormat(formats.RecordFormat):
    """A row for each record: column `record`, its payload. Lines are the records' numbers in their file, from 1.

    Every checksum is verified. Unless `is_raw`, a record that is not a tf.train.Example is a reject, and a file that
    begins with records of another known kind stops the job. A file that does not start like a TFRecord may be
    compressed:

    * by gzip, if its name ends in .gz or it starts with gzip's magic bytes;
    * by zlib, if its decompressed start looks like a TFRecord.

    An ArrayRecord file is recognized by its first bytes.
    """

    block_size: int  # approximate bytes of a block and of a piece
    is_raw: bool = False  # take records of any kind

    def index(self, file: FileRef) -> Iterator[BlockRef | Reject]:
        """Yield blocks of whole records; one block if the file is small, compressed or an ArrayRecord file.

        Damage is left to `read`: the last block ends where the file does.
        """
        if not file.size_bytes:
            return
        with storage.open_read(file.path) as stream:  # a store is asked, though of a small file nothing is read
            if file.size_bytes < 2 * self.block_size or _is_array_record(stream) or _compression(stream, file):
                yield BlockRef(file, 0, file.size_bytes)
                return
            start, first = 0, 1
            for record, offset in _record_offsets(stream, file.size_bytes):
                if offset - start >= self.block_size:
                    yield BlockRef(file, start, offset - start, first, records=record - first)
                    start, first = offset, record
            if start < file.size_bytes:
                yield BlockRef(file, start, file.size_bytes - start, first)

    def infer(self, block: BlockRef, columns: ColumnNames, values_of: Sequence[ValuesOf]) -> Iterator[Inferred]:
        """Infer the features of the Examples; a feature with one value in every record is a scalar."""
        wanted = None if columns is None else list(columns)
        for piece in _Scanner(block, self.block_size):
            features, bad = decode_examples(piece.records)
            yield infer_examples(features.filter(pa.array(~bad)) if bad.any() else features, wanted, values_of)

    def read(self, block: BlockRef, types: ColumnTypes, keys: Keys = ()) -> Iterator[Rows]:
        """Yield the records in pieces; `types` are ignored.

        Raises UserError if a file begins with records of another known kind.
        """
        for piece in _Scanner(block, self.block_size):
            records, numbers = piece.records, piece.numbers
            if not self.is_raw:
                if len(numbers) and numbers[0] == 1 and _find_kind(records[:_FIRST].to_pylist()) != EXAMPLE:
                    _check_first_records(block.file)
                others = find_other_messages(records)  # first: parsers print a line for each name that is no UTF-8
                reasons = {row: f"is a {kind}; expected a {EXAMPLE}" for row, kind in others.items() if kind}
                bad = np.zeros(len(records), bool)
                bad[list(others)] = True
                bad[~bad] = flag_non_examples(records.filter(pa.array(~bad)))
                for row in np.flatnonzero(bad).tolist():
                    reason = f"record {numbers[row]:,} {reasons.get(row, f'is not a {EXAMPLE}')}"
                    piece.rejects.append(Reject(block.file.name, int(numbers[row]), STAGE, reason))
                records, numbers = records.filter(pa.array(~bad)), numbers[~bad]
            yield Rows(pa.RecordBatch.from_arrays([records], names=[RECORD]), numbers, piece.rejects)


def _check_first_records(file: FileRef) -> None:
    """Check that a file does not begin with records of another known kind than Examples; raise UserError otherwise."""
    first: list[bytes] = []
    for piece in _Scanner(BlockRef(file, 0, file.size_bytes), _FIRST_BYTES):
        first += piece.records[: _FIRST - len(first)].to_pylist()
        if len(first) == _FIRST:
            break
    kind = _find_kind(first)
    if kind not in (EXAMPLE, ""):
        raise UserError(
            f"{file.name}: its records are {kind}, not {EXAMPLE}s; --record_type raw passes records of any kind"
            " through as they are, without features or statistics of values"
        )


def _find_kind(records: Sequence[bytes]) -> str:
    """Return the kind of records in plural, which all of them are of; "" if they have several or it is not known."""
    kinds = {kind_of_record(record) for record in records if record}
    return next(iter(kinds)) if len(kinds) == 1 else EXAMPLE if EXAMPLE in kinds or not kinds else ""


def kind_of_record(record: bytes) -> str:
    """Return what a record is in plural; "" if that is not known."""
    kind = message_kind(record)
    if kind:
        return {SEQUENCE_EXAMPLE: f"{kind}s", EXAMPLE_LIST: f"{kind} messages (ELWC)"}.get(kind, kind)
    if _TENSOR_START.match(record):
        return "tensors (tf.io.serialize_tensor)"
    return kind_of_data(record)


def kind_of_data(data: bytes) -> str:
    """Return what data are in plural, judged by their start; "" if that is not known."""
    known = next((name for start, name in _MAGIC if data.startswith(start)), "")
    if known or data[257:262] == b"ustar":
        return known or "tar archives"
    text = data[:_FIRST_TEXT].decode("utf-8", "replace").rstrip("\ufffd")  # which may be cut within a character
    is_text = len(text) > 3 and all(letter.isprintable() or letter in "\t\r\n" for letter in text)
    return _TEXT_KINDS.get(text[0], "texts") if is_text else ""


def _compression(stream: BinaryIO, file: FileRef) -> Callable[[str], Decompressed] | None:
    """Return the function that opens the file decompressed; None if it is plain.

    The stream is at the start of the file. A plain TFRecord is recognized first, because a record's length may look
    like the first bytes of gzip or zlib.
    """
    head = _read(stream, HEAD_BYTES)
    if _good_length(head):
        return None
    if head.startswith(_GZIP_MAGIC):
        return open_gzip
    with suppress(zlib.error):
        if _good_length(zlib.decompressobj().decompress(head, _HEADER.size)):
            return open_zlib
    return open_gzip if file.name.lower().endswith(".gz") else None


def _is_array_record(stream: BinaryIO) -> bool:
    head = _read(stream, len(array_record.SIGNATURE))
    stream.seek(0)
    return head == array_record.SIGNATURE


def is_tfrecord(head: bytes) -> bool:
    """Return True if a file that begins with `head`, of about HEAD_BYTES, is one that TFRecordFormat reads."""
    if _good_length(head) or head.startswith(array_record.SIGNATURE):
        return True
    try:  # either by gzip or by zlib
        return _good_length(zlib.decompressobj(32 + zlib.MAX_WBITS).decompress(head, _HEADER.size))
    except zlib.error:
        return False


def _good_length(data: bytes, offset: int = 0) -> bool:
    is_whole = len(data) >= offset + _HEADER.size
    return is_whole and mask_crc(google_crc32c.value(data[offset : offset + 8])) == _HEADER.unpack_from(data, offset)[1]


def _checksums_match(data: bytes, starts: Positions, ends: Positions, at: Positions) -> npt.NDArray[np.bool_]:
    crcs = spans.checksums(data, starts, ends)
    stored = np.ndarray(max(len(data) - 3, 0), _FOOTER, data, 0, (1,))[at]
    return mask_crcs(crcs) == stored


def _record_offsets(stream: BinaryIO, size: int) -> Iterator[tuple[int, int]]:
    """Yield number and offset of each record except the first, as long as lengths are valid; only lengths are read."""
    record, offset = 1, 0
    while offset + _HEADER.size <= size:
        stream.seek(offset)
        data = _read(stream, _HOP_BYTES)
        position, last = 0, len(data) - _HEADER.size
        if last < 0:
            return
        while position <= last:
            if not _good_length(data, position):
                return
            position += OVERHEAD + _HEADER.unpack_from(data, position)[0]
            if offset + position > size:
                return
            record += 1
            yield record, offset + position
        offset += position


def _read(stream: BinaryIO, size: int) -> bytes:
    """Read `size` bytes, fewer only at the end and before damage; remote file objects may return short reads."""
    data = stream.read(size)
    try:
        while len(data) < size and (more := stream.read(size - len(data))):
            data += more
    except TruncatedError:  # which the next call raises again
        if not data:
            raise
    return data


@dataclass(frozen=True, slots=True, eq=False)
class _Piece:
    records: pa.LargeBinaryArray  # payloads with valid checksums
    numbers: npt.NDArray[np.int64]  # int64 (records,), each record's number in its file
    rejects: list[Reject]  # the other records


class _Scanner:
    def __init__(self, block: BlockRef, piece_size: int) -> None:
        self._block, self._piece_size, self._offset = block, piece_size, block.offset
        self._left: int | None = block.length  # bytes to be read; None if that is not known
        self._number = block.first_line  # of the next record
        self._damage: str | None = None
        self._error: TruncatedError | None = None
        self._stream: Decompressed | None = None  # unless the file is plain

    def __iter__(self) -> Iterator[_Piece]:
        try:
            with self._open() as stream:
                is_array_record = self._block.offset == 0 and self._stream is None and _is_array_record(stream)
                yield from self._array_record_pieces(stream) if is_array_record else self._pieces(stream)
        except OSError as error:
            raise_if_store_failed(error, self._block.file.path)
            self._damage = f"cannot be read, and all that follows is lost: {error_text(error)}"
            yield self._end(b"")

    def _open(self) -> BinaryIO:
        file = self._block.file
        stream = storage.open_read(file.path, self._block.end)
        opener = _compression(stream, file) if self._block.offset == 0 else None
        if opener is not None:
            stream.close()
            self._left = None
            self._stream = opener(file.path)
            return cast(BinaryIO, self._stream)
        stream.seek(self._block.offset)
        return stream

    def _pieces(self, stream: BinaryIO) -> Iterator[_Piece]:
        data, want, broken = b"", self._piece_size, False
        while not broken:
            size = max(want, self._piece_size)
            if self._left is not None and self._left < 2 * size:
                size = self._left
            more = self._read(stream, size)
            if not more:
                break
            data = data + more if data else more
            heads, stops, position, want, broken = self._records(data)
            if len(heads):
                yield self._piece(data, heads, stops)
            data = data[position:]
            self._offset += position
            if want and not broken and (problem := find_memory_problem(len(data) + want, _COPIES)):
                yield _Piece(*self._nothing, [self._reject(self._number, self._offset, f"has {problem}")])
                self._number, self._offset = self._number + 1, self._offset + len(data) + want
                self._skip(stream, want)
                data, want = b"", self._piece_size
        if data or self._damage is not None:
            yield self._end(data)

    def _array_record_pieces(self, stream: BinaryIO) -> Iterator[_Piece]:
        file = self._block.file
        try:
            for block in array_record.read_blocks(stream, file.name):
                numbers = np.arange(self._number, self._number + len(block))
                self._number += len(block)
                yield _Piece(slices(block.data, block.starts, block.ends), numbers, [])
        except CorruptDataError as error:
            reason = f"{str(error).removeprefix(f'{file.name}: ')}; the rest of the file is lost"
            damage = Damage(reason, 0, 0)  # of unknown size
            reject = damage.make_reject(file.name, self._number, reason, self._number - 1, file.size_bytes)
            yield _Piece(*self._nothing, [reject])

    def _skip(self, stream: BinaryIO, size: int) -> None:
        while size and (data := self._read(stream, min(size, self._piece_size))):
            size -= len(data)

    def _read(self, stream: BinaryIO, size: int) -> bytes:
        try:
            data = _read(stream, size)
        except TruncatedError as error:
            self._damage = f"cannot be read: {error}; the rest of the file is lost"
            self._error = error
            return b""
        if self._left is not None:
            self._left -= len(data)
        return data

    def _records(self, data: bytes) -> tuple[Positions, Positions, int, int, bool]:
        """Return the starts and stops of the whole records in `data`, and the start of what follows.

        Also return how many of its bytes are known to be missing, and True if it cannot be read.
        """
        positions: list[int] = []  # of headers
        position, last = 0, len(data) - _HEADER.size
        unpack = _HEADER.unpack_from
        while position <= last:
            positions.append(position)
            position += OVERHEAD + unpack(data, position)[0]
        heads = np.array(positions, np.int64)
        stops = np.append(heads[1:], min(position, 1 << 62))  # a broken length may be beyond int64
        bad = ~_checksums_match(data, heads, heads + 8, heads + 8)
        if bad.any():  # and so all positions after it are wrong
            first = int(bad.argmax())
            left = self._block.end - self._offset - positions[first]
            lost = "the rest of the file is" if self._left is None else f"the remaining {left:,} bytes are"
            kind = ""
            if self._number == 1 and not first and self._stream is None:
                with storage.open_read(self._block.file.path, self._block.end, _FIRST_BYTES) as stream:
                    kind = kind_of_data(_read(stream, min(HEAD_BYTES, self._block.end)))
            problem = f"is no record: the file begins as {kind} do" if kind else "has a length that fails its checksum"
            self._damage = f"{problem}; {lost} lost"
            return heads[:first], stops[:first], positions[first], 0, True
        more = position - len(data)
        if more <= 0 or not positions:
            return heads, stops, position, 0, False
        broken = self._left is not None and more > self._left
        return heads[:-1], stops[:-1], positions[-1], more, broken

    def _piece(self, data: bytes, heads: Positions, stops: Positions) -> _Piece:
        starts, ends = heads + _HEADER.size, stops - _FOOTER.itemsize
        good = _checksums_match(data, starts, ends, ends)
        numbers = np.arange(self._number, self._number + len(heads))
        self._number += len(heads)
        rejects = [
            self._reject(number, self._offset + head, "fails its checksum")
            for number, head in zip(numbers[~good].tolist(), heads[~good].tolist(), strict=True)
        ]
        return _Piece(slices(data, starts, ends, good), numbers[good], rejects)

    def _end(self, data: bytes) -> _Piece:
        """Return the last piece, with one Reject for all records that cannot be read."""
        damage = self._damage
        if damage is None:
            need = OVERHEAD + _HEADER.unpack_from(data)[0] if len(data) >= _HEADER.size else _HEADER.size
            have = len(data) + (self._left or 0)
            damage = f"is cut short, {have:,} of {need:,} bytes, which are lost"
        reject = self._count_lost(self._reject(self._number, self._offset, damage), len(data))
        return _Piece(*self._nothing, [reject])

    @property
    def _nothing(self) -> tuple[pa.LargeBinaryArray, npt.NDArray[np.int64]]:
        return pa.array([], pa.large_binary()), np.zeros(0, np.int64)

    def _count_lost(self, reject: Reject, held_bytes: int) -> Reject:
        block, before = self._block, self._number - 1
        left = block.end - self._offset
        if self._left is not None and block.records is not None:
            return replace(reject, records=max(block.records - (self._number - block.first_line), 1), size_bytes=left)
        if self._error is not None:
            damage = formats.compressed_damage(self._error, block.file.size_bytes)
        elif self._damage is None:  # cut short, and nobody knows by how much
            return replace(
                reject, size_bytes=held_bytes + self._left if self._left is not None else 0, count="at least"
            )
        elif self._stream is None:
            damage = Damage(self._damage, left, left / max(self._offset, 1))
        else:
            good, made = max(self._stream.good_bytes, 1), max(self._stream.decompressed_bytes, 1)
            contents = made - self._offset + (block.file.size_bytes - good) * made / good
            damage = Damage(self._damage, round(contents * good / made), contents / max(self._offset, 1))
        return damage.make_reject(reject.source, reject.line, reject.reason, before, block.length)

    def _reject(self, number: int, offset: int, problem: str) -> Reject:
        return Reject(self._block.file.name, number, STAGE, f"record {number:,} at byte {offset:,} {problem}")
