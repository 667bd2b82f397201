"""Text in any encoding that Python knows, as UTF-8; what cannot be decoded stays in it, as bytes that are no UTF-8."""

import codecs
from typing import Protocol

import pyarrow as pa

BOM = codecs.BOM_UTF8  # U+FEFF, which some editors write before everything else
_NOT_OF_FILES = (
    "idna",
    "punycode",
    "undefined",
    "unicode_escape",
    "raw_unicode_escape",
    "unicode-escape",
    "raw-unicode-escape",
)
MARK_ERRORS = "shardmill.mark"  # the name of the error handler that marks what cannot be decoded
_MARK = "\udcff"  # a lone surrogate: no decoder makes one, and no UTF-8 holds one
_ASCII = bytes(range(128))  # every character of it


def _mark(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return _MARK, error.end


codecs.register_error(MARK_ERRORS, _mark)


def encoding_name(encoding: str) -> str:
    """Python's own name of an encoding; that of UTF-8 with a byte order mark is utf-8.

    Raises:
      ValueError: there is no such encoding of text files.
    """
    try:
        found = codecs.lookup(encoding)
    except (LookupError, ValueError):  # a NUL in the name is a ValueError
        raise ValueError(
            f"unknown encoding {encoding!r}; expected one such as utf-8, latin-1, cp1252 or utf-16"
        ) from None
    if not getattr(found, "_is_text_encoding", True) or found.name in _NOT_OF_FILES:
        raise ValueError(
            f"{encoding!r} is no encoding of text files; expected one such as utf-8, latin-1, cp1252 or utf-16"
        )
    return "utf-8" if found.name == "utf-8-sig" else found.name


def keeps_bytes(encoding: str, special: bytes) -> bool:
    """Whether in this encoding the bytes of `special`, all ASCII, are these characters and nothing else, wherever they
    stand.

    So it is in UTF-8, Latin-1 and the like; not in UTF-16, nor for | in Shift JIS, where it may be half of a character.
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
    """`data` as UTF-8, with bytes that are no UTF-8 for what cannot be decoded; UTF-8 itself comes as it is."""
    if encoding == "utf-8":
        return data
    return data.decode(encoding, MARK_ERRORS).encode("utf-8", "surrogatepass")


def is_utf8(data: bytes) -> bool:
    """Whether `data` is UTF-8; in a third of the time that decoding it would take, and without the memory."""
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


class Stream(Protocol):
    """What bytes are read from."""

    def read(self, size: int, /) -> bytes:
        """About `size` bytes, none at the end only."""


class Utf8Stream:
    """What `raw` holds in an encoding, as a stream of UTF-8 without a byte order mark; undecodable bytes as in
    `to_utf8`."""

    def __init__(self, raw: Stream, encoding: str) -> None:
        self._raw = raw
        self._decoder = None if encoding == "utf-8" else codecs.getincrementaldecoder(encoding)(MARK_ERRORS)
        self._at_start = True
        self._at_end = False

    def read(self, size: int) -> bytes:
        """About `size` bytes; none at the end only."""
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
