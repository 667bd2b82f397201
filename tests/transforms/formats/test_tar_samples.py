"""Members and samples of tar files: beside Python's tarfile, and with the data of some members left out."""

import io
import random
import tarfile
from pathlib import Path
from typing import BinaryIO, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.transforms.formats import tar_samples
from shardmill.transforms.formats.format import UnreadableError
from tests.support.archives import link, tar

FORMATS = (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)


def one_by_one(data: bytes) -> list[tar_samples.Member]:
    found, position = [], 0
    while (member := tar_samples.read_member(lambda at, size: data[at : at + size], position)) is not None:
        found.append(member)
        position = member.end
    return found


def next_member(data: bytes) -> tar_samples.Member | None:
    return tar_samples.read_member(lambda at, size: data[at : at + size], 0)


def by_tarfile(data: bytes) -> list[tuple[str, int, int, bool]]:
    with tarfile.open(fileobj=io.BytesIO(data)) as file:
        return [(info.name, info.size, info.offset_data, info.isreg()) for info in file]


def as_tarfile(members: list[tar_samples.Member]) -> list[tuple[str, int, int, bool]]:
    return [(member.name.rstrip("/"), member.size, member.data, not member.non_file) for member in members]


def scanned(data: bytes) -> list[tar_samples.Member]:
    return [
        tar_samples.Member(start, shared + suffix, size, at, "")
        for shared, members in tar_samples.scan_members(data, 0, 0)
        for start, suffix, size, at in members
    ]


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0/\n"), min_size=1, max_size=60)
MEMBERS = st.lists(
    st.tuples(st.lists(NAMES, min_size=1, max_size=4).map("/".join), st.binary(max_size=1500)), max_size=6
)


@settings(max_examples=150)
@given(MEMBERS, st.sampled_from(FORMATS[1:]), st.sampled_from([0, 1.5]))
def test_every_member_is_where_tarfile_has_it(members: list[tuple[str, bytes]], kind: int, mtime: float) -> None:
    data = tar(members, kind, mtime)
    found = one_by_one(data)
    assert as_tarfile(found) == by_tarfile(data)
    at_once = scanned(data)
    assert at_once == found[: len(at_once)]
    assert [member.split_name[0] for member in at_once] == [
        group for group, members in tar_samples.scan_members(data, 0, 0) for _ in members
    ]


@pytest.mark.parametrize(("kind", "mtime"), [(0, 0), (1, 0), (2, 0), (2, 1.5)])
def test_plain_members_are_read_at_once(kind: int, mtime: float) -> None:
    members = [
        (f"{'folder/' * (number % (20 if kind == tarfile.USTAR_FORMAT else 40))}{number}.jpg", bytes(600 * number))
        for number in range(60)
    ]
    plain = next((place for place, (name, _) in enumerate(members) if len(name) > 100), 60)
    data = tar(members, kind, mtime)
    expected = 60 if kind == tarfile.USTAR_FORMAT else plain  # that has long names in two parts
    found = one_by_one(data)
    assert as_tarfile(found) == by_tarfile(data)
    assert scanned(data) == found[:expected]


def test_a_tar_in_a_tar_is_data() -> None:
    inner = tar([("x.jpg", b"1"), ("y.jpg", b"2")])
    data = tar([("a.bin", inner), ("b.jpg", b"3")])
    assert [member.name for member in scanned(data)] == ["a.bin", "b.jpg"]


def test_what_is_no_file() -> None:
    folder = tarfile.TarInfo("d")
    folder.type = tarfile.DIRTYPE
    data = tar([("a.jpg", b"1"), folder, link("b.jpg"), link("c.jpg", tarfile.LNKTYPE), link("d", tarfile.FIFOTYPE)])
    assert [member.non_file for member in one_by_one(data)] == ["", "a directory", "a link", "a link", "a pipe"]
    assert len(scanned(data)) == 1


