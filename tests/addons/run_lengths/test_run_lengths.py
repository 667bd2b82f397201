"""Masks drawn from CSV files of run lengths, and from the polygons and run lengths of COCO."""

import json
from typing import Any

import numpy as np
import pytest
from pycocotools.coco import COCO

from tests.addons.run_lengths.test_drawing import coco_counts, kaggle_encode, polygon
from tests.support.archives import zipped
from tests.support.command import Run
from tests.support.jobs import Built, Jobs
from tests.support.masks import encoded, picture, values

NUMBERS = range(4)
DRAWN = {f"{number}.png": values(number, (16 + number, 12)) for number in NUMBERS} | {
    "9.png": np.zeros((12, 16), np.uint8)  # an image without objects
}
PICTURES = {f"images/{name}": picture(mask) for name, mask in DRAWN.items()}


def rows(*forms: str) -> str:
    """A CSV file with a row in each form for each image and class; the first form is the header."""
    header, form = forms
    lines = [
        form.format(
            name=name, stem=name[0], id=value, word=("ant", "bee")[value - 1], runs=kaggle_encode(mask == value)
        )
        for name, mask in DRAWN.items()
        for value in (1, 2)
    ]
    return "\n".join([header, *lines]) + "\n"


TABLES = {
    "Airbus": (rows("ImageId,EncodedPixels", "{name},{runs}"), [0, 1]),
    "Severstal": (rows("ImageId,ClassId,EncodedPixels", "{name},{id},{runs}"), [0, 1, 2]),
    "Severstal, at first": (rows("ImageId_ClassId,EncodedPixels", "{name}_{id},{runs}"), [0, 1, 2]),
    "clouds": (rows("Image_Label,EncodedPixels", "{name}_{word},{runs}"), [0, 1, 2]),
    "Data Science Bowl": (rows("ImageId,EncodedPixels", "{stem},{runs}"), [0, 1]),
    "-1 for nothing": (rows("image_id,rle", "{name},{runs}").replace(",\n", ",-1\n"), [0, 1]),
}
RUNS = "images --input in/images --run_lengths in/train.csv"


def masks_of(built: Built) -> dict[str, np.ndarray]:
    found = built.examples(decode_images=True)
    return {one["filename"].decode().rpartition("/")[2]: one["mask"][..., 0] for one in found}


@pytest.mark.parametrize("case", TABLES)
def test_rows_of_run_lengths_are_drawn_in_one_mask(jobs: Jobs, case: str) -> None:
    text, found = TABLES[case]
    built = jobs.build(RUNS, files={**PICTURES, "train.csv": text})

    assert masks_of(built).keys() == DRAWN.keys()
    for name, mask in masks_of(built).items():
        np.testing.assert_array_equal(mask, DRAWN[name] if 2 in found else np.minimum(DRAWN[name], 1))
    (feature,) = (one for one in built.manifest.features if one.name == "mask")
    names = ("", "ant", "bee") if case == "clouds" else ("", "1", "2")
    assert feature.class_names == (names if 2 in found else ())
    assert "run lengths number the pixels of a mask down its columns" in built.notices[0]


def test_flags_decide_how_run_lengths_are_read(jobs: Jobs) -> None:
    turned = {name: mask.T for name, mask in DRAWN.items()}
    files = {f"images/{name}": picture(mask) for name, mask in turned.items()}
    text = TABLES["Severstal"][0]
    flags = "--run_order rows --mask_values classes+1 --mask_dtype uint16"
    built = jobs.build(f"{RUNS} {flags}", files={**files, "train.csv": text})

    for name, mask in masks_of(built).items():
        assert mask.dtype == np.uint16
        np.testing.assert_array_equal(mask, np.where(turned[name] > 0, turned[name] + 1, 0))
    assert not any("down its columns" in notice for notice in built.notices)
    assert "values of masks are classes of --run_lengths: 2 '1', 3 '2'; 0 is what is in no object" in built.notices


