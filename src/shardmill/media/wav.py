"""RIFF/WAVE files: a walker over their chunks that checks that the sizes add up, and their samples as NumPy has them.

The format is that of Microsoft's and IBM's "Multimedia Programming Interface and Data Specifications 1.0" (1991) and,
for the extensible one, of mmreg.h's WAVEFORMATEXTENSIBLE.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

# wFormatTag: WAVE_FORMAT_* of mmreg.h
_PCM, _FLOAT, _EXTENSIBLE = 1, 3, 0xFFFE
# By tag and bits of a sample
_ENCODINGS = {(_PCM, 8): "pcm8", (_PCM, 16): "pcm16", (_PCM, 24): "pcm24", (_PCM, 32): "pcm32", (_FLOAT, 32): "float32"}
ENCODINGS = tuple(_ENCODINGS.values())
# Of a subformat that is one of the tags: KSDATAFORMAT_SUBTYPE_*
_GUID_END = bytes.fromhex("000000001000800000aa00389b71")
_UNKNOWN_SIZES = (0, 0xFFFFFFFF)  # of what was written to a pipe: nobody went back to fill it in
# Tags of mmreg.h that are met with.
_OTHERS = {
    2: "Microsoft ADPCM",
    6: "A-law",
    7: "mu-law",
    17: "IMA ADPCM",
    49: "GSM 6.10",
    80: "MPEG",
    85: "MP3",
    255: "AAC",
}
_FOREIGN = (
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
    """Why a file is refused, as it will stand in rejects/."""


@dataclass(frozen=True, slots=True)
class Wav:
    """What the header of a WAV file says, after it was checked.

    Attributes:
      encoding: of the samples, one of ENCODINGS.
      channels: how many samples a frame has.
      sample_rate: frames a second.
      frames: how many there are.
      start: where the first one begins, in bytes.
      size_bytes: of all frames.
    """

    encoding: str
    channels: int
    sample_rate: int
    frames: int
    start: int
    size_bytes: int

    @property
    def seconds(self) -> float:
        """How long it lasts."""
        return self.frames / self.sample_rate


def read_header(data: bytes) -> Wav:
    """Walk over the chunks of a WAV file.

    Raises:
      WavError: it is none, is truncated, contradicts itself, or its samples are of another encoding; the message says
        which.
    """
    _check_riff(data)
    form, samples = None, None
    for name, start, size in _chunks(data):
        if name == b"fmt " and form is None:
            form = _format(data[start : start + size])
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
    return Wav(encoding, channels, sample_rate, size // frame_bytes, start, size)


def samples(data: bytes, wav: Wav) -> np.ndarray:
    """The samples as float32, (frames, channels): floats as they are, integers scaled to [-1, 1), as TensorFlow
    does."""
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


def decode(data: bytes, channels: int) -> np.ndarray:
    """The samples of a WAV file as read-only float32: (frames,) where all of a data set have one of `channels`, else
    two sizes.

    Raises:
      WavError: as `read_header`.
    """
    values = samples(data, read_header(data))
    values = values[:, 0] if channels == 1 else values
    values.flags.writeable = False
    return values


def _check_riff(data: bytes) -> None:
    if not data:
        raise WavError("the file is empty")
    if data[:4] != b"RIFF":
        if data[:2] in (b"\xff\xfb", b"\xff\xf3", b"\xff\xf2"):
            raise WavError("not a WAV file: an MP3 file; convert it first")
        if data[4:8] == b"ftyp":
            raise WavError("not a WAV file: an MP4 or M4A file; convert it first")
        for magic, what in _FOREIGN:
            if data.startswith(magic):
                raise WavError(f"not a WAV file: {what}; convert it first")
        raise WavError(f"not a WAV file: it starts with {data[:8]!r}")
    if len(data) < 12:
        raise WavError("truncated: the header is cut short")
    if data[8:12] != b"WAVE":
        raise WavError(f"not a WAV file: a RIFF file of type {data[8:12]!r}")
    declared = struct.unpack_from("<I", data, 4)[0]
    if declared in _UNKNOWN_SIZES:
        raise WavError(
            "the header does not say how long the file is, as where it was written to a pipe; write it to a file"
        )
    if declared + 8 > len(data) + 1:  # the last padding may be missing
        raise WavError(f"truncated: the header says {declared + 8:,} bytes, the file has {len(data):,}")


def _chunks(data: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Name, start and size of each chunk within the RIFF chunk; one of odd size has a byte of padding, which the last
    may lack."""
    end = 8 + struct.unpack_from("<I", data, 4)[0]
    offset = 12
    while offset + 8 <= end and offset + 8 <= len(data):
        name, size = data[offset : offset + 4], struct.unpack_from("<I", data, offset + 4)[0]
        start = offset + 8
        if start + size > len(data):
            raise WavError(
                f"truncated: the chunk {_name(name)} has {size:,} bytes, of which {len(data) - start:,} are there"
            )
        if start + size > end:
            raise WavError(f"the header says {end:,} bytes, but the chunk {_name(name)} ends at {start + size:,}")
        yield name, start, size
        offset = start + size + size % 2


def _name(chunk: bytes) -> str:
    return repr(chunk.decode("latin-1"))


def _format(chunk: bytes) -> tuple[str, int, int, int]:
    """Encoding, channels, sample rate and bytes of a frame."""
    if len(chunk) < 16:
        raise WavError(f"the fmt chunk has {len(chunk)} bytes; expected 16 or more")
    tag, channels, rate, byte_rate, frame_bytes, bits = struct.unpack_from("<HHIIHH", chunk)
    if tag == _EXTENSIBLE:
        if len(chunk) < 40:
            raise WavError(f"the extensible fmt chunk has {len(chunk)} bytes; expected 40")
        if chunk[26:40] != _GUID_END:
            raise WavError(f"samples of the format {chunk[24:40].hex()}; expected PCM or float32")
        tag = struct.unpack_from("<H", chunk, 24)[0]
    encoding = _ENCODINGS.get((tag, bits))
    if encoding is None:
        kind = {_PCM: f"{bits}-bit PCM", _FLOAT: f"{bits}-bit floats"}.get(
            tag, _OTHERS.get(tag, f"the format {tag:#06x}")
        )
        raise WavError(f"samples are {kind}; expected PCM of 8, 16, 24 or 32 bits, or float32")
    if not channels or not rate:
        raise WavError(f"{channels} channels at {rate} Hz; expected at least 1 of each")
    if frame_bytes != channels * bits // 8 or byte_rate != rate * frame_bytes:
        raise WavError(
            f"{channels} channels of {bits} bits at {rate} Hz are {channels * bits // 8} bytes a frame and "
            f"{rate * channels * bits // 8:,} a second; the header says {frame_bytes} and {byte_rate:,}"
        )
    return encoding, channels, rate, frame_bytes
