"""The formats of images by their first bytes. Pure."""

import re

# JPEG (T.81, B.1.1.3), PNG (section 5.2), GIF 87a and 89a, BMP with the sizes that its second header may have, WebP in
# RIFF.
PNG = b"\x89PNG\r\n\x1a\n"
_IMAGE = re.compile(
    rb"(?P<jpeg>\xff\xd8\xff)|(?P<png>\x89PNG\r\n\x1a\n)|(?P<gif>GIF8[79]a)|(?P<webp>RIFF.{4}WEBP)"
    rb"|(?P<bmp>BM.{12}[\x0c\x28\x34\x38\x40\x6c\x7c]\0\0\0)",
    re.DOTALL,
)
HEAD_BYTES = 18  # of an image, in which its format is told
DEEP_BYTES = 25  # of a PNG, in which its depth is told
NO_IMAGE = ""  # the format of a value that is none


def image_format(head: bytes) -> str:
    """The format of what begins with `head`, of HEAD_BYTES or more."""
    match = _IMAGE.match(head)
    return (match.lastgroup or NO_IMAGE) if match else NO_IMAGE


def is_deep_png(head: bytes) -> bool:
    """Whether what begins with `head`, of DEEP_BYTES or more, is a PNG of 16 bits a channel."""
    return head[24:DEEP_BYTES] == b"\x10" and head.startswith(PNG)


def looks_like_image(data: bytes) -> bool:
    """Whether a value begins as an image does."""
    return image_format(data[:HEAD_BYTES]) != NO_IMAGE