def test_an_image_without_a_row_is_a_reject_or_has_an_empty_mask(jobs: Jobs) -> None:
    text = "ImageId,EncodedPixels\n0.png,1 2\n1.png,\n2.png,1 2 2 2\n3.png,1 2\n7.png,1 2\n"
    built = jobs.build(f"{RUNS} --max_reject_fraction 0.5", files={**PICTURES, "train.csv": text})
    filled = jobs.build(f"{RUNS} --unlisted_masks empty --max_reject_fraction 0.5 --name filled")

    assert built.reasons["9.png"].endswith("if that means that nothing is there, give --unlisted_masks empty")
    assert "do not ascend" in built.reasons["2.png"]
    assert not masks_of(filled)["9.png"].any()
    assert "1 image is in --run_lengths in/train.csv alone: '7.png'" in filled.notices


def test_starts_that_are_relative_stop_the_job_and_absolute_ones_are_read(jobs: Jobs) -> None:
    relative = "ImageId, EncodedPixels\n0.png,20 2 3 2\n1.png,10 2 10 2 4 1\n2.png,17 3\n3.png, -1\n9.png, -1\n"
    sentence = "in/train.csv: starts do not ascend in 2 rows, as in '0.png': if they are relative to the run before"
    jobs.refuse(RUNS, sentence, files={**PICTURES, "train.csv": relative})
    absolute = relative.replace("20 2 3 2", "21 2 25 2").replace("10 2 10 2 4 1", "11 2 22 2 28 1")
    built = jobs.build(RUNS, files={"train.csv": absolute})
    assert {name: int(mask.sum()) for name, mask in masks_of(built).items()} == {
        **{"0.png": 4, "1.png": 5, "2.png": 3, "3.png": 0, "9.png": 0}
    }


def test_a_night_after_the_table_changed_draws_the_masks_anew(jobs: Jobs, run: Run) -> None:
    table, recipe = TABLES["Severstal"][0], "images:\n  input: in/images\n  run_lengths: in/train.csv\n"
    jobs.write({**PICTURES, "train.csv": table, "../n.yaml": f"name: n\noutput: out\n{recipe}"})
    for version, pixels, rows_of in (("1.0.0", 0, table), ("1.0.1", 3, table.replace("9.png,1,", "9.png,1,1 3"))):
        jobs.write({"train.csv": rows_of})
        result = run("rebuild", "n.yaml")
        assert result.status == 0, result.err
        assert (jobs.folder / "out/n" / version).exists(), result.out + result.err
        assert masks_of(Built(jobs.folder / "out/n" / version))["9.png"].sum() == pixels


def test_a_turn_that_run_lengths_do_not_tell_is_a_reject(jobs: Jobs) -> None:
    mask = values(1)
    table = f"ImageId,rle\n1.png,{kaggle_encode(mask > 0)}\n"
    files = {"images/1.png": picture(mask, orientation=6), "train.csv": table}
    jobs.fail(RUNS, "give --masks_seen upright if they are, else stored", files=files)
    found = masks_of(jobs.build(f"{RUNS} --masks_seen stored"))

    np.testing.assert_array_equal(found["1.png"], mask > 0)


@pytest.fixture
def coco() -> dict[str, Any]:
    random = np.random.default_rng(3)
    images, annotations = list[Any](), list[Any]()
    for number, (name, mask) in enumerate(DRAWN.items(), 1):
        height, width = mask.shape
        images.append({"id": number, "file_name": name, "width": width, "height": height})
        for category in (3, 8) if name != "9.png" else ():
            shape: Any = [polygon("whole", random, width, height)]
            if category == 8:
                shape = {"size": [height, width], "counts": coco_counts(mask)}
            box = {"bbox": [1, 1, 5, 5], "area": 9, "iscrowd": 0, "image_id": number, "category_id": category}
            annotations.append({"id": len(annotations) + 1, "segmentation": shape} | box)
    categories = [{"id": 3, "name": "ant"}, {"id": 8, "name": "bee"}, {"id": 0, "name": "unused"}]
    return {"images": images, "annotations": annotations, "categories": categories}


