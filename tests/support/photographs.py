"""Pictures that look real: soft shapes of many sizes in many colours, and what becomes of photographs on their way."""

from collections.abc import Callable, Mapping

import numpy as np
from PIL import Image, ImageEnhance

from tests.support.masks import encoded


def photograph(number: int, width: int = 240, height: int = 180) -> Image.Image:
    """A picture for each number; no two look alike."""
    random = np.random.default_rng(number)
    pixels = np.zeros((height, width, 3))
    for cells in (3, 6, 12, 40):  # of coarse noise, made smooth
        noise = Image.fromarray(random.integers(0, 256, (cells, cells, 3), dtype=np.uint8))
        pixels += np.asarray(noise.resize((width, height), Image.Resampling.BICUBIC), float) / cells
    pixels = (pixels - pixels.min()) / (pixels.max() - pixels.min()) * 230
    return Image.fromarray(pixels.astype(np.uint8))


def jpeg(picture: Image.Image, quality: int = 90) -> bytes:
    """The bytes of a picture's file."""
    return encoded(picture, "JPEG", quality=quality)


# What is done to pictures that leaves them looking the same
CHANGES: Mapping[str, Callable[[Image.Image], bytes]] = {
    "re-encoded": lambda picture: jpeg(picture, quality=45),
    "as a PNG": lambda picture: encoded(picture),
    "at half the size": lambda picture: jpeg(picture.resize((picture.width // 2, picture.height // 2))),
    "in other proportions": lambda picture: jpeg(picture.resize((224, 224))),
    "brighter": lambda picture: jpeg(ImageEnhance.Brightness(picture).enhance(1.1)),
    "in grey": lambda picture: jpeg(picture.convert("L")),
}
