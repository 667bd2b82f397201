"""Tests of images that are read and framed in C: the answer is that of Python, or the file is left to Python."""

import io
import os
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from PIL import Image

from shardmill.data.codecs import PLAIN_CODEC
from shardmill.data.example import encode_entry, encode_int64_feature
from shardmill.errors import JobError
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.files.image_codec import Reencode, check_image
from shardmill.transforms.files.image_encoder import ImageEncoder, frame_plain_images
from shardmill.transforms.files.image_geometry import ImageError
from shardmill.transforms.files.image_headers import PLAIN_FORMATS, PlainImages, read_plain_images
from shardmill.transforms.files.references import SHARD
from shardmill.transforms.inputs.found_files import REVISION, hash_statuses
from shardmill.transforms.statistics.files import file_stats
from tests.support.encoded import encode_example
from tests.support.mutants import encode, mutants, originals, picture

MAX_PIXELS = 1 << 20
FILE = "images"
PNG_START = b"\x89PNG\r\n\x1a\n"


def exif(orientation: int, order: str = "little", entries: int = 3) -> bytes:
    """An EXIF block whose last entry is the orientation."""
    sign = "<" if order == "little" else ">"
    tags = [struct.pack(f"{sign}HHIHH", 0x0100 + n, 3, 1, 9, 0) for n in range(entries - 1)]
    tags.append(struct.pack(f"{sign}HHIHH", 0x0112, 3, 1, orientation, 0))
    head = (b"II" if order == "little" else b"MM") + struct.pack(f"{sign}HIH", 42, 8, entries)
    return b"Exif\0\0" + head + b"".join(tags) + bytes(4)


def with_segments(jpeg: bytes, *segments: tuple[int, bytes]) -> bytes:
    """A JPEG with further segments, given by marker and payload, at its beginning."""
    more = b"".join(struct.pack(">BBH", 0xFF, marker, 2 + len(body)) + body for marker, body in segments)
    return jpeg[:2] + more + jpeg[2:]


def with_chunk(png: bytes, kind: bytes, body: bytes) -> bytes:
    """A PNG with a further chunk after its header."""
    chunk = struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    return png[:33] + chunk + png[33:]


def interlaced(png: bytes) -> bytes:
    """A PNG whose header says that it is interlaced; its pixels are not looked at."""
    header = png[12:28] + b"\x01"
    return png[:12] + header + struct.pack(">I", zlib.crc32(header)) + png[33:]


JPEG, PNG = encode(picture(), "JPEG"), encode(picture(), "PNG")
PLAIN = [
    *(image for image in originals() if image.startswith((b"\xff\xd8", PNG_START))),
    *(encode(picture(), "JPEG", quality=n, subsampling=sampling) for n in (5, 99) for sampling in (0, 1, 2)),
    *(encode(picture().resize(size), "JPEG", progressive=True) for size in ((1, 1), (255, 256), (700, 3))),
    *(encode(picture().resize(size), "PNG") for size in ((1, 1), (255, 256), (300, 200))),
    *(
        with_segments(JPEG, (0xE1, exif(turned, order, entries)))
        for turned in range(10)
        for order in ("little", "big")
        for entries in (1, 5)
    ),
    with_segments(JPEG, (0xE1, exif(6)), (0xE1, exif(3)), (0xE1, b"http://ns.adobe.com/xap/1.0/\0<x/>")),
    with_segments(JPEG, *((0xE0 + n, bytes(n)) for n in range(16)), (0xFE, b"\xff\xd9")),
    *(with_chunk(PNG, b"eXIf", exif(turned)[6:]) for turned in range(10)),
    with_chunk(PNG, b"teXt", b"comment"),
    interlaced(PNG),
    JPEG + b"behind its end",
    PNG + b"behind its end",
]
LEFT = [
    image
    for image in [
        *originals(),
        b"",
        b"\xff\xd8",
        PNG_START,
        with_segments(JPEG, (0xE1, b"Exif\0\0II*\0")),  # its header is cut short
        encode(picture().resize((1025, 1024)), "PNG"),  # more than MAX_PIXELS
        with_chunk(PNG, b"ABCD", b""),
    ]
    if image not in PLAIN
]


