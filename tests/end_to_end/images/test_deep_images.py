"""PNGs of 16 bits a channel: readers give 8 of them, and a notice has their exact number, whatever the route."""

import base64
import io
import json
import shutil
import struct
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

import shardmill
from tests.support.archives import tar
from tests.support.command import age, image, read_back
from tests.support.jobs import Files, Jobs
from tests.support.later import Later
from tests.support.masks import decode, deep_png, encoded
from tests.support.table_results import parquet

tf = Later("tensorflow")
tfds = Later("tensorflow_datasets")
READ = (
    "{} of 16 bits a channel, of which TFDS, tf.io.decode_image, shardmill.load and shardmill.examples give the upper 8"
)
STORED = "{} more than 8 bits a channel, of which the upper 8 are stored"


def values(number: int) -> np.ndarray:
    """Pixels of 6 x 5, as many channels as PNGs have."""
    return np.random.default_rng(number).integers(0, 1 << 16, (5, 6, number % 4 + 1), np.uint16)


DEEP = {f"{number}.png": deep_png(values(number)) for number in range(9)}
SHALLOW = {
    "rgb.png": image(1, "PNG"),
    "gray.png": image(2, "PNG", mode="L"),
    "palette.png": image(3, "PNG", mode="P"),
    "photo.jpg": image(4),
}
FILES = {**DEEP, **SHALLOW}


def route(name: str, files: dict[str, bytes]) -> tuple[str, Files]:
    """The command line, and the input, that make a data set of these images."""
    if name == "webdataset":
        return "webdataset --splits train=1", {"0.tar": tar(files.items())}
    if name in ("folder", "unchecked"):
        flags = " --verify none" if name == "unchecked" else ""
        return f"images --folders label{flags}", {f"things/{file}": of for file, of in files.items()}
    if name == "manifest":
        rows = "".join(f"{json.dumps({'file_name': file, 'n': n})}\n" for n, file in enumerate(files))
        return "images --manifest in/rows.jsonl", {**files, "rows.jsonl": rows}
    rows_of = parquet(pa.table({"image": list(files.values())}), row_group_size=2)
    return f"parquet --splits train=1{' --image image' if name == 'column' else ''}", {"rows.parquet": rows_of}


ROUTES = ("folder", "unchecked", "manifest", "webdataset", "column", "found")


def noted(jobs: Jobs, line: str, files: Files | None = None, workers: Sequence[int] = (1,)) -> list[str]:
    """Return the notices on images of many bits, which any number of workers gives."""
    first, *others = (
        notices(jobs.build(f"{line} --overwrite --direct_num_workers {number}", files=files).directory)
        for number in workers
    )
    assert all(other == first for other in others)
    return first


def notices(directory: Path) -> list[str]:
    """The notices on images of many bits."""
    found = json.loads((directory / "manifest.json").read_text())["notices"]
    return [notice for notice in found if " bits a channel" in notice]


@pytest.mark.parametrize("name", ROUTES)
def test_all_routes_say_how_many(jobs: Jobs, tmp_path: Path, name: str) -> None:
    of_column = "" if name in ("folder", "unchecked", "manifest") else "feature 'image': "
    one = {"0.png": DEEP["0.png"]} if name == "folder" else {}
    for files, number in ((FILES, "9 images are PNGs"), (SHALLOW, ""), *([(one, "1 image is a PNG")] if one else [])):
        if (tmp_path / "in").exists():
            shutil.rmtree(tmp_path / "in")
        said = noted(jobs, *route(name, files), (1, 2) if files is FILES and name == "folder" else (1,))
        assert len(said) == bool(number)
        for note in said:
            assert note.startswith(of_column + READ.format(number))
            assert "tf.io.decode_png(…, dtype=tf.uint16)" in note
            assert "--mask_dtype uint16" in note


def test_existing_records_and_a_schema(jobs: Jobs) -> None:
    line, files = route("folder", FILES)
    jobs.build(f"{line} --name made", files=files)
    made = "out/made/1.0.0"
    for flags in ("", f"--schema {made}/schema.pbtxt --label label --labels_file {made}/label.labels.txt"):
        (note,) = noted(jobs, f"reshard --input {made} {flags}")
        assert note.startswith("feature 'image': " + READ.format("9 images are PNGs"))


