"""Tar files of which the data of some members is left out: the same samples, and the bytes of others as they are."""

import io
import random
import tarfile
from pathlib import Path
from typing import BinaryIO, cast

import pytest

from shardmill.transforms.formats.format import UnreadableError
from shardmill.transforms.formats.tar_samples import ALL_MEMBERS, IMAGE_MEMBERS, TarReader, read_heads
from tests.support.archives import tar

INNER = tar([("a.jpg", b"1" * 900), ("a.json", b"{}"), ("b.jpg", b"2" * 300)])  # what looks like headers, in data


def members(chance: random.Random) -> list[tuple[str, bytes]]:
    """Images, some of them tar files themselves, and what is beside them; some names are too long for a header."""
    made = []
    for number in range(chance.randrange(1, 60)):
        folder = "f" * chance.choice([0, 0, 0, 3, 90, 150])
        key = f"{folder}/{number:03}" if folder else f"{number:03}"
        image = chance.choice([INNER, bytes(range(256)) * chance.randrange(8), b"", b"ustar" * 2000])
        made.append((f"{key}.{chance.choice(['jpg', 'PNG', 'left.jpeg'])}", image))
        if chance.random() < 0.8:
            made.append((f"{key}.json", b'{"n": %d, "s": "%s"}' % (number, b"x" * chance.randrange(3000))))
        if chance.random() < 0.3:
            made.append((f"{key}.{chance.choice(['cls', 'npy', 'txt'])}", b"7"))
        if chance.random() < 0.05:
            made.append((f"{key}.tar", INNER))
    return made


def seen(stream: BinaryIO, length: int | None, piece_size: int, *unread: str | None) -> list[object]:
    """Every sample with the bytes of its parts that are no images, and how it ends."""
    reader = TarReader(stream, 0, length, 1, piece_size, *unread)
    found: list[object] = []
    try:
        for piece in reader.pieces(is_end=True):
            for sample in piece.samples:
                parts = {
                    column: (holds, data, size)
                    if holds == "image" or unread == (ALL_MEMBERS,)
                    else (holds, data, bytes(piece.data[data - piece.base : data - piece.base + size]))
                    for column, (holds, data, size) in sample.parts.items()
                }
                found.append((sample.key, sample.number, sample.start, parts, sample.problem))
    except UnreadableError as error:
        found.append(str(error))
    return [*found, reader.members, sorted(reader.skipped_members.items())]


@pytest.mark.parametrize("unread", [ALL_MEMBERS, IMAGE_MEMBERS])
@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_the_same_samples_as_of_all_bytes(tmp_path: Path, kind: int, unread: str | None) -> None:
    for seed in range(60):
        chance = random.Random(seed)
        content = tar(members(chance), kind, chance.choice([0, 1.5]))
        if chance.random() < 0.4:
            content = content[: chance.randrange(len(content))]
        elif chance.random() < 0.3:
            at = chance.randrange(len(content))
            content = content[:at] + bytes([content[at] ^ 0x15]) + content[at + 1 :]
        piece_size = chance.choice([1000, 5000, 100_000])
        path = tmp_path / "x.tar"
        path.write_bytes(content)
        with path.open("rb") as file:
            left_out = seen(file, None, piece_size, unread)
        whole = seen(cast(BinaryIO, io.BytesIO(content)), None, piece_size, unread)
        assert left_out == whole, seed


@pytest.mark.parametrize(("unread", "images", "others"), [(ALL_MEMBERS, 0xAA, 0xAA), (IMAGE_MEMBERS, 0xAA, ord("o"))])
def test_what_is_left_out_is_not_read(tmp_path: Path, unread: str | None, images: int, others: int) -> None:
    path, size, far = tmp_path / "x.tar", 9000, 8000  # behind what is read with a header
    path.write_bytes(content := tar([("0.jpg", b"i" * size), ("0.txt", b"o" * size)]))
    target = memoryview(bytearray(b"\xaa" * len(content)))
    with path.open("rb") as file:
        assert read_heads(file, 0, target, 0, 0, unread) == len(content)
        assert file.tell() == len(content)
    assert target[512 + far] == images
    assert target[content.index(b"ooo") + far] == others
    assert target[:512] == content[:512]


def test_what_is_no_plain_file_on_a_disk_is_read_by_who_asks() -> None:
    assert read_heads(io.BytesIO(INNER), 0, memoryview(bytearray(9)), 0, 0, ALL_MEMBERS) is None


def test_a_file_that_ends_before(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(INNER[:1000])
    target = memoryview(bytearray(5000))
    with path.open("rb") as file:
        assert read_heads(file, 0, target, 0, 0, ALL_MEMBERS) == 1000
        assert read_heads(file, 1000, target, 0, 0, ALL_MEMBERS) == 0
