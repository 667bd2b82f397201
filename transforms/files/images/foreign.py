"""What a file is that is no image we read: a better answer than its first bytes."""

# Signatures from each format's specification; an ISO file's brand stands behind "ftyp" (ISO/IEC 14496-12, 23008-12).
_BRANDS = (
    (frozenset({b"avif", b"avis"}), "an AVIF image"),
    (frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"}), "a HEIC photo"),
)
_STARTS = (
    (b"PK\x03\x04", "a zip archive"),
    (b"PK\x05\x06", "a zip archive"),
    (b"\x1f\x8b", "a gzip file"),
    (b"Rar!\x1a\x07", "a RAR archive"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive"),
    (b"%PDF-", "a PDF"),
    (b"\xff\x0a", "a JPEG XL image"),
    (b"\0\0\0\x0cJXL \r\n\x87\n", "a JPEG XL image"),
    (b"\0\0\0\x0cjP  \r\n\x87\n", "a JPEG 2000 image"),
    (b"8BPS", "a Photoshop file"),
    (b"\0\0\x01\0", "an icon (ICO)"),
    (b"version https://git-lfs", "a Git LFS pointer, whose image was not pulled"),
    (b"\x89HDF\r\n\x1a\n", "an HDF5 file"),
    (b"\x93NUMPY", "a .npy array, which `shardmill arrays` reads"),
)
_TEXTS = (
    (b"<!doctype html", "a web page (HTML), which a server may have answered in place of an image"),
    (b"<html", "a web page (HTML), which a server may have answered in place of an image"),
    (b"<svg", "an SVG drawing"),
    (b"<?xml", "an XML file"),
)


READ_BY_PILLOW = frozenset({"an AVIF image", "a JPEG 2000 image", "a Photoshop file", "an icon (ICO)"})
READ_BY_NONE = frozenset({"a HEIC photo", "a JPEG XL image", "an SVG drawing"})


def describe(data: bytes) -> str:
    """What `data` is, with its article, such as `a zip archive`; "" where it is nothing known."""
    if data[4:8] == b"ftyp":
        end = min(int.from_bytes(data[:4], "big"), 64)
        # The major one, then those it is compatible with
        brands = [data[8:12], *(data[at : at + 4] for at in range(16, end, 4))]
        for known, what in _BRANDS:
            if known & set(brands):
                return what
        return "a video or another ISO media file"
    for start, what in _STARTS:
        if data.startswith(start):
            return what
    text = data[:512].removeprefix(b"\xef\xbb\xbf").lstrip().lower()
    for start, what in _TEXTS:
        if text.startswith(start):
            return "an SVG drawing" if start == b"<?xml" and b"<svg" in text else what
    return ""
