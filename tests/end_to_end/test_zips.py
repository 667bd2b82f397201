"""Zip archives of folders: the same data sets as their folders give."""

import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

import shardmill
from tests.support.archives import zipped
from tests.support.command import Contents, Run, check_mistake, image, image_tree, read_back, write_files
from tests.support.detection import scenes, write_coco
from tests.support.masks import write_pairs

TREE = image_tree(("ant", "bee"), 6)
SPLITS = ("--splits", "train=0.7,test=0.3")


def files_in(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def made(run: Run, name: str, *flags: object, command: str = "images") -> Contents:
    result = run(command, *flags, "--output", "out", "--name", name, "--max_reject_fraction", 0.9)
    assert result.status == 0, result.err
    return read_back(Path("out") / name)


def check_same(one: Contents, other: Contents) -> None:
    assert one.records == other.records
    assert {name: sorted(names) for name, names in one.splits.items()} == {
        name: sorted(names) for name, names in other.splits.items()
    }
    assert one.dataset.manifest.features == other.dataset.manifest.features


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("inside", ["", "photos/"])
@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_images_by_their_folders(run: Run, here: Path, inside: str, method: int) -> None:
    write_files(here / "folder", TREE)
    junk = {"__MACOSX/._x.jpg": b"x", f"{inside}.DS_Store": b"x"}
    (here / "photos.zip").write_bytes(zipped({f"{inside}{name}": of for name, of in TREE.items()} | junk, method))

    archive = made(run, "zip", "--input", "photos.zip", *SPLITS)

    check_same(archive, made(run, "folder", "--input", "folder", *SPLITS))
    assert archive.rejects() == []


def test_backslashes_of_windows_are_between_folders(run: Run, here: Path) -> None:
    """As .NET wrote them: all images lay in no folder, and so had no class."""
    write_files(here / "folder", TREE)
    with zipfile.ZipFile("photos.zip", "w") as packed:
        for name, data in TREE.items():
            member = zipfile.ZipInfo(f"photos/{name}".replace("/", "\\"))
            member.create_system = 0
            packed.writestr(member, data)

    archive = made(run, "zip", "--input", "photos.zip", *SPLITS)

    check_same(archive, made(run, "folder", "--input", "folder", *SPLITS))


@pytest.mark.parametrize("splits", [("",), ("train/", "test/")])
def test_metadata_of_hugging_face_in_it(run: Run, here: Path, splits: Sequence[str]) -> None:
    rows = [{"file_name": name, "age": n} for n, name in enumerate(TREE)]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows).encode()
    files = {f"{split}{name}": of for split in splits for name, of in (TREE | {"metadata.jsonl": lines}).items()}
    write_files(here / "hf", files)
    (here / "hf.zip").write_bytes(zipped(files))
    flags = SPLITS if len(splits) == 1 else ()

    archive = made(run, "zip", "--input", here / "hf.zip", *flags)

    check_same(archive, made(run, "folder", "--input", here / "hf", *flags))
    assert "age" in next(iter(archive.records.values()))[0].decode("latin-1")


def test_masks_and_images_of_coco_in_archives(run: Run, here: Path) -> None:
    write_pairs(here / "pairs")
    for name in ("images", "masks"):
        (here / f"{name}.zip").write_bytes(zipped(files_in(here / "pairs" / name)))
    flags = ("--input", "pairs/images", "--masks", "pairs/masks")
    check_same(made(run, "a", "--input", "images.zip", "--masks", "masks.zip"), made(run, "b", *flags))

    coco = write_coco(here / "coco", scenes(6), "notes.json", "pictures")
    (here / "pictures.zip").write_bytes(zipped(files_in(here / "coco" / "pictures")))
    check_same(
        made(run, "c", "--coco", coco, "--input", "pictures.zip"),
        made(run, "d", "--coco", coco, "--input", here / "coco" / "pictures"),
    )


