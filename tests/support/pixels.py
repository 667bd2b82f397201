"""Pictures of a few pixels, and what an encoder and a decoder make of them."""

import io
import struct
import zlib
from typing import Any

import numpy as np
from PIL import Image

RED, GREEN, BLUE, WHITE, BLACK = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (0, 0, 0)


def encode(image: Image.Image, format_: str, **options: Any) -> bytes:
    """The bytes of a picture's file."""
    out = io.BytesIO()
    image.save(out, format_, **options)
    return out.getvalue()


def decode(data: bytes) -> np.ndarray:
    """The pixels: uint8, shape (height, width, 3)."""
    with Image.open(io.BytesIO(data)) as image:
        assert image.mode == "RGB"
        return np.asarray(image)


def corners() -> Image.Image:
    """3 x 2 pixels: red, green, blue above; black, white, grey below."""
    return Image.fromarray(np.array([[RED, GREEN, BLUE], [BLACK, WHITE, (128, 128, 128)]], np.uint8))


def deep_png(values: np.ndarray) -> bytes:
    """A PNG of 16 bits a channel, which Pillow writes in gray alone: values are uint16, (height, width, 1 to 4)."""
    height, width, channels = values.shape
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in values)
    header = struct.pack(">IIBBBBB", width, height, 16, {1: 0, 2: 4, 3: 2, 4: 6}[channels], 0, 0, 0)
    chunks = ((b"IHDR", header), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    parts = [struct.pack(">I", len(of)) + kind + of + struct.pack(">I", zlib.crc32(kind + of)) for kind, of in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)
