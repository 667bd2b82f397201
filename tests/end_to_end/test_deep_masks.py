"""Masks of 16 bits, such as depth maps and ids of instances: no value is lost, whatever reads them."""

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

import shardmill
from shardmill.metadata.schema import from_pbtxt
from tests.support.command import Run, tree_bytes, write_files
from tests.support.detection import mask_of, scenes, write_coco
from tests.support.jobs import Jobs
from tests.support.later import Later
from tests.support.masks import COLOURS, deep_png, encoded, palette, picture, values
from tests.support.reading import make

tf = Later("tensorflow")
tfds = Later("tensorflow_datasets")
DEEP = ("--mask_dtype", "uint16")
LEVELS = np.array([0, 300, 65535], np.uint16)  # by the value of the mask of 8 bits


def deep(number: int) -> np.ndarray:
    return LEVELS[values(number)]


def write_deep(folder: Path, number: int = 6) -> Path:
    """`folder/images/<n>.png`, masks of 16 bits of the same names in `folder/masks`."""
    for n in range(number):
        write_files(folder, {f"images/{n}.png": picture(values(n)), f"masks/{n}.png": encoded(deep(n))})
    return folder


def by_name(directory: Path) -> dict[str, dict[str, Any]]:
    found = shardmill.examples(directory, "train", decode_images=True)
    return {example["filename"].decode(): example for example in found}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = write_deep(tmp_path_factory.mktemp("deep"))
    return folder, make("images", folder / "images", folder / "out", "--masks", folder / "masks", *DEEP)


def test_tfds_reads_every_value(made: tuple[Path, Path]) -> None:
    builder = tfds.builder_from_directory(str(made[1]))
    feature = builder.info.features["mask"]
    found = list(tfds.as_numpy(builder.as_dataset(split="train")))

    assert (type(feature).__name__, feature.shape, feature.dtype) == ("Image", (None, None, 1), np.uint16)
    assert len(found) == 6
    for example in found:
        number = int(example["filename"].decode().removesuffix(".png"))
        assert example["mask"].dtype == np.uint16
        np.testing.assert_array_equal(example["mask"][..., 0], deep(number))


def test_bytes_and_descriptions(run: Run, made: tuple[Path, Path]) -> None:
    folder, directory = made
    for example in shardmill.examples(directory, "train"):
        assert example["mask"] == (folder / "masks" / example["filename"].decode()).read_bytes()
    for name, example in by_name(directory).items():
        np.testing.assert_array_equal(example["mask"][..., 0], deep(int(name[0])))
        assert example["mask"].dtype == np.uint16
    (mask,) = [item for item in from_pbtxt((directory / "schema.pbtxt").read_text()) if item.name == "mask"]
    stats = json.loads((directory / "stats.json").read_text())["splits"]["train"]["features"]["mask"]
    assert (mask.kind, mask.element, mask.shape) == ("mask", "uint16", ())
    assert stats["formats"] == {"png": 6}
    assert "a value from 0 to 65535 a pixel" in run("inspect", directory).out
    assert run("verify", directory, "--decode").status == 0


def test_load_gives_every_value_scaled_by_the_nearest_pixel(made: tuple[Path, Path]) -> None:
    for features, mask in shardmill.load(made[1], image_dtype="uint8"):
        assert mask.dtype == tf.uint16
        places = np.searchsorted(LEVELS, mask.numpy()[..., 0])
        np.testing.assert_array_equal(LEVELS[places], mask.numpy()[..., 0])
        np.testing.assert_array_equal(features, COLOURS[places])
    ((_, masks),) = list(shardmill.load(made[1], batch_size=6, image_size=(24, 32), augment=lambda given: given))
    assert (masks.shape, masks.dtype) == ((6, 24, 32, 1), tf.uint16)
    assert set(np.unique(masks)) == set(LEVELS.tolist())


@pytest.mark.parametrize("mode", ["exact", "cover", "contain"])
@pytest.mark.parametrize("orientation", [1, 5, 6])
def test_they_are_resized_and_turned_as_masks_of_8_bits_are(tmp_path: Path, mode: str, orientation: int) -> None:
    flags = ("--resize", "40x30", "--resize_mode", mode, "--image_format", "png", "--masks_seen", "stored")
    for folder, mask in (("shallow", values(3)), ("deep", deep(3))):
        write_files(tmp_path / folder, {"images/1.png": picture(values(3), orientation), "masks/1.png": encoded(mask)})
    found = [
        by_name(make("images", tmp_path / folder / "images", tmp_path / folder, "--masks", masks, *flags, *more))
        for folder, more in (("shallow", ()), ("deep", DEEP))
        for masks in [tmp_path / folder / "masks"]
    ]

    shallow, of_16 = (one["1.png"]["mask"] for one in found)
    assert (of_16.shape, of_16.dtype) == ((30, 40, 1), np.uint16)
    np.testing.assert_array_equal(of_16, LEVELS[shallow])
    assert set(np.unique(of_16)) == set(LEVELS.tolist())


