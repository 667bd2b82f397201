"""Zip archives read as folders, held against zipfile."""

import os
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from shardmill.errors import UserError
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.clients import object_store, set_options
from shardmill.transforms.stores.protocol import FileStat, ObjectStore
from shardmill.transforms.stores.storage import raise_if_store_failed
from shardmill.transforms.stores.zip_archive import MemberError, ZipArchives, archive_path, content_folder
from tests.support.archives import zipped
from tests.support.command import write_files

FILES = {"a/1.txt": b"one" * 1000, "a/b/2.txt": b"", "é/3 [x].txt": b"three", "a.txt": b"x"}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    path = tmp_path / "x.zip"
    path.write_bytes(zipped(FILES))
    return path


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_members_are_what_zipfile_reads(tmp_path: Path, method: int) -> None:
    (tmp_path / "X.ZIP").write_bytes(zipped(FILES, method))
    root = f"zip://{tmp_path}/X.ZIP"

    assert {name: storage.read_bytes(f"{root}/{name}") for name, _ in storage.list_files(root)} == FILES
    assert dict(storage.list_files(root)) == {name: len(data) for name, data in FILES.items()}
    assert [name for name, _ in storage.list_files(f"{root}/a")] == ["1.txt", "b/2.txt"]
    assert storage.list_folders(root) == ["a", "é"]
    assert storage.list_folders(f"{root}/a") == ["b"]
    assert storage.read_range(f"{root}/a/1.txt", 2, 4) == b"eone"
    with storage.open_read(f"{root}/a/1.txt") as file:
        assert file.read() == FILES["a/1.txt"]
    assert storage.exists(f"{root}/a.txt")
    assert not storage.exists(f"{root}/a")
    assert archive_path(f"{root}/a.txt") == f"{tmp_path}/X.ZIP"
    for name in ("gone.txt", "a/"):
        with pytest.raises(FileNotFoundError):
            storage.read_bytes(f"{root}/{name}")


@pytest.mark.parametrize("folders", ["x.zip", "x.zip/y.ZIP", "x.zip.d/.zip"])
def test_folders_may_be_called_as_archives_are(tmp_path: Path, folders: str) -> None:
    path = write_files(tmp_path, {f"{folders}/photos.zip": zipped({"cat/1.zip": b"x", "2.txt": b""})}) / folders
    root = content_folder(f"{path}/photos.zip", object_store)

    assert root == f"zip://{path}/photos.zip"
    assert [name for name, _ in storage.list_files(root)] == ["2.txt", "cat/1.zip"]
    assert storage.read_bytes(f"{root}/cat/1.zip") == b"x"
    assert archive_path(f"{root}/cat/1.zip") == f"{path}/photos.zip"


class Objects:
    """A store of two objects: an archive below a folder that is called as one, and one in a bucket that is."""

    data = dict.fromkeys(("gs://bucket/x.zip/photos.zip", "gs://bucket.zip/a.zip"), zipped({"cat/1.zip": b"x"}))

    def stat(self, url: str) -> FileStat:
        if url not in self.data:
            raise FileNotFoundError(url)
        return FileStat(url, len(self.data[url]), "", 0.0)

    def read_range(self, url: str, offset: int, length: int) -> bytes:
        return self.data[url][offset : offset + length]


@pytest.mark.parametrize("path", list(Objects.data))
def test_the_archive_on_a_store_is_the_first_that_is_an_object(path: str) -> None:
    archives = ZipArchives(lambda _: cast("ObjectStore", Objects()))

    assert [found.path for found in archives.stats(f"zip://{path}/")] == [f"zip://{path}/cat/1.zip"]
    assert archives.read(f"zip://{path}/cat/1.zip") == b"x"


def test_one_folder_that_is_called_as_the_archive_is_what_it_holds(tmp_path: Path) -> None:
    for name, files, inside in (
        ("photos", {"photos/cat/1.jpg": b"", "__MACOSX/photos/._1.jpg": b"", ".DS_Store": b""}, "/photos"),
        ("other", {"photos/cat/1.jpg": b""}, ""),
        ("cat", {"cat/1.jpg": b"", "dog/1.jpg": b""}, ""),
    ):
        path = tmp_path / f"{name}.zip"
        path.write_bytes(zipped(files))
        assert content_folder(str(path), object_store) == f"zip://{path}{inside}"


def test_two_members_of_one_name_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "two.zip"
    with zipfile.ZipFile(path, "w") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for data in (b"one", b"other"):
            file.writestr("cat/1.txt", data)
    with pytest.raises(UserError, match=r"two\.zip has 2 members called 'cat/1\.txt', of which tools take the"):
        list(storage.list_files(f"zip://{path}"))


def test_an_archive_that_was_written_anew_is_read_anew(archive: Path) -> None:
    root = f"zip://{archive}"
    assert len(list(storage.list_files(root))) == 4
    archive.write_bytes(zipped({"b.txt": b"b"}))
    os.utime(archive, (1, 1))

    assert list(storage.list_files(root)) == [("b.txt", 1)]
    assert storage.read_bytes(f"{root}/b.txt") == b"b"
    archive.write_bytes(zipped({"c.txt": b"c"}))
    set_options(None)  # as a job that begins does: it may read a member whose archive it does not list
    assert storage.read_bytes(f"{root}/c.txt") == b"c"


def in_directory(offset: int, new: bytes) -> Callable[[bytes], bytes]:
    """Return what changes the directory's entry of a member at an offset: APPNOTE.TXT, 4.3.12."""

    def change(data: bytes) -> bytes:
        place = data.rindex(b"a/1.txt") - 46 + offset
        return data[:place] + new + data[place + len(new) :]

    return change


def flipped(data: bytes) -> bytes:
    place = data.index(b"a/1.txt") + len(b"a/1.txt") + 6
    return data[:place] + bytes([data[place] ^ 255]) + data[place + 1 :]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (in_directory(8, b"\x01"), "it is encrypted"),
        (in_directory(10, b"\x0e"), "it is compressed by method 14, which is not read"),
        (in_directory(24, b"\x05\0\0\0"), "it is damaged"),
        (flipped, "it is damaged"),
    ],
)
def test_a_member_that_is_no_good_is_its_own_fault(
    archive: Path, change: Callable[[bytes], bytes], reason: str
) -> None:
    archive.write_bytes(change(archive.read_bytes()))
    url = f"zip://{archive}/a/1.txt"

    with pytest.raises(MemberError, match=reason) as caught:
        storage.read_bytes(url)
    raise_if_store_failed(caught.value, url)  # which would try again
    assert storage.read_bytes(f"zip://{archive}/a.txt") == b"x"


LATER = bytearray(zipped(FILES))
struct.pack_into("<I", LATER, len(LATER) - 6, len(LATER))  # where the directory begins


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"<html>", zipped(FILES)[:-30], bytes(LATER)])
def test_what_is_no_archive_is_a_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.zip").write_bytes(content)
    with pytest.raises(UserError, match=r"x\.zip is no zip archive that can be read"):
        content_folder(str(tmp_path / "x.zip"), object_store)


def test_nothing_is_written_to_one(archive: Path) -> None:
    with pytest.raises(UserError, match="nothing is written to a zip archive"):
        storage.write_bytes(f"zip://{archive}/new.txt", b"")
