"""How a picture looks, as a hash of 64 bits: those of pictures that differ in size, compression or brightness alone
differ in few bits.

A perceptual hash by the discrete cosine transform of the library imagehash. Both it and SciPy are imported where they
are used.
"""

import numpy as np
from PIL import Image

from shardmill.media.image_pixels import open_image, to_rgb
from shardmill.transforms.contents.looks import FLAT, UNDECODABLE

_DECODED = 64  # pixels: a JPEG is decoded at a fraction of its size, no smaller than that
_SIDE = 32  # pixels: what imagehash makes of a picture, 8 bits to a side times 4
_FLATTEST = 2.0  # levels of 255, the standard deviation below which a hash tells of noise alone


def method() -> str:
    """How a picture is hashed, in words."""
    import imagehash

    return f"pHash of 64 bits, by imagehash {imagehash.__version__}"


def version() -> str:
    """What hashes depend on beside the picture."""
    import imagehash
    import PIL

    return f"{imagehash.__version__}/{PIL.__version__}"


def look_of(data: bytes) -> str:
    """The hash of an encoded picture in hexadecimal digits; or FLAT, of one that is nearly of one colour, which would
    hash as any other that is; or UNDECODABLE.

    Pixels lie as they are stored: a picture that EXIF says to turn is not turned.
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
