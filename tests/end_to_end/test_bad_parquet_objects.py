"""Images with `objects` inside of Parquet that are no good: rejects with their reasons, and a user's mistakes."""

from pathlib import Path
from typing import Any

import numpy as np

import shardmill
from tests.support.command import Run, check_mistake
from tests.support.detection import Scene, Thing
from tests.support.later import Later
from tests.support.objects_in_tables import BOX, MOST, SCENES, notices, rejects, said_of, write_parquet, write_raw
from tests.support.reading import make

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
EMPTY: dict[str, Any] = {
    "null": None,
    "no lists": {"bbox": None, "category": None},
    "empty": {"bbox": [], "category": []},
}


def test_bad_objects_are_rejects_with_their_reasons(run: Run, tmp_path: Path) -> None:
    values = [{"bbox": BOX, "category": [0]}, *EMPTY.values(), *(value for value, _ in BAD.values())]
    rows = write_raw(tmp_path / "rows.parquet", values)

    done = run("parquet", "--input", rows, "--output", tmp_path, "--name", "n", *MOST)

    assert done.status == 0, done.err
    reasons = rejects(tmp_path / "n/1.0.0")
    assert sorted(reasons) == [number + 2 + len(EMPTY) for number in range(len(BAD))]
    for (_, reason), found in zip(BAD.values(), (reasons[line] for line in sorted(reasons)), strict=True):
        assert reason in found
    kept = shardmill.examples(tmp_path / "n", "train")
    assert sorted(len(example["objects/label"]) for example in kept) == [0, 0, 0, 1]


def test_boxes_are_clipped_or_dropped_and_the_job_says_so(tmp_path: Path) -> None:
    over = {"bbox": [[-2.0, 0.0, 10.0, 10.0], [900.0, 0.0, 1.0, 1.0]], "category": [2, 1]}
    rows = write_raw(tmp_path / "rows.parquet", [over])

    directory = make("parquet", rows, tmp_path / "out", "--on_bad_box", "drop")

    (example,) = shardmill.examples(directory, "train")
    assert example["objects/label"].tolist() == [2]
    np.testing.assert_allclose(np.ravel(example["objects/bbox"]), [0, 0, 10 / 48, 8 / 64], rtol=1e-6)
    assert {
        "1 box reached out of its picture, and was clipped",
        "1 box was no good, and its object was left out",
    } <= set(notices(directory))


def test_another_size_than_the_picture_is_a_reject(run: Run, tmp_path: Path) -> None:
    value = {"bbox": BOX, "category": [0]}
    rows = write_raw(tmp_path / "rows.parquet", [value] * 3, width=[64, 65, 0], height=[48, 49, 48])

    done = run("parquet", "--input", rows, "--output", tmp_path, "--name", "n", *MOST)

    assert done.status == 0, done.err
    assert rejects(tmp_path / "n/1.0.0") == {
        2: "the annotation is of 65 x 49 pixels, the image has 65 x 48",
        3: "column 'objects': the image's size is given as 0 x 48 pixels; expected whole numbers",
    }
    (example,) = shardmill.examples(tmp_path / "n", "train")
    assert (example["width"], example["height"]) == (64, 48)


def test_mistakes_are_one_sentence(run: Run, tmp_path: Path) -> None:
    rows = write_parquet(tmp_path / "rows.parquet")
    out = ("--output", tmp_path, "--name", "n")

    check_mistake(run("parquet", "--input", rows, "--label", "objects", *out), "--label objects")
    check_mistake(
        run("parquet", "--input", rows, "--drop", "objects", "--on_bad_box", "drop", *out),
        "--on_bad_box drop is about boxes in images, and there is no column 'objects' of such",
    )
    other = [{"n": 1, "objects": said_of(SCENES[0])}]
    datasets.Dataset.from_list(other).to_parquet(str(tmp_path / "none.parquet"))
    said: tuple[str, ...] = (
        "column 'objects' is of boxes as Hugging Face has them",
        "none is known to be such",
        "--drop objects",
    )
    check_mistake(run("parquet", "--input", tmp_path / "none.parquet", *out), *said)
    other = [{"n": 1, "things": said_of(SCENES[0])}]
    datasets.Dataset.from_list(other).to_parquet(str(tmp_path / "things.parquet"))
    said = ("column 'things' is of boxes as Hugging Face has them, which are read of a column 'objects'",)
    check_mistake(run("parquet", "--input", tmp_path / "things.parquet", *out), *said)
    write_parquet(tmp_path / "some/one.parquet", drawn=[Scene("a.png", things=(Thing("red", (1, 2, 3, 4)),))])
    write_parquet(tmp_path / "some/other.parquet", "names", drawn=SCENES[:2])
    said = ("files say different things of 'objects': classes are ids in one.parquet and names in other.parquet",)
    check_mistake(run("parquet", "--input", tmp_path / "some", *out), *said)
