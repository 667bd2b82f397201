"""Faults of single annotations of COCO files."""

from typing import Any

import pytest

from shardmill.transforms.inputs.coco import CocoFile


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
