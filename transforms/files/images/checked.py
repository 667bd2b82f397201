"""An image's header, once the image is seen to be whole and not too large. Pure."""

from transforms.files.images.errors import ImageError
from transforms.files.images.header import ImageHeader, check_structure, read_header


def checked_header(data: bytes, most_said: str, max_pixels: int) -> ImageHeader:
    """The header of an image that is whole, of a kind that TensorFlow decodes, and of `max_pixels` at most.

    Raises:
      ImageError: it is not; `most_said` is how the message calls the limit.
    """
    header = read_header(data)
    check_pixels(header, most_said, max_pixels)
    return check_structure(data, header)


def check_pixels(header: ImageHeader, most_said: str, max_pixels: int) -> None:
    """Raise an ImageError if an image is larger than `max_pixels`, which the message calls `most_said`."""
    if header.width * header.height > max_pixels:
        raise ImageError(
            f"a {header.format} of {header.width} x {header.height} pixels is more than {most_said}: a decompression"
            " bomb?"
        )
