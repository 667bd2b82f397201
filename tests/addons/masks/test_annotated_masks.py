"""Masks of images that COCO's, Pascal VOC's or YOLO's files annotate: image, objects and mask in one example."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardmill
from shardmill.metadata.schema import from_pbtxt
from tests.support import detection
from tests.support.command import LONG_AGO, Run, age, read_back, tree_bytes, write_old_files
from tests.support.jobs import Jobs
from tests.support.later import Later
from tests.support.masks import encoded
from tests.support.reading import make

tf = Later("tensorflow")
tfds = Later("tensorflow_datasets")
SCENES = detection.scenes(12)
_PIXELS = np.array([(128, 128, 128), *detection.COLOURS.values()], np.uint8)  # by the value of the mask


def of_coco(folder: Path) -> list[object]:
    return ["--coco", detection.write_coco(folder, SCENES, "annotations/instances_train2017.json", "train2017")]


def of_voc(folder: Path) -> list[object]:
    return ["--voc", detection.write_voc(folder / "VOC", {"train": SCENES})]


def of_yolo(folder: Path) -> list[object]:
    return ["--yolo", detection.write_yolo(folder, {"train": SCENES})]


def drawn_boxes(example: dict[str, Any], names: Sequence[str]) -> np.ndarray:
    """The mask that an example's boxes make, the colours of `names` by the ids of labels."""
    height, width = example["mask"].shape[:2]
    expected = np.zeros((height, width), np.uint8)
    for box, label in zip(example["objects/bbox"], example["objects/label"], strict=True):
        top, left, bottom, right = np.round(box * [height, width, height, width]).astype(int)
        expected[top:bottom, left:right] = detection.MASK_VALUES[names[label]]
    return expected


def check(example: dict[str, Any], names: Sequence[str]) -> None:
    """Check that the picture, its mask and its boxes show the same things."""
    example = {**example, **{f"objects/{name}": values for name, values in example.get("objects", {}).items()}}
    np.testing.assert_array_equal(example["image"], _PIXELS[example["mask"][..., 0]])
    np.testing.assert_array_equal(example["mask"][..., 0], drawn_boxes(example, names))


@pytest.mark.slow
@pytest.mark.parametrize("write", [of_coco, of_voc, of_yolo])
@pytest.mark.parametrize("where", ["as images", "flat"])
def test_tfds_reads_image_objects_and_mask(tmp_path: Path, write: Callable[[Path], list[object]], where: str) -> None:
    flags = write(tmp_path)
    inner = {"of_coco": "train2017", "of_voc": "JPEGImages", "of_yolo": "train"}[write.__name__]
    detection.write_masks(tmp_path / "masks" / (inner if where == "as images" else ""), SCENES)

    directory = make("images", None, tmp_path / "out", *flags, "--masks", tmp_path / "masks", "--num_shards", 2)
    builder = tfds.builder_from_directory(str(directory))
    found = list(tfds.as_numpy(builder.as_dataset(split="train")))

    assert len(found) == len(SCENES)
    for example in found:
        check(example, builder.info.features["objects"]["label"].names)
    kinds = {feature.name: feature.kind for feature in from_pbtxt((directory / "schema.pbtxt").read_text())}
    assert (kinds["image"], kinds["mask"], kinds["objects/bbox"]) == ("image", "mask", "bbox")
    stats = json.loads((directory / "stats.json").read_text())["splits"]["train"]["features"]
    assert stats["mask"]["formats"] == {"png": len(SCENES)}
    assert sum(stats["objects/label"]["classes"].values()) == sum(len(scene.things) for scene in SCENES)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[object]]:
    """A folder of annotated images with masks, and the flags that name them."""
    folder = tmp_path_factory.mktemp("coco")
    masks = detection.write_masks(folder / "masks", SCENES)
    return folder, [*of_coco(folder), "--masks", masks]


@pytest.mark.slow
def test_load_gives_and_augments_image_boxes_and_mask(made: tuple[Path, list[object]], tmp_path: Path) -> None:
    directory = make("images", None, tmp_path, *made[1])

    def mirrored(features: dict[str, Any]) -> dict[str, Any]:
        top, left, bottom, right = tf.unstack(features["objects/bbox"], axis=-1)
        boxes = tf.stack([top, 1 - right, bottom, 1 - left], -1)
        pixels = {name: features[name][:, ::-1] for name in ("image", "mask")}
        return {**features, **pixels, "objects/bbox": boxes}

    for augment in (None, mirrored):
        found = shardmill.load(directory, augment=augment, image_dtype="uint8")
        for features, mask in found:
            check({name: value.numpy() for name, value in {**features, "mask": mask}.items()}, list(detection.COLOURS))
    (batch,) = list(shardmill.load(directory, batch_size=len(SCENES), image_size=(24, 32), pad=True))
    features, masks = batch
    assert masks.shape == (len(SCENES), 24, 32, 1)
    assert features["objects/bbox"].shape[::2] == (len(SCENES), 4)


def test_keys_of_the_object_detection_api_have_a_mask_beside(made: tuple[Path, list[object]], tmp_path: Path) -> None:
    directory = make("images", None, tmp_path, *made[1], "--feature_names", "object_detection")

    for example in shardmill.examples(directory, "train"):
        scene = next(scene for scene in SCENES if example["image/filename"].decode().endswith(scene.name))
        assert example["mask"] == encoded(detection.mask_of(scene))
        assert len(example["image/object/class/label"]) == len(scene.things)


