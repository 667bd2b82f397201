"""Image file suffixes, the first bytes of image formats, and the delimiter, quote and missing values of CSV."""

import posixpath
import re
from dataclasses import dataclass

from shardmill.transforms.findings import MISSING as MISSING

# Alternatives of a regular expression; in either case
IMAGE_SUFFIXES = "jpg|jpeg|jpe|jfif|png|gif|bmp|dib|webp|tif|tiff|jp2|ppm|pgm|pbm|pnm|tga|ico|avif"
# The command for files of a suffix. A .txt may hold anything
COMMANDS = {
    **dict.fromkeys(IMAGE_SUFFIXES.split("|"), "images"),
    **{"csv": "csv", "tsv": "csv", "jsonl": "jsonl", "ndjson": "jsonl", "parquet": "parquet", "pq": "parquet"},
    **{"avro": "avro", "tfrecord": "reshard", "tfrecords": "reshard", "npy": "arrays", "wav": "audio"},
}


# JPEG (T.81, B.1.1.3), PNG (section 5.2), GIF 87a and 89a, BMP with the sizes that its second header may have, WebP in
# RIFF.
PNG = b"\x89PNG\r\n\x1a\n"
_IMAGE = re.compile(
    rb"(?P<jpeg>\xff\xd8\xff)|(?P<png>\x89PNG\r\n\x1a\n)|(?P<gif>GIF8[79]a)|(?P<webp>RIFF.{4}WEBP)"
    rb"|(?P<bmp>BM.{12}[\x0c\x28\x34\x38\x40\x6c\x7c]\0\0\0)",
    re.DOTALL,
)
HEAD_BYTES = 18  # of an image, enough to detect its format
DEEP_BYTES = 25  # of a PNG, enough to read its depth
NO_IMAGE = ""  # the format of a value that is none


def image_format(head: bytes) -> str:
    """Return the image format of data that begins with `head`, at least HEAD_BYTES long; NO_IMAGE if it is none."""
    match = _IMAGE.match(head)
    return (match.lastgroup or NO_IMAGE) if match else NO_IMAGE


def is_16_bit_png(head: bytes) -> bool:
    """Return True if data that begins with `head`, at least DEEP_BYTES long, is a PNG of 16 bits a channel."""
    return head[24:DEEP_BYTES] == b"\x10" and head.startswith(PNG)


def looks_like_image(data: bytes) -> bool:
    """Return True if a value begins like an image."""
    return image_format(data[:HEAD_BYTES]) != NO_IMAGE


_PICTURE = "a picture that readers do not decode: convert it to PNG or JPEG, for `shardmill images`"
_MNIST = "MNIST's format, which `shardmill arrays --stacked` reads"
_VIDEO = "a video: ffmpeg -i FILE frames/%06d.jpg makes images of its frames, for `shardmill images`"
_SOUND = "compressed audio: ffmpeg -i FILE NEW.wav makes what `shardmill audio` reads"
_DECODED = "sound that `shardmill audio --decode_audio` reads"
_HDF5 = "HDF5, which h5py reads: save each array with numpy.save, for `shardmill arrays`"
_FITS = "a FITS image, which astropy reads: save its data with numpy.save, for `shardmill arrays`"
_FOREIGN = {  # formats of others that no command reads, or another command
    ".npy": "an array, which `shardmill arrays` reads; PIL.Image.fromarray(array).save(NEW) makes a PNG of a mask",
    ".npz": "several arrays, whose rows `shardmill arrays --stacked` reads",
    ".mat": "MATLAB's format, which scipy.io.loadmat reads: save each array with numpy.save, for `shardmill arrays`",
    **dict.fromkeys((".heic", ".heif", ".svg", ".psd", ".raw", ".dng", ".cr2", ".nef", ".arw"), _PICTURE),
    **dict.fromkeys((".h5", ".hdf5", ".he5"), _HDF5),
    ".nii": "a NIfTI volume, which nibabel reads: save its array with numpy.save, for `shardmill arrays`",
    ".dcm": "a DICOM image, which pydicom reads: save its pixel_array with numpy.save, for `shardmill arrays`",
    **dict.fromkeys((".fits", ".fit", ".fts"), _FITS),
    **dict.fromkeys((".mp4", ".avi", ".mov", ".mkv", ".webm", ".m4v", ".mpg"), _VIDEO),
    **dict.fromkeys((".m4a", ".aac", ".opus", ".wma"), _SOUND),
    **dict.fromkeys((".mp3", ".flac", ".ogg", ".aiff", ".aif", ".au", ".caf", ".w64"), _DECODED),
    ".arrow": "Hugging Face's datasets writes Parquet of it: Dataset.from_file(FILE).to_parquet(NEW)",
    ".tar": "tar files of samples, 1.jpg next to 1.cls, are for `shardmill webdataset`",
    **dict.fromkeys((".xz", ".lzma", ".lz4", ".br"), "unpack it, or compress it with gzip, bzip2 or zstd instead"),
    ".mds": "MosaicML's StreamingDataset reads it; write its samples as Parquet, or as tar files for webdataset",
}


def describe_foreign_format(name: str) -> str:
    """Return what to do with a file of a format that no command reads, as the end of a sentence; "" for others."""
    lower = name.lower().removesuffix(".gz")
    hint = _MNIST if re.search(r"[-.]idx\d-ubyte$", lower) else _FOREIGN.get(posixpath.splitext(lower)[1])
    return f"; {hint}" if hint else ""


@dataclass(frozen=True, slots=True)
class Dialect:
    """The delimiter and the quote of a CSV text, as one-byte strings; the quote is b"" if fields are never quoted."""

    delimiter: bytes = b","
    quote: bytes = b'"'
