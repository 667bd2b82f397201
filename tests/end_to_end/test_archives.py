"""Tar files of WebDataset, held against the webdataset library and read by TFDS, and zip archives of folders, which
give the data sets of their folders."""

import gzip
import json
import os
import tarfile
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import webdataset

import shardmill
from tests.support.archives import link, tar, zipped
from tests.support.command import Contents, Run, check_mistake, image, image_tree, local_files, read_back, write_files
from tests.support.detection import scenes, write_coco
from tests.support.jobs import Jobs
from tests.support.later import Later
from tests.support.masks import write_pairs
from tests.support.table_results import Table, contents, convert

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
tfds = Later("tensorflow_datasets")

SPLITS = ("--splits", "train=0.7,test=0.3")


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
                        "jpg": image(number),
                        "cls": number % 4,
                        "txt": f"text {number} é",
                        "json": told,
                    }
                )
    return folder


@pytest.fixture(scope="module")
def table(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Table:
    return convert("webdataset", f"{source}/*.tar", tmp_path_factory.mktemp("out"), *SPLITS)


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


def test_tfds_reads_every_sample(source: Path, table: Table) -> None:
    expected = by_webdataset(source)
    builder = tfds.builder_from_directory(str(table.directory))
    assert builder.info.features["label"].names == ["0", "1", "2", "3"]
    assert isinstance(builder.info.features["text"], tfds.features.Text)
    read = [row for split in table.splits for row in tfds.as_numpy(builder.as_dataset(split=split))]
    assert len(read) == 60
    for row in read:
        sample = expected[row["filename"]]
        with np.testing.suppress_warnings():
            np.testing.assert_array_equal(row["image"], tfds.core.utils.image_utils.decode_image(sample["jpg"]))
        assert row["label"] == int(sample["cls"])
        assert row["text"] == sample["txt"]
    pairs = list(builder.as_dataset(split="train", as_supervised=True).take(1))
    assert pairs[0][0].shape[-1] == 3


def test_statistics_and_schema(table: Table, run: Run) -> None:
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


def test_block_size_and_compression_move_no_byte(source: Path, table: Table, tmp_path: Path) -> None:
    small = convert("webdataset", f"{source}/*.tar", tmp_path / "a", *SPLITS, "--block_size", "1KiB")
    assert contents(small.directory) == contents(table.directory)


def test_labels_file_names_the_ids(run: Run, source: Path, tmp_path: Path) -> None:
    write_files(tmp_path, {"names.txt": b"ant\nbee\ncat\ndog\neel\n", "few.txt": b"ant\nbee\n"})
    flags = ("--label", "label", "--labels_file")
    named = convert("webdataset", source, tmp_path / "out", *flags, tmp_path / "names.txt")
    assert (named.directory / "label.labels.txt").read_text().split() == ["ant", "bee", "cat", "dog", "eel"]
    assert sorted(row["label"] for row in named.rows) == sorted([0, 1, 2, 3] * 15)
    check_mistake(
        run("webdataset", "--input", source, "--output", tmp_path / "no", "--name", "n", *flags, tmp_path / "few.txt"),
        "--labels_file has 2 names, but 'label' has an id 3; give all names",
    )


def test_folders_are_splits(source: Path, tmp_path: Path) -> None:
    write_files(
        tmp_path / "in",
        {
            "train/0.tar": (source / "s-0000.tar").read_bytes(),
            "val/0.tar": (source / "s-0001.tar").read_bytes(),
        },
    )
    found = convert("webdataset", tmp_path / "in", tmp_path / "out")
    assert {split: len(rows) for split, rows in found.splits.items()} == {"train": 20, "validation": 20}


def test_keys_that_come_again_are_said(run: Run, tmp_path: Path) -> None:
    """In any block of a file, compressed or not; not those of several files."""
    keys = [0, 1, 0, 2, 3, 1, 0]
    data = [tar((f"{key}.txt", f"text {place}".encode()) for place, key in enumerate(keys)), tar([("0.txt", b"x")])]
    files = {"a.tar": data[0], "b.tar": data[1], "c.tar.gz": gzip.compress(data[0]), "d.tar": tar([("0.txt", b"x")])}
    found = convert("webdataset", write_files(tmp_path / "in", files), tmp_path / "out", "--block_size", "1KiB")
    said = [notice for notice in found.dataset.manifest.notices if "the key is that of" in notice]
    assert len(found.rows) == 16
    assert len(said) == 1
    assert said[0].startswith(
        "6 records, such as 'a.tar: sample 3': the key is that of an earlier sample of its file, with others between;"
    )
    for name in ("a.tar", "c.tar.gz"):
        (tmp_path / "in" / name).unlink()
    plain = convert("webdataset", tmp_path / "in", tmp_path / "plain")
    assert plain.dataset.manifest.notices == ()


def test_bad_samples_are_rejects(run: Run, tmp_path: Path) -> None:
    good = [member for n in range(4) for member in ((f"{n}.jpg", image(n)), (f"{n}.cls", b"1"), (f"{n}.bin", b""))]
    bad = [("4.cls", b"1"), ("5.jpg", image(5)), ("6.jpg", image(6)[:-30]), ("6.cls", b"0")]
    more: list[Any] = [("7.jpg", b"<html>"), ("7.cls", b"0"), link("8.jpg"), ("9.jpg", image(9)), ("9.cls", b"two")]
    write_files(tmp_path / "in", {"a.tar": tar([*good, *bad, *more]), "b.tar": tar([]), "c.tar": b"no tar"})
    flags = ("--input", tmp_path / "in", "--output", tmp_path / "out", "--name", "n")
    allowed = ("--max_reject_fraction", 0.9, "--on_damaged_file", "reject")
    done = run("webdataset", *flags, *allowed)
    assert done.status == 0, done.err
    assert "passed over 4 .bin members, such as 'a.tar: 0.bin'" in done.out + done.err
    assert "passed over 1 tar file without a sample, such as 'b.tar'" in done.out + done.err
    lines = [json.loads(line) for file in (tmp_path / "out/n/1.0.0/rejects").iterdir() for line in file.open()]
    reasons = {(line["source"], line["line"]): line["reason"] for line in lines}
    assert reasons == {
        ("a.tar", 5): "4: column 'image': no image",
        ("a.tar", 6): "5: no label: column 'label' has no value",
        ("a.tar", 7): reasons["a.tar", 7],
        ("a.tar", 8): "7: column 'image': not an image: a web page (HTML), which a server may have answered in place of"
        " an image",
        ("a.tar", 9): "8: '8.jpg' is a link; expected a file with its bytes",
        ("a.tar", 10): "9: its .cls is 'two'; expected the id of a class, an integer from 0",
        ("c.tar", None): "not a tar file: it begins with b'no tar'",
    }
    assert reasons["a.tar", 7].startswith("6: column 'image': truncated")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [(tar([]), "has no rows"), (b"", "not a tar file: it is empty"), (tar([("0.jpg", b"x")])[:600], "cut short")],
)
def test_nothing_to_read_is_a_sentence(run: Run, tmp_path: Path, content: bytes, sentence: str) -> None:
    write_files(tmp_path, {"in/a.tar": content})
    done = run("webdataset", "--input", tmp_path / "in", "--output", tmp_path / "out", "--name", "n")
    assert done.status in (1, 2)
    assert sentence in done.err
    assert not (tmp_path / "out/n/LATEST").exists()