def test_arrays_and_a_part_of_an_archive(run: Run, here: Path) -> None:
    np.save(here / "1.npy", np.arange(6, dtype=np.int16))
    (here / "x.zip").write_bytes(zipped({"scans/a/1.npy": (here / "1.npy").read_bytes(), "more/2.txt": b""}))

    assert len(made(run, "arrays", "--input", "zip://x.zip/scans", command="arrays").records) == 1
    (example,) = shardmill.examples(here / "out/arrays", "train")
    assert example["image"].tolist() == [0, 1, 2, 3, 4, 5]


def test_a_damaged_member_is_a_reject(run: Run, here: Path) -> None:
    data = bytearray(zipped(TREE, zipfile.ZIP_STORED))
    name = min(TREE)
    place = data.index(TREE[name])
    data[place + 40] ^= 255
    (here / "photos.zip").write_bytes(data)

    contents = made(run, "zip", "--input", "photos.zip", *SPLITS)

    assert [(item["source"], item["reason"]) for item in contents.rejects()] == [
        (name, "cannot be read: it is damaged: its checksum is another")
    ]
    assert len(contents.records) == len(TREE) - 1


@pytest.mark.parametrize(
    ("files", "flags", "sentence"),
    [
        ({"photos.zip": b"PK"}, ("--input", "photos.zip"), "photos.zip is no zip archive that can be read"),
        ({"photos.zip": zipped({"a.txt": b"x"})}, ("--input", "photos.zip"), "no images in --input zip://photos.zip"),
        ({"photos.7z": b"x"}, ("--input", "photos.7z"), "is an archive, and images in it are not read; unpack it"),
        ({}, ("--input", "photos.zip"), "--input photos.zip: no such file or folder\n"),
        (
            {"a.zip": zipped(TREE)},
            ("--input", "*.zip"),
            "only a single zip archive is read, given by its path; unpack them",
        ),
        (
            {name: zipped(TREE) for name in ("a.zip", "b.zip")},
            ("--input", "a.zip,b.zip"),
            "--input a.zip,b.zip: no such file or folder; it is one path, not a list: give a folder",
        ),
        ({}, ("--input", "zip://photos"), "there is no archive in it; expected zip://FILE.zip/NAME"),
    ],
)
def test_mistakes_are_one_sentence(
    run: Run, here: Path, files: Mapping[str, bytes], flags: Sequence[str], sentence: str
) -> None:
    write_files(here, dict(files))
    check_mistake(run("images", *flags, "--output", "out", "--name", "n"), sentence)


def test_an_unchanged_archive_is_an_unchanged_night(run: Run, here: Path) -> None:
    (here / "photos.zip").write_bytes(zipped(TREE))
    (here / "n.yaml").write_text(
        f"name: n\noutput: {here}/out\nimages: {{input: '{here}/photos.zip', folders: label}}\n"
    )

    assert run("rebuild", "n.yaml").status == 0
    assert "unchanged" in run("rebuild", "n.yaml").out
    (here / "photos.zip").write_bytes(zipped(dict(list(TREE.items())[1:])))
    assert run("rebuild", "n.yaml").status == 0
    assert len(read_back(here / "out/n/1.0.1").records) == len(TREE) - 1


@pytest.mark.parametrize("flags", [[], ["--reuse", "LATEST"]], ids=["read", "reused"])
def test_a_later_job_of_a_process_reads_the_archive_as_it_is_then(run: Run, here: Path, flags: list[str]) -> None:
    """A manifest names the members, so no job lists them."""
    (here / "list.csv").write_text("".join(["file_name,label\n", *(f"{number}.png,a\n" for number in range(4))]))
    given = ["--manifest", "list.csv", "--file_root", f"zip://{here}/photos.zip", "--allow_outside"]
    for version, first in (("1.0.0", 0), ("1.0.1", 100)):
        files = {f"{number}.png": image(first + number, "PNG") for number in range(4)}
        (here / "photos.zip").write_bytes(zipped(files, zipfile.ZIP_STORED))
        reuse = ["--reuse", "record"] if flags and version == "1.0.0" else flags
        made(run, "n", *given, "--version", version, *reuse)
        found = {example["filename"].decode()[-5:]: example["image"] for example in shardmill.examples("out/n")}
        assert found == files
