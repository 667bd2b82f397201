"""Mistakes in what load is asked for, and damage that it never leaves unnoticed."""

from pathlib import Path
from typing import Any

import pytest

import shardmill
from shardmill.errors import CorruptDataError, UserError
from tests.support.later import Later
from tests.support.reading import FILLS, copy, make_images, shards
from tests.support.small_data_set import edit_manifest

pytestmark = pytest.mark.slow

tf = Later("tensorflow")


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("rows", {"split": "trian"}, r"n 1\.0\.0 has no split 'trian'; it has train, test"),
        (
            "rows",
            {"image_size": (4, 4)},
            "image_size, .* are for images, and n is read without any; its features here are age, ",
        ),
        ("rows", {"image_dtype": "uint8"}, "are for images"),
        ("rows", {}, "age, note are features that some examples lack; .*defaults={'age': 0, 'note': ''} for instance"),
        ("rows", {"defaults": {"age": 0.5}}, r"the default 0\.5 of feature 'age' is no int64"),
        (
            "rows",
            {"defaults": {**FILLS, "tokens": 1}},
            "defaults names 'tokens', a list of any length.*; give pad=True",
        ),
        ("rows", {"features": ["tokens"], "pad": True}, "pad is for batches; give batch_size"),
        ("rows", {"features": ["n"], "pad": True, "batch_size": 2}, "pad fills up lists of any length, and no feature"),
        ("rows", {"features": ["n"], "drop_remainder": True}, "drop_remainder is for batches; give batch_size"),
        ("rows", {"features": ["n"], "batch_size": 0}, "batch_size is 0; expected at least 1"),
        ("rows", {"features": ["n"], "repeat": -1}, "repeat is -1; expected at least 1"),
        (
            "rows",
            {"features": ["n"], "shuffle": False, "shuffle_buffer_size": 9},
            "shuffle_buffer_size is 9, but nothing is shuffled",
        ),
        ("rows", {"num_workers": 2, "worker_index": 2}, "worker_index is 2; expected 0 to 1"),
        (
            "images",
            {"batch_size": 8},
            "cannot be batched: their heights are 6 to 6, their widths 8 to 12; give image_size=",
        ),
        ("images", {"image_size": (0, 4)}, r"image_size is \(0, 4\); expected \(height, width\)"),
        ("images", {"image_dtype": "float16"}, "image_dtype is 'float16'; expected 'float32' or 'uint8'"),
        ("images", {"channels": 4}, "channels is 4; expected 3"),
    ],
)
def test_mistakes(kind: str, options: dict[str, Any], message: str, rows: Path, flowers: Path) -> None:
    with pytest.raises(UserError, match=message):
        shardmill.load(rows if kind == "rows" else flowers, **options)


def test_images_of_unknown_size_are_not_batched(tmp_path: Path) -> None:
    directory = make_images(tmp_path, "--verify", "none", each=2)

    with pytest.raises(UserError, match="their sizes are not known; give image_size="):
        shardmill.load(directory, batch_size=2)
    assert len(list(shardmill.load(directory, batch_size=2, image_size=(4, 4)))) == 3


def load(directory: Path) -> Any:
    return shardmill.load(directory, features=["n"])


@pytest.mark.parametrize("read", [load, shardmill.examples])
@pytest.mark.parametrize("damage", ["missing", "truncated", "longer", "replaced"])
def test_a_shard_of_another_size_is_named_at_the_call(rows: Path, tmp_path: Path, damage: str, read: Any) -> None:
    directory = copy(rows, tmp_path)
    victim = shards(directory)[1]
    data, other = victim.read_bytes(), shards(rows, "test")[0].read_bytes()
    if damage == "missing":
        victim.unlink()
    else:
        victim.write_bytes({"truncated": data[:-1], "longer": data + data[:50], "replaced": other}[damage])

    said = f"(is missing|has .* bytes; the manifest says {len(data):,}: it was cut short or replaced)"
    with pytest.raises(CorruptDataError, match=f"{victim.name} {said}"):
        read(directory)


def test_a_sound_shard_of_the_same_size_is_found_when_verifying(equal_shards: Path, tmp_path: Path) -> None:
    directory = copy(equal_shards, tmp_path)
    shardmill.load(directory, verify=True)
    first, second = shards(directory)
    first.write_bytes(second.read_bytes())

    with pytest.raises(CorruptDataError, match="00000-of-00002 is not the file that was written"):
        shardmill.load(directory, verify=True)
    with pytest.raises(CorruptDataError, match="00000-of-00002 is not the file that was written: its crc32c is "):
        list(shardmill.examples(directory))


@pytest.mark.parametrize("options", [{"batch_size": 4}, {}, {"shuffle": False}, {"repeat": 2, "batch_size": 4}])
@pytest.mark.parametrize("claimed", [-1, 1])
def test_another_number_of_examples_is_never_silent(
    rows: Path, tmp_path: Path, claimed: int, options: dict[str, Any]
) -> None:
    directory = copy(rows, tmp_path)

    def edit(content: Any) -> None:
        content["splits"][0]["shards"][0]["examples"] += claimed
        content["input"]["records"] += claimed

    edit_manifest(directory, edit)

    with pytest.raises(tf.errors.FailedPreconditionError, match="was expected to contain"):
        list(shardmill.load(directory, features=["n"], **options))
