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
from tests.support.masks import COLOURS, deep_png, encoded, picture, values
from tests.support.reading import make

tf = Later("tensorflow")
tfds = Later("tensorflow_datasets")
LEVELS = np.array([0, 300, 65535], np.uint16)  # by the value of the mask of 8 bits


def deep(number: int) -> np.ndarray:
    return LEVELS[values(number)]


PAIRS = {
    name: data
    for n in range(6)
    for name, data in ((f"images/{n}.png", picture(values(n))), (f"masks/{n}.png", encoded(deep(n))))
}
LINE = "images --input in/images --masks in/masks"


def by_name(directory: Path) -> dict[str, dict[str, Any]]:
    found = shardmill.examples(directory, "train", decode_images=True)
    return {example["filename"].decode(): example for example in found}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = write_files(tmp_path_factory.mktemp("deep"), PAIRS)
    flags = ("--masks", folder / "masks", "--mask_dtype", "uint16")
    return make("images", folder / "images", folder / "out", *flags)


@pytest.mark.slow
def test_tfds_reads_every_value(made: Path) -> None:
    builder = tfds.builder_from_directory(str(made))
    feature = builder.info.features["mask"]
    found = list(tfds.as_numpy(builder.as_dataset(split="train")))

    assert (type(feature).__name__, feature.shape, feature.dtype) == ("Image", (None, None, 1), np.uint16)
    assert len(found) == 6
    for example in found:
        number = int(example["filename"].decode().removesuffix(".png"))
        assert example["mask"].dtype == np.uint16
        np.testing.assert_array_equal(example["mask"][..., 0], deep(number))


def test_bytes_and_descriptions(run: Run, made: Path) -> None:
    for example in shardmill.examples(made, "train"):
        assert example["mask"] == PAIRS[f"masks/{example['filename'].decode()}"]
    for name, example in by_name(made).items():
        np.testing.assert_array_equal(example["mask"][..., 0], deep(int(name[0])))
        assert example["mask"].dtype == np.uint16
    (mask,) = [item for item in from_pbtxt((made / "schema.pbtxt").read_text()) if item.name == "mask"]
    stats = json.loads((made / "stats.json").read_text())["splits"]["train"]["features"]["mask"]
    assert (mask.kind, mask.element, mask.shape) == ("mask", "uint16", ())
    assert stats["formats"] == {"png": 6}
    assert "a value from 0 to 65535 a pixel" in run("inspect", made).out
    assert run("verify", made, "--decode").status == 0


@pytest.mark.slow
def test_load_gives_every_value_scaled_by_the_nearest_pixel(made: Path) -> None:
    for features, mask in shardmill.load(made, image_dtype="uint8"):
        assert mask.dtype == tf.uint16
        places = np.searchsorted(LEVELS, mask.numpy()[..., 0])
        np.testing.assert_array_equal(LEVELS[places], mask.numpy()[..., 0])
        np.testing.assert_array_equal(features, COLOURS[places])
    ((_, masks),) = list(shardmill.load(made, batch_size=6, image_size=(24, 32), augment=lambda given: given))
    assert (masks.shape, masks.dtype) == ((6, 24, 32, 1), tf.uint16)
    assert set(np.unique(masks)) == set(LEVELS.tolist())


@pytest.mark.parametrize(("mode", "orientation"), [("exact", 1), ("cover", 5), ("contain", 6)])
def test_they_are_resized_and_turned_as_masks_of_8_bits_are(jobs: Jobs, mode: str, orientation: int) -> None:
    flags = f"--resize 40x30 --resize_mode {mode} --image_format png --masks_seen stored --overwrite"
    jobs.write({"images/1.png": picture(values(3), orientation), "masks/1.png": encoded(values(3))})
    shallow = by_name(jobs.build(f"{LINE} {flags}").directory)["1.png"]["mask"]
    jobs.write({"masks/1.png": encoded(deep(3))})
    of_16 = by_name(jobs.build(f"{LINE} {flags} --mask_dtype uint16").directory)["1.png"]["mask"]
    assert (of_16.shape, of_16.dtype) == ((30, 40, 1), np.uint16)
    np.testing.assert_array_equal(of_16, LEVELS[shallow])
    assert set(np.unique(of_16)) == set(LEVELS.tolist())


def test_they_are_turned_where_images_are_stored_as_they_are(jobs: Jobs) -> None:
    turned = ImageOps.exif_transpose(Image.open(io.BytesIO(encoded(values(2), orientation=6))))
    files = {"images/1.png": picture(values(2), 6), "masks/1.png": encoded(LEVELS[np.asarray(turned)])}
    example = by_name(jobs.build(f"{LINE} --mask_dtype uint16", files=files).directory)["1.png"]
    np.testing.assert_array_equal(example["mask"][..., 0], deep(2))


def test_what_no_mask_holds_is_a_reject(jobs: Jobs) -> None:
    alpha = np.broadcast_to(np.array([0x0102, 0xFFFF], np.uint16), (12, 16, 2))  # Pillow reads the upper 8 bits alone
    files = PAIRS | {
        "masks/1.tif": encoded(values(1).astype(np.float32) + 0.5, "TIFF"),
        "masks/2.png": deep_png(alpha),
        "masks/3.tif": encoded(deep(3) * np.int32(2), "TIFF"),
    }
    for number in (1, 3):
        del files[f"masks/{number}.png"]
    whole = "where a pixel's is a whole number from 0 to 65535"
    line = f"{LINE} --max_reject_fraction 0.9"
    assert jobs.build(f"{line} --mask_dtype uint16", files=files).reasons == {
        "1.png": f"mask: a mask with the value 2.5, {whole}",
        "2.png": "mask: a png of 16 bits with colours or transparency: make it gray, of one channel",
        "3.png": f"mask: a mask with the value 131070, {whole}",
    }


def test_columns_annotations_and_reuse_take_them(jobs: Jobs, tmp_path: Path) -> None:
    table = "".join(f"images/{n}.png,masks/{n}.png\n" for n in range(6))
    line = "images --manifest in/m.csv --mask_column depth --mask_dtype uint16"
    made = jobs.build(line, files={**PAIRS, "m.csv": f"file_name,depth\n{table}"})
    for name, example in by_name(made.directory).items():
        np.testing.assert_array_equal(example["depth"][..., 0], deep(int(Path(name).stem)))

    drawn = scenes(6)
    write_coco(tmp_path / "coco", drawn)
    masks = {scene.name: mask_of(scene).astype(np.uint16) * 300 for scene in drawn}
    jobs.write({f"../coco/masks/{name}": encoded(mask) for name, mask in masks.items()})
    line = "images --coco coco/instances.json --masks coco/masks --mask_dtype uint16"
    jobs.build(f"{line} --output a --reuse record")
    again = jobs.build(f"{line} --output a --reuse LATEST --version 1.0.1").directory
    fresh = jobs.build(f"{line} --output b --version 1.0.1").directory
    assert tree_bytes(again) == tree_bytes(fresh)
    for name, example in by_name(again).items():
        np.testing.assert_array_equal(example["mask"][..., 0], masks[name])
