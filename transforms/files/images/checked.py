"""An image's header, once the image is seen to be whole and not too large. Pure."""

from shardmill.transforms.files.images.errors import ImageError
from shardmill.transforms.files.images.header import ImageHeader, check_structure, read_header


def checked_image(data: bytes, verify: str, max_pixels: int) -> ImageHeader:
    """The header of an image that is whole, of a kind that TensorFlow decodes, and of `max_pixels` at most, before
    anything is decoded: every pixel if `verify` is `decode`.

    Raises:
      ImageError: it is not.
    """
    header = read_header(data)
    check_pixels(header, max_pixels)
    header = check_structure(data, header)
    if verify == "decode":
        from shardmill.transforms.files.images.codec import (
            check_decodes,  # Pillow, which tables without images do without
        )

        check_decodes(data)
    return header


def check_pixels(header: ImageHeader, max_pixels: int) -> None:
    """Raise an ImageError if an image is larger than `max_pixels`."""
    if header.width * header.height > max_pixels:
        raise ImageError(
            f"a {header.format} of {header.width} x {header.height} pixels is more than --max_pixels {max_pixels}: a"
            " decompression bomb?"
        )
