"""Masks of images that COCO's, Pascal VOC's or YOLO's files annotate: image, objects and mask in one example."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps

import shardmill
from shardmill.metadata.schema import from_pbtxt
from tests.support.command import Run, check_failure, check_mistake, read_back, tree_bytes
from tests.support.detection import (
    COLOURS,
    MASK_VALUES,
    Scene,
    Thing,
    coco_of,
    draw,
    mask_of,
    scenes,
    write_coco,
    write_masks,
    write_voc,
    write_yolo,
)
from tests.support.later import Later
from tests.support.masks import encoded
from tests.support.reading import make

tf = Later("tensorflow")
tfds = Later("tensorflow_datasets")
SCENES = scenes(12)
_PIXELS = np.array([(128, 128, 128), *COLOURS.values()], np.uint8)  # by the value of the mask
OLD = 10**18  # nanoseconds since 1970: files that cannot change again in the same moment


def of_coco(folder: Path) -> list[object]:
    return ["--coco", write_coco(folder, SCENES, "annotations/instances_train2017.json", "train2017")]


def of_voc(folder: Path) -> list[object]:
    return ["--voc", write_voc(folder / "VOC", {"train": SCENES})]


def of_yolo(folder: Path) -> list[object]:
    return ["--yolo", write_yolo(folder, {"train": SCENES})]


def check(example: dict[str, Any], names: Sequence[str]) -> None:
    """That the picture, its mask and its boxes show the same things, the colours of `names` by the ids of labels."""
    mask, objects = example["mask"][..., 0], example["objects"]
    height, width = mask.shape
    np.testing.assert_array_equal(example["image"], _PIXELS[mask])
    expected = np.zeros_like(mask)
    for box, label in zip(objects["bbox"], objects["label"], strict=True):
        top, left, bottom, right = np.round(box * [height, width, height, width])
        expected[int(top) : int(bottom), int(left) : int(right)] = MASK_VALUES[names[label]]
    np.testing.assert_array_equal(mask, expected)


@pytest.mark.parametrize("write", [of_coco, of_voc, of_yolo])
@pytest.mark.parametrize("where", ["as images", "flat"])
def test_tfds_reads_image_objects_and_mask(tmp_path: Path, write: Callable[[Path], list[object]], where: str) -> None:
    flags = write(tmp_path)
    inner = {"of_coco": "train2017", "of_voc": "JPEGImages", "of_yolo": "train"}[write.__name__]
    write_masks(tmp_path / "masks" / (inner if where == "as images" else ""), SCENES)

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
    masks = write_masks(folder / "masks", SCENES)
    return folder, [*of_coco(folder), "--masks", masks]


@pytest.mark.parametrize("mode", ["exact", "cover", "contain"])
def test_resized_images_boxes_and_masks_lie_alike(made: tuple[Path, list[object]], tmp_path: Path, mode: str) -> None:
    flags = (*made[1], "--resize", "96x60", "--resize_mode", mode, "--image_format", "png")
    examples = list(shardmill.examples(make("images", None, tmp_path, *flags), "train", decode_images=True))

    assert len(examples) == len(SCENES)
    for example in examples:
        mask = example["mask"][..., 0]
        assert mask.shape == (60, 96)
        names = list(COLOURS)
        inside = np.zeros_like(mask)
        for box, label in zip(example["objects/bbox"], example["objects/label"], strict=True):
            top, left, bottom, right = box * [60, 96, 60, 96]
            inside[round(top) : round(bottom), round(left) : round(right)] = MASK_VALUES[names[label]]
        assert (inside == mask).mean() > 0.95  # but for edges between two pixels
        assert set(np.unique(mask)) <= {0, 1, 2, 3}


@pytest.mark.parametrize("orientation", [3, 6])
@pytest.mark.parametrize("seen", ["stored", "upright"])
def test_masks_and_boxes_turn_with_images_that_exif_turns(tmp_path: Path, orientation: int, seen: str) -> None:
    stored = Scene("a.png", (64, 48), (Thing("red", (2, 4, 20, 10)), Thing("blue", (30, 20, 9, 25))), orientation)
    draw(stored, tmp_path)
    lies = Scene("a.png", stored.size, stored.things)
    mask = mask_of(stored)
    if seen == "upright":
        with Image.open(tmp_path / "a.png") as image:
            turned = ImageOps.exif_transpose(image)
        mask = np.array([[int((pixel == _PIXELS).all(-1).argmax()) for pixel in row] for row in np.asarray(turned)])
        things = []
        for thing in stored.things:
            rows, columns = np.nonzero(mask == MASK_VALUES[thing.colour])
            left, top = int(columns.min()), int(rows.min())
            things.append(Thing(thing.colour, (left, top, int(columns.max()) + 1 - left, int(rows.max()) + 1 - top)))
        lies = Scene("a.png", (mask.shape[1], mask.shape[0]), things)
    (tmp_path / "i.json").write_text(json.dumps(coco_of([lies])))
    (tmp_path / "masks").mkdir()
    (tmp_path / "masks/a.png").write_bytes(encoded(mask.astype(np.uint8)))

    flags = ("--coco", tmp_path / "i.json", "--masks", tmp_path / "masks", "--boxes_seen", seen, "--masks_seen", seen)
    for more in ((), ("--image_format", "png")):
        directory = make("images", None, tmp_path / f"out{len(more)}", *flags, *more)
        builder = tfds.builder_from_directory(str(directory))
        (example,) = tfds.as_numpy(builder.as_dataset(split="train"))
        check(example, list(COLOURS))


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
            objects = {name: features[f"objects/{name}"].numpy() for name in ("bbox", "label")}
            check({"image": features["image"].numpy(), "mask": mask.numpy(), "objects": objects}, list(COLOURS))
    (batch,) = list(shardmill.load(directory, batch_size=len(SCENES), image_size=(24, 32), pad=True))
    features, masks = batch
    assert masks.shape == (len(SCENES), 24, 32, 1)
    assert features["objects/bbox"].shape[::2] == (len(SCENES), 4)


def test_contact_sheets_show_boxes_and_masks(run: Run, made: tuple[Path, list[object]], tmp_path: Path) -> None:
    def sheet(*flags: object) -> np.ndarray:
        directory = make("images", None, tmp_path / str(len(flags)), *flags)
        assert run("inspect", directory, "--contact_sheet", tmp_path / "sheet.png").status == 0
        return np.asarray(Image.open(tmp_path / "sheet.png").convert("RGB")).astype(int)

    def has(pixels: np.ndarray, colour: tuple[int, ...]) -> bool:
        return bool((np.abs(pixels - colour).max(-1) < 4).any())

    with_masks, without = sheet(*made[1]), sheet(*made[1][:2])
    assert with_masks.shape == without.shape
    assert has(without, COLOURS["green"])
    assert not has(with_masks, COLOURS["green"])  # the masks lie over it
    assert "masks are the labels" not in run("inspect", tmp_path / "4").out


def test_keys_of_the_object_detection_api_have_a_mask_beside(made: tuple[Path, list[object]], tmp_path: Path) -> None:
    directory = make("images", None, tmp_path, *made[1], "--feature_names", "object_detection")

    for example in shardmill.examples(directory, "train"):
        scene = next(scene for scene in SCENES if example["image/filename"].decode().endswith(scene.name))
        assert example["mask"] == encoded(mask_of(scene))
        assert len(example["image/object/class/label"]) == len(scene.things)


def test_lists_of_vocs_segmentation_are_the_splits_of_images_with_masks(tmp_path: Path) -> None:
    folder = write_voc(tmp_path / "VOC", {"train": SCENES[:8], "val": SCENES[8:]})
    write_masks(folder / "SegmentationClass", SCENES[4:10])
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
    folder = write_voc(tmp_path / "VOC", {"train": SCENES})
    (folder / "JPEGImages").rename(folder / (images or "Annotations/in"))
    masks = write_masks(folder / "mask", SCENES)

    directory = make("images", None, tmp_path / "out", "--voc", folder, "--masks", f"{masks}/")

    assert sum(1 for _ in shardmill.examples(directory, "train")) == len(SCENES)


def test_what_has_no_counterpart_is_said(run: Run, tmp_path: Path) -> None:
    for number, write in enumerate((of_coco, of_voc, of_yolo)):
        folder = tmp_path / str(number)
        folder.mkdir()
        flags, masks = write(folder), write_masks(folder / "masks", SCENES)
        (masks / SCENES[3].name).rename(masks / "more.png")
        (masks / SCENES[4].name).write_bytes(encoded(np.zeros((5, 5), np.uint8)))
        where = ("--masks", masks, "--output", folder / "out", "--name", "n", "--max_reject_fraction", 0.5)

        result = run("images", *flags, *where)

        assert result.status == 0, result.err
        made = read_back(folder / "out/n")
        reasons = {Path(reject["source"]).name: reject["reason"] for reject in made.rejects()}
        missing = f"no mask: {masks} has none that is called as the image is, but for the suffix"
        assert reasons[SCENES[3].name] == missing
        assert reasons[SCENES[4].name].startswith("mask: a mask of 5 x 5 pixels, where the image has")
        assert len(reasons) == 2
        assert "1 mask has no image, and is left out: 'more.png'" in made.dataset.manifest.notices


def test_mistakes_are_one_sentence(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "yolo"
    file = write_yolo(folder, {"train": SCENES[:2], "val": [Scene(SCENES[0].name, SCENES[0].size)]})
    one, other = write_masks(tmp_path / "one", SCENES[:2]), tmp_path / "other"
    other.mkdir()
    (other / "x.png").write_bytes(encoded(mask_of(SCENES[0])))
    out = ("--output", tmp_path / "out", "--name", "n")

    said = ("'000.png' would be the mask of 'images/val/000.png' and of an image in another folder", "'images/val/000'")
    check_mistake(run("images", "--yolo", file, "--masks", one, *out), *said)
    said = ("none of the images has a mask there", "the mask of 'images/train/000.png' must be named '000'")
    check_mistake(run("images", "--yolo", file, "--masks", other, *out), *said)
    said = ("--mask_column m is about a --manifest; of the images of --yolo", "--masks is the folder of the masks")
    check_mistake(run("images", "--yolo", file, "--mask_column", "m", *out), *said)


def touched(folder: Path) -> None:
    for path in folder.rglob("*"):
        os.utime(path, ns=(OLD, OLD))


@pytest.mark.parametrize("write", [of_coco, of_voc])
def test_reuse_and_rebuilds_see_a_mask_change(run: Run, tmp_path: Path, write: Callable[[Path], list[object]]) -> None:
    (tmp_path / "in").mkdir()
    flag, source = write(tmp_path / "in")
    masks = write_masks(tmp_path / "masks", SCENES)
    touched(tmp_path)
    command = ("images", flag, source, "--masks", masks, "--name", "n", "--num_shards", 3)
    recipe = f"name: n\noutput: {tmp_path}/nights\nimages: {{{str(flag)[2:]}: {source}, masks: {masks}}}\n"
    (tmp_path / "n.yaml").write_text(recipe)

    assert run(*command, "--output", tmp_path / "out", "--reuse", "record").status == 0
    assert "1.0.0" in run("rebuild", tmp_path / "n.yaml").out
    assert "unchanged" in run("rebuild", tmp_path / "n.yaml").out
    (masks / SCENES[5].name).write_bytes(encoded(mask_of(SCENES[5])[::-1]))
    os.utime(masks / SCENES[5].name, ns=(OLD + 1, OLD + 1))
    again = run(*command, "--output", tmp_path / "out", "--reuse", "LATEST", "--version", "1.0.1")
    assert run(*command, "--output", tmp_path / "full", "--version", "1.0.1").status == 0

    assert "11 of 12 files taken from 1.0.0, the others read" in again.out
    assert tree_bytes(tmp_path / "out/n/1.0.1") == tree_bytes(tmp_path / "full/n/1.0.1")
    assert "unchanged" not in run("rebuild", tmp_path / "n.yaml").out
    assert (tmp_path / "nights/n/1.0.1/_SUCCESS").exists()


def test_images_without_a_mask_are_rejects_that_are_counted_together_where_no_list_says_which_have_one(
    run: Run, tmp_path: Path
) -> None:
    folder = write_voc(tmp_path / "VOC", {"train": SCENES[:8], "val": SCENES[8:]})
    masks = write_masks(folder / "SegmentationClass", SCENES[4:10])
    flags = ("images", "--voc", folder, "--masks", masks, "--output", tmp_path / "out", "--name", "n")

    said = f"no mask: {masks} has none that is called as the image is, but for the suffix"
    check_failure(run(*flags), "6 of 12 records were rejected", f"most often (6 times): {said}, such as")
    done = run(*flags, "--max_reject_fraction", 0.5)
    assert f"  6 x {said}\n" in done.out
    assert {reject["source"] for reject in read_back(tmp_path / "out/n").rejects()} == {
        f"JPEGImages/{scene.name}" for scene in (*SCENES[:4], *SCENES[10:])
    }
