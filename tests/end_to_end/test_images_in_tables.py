"""Columns of encoded images in tables: stored as images, each checked."""

import json
import os
import struct
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.archives import tar
from tests.support.command import Run, check_mistake, image, write_files
from tests.support.later import Later
from tests.support.table_results import convert

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
tfds = Later("tensorflow_datasets")


def write(folder: Path, columns: dict[str, Any], name: str = "rows.parquet") -> Path:
    """A folder with a Parquet file."""
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), folder / name, row_group_size=4)
    return folder


def test_image_is_checked_and_stored_as_an_image(run: Run, tmp_path: Path) -> None:
    images = [image(number) for number in range(6)]
    bad = [images[0][:-40], b"<html>", None]
    source = write(tmp_path / "in", {"photo": pa.array([*images, *bad], pa.binary()), "n": list(range(9))})
    table = convert("parquet", source, tmp_path, "--image", "photo", "--max_reject_fraction", 0.5)
    assert sorted((row["n"], row["photo"]) for row in table.rows) == list(enumerate(images))
    (feature,) = [item for item in table.dataset.manifest.features if item.name == "photo"]
    assert (feature.kind, feature.encoding, feature.required) == ("image", "jpeg", True)
    reasons = {reject["line"]: reject["reason"] for reject in table.rejects()}
    assert reasons[7].startswith("column 'photo': truncated")
    assert reasons[8].startswith("column 'photo': not an image: a web page")
    assert reasons[9] == "column 'photo': no image"
    assert table.stats()["photo"]["formats"] == {"jpeg": 6}
    builder = tfds.builder_from_directory(str(table.directory))
    assert all(row["photo"].shape[-1] == 3 for row in tfds.as_numpy(builder.as_dataset(split="train")))
    assert json.loads((table.directory / "manifest.json").read_text())["configuration"]["image"] == ["photo"]


@pytest.mark.parametrize("command", ["parquet", "webdataset"])
def test_images_that_exif_turns_are_said(run: Run, tmp_path: Path, command: str) -> None:
    turned = b"\xff\xe1\0\x22Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
    images = [image(0), *(image(number)[:2] + turned + image(number)[2:] for number in (1, 2))]
    flags = ("--image", "image") if command == "parquet" else ()
    if command == "parquet":
        source = write(tmp_path / "in", {"image": pa.array(images, pa.binary())})
    else:
        members = [(f"{number}.jpg", data) for number, data in enumerate(images)]
        source = write_files(tmp_path / "in", {"a.tar": tar(members)})
    table = convert(command, source, tmp_path, *flags)
    assert table.stats()["image"]["turned_by_exif"] == 2
    (said,) = [notice for notice in table.dataset.manifest.notices if "EXIF" in notice]
    assert said.startswith("feature 'image': 2 images are stored sideways, upside down or mirrored, with an EXIF")
    assert said.endswith("; shardmill images --image_format jpeg, which reads files, turns them upright")


