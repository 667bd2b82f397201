"""How often masks are asked for: a folder is listed once, and each mask is read once, whatever there are."""

import sys
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any
from urllib.parse import unquote

import pytest

from shardmill.addons.masks.folder import MaskFolder
from tests.support.buckets import Bucket, make_images, upload
from tests.support.command import local_files, write_files
from tests.support.detection import scenes, write_coco, write_masks
from tests.support.masks import encoded, values


def requests_of_masks(bucket: Bucket) -> Counter[str]:
    """What was asked of the masks since the last time: how often they were listed, read, and looked at."""
    found: Counter[str] = Counter()
    for request in bucket.requests()["requests"]:
        method, path = unquote(unquote(request)).split(" ", 1)
        if "masks/" in path:
            is_read = (
                method == "GET" and ".png" in path.partition("?")[0] and ("alt=media" in path or "/o/" not in path)
            )
            found["listed" if "prefix=" in path else "read" if is_read else "looked at"] += 1
    return found


@pytest.mark.parametrize(("bucket", "annotated"), [("gs", False), ("s3", True)], indirect=["bucket"])
def test_masks_are_listed_once_and_read_once(bucket: Bucket, tmp_path: Path, annotated: bool) -> None:
    counts = []
    for number in (6, 24):
        drawn = scenes(number)
        local = tmp_path / f"{number}"
        write_coco(local / "data", drawn, "images/coco.json")
        for scene in drawn:
            (local / "data" / scene.name).rename(local / "data/images" / scene.name)
        write_masks(local / "data/masks", drawn)
        remote = upload(bucket, f"data{number}", local_files(local / "data"))
        flags = (
            ["--coco", f"{remote}/images/coco.json"]
            if annotated
            else ["--input", f"{remote}/images", "--folders", "any", "--ignore", "*.json"]
        )
        bucket.requests()
        output = ("--output", str(tmp_path / f"out{number}"), "--num_shards", "1")
        assert make_images(bucket, *flags, "--masks", f"{remote}/masks", *output) == 0
        counts.append(requests_of_masks(bucket))
    assert [found["read"] for found in counts] == [6, 24]
    assert counts[0]["listed"] == counts[1]["listed"] > 0
    assert counts[0]["looked at"] == counts[1]["looked at"]


@pytest.mark.parametrize("annotated", [False, True])
def test_a_look_up_takes_as_many_calls_among_many_masks_as_among_few(tmp_path: Path, annotated: bool) -> None:
    found = []
    for number in (50, 400):
        names = [f"a/{index}.png" for index in range(number)]
        folder = write_files(tmp_path / f"{number}", dict.fromkeys(names, encoded(values(1))))
        calls = 0

        def count(frame: FrameType, event: str, arg: Any) -> None:
            nonlocal calls
            calls += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            masks = MaskFolder(str(folder), annotated=annotated)
            assert not any(isinstance(masks.find(f"images/{name}" if annotated else name), str) for name in names)
        finally:
            sys.setprofile(None)
        found.append(calls / number)
    assert found[1] <= 1.1 * found[0]
