"""The header of a WebP: RFC 9649, sections 2 to 3. No decoder is involved."""

from shardmill.transforms.files.images.errors import ImageError, UnreadableError
from shardmill.transforms.files.images.exif import UPRIGHT, orientation

_ANIMATED, _ALPHA = 0x02, 0x10  # flags of VP8X


def measure(data: bytes) -> tuple[int, int]:
    """(width, height).

    Raises:
      ImageError: a RIFF file of another kind.
      IndexError: the header is cut short.
    """
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


def check(data: bytes) -> int:
    """Walk the chunks to the end of the file; returns the EXIF orientation.

    Raises:
      ImageError: the file ends early, or is of a kind that TensorFlow does not decode as RGB.
    """
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
            turned = orientation(data, position + 8, position + 8 + size)
        kinds.add(kind)
        position += 8 + size + size % 2
    if (data[20] & _ANIMATED and data[12:16] == b"VP8X") or kinds & {b"ANIM", b"ANMF"}:
        raise UnreadableError(
            "an animated webp, on which tf.io.decode_image(…, expand_animations=False) corrupts memory"
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
