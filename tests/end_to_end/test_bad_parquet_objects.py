"""Images with `objects` inside of Parquet that are no good: rejects with their reasons, and a user's mistakes."""

from pathlib import Path
from typing import Any

import numpy as np

import shardmill
from tests.support.detection import Scene, Thing
from tests.support.jobs import Jobs
from tests.support.later import Later
from tests.support.objects_in_tables import BOX, MOST, SCENES, said_of, write_parquet, write_raw

datasets = Later("datasets")
BAD: dict[str, tuple[Any, str]] = {
    "lengths": ({"bbox": BOX, "category": [0, 1]}, "column 'objects': lists of several lengths: 1 of bbox, 2 of cat"),
    "no class": ({"bbox": BOX, "category": None}, "column 'objects': category is null; expected a list"),
    "null class": ({"bbox": BOX, "category": [None]}, "column 'objects': object 1 has null for its class; expected an"),
    "three numbers": ({"bbox": [[1.0, 2.0, 3.0]], "category": [0]}, "object 1 has [1.0, 2.0, 3.0] for bbox; expected"),
    "below 0": ({"bbox": BOX, "category": [-1]}, "has -1 for its class; expected an id from 0"),
    "beyond": ({"bbox": BOX, "category": [3]}, "class '3' of an object is not in the metadata of --input"),
    "empty": ({"bbox": [[1.0, 2.0, 0.0, 4.0]], "category": [0]}, "object 1: the box from left, top to right, bottom"),
    "outside": ({"bbox": [[900.0, 2.0, 4.0, 4.0]], "category": [0]}, "bottom 900, 2, 904, 6 lies outside the picture"),
    "nan": ({"bbox": [[float("nan"), 2.0, 4.0, 4.0]], "category": [0]}, "is not of numbers"),
}
EMPTY: list[Any] = [None, {"bbox": None, "category": None}, {"bbox": [], "category": []}]


def test_bad_objects_are_rejects_with_their_reasons(jobs: Jobs, tmp_path: Path) -> None:
    write_raw(tmp_path / "in.parquet", [{"bbox": BOX, "category": [0]}, *EMPTY, *(value for value, _ in BAD.values())])
    made = jobs.build("parquet --input in.parquet", *MOST)
    assert [reject["line"] for reject in made.rejects] == [number + 2 + len(EMPTY) for number in range(len(BAD))]
    for (_, reason), found in zip(BAD.values(), made.reasons.values(), strict=True):
        assert reason in found
    assert sorted(len(example["objects/label"]) for example in made.examples()) == [0, 0, 0, 1]


def test_boxes_are_clipped_or_dropped_and_the_job_says_so(jobs: Jobs, tmp_path: Path) -> None:
    over = {"bbox": [[-2.0, 0.0, 10.0, 10.0], [900.0, 0.0, 1.0, 1.0]], "category": [2, 1]}
    write_raw(tmp_path / "in.parquet", [over])
    made = jobs.build("parquet --input in.parquet --on_bad_box drop")
    (example,) = made.examples()
    assert example["objects/label"].tolist() == [2]
    np.testing.assert_allclose(np.ravel(example["objects/bbox"]), [0, 0, 10 / 48, 8 / 64], rtol=1e-6)
    clipped, dropped = (
        "1 box reached out of its picture, and was clipped",
        "1 box was no good, and its object was left out",
    )
    assert {clipped, dropped} <= set(made.notices)


def test_another_size_than_the_picture_is_a_reject(jobs: Jobs, tmp_path: Path) -> None:
    write_raw(tmp_path / "a.parquet", [{"bbox": BOX, "category": [0]}] * 3, width=[64, 65, 0], height=[48, 49, 48])
    made = jobs.build("parquet --input a.parquet", *MOST)
    assert made.reasons == {
        "a.parquet:2": "the annotation is of 65 x 49 pixels, the image has 65 x 48",
        "a.parquet:3": "column 'objects': the image's size is given as 0 x 48 pixels; expected whole numbers",
    }
    (example,) = shardmill.examples(made.directory, "train")
    assert (example["width"], example["height"]) == (64, 48)


def test_mistakes_are_one_sentence(jobs: Jobs, tmp_path: Path) -> None:
    write_parquet(tmp_path / "rows.parquet")
    for column in ("objects", "things"):
        other = [{"n": 1, column: said_of(SCENES[0])}]
        datasets.Dataset.from_list(other).to_parquet(str(tmp_path / f"{column}.parquet"))
    write_parquet(tmp_path / "some/one.parquet", drawn=[Scene("a.png", things=(Thing("red", (1, 2, 3, 4)),))])
    write_parquet(tmp_path / "some/other.parquet", "names", drawn=SCENES[:2])
    boxes = "is of boxes as Hugging Face has them"
    for line, sentence in {
        "rows.parquet --label objects": "--label objects",
        "rows.parquet --drop objects --on_bad_box drop": "--on_bad_box drop is about boxes in images, and there is no"
        " column 'objects' of such",
        "objects.parquet": f"column 'objects' {boxes}…none is known to be such…--drop objects",
        "things.parquet": f"column 'things' {boxes}, which are read of a column 'objects'",
        "some": "files say different things of 'objects': classes are ids in one.parquet and names in other.parquet",
    }.items():
        jobs.refuse(f"parquet --input {line}", sentence)