def test_they_are_turned_where_images_are_stored_as_they_are(tmp_path: Path) -> None:
    turned = ImageOps.exif_transpose(Image.open(io.BytesIO(encoded(values(2), orientation=6))))
    write_files(tmp_path, {"images/1.png": picture(values(2), 6), "masks/1.png": encoded(LEVELS[np.asarray(turned)])})

    example = by_name(make("images", tmp_path / "images", tmp_path, "--masks", tmp_path / "masks", *DEEP))["1.png"]

    np.testing.assert_array_equal(example["mask"][..., 0], deep(2))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (encoded(values(1)), "1 mask has 8 bits, and is stored with the same values in 16"),
        (palette(values(1)), "1 mask has a palette"),
        (encoded(np.stack([values(1)] * 3, -1)), "1 mask has colours that are all gray"),
        (encoded(values(1).astype(np.uint16), "TIFF"), "1 mask is no PNG"),
    ],
)
def test_other_files_keep_their_values_in_16_bits(tmp_path: Path, content: bytes, said: str) -> None:
    write_files(tmp_path, {"images/1.png": picture(values(1)), "masks/1.png": content})

    directory = make("images", tmp_path / "images", tmp_path / "out", "--masks", tmp_path / "masks", *DEEP)

    ((_, mask),) = list(shardmill.load(directory))
    np.testing.assert_array_equal(mask[..., 0], values(1))
    assert mask.dtype == tf.uint16
    assert any(said in notice for notice in json.loads((directory / "manifest.json").read_text())["notices"])


def test_what_no_mask_holds_is_a_reject(jobs: Jobs, tmp_path: Path) -> None:
    write_deep(tmp_path / "in", 5)
    alpha = np.broadcast_to(np.array([0x0102, 0xFFFF], np.uint16), (12, 16, 2))  # Pillow reads the upper 8 bits alone
    bad = {
        "1.tif": encoded(values(1).astype(np.float32) + 0.5, "TIFF"),
        "2.png": deep_png(alpha),
        "3.tif": encoded(deep(3) * np.int32(2), "TIFF"),
    }
    for name in bad:
        (tmp_path / f"in/masks/{name[0]}.png").unlink()
    jobs.write({f"masks/{name}": content for name, content in bad.items()})
    line = "images --input in/images --masks in/masks --max_reject_fraction 0.9"
    whole = "where a pixel's is a whole number from 0 to 65535"
    assert jobs.build(line, *DEEP).reasons == {
        "1.png": f"mask: a mask with the value 2.5, {whole}",
        "2.png": "mask: a png of 16 bits with colours or transparency: make it gray, of one channel",
        "3.png": f"mask: a mask with the value 131070, {whole}",
    }
    without = "a mask with the value 65535, where a pixel's is a whole number from 0 to 255; --mask_dtype uint16 takes"
    write_deep(tmp_path / "in", 5)
    for name in ("1.tif", "3.tif"):
        (tmp_path / "in/masks" / name).unlink()
    jobs.fail("images --input in/images --masks in/masks --output other", without)


def test_contact_sheets_draw_them(run: Run, made: tuple[Path, Path], tmp_path: Path) -> None:
    plain = make("images", made[0] / "images", tmp_path / "plain")
    sheets = []
    for directory in (made[1], plain):
        assert run("inspect", directory, "--contact_sheet", tmp_path / "sheet.png").status == 0
        sheets.append(np.asarray(Image.open(tmp_path / "sheet.png").convert("RGB")).astype(int))

    def has_red(pixels: np.ndarray) -> bool:
        return bool((np.abs(pixels - COLOURS[1].astype(int)).max(-1) < 3).any())

    assert has_red(sheets[1])
    assert not has_red(sheets[0])  # the mask lies over it


def test_columns_annotations_and_reuse_take_them(run: Run, tmp_path: Path) -> None:
    folder = write_deep(tmp_path / "in")
    rows = "".join(f"images/{n}.png,masks/{n}.png\n" for n in range(6))
    (folder / "m.csv").write_text(f"file_name,depth\n{rows}")
    directory = make("images", None, tmp_path, "--manifest", folder / "m.csv", "--mask_column", "depth", *DEEP)
    for name, example in by_name(directory).items():
        np.testing.assert_array_equal(example["depth"][..., 0], deep(int(Path(name).stem)))

    drawn = scenes(6)
    coco = write_coco(tmp_path / "coco", drawn)
    for scene in drawn:
        write_files(tmp_path / "coco", {f"masks/{scene.name}": encoded(mask_of(scene).astype(np.uint16) * 300)})
    flags = ("--coco", coco, "--masks", tmp_path / "coco/masks", "--name", "n", *DEEP)
    for output, version, more in (
        ("a", "1.0.0", ("--reuse", "record")),
        ("a", "1.0.1", ("--reuse", "LATEST")),
        ("b", "1.0.1", ()),
    ):
        done = run("images", *flags, "--output", tmp_path / output, "--version", version, *more)
        assert done.status == 0, done.err
    assert tree_bytes(tmp_path / "a/n/1.0.1") == tree_bytes(tmp_path / "b/n/1.0.1")
    for name, example in by_name(tmp_path / "a/n").items():
        (scene,) = [scene for scene in drawn if scene.name == name]
        np.testing.assert_array_equal(example["mask"][..., 0], mask_of(scene).astype(np.uint16) * 300)