def pairs() -> tuple[str, Files]:
    """The command line and input of a manifest that names two images a row, those of FILES each."""
    rows = [{"file_name": file, "other_file_name": other} for file, other in zip(FILES, reversed(FILES), strict=True)]
    lines = "".join(f"{json.dumps(row)}\n" for row in rows)
    flags = "--file_column file_name,other_file_name"
    return f"images --manifest in/rows.jsonl {flags}", {**FILES, "rows.jsonl": lines}


def test_further_pictures_of_an_example(jobs: Jobs) -> None:
    line, files = pairs()
    one, two = noted(jobs, line, files)
    assert one.startswith(READ.format("9 images are PNGs"))
    assert two == f"other: {one}"
    resized = noted(jobs, f"{line} --resize 4x4")
    assert resized == [STORED.format("9 images have"), f"other: {STORED.format('9 images have')}"]


@pytest.mark.slow
def test_what_readers_get(jobs: Jobs) -> None:
    files = {name: of for name, of in DEEP.items() if values(int(name[0])).shape[2] in (1, 3)}
    line, tree = route("folder", files)
    directory = jobs.build(line, files=tree).directory
    upper = {name: np.repeat(whole, 3 // whole.shape[2], 2) >> 8 for name in files for whole in [values(int(name[0]))]}

    def check(name: bytes, found: np.ndarray) -> None:
        assert found.dtype == np.uint8
        np.testing.assert_array_equal(found, upper[name.decode().partition("/")[2]])

    by_tfds = list(tfds.as_numpy(tfds.builder_from_directory(str(directory)).as_dataset(split="train")))
    examples = list(shardmill.examples(directory, "train", decode_images=True))
    assert len(by_tfds) == len(examples) == len(files)
    for example in (*by_tfds, *examples):
        check(example["filename"], example["image"])
    for example in shardmill.examples(directory, "train"):
        number = int(example["filename"].decode().partition("/")[2][0])
        np.testing.assert_array_equal(tf.io.decode_png(example["image"], dtype=tf.uint16), values(number))
    loaded = shardmill.load(directory, "train", batch_size=1, image_dtype="uint8")
    assert sorted(of[0].numpy().tobytes() for of, _ in loaded) == sorted(
        of.astype(np.uint8).tobytes() for of in upper.values()
    )


@pytest.mark.parametrize(("flags", "in_pairs"), [("", True), ("--image_format png", False), ("--verify none", False)])
def test_the_number_is_the_same_where_records_are_taken_from_an_older_version(
    jobs: Jobs, tmp_path: Path, flags: str, in_pairs: bool
) -> None:
    line, files = pairs() if in_pairs else route("folder", FILES)
    jobs.write(files)
    age(tmp_path / "in")
    one, two = (jobs.build(f"{line} {flags} --reuse LATEST --version 1.0.{number}") for number in (0, 1))
    assert "13 of 13 files taken from 1.0.0" in two.said or "all 13 files" in two.said
    assert notices(one.directory) == notices(two.directory)
    assert ["9 images" in line for line in notices(one.directory)] == [True] * (1 + in_pairs)


# 4 x 4 pixels of 10 bits a channel, as `avifenc -d 10` of libavif writes them, and Pillow does not
TEN_BITS = base64.b64decode(
    "AAAAIGZ0eXBhdmlmAAAAAGF2aWZtaWYxbWlhZk1BMUEAAADybWV0YQAAAAAAAAAoaGRscgAAAAAAAAAAcGljdAAAAAAAAAAAAAAAAGxpYmF2aWYA"
    "AAAADnBpdG0AAAAAAAEAAAAeaWxvYwAAAABEAAABAAEAAAABAAABGgAAACYAAAAoaWluZgAAAAAAAQAAABppbmZlAgAAAAABAABhdjAxQ29sb3IA"
    "AAAAamlwcnAAAABLaXBjbwAAABRpc3BlAAAAAAAAAAQAAAAEAAAAEHBpeGkAAAAAAwoKCgAAAAxhdjFDgSBAAAAAABNjb2xybmNseAABAA0ABoAA"
    "AAAXaXBtYQAAAAAAAAABAAEEAQKDBAAAAC5tZGF0EgAKCDgEfYwENBpAMhgWQAkkkkQAAZOTx/NTLMazwbCPYki2PIA="
)


def sgi(pixels: np.ndarray) -> bytes:
    """An image of SGI, of as many bits as its pixels: a plane for each channel, from the bottom up."""
    height, width, channels = pixels.shape
    head = struct.pack(">hBBHHHHii", 474, 0, pixels.itemsize, 3, width, height, channels, 0, 65535)
    return head.ljust(512, b"\0") + pixels.transpose(2, 0, 1)[:, ::-1].astype(pixels.dtype.newbyteorder(">")).tobytes()


def ppm(pixels: np.ndarray, most: int) -> bytes:
    height, width, _ = pixels.shape
    return b"P6\n%d %d\n%d\n" % (width, height, most) + pixels.astype(pixels.dtype.newbyteorder(">")).tobytes()


def test_formats_whose_bits_pillow_does_not_tell(jobs: Jobs, tmp_path: Path) -> None:
    colours = values(2)
    files = {
        "deep.avif": TEN_BITS,
        "deep.ppm": ppm(colours, 65535),
        "deep_sgi.png": sgi(colours),  # whose own suffix is of no image
        "eight.ppm": ppm((colours >> 8).astype(np.uint8), 255),
        "four.ppm": ppm((colours >> 12).astype(np.uint8), 15),
        "eight_sgi.png": sgi((colours >> 8).astype(np.uint8)),
        "eight.avif": encoded((colours >> 8).astype(np.uint8), "AVIF"),
    }
    assert noted(jobs, "images --input 'in/*' --image_format png", files) == [STORED.format("3 images have")]
    made = read_back(tmp_path / "out/n/1.0.0")
    for name in ("eight.ppm", "eight_sgi.png"):
        np.testing.assert_array_equal(decode(made.example(name)["image"][0]), colours >> 8)


def test_what_is_encoded_anew_has_the_upper_bits_or_is_a_reject(jobs: Jobs, tmp_path: Path) -> None:
    gray = values(0)[..., 0]
    out = io.BytesIO()
    Image.fromarray(gray).save(out, "JPEG2000", irreversible=False)
    files = {
        "0.png": DEEP["0.png"],
        "2.png": DEEP["2.png"],
        "0.tif": encoded(gray, "TIFF"),
        "int.tif": encoded(gray.astype(np.int32), "TIFF"),
        "0.jp2": out.getvalue(),
        "eight.tif": encoded((gray >> 8).astype(np.uint8), "TIFF"),
        "eight.png": image(1, "PNG"),
        "float.tif": encoded(np.array([[0, 1], [np.nan, np.inf]], np.float32), "TIFF"),
        "deeper.tif": encoded(gray.astype(np.int32) * 9 - 5, "TIFF"),
    }
    line = "images --image_format png --max_reject_fraction 1"
    assert noted(jobs, line, files) == [STORED.format("5 images have")]
    made = read_back(tmp_path / "out/n/1.0.0")
    for name in ("0.png", "0.tif", "int.tif", "0.jp2", "eight.tif"):
        np.testing.assert_array_equal(decode(made.example(name)["image"][0])[..., 0], gray >> 8)
    np.testing.assert_array_equal(decode(made.example("2.png")["image"][0]), values(2) >> 8)
    reasons = {reject["source"]: reject["reason"] for reject in made.rejects()}
    assert set(reasons) == {"float.tif", "deeper.tif"}
    assert reasons["float.tif"] == (
        "cannot be re-encoded as png: floats, 2 of them NaN or infinite, from 0 to 1, where white is 65535 or 255: make"
        " it gray of 16 or 8 bits"
    )
    assert reasons["deeper.tif"].startswith("cannot be re-encoded as png: grey from ")
