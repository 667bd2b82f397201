"""manifest.json: written and read back, and refused where it is not one."""

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from shardmill.data.features import Feature
from shardmill.errors import CorruptDataError
from shardmill.metadata.manifest import MANIFEST_FORMAT, Manifest, ShardEntry, SplitEntry


def _shard(index: int, *values: Any) -> ShardEntry:
    return ShardEntry(f"flowers-train.tfrecord-{index:05}-of-00002", *values)


MANIFEST = Manifest(
    name="flowers",
    version="1.0.0",
    compression="",
    features=(
        Feature("image", "bytes", "image", encoding="jpeg"),
        Feature("label", "int64", "class_label", class_names=("daisy", "röse"), role="label"),
        Feature("box", "float32", shape=(4,), required=False),
        Feature("tags", "bytes", shape=(None,)),
        Feature("boxes", "float32", shape=(None, 4)),
        Feature("depth", "bytes", "array", (28, 28, 1), element="float16"),
    ),
    splits=(
        SplitEntry("train", (_shard(0, 3, 100, "0000abcd"), _shard(1, 2, 90, "ffffffff")), 1),
        SplitEntry("test", ()),
    ),
    input={"pattern": "photos/", "records": 6},
    configuration={"seed": 0, "splits": {"train": "4/5"}},
    versions={"shardmill": "0.1.0"},
    rejects={"records": 1, "reasons": {"the file is empty": 1}},
    notices=("split 'test' is empty",),
    files={"features.json": "00000001", "rejects/rejects-00000-of-00001.jsonl": "00000002"},
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
    with pytest.raises(KeyError, match=r"flowers 1\.0\.0 has no split 'validation'; it has train, test"):
        MANIFEST.split("validation")


def content_at(content: Any, *path: Any) -> Any:
    for key in path:
        content = content[key]
    return content


SHARDS = ("splits", 0, "shards")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "3",
        "null",
        "{}",
        "[" * 100_000,
        '{"format":' * 100_000,
        MANIFEST.to_json().replace('"examples": 3', f'"examples": 1{"0" * 5000}'),
        MANIFEST.to_json()[:-10],
        MANIFEST.to_json().encode().replace("ö".encode(), b"\xf6"),
        b"\xff\xfe\x00",
    ],
)
def test_what_is_no_manifest(text: str | bytes) -> None:
    with pytest.raises(CorruptDataError, match=r"^d/manifest\.json is not a shardmill manifest: "):
        Manifest.from_json(text, "d/manifest.json")


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        (("format",), "one", 'format is "one"; expected an integer from 1'),
        (("format",), True, "format is true; expected an integer"),
        (("name",), "../x", 'name is "../x"; expected the name of a data set'),
        (("version",), "..", 'version is ".."; expected three numbers'),
        (("compression",), "zip", "compression is \"zip\"; expected one of '', 'gzip'"),
        (("splits",), None, "splits is null; expected a list"),
        (("splits", 0), 7, "splits[0] is 7; expected an object"),
        (("splits", 0, "name"), "tr/ain", 'splits[0].name is "tr/ain"; expected the name of a split'),
        (("splits", 1, "name"), "train", "splits has 'train' twice"),
        (("splits", 0, "rejected"), -1, "splits[0].rejected is -1; expected an integer from 0"),
        (SHARDS, [], "it counts 6 records read, but 0 in its shards and 1 rejected"),
        (SHARDS, {}, "splits[0].shards is an object; expected a list"),
        (
            (*SHARDS, 0, "file"),
            "../x",
            "splits[0].shards[0].file is \"../x\"; expected 'flowers-train.tfrecord-00000-of-00002'",
        ),
        ((*SHARDS, 0, "file"), "/etc/passwd", "splits[0].shards[0].file is "),
        ((*SHARDS, 1, "file"), "flowers-train.tfrecord-00000-of-00002", "splits[0].shards[1].file is "),
        ((*SHARDS, 0, "file"), None, "splits[0].shards[0].file is null; expected a string"),
        ((*SHARDS, 0, "examples"), 10**30, f"splits[0].shards[0].examples is {10**30}; expected an integer from 0"),
        ((*SHARDS, 0, "examples"), -3, "splits[0].shards[0].examples is -3"),
        ((*SHARDS, 0, "examples"), 3.0, "splits[0].shards[0].examples is 3.0"),
        ((*SHARDS, 0, "examples"), "3", "splits[0].shards[0].examples is "),
        ((*SHARDS, 0, "examples"), 4, "it counts 6 records read, but 6 in its shards and 1 rejected"),
        ((*SHARDS, 0, "size_bytes"), None, "splits[0].shards[0].size_bytes is null"),
        ((*SHARDS, 0, "crc32c"), "abcd", 'splits[0].shards[0].crc32c is "abcd"; expected 8 hex digits'),
        (("features",), None, "features is null; expected a list"),
        (("features", 0, "role"), "query", 'features[0].role is "query"; expected one of'),
        (("features", 0, "name"), 3, "features[0].name is 3; expected a string"),
        (("features", 0, "name"), "\ud800", 'features[0].name is "\\ud800"; expected a string of whole characters'),
        (("features", 0, "name"), "label", "features has 'label' twice"),
        (("features", 0, "dtype"), "int128", 'features[0].dtype is "int128"; expected one of'),
        (("features", 0, "kind"), "film", 'features[0].kind is "film"; expected one of'),
        (("features", 0, "shape"), 3, "features[0].shape is 3; expected a list"),
        (("features", 0, "shape"), [3, None], "feature 'image' has shape (3, None)"),
        (("features", 0, "shape"), [-1], "features[0].shape[0] is -1"),
        (
            ("features", 0, "shape"),
            [1 << 20, 1 << 20],
            "features[0].shape is a list; expected 64 sizes and 2147483648 values",
        ),
        (("features", 0, "required"), 1, "features[0].required is 1; expected true or false"),
        (("features", 1, "class_names"), [1], "features[1].class_names[0] is 1; expected a string"),
        (("features", 5, "element"), "object", 'features[5].element is "object"; expected one of'),
        (("input",), None, "input is null; expected an object"),
        (("input", "records"), "6", 'input.records is "6"; expected an integer'),
        (("configuration",), [], "configuration is a list; expected an object"),
        (("configuration", "label"), [1], "configuration.label[0] is 1; expected a string"),
        (("configuration", "format"), {}, "configuration.format is an object; expected a string"),
        (("configuration", "max_pixels"), "all", 'configuration.max_pixels is "all"; expected an integer from 1'),
        (("versions",), None, "versions is null; expected an object"),
        (("rejects", "reasons"), None, "rejects.reasons is null; expected an object"),
        (("rejects", "reasons"), {"x": "y"}, 'rejects.reasons.x is "y"; expected an integer'),
        (("notices",), [None], "notices[0] is null; expected a string"),
        (("files",), {"../x": "00000000"}, "files.../x is not the name of a file of the data set"),
        (("files",), {"a/../../x": "00000000"}, "is not the name of a file of the data set"),
        (("files",), {"/x": "00000000"}, "is not the name of a file of the data set"),
        (("files",), {"x": 0}, "files.x is 0; expected a string"),
    ],
)
def test_a_value_that_cannot_be(path: tuple[Any, ...], value: Any, said: str) -> None:
    """The sentence says where it stands, what is there, and what could be."""
    content = json.loads(MANIFEST.to_json())
    content_at(content, *path[:-1])[path[-1]] = value

    with pytest.raises(CorruptDataError) as raised:
        Manifest.from_json(json.dumps(content), "d/manifest.json")

    assert str(raised.value).startswith("d/manifest.json is not a shardmill manifest: ")
    assert said in str(raised.value)


