"""manifest.json: written and read back, and refused where it is not one, by every reader."""

import json
import re
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from itertools import product
from operator import getitem
from pathlib import Path
from typing import Any

import pytest

import shardmill
from shardmill.addons.reports.inspect_command import inspect_dataset
from shardmill.data.features import Feature
from shardmill.errors import CorruptDataError, UserError
from shardmill.metadata.manifest import MANIFEST_FORMAT, Manifest, ShardEntry, SplitEntry
from shardmill.reading.dataset import open_dataset
from tests.support.reading import make_rows


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
    assert Manifest.from_json(TEXT, "manifest.json") == MANIFEST
    assert Manifest.from_json(TEXT.encode(), "manifest.json") == MANIFEST
    assert Manifest.from_json(TEXT, "manifest.json").to_json() == TEXT


def test_splits() -> None:
    train, test = MANIFEST.splits

    assert (train.examples, train.size_bytes, test.examples, test.size_bytes) == (5, 190, 0, 0)
    assert MANIFEST.split("test") is test
    with pytest.raises(KeyError, match=r"flowers 1\.0\.0 has no split 'validation'; it has train, test"):
        MANIFEST.split("validation")


SHARDS = ("splits", 0, "shards")
TEXT = MANIFEST.to_json()


def changed(path: tuple[Any, ...], value: Any, written: str = TEXT) -> str:
    """The manifest with another value at `path`."""
    content = json.loads(written)
    reduce(getitem, path[:-1], content)[path[-1]] = value
    return json.dumps(content)


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "3", "null", "{}", "[" * 100_000, '{"format":' * 100_000, TEXT[:-10]),
        TEXT.replace('"examples": 3', f'"examples": 1{"0" * 5000}'),
        TEXT.encode().replace("ö".encode(), b"\xf6"),
        b"\xff\xfe\x00",
    ],
)
def test_what_is_no_manifest(text: str | bytes) -> None:
    with pytest.raises(CorruptDataError, match=r"^d/manifest\.json is not a shardmill manifest: "):
        Manifest.from_json(text, "d/manifest.json")


FEATURE, SHARD, FIRST = ("features", 0), (*SHARDS, 0), "splits[0].shards[0]"
NO_FILE = "is not the name of a file of the data set"
ODD = [
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
    ((*SHARD, "file"), "../x", f"{FIRST}.file is \"../x\"; expected 'flowers-train.tfrecord-00000-of-00002'"),
    ((*SHARD, "file"), "/etc/passwd", f"{FIRST}.file is "),
    ((*SHARDS, 1, "file"), "flowers-train.tfrecord-00000-of-00002", "splits[0].shards[1].file is "),
    ((*SHARD, "file"), None, f"{FIRST}.file is null; expected a string"),
    ((*SHARD, "examples"), 10**30, f"{FIRST}.examples is {10**30}; expected an integer from 0"),
    ((*SHARD, "examples"), -3, f"{FIRST}.examples is -3"),
    ((*SHARD, "examples"), 3.0, f"{FIRST}.examples is 3.0"),
    ((*SHARD, "examples"), "3", f"{FIRST}.examples is "),
    ((*SHARD, "examples"), 4, "it counts 6 records read, but 6 in its shards and 1 rejected"),
    ((*SHARD, "size_bytes"), None, f"{FIRST}.size_bytes is null"),
    ((*SHARD, "crc32c"), "abcd", f'{FIRST}.crc32c is "abcd"; expected 8 hex digits'),
    (("features",), None, "features is null; expected a list"),
    ((*FEATURE, "role"), "query", 'features[0].role is "query"; expected one of'),
    ((*FEATURE, "name"), 3, "features[0].name is 3; expected a string"),
    ((*FEATURE, "name"), "\ud800", 'features[0].name is "\\ud800"; expected a string of whole characters'),
    ((*FEATURE, "name"), "label", "features has 'label' twice"),
    ((*FEATURE, "dtype"), "int128", 'features[0].dtype is "int128"; expected one of'),
    ((*FEATURE, "kind"), "film", 'features[0].kind is "film"; expected one of'),
    ((*FEATURE, "shape"), 3, "features[0].shape is 3; expected a list"),
    ((*FEATURE, "shape"), [3, None], "feature 'image' has shape (3, None)"),
    ((*FEATURE, "shape"), [-1], "features[0].shape[0] is -1"),
    ((*FEATURE, "shape"), [1 << 20] * 2, "features[0].shape is a list; expected 64 sizes and 2147483648 values"),
    ((*FEATURE, "required"), 1, "features[0].required is 1; expected true or false"),
    (("features", 1, "class_names"), [1], "features[1].class_names[0] is 1; expected a string"),
    (("features", 5, "element"), "object", 'features[5].element is "object"; expected one of'),
    (("input",), None, "input is null; expected an object"),
    (("input", "records"), "6", 'input.records is "6"; expected an integer'),
    (("configuration",), [], "configuration is a list; expected an object"),
    (("configuration", "label"), [1], "configuration.label[0] is 1; expected a string"),
    (("configuration", "format"), {}, "configuration.format is an object; expected a string"),
    (("configuration", "max_pixels"), "all", 'configuration.max_pixels is "all"; expected an integer from 1'),
    (("configuration", "file_template"), "{SPLIT}", "expected a template of shards' names"),
    (("versions",), None, "versions is null; expected an object"),
    (("rejects", "reasons"), None, "rejects.reasons is null; expected an object"),
    (("rejects", "reasons"), {"x": "y"}, 'rejects.reasons.x is "y"; expected an integer'),
    (("notices",), [None], "notices[0] is null; expected a string"),
    (("files",), {"../x": "00000000"}, f"files.../x {NO_FILE}"),
    (("files",), {"a/../../x": "00000000"}, NO_FILE),
    (("files",), {"/x": "00000000"}, NO_FILE),
    (("files",), {"x": 0}, "files.x is 0; expected a string"),
]