COCO_RUNS = "images --coco in/images/a.json --masks_of coco"


def test_the_shapes_of_coco_are_drawn(jobs: Jobs, coco: dict[str, Any]) -> None:
    built = jobs.build(COCO_RUNS, files={**PICTURES, "images/a.json": json.dumps(coco)})
    numbered = jobs.build(f"{COCO_RUNS} --mask_values instances --name numbered")

    read = COCO(str(jobs.folder / "in/images/a.json"))
    for name, mask in masks_of(built).items():
        (image,) = (one for one in read.imgs.values() if one["file_name"] == name)
        expected, instances = np.zeros_like(mask), np.zeros_like(mask)
        for place, one in enumerate(read.loadAnns(read.getAnnIds(image["id"])), 1):
            expected[read.annToMask(one) > 0], instances[read.annToMask(one) > 0] = one["category_id"], place
        np.testing.assert_array_equal(mask, expected)
        np.testing.assert_array_equal(masks_of(numbered)[name], instances)
    (feature,) = (one for one in built.manifest.features if one.name == "mask")
    assert dict(enumerate(feature.class_names)) == dict.fromkeys(range(9), "") | {3: "ant", 8: "bee"}
    assert "a value of a mask is the id of its category, and 0 without object" in built.notices
    overlaps = "objects of other values that overlap; the later one covers the earlier, the first of '1.png'"
    assert any(overlaps in each for each in built.notices)


def test_an_object_without_a_shape_makes_its_image_a_reject(jobs: Jobs, coco: dict[str, Any]) -> None:
    coco["annotations"][0]["segmentation"] = []
    files = {**PICTURES, "images/a.json": json.dumps(coco)}
    built = jobs.build(f"{COCO_RUNS} --max_reject_fraction 0.5", files=files)

    assert built.file_reasons == {"0.png": "annotation 1 has [] for segmentation; no mask is drawn"}


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        ("--input in/images --masks_of coco", "--masks_of coco needs --coco"),
        ("--input in/images --mask_values instances", "--mask_values instances needs --run_lengths or --masks_of"),
        (f"{RUNS[7:]} --masks in/masks", "--run_lengths in/train.csv both give masks; leave one of them out"),
        (f"{RUNS[7:]} --verify none", "--verify none contradicts --run_lengths in/train.csv"),
        (f"{RUNS[7:]} --mask_colors in/c.csv", "--mask_colors is about the masks of --masks or --mask_column"),
        ("--input in/images --run_lengths in/c.csv", "in/c.csv: no column of the image: it has"),
        ("--input in/images --run_lengths in/other.csv", "none of the images is in it; it has 'x.png'"),
    ],
)
def test_flags_without_an_effect_are_mistakes(jobs: Jobs, flags: str, sentence: str) -> None:
    tables = {
        "train.csv": TABLES["Airbus"][0],
        "c.csv": "name,r,g,b\nant,1,2,3\n",
        "other.csv": "ImageId,rle\nx.png,1 2\n",
        "masks/0.png": encoded(values(0)),
    }
    jobs.refuse(f"images {flags}", sentence, files=PICTURES | tables)


def test_a_table_among_the_images_is_read_by_the_flag_that_the_message_names(jobs: Jobs) -> None:
    table = TABLES["Severstal, at first"][0]
    archive = zipped({**{key.removeprefix("images/"): of for key, of in PICTURES.items()}, "train.csv": table.encode()})
    jobs.write({**PICTURES, "train.csv": table, "../a.zip": archive})
    for root, path in (("in", "in/train.csv"), ("a.zip", "zip://a.zip/train.csv")):
        jobs.refuse(f"images --input {root}", f"give --run_lengths {path};")
        built = jobs.build(f"images --input {root} --run_lengths {path} --name n{len(root)}")
        np.testing.assert_array_equal(masks_of(built)["0.png"], DRAWN["0.png"])
