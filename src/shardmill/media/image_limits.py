"""The limits of images that are decoded, apart from what decodes them, so that options take milliseconds to import."""

MAX_PIXELS = 178_956_970  # twice what Pillow warns of: where it, too, calls an image a decompression bomb
