"""Where the images of a COCO file are looked for, on disks and in buckets."""

import pytest

from shardmill.errors import UserError
from shardmill.transforms.inputs.coco import CocoSource, coco_root


@pytest.mark.parametrize(
    ("files", "root"),
    [
        (["coco/annotations/instances_train2017.json", "coco/annotations/instances_val2017.json"], "coco"),
        (["train/_annotations.coco.json", "valid/_annotations.coco.json"], "."),
        (["/data/a/train/x.json", "/data/a/valid/x.json"], "/data/a"),
        (["annotations/a.json"], "."),
        (["a.json"], "."),
        (["gs://b/coco/annotations/a.json"], "gs://b/coco"),
        (["s3://b/coco/train/a.json", "s3://b/coco/valid/a.json"], "s3://b/coco"),
    ],
)
def test_the_folder_that_all_images_lie_below(files: list[str], root: str) -> None:
    assert coco_root(files) == root


@pytest.mark.parametrize("files", [["gs://b/a/x.json", "s3://b/a/y.json"], ["/a/x.json", "a/y.json"]])
def test_there_may_be_none(files: list[str]) -> None:
    with pytest.raises(UserError, match="give --input"):
        coco_root(files)


@pytest.mark.parametrize(
    ("file", "root", "given", "file_root", "first"),
    [
        ("coco/annotations/instances_train2017.json", "coco", False, "", ["annotations", "annotations/train2017"]),
        (
            "coco/annotations/person_keypoints_train2017.json",
            "coco",
            False,
            "",
            ["annotations", "annotations/keypoints_train2017", "annotations/train2017"],
        ),
        ("coco/annotations/instances_train2017.json", "coco", False, "../photos", ["photos"]),
        ("gs://b/coco/annotations/a.json", "gs://b/coco", False, "../photos", ["photos"]),
        ("elsewhere/a_x.json", "photos", True, "", ["", "x"]),
        ("train/_annotations.coco.json", ".", False, "", ["train", "train/annotations.coco"]),
    ],
)
def test_the_folders_that_are_looked_in(file: str, root: str, given: bool, file_root: str, first: list[str]) -> None:
    found = CocoSource((("", file),), root, given, file_root)._folders("", file)
    assert found[: len(first)] == first


def test_a_folder_elsewhere_is_a_mistake() -> None:
    with pytest.raises(UserError, match="does not lie in coco/annotations"):
        CocoSource((("", "a.json"),), "coco/annotations", False, "../photos")._folders("", "coco/annotations/a.json")
