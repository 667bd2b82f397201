"""WAV files for tests: of the standard library, of SciPy, and with any chunks."""

import io
import struct
import wave
from typing import Any

import numpy as np
from scipy.io import wavfile


def wav(frames: int = 40, channels: int = 1, bits: int = 16, rate: int = 8000, number: int = 0) -> bytes:
    """PCM as the standard library writes it."""
    size = bits // 8
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(size)
        file.setframerate(rate)
        file.writeframes(bytes((number * 41 + index * 53) % 256 for index in range(frames * channels * size)))
    return out.getvalue()


def scipy_wav(samples: Any, rate: int = 8000) -> bytes:
    """What SciPy writes of an array."""
    out = io.BytesIO()
    wavfile.write(out, rate, samples)
    return out.getvalue()


def scipy_samples(data: bytes) -> np.ndarray:
    """What SciPy reads, on the scale of float32 in [-1, 1), (frames, channels)."""
    _, values = wavfile.read(io.BytesIO(data))
    scaled: np.ndarray
    if values.dtype == np.uint8:
        scaled = (values.astype(np.float64) - 128) / 128
    elif values.dtype.kind == "i":  # of 24 bits SciPy makes 32
        scaled = values.astype(np.float64) / (1 << (8 * values.dtype.itemsize - 1))
    else:
        scaled = values
    return scaled.astype(np.float32).reshape(len(values), -1)


def chunk(name: bytes, content: bytes) -> bytes:
    """A chunk of a RIFF file, padded."""
    return name + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2)


def form(
    tag: int = 1, channels: int = 1, bits: int = 16, rate: int = 8000, extended: int | None = None, **wrong: int
) -> bytes:
    """The content of a fmt chunk; `extended` is the tag in an extensible one."""
    frame = wrong.get("frame", channels * bits // 8)
    plain = struct.pack("<HHIIHH", tag, channels, rate, wrong.get("byte_rate", rate * frame), frame, bits)
    if extended is None:
        return plain
    guid = struct.pack("<H", extended) + bytes.fromhex("000000001000800000aa00389b71")
    return plain + struct.pack("<HHI", 22, bits, 0) + guid


def riff(*chunks: bytes, size: int | None = None) -> bytes:
    """A WAV file of some chunks."""
    body = b"WAVE" + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body) if size is None else size) + body


SAMPLES = struct.pack("<6h", 0, 1000, -1000, 32767, -32768, 5)
