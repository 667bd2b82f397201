"""Tar files of WebDataset, held against the webdataset library and read by TFDS, and zip archives of folders, which
give the data sets of their folders."""

import gzip
import json
import os
import subprocess
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import webdataset

from tests.support import command
from tests.support.archives import tar, zipped
from tests.support.detection import scenes, write_coco
from tests.support.jobs import Built, Jobs
from tests.support.masks import write_pairs
from tests.support.table_results import Table, convert, encode_rows

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

SPLITS = "--splits train=0.7,test=0.3"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three tar files, by webdataset's own writer."""
    folder = tmp_path_factory.mktemp("tars")
    for shard in range(3):
        with webdataset.TarWriter(str(folder / f"s-{shard:04}.tar")) as writer:
            for number in range(20 * shard, 20 * shard + 20):
                told = {
                    "caption": f"caption {number}",
                    "boxes": [[number, 1, 2, 3]] * (number % 3),
                    "score": number / 4,
                }
                writer.write(
                    {
                        "__key__": f"part/{number:05}",
                        "jpg": command.image(number),
                        "cls": number % 4,
                        "txt": f"text {number} é",
                        "json": told,
                    }
                )
    return folder


@pytest.fixture(scope="module")
def table(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Table:
    return convert("webdataset", f"{source}/*.tar", tmp_path_factory.mktemp("out"), *SPLITS.split())


def by_webdataset(source: Path) -> dict[bytes, dict[str, Any]]:
    """The samples, decoded, by their keys."""
    shards = sorted(str(path) for path in source.glob("*.tar*"))
    dataset = webdataset.WebDataset(shards, shardshuffle=False)
    return {sample["__key__"].encode(): sample for sample in dataset}


def test_every_sample_is_what_webdataset_reads(source: Path, table: Table) -> None:
    expected = by_webdataset(source)
    assert len(expected) == len(table.rows) == 60
    for row in table.rows:
        sample = expected[row["filename"]]
        told = json.loads(sample["json"])
        assert row["image"] == sample["jpg"]
        assert row["label"] == int(sample["cls"])
        assert row["text"] == sample["txt"]
        assert row["caption"] == told["caption"].encode()
        assert row["score"] == told["score"]
        assert row["boxes"] == [value for box in told["boxes"] for value in box]


def test_statistics_and_schema(table: Table, run: command.Run) -> None:
    stats = table.stats("test")
    assert stats["image"]["formats"] == {"jpeg": len(table.splits["test"])}
    widths = stats["image"]["width"], stats["image"]["height"]
    assert all(numbers["count"] == len(table.splits["test"]) and numbers["min"] > 0 for numbers in widths)
    assert sum(stats["label"]["classes"].values()) == len(table.splits["test"])
    assert "image_domain" in (table.directory / "schema.pbtxt").read_text()
    assert run("verify", table.directory).status == 0
    shown = run("inspect", table.directory).out
    assert "image, jpeg" in shown
    assert "class_label, 4 classes" in shown


def test_labels_file_names_the_ids(jobs: Jobs, source: Path) -> None:
    jobs.write({"names.txt": "ant\nbee\ncat\ndog\neel\n", "few.txt": "ant\nbee\n"})
    line = f"webdataset --input {source} --label label --labels_file"
    named = jobs.build(f"{line} in/names.txt")
    assert (named.directory / "label.labels.txt").read_text().split() == ["ant", "bee", "cat", "dog", "eel"]
    assert sorted(named.table.column("label")) == sorted([0, 1, 2, 3] * 15)
    said = "--labels_file has 2 names, but 'label' has an id 3; give all names"
    jobs.refuse(f"{line} in/few.txt --output no", said)


def test_keys_that_come_again_are_said(jobs: Jobs) -> None:
    """In any block of a file, compressed or not; not those of several files."""
    keys = [0, 1, 0, 2, 3, 1, 0]
    data, other = tar((f"{key}.txt", f"text {at}".encode()) for at, key in enumerate(keys)), tar([("0.txt", b"x")])
    files = {"a.tar": data, "b.tar": other, "c.tar.gz": gzip.compress(data), "d.tar": other}
    found = jobs.build("webdataset --block_size 1KiB", files=files)
    assert found.splits == {"train": 16}
    (said,) = [notice for notice in found.notices if "the key is that of" in notice]
    assert said.startswith(
        "6 records, such as 'a.tar: sample 3': the key is that of an earlier sample of its file, with others between;"
    )
    pack = said.partition("`")[2].partition("`")[0].split()
    for name in ("a.tar", "c.tar.gz"):
        folder = jobs.folder / name
        subprocess.run(["tar", "-xf", jobs.folder / "in" / name, "--one-top-level=" + str(folder)], check=True)
        subprocess.run([*pack, jobs.folder / "in" / name, "--auto-compress", "."], cwd=folder, check=True)
    assert not [notice for notice in jobs.build("webdataset --output b").notices if "the key is" in notice]


def test_members_of_one_sample_that_are_apart_stop_the_job(jobs: Jobs) -> None:
    members = [(f"{key}.{suffix}", content) for suffix, content in (("txt", b"t"), ("cls", b"1")) for key in range(3)]
    jobs.refuse("webdataset", "a.tar: sample 4 has the key…`tar --sort=name", files={"a.tar": tar(members)})


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(tar([]), "has no rows"), (b"", "not a tar file: it is empty"), (tar([("0.jpg", b"x")])[:600], "cut short")],
)
def test_nothing_to_read_is_a_sentence(jobs: Jobs, content: bytes, sentence: str) -> None:
    done = jobs.run("webdataset", files={"a.tar": content})
    assert done.status in (1, 2)
    assert sentence in done.err
    assert not (jobs.folder / "out/n/LATEST").exists()


