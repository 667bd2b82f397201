"""Decode images to pixels and WAV files to samples."""

import io
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from shardmill.data.features import Feature
from shardmill.installed import tf

if TYPE_CHECKING:
    from PIL import Image

_WHITE = 65535  # of 16 bits
# Formats that Pillow may decode, those of pictures; JPEG includes MPO. TGA is last: it has no signature.
_FORMATS = (
    *("JPEG", "PNG", "GIF", "BMP", "DIB", "WEBP", "TIFF", "AVIF", "JPEG2000", "PPM", "ICO", "SGI", "PCX", "PSD", "QOI"),
    "TGA",
)
_PNG = b"\x89PNG\r\n\x1a\n"
_BILINEAR = 2  # PIL.Image.Resampling.BILINEAR


def open_image(data: bytes) -> "Image.Image":
    """Open an image without decoding it; raise what Pillow raises.

    A PNG's transparent colour is converted from the scale of the file's samples, of 1 to 16 bits, to that of Pillow's
    pixels.
    """
    from PIL import Image

    image = Image.open(io.BytesIO(data), formats=_list_formats())
    key = image.info.get("transparency")
    if data.startswith(_PNG) and isinstance(key, (int, tuple)):
        bits = data[24]
        if isinstance(key, tuple):  # of 16 bits Pillow keeps the upper half; colours that differ below are one
            image.info["transparency"] = tuple(level >> 8 for level in key) if bits == 16 else key
        elif image.mode in ("1", "L"):
            image.info["transparency"] = key * 255 // ((1 << bits) - 1)
    return image


@cache
def _list_formats() -> tuple[str, ...]:
    from PIL import Image

    Image.init()
    return tuple(name for name in _FORMATS if name in Image.OPEN)


def to_rgb(image: "Image.Image") -> "Image.Image":
    """Convert `image` (palette, CMYK, grey, 16 bits, with or without alpha) to 8-bit RGB.

    Of 9 to 16 bits the upper 8 are kept, as in TensorFlow; `image.info["bits"]` has the bits of grey, 16 by default.
    Transparency is composited on white, as in img2dataset: the
    colour beneath transparent pixels is arbitrary.

    Raises:
        ValueError: if grey values exceed 16 bits, so that white is undefined.
    """
    from PIL import Image

    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode in ("I", "F"):
        _check_grey(image)
    if image.mode.startswith("I"):
        image = _to_eight_bits(image)
    elif image.mode == "1":
        key = image.info.get("transparency")
        image = image.convert("L")
        if key is not None:
            image.info["transparency"] = key
    if image.has_transparency_data:
        rgba = image.convert("RGBA")
        background = Image.new("RGBA", rgba.size, (255, 255, 255, 255))
        return Image.alpha_composite(background, rgba).convert("RGB")
    return image.convert("RGB")


def has_transparent_pixels(image: "Image.Image") -> bool:
    """Return True if a decoded image has a pixel that is not opaque."""
    if not image.has_transparency_data:
        return False
    if image.getbands()[-1] in ("A", "a"):
        alpha = image.getchannel(len(image.getbands()) - 1)
    elif image.mode in ("1", "I", "I;16"):
        return bool((np.asarray(image.convert("I")) == image.info["transparency"]).any())
    else:
        alpha = image.convert("RGBA").getchannel("A")
    return alpha.getextrema()[0] < 255  # type: ignore[operator]


def rgb_array(data: bytes, max_pixels: int, size: tuple[int, int] | None = None, fast_jpeg: bool = False) -> np.ndarray:
    """Decode an image to a read-only uint8 array, shape (height, width, 3).

    It is scaled to `size`, height and width, bilinearly and with antialiasing, unless that is None. `fast_jpeg` decodes
    a JPEG at 1/2, 1/4 or 1/8 of its size before, if that is at least `size`.

    Raise a ValueError if it does not decode, or has more than `max_pixels`.
    """

    def convert(image: "Image.Image") -> "Image.Image":
        if size is None:
            return to_rgb(image)
        height, width = size
        reduced = image.draft(None, (width, height)) if fast_jpeg else None
        # The last row and column of a reduced image may lie partly beyond the picture
        box = None if reduced is None else reduced[1]
        return to_rgb(image).resize((width, height), _BILINEAR, box)

    return _decode(data, max_pixels, convert)


