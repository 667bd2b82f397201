"""Tar files of WebDataset end to end: held against the webdataset library, read by TFDS, and a user's mistakes."""

import gzip
import json
import os
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import webdataset

from tests.support.archives import link, tar
from tests.support.command import Run, check_mistake, image, write_files
from tests.support.later import Later
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


def test_one_example_of_very_many_images(run: Run, tmp_path: Path) -> None:
    members = [(f"film.frame{number}.jpg", image(number)) for number in range(60)]
    folder = write_files(tmp_path / "in", {"a.tar": tar(members)})

    check_mistake(
        run("webdataset", "--input", folder, "--output", tmp_path / "out", "--name", "n"),
        "60 images 'frame0' to 'frame59' would be one example",
    )


@pytest.mark.parametrize(
    ("others", "words"),
    [
        ((".mp4", ".npy"), "passed over: .mp4 member (3, such as '0.mp4'); .npy member (3, such as '0.npy'); read"),
        ((), "the samples have a label and nothing else, as there is no other member"),
    ],
)
def test_samples_of_a_label_alone_are_no_examples(
    run: Run, tmp_path: Path, others: tuple[str, ...], words: str
) -> None:
    members = [(f"{key}{suffix}", b"1") for key in range(3) for suffix in (".cls", *others)]
    folder = write_files(tmp_path / "in", {"a.tar": tar(members)})

    check_mistake(run("webdataset", "--input", folder, "--output", tmp_path / "out", "--name", "n"), words)
    assert not (tmp_path / "out").exists()
