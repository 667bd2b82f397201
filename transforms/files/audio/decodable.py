"""Whether tf.audio.decode_wav takes a file, without calling it: it reads less than the format allows."""

import struct

# What it passes over before the fmt chunk; see tensorflow/core/lib/wav/wav_io.cc, whose steps these are.
_BEFORE = (b"JUNK", b"bext", b"iXML", b"qlty", b"mext", b"levl", b"link", b"axml")


def is_decodable(data: bytes) -> bool:
    """Whether tf.audio.decode_wav takes a WAV file that `shardmill.media.wav.read_header` took.

    It takes PCM of 16 bits, no extensible header, few chunks before the fmt chunk, and knows no padding behind chunks
    of odd size.
    """
    try:
        offset = 12
        while (name := data[offset : offset + 4]) != b"fmt ":
            if name not in _BEFORE:
                return False
            offset = _behind(data, offset)
        tag, bits = struct.unpack_from("<H", data, offset + 8)[0], struct.unpack_from("<H", data, offset + 22)[0]
        size = struct.unpack_from("<I", data, offset + 4)[0]
        if tag != 1 or bits != 16 or size not in (16, 18):
            return False
        offset, found = offset + 8 + size, 0
        while offset < len(data):
            found += data[offset : offset + 4] == b"data"
            offset = _behind(data, offset)
    except (IndexError, struct.error):
        return False
    return found == 1


def _behind(data: bytes, offset: int) -> int:
    """Where a chunk ends; raises IndexError where that is beyond the file."""
    end = int(offset + 8 + struct.unpack_from("<I", data, offset + 4)[0])
    if end > len(data):
        raise IndexError
    return end
