"""Headers of tar files, by one and by many, held against Python's tarfile."""

import io
import tarfile

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.transforms.formats.format import UnreadableError
from shardmill.transforms.formats.tar_samples import Member, read_member, scan_members
from tests.support.archives import link, tar

FORMATS = (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)


def one_by_one(data: bytes) -> list[Member]:
    found, position = [], 0
    while (member := read_member(lambda at, size: data[at : at + size], position)) is not None:
        found.append(member)
        position = member.end
    return found


def next_member(data: bytes) -> Member | None:
    return read_member(lambda at, size: data[at : at + size], 0)


def by_tarfile(data: bytes) -> list[tuple[str, int, int, bool]]:
    with tarfile.open(fileobj=io.BytesIO(data)) as file:
        return [(info.name, info.size, info.offset_data, info.isreg()) for info in file]


def as_tarfile(members: list[Member]) -> list[tuple[str, int, int, bool]]:
    return [(member.name.rstrip("/"), member.size, member.data, not member.non_file) for member in members]


def scanned(data: bytes) -> list[Member]:
    return [
        Member(start, shared + suffix, size, at, "")
        for shared, members in scan_members(data, 0, 0)
        for start, suffix, size, at in members
    ]


NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0/\n"), min_size=1, max_size=60)
MEMBERS = st.lists(
    st.tuples(st.lists(NAMES, min_size=1, max_size=4).map("/".join), st.binary(max_size=1500)), max_size=6
)


@settings(max_examples=150, deadline=None)
@given(MEMBERS, st.sampled_from(FORMATS[1:]), st.sampled_from([0, 1.5]))
def test_every_member_is_where_tarfile_has_it(members: list[tuple[str, bytes]], kind: int, mtime: float) -> None:
    data = tar(members, kind, mtime)
    found = one_by_one(data)
    assert as_tarfile(found) == by_tarfile(data)
    at_once = scanned(data)
    assert at_once == found[: len(at_once)]
    assert [member.split_name[0] for member in at_once] == [
        group for group, members in scan_members(data, 0, 0) for _ in members
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
        assert scan_members(data, 0, 0) == []


@pytest.mark.parametrize("place", [0, 105, 130, 150, 300])
def test_a_damaged_header_is_none(place: int) -> None:
    data = bytearray(tar([("a.jpg", b"1")]))
    data[place] ^= 0x55
    with pytest.raises(UnreadableError, match="no header of a member at byte 0"):
        one_by_one(bytes(data))
    assert scan_members(bytes(data), 0, 0) == []
