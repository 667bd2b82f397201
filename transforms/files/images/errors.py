"""Why an image is refused."""

REMEDY = "--image_format jpeg or png makes one that it reads"


class ImageError(ValueError):
    """Why an image is refused, as it will stand in rejects/."""


class UnreadableError(ImageError):
    """A whole image that TensorFlow's decoder refuses or reads wrongly, and Pillow does not; the message names the
    flag."""

    def __init__(self, what: str) -> None:
        super().__init__(f"{what}; {REMEDY}")
