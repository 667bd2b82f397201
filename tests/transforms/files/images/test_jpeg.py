"""The walk over a JPEG that is compiled, held against the one in Python: the same files are good, and of one size."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.transforms.files import image_headers
from shardmill.transforms.files.image_geometry import ImageError
from tests.support.mutants import mutants, originals

JPEGS = [image for image in originals() if image.startswith(b"\xff\xd8")]
SEGMENTS = {
    "exif": b"\xff\xe1\0\x22Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0\0\0\0\0",
    "short exif": b"\xff\xe1\0\x07Exif\0",
    "restart": b"\xff\xd3",
    "fill": b"\xff\xff\xff",
    "stuffing": b"\xff\0",
    "end": b"\xff\xd9",
    "start": b"\xff\xd8",
    "comment": b"\xff\xfe\0\x05\xff\xd9\xff",
    "empty comment": b"\xff\xfe\0\x02",
    "no comment": b"\xff\xfe\0\x01",
    "frame": b"\xff\xc0\0\x0b\x08\0\x05\0\x06\x01\x01\x11\0",
    "flat frame": b"\xff\xc1\0\x0b\x08\0\0\0\x06\x01\x01\x11\0",
    "thin frame": b"\xff\xc2\0\x0b\x08\0\x05\0\0\x01\x01\x11\0",
    "lossless": b"\xff\xc3\0\x0b\x08\0\x05\0\x06\x01\x01\x11\0",
    "12 bits": b"\xff\xc1\0\x0b\x0c\0\x05\0\x06\x01\x01\x11\0",
    "scan": b"\xff\xda\0\x08\x01\x01\0\0\x3f\0",
    "number of lines": b"\xff\xdc\0\x04\0\x05",
    "pixels": b"\x12\xff\0\x34\xff\xd0\x56",
}


def in_python(data: bytes) -> tuple[int, int, int] | None:
    """What is found of a good file, without what is compiled."""
    try:
        width, height, turned, scan = image_headers.read_segments(data)
        image_headers.check_jpeg(data, scan)
    except (ImageError, IndexError):
        return None
    return (width, height, turned) if width and height else None


def test_what_is_compiled_agrees_on_every_mutant() -> None:
    found = Counter[bool]()
    for image in mutants(20_000, seed=3, good=JPEGS):
        if image.startswith(b"\xff\xd8"):
            expected = in_python(image)
            assert image_headers.read_plain(image) == expected, image
            found[expected is not None] += 1

    assert min(found.values()) > 3000


def test_many_at_once_are_found_as_one_is() -> None:
    images = [*mutants(5_000, seed=5, good=JPEGS), b"", SEGMENTS["exif"].join((JPEGS[0][:2], JPEGS[0][2:]))]
    ends = np.cumsum([len(image) for image in images])
    found = image_headers.plain_sizes(b"".join(images), np.concatenate(([0], ends[:-1])), ends).tolist()
    for image, size in zip(images, found, strict=True):
        plain = image_headers.read_plain(image)
        assert size == (list(plain[:2]) if plain and size != [0, 0] else [0, 0]), image
        assert size != [0, 0] or plain is None or b"Exif\0" in image, image
    assert 1000 < sum(size != [0, 0] for size in found) < 4500
    with pytest.raises(ValueError, match="a span lies outside its buffer"):
        image_headers.plain_sizes(b"", np.array([0]), np.array([1]))


@given(st.lists(st.sampled_from(sorted(SEGMENTS)), max_size=9), st.integers(0, 20))
def test_and_on_any_segments(names: list[str], cut: int) -> None:
    whole = b"\xff\xd8" + b"".join(SEGMENTS[name] for name in names)
    for image in (whole, whole[: len(whole) - cut], whole + b"\xff\xda\0\x02" + b"\xff\xd9"):
        if image.startswith(b"\xff\xd8"):
            assert image_headers.read_plain(image) == in_python(image)


@pytest.mark.parametrize("image", [b"", b"\xff", b"\xff\xd8", b"\xff\xd8\xff", b"GIF89a", JPEGS[0][1:]], ids=repr)
def test_what_does_not_begin_as_one_is_none(image: bytes) -> None:
    assert image_headers.read_plain(image) is None


def test_the_orientation_is_that_of_the_last_exif_before_the_pixels() -> None:
    first = SEGMENTS["exif"]
    last = first.replace(b"\x01\0\x08", b"\x01\0\x06")
    assert image_headers.read_plain(JPEGS[0]) == (19, 13, 1)
    for image, turned in ((first, 8), (first + last, 6), (last + first, 8)):
        assert image_headers.read_plain(JPEGS[0][:2] + image + JPEGS[0][2:]) == (19, 13, turned)