def png(side: int, pixels: bytes) -> bytes:
    """A gray PNG of so many pixels a side, whose checksums are right."""
    chunks = ((b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)), (b"IDAT", pixels), (b"IEND", b""))
    parts = [struct.pack(">I", len(of)) + kind + of + struct.pack(">I", zlib.crc32(kind + of)) for kind, of in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def reasons_of(command: str, folder: Path, *flags: object) -> list[str]:
    """Why images in the files of a folder's `in` are rejected."""
    more = ("--image", "image") if command == "parquet" else ()
    table = convert(command, folder / "in", folder, *more, *flags, "--max_reject_fraction", 1, "--overwrite")
    return [reject["reason"].partition("column 'image': ")[2] for reject in table.rejects()]


def write_images(command: str, folder: Path, images: list[bytes], suffix: str) -> None:
    """Write images into a file of the folder's `in`."""
    if command == "parquet":
        write(folder / "in", {"image": pa.array(images, pa.binary())})
    else:
        write_files(folder / "in", {"0.tar": tar([(f"{number}.{suffix}", of) for number, of in enumerate(images)])})


@pytest.mark.parametrize("command", ["parquet", "webdataset"])
def test_bombs_and_what_only_decoding_shows(run: Run, tmp_path: Path, command: str) -> None:
    """As `shardmill images` has it: more pixels than --max_pixels are refused before any is decoded."""
    bomb = png(100_000, zlib.compress(bytes(10**7)))
    images = [png(4, zlib.compress(bytes(20))), bomb, png(4, b"no deflate"), png(9, zlib.compress(bytes(90)))]
    write_images(command, tmp_path, images, "png")

    def reasons(*flags: object) -> list[str]:
        return reasons_of(command, tmp_path, *flags)

    too_large = "a png of 100000 x 100000 pixels is more than --max_pixels {}: a decompression bomb?"
    assert reasons() == [too_large.format(178956970)]
    assert reasons("--max_pixels", 80) == [too_large.format(80), too_large.replace("100000", "9").format(80)]
    bombed, damaged = reasons("--verify", "decode")
    assert bombed == too_large.format(178956970)
    assert damaged.startswith("does not decode")


@pytest.mark.parametrize("command", ["parquet", "webdataset"])
def test_jpegs_that_are_measured_at_once_are_held_to_the_flags(run: Run, tmp_path: Path, command: str) -> None:
    """Plain ones are read in C, many at once; what is too large, or to be decoded, is looked at as a file would be."""
    tables = b"\xff\xc4\0\x1f\0"  # of Huffman codes: how many there are of each length
    images = [image(1), image(2, size=(64, 48)), image(3).replace(tables + b"\0\1\5", tables + b"\x7f\x7f\x7f")]
    write_images(command, tmp_path, images, "jpg")

    assert reasons_of(command, tmp_path) == []
    (large,) = reasons_of(command, tmp_path, "--max_pixels", 12 * 9)
    assert large == "a jpeg of 64 x 48 pixels is more than --max_pixels 108: a decompression bomb?"
    (damaged,) = reasons_of(command, tmp_path, "--verify", "decode")
    assert damaged.startswith("does not decode")


def test_without_the_flag_a_notice_names_it(run: Run, tmp_path: Path) -> None:
    images = [image(number) for number in range(3)]
    whole = write(tmp_path / "a", {"photo": images})
    done = run("parquet", "--input", whole, "--output", tmp_path, "--name", "whole")
    assert "'photo' is an image, by the first bytes of all its values: 3 jpeg; they were not checked" in done.out
    assert "which --image photo does" in done.out
    some = write(tmp_path / "b", {"photo": [*images, None]})
    done = run("parquet", "--input", some, "--output", tmp_path, "--name", "some")
    assert "'photo' is stored as plain bytes, though some of its values are images: 3 jpeg; --image photo" in done.out


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--image", "n"), "--image n: it holds int64; expected the bytes of one encoded image in each row"),
        (("--image", "many"), "--image many: it holds lists of bytes; expected the bytes of one encoded image"),
        (("--image", "foto"), "--image foto: no such column in --input {source}; did you mean photo?"),
        (("--max_pixels", "5"), "--max_pixels 5 is about columns of images, and none is one; --image says which are"),
        (("--verify", "decode"), "--verify decode is about columns of images, and none is one; --image says which"),
        (("--image", "photo", "--drop", "photo"), "--image photo is also in --drop; drop the one or the other"),
        (("--image", "photo", "--label", "photo"), "--image photo is also in --label; drop the one or the other"),
    ],
)
def test_mistakes(run: Run, tmp_path: Path, flags: tuple[str, ...], sentence: str) -> None:
    source = write(tmp_path / "in", {"photo": [image(1)], "many": [[image(1)]], "n": [1]})
    done = run("parquet", "--input", source, "--output", tmp_path, "--name", "n", *flags)
    check_mistake(done, sentence.format(source=source))


FILE = pa.struct({"bytes": pa.binary(), "path": pa.string()})


def files(values: list[bytes | None], path_first: bool = False) -> pa.Array:
    """A column of files as Hugging Face has them."""
    kind = pa.struct({"path": pa.string(), "bytes": pa.binary()}) if path_first else FILE
    return pa.array([{"bytes": value, "path": f"{number}.jpg"} for number, value in enumerate(values)], kind)


def hugging_face(folder: Path, columns: dict[str, Any], features: dict[str, Any] | None, name: str = "a") -> Path:
    """A folder with a Parquet file as the datasets library writes it."""
    folder.mkdir(parents=True, exist_ok=True)
    table = pa.table(columns)
    if features is not None:
        table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(table, folder / f"{name}.parquet", row_group_size=3)
    return folder


IMAGE = {"_type": "Image"}
PETS = {"names": ["cat", "dog", "owl"], "_type": "ClassLabel"}
TAGS = {"feature": {"names": ["in", "out"], "_type": "ClassLabel"}, "_type": "Sequence"}


@pytest.mark.parametrize("path_first", [False, True])
def test_hugging_face_s_images_and_classes(run: Run, tmp_path: Path, path_first: bool) -> None:
    images: list[bytes | None] = [image(number) for number in range(8)]
    columns = {
        "image": files([*images, b"no image", None], path_first),
        "label": pa.array([0, 1, 2, 1, 0, 1, 2, 1, 0, 0]),
        "tags": [[0, 1], [], [1], [0], [1], [1], [0], [0], [1], [0]],
    }
    source = hugging_face(tmp_path / "in", columns, {"image": IMAGE, "label": PETS, "tags": TAGS})
    table = convert("parquet", source, tmp_path, "--max_reject_fraction", 0.5)
    assert sorted(row["image"] for row in table.rows) == sorted(filter(None, images))
    assert (table.directory / "label.labels.txt").read_text().split() == ["cat", "dog", "owl"]
    assert [reject["reason"] for reject in table.rejects()] == [
        "column 'image': not an image: the file starts with b'no image'",
        "column 'image': no image",
    ]
    assert table.stats()["label"]["classes"] == {"cat": 2, "dog": 4, "owl": 2}
    builder = tfds.builder_from_directory(str(table.directory))
    assert builder.info.features["label"].names == ["cat", "dog", "owl"]
    assert builder.info.features["tags"].feature.names == ["in", "out"]
    pairs = list(builder.as_dataset(split="train", as_supervised=True))
    assert sorted(int(label) for _, label in pairs) == [0, 0, 1, 1, 1, 1, 2, 2]
    sheet = tmp_path / "sheet.png"
    assert run("inspect", table.directory, "--contact_sheet", sheet).status == 0
    assert sheet.stat().st_size > 1000


