"""What `--verify decode` accepts, TensorFlow decodes; and the kinds of files that only one of the two took before."""

import io
import re
import struct

import numpy as np
import pytest
from PIL import Image

from tests.support import mutants
from tests.support.mutants import encode, picture, problem, tensorflow_problems

pytestmark = pytest.mark.slow


def test_every_accepted_mutant_decodes_in_tensorflow() -> None:
    accepted = [image for image in mutants.mutants(600, seed=2) if not problem(image)]

    assert 60 < len(accepted) < 540
    assert [message for message in tensorflow_problems(accepted) if message] == []


def bmp(bits: int, pixels: bytes, compression: int = 0, behind: bytes = b"", width: int = 3, height: int = 2) -> bytes:
    """A BMP of a plain info header, whatever stands behind it, and pixels."""
    start = 54 + len(behind)
    info = struct.pack("<IiiHHIIiiII", 40, width, height, 1, bits, compression, len(pixels), 0, 0, 0, 0)
    return struct.pack("<2sIHHI", b"BM", start + len(pixels), 0, 0, start) + info + behind + pixels


GREYS = b"".join(bytes((level, level, level, 0)) for level in range(256))
MASKS = struct.pack("<III", 0xFF0000, 0xFF00, 0xFF)
ROWS = bytes(range(24))
PNG, JPEG, GIF, WEBP = (
    encode(picture("P" if kind == "GIF" else "RGB"), kind) for kind in ("PNG", "JPEG", "GIF", "WEBP")
)
SCAN = JPEG.index(b"\xff\xda") + 14


def without_colours(gif: bytes) -> bytes:
    """A GIF without its colour map."""
    return gif[:10] + bytes((gif[10] & 0x7F,)) + gif[11:13] + gif[13 + (3 << (gif[10] & 7) + 1) :]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (bmp(8, bytes(8), behind=GREYS[:-4] + b"abc\0"), "a palette, which TensorFlow decodes to wrong colours"),
        (bmp(4, bytes(8), behind=GREYS[:64]), "a bmp of 4 bits a pixel"),
        (bmp(1, bytes(8), behind=GREYS[:8]), "a bmp of 1 bits a pixel"),
        (bmp(16, bytes(16)), "a bmp of 16 bits a pixel"),
        (bmp(8, b"\x03\x01\0\0\x03\x01\0\x01", 1, GREYS), "a bmp compressed by RLE of 8 bits"),
        (bmp(32, ROWS, 3, MASKS[::-1]), "a bmp whose masks say another order"),
        (bmp(24, ROWS) + b"\0", "a bmp of 79 bytes, where its header says 78"),
        (bmp(24, ROWS)[:2] + bytes(4) + bmp(24, ROWS)[6:-1], "a bmp of 77 bytes, where its header says 78"),
        (PNG[:-1], "truncated: the png has no end"),
        (PNG[:-4] + b"oops", "a png whose chunk 'IEND' at byte .* is damaged: its CRC is wrong"),
        (PNG[:60] + bytes((PNG[60] ^ 1,)) + PNG[61:], "a png whose chunk 'IDAT' at byte 33 is damaged"),
        (JPEG[:SCAN] + b"\xff\xd8" + JPEG[SCAN:], "a jpeg with the marker 0xd8 at byte .*, among its compressed"),
        (JPEG[:SCAN] + b"\xff\xc4\0\x05\0\0\0" + JPEG[SCAN:], "a jpeg with 0x.. at byte .*, where a marker is due"),
        (without_colours(GIF), "a gif whose frame 1 has no colour map"),
        (GIF[:13] + GIF[13 : 13 + 768] + b";", "a gif without a frame"),
        (encode(picture(), "WEBP", save_all=True, append_images=[picture("L")]), "an animated webp"),
        (encode(picture("RGBA"), "WEBP"), "a webp with transparency"),
        (encode(picture("RGBA"), "WEBP", lossless=True), "a webp with transparency"),
    ],
)
def test_what_only_pillow_decodes_is_refused(data: bytes, reason: str) -> None:
    assert re.search(reason, problem(data))


GOOD = {
    "grey palette": bmp(8, bytes(range(8)), behind=GREYS),
    "24 bits": bmp(24, ROWS),
    "24 bits, from the top": bmp(24, ROWS, height=-2),
    "32 bits": bmp(32, ROWS),
    "32 bits, masks": bmp(32, ROWS, 3, MASKS),
    "jpeg, restarts": encode(picture(), "JPEG", restart_marker_blocks=1),
    "jpeg, trailer": JPEG + b"\0\xff\xd8\xff\xd9",
    "png, trailer": PNG + b"trailer",
    "gif": GIF,
    "webp": WEBP,
    "webp, lossless": encode(picture(), "WEBP", lossless=True),
}


def test_what_both_decode_is_accepted_and_to_the_same_colours() -> None:
    import tensorflow as tf

    for name, data in GOOD.items():
        assert not problem(data), name
        decoded = tf.io.decode_image(data, channels=3, expand_animations=False).numpy()
        with Image.open(io.BytesIO(data)) as image:
            expected = np.asarray(image.convert("RGB"))
        assert decoded.shape == expected.shape
        if not name.startswith("jpeg"):
            assert np.array_equal(decoded, expected), name