@pytest.mark.parametrize(
    "path",
    [
        *(("format",), ("name",), ("version",), ("compression",), ("features",), ("splits",)),
        *(("features", 0, "name"), ("features", 0, "dtype"), ("splits", 0, "rejected")),
        *((*SHARDS, 0, key) for key in ("file", "examples", "size_bytes", "crc32c")),
    ],
)
def test_a_value_that_is_missing(path: tuple[Any, ...]) -> None:
    content = json.loads(MANIFEST.to_json())
    del content_at(content, *path[:-1])[path[-1]]

    with pytest.raises(CorruptDataError, match=f"^m is not a shardmill manifest: .*{path[-1]} is missing$"):
        Manifest.from_json(json.dumps(content), "m")


def test_what_a_later_version_adds_is_passed_over() -> None:
    content = json.loads(MANIFEST.to_json())
    for place in (content, content["features"][0], content["splits"][0], content["splits"][0]["shards"][0]):
        place["since_then"] = {"any": ["thing"]}

    assert Manifest.from_json(json.dumps(content), "m") == MANIFEST


def test_what_an_earlier_version_lacked_is_not_missed() -> None:
    content = json.loads(MANIFEST.to_json())
    del content["files"]

    assert Manifest.from_json(json.dumps(content), "m") == replace(MANIFEST, files={})


def test_an_earlier_version_said_no_roles() -> None:
    content = json.loads(MANIFEST.to_json())
    content["features"] = [{"name": name, "dtype": "bytes"} for name in ("picture", "kind", "label", "name", "height")]
    content["features"][0]["kind"] = "image"
    content["configuration"] = {"label": "class", "rename": {"class": "kind", "filename": "name"}}

    found = Manifest.from_json(json.dumps(content), "m").features
    assert [feature.role for feature in found] == ["input", "label", "input", "source", "source"]

    content["configuration"]["format"] = "csv"
    found = Manifest.from_json(json.dumps(content), "m").features
    assert [feature.role for feature in found] == ["input", "label", "input", "input", "input"]


def test_any_value_in_any_place_is_the_same_manifest_or_a_named_error() -> None:
    """Each value of the file, one after another, becomes each of these; what is read back never holds other
    examples."""
    odd: list[Any] = [None, True, -1, 10**30, 1.5, "", "../x", "\ud800\x1b[2J", [], [[]], {}, {"a": None}]
    for path in places(json.loads(MANIFEST.to_json())):
        for value in odd:
            content = json.loads(MANIFEST.to_json())
            content_at(content, *path[:-1])[path[-1]] = value
            with suppress(CorruptDataError):  # and no other exception
                found = Manifest.from_json(json.dumps(content), "m")
                assert found.splits[0].shards == MANIFEST.splits[0].shards


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value below `value`."""
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, item in below for place in [(*path, key), *places(item, (*path, key))]]


def test_a_newer_format_is_refused() -> None:
    content = json.loads(MANIFEST.to_json())
    content["format"] = MANIFEST_FORMAT + 1
    with pytest.raises(CorruptDataError, match=r"^d/manifest\.json is of a newer format .*; upgrade shardmill$"):
        Manifest.from_json(json.dumps(content), "d/manifest.json")
