"""What tf.audio.decode_wav takes, and what we say that it takes."""

import itertools

import numpy as np
import pytest

from shardmill.data.media import read_header
from shardmill.transforms.files.audio import is_decodable
from tests.support.later import Later
from tests.support.sounds import SAMPLES, chunk, form, riff, scipy_wav, wav

tf = Later("tensorflow")

FORMATS = (
    form(),
    form() + b"\0\0",
    form(0xFFFE, extended=1),
    form(channels=2),
    form(bits=8),
    form(bits=24),
    form(3, bits=32),
)
BEFORE = (b"JUNK", b"bext", b"iXML", b"qlty", b"mext", b"levl", b"link", b"axml", b"LIST", b"junk", b"fact")
EXTRA = (b"", chunk(b"LIST", b"even"), chunk(b"LIST", b"odd"), chunk(b"LIST", b"odd")[:-1])
FILES = [
    *(
        riff(chunk(b"fmt ", form), between, chunk(b"data", SAMPLES), after)
        for form, between, after in itertools.product(FORMATS, EXTRA[:3], EXTRA)
    ),
    *(
        riff(chunk(name, b"x" * size), chunk(b"fmt ", form()), chunk(b"data", SAMPLES))
        for name in BEFORE
        for size in (0, 3, 4)
    ),
    *(wav(9, channels, bits) for channels in (1, 2, 7) for bits in (8, 16, 24, 32)),
    riff(chunk(b"fmt ", form()), chunk(b"data", SAMPLES)) + b"\0",
    riff(chunk(b"fmt ", form()), chunk(b"data", SAMPLES)) + bytes(8),
    riff(chunk(b"fmt ", form()), chunk(b"data", SAMPLES), size=48) + chunk(b"LIST", b"even"),
]


@pytest.mark.slow
def test_it_is_told_what_tensorflow_refuses() -> None:
    taken = set()
    for data in FILES:
        read_header(data)
        try:
            tf.audio.decode_wav(data)
        except tf.errors.InvalidArgumentError:
            taken.add(False)
            assert not is_decodable(data), data
        else:
            taken.add(True)
            assert is_decodable(data), data
    assert taken == {True, False}


@pytest.mark.parametrize("dtype", ["int16", "float32", "int32", "uint8"])
def test_files_of_scipy(dtype: str) -> None:
    assert is_decodable(scipy_wav(np.arange(20).astype(dtype))) == (dtype == "int16")