def test_lists_of_vocs_segmentation_are_the_splits_of_images_with_masks(tmp_path: Path) -> None:
    folder = detection.write_voc(tmp_path / "VOC", {"train": SCENES[:8], "val": SCENES[8:]})
    detection.write_masks(folder / "SegmentationClass", SCENES[4:10])
    (folder / "ImageSets/Segmentation").mkdir()
    for split, drawn in (("train", SCENES[4:7]), ("val", SCENES[7:10])):
        names = "".join(f"{Path(scene.name).stem}\n" for scene in drawn)
        (folder / f"ImageSets/Segmentation/{split}.txt").write_text(names)

    directory = make("images", None, tmp_path / "out", "--voc", folder, "--masks", folder / "SegmentationClass")

    for split, drawn in (("train", SCENES[4:7]), ("validation", SCENES[7:10])):
        found = {example["filename"].decode() for example in shardmill.examples(directory, split)}
        assert found == {f"JPEGImages/{scene.name}" for scene in drawn}
    said = "passed over 6 annotations without a place in ImageSets/Segmentation, such as 'Annotations/000.xml'"
    assert said in read_back(tmp_path / "out/n").dataset.manifest.notices


@pytest.mark.parametrize("images", ["photos", "", "masked"])
def test_masks_below_vocs_folder_are_no_images(tmp_path: Path, images: str) -> None:
    folder = detection.write_voc(tmp_path / "VOC", {"train": SCENES})
    (folder / "JPEGImages").rename(folder / (images or "Annotations/in"))
    masks = detection.write_masks(folder / "mask", SCENES)

    directory = make("images", None, tmp_path / "out", "--voc", folder, "--masks", f"{masks}/")

    assert sum(1 for _ in shardmill.examples(directory, "train")) == len(SCENES)


def test_mistakes_are_one_sentence(jobs: Jobs, tmp_path: Path) -> None:
    detection.write_yolo(tmp_path, {"train": SCENES[:2], "val": [detection.Scene(SCENES[0].name, SCENES[0].size)]})
    detection.write_masks(tmp_path / "one", SCENES[:2])
    jobs.write({"../other/x.png": encoded(detection.mask_of(SCENES[0]))})
    for flags, sentence in {
        "--masks one": "'000.png' would be the mask of 'images/val/000.png' and of an image in another folder…"
        "'images/val/000'",
        "--masks other": "none of the images has a mask there…the mask of 'images/train/000.png' must be named '000'",
        "--mask_column m": "--mask_column m is about a --manifest; of the images of --yolo…--masks is the folder of",
    }.items():
        jobs.refuse(f"images --yolo data.yaml {flags}", sentence)


def test_reuse_and_rebuilds_see_a_mask_change(run: Run, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    flag, source = of_coco(tmp_path / "in")
    masks = detection.write_masks(tmp_path / "masks", SCENES)
    age(tmp_path)
    command = ("images", flag, source, "--masks", masks, "--name", "n", "--num_shards", 3)
    recipe = f"name: n\noutput: {tmp_path}/nights\nimages: {{{str(flag)[2:]}: {source}, masks: {masks}}}\n"
    (tmp_path / "n.yaml").write_text(recipe)

    assert run(*command, "--output", tmp_path / "out", "--reuse", "record").status == 0
    assert "1.0.0" in run("rebuild", tmp_path / "n.yaml").out
    assert "unchanged" in run("rebuild", tmp_path / "n.yaml").out
    write_old_files(masks, {SCENES[5].name: encoded(detection.mask_of(SCENES[5])[::-1])}, LONG_AGO + 1)
    again = run(*command, "--output", tmp_path / "out", "--reuse", "LATEST", "--version", "1.0.1")
    assert run(*command, "--output", tmp_path / "full", "--version", "1.0.1").status == 0

    assert "11 of 12 files taken from 1.0.0, the others read" in again.out
    assert tree_bytes(tmp_path / "out/n/1.0.1") == tree_bytes(tmp_path / "full/n/1.0.1")
    assert "unchanged" not in run("rebuild", tmp_path / "n.yaml").out
    assert (tmp_path / "nights/n/1.0.1/_SUCCESS").exists()


def test_images_without_a_mask_are_counted_together_where_no_list_says_which_have_one(
    jobs: Jobs, tmp_path: Path
) -> None:
    folder = detection.write_voc(tmp_path / "VOC", {"train": SCENES[:8], "val": SCENES[8:]})
    detection.write_masks(folder / "SegmentationClass", SCENES[4:10])
    line = "images --voc VOC --masks VOC/SegmentationClass"
    said = "no mask: VOC/SegmentationClass has none that is called as the image is, but for the suffix"
    jobs.fail(line, f"6 of 12 records were rejected…most often (6 times): {said}, such as")
    made = jobs.build(f"{line} --max_reject_fraction 0.5")
    assert f"  6 x {said}\n" in made.said
    assert set(made.file_reasons) == {f"JPEGImages/{scene.name}" for scene in (*SCENES[:4], *SCENES[10:])}
