"""Tests of COCO's files."""

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.addons.annotations import coco
from shardmill.addons.annotations.coco import CocoFile, CocoSource, coco_root, read_arrays
from shardmill.errors import UserError


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


def test_there_may_be_none() -> None:
    for files in (["gs://b/a/x.json", "s3://b/a/y.json"], ["gs://a/x.json", "gs://b/y.json"]):
        with pytest.raises(UserError, match="--coco without --input: "):
            coco_root(files)


@pytest.mark.parametrize(
    ("file", "root", "given", "file_root", "first"),
    [
        ("coco/annotations/instances_train2017.json", "coco", False, "", ["annotations", "annotations/train2017"]),
        (
            *("coco/annotations/person_keypoints_train2017.json", "coco", False, ""),
            ["annotations", "annotations/keypoints_train2017", "annotations/train2017"],
        ),
        ("coco/annotations/instances_train2017.json", "coco", False, "../photos", ["photos"]),
        ("gs://b/coco/annotations/a.json", "gs://b/coco", False, "../photos", ["photos"]),
        ("elsewhere/a_x.json", "photos", True, "", ["", "x"]),
        ("train/_annotations.coco.json", ".", False, "", ["train", "train/annotations.coco"]),
    ],
)
def test_the_folders_that_are_looked_in(file: str, root: str, given: bool, file_root: str, first: list[str]) -> None:
    found = CocoSource((("", file),), root, given, file_root)._list_candidate_folders("", file)
    assert found[: len(first)] == first


def test_a_folder_elsewhere_is_a_mistake() -> None:
    with pytest.raises(UserError, match="is not in coco/annotations"):
        CocoSource((("", "a.json"),), "coco/annotations", False, "../photos")._list_candidate_folders(
            "", "coco/annotations/a.json"
        )


@pytest.mark.parametrize("member", ["id", "image_id", "category_id", "area", "bbox"])
def test_true_is_no_number(member: str) -> None:
    item: dict[str, Any] = {"id": 1, "image_id": 2, "category_id": 3, "bbox": [1, 2, 3, 4], "area": 5}
    item[member] = [True, 2, 3, 4] if member == "bbox" else True
    found = CocoFile("x")
    found.add_annotations([{"id": 7, "image_id": 2, "category_id": 3, "bbox": [1, 2, 3, 4]}, item])

    said = [*found.problems.values(), *found.faults_without_image]
    assert found.ids.tolist() == [7]
    assert len(said) == 1
    assert f"for {member}; expected" in said[0]


# What a cut between two items may be looked for in: braces and commas in texts, and lists of objects in items
_TEXTS = st.sampled_from(["", "}, {", '"},{"', "[]", "é", "\\", "x" * 40])
_INTEGERS = st.integers(-(1 << 63), (1 << 64) - 1)  # of others orjson makes floats
_ITEMS = st.dictionaries(_TEXTS, st.one_of(_TEXTS, _INTEGERS, st.lists(st.dictionaries(_TEXTS, _TEXTS), max_size=3)))
_DOCUMENTS = st.fixed_dictionaries({"a": st.lists(_ITEMS, max_size=12), "b": _ITEMS, "c": st.lists(_INTEGERS)})


def read(text: str, *wanted: str) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for name, items in read_arrays(io.StringIO(text), wanted):
        found.setdefault(name, []).extend(items)
    return found


@given(_DOCUMENTS, st.integers(1, 200), st.sampled_from([None, 1]), st.booleans())
def test_items_are_those_of_json(document: dict[str, Any], chunk: int, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(document, indent=indent, ensure_ascii=ascii_only)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coco, "CHUNK", chunk)

        assert read(text, "a", "c") == {"a": document["a"], "c": document["c"]}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "it is not a JSON object"),
        ('{"a"', "ends early|not JSON"),
        ('{"a": [1', "ends early"),
        ('{"a": [1 2]}', "it is not JSON at character 9"),
        ('{"a": [{"b": }]}', "it is not JSON, or ends early, at character 7"),
        ('{"a": 1}', "its 'a' is not a list"),
        ('{"a": [], "a": []}', "it has 'a' twice"),
        ('{"a": [{}]} {"a": [{}]}', "there is more behind its object, at character 12"),
        ("{}\n1", "there is more behind its object, at character 3"),
        ('{"a": [' + "[" * 100_000, "nested too deep|ends early"),
    ],
)
def test_what_is_none_is_said(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        read(text, "a")