def mask_array(data: bytes, max_pixels: int, size: tuple[int, int] | None = None) -> np.ndarray:
    """Decode a mask to a read-only array, uint8 or (for 16-bit PNGs) uint16, shape (height, width, 1).

    It is scaled to `size`, height and width, unless that is None: each value comes from the nearest pixel.

    Raises:
        ValueError: if it does not decode, or has more than `max_pixels`.
    """
    values = _decode(data, max_pixels, lambda image: image if image.mode.startswith("I") else image.convert("L"))
    if size is not None:
        rows, columns = ((np.arange(new) + 0.5) * old / new for new, old in zip(size, values.shape, strict=True))
        values = values[rows.astype(int)[:, None], columns.astype(int)]
    return values.astype(np.uint16, copy=False)[..., None] if values.dtype != np.uint8 else values[..., None]


def _decode(data: bytes, max_pixels: int, convert: "Callable[[Image.Image], Image.Image]") -> np.ndarray:
    from PIL import UnidentifiedImageError

    try:
        with open_image(data) as image:
            if image.width * image.height > max_pixels:
                size = f"{image.width} x {image.height} pixels"
                raise ValueError(
                    f"{size} are more than the {max_pixels} that the data set was made with: a decompression bomb?"
                )
            return np.asarray(convert(image))
    except UnidentifiedImageError:
        raise ValueError(f"not an image that Pillow reads: the file starts with {data[:8]!r}") from None
    except MemoryError:  # of this process, and no fault of the image
        raise
    except Exception as error:  # what its readers' parsing happens to raise, and a class of its own for bombs
        raise ValueError(str(error) or type(error).__name__) from error


def _check_grey(image: "Image.Image") -> None:
    values = np.asarray(image)
    finite = values[np.isfinite(values)]
    lowest, highest = (finite.min(), finite.max()) if finite.size else (np.nan, np.nan)
    if image.mode == "F" or lowest < 0 or highest > _WHITE:
        odd = values.size - finite.size
        what = f"floats{f', {odd:,} of them NaN or infinite,' if odd else ''}" if image.mode == "F" else "grey"
        raise ValueError(
            f"{what} from {lowest:g} to {highest:g}, where white is {_WHITE} or 255: make it gray of 16 or 8 bits"
        )


def _to_eight_bits(image: "Image.Image") -> "Image.Image":
    """Convert 16-bit grey to 8-bit grey, with alpha if a colour is transparent. convert("L") alone clips at 255."""
    from PIL import Image

    key = image.info.get("transparency")
    wide = image.convert("I")
    depth = 1 << image.info.get("bits", 16) - 8
    grey = wide.point(lambda value: value / depth).convert("L")
    if not isinstance(key, int):
        return grey
    opaque = Image.fromarray(np.where(np.asarray(wide) == key, 0, 255).astype(np.uint8))
    return Image.merge("LA", (grey, opaque))


# wFormatTag: WAVE_FORMAT_* of mmreg.h
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
# By tag and bits of a sample
_ENCODINGS = {(_PCM, 8): "pcm8", (_PCM, 16): "pcm16", (_PCM, 24): "pcm24", (_PCM, 32): "pcm32", (_FLOAT, 32): "float32"}
# Of a subformat that is one of the tags: KSDATAFORMAT_SUBTYPE_*
_GUID_END = bytes.fromhex("000000001000800000aa00389b71")
_PIPE_SIZE = 0x7FFFF000  # or more, of what was written to a pipe: nobody went back to fill it in; SoX writes this
_FROM_PIPE = "the header does not say how long the file is, as where it was written to a pipe; write it to a file"
# Tags of mmreg.h that are met with.
_UNSUPPORTED_FORMATS = {
    2: "Microsoft ADPCM",
    6: "A-law",
    7: "mu-law",
    17: "IMA ADPCM",
    49: "GSM 6.10",
    80: "MPEG",
    85: "MP3",
    255: "AAC",
}
_FOREIGN_FILES = (
    *((bytes((0xFF, second)), "an MP3 file") for second in (0xFB, 0xFA, 0xF3, 0xF2, 0xE3, 0xE2)),
    (b"fLaC", "a FLAC file"),
    (b"OggS", "an Ogg file"),
    (b"ID3", "an MP3 file"),
    (b"FORM", "an AIFF file"),
    (b"RF64", "an RF64 file, a WAV of more than 4 GB"),
    (b"BW64", "a BW64 file, a WAV of more than 4 GB"),
    (b"RIFX", "a RIFX file, a WAV with its bytes in the other order"),
    (b"riff", "a Wave64 file"),
    (b".snd", "a Sun .au file"),
    (b"caff", "a Core Audio file"),
    (b"wvpk", "a WavPack file"),
    (b"MAC ", "a Monkey's Audio file"),
    (b"#!AMR", "an AMR file"),
    (b"MThd", "a MIDI file"),
    (b"NIST_1A", "a NIST SPHERE file"),
    (b"\x1a\x45\xdf\xa3", "a Matroska or WebM file"),
)