def read(folder: Path, images: Iterable[bytes]) -> PlainImages:
    """The compiled answer for images that lie behind each other in one file."""
    images = list(images)
    (folder / FILE).write_bytes(b"".join(images))
    sizes = np.array([len(image) for image in images], np.int64)
    ranges = np.stack([np.cumsum(sizes) - sizes, sizes], axis=1)
    return read_plain_images(
        f"{folder}/", pa.array([FILE] * len(images), pa.large_string()), int(sizes.sum()), MAX_PIXELS, ranges
    )


def in_python(image: bytes) -> tuple[str, int, int, int, bool] | None:
    try:
        found = check_image(image, "header", MAX_PIXELS)
    except ImageError:
        return None
    return found.format, found.width, found.height, found.orientation, found.properties.is_deep


def check_answers(folder: Path, images: list[bytes]) -> int:
    """Check that each answer is Python's or none; return how many are Python's."""
    found, taken = read(folder, images), 0
    for image, row in zip(images, found.rows, strict=True):
        start, size, number, width, height, orientation, is_deep, *_ = row.tolist()
        assert found.data[start : start + size].tobytes() == image
        if number:
            taken += 1
            assert (PLAIN_FORMATS[number], width, height, orientation, bool(is_deep)) == in_python(image)
    return taken


def test_plain_images_are_taken_and_no_others(tmp_path: Path) -> None:
    assert check_answers(tmp_path, PLAIN) == len(PLAIN)
    assert check_answers(tmp_path, LEFT) == 0


def test_every_length_of_an_image(tmp_path: Path) -> None:
    for image in (JPEG, PNG, with_segments(encode(picture("CMYK"), "JPEG"), (0xE1, exif(6)))):
        cut = [image[:size] for size in range(len(image))]
        accepted = sum(in_python(part) is not None for part in cut)
        assert check_answers(tmp_path, cut) == accepted


def test_damaged_images_get_pythons_answer(tmp_path: Path) -> None:
    damaged = list(mutants(12_000, seed=11, good=PLAIN))
    taken = check_answers(tmp_path, damaged)
    accepted = [image for image in damaged if (in_python(image) or ("",))[0] in PLAIN_FORMATS[1:]]
    # An EXIF block without a header is left to Python, which accepts it
    assert 0.98 * len(accepted) <= taken <= len(accepted) < len(damaged)
    assert taken > 2_000


