"""What options of images may be, apart from what does it: a command's help imports no NumPy and no Pillow."""

from shardmill.media.image_limits import MAX_PIXELS as MAX_PIXELS

VERIFY = ("header", "decode", "none")  # how far an image is checked: its structure, every pixel, or not at all
FORMATS = ("jpeg", "png")  # what images are re-encoded as
# Stretch; fill the size and crop the centre; fit within it and pad with black
RESIZE_MODES = ("exact", "cover", "contain")
