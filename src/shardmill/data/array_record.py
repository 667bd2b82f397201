"""ArrayRecord files, through the library `array_record`: https://github.com/google/array_record."""

import errno
import io
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import numpy as np

from shardmill.data.spans import RecordBlock
from shardmill.data.spans import read_blocks as read_framed
from shardmill.errors import CorruptDataError, UserError
from shardmill.installed import install_hint

LIBRARY = "array_record"  # and the extra that installs it
# The first bytes of each Riegeli file, which an ArrayRecord file is: the hash of its first block's header, see
# https://github.com/google/riegeli/blob/master/doc/riegeli_records_file_format.md
SIGNATURE = bytes.fromhex("83af70d10d884a3f")
_WRITER_OPTIONS = "group_size:1"  # TFDS's, which Grain expects: each record is compressed and read alone
_READER_OPTIONS = "readahead_buffer_size:0,max_parallelism:0"  # the fastest for single records, and without threads
_BLOCK_BYTES, _BLOCK_RECORDS = 256 << 10, 1 << 14  # at most in a RecordBlock, except of one record
_COPY_BYTES = 1 << 20  # read at once


_process: int | None = None  # that has used the library


def _library() -> Any:
    """Return the module of the library; raise a UserError if it is not installed, or was used before a fork.

    Its first use starts threads, which a forked process does not have: it may wait for them forever, or crash.
    """
    global _process
    try:
        from array_record.python import array_record_module
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != LIBRARY:
            raise
        raise UserError(f"ArrayRecord files need the library {LIBRARY}; {install_hint(LIBRARY)}") from None
    if _process not in (None, os.getpid()):
        raise UserError(
            "ArrayRecord files cannot be opened in a process that was forked after its parent had opened one: let"
            " processes be spawned, as in DataLoader(…, multiprocessing_context='spawn'), or read nothing before"
        )
    _process = os.getpid()
    return array_record_module


class ArrayRecordEncoder:
    """Encodes the records of one shard as an ArrayRecord file.

    The library writes to a path, here of a temporary file without a name. It only appends, 16 MiB at a time, so that
    bytes are returned as soon as they are written. Methods raise OSError if the temporary file cannot be written.
    """

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115
        self._returned_bytes = 0
        with _system_errors():
            self._writer = _library().ArrayRecordWriter(descriptor_path(self._file.fileno()), _WRITER_OPTIONS)

    def compress(self, framed: bytes, /) -> bytes:
        """Return the file's next bytes for complete records, framed as in shardmill.data.tfrecord."""
        with _system_errors():
            for block in read_framed(io.BytesIO(framed), "", len(framed)):
                for record in block:
                    self._writer.write(record)
        return self._read_written()

    def flush(self) -> bytes:
        """Return the bytes that end the file."""
        with _system_errors():
            self._writer.close()
        return self._read_written()

    def _read_written(self) -> bytes:
        size = os.fstat(self._file.fileno()).st_size - self._returned_bytes
        data = os.pread(self._file.fileno(), size, self._returned_bytes)
        self._returned_bytes += len(data)
        return data


@contextmanager
def _system_errors() -> Iterator[None]:
    """Raise the library's RuntimeError as the OSError of the system's error in its message."""
    try:
        yield
    except RuntimeError as error:
        code = next((code for code in errno.errorcode if os.strerror(code) in str(error)), None)
        message = _first_part(error) if code is None else os.strerror(code)
        raise OSError(code or errno.EIO, message, tempfile.gettempdir()) from error


def descriptor_path(descriptor: int) -> str:
    """Return the path that opens an open file once more, with a position of its own."""
    return f"/dev/fd/{descriptor}"


def _first_part(error: Exception) -> str:
    return str(error).partition(";")[0] or "its end is missing"  # what follows names files or functions of the library


def read_blocks(file: BinaryIO, name: str) -> Iterator[RecordBlock]:
    """Yield the records of an ArrayRecord file, some at a time, and verify every checksum; `file` is read to its end.

    A file that is not on a local disk is copied to the system's folder for temporary files, as its index is at its end.

    Raises:
        CorruptDataError: if a record is damaged, after all records before it were yielded; or if the file is cut short.
            The message names `name`, and the record.
        UserError: if the library is not installed.
    """
    with _local_descriptor(file) as descriptor:
        reader = open_reader(descriptor_path(descriptor), name)
        number, count, damage = 0, reader.num_records(), ""
        while number < count and not damage:
            records: list[bytes] = []
            size = 0
            while number < count and size < _BLOCK_BYTES and len(records) < _BLOCK_RECORDS:
                try:
                    records.append(reader.read())
                except RuntimeError as error:
                    damage = f"{name}: record {number}: {_first_part(error)}"
                    break
                size += len(records[-1])
                number += 1
            if records:
                ends = np.cumsum([len(record) for record in records], dtype=np.int64)
                yield RecordBlock(b"".join(records), np.append(np.int64(0), ends[:-1]), ends)
        if damage:
            raise CorruptDataError(damage)
        while file.read(_COPY_BYTES):  # by which a caller may have its checksum
            pass


@contextmanager
def _local_descriptor(file: BinaryIO) -> Iterator[int]:
    """Yield the descriptor of a file on a local disk, or of a temporary copy of any other file."""
    try:
        descriptor = file.fileno()
        is_local = stat.S_ISREG(os.fstat(descriptor).st_mode)
    except (AttributeError, OSError):  # the file of a store
        is_local = False
    if is_local:
        yield descriptor
        return
    with tempfile.TemporaryFile() as copy:
        shutil.copyfileobj(file, copy, _COPY_BYTES)
        copy.flush()
        yield copy.fileno()


def open_reader(path: str, name: str) -> Any:
    """Return the library's reader of a local file, called `name` in errors, after a check of its index.

    Raises:
        CorruptDataError: if the file is cut short, or its index is damaged.
        UserError: if the library is not installed.
    """
    reader = _library().ArrayRecordReader(path, _READER_OPTIONS)
    if not reader.ok():
        try:
            reader.read()
        except RuntimeError as error:
            raise CorruptDataError(f"{name}: not a whole ArrayRecord file: {_first_part(error)}") from None
    return reader


def read_record(reader: Any, number: int, name: str) -> bytes:
    """Return a record of an open file; raise a CorruptDataError if it is damaged."""
    try:
        (record,) = reader.read(number, number + 1)
    except RuntimeError as error:
        raise CorruptDataError(f"{name}: record {number}: {_first_part(error)}") from None
    return record