def test_long_names_and_json_beside_cls(jobs: Jobs) -> None:
    key = "folder/" * 30 + "x"
    members = [(f"{key}.jpg", command.image(1)), (f"{key}.cls", b"1"), (f"{key}.json", b'{"label": "one", "n": 1}')]
    for kind in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        (row,) = jobs.build(f"webdataset --output {kind}", files={"a.tar": tar(members, kind)}).table.rows
        assert row == {"filename": key.encode(), "image": command.image(1), "label": 1, "json.label": b"one", "n": 1}


def test_folders_of_keys_are_no_labels_and_images_reads_them_as_classes(jobs: Jobs) -> None:
    members = {f"{label}/{number}.png": command.image(number, "PNG") for label in ("cat", "dog") for number in (1, 2)}
    captions = {name.replace("png", "txt"): b"a pet" for name in members}
    built = jobs.build("webdataset", files={"a.tar": tar(members.items())})
    others = jobs.build("webdataset --name others", files={"a.tar": tar(sorted((members | captions).items()))})

    (notice,) = (notice for notice in built.notices if "`shardmill images`" in notice)
    assert notice.startswith(
        "4 records, such as 'a.tar: dog/': the folder in a key is no label; if folders are classes"
    )
    assert not any("folder" in notice for notice in others.notices)
    with tarfile.open(jobs.folder / "in/a.tar") as unpacked:
        unpacked.extractall(jobs.folder / "unpacked", [one for one in unpacked if one.name.endswith("png")])
    images = jobs.build("images --input unpacked --name images")
    assert {images.contents.label_of(name) for name in images.contents.records} == {"cat", "dog"}