def test_load_and_examples_decode_them(tmp_path: Path) -> None:
    import shardmill

    columns = {"image": files([image(n) for n in range(4)]), "label": [0, 1, 2, 1]}
    source = hugging_face(tmp_path / "in", columns, {"image": IMAGE, "label": PETS})
    table = convert("parquet", source, tmp_path, "--label", "label")
    batch, labels = next(iter(shardmill.load(str(table.directory), split="train", batch_size=4, image_size=(8, 8))))
    assert batch.shape == (4, 8, 8, 3)
    assert sorted(labels.numpy().tolist()) == [0, 1, 1, 2]
    decoded = [row["image"] for row in shardmill.examples(str(table.directory), "train", decode_images=True)]
    assert all(pixels.ndim == 3 for pixels in decoded)


def test_ids_of_no_class_are_rejects(tmp_path: Path) -> None:
    columns = {"label": [0, -1, 3, 2], "tags": [[0], [2], [1], []]}
    source = hugging_face(tmp_path / "in", columns, {"label": PETS, "tags": TAGS})
    table = convert("parquet", source, tmp_path, "--max_reject_fraction", 0.9)
    assert {reject["line"]: reject["reason"] for reject in table.rejects()} == {
        2: "-1 is no id of a class of 'label'; expected 0 to 2",
        3: "3 is no id of a class of 'label'; expected 0 to 2",
    }


def test_without_metadata_the_first_bytes_tell_and_the_flag_says(run: Run, tmp_path: Path) -> None:
    source = hugging_face(tmp_path / "in", {"picture": files([None, image(1)])}, None)
    flags = ("--output", tmp_path, "--max_reject_fraction", 0.9)
    guessed = run("parquet", "--input", source, *flags, "--name", "guessed")
    assert (
        "column 'picture' is taken for images, by the first bytes of its first value; --image picture says"
        in guessed.out
    )
    said = run("parquet", "--input", source, *flags, "--name", "said", "--image", "picture")
    assert "is taken for" not in said.out
    examples = [(tmp_path / name / "1.0.0" / f"{name}-train.tfrecord-00000-of-00001") for name in ("guessed", "said")]
    assert examples[0].read_bytes() == examples[1].read_bytes()


@pytest.mark.parametrize(
    ("columns", "features", "sentence"),
    [
        (
            {"image": files([None, None])},
            {"image": IMAGE},
            "column 'image' names files, such as '0.jpg', and holds none of them; embed them",
        ),
        (
            {"sound": files([b"RIFF"])},
            {"sound": {"_type": "Audio"}},
            "a.parquet: column 'sound' is Hugging Face's Audio, and sounds inside of tables are not read; write them",
        ),
        (
            {"pages": pa.array([[{"bytes": b"x", "path": None}]], pa.list_(FILE))},
            {"pages": {"feature": IMAGE, "_type": "List"}},
            "a.parquet: column 'pages' is lists of files as Hugging Face has them; expected one image in each row",
        ),
        (
            {"thing": files([b"what is this"])},
            None,
            "a.parquet: column 'thing' holds files as Hugging Face has them, and no metadata says of what kind",
        ),
    ],
)
def test_what_is_no_image_is_a_sentence(
    run: Run, tmp_path: Path, columns: dict[str, Any], features: dict[str, Any] | None, sentence: str
) -> None:
    source = hugging_face(tmp_path / "in", {**columns, "n": [1] * len(next(iter(columns.values())))}, features)
    flags = ("--input", source, "--output", tmp_path, "--name", "n")
    check_mistake(run("parquet", *flags), sentence)
    assert run("parquet", *flags, "--drop", next(iter(columns))).status == 0


def test_files_that_name_other_classes_are_a_sentence(run: Run, tmp_path: Path) -> None:
    hugging_face(tmp_path / "in", {"label": [0]}, {"label": PETS})
    hugging_face(tmp_path / "in", {"label": [0]}, {"label": {"names": ["dog", "cat"], "_type": "ClassLabel"}}, "b")
    done = run("parquet", "--input", tmp_path / "in", "--output", tmp_path, "--name", "n")
    check_mistake(done, "files name different classes of 'label': one has 2, 'dog' first, another 3, 'cat' first")
