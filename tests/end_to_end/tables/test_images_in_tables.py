"""Columns of encoded images in tables: stored as images, each checked."""

import json
import struct
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from tests.support.archives import tar
from tests.support.command import Run, image
from tests.support.jobs import Files, Jobs
from tests.support.later import Later
from tests.support.table_results import parquet

tfds = Later("tensorflow_datasets")


@pytest.mark.slow
def test_image_is_checked_and_stored_as_an_image(jobs: Jobs) -> None:
    images = [image(number) for number in range(6)]
    bad = [images[0][:-40], b"<html>", None]
    rows = table({"photo": pa.array([*images, *bad], pa.binary()), "n": list(range(9))})
    made = jobs.build("parquet --image photo --max_reject_fraction 0.5", files={"a.parquet": rows})
    assert sorted((row["n"], row["photo"]) for row in made.table.rows) == list(enumerate(images))
    (feature,) = [item for item in made.manifest.features if item.name == "photo"]
    assert (feature.kind, feature.encoding, feature.required) == ("image", "jpeg", True)
    cut, web, none = made.reasons.values()
    assert cut.startswith("column 'photo': truncated")
    assert web.startswith("column 'photo': not an image: a web page")
    assert none == "column 'photo': no image"
    assert made.stats["photo"]["formats"] == {"jpeg": 6}
    builder = tfds.builder_from_directory(str(made.directory))
    assert all(row["photo"].shape[-1] == 3 for row in tfds.as_numpy(builder.as_dataset(split="train")))
    assert made.manifest.configuration["image"] == ["photo"]


def in_file(command: str, images: list[bytes], suffix: str = "jpg") -> Files:
    """A file of images for a command."""
    if command == "parquet":
        return {"a.parquet": table({"image": pa.array(images, pa.binary())})}
    return {"a.tar": tar([(f"{number}.{suffix}", of) for number, of in enumerate(images)])}


COMMANDS = pytest.mark.parametrize("command", ["parquet --image image", "webdataset"])


@COMMANDS
def test_images_that_exif_turns_are_said(jobs: Jobs, command: str) -> None:
    turned = b"\xff\xe1\0\x22Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
    images = [image(0), *(image(number)[:2] + turned + image(number)[2:] for number in (1, 2))]
    made = jobs.build(command, files=in_file(command.split()[0], images))
    assert made.stats["image"]["turned_by_exif"] == 2
    (said,) = [notice for notice in made.notices if "EXIF" in notice]
    assert said.startswith("feature 'image': 2 images are stored sideways, upside down or mirrored, with an EXIF")
    assert said.endswith("; shardmill images --image_format jpeg, which reads files, turns them upright")


def png(side: int, pixels: bytes) -> bytes:
    """A gray PNG of so many pixels a side, whose checksums are right."""
    chunks = ((b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)), (b"IDAT", pixels), (b"IEND", b""))
    parts = [struct.pack(">I", len(of)) + kind + of + struct.pack(">I", zlib.crc32(kind + of)) for kind, of in chunks]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def reasons(jobs: Jobs, line: str) -> list[str]:
    """Return the reasons of rejected images."""
    found = jobs.build(f"{line} --max_reject_fraction 1 --overwrite").reasons.values()
    return [reason.partition("column 'image': ")[2] for reason in found]


@COMMANDS
def test_bombs_and_what_only_decoding_shows(jobs: Jobs, command: str) -> None:
    """More pixels than --max_pixels are refused before any is decoded, which `shardmill images` does too."""
    bomb = png(100_000, zlib.compress(bytes(10**7)))
    images = [png(4, zlib.compress(bytes(20))), bomb, png(4, b"no deflate"), png(9, zlib.compress(bytes(90)))]
    jobs.write(in_file(command.split()[0], images, "png"))
    too_large = "a png of 100000 x 100000 pixels is more than --max_pixels {}: a decompression bomb?"
    assert reasons(jobs, command) == [too_large.format(178956970)]
    small = [too_large.format(80), too_large.replace("100000", "9").format(80)]
    assert reasons(jobs, f"{command} --max_pixels 80") == small
    bombed, damaged = reasons(jobs, f"{command} --verify decode")
    assert bombed == too_large.format(178956970)
    assert damaged.startswith("does not decode")


@COMMANDS
def test_jpegs_that_are_measured_at_once_are_held_to_the_flags(jobs: Jobs, command: str) -> None:
    """Plain ones are read in C, many at once; what is too large, or to be decoded, is looked at as a file would be."""
    tables = b"\xff\xc4\0\x1f\0"  # of Huffman codes: how many there are of each length
    images = [image(1), image(2, size=(64, 48)), image(3).replace(tables + b"\0\1\5", tables + b"\x7f\x7f\x7f")]
    jobs.write(in_file(command.split()[0], images))
    assert reasons(jobs, command) == []
    (large,) = reasons(jobs, f"{command} --max_pixels {12 * 9}")
    assert large == "a jpeg of 64 x 48 pixels is more than --max_pixels 108: a decompression bomb?"
    (damaged,) = reasons(jobs, f"{command} --verify decode")
    assert damaged.startswith("does not decode")


