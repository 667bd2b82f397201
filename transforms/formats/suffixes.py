"""The suffixes of images' names."""

# Alternatives of a regular expression; in either case
IMAGE_SUFFIXES = "jpg|jpeg|jpe|jfif|png|gif|bmp|dib|webp|tif|tiff|jp2|ppm|pgm|pbm|pnm|tga|ico|avif|heic|heif"
