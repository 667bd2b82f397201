"""Pictures that look real: soft shapes of many sizes in many colours, and what becomes of photographs on their way."""

import io
from collections.abc import Callable, Mapping

import numpy as np
from PIL import Image, ImageEnhance


def photograph(number: int, width: int = 240, height: int = 180) -> Image.Image:
    """A picture for each number; no two look alike."""
    random = np.random.default_rng(number)
    pixels = np.zeros((height, width, 3))
    for cells in (3, 6, 12, 40):  # of coarse noise, made smooth
        noise = Image.fromarray(random.integers(0, 256, (cells, cells, 3), dtype=np.uint8))
        pixels += np.asarray(noise.resize((width, height), Image.Resampling.BICUBIC), float) / cells
    pixels = (pixels - pixels.min()) / (pixels.max() - pixels.min()) * 230
    return Image.fromarray(pixels.astype(np.uint8))


def encoded(picture: Image.Image, image_format: str = "JPEG", quality: int = 90) -> bytes:
    """The bytes of a picture's file."""
    out = io.BytesIO()
    picture.save(out, image_format, **({"quality": quality} if image_format == "JPEG" else {}))
    return out.getvalue()


# What is done to pictures that leaves them looking the same
CHANGES: Mapping[str, Callable[[Image.Image], bytes]] = {
    "re-encoded": lambda picture: encoded(picture, quality=45),
    "as a PNG": lambda picture: encoded(picture, "PNG"),
    "at half the size": lambda picture: encoded(picture.resize((picture.width // 2, picture.height // 2))),
    "in other proportions": lambda picture: encoded(picture.resize((224, 224))),
    "brighter": lambda picture: encoded(ImageEnhance.Brightness(picture).enhance(1.1)),
    "in grey": lambda picture: encoded(picture.convert("L")),
}
