"""manifest.json: written and read back, and refused where it is not one."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from shardmill.errors import CorruptDataError
from shardmill.features import Feature
from shardmill.manifest import FORMAT, Manifest, ShardEntry, SplitEntry

MANIFEST = Manifest(
    name="flowers",
    version="1.0.0",
    compression="",
    features=(
        Feature("image", "bytes", "image", encoding="jpeg"),
        Feature("label", "int64", "class_label", class_names=("daisy", "röse")),
        Feature("box", "float32", shape=(4,), required=False),
        Feature("tags", "bytes", shape=(None,)),
        Feature("boxes", "float32", shape=(None, 4)),
        Feature("depth", "bytes", "array", (28, 28, 1), element="float16"),
    ),
    splits=(
        SplitEntry("train", (ShardEntry("a-00000", 3, 100, "0000abcd"), ShardEntry("a-00001", 2, 90, "ffffffff")), 1),
        SplitEntry("test", ()),
    ),
    input={"pattern": "photos/", "records": 6},
    configuration={"seed": 0, "splits": {"train": "4/5"}},
    versions={"shardmill": "0.1.0"},
    rejects={"records": 1, "reasons": {"the file is empty": 1}},
    notices=("split 'test' is empty",),
)


def test_round_trip() -> None:
    text = MANIFEST.to_json()

    assert Manifest.from_json(text, "manifest.json") == MANIFEST
    assert Manifest.from_json(text.encode(), "manifest.json") == MANIFEST
    assert Manifest.from_json(text, "manifest.json").to_json() == text


def test_totals_of_a_split() -> None:
    train, test = MANIFEST.splits

    assert (train.examples, train.size_bytes, test.examples, test.size_bytes) == (5, 190, 0, 0)


def test_split_by_name() -> None:
    assert MANIFEST.split("test") is MANIFEST.splits[1]
    with pytest.raises(KeyError, match="flowers has no split 'validation'; it has train, test"):
        MANIFEST.split("validation")


def changed(change: Callable[[dict[str, Any]], Any]) -> str:
    content = json.loads(MANIFEST.to_json())
    change(content)
    return json.dumps(content)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        "null",
        "{}",
        MANIFEST.to_json()[:-10],
        MANIFEST.to_json().encode().replace("ö".encode(), b"\xf6"),
        changed(lambda content: content.pop("splits")),
        changed(lambda content: content.pop("format")),
        changed(lambda content: content.update(format="one")),
        changed(lambda content: content.update(more=1)),
        changed(lambda content: content["splits"][0].pop("rejected")),
        changed(lambda content: content["splits"][0]["shards"][0].pop("crc32c")),
        changed(lambda content: content["features"][0].update(shape=3)),
        changed(lambda content: content["features"][0].update(shape=[3, None])),
    ],
)
def test_what_is_no_manifest(text: str | bytes) -> None:
    with pytest.raises(CorruptDataError, match=r"^d/manifest\.json is not a shardmill manifest: "):
        Manifest.from_json(text, "d/manifest.json")


def test_a_newer_format_is_refused() -> None:
    with pytest.raises(CorruptDataError, match=r"^d/manifest\.json is of a newer format .*; upgrade shardmill$"):
        Manifest.from_json(changed(lambda content: content.update(format=FORMAT + 1)), "d/manifest.json")