def test_without_the_flag_a_notice_names_it(jobs: Jobs) -> None:
    images = [image(number) for number in range(3)]
    said = jobs.build("parquet", files={"a.parquet": table({"photo": images})}).said
    assert "'photo' is an image, by the first bytes of all its values: 3 jpeg; they were not checked" in said
    assert "which --image photo does" in said
    said = jobs.build("parquet --overwrite", files={"a.parquet": table({"photo": [*images, None]})}).said
    assert "'photo' is stored as plain bytes, though some of its values are images: 3 jpeg; --image photo" in said


FILE = pa.struct({"bytes": pa.binary(), "path": pa.string()})


def files(values: list[bytes | None], path_first: bool = False) -> pa.Array:
    """A column of files as Hugging Face has them."""
    kind = pa.struct({"path": pa.string(), "bytes": pa.binary()}) if path_first else FILE
    return pa.array([{"bytes": value, "path": f"{number}.jpg"} for number, value in enumerate(values)], kind)


def table(columns: dict[str, Any], features: dict[str, Any] | None = None) -> bytes:
    """A Parquet file, with `features` as the datasets library writes it."""
    made = pa.table(columns)
    if features is not None:
        made = made.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    return parquet(made, row_group_size=3)


IMAGE = {"_type": "Image"}
PETS = {"names": ["cat", "dog", "owl"], "_type": "ClassLabel"}
TAGS = {"feature": {"names": ["in", "out"], "_type": "ClassLabel"}, "_type": "Sequence"}


@pytest.mark.slow
@pytest.mark.parametrize("path_first", [False, True])
def test_hugging_face_s_images_and_classes(run: Run, jobs: Jobs, tmp_path: Path, path_first: bool) -> None:
    images: list[bytes | None] = [image(number) for number in range(8)]
    columns = {
        "image": files([*images, b"no image", None], path_first),
        "label": pa.array([0, 1, 2, 1, 0, 1, 2, 1, 0, 0]),
        "tags": [[0, 1], [], [1], [0], [1], [1], [0], [0], [1], [0]],
    }
    rows = table(columns, {"image": IMAGE, "label": PETS, "tags": TAGS})
    made = jobs.build("parquet --max_reject_fraction 0.5", files={"a.parquet": rows})
    assert sorted(row["image"] for row in made.table.rows) == sorted(filter(None, images))
    assert (made.directory / "label.labels.txt").read_text().split() == ["cat", "dog", "owl"]
    assert list(made.reasons.values()) == [
        "column 'image': not an image: the file starts with b'no image'",
        "column 'image': no image",
    ]
    assert made.stats["label"]["classes"] == {"cat": 2, "dog": 4, "owl": 2}
    builder = tfds.builder_from_directory(str(made.directory))
    assert builder.info.features["label"].names == ["cat", "dog", "owl"]
    assert builder.info.features["tags"].feature.names == ["in", "out"]
    pairs = list(builder.as_dataset(split="train", as_supervised=True))
    assert sorted(int(label) for _, label in pairs) == [0, 0, 1, 1, 1, 1, 2, 2]
    assert run("inspect", made.directory, "--contact_sheet", tmp_path / "sheet.png").status == 0
    assert (tmp_path / "sheet.png").stat().st_size > 1000


def test_ids_of_no_class_are_rejects(jobs: Jobs) -> None:
    rows = table({"label": [0, -1, 3, 2], "tags": [[0], [2], [1], []]}, {"label": PETS, "tags": TAGS})
    made = jobs.build("parquet --max_reject_fraction 0.9", files={"a.parquet": rows})
    no_id = "is no id of a class of 'label'; expected 0 to 2"
    assert made.reasons == {"a.parquet:2": f"-1 {no_id}", "a.parquet:3": f"3 {no_id}"}


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
    jobs: Jobs, columns: dict[str, Any], features: dict[str, Any] | None, sentence: str
) -> None:
    rows = table({**columns, "n": [1] * len(next(iter(columns.values())))}, features)
    jobs.refuse("parquet", sentence, files={"a.parquet": rows})
    if "image" in columns:  # --drop takes no look at what the column is
        jobs.build("parquet --drop image")


def test_files_that_name_other_classes_are_a_sentence(jobs: Jobs) -> None:
    names = (["cat", "dog", "owl"], ["dog", "cat"])
    rows = [table({"label": [0]}, {"label": {"names": some, "_type": "ClassLabel"}}) for some in names]
    sentence = "files name different classes of 'label': one has 2, 'dog' first, another 3, 'cat' first"
    jobs.refuse("parquet", sentence, files={"a.parquet": rows[0], "b.parquet": rows[1]})
