"""Perceptual hashes of images, computed as the images are encoded."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from PIL import Image

from shardmill.addons.near_duplicates.search import FLAT, UNDECODABLE, find_near_duplicates
from shardmill.addons.near_duplicates.stats import NearDuplicates
from shardmill.data.media import open_image, to_rgb
from shardmill.transforms.statistics.observations import ImageObserver, ObservedShard

_DECODED = 64  # pixels: a JPEG is decoded at a fraction of its size, no smaller than that
_SIDE = 32  # pixels: what imagehash makes of a picture, 8 bits to a side times 4
_FLATTEST = 2.0  # levels of 255, the standard deviation below which a hash tells of noise alone


@dataclass(frozen=True)
class NearDuplicatesObserver(ImageObserver):
    """Hashes each image perceptually, and finds the images whose hashes are near each other."""

    key = "near_duplicates"

    @cached_property
    def version(self) -> str:
        import imagehash
        import PIL

        return f"{imagehash.__version__}/{PIL.__version__}"

    def observe(self, image: bytes) -> str:
        return perceptual_hash(image)

    def search(self, shards: Iterable[ObservedShard]) -> NearDuplicates:
        import imagehash

        return find_near_duplicates(f"pHash of 64 bits, by imagehash {imagehash.__version__}", shards)


def perceptual_hash(data: bytes) -> str:
    """Return the perceptual hash of an encoded image as hexadecimal digits, or FLAT or UNDECODABLE.

    The hash has 64 bits, few of which differ if images differ only in size, compression or brightness. FLAT is that of
    images of nearly one colour, which would all hash alike. EXIF rotation is not applied.
    """
    import imagehash

    try:
        with open_image(data) as source:
            source.draft("L", (_DECODED, _DECODED))
            grey = source if source.mode == "L" and "transparency" not in source.info else to_rgb(source).convert("L")
            small = grey.resize((_SIDE, _SIDE), Image.Resampling.LANCZOS, reducing_gap=3.0)
    except MemoryError:  # of this process, and no fault of the image
        raise
    except Exception:  # Pillow's readers raise what their parsing happens to raise
        return UNDECODABLE
    if np.asarray(small).std() < _FLATTEST:
        return FLAT
    return str(imagehash.phash(small))


OBSERVER = NearDuplicatesObserver()
