"""Text encodings, and byte order marks."""

import codecs
import unicodedata
from itertools import pairwise
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from shardmill.errors import UserError
from shardmill.transforms.findings import Remarks

Positions = npt.NDArray[np.int64]
BOM = codecs.BOM_UTF8  # U+FEFF, which some editors write before everything else
_NOT_FOR_FILES = ("idna", "punycode", "undefined", "unicode-escape", "raw-unicode-escape")
MARK_ERRORS = "shardmill_mark"  # the name of the error handler that marks what cannot be decoded
_MARK = "\udcff"  # a lone surrogate: no decoder makes one, and no UTF-8 holds one
_ASCII = bytes(range(128))  # every character of it


def _mark(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return _MARK, error.end


codecs.register_error(MARK_ERRORS, _mark)


def encoding_name(encoding: str) -> str:
    """Return Python's name of an encoding; utf-8 for UTF-8 with a byte order mark.

    Raises:
        ValueError: if no such encoding of text files exists.
    """
    try:
        found = codecs.lookup(encoding)
    except (LookupError, ValueError):  # a NUL in the name is a ValueError
        raise ValueError(
            f"unknown encoding {encoding!r}; expected one such as utf-8, latin-1, cp1252 or utf-16"
        ) from None
    if not getattr(found, "_is_text_encoding", True) or found.name.replace("_", "-") in _NOT_FOR_FILES:
        raise ValueError(
            f"{encoding!r} is no encoding of text files; expected one such as utf-8, latin-1, cp1252 or utf-16"
        )
    return "utf-8" if found.name == "utf-8-sig" else found.name


def not_encoded_error(name: str, encoding: str, error: UnicodeError) -> UserError:
    """Return the error for a file that cannot be decoded at all, for example UTF-16 without a byte order mark."""
    return UserError(f"{name} is not {encoding}: {error}; give the encoding of the file with --encoding")


def is_ascii_transparent(encoding: str, special: bytes) -> bool:
    """Return True if the ASCII bytes `special` always encode these characters in this encoding.

    False for UTF-16, and for | in Shift JIS, where the byte may be half of a character.
    """
    if encoding == "utf-8":
        return True
    # What a byte is depends on what precedes it
    if encoding.startswith(("iso2022", "hz", "utf-7", "utf-16", "utf-32")):
        return False
    if _ASCII.decode(encoding, "replace").encode("utf-8") != _ASCII:
        return False
    after = (bytes([lead, byte]).decode(encoding, "replace") for lead in range(128, 256) for byte in special)
    return all(text.endswith(chr(byte)) for text, byte in zip(after, special * 128))


def to_utf8(data: bytes, encoding: str) -> bytes:
    """Convert `data` to UTF-8, with invalid bytes in place of undecodable ones; UTF-8 is returned unchanged."""
    if encoding == "utf-8":
        return data
    return data.decode(encoding, MARK_ERRORS).encode("utf-8", "surrogatepass")


def is_utf8(data: bytes) -> bool:
    """Return True if `data` is UTF-8, in a third of the time of decoding and without its memory."""
    if data.isascii():
        return True
    offsets = pa.py_buffer(memoryview(b"\0" * 8 + len(data).to_bytes(8, "little")))
    try:
        pa.LargeBinaryArray.from_buffers(pa.large_binary(), 1, [None, offsets, pa.py_buffer(data)]).cast(
            pa.large_string()
        )
    except pa.ArrowInvalid:
        return False
    return True


def invalid_byte(error: UnicodeDecodeError) -> str:
    """Return the first byte that is not UTF-8, with the character that it is in cp1252."""
    byte = error.object[error.start : error.start + 1]
    return f"byte 0x{byte.hex()} ({byte.decode('cp1252', 'replace')} in cp1252)"


class Stream(Protocol):
    """A source of bytes."""

    def read(self, size: int, /) -> bytes:
        """Return about `size` bytes; no bytes only at the end."""


class Utf8Stream:
    """A stream of UTF-8 without byte order mark, decoded from `raw`; undecodable bytes are handled as in `to_utf8`."""

    def __init__(self, raw: Stream, encoding: str) -> None:
        self._raw = raw
        self._decoder = None if encoding == "utf-8" else codecs.getincrementaldecoder(encoding)(MARK_ERRORS)
        self._at_start = True
        self._at_end = False

    def read(self, size: int) -> bytes:
        """Return about `size` bytes; no bytes only at the end."""
        data = b""
        while not data and not self._at_end:
            data = self._raw.read(size)
            self._at_end = not data
            if self._decoder:
                data = self._decoder.decode(data, final=self._at_end).encode("utf-8", "surrogatepass")
            if self._at_start and data:
                data = data.removeprefix(BOM)
                self._at_start = False
        return data


MARKED_ROWS = (
    "line begins with a byte order mark, as the files have that were joined, and is read without it"
    "\nlines begin with a byte order mark, as the files have that were joined, and are read without it"
)


def remove_marks(data: bytes, starts: Positions, lines: Positions, name: str) -> tuple[bytes, Remarks]:
    """Return `data` without the byte order marks at `starts`, on these `lines` of the file `name`, and a remark."""
    marked = [row for row, start in enumerate(starts.tolist()) if data.startswith(BOM, start)]
    ends = [*starts[marked].tolist(), len(data)]
    kept = [data[: ends[0]], *(data[start + len(BOM) : end] for start, end in pairwise(ends))]
    return b"".join(kept), Remarks.of_lines({MARKED_ROWS: lines[marked]}, name)


def to_nfc(texts: pa.Array) -> pa.Array:
    """Return strings, or binary texts, in the Unicode form NFC; bytes that are not UTF-8 stay."""
    values = texts.cast(pa.large_binary())
    if pc.all(pc.string_is_ascii(values.view(pa.large_string()))).as_py() is not False:
        return texts
    known = [value if value is None else value.decode(errors="surrogateescape") for value in values.to_pylist()]
    composed = (text if text is None else unicodedata.normalize("NFC", text) for text in known)
    found = [text and text.encode(errors="surrogateescape") for text in composed]
    return pa.array(found, pa.large_binary()).cast(texts.type)
