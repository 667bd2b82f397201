"""Tests of transforms/stores/local.py."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from shardmill.transforms.stores import local
from tests.support.command import Run, bind_root_to_permissions, image, open_files, read_back, write_files
from tests.support.faults import RecordingOs, in_child


def test_a_file_larger_than_it_says() -> None:
    # Such as those of /proc, or one that grows: its size reads 0.
    assert local.read_bytes("/proc/self/status").startswith(b"Name:")


def test_small_files_are_read_at_once_and_others_are_left(tmp_path: Path) -> None:
    good = {"a": b"", "b": b"\xff" * 25_000, os.fsdecode(b"[c]\xff"): b"c", "d": bytes(1 << 20)}
    for name, data in {**good, "large": bytes((1 << 20) + 1)}.items():
        (tmp_path / name).write_bytes(data)
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("b")
    os.mkfifo(tmp_path / "pipe")
    left = [str(tmp_path / name) for name in ("large", "folder", "pipe", "missing", "nul\0")]
    there = [str(tmp_path / name) for name in good]

    assert local.read_small(["/proc/self/stat", *there, *left])[0] == [None, *good.values(), *[None] * len(left)]
    assert local.read_small([str(tmp_path / "link")] * 300)[0] == [good["b"]] * 300
    assert local.read_small([])[0] == []
    assert [local.read_bytes(path) for path in there] == list(good.values())


def test_what_is_no_path_is_left_and_no_file_stays_open(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"a")
    for _ in range(100):
        assert local.read_small([str(tmp_path / "a"), str(tmp_path), 7, "", "\ud800"])[0] == [b"a", *[None] * 4]  # type: ignore[list-item]
    assert open_files(tmp_path) == 0


def test_delete_tree(tmp_path: Path) -> None:
    (tmp_path / "a[1]" / "b").mkdir(parents=True)
    (tmp_path / "a1").mkdir()
    (tmp_path / "a[1]" / "out").symlink_to(tmp_path / "a1")

    local.delete_tree(str(tmp_path / "a[1]"))

    assert [path.name for path in tmp_path.iterdir()] == ["a1"]


def test_what_is_written_in_pieces_is_whole(tmp_path: Path) -> None:
    data = os.urandom(3 * local.PIECE_BYTES + 9)
    local.write_parts(str(tmp_path / "parts"), [data, np.frombuffer(data[:-1], np.int64)])
    local.write_bytes(str(tmp_path / "bytes"), data)
    with local.open_new(str(tmp_path / "new")) as file:
        assert file.write(b"a") == 1
        assert file.write(data) == len(data)
    assert (tmp_path / "parts").read_bytes() == data + data[:-1]
    assert (tmp_path / "bytes").read_bytes() == data
    assert (tmp_path / "new").read_bytes() == b"a" + data


MAKERS: dict[str, Callable[[str], object]] = {
    "make_directory": lambda path: local.make_directory(os.path.dirname(path)),
    "write_parts": lambda path: local.write_parts(path, [b"a"]),
    "write_bytes": lambda path: local.write_bytes(path, b"a", sync=False),
    "create": lambda path: local.create(path, b"a", f"{path}.tmp"),
    "move": lambda path: local.move(path.replace("new/inner/", ""), path),
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("relative", [False, True])
def test_the_names_of_new_folders_are_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, maker: str, relative: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").touch()
    recorder = RecordingOs(tmp_path)
    monkeypatch.setattr(local, "os", recorder)
    path = "new/inner/a" if relative else str(tmp_path / "new/inner/a")
    MAKERS[maker](path)

    synced = [path for what, path in recorder.done if what == "sync"]
    assert sorted(synced[:2]) == [".", "new"]

    recorder.done.clear()
    local.make_directory(os.path.dirname(path))  # which is there
    assert not recorder.done


def test_a_folder_that_may_not_be_read_takes_new_ones(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o300)

    def make() -> None:
        bind_root_to_permissions()
        local.make_directory(str(tmp_path / "closed" / "a"))

    assert in_child(make) == 0
    assert (tmp_path / "closed" / "a").is_dir()


def test_what_is_no_folder_is_not_taken_for_one_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    for path in (tmp_path / "a", tmp_path / "a" / "b"):
        with pytest.raises(NotADirectoryError):
            local.make_directory(str(path))


INSIDE = ("a/one.jpg", "same.jpg", "folder/two.jpg")
OUTSIDE = ("there.jpg", "up.jpg", "way/secret.jpg", "way/deep/secret.jpg", "b/again.jpg", "near.jpg")
MISSING = ("gone.jpg", "a/none.jpg", "loop.jpg")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with images, and links that lead to them, to images outside, to folders in and out, and nowhere."""
    inside = write_files(tmp_path / "in", {"a/one.jpg": image(1), "a/two.jpg": image(5), "b/.keep": b""})
    outside = write_files(tmp_path / "out", {"secret.jpg": image(2), "deep/secret.jpg": image(3)})
    write_files(tmp_path / "in2", {"secret.jpg": image(4)})  # whose name begins as that of the folder does
    links = {
        "same.jpg": "a/one.jpg",
        "folder": "a",
        "there.jpg": os.fspath(outside / "secret.jpg"),
        "up.jpg": "../out/secret.jpg",
        "way": os.fspath(outside),
        "b/again.jpg": "../up.jpg",
        "near.jpg": "../in2/secret.jpg",
        "gone.jpg": "a/nothing.jpg",
        "loop.jpg": "loop.jpg",
    }
    for name, target in links.items():
        (inside / name).symlink_to(target)
    return inside


def test_links_inside(folder: Path) -> None:
    alias = folder.parent / "alias"
    alias.symlink_to(folder)
    for root in (folder, alias):
        inside = local.LinksInside(str(root))
        for name in (*INSIDE, *MISSING):
            assert inside(f"{root}/{name}"), name
        for name in OUTSIDE:
            assert not inside(f"{root}/{name}"), name
    assert local.LinksInside("/")(os.path.realpath(__file__))


def test_a_manifest_s_links(run: Run, folder: Path, tmp_path: Path) -> None:
    names = (*INSIDE, *OUTSIDE)
    (folder / "m.csv").write_text("\n".join(["file_name", *names]))
    command = ("images", "--manifest", folder / "m.csv", "--output", tmp_path / "sets", "--name", "n")

    assert run(*command, "--max_reject_fraction", "1").status == 0
    found = read_back(tmp_path / "sets" / "n" / "1.0.0")
    assert sorted(found.records) == sorted(INSIDE)
    assert sorted(reject["source"] for reject in found.rejects()) == sorted(OUTSIDE)
    assert {reject["reason"] for reject in found.rejects()} == {
        "a symbolic link leads outside the manifest's folder; give --allow_outside if that is meant"
    }
