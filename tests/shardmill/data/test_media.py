"""WAV files against the standard library's writer and SciPy, and everything that is none."""

import re

import numpy as np
import pytest

from shardmill.data.media import WavError, decode_samples, decode_to_array, read_header
from tests.support.sounds import SAMPLES, chunk, form, riff, scipy_samples, scipy_wav, wav


@pytest.mark.parametrize("channels", [1, 2, 5])
@pytest.mark.parametrize("bits", [8, 16, 24, 32])
def test_pcm_is_as_scipy_reads_it(bits: int, channels: int) -> None:
    data = wav(31, channels, bits, 22_050)
    found = read_header(data)
    assert (found.encoding, found.channels, found.sample_rate, found.frames) == (f"pcm{bits}", channels, 22_050, 31)
    np.testing.assert_array_equal(decode_samples(data, found), scipy_samples(data))


EXTENSIBLE = riff(
    chunk(b"LIST", b"odd"), chunk(b"fmt ", form(0xFFFE, extended=1)), chunk(b"data", SAMPLES), chunk(b"id3 ", b"x")
)
OF_SCIPY = [scipy_wav((np.arange(24).reshape(12, 2) * 5).astype(of)) for of in ("float32", "int16", "int32", "uint8")]


@pytest.mark.parametrize("data", [*OF_SCIPY, EXTENSIBLE], ids=range(5))
def test_files_of_others(data: bytes) -> None:
    np.testing.assert_array_equal(decode_samples(data, read_header(data)), scipy_samples(data))


@pytest.mark.parametrize(("bits", "extended", "encoding"), [(16, 1, "pcm16"), (32, 3, "float32")])
def test_extensible_headers(bits: int, extended: int, encoding: str) -> None:
    data = riff(chunk(b"fmt ", form(0xFFFE, bits=bits, extended=extended)), chunk(b"data", SAMPLES))
    assert read_header(data).encoding == encoding


def test_one_channel_is_flat_only_where_all_are() -> None:
    data = wav(7)
    assert decode_to_array(data, 1).shape == (7,)
    assert decode_to_array(data, 0).shape == (7, 1)
    assert not decode_to_array(data, 1).flags.writeable


def test_the_last_padding_may_be_missing() -> None:
    assert read_header(wav(3, bits=8)).frames == 3
    assert read_header(riff(chunk(b"fmt ", form(bits=8)), chunk(b"data", b"abc"))[:-1]).frames == 3


FORMAT = chunk(b"fmt ", form())
DATA = chunk(b"data", SAMPLES)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "the file is empty"),
        (b"hello world", "not a WAV file: it starts with"),
        (b"fLaC\0\0", "a FLAC file; convert it first"),
        (b"ID3\x04", "an MP3 file"),
        (b"\xff\xfb\x90", "an MP3 file"),
        (b"OggS", "an Ogg file"),
        (b"FORM\0\0\0\0AIFF", "an AIFF file"),
        (b"\0\0\0\x20ftypM4A ", "an MP4 or M4A file"),
        (b"RF64\xff\xff\xff\xffWAVE", "more than 4 GB"),
        (b"RIFF", "the header is cut short"),
        (b"RIFF\4\0\0\0AVI ", "a RIFF file of type b'AVI '"),
        (riff(FORMAT, DATA)[:-1], "truncated: the chunk 'data' has 12 bytes, of which 11 are there"),
        (riff(FORMAT, DATA)[:-2], "truncated: the header says 56 bytes, the file has 54"),
        (riff(FORMAT, DATA, size=0xFFFFFFFF), "does not say how long"),
        (riff(FORMAT, DATA, size=40), "the header says 48 bytes, but the chunk 'data' ends at 56"),
        (riff(FORMAT, b"data\xff\0\0\0ab"), "truncated: the chunk 'data' has 255 bytes, of which 2 are there"),
        (riff(DATA, FORMAT), "comes before the fmt chunk"),
        (riff(FORMAT), "there is no data chunk"),
        (riff(chunk(b"LIST", b"")), "there is no fmt chunk"),
        (riff(FORMAT, DATA, DATA), "two data chunks"),
        (riff(FORMAT, chunk(b"data", b"")), "there are no samples in it"),
        (riff(FORMAT, chunk(b"data", b"abc")), "3 bytes of samples are no whole number of frames of 2 bytes"),
        (riff(chunk(b"fmt ", form()[:12]), DATA), "the fmt chunk has 12 bytes"),
        (riff(chunk(b"fmt ", form(0xFFFE)), DATA), "the extensible fmt chunk has 16 bytes"),
        (riff(chunk(b"fmt ", form(0xFFFE, extended=1)[:-1] + b"?"), DATA), "expected PCM or float32"),
        (riff(chunk(b"fmt ", form(2, bits=4)), DATA), "samples are Microsoft ADPCM"),
        (riff(chunk(b"fmt ", form(7, bits=8)), DATA), "samples are mu-law"),
        (riff(chunk(b"fmt ", form(3, bits=64)), DATA), "samples are 64-bit floats"),
        (riff(chunk(b"fmt ", form(1, bits=12)), DATA), "samples are 12-bit PCM"),
        (riff(chunk(b"fmt ", form(channels=0)), DATA), "0 channels at 8000 Hz"),
        (riff(chunk(b"fmt ", form(rate=0)), DATA), "1 channels at 0 Hz"),
        (riff(chunk(b"fmt ", form(frame=4)), DATA), "the header says 4 and 32,000"),
        (riff(chunk(b"fmt ", form(byte_rate=1)), DATA), "the header says 2 and 1"),
    ],
)
def test_what_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(WavError, match=re.escape(words)):
        read_header(data)


def test_every_truncation_is_refused() -> None:
    data = wav(5, 2)
    for size in range(len(data)):
        with pytest.raises(WavError):
            read_header(data[:size])