@pytest.mark.parametrize(("path", "value", "said"), ODD)
def test_a_value_that_cannot_be(path: tuple[Any, ...], value: Any, said: str) -> None:
    """The sentence says where it stands, what is there, and what could be."""
    with pytest.raises(CorruptDataError, match=re.escape(said)) as raised:
        Manifest.from_json(changed(path, value), "d/manifest.json")

    assert str(raised.value).startswith("d/manifest.json is not a shardmill manifest: ")


@pytest.mark.parametrize(
    "path",
    [
        *(("format",), ("name",), ("version",), ("compression",), ("features",), ("splits",)),
        *((*FEATURE, "name"), (*FEATURE, "dtype"), ("splits", 0, "rejected")),
        *((*SHARD, key) for key in ("file", "examples", "size_bytes", "crc32c")),
    ],
)
def test_a_value_that_is_missing(path: tuple[Any, ...]) -> None:
    content = json.loads(TEXT)
    del reduce(getitem, path[:-1], content)[path[-1]]

    with pytest.raises(CorruptDataError, match=f"^m is not a shardmill manifest: .*{path[-1]} is missing$"):
        Manifest.from_json(json.dumps(content), "m")


def test_what_another_version_adds_or_lacks_is_passed_over() -> None:
    content = json.loads(TEXT)
    for place in (content, content["features"][0], content["splits"][0], content["splits"][0]["shards"][0]):
        place["since_then"] = {"any": ["thing"]}
    assert Manifest.from_json(json.dumps(content), "m") == MANIFEST

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
    for path, value in product(places(json.loads(TEXT)), odd):
        with suppress(CorruptDataError):  # and no other exception
            assert Manifest.from_json(changed(path, value), "m").splits[0].shards == MANIFEST.splits[0].shards


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of every value below `value`."""
    below = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, item in below for place in [(*path, key), *places(item, (*path, key))]]


def test_a_newer_format_is_refused() -> None:
    with pytest.raises(CorruptDataError, match=r"^d/manifest\.json is of a newer format .*; upgrade shardmill$"):
        Manifest.from_json(changed(("format",), MANIFEST_FORMAT + 1), "d/manifest.json")


EXAMPLES = 4


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set whose `_SUCCESS` says nothing of the manifest, as in those made before it did."""
    directory = make_rows(tmp_path_factory.mktemp("rows"), rows=EXAMPLES)
    (directory / "_SUCCESS").write_bytes(b"")
    return directory


@pytest.mark.parametrize("value", [None, "../x\x1b[2J", 10**30], ids=range(3))
def test_readers_give_the_examples_that_are_there_or_a_named_error(rows: Path, value: object) -> None:
    """And nothing from elsewhere."""
    path = rows / "manifest.json"
    written = path.read_text()
    refused = read = 0
    for place in places(json.loads(written)):
        path.write_text(changed(place, value, written))
        try:
            assert len(list(shardmill.examples(rows))) == EXAMPLES, place
            assert str(shardmill.info(rows)).replace("\n", "").isprintable()
            dataset = open_dataset(rows)
            assert inspect_dataset(dataset, dataset.manifest.splits, 1).text
            read += 1
        except (CorruptDataError, UserError):  # and no other exception
            refused += 1
        finally:
            path.write_text(written)
    assert refused > 80
    assert read > 0