class WavError(ValueError):
    """The reason why a file is rejected, as written to rejects/."""


class UnsupportedWavError(WavError):
    """The reason why a file is rejected that is not damaged, and that other libraries may read."""


@dataclass(frozen=True, slots=True)
class WavHeader:
    """The checked header of a WAV file."""

    encoding: str  # of the samples, one of ENCODINGS
    channels: int  # samples per frame
    sample_rate: int  # frames per second
    frames: int  # number of frames
    start: int  # byte offset of the first frame
    size_bytes: int  # of all frames

    @property
    def seconds(self) -> float:
        """Return the duration in seconds."""
        return self.frames / self.sample_rate


def read_header(data: bytes) -> WavHeader:
    """Read and check the chunks of a WAV file.

    Raises:
        WavError: if it is not a WAV file, is truncated, inconsistent, or its sample encoding is unsupported.
    """
    _check_riff(data)
    form, samples = None, None
    for name, start, size in _chunks(data):
        if name == b"fmt " and form is None:
            form = _parse_format(data[start : start + size])
        elif name == b"data":
            if samples is not None:
                raise WavError("two data chunks; expected one")
            if form is None:
                raise WavError("the data chunk comes before the fmt chunk")
            samples = (start, size)
    if form is None:
        raise WavError("there is no fmt chunk")
    if samples is None:
        raise WavError("truncated: there is no data chunk")
    encoding, channels, sample_rate, frame_bytes = form
    start, size = samples
    if size % frame_bytes:
        raise WavError(f"{size:,} bytes of samples are no whole number of frames of {frame_bytes} bytes")
    if not size:
        raise WavError("there are no samples in it")
    return WavHeader(encoding, channels, sample_rate, size // frame_bytes, start, size)


def decode_samples(data: bytes, wav: WavHeader) -> np.ndarray:
    """Return the samples as float32, (frames, channels): integers are scaled to [-1, 1), as in TensorFlow."""
    values: np.ndarray
    raw = np.frombuffer(data, np.uint8, wav.size_bytes, wav.start)
    if wav.encoding == "float32":
        values = raw.view("<f4").astype(np.float32)
    elif wav.encoding == "pcm8":  # the one without a sign
        values = (raw.astype(np.float32) - 128) / 128
    elif wav.encoding == "pcm24":
        wide = np.zeros((len(raw) // 3, 4), np.uint8)
        wide[:, 1:] = raw.reshape(-1, 3)
        values = wide.reshape(-1).view("<i4").astype(np.float32) / np.float32(1 << 31)
    else:
        bits = 16 if wav.encoding == "pcm16" else 32
        values = raw.view(f"<i{bits // 8}").astype(np.float32) / np.float32(1 << (bits - 1))
    return values.reshape(-1, wav.channels)


def decode_to_array(data: bytes, channels: int) -> np.ndarray:
    """Decode a WAV file to read-only float32 samples: (frames,) if `channels` is 1, else (frames, channels).

    `channels` are those of all files of the dataset, or 0 if they differ.

    Raises:
        WavError: if `read_header` rejects the file.
    """
    values = decode_samples(data, read_header(data))
    values = values[:, 0] if channels == 1 else values
    values.flags.writeable = False
    return values


def _check_riff(data: bytes) -> None:
    if not data:
        raise WavError("the file is empty")
    if data[:4] != b"RIFF":
        foreign = (what for magic, what in _FOREIGN_FILES if data.startswith(magic))
        what = "an MP4 or M4A file" if data[4:8] == b"ftyp" else next(foreign, None)
        if what is not None:
            _check_foreign_size(data)
            raise UnsupportedWavError(f"not a WAV file: {what}; convert it first")
        raise WavError(f"not a WAV file: it starts with {data[:8]!r}")
    if len(data) < 12:
        raise WavError("truncated: the header is cut short")
    if data[8:12] != b"WAVE":
        raise WavError(f"not a WAV file: a RIFF file of type {data[8:12]!r}")
    declared = struct.unpack_from("<I", data, 4)[0]
    if declared == 0 or declared >= _PIPE_SIZE > len(data):
        raise UnsupportedWavError(_FROM_PIPE)
    if declared + 8 > len(data) + 1:  # the last padding may be missing
        raise WavError(f"truncated: the header says {declared + 8:,} bytes, the file has {len(data):,}")


def _check_foreign_size(data: bytes) -> None:
    """Raise a WavError if a RIFX or RF64 file is shorter than its header says."""
    declared = 0
    if data.startswith(b"RIFX") and len(data) >= 8:
        declared = struct.unpack_from(">I", data, 4)[0]
    elif data.startswith((b"RF64", b"BW64")) and data[12:16] == b"ds64" and len(data) >= 28:
        declared = struct.unpack_from("<Q", data, 20)[0]
    if declared and declared + 8 > len(data) + 1 and not declared >= _PIPE_SIZE > len(data):
        raise WavError(f"truncated: the header says {declared + 8:,} bytes, the file has {len(data):,}")


def _chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield name, start and size of each chunk within the RIFF chunk.

    Odd sizes are padded by a byte, which the last chunk may lack.
    """
    end = 8 + struct.unpack_from("<I", data, 4)[0]
    offset = 12
    while offset + 8 <= end and offset + 8 <= len(data):
        name, size = struct.unpack_from("<4sI", data, offset)
        start, shown = offset + 8, repr(name.decode("latin-1"))
        # The size of the samples was never filled in: no other chunk follows 0 bytes
        is_open = size >= _PIPE_SIZE > len(data) or (size == 0 and not data[start : start + 4].strip().isalnum())
        if name == b"data" and start < len(data) and is_open:
            raise UnsupportedWavError(_FROM_PIPE)
        if start + size > len(data):
            raise WavError(f"truncated: the chunk {shown} has {size:,} bytes, of which {len(data) - start:,} are there")
        if start + size > end:
            raise UnsupportedWavError(
                f"the header says {end:,} bytes, but the chunk {shown} ends at {start + size:,}, which is there"
            )
        yield name, start, size
        offset = start + size + size % 2


def _parse_format(chunk: bytes) -> tuple[str, int, int, int]:
    if len(chunk) < 16:
        raise WavError(f"the fmt chunk has {len(chunk)} bytes; expected 16 or more")
    tag, channels, rate, byte_rate, frame_bytes, bits = struct.unpack_from("<HHIIHH", chunk)
    if tag == _EXTENSIBLE:
        if len(chunk) < 40:
            raise WavError(f"the extensible fmt chunk has {len(chunk)} bytes; expected 40")
        if chunk[26:40] != _GUID_END:
            raise UnsupportedWavError(f"samples of the format {chunk[24:40].hex()}; expected PCM or float32")
        tag = struct.unpack_from("<H", chunk, 24)[0]
    encoding = _ENCODINGS.get((tag, bits))
    if encoding is None:
        kind = {_PCM: f"{bits}-bit PCM", _FLOAT: f"{bits}-bit floats"}.get(
            tag, _UNSUPPORTED_FORMATS.get(tag, f"the format {tag:#06x}")
        )
        raise UnsupportedWavError(f"samples are {kind}; expected PCM of 8, 16, 24 or 32 bits, or float32")
    if not channels or not rate:
        raise WavError(f"{channels} channels at {rate} Hz; expected at least 1 of each")
    if frame_bytes != channels * bits // 8 or byte_rate != rate * frame_bytes:
        raise WavError(
            f"{channels} channels of {bits} bits at {rate} Hz are {channels * bits // 8} bytes a frame and "
            f"{rate * channels * bits // 8:,} a second; the header says {frame_bytes} and {byte_rate:,}"
        )
    return encoding, channels, rate, frame_bytes


def decode_wav_tensor(feature: Feature, data: Any) -> Any:
    """Decode a scalar string tensor to float32: (frames,) if all files have one channel, else (frames, channels).

    Datasets of 16-bit PCM use tf.audio.decode_wav. Others are decoded by NumPy in this process, to the same scale.
    """
    if feature.encoding == "pcm16":
        samples = tf.audio.decode_wav(data).audio
    else:
        samples = tf.numpy_function(lambda file: decode_to_array(file, 0), [data], tf.float32, stateful=False)
    samples = tf.ensure_shape(samples, (None, feature.channels or None))
    return samples[:, 0] if feature.channels == 1 else samples