def test_sparse_files_of_gnu_and_pax() -> None:
    pax = tarfile.TarInfo("made_up.jpg")
    pax.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.name": "a.jpg"}
    (found,) = one_by_one(tar([pax], tarfile.PAX_FORMAT))
    assert (found.name, found.non_file) == ("a.jpg", "a sparse file")
    old = bytearray(tar([("a.jpg", b"1")], tarfile.GNU_FORMAT))
    old[156:157] = b"S"
    old[148:156] = b"%06o\0 " % (sum(old[:148]) + sum(old[156:512]) + 8 * 32)
    assert one_by_one(bytes(old))[0].non_file == "a sparse file"


def test_more_than_8_gib_has_its_size_in_binary() -> None:
    info = tarfile.TarInfo("a.jpg")
    info.size = 20 << 30
    for kind in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        data = info.tobuf(kind)
        member = next_member(data)
        assert member is not None
        assert member.size == 20 << 30
        assert tar_samples.scan_members(data, 0, 0) == []


@pytest.mark.parametrize("place", [0, 105, 130, 150, 300])
def test_a_damaged_header_is_none(place: int) -> None:
    data = bytearray(tar([("a.jpg", b"1")]))
    data[place] ^= 0x55
    with pytest.raises(UnreadableError, match="no header of a member at byte 0"):
        one_by_one(bytes(data))
    assert tar_samples.scan_members(bytes(data), 0, 0) == []


INNER = tar([("a.jpg", b"1" * 900), ("a.json", b"{}"), ("b.jpg", b"2" * 300)])  # what looks like headers, in data


def drawn_members(chance: random.Random) -> list[tuple[str, bytes]]:
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
    reader = tar_samples.TarReader(stream, 0, length, 1, piece_size, *unread)
    found: list[object] = []
    try:
        for piece in reader.pieces(is_end=True):
            for sample in piece.samples:
                parts = {
                    column: (holds, data, size)
                    if holds == "image" or unread == (tar_samples.ALL_MEMBERS,)
                    else (holds, data, bytes(piece.data[data - piece.base : data - piece.base + size]))
                    for column, (holds, data, size) in sample.parts.items()
                }
                found.append((sample.key, sample.number, sample.start, parts, sample.problem))
    except UnreadableError as error:
        found.append(str(error))
    return [*found, reader.members, sorted(reader.skipped_members.items())]


@pytest.mark.parametrize("unread", [tar_samples.ALL_MEMBERS, tar_samples.IMAGE_MEMBERS])
@pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_the_same_samples_as_of_all_bytes(tmp_path: Path, kind: int, unread: str | None) -> None:
    for seed in range(60):
        chance = random.Random(seed)
        content = tar(drawn_members(chance), kind, chance.choice([0, 1.5]))
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


@pytest.mark.parametrize(
    ("unread", "images", "others"), [(tar_samples.ALL_MEMBERS, 0xAA, 0xAA), (tar_samples.IMAGE_MEMBERS, 0xAA, ord("o"))]
)
def test_what_is_left_out_is_not_read(tmp_path: Path, unread: str | None, images: int, others: int) -> None:
    path, size, far = tmp_path / "x.tar", 9000, 8000  # behind what is read with a header
    path.write_bytes(content := tar([("0.jpg", b"i" * size), ("0.txt", b"o" * size)]))
    target = memoryview(bytearray(b"\xaa" * len(content)))
    with path.open("rb") as file:
        assert tar_samples.read_heads(file, 0, target, 0, 0, unread) == len(content)
        assert file.tell() == len(content)
    assert target[512 + far] == images
    assert target[content.index(b"ooo") + far] == others
    assert target[:512] == content[:512]


def test_what_is_no_plain_file_on_a_disk_is_read_by_who_asks() -> None:
    assert tar_samples.read_heads(io.BytesIO(INNER), 0, memoryview(bytearray(9)), 0, 0, tar_samples.ALL_MEMBERS) is None


def test_a_file_that_ends_before(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(INNER[:1000])
    target = memoryview(bytearray(5000))
    with path.open("rb") as file:
        assert tar_samples.read_heads(file, 0, target, 0, 0, tar_samples.ALL_MEMBERS) == 1000
        assert tar_samples.read_heads(file, 1000, target, 0, 0, tar_samples.ALL_MEMBERS) == 0