def test_noise_behind_the_beginning_of_an_image(tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    starts = (b"\xff\xd8\xff\xe1", b"\xff\xd8\xff\xc0", PNG[:33], PNG[:41])
    check_answers(tmp_path, [starts[n % 4] + random.bytes(n % 300) for n in range(3_000)])


def test_files_are_read_with_what_they_are_then(tmp_path: Path) -> None:
    images = [JPEG, PNG, b"no image", JPEG[:-2], JPEG]
    for number, image in enumerate(images):
        (tmp_path / f"{number} é.jpg").write_bytes(image)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    names = [f"{number} é.jpg" for number in range(5)] + ["folder", "pipe", "missing", "nul\0byte", "long" * 2000, ""]
    room = sum(map(len, images))

    found = read_plain_images(f"{tmp_path}/", pa.array(names, pa.large_string()), room, MAX_PIXELS)

    assert found.rows["format"].tolist() == [1, 2, 0, 0, 1, 0, 0, 0, 0, 0, 0]
    assert found.is_read.tolist() == [True] * 5 + [False] * 6
    assert [found.value(number) for number in range(5)] == images
    for number in range(5):
        status = os.stat(tmp_path / names[number])
        assert found.statuses[number].tolist() == [status.st_size, status.st_mtime_ns, status.st_ino]
    whole = read_plain_images("", pa.array([str(tmp_path / names[0])], pa.large_string()), len(JPEG), MAX_PIXELS)
    assert whole.data.tobytes() == JPEG
    short = read_plain_images("", pa.array([str(tmp_path / names[0])], pa.large_string()), len(JPEG) - 1, MAX_PIXELS)
    assert short.is_read.tolist() == [False]


def test_a_part_beyond_the_file_is_left(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(JPEG + PNG)
    size = len(JPEG)
    ranges = [(0, size), (size, len(PNG)), (size, len(PNG) + 1), (-1, size), (0, -1), (1 << 62, 9), (0, 1 << 62)]
    paths = pa.array([FILE] * len(ranges), pa.large_string())

    found = read_plain_images(f"{tmp_path}/", paths, 2 * size + 2 * len(PNG), MAX_PIXELS, np.array(ranges, np.int64))

    assert found.rows["format"].tolist() == [1, 2, 0, 0, 0, 0, 0]
    assert found.is_read.tolist() == [True] * 2 + [False] * 5


@pytest.mark.parametrize(
    "names", [("image", "label", "filename", "height", "width"), ("é" * 90, "l", "", "h" * 200, "w")]
)
def test_examples_are_those_of_python(tmp_path: Path, names: tuple[str, ...]) -> None:
    large = encode(Image.fromarray(np.random.default_rng(2).integers(0, 256, (300, 200, 3), np.uint8)), "PNG")
    images = read(tmp_path, [JPEG, PNG, large, encode(picture().resize((1, 1)), "PNG")])
    labels = np.array([0, -1, 1 << 40, 127])
    files = ["a", "", "é" * 100, "b/c.png"]
    columns: list[dict[str, Any]] = [{}, {"x": [1, 2]}, {"y": [b"z" * 300]}, {}]
    # Arrays that begin within their buffers
    stored_files = pa.array(["first", *files], pa.large_string()).slice(1)
    encoded = [strip(encode_example(of)) if of else b"" for of in columns]
    entries = pa.array([b"first", *encoded], pa.large_binary()).slice(1)

    found = frame_plain_images(images, names, labels, stored_files, entries)

    image_name, label_name, filename, height, width = names
    for number, row in enumerate(images.rows):
        data = images.data[row["start"] :][: row["size"]].tobytes()
        label: dict[str, Any] = {} if labels[number] < 0 else {label_name: labels[number : number + 1]}
        sides = {height: [int(row["height"])], width: [int(row["width"])]}
        example = {image_name: [data], **label, filename: [files[number].encode()], **sides, **columns[number]}
        record = found.framed[found.places[number] : found.places[number + 1]].tobytes()
        assert list(PLAIN_CODEC.read_records(io.BytesIO(record), "")) == [encode_example(example)]
        content = data + strip(encode_example(sides))
        expected = xxhash.xxh3_128_digest(content) if len(content) > 240 else bytes(16)
        assert found.digests[number].tobytes() == expected
        assert found.framed[found.values[number] :][: len(data)].tobytes() == data
    assert len(found.framed) == found.places[-1]


def strip(example: bytes) -> bytes:
    """The entries of an Example, without its header."""
    end = next(place for place in range(1, len(example)) if example[place] < 0x80)
    return example[end + 1 :]


FILES = {
    "a/plain.jpg": JPEG,
    "a/plain.png": PNG,
    "a/deep.png": encode(picture("I;16"), "PNG"),
    "a/tiny.png": encode(picture("1").resize((1, 1)), "PNG"),
    "b/turned.jpg": with_segments(JPEG, (0xE1, exif(6))),
    "b/short exif.jpg": with_segments(JPEG, (0xE1, b"Exif\0\0II*\0")),
    "b/other.webp": encode(picture(), "WEBP"),
    "b/other.gif": encode(picture("P"), "GIF", transparency=0),
    "c/cut.jpg": JPEG[:-20],
    "c/damaged.png": PNG[:50] + b"x" + PNG[51:],
    "c/empty.jpg": b"",
    "c/no image.jpg": b"text",
    "c/large.png": encode(picture().resize((1025, 1024)), "PNG"),
    "c/folder.jpg": None,
    "c/larger than planned.jpg": with_segments(JPEG, *((0xFE, bytes(60_000)) for _ in range(20))),
}


def planned(folder: Path, lines: bool) -> pa.RecordBatch:
    """A batch of FILES, as a shard's writer gets it."""
    statuses = [(0, 0, 0)] * len(FILES)
    for place, (name, content) in enumerate(FILES.items()):
        (folder / name).parent.mkdir(exist_ok=True)
        if content is None:
            (folder / name).mkdir(exist_ok=True)
        else:
            (folder / name).write_bytes(content)
            status = os.stat(folder / name)
            statuses[place] = (status.st_size, status.st_mtime_ns, status.st_ino)
    number, entry = len(FILES), encode_entry("x", encode_int64_feature([7]))
    values: dict[str, Any] = {
        "name": list(FILES),
        "size": [min(len(content or b""), 100_000) + 100 for content in FILES.values()],
        "uri": [None] * (number - 4) + [str(folder / name) for name in list(FILES)[-4:]],
        "label": [None, *range(1, number)],
        "line": list(range(number)) if lines else [None] * number,
        "columns": [entry if lines and row % 2 else None for row in range(number)],
        "key": range(number),
        "tie": [0] * number,
        "identity": [None] * number,
    }
    batch = pa.RecordBatch.from_arrays([pa.array(values[field.name], field.type) for field in SHARD], schema=SHARD)
    revisions = hash_statuses(np.array(statuses, np.int64))
    is_folder = np.array([content is None for content in FILES.values()])
    return batch.append_column(REVISION, pa.array(revisions, REVISION.type, mask=is_folder))


@pytest.mark.parametrize("lines", [False, True])
def test_a_batch_is_encoded_as_python_encodes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lines: bool) -> None:
    columns = (("x", ColumnType("int64", None, 0)),) if lines else ()
    encoder = ImageEncoder(str(tmp_path), max_pixels=MAX_PIXELS, columns=columns)
    batch, stored = planned(tmp_path, lines), [None] * len(FILES)
    taken = encoder.encode_compiled(batch, stored, True)
    assert taken is not None
    chunk, places = taken
    monkeypatch.setattr(ImageEncoder, "encode_compiled", lambda *_: None)
    expected, expected_places = encoder.encode_batch(batch, stored, True)

    assert bytes(chunk.framed) == bytes(expected.framed)
    assert (chunk.examples, chunk.rejects) == (expected.examples, expected.rejects)
    assert [reject.source for reject in chunk.rejects] == [
        *("c/cut.jpg", "c/damaged.png", "c/empty.jpg", "c/no image.jpg", "c/large.png", "c/folder.jpg")
    ]
    assert places == expected_places
    assert chunk.columns == expected.columns
    names = {"label": [str(number) for number in range(len(FILES))]}
    assert chunk.stats is not None
    assert expected.stats is not None
    assert chunk.stats.summary(names) == expected.stats.summary(names)
    assert file_stats(chunk.stats).properties == file_stats(expected.stats).properties  # type: ignore[attr-defined]
    for field in ("digests", "names", "hashes", "lines", "labels"):
        found, wanted = getattr(chunk.contents, field), getattr(expected.contents, field)
        assert np.array_equal(found, wanted), field


def test_a_file_that_changed_ends_the_job(tmp_path: Path) -> None:
    batch = planned(tmp_path, lines=False)
    (tmp_path / "a/plain.png").write_bytes(JPEG)
    with pytest.raises(JobError, match=r"a/plain\.png"):
        ImageEncoder(str(tmp_path)).encode_batch(batch, [None] * len(FILES))


def test_what_is_not_compiled() -> None:
    assert ImageEncoder("folder").is_compiled
    assert not ImageEncoder("gs://bucket").is_compiled
    assert not ImageEncoder("folder", verify="decode").is_compiled
    assert not ImageEncoder("folder", reencode=Reencode("png")).is_compiled