def test_long_names_and_json_beside_cls(tmp_path: Path) -> None:
    key = "folder/" * 30 + "x"
    members = [(f"{key}.jpg", image(1)), (f"{key}.cls", b"1"), (f"{key}.json", b'{"label": "one", "n": 1}')]
    for number, kind in enumerate((tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)):
        write_files(tmp_path / f"in{number}", {"a.tar": tar(members, kind)})
        (row,) = convert("webdataset", tmp_path / f"in{number}", tmp_path / f"out{number}").rows
        assert row == {"filename": key.encode(), "image": image(1), "label": 1, "json.label": b"one", "n": 1}


FRAMES = {f"{video}.{frame:02}.png": image(10 * video + frame, "PNG") for video in (22, 23) for frame in range(6)}


@pytest.mark.parametrize("suffix", [".tar", ".tar.gz"])
def test_names_with_several_dots(run: Run, tmp_path: Path, suffix: str) -> None:
    members = [
        item for name, data in FRAMES.items() for item in ((name, data), (f"{name[:-4]}.cls", name[:2].encode()))
    ]
    packed = gzip.compress if suffix == ".tar.gz" else bytes
    folder = write_files(tmp_path / "in", {f"a{suffix}": packed(tar(members))})
    job = ("webdataset", "--input", folder, "--output", tmp_path / "out", "--name", "n")

    check_mistake(
        run(*job),
        f"a{suffix}: names are cut at their first dot, so that 6 images '00' to '05' would be one example with the key"
        " '22'; give --key_until last_dot for an example each, or --key_until first_dot if that is meant",
    )
    assert not (tmp_path / "out").exists()
    last = convert("webdataset", folder, tmp_path / "last", "--key_until", "last_dot", "--block_size", "1KiB")
    assert {row["filename"].decode() + ".png": row["image"] for row in last.rows} == FRAMES
    assert {row["label"] for row in last.rows if row["filename"].startswith(b"22")} == {22}
    del members[1::2]
    first = convert(
        "webdataset",
        write_files(tmp_path / "images", {"a.tar": tar(members)}),
        tmp_path / "first",
        "--key_until",
        "first_dot",
    )
    assert [sorted(set(row) - {"filename"})[:2] for row in first.rows] == [["00", "01"]] * 2


def test_one_example_of_very_many_images(jobs: Jobs) -> None:
    members = tar((f"film.frame{number}.jpg", image(number)) for number in range(60))
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


TREE = image_tree(("ant", "bee"), 6)


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


@pytest.fixture
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
        (here / f"{name}.zip").write_bytes(zipped(local_files(here / "pairs" / name)))
    flags = ("--input", "pairs/images", "--masks", "pairs/masks")
    check_same(made(run, "a", "--input", "images.zip", "--masks", "masks.zip"), made(run, "b", *flags))

    coco = write_coco(here / "coco", scenes(6), "notes.json", "pictures")
    (here / "pictures.zip").write_bytes(zipped(local_files(here / "coco" / "pictures")))
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