FRAMES = {
    f"{video}.{frame:02}.png": command.image(10 * video + frame, "PNG") for video in (22, 23) for frame in range(6)
}


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz"])
def test_names_with_several_dots(jobs: Jobs, suffix: str) -> None:
    labels = {f"{name[:-4]}.cls": name[:2].encode() for name in FRAMES}
    members = sorted((FRAMES | labels).items(), key=lambda member: (member[0][:5], member[0].endswith("cls")))
    packed = gzip.compress if suffix == ".tar.gz" else bytes
    jobs.refuse(
        "webdataset",
        f"a{suffix}: names are cut at their first dot, so that 6 images '00' to '05' would be one example with the key"
        " '22'; give --key_until last_dot for an example each, or --key_until first_dot if that is meant",
        files={f"a{suffix}": packed(tar(members))},
    )
    last = jobs.build("webdataset --key_until last_dot --block_size 1KiB").table
    assert {row["filename"].decode() + ".png": row["image"] for row in last.rows} == FRAMES
    assert {row["label"] for row in last.rows if row["filename"].startswith(b"22")} == {22}
    line = "webdataset --input in/images.tar --output first --key_until first_dot"
    first = jobs.build(line, files={"images.tar": tar(FRAMES.items())}).table
    assert [sorted(set(row) - {"filename"})[:2] for row in first.rows] == [["00", "01"]] * 2


def test_one_example_of_very_many_images(jobs: Jobs) -> None:
    members = tar((f"film.frame{number}.jpg", command.image(number)) for number in range(60))
    jobs.refuse("webdataset", "60 images 'frame0' to 'frame59' would be one example", files={"a.tar": members})


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ((".mp4", ".npy"), "passed over: .mp4 member (3, such as '0.mp4'); .npy member (3, such as '0.npy'); read"),
        ((), "the samples have a label and nothing else, as there is no other member"),
    ],
)
def test_samples_of_a_label_alone_are_no_examples(jobs: Jobs, others: tuple[str, ...], words: str) -> None:
    members = tar((f"{key}{suffix}", b"1") for key in range(3) for suffix in (".cls", *others))
    jobs.refuse("webdataset", words, files={"a.tar": members})


TREE = command.image_tree(("ant", "bee"), 6)


def check_same(jobs: Jobs, one: str, other: str) -> Built:
    """Check that two lines make the same data set; return the first."""
    first, second = jobs.build(f"{one} --output one"), jobs.build(f"{other} --output other")
    assert first.contents.records == second.contents.records
    by_split = [{name: set(names) for name, names in each.contents.splits.items()} for each in (first, second)]
    assert by_split[0] == by_split[1]
    assert first.manifest.features == second.manifest.features
    assert first.rejects == second.rejects == []
    return first


@pytest.mark.parametrize(("inside", "method"), [("", zipfile.ZIP_STORED), ("photos/", zipfile.ZIP_DEFLATED)])
def test_images_by_their_folders(jobs: Jobs, inside: str, method: int) -> None:
    junk = {"__MACOSX/._x.jpg": b"x", f"{inside}.DS_Store": b"x"}
    photos = zipped({f"{inside}{name}": of for name, of in TREE.items()} | junk, method)
    jobs.write(TREE | {"../photos.zip": photos})
    check_same(jobs, f"images --input photos.zip {SPLITS}", f"images {SPLITS}")


def test_backslashes_of_windows_are_between_folders(jobs: Jobs) -> None:
    """.NET wrote names with backslashes: images seemed to lie in no folder, and had no class."""
    jobs.write(TREE)
    with zipfile.ZipFile("photos.zip", "w") as packed:
        for name, data in TREE.items():
            member = zipfile.ZipInfo(f"photos/{name}".replace("/", "\\"))
            member.create_system = 0
            packed.writestr(member, data)
    check_same(jobs, f"images --input photos.zip {SPLITS}", f"images {SPLITS}")


@pytest.mark.parametrize("splits", [("",), ("train/", "test/")])
def test_metadata_of_hugging_face_in_it(jobs: Jobs, splits: Sequence[str]) -> None:
    lines = encode_rows("jsonl", [{"file_name": name, "age": n} for n, name in enumerate(TREE)])
    files = {f"{split}{name}": of for split in splits for name, of in (TREE | {"metadata.jsonl": lines}).items()}
    jobs.write(files | {"../hf.zip": zipped(files)})
    flags = SPLITS if len(splits) == 1 else ""
    archive = check_same(jobs, f"images --input hf.zip {flags}", f"images {flags}").contents
    assert "age" in next(iter(archive.records.values()))[0].decode("latin-1")


def test_masks_and_images_of_coco_in_archives(jobs: Jobs) -> None:
    folder = write_pairs(jobs.folder / "in")
    for name in ("images", "masks"):
        jobs.write({f"../{name}.zip": zipped(command.local_files(folder / name))})
    flags = "--input in/images --masks in/masks"
    check_same(jobs, "images --input images.zip --masks masks.zip", f"images {flags}")

    coco = write_coco(jobs.folder / "coco", scenes(6), "notes.json", "pictures")
    jobs.write({"../pictures.zip": zipped(command.local_files(jobs.folder / "coco/pictures"))})
    line = f"images --overwrite --coco {coco} --input"
    check_same(jobs, f"{line} pictures.zip", f"{line} coco/pictures")


def test_arrays_and_a_part_of_an_archive(jobs: Jobs) -> None:
    scans = {"scans/a/1.npy": command.npy(np.arange(6, dtype=np.int16)), "more/2.txt": b""}
    built = jobs.build("arrays --input zip://x.zip/scans", files={"../x.zip": zipped(scans)})
    assert [example["image"].tolist() for example in built.examples()] == [[0, 1, 2, 3, 4, 5]]


@pytest.mark.parametrize(
    ("files", "path", "said"),
    [
        ({"../photos.zip": b"PK"}, "photos.zip", "photos.zip is no zip archive that can be read"),
        ({"../photos.zip": zipped({"a.txt": b"x"})}, "photos.zip", "no images in --input zip://photos.zip"),
        ({"../photos.7z": b"x"}, "photos.7z", "is an archive, and images in it are not read; unpack it"),
        ({}, "photos.zip", "--input photos.zip: no such file or folder\n"),
        ({"../a.zip": zipped(TREE)}, "*.zip", "only a single zip archive is read, given by its path; unpack them"),
        (
            {f"../{name}": zipped(TREE) for name in ("a.zip", "b.zip")},
            "a.zip,b.zip",
            "--input a.zip,b.zip: no such file or folder; it is one path, not a list: give a folder",
        ),
        ({}, "zip://photos", "there is no archive in it; expected zip://FILE.zip/NAME"),
    ],
)
def test_mistakes_are_one_sentence(jobs: Jobs, files: Mapping[str, bytes], path: str, said: str) -> None:
    jobs.refuse(f"images --input {path}", said, files=files)


def test_an_unchanged_archive_is_an_unchanged_night(jobs: Jobs, run: command.Run) -> None:
    recipe = f"name: n\noutput: {jobs.folder}/out\nimages: {{input: '{jobs.folder}/photos.zip', folders: label}}\n"
    jobs.write({"../photos.zip": zipped(TREE), "../n.yaml": recipe})
    assert run("rebuild", "n.yaml").status == 0
    assert "unchanged" in run("rebuild", "n.yaml").out
    jobs.write({"../photos.zip": zipped(dict(list(TREE.items())[1:]))})
    assert run("rebuild", "n.yaml").status == 0
    assert len(command.read_back(jobs.folder / "out/n/1.0.1").records) == len(TREE) - 1


@pytest.mark.parametrize("flags", ["", "--reuse LATEST"], ids=["read", "reused"])
def test_a_later_job_of_a_process_reads_the_archive_as_it_is_then(jobs: Jobs, flags: str) -> None:
    """A manifest names the members, so no job lists them."""
    jobs.write({"list.csv": "".join(["file_name,label\n", *(f"{number}.png,a\n" for number in range(4))])})
    line = f"images --manifest in/list.csv --file_root zip://{jobs.folder}/photos.zip --allow_outside"
    for version, first in (("1.0.0", 0), ("1.0.1", 100)):
        files = {f"{number}.png": command.image(first + number, "PNG") for number in range(4)}
        jobs.write({"../photos.zip": zipped(files, zipfile.ZIP_STORED)})
        reuse = "--reuse record" if flags and version == "1.0.0" else flags
        found = jobs.build(f"{line} --version {version} {reuse}").examples()
        assert {example["filename"].decode()[-5:]: example["image"] for example in found} == files
