"""The configuration of an images job: each contradiction named, and what is derived from it."""

import json
from fractions import Fraction
from operator import attrgetter
from typing import Any

import pytest

from shardmill.errors import UserError
from shardmill.pipelines.config.images import ImagesConfig
from shardmill.pipelines.jobs.registry import KINDS
from shardmill.transforms.files.image_codec import Reencode
from shardmill.transforms.options.job_options import DEFAULT_SHARD_SIZE
from shardmill.transforms.shards.balance import ShardCount

HALVES = (("train", Fraction(1, 2)), ("test", Fraction(1, 2)))


def config(**values: Any) -> ImagesConfig:
    source = {} if {"input", "manifest"} & values.keys() else {"input": "photos"}
    found = KINDS["images"].make_config({"output": "out", "name": "flowers"} | source | values)
    assert isinstance(found, ImagesConfig)
    return found


MISTAKES: list[tuple[dict[str, Any], str]] = [
    ({"input": None}, "^give either --input, a folder or a glob, or --manifest, a .csv, .jsonl or .parquet file, or"),
    ({"input": "photos", "manifest": "a.csv"}, "^give either --input"),
    ({"manifest": "a.xls"}, "^--manifest a.xls: expected a name that ends in .csv, .tsv, .txt, .jsonl or .parqu"),
    ({"name": "my-flowers"}, "^--name 'my-flowers': expected a letter, then letters, digits and '_'$"),
    ({"version": "1.0"}, "^--version '1.0': expected three numbers, such as 1.0.0$"),
    ({"group_by": "user"}, "^--group_by user needs --splits$"),
    ({"stratify_by": "label"}, "^--stratify_by label needs --splits$"),
    ({"splits": HALVES, "split_shards": (("val", 2),)}, "^--num_shards val=2: no such split; --splits has train,"),
    ({"num_shards": 8, "shard_size": 100}, "^give --num_shards or --shard_size, not both$"),
    ({"num_shards": 0}, "^--num_shards 0: expected 1 to 99,999 for a split$"),
    ({"num_shards": 1_000_000}, "^--num_shards 1000000: expected 1 to 99,999"),
    ({"split_shards": (("train", 0),)}, "^--num_shards train=0: expected 1"),
    ({"shard_size": 0}, "^--shard_size 0: expected at least 1 byte$"),
    ({"on_new_label": "append"}, "^--on_new_label append needs --labels_file$"),
    ({"on_new_label": "reject"}, "^--on_new_label reject needs --labels_file$"),
    ({"on_new_label": "ask", "labels": ("a",)}, "^--on_new_label ask: expected one of"),
    ({"verify": "all"}, "^--verify all: expected one of"),
    ({"label_separator": ";"}, "^--label_separator ; is about a --manifest; leave it out with --input"),
    ({"label_separator": "", "manifest": "a.csv"}, "^--label_separator: '': expected a separator of classes"),
    ({"image_bands": (1, 2, 3)}, "^--image_bands 1,2,3 needs --image_format or --resize"),
    ({"image_bands": "1,2", "image_format": "png"}, "'1,2' is not one or three numbers of bands from 1, such as"),
    ({"image_bands": "0", "image_format": "png"}, "'0' is not one or three numbers of bands from 1, such as 1,2,3$"),
    ({"on_several_frames": "first"}, "^--on_several_frames first needs --image_format or --resize"),
    ({"coordinates": "box=area"}, "^--coordinates: box=area is not column=kind, such as boxes=relative; kinds are"),
    ({"coordinates": "box=none,box=pixels"}, "^--coordinates: box=… is given twice"),
    ({"resize_mode": "cover"}, "^--resize_mode cover needs --resize$"),
    ({"max_reject_fraction": 1.5}, "^--max_reject_fraction 1.5: expected 0 to 1$"),
    ({"on_damaged_file": "skip"}, "^--on_damaged_file skip: expected one of "),
    ({"max_reject_fraction": -0.1}, "^--max_reject_fraction -0.1: expected 0 to 1$"),
    ({"max_reject_fraction": float("nan")}, "^--max_reject_fraction nan: expected 0 to 1$"),
    ({"jpeg_quality": 0}, "^--jpeg_quality 0: expected 1 to 100$"),
    ({"jpeg_quality": 101}, "^--jpeg_quality 101: expected 1 to 100$"),
    ({"max_pixels": 0}, "^--max_pixels 0: expected a positive number$"),
    ({"jpeg_quality": 80}, "^--jpeg_quality 80 needs --resize or --image_format jpeg"),
    ({"jpeg_quality": 80, "image_format": "png"}, "^--jpeg_quality 80 needs --resize or --image_format jpeg"),
    ({"max_pixels": 9, "verify": "none"}, "^--max_pixels 9 contradicts --verify none"),
    ({"seed": 1, "no_shuffle": True}, "^--seed 1 contradicts --no_shuffle"),
    ({"threads": -1}, "^--threads -1: expected 0 "),
    ({"threads": 257}, "^--threads 257: expected 0 "),
    ({"seed": -1}, r"^--seed -1: expected 0 to 2\^64 - 1$"),
    ({"split_seed": 1 << 64}, r"^--split_seed 18446744073709551616: expected 0 to 2\^64 - 1$"),
]


@pytest.mark.parametrize(("values", "sentence"), MISTAKES)
def test_contradictions(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        config(**values)


@pytest.mark.parametrize(
    "values",
    [
        {"manifest": "gs://b/meta.csv", "allow_outside": True},
        {"splits": HALVES, "group_by": "user"},
        {"splits": HALVES, "stratify_by": "label", "split_shards": (("train", 3),)},
        {"split_shards": (("train", 3),), "shard_size": 100},
        {"num_shards": 99_999},
        {"labels": ("a",), "on_new_label": "reject"},
        {"resize": (4, 4), "resize_mode": "contain"},
        {"max_reject_fraction": 1.0, "seed": (1 << 64) - 1, "threads": 256},
    ],
)
def test_what_goes_together(values: dict[str, Any]) -> None:
    assert config(**values)


DEFAULT = ShardCount(size_bytes=DEFAULT_SHARD_SIZE)


@pytest.mark.parametrize(
    ("values", "name", "derived"),
    [
        ({}, "shard_counts", {"": DEFAULT}),
        ({"shard_size": 5}, "shard_counts", {"": ShardCount(size_bytes=5)}),
        ({"num_shards": 8}, "shard_counts", {"": ShardCount(8)}),
        ({"split_shards": (("test", 2),)}, "shard_counts", {"": DEFAULT, "test": ShardCount(2)}),
        ({"input": "photos/"}, "root", "photos"),
        ({"input": "photos/*/*.jpg"}, "root", "photos"),
        ({"manifest": "data/meta.csv"}, "root", "data"),
        ({"manifest": "meta.csv"}, "root", "."),
        ({"manifest": "/meta.csv"}, "root", "/"),
        ({"manifest": "gs://bucket/a/meta.csv"}, "root", "gs://bucket/a"),
        ({"annotations": "cvat=exported", "input": "pictures/"}, "root", "pictures"),
        ({"annotations": "cvat=exported", "input": None}, "root", "exported"),
        ({"output": "out/"}, "directory", "out/flowers/1.0.0"),
        ({"input": "a b"}, "source", "--input a b"),
        ({"manifest": "m.csv"}, "source", "--manifest m.csv"),
        ({"manifest": ["train=a.csv", "test=b.csv"]}, "line_resolver.paths", ("a.csv", "b.csv")),
        ({"manifest": "a.csv"}, "line_resolver", None),
        ({}, "reencode", None),
        ({"image_format": "jpeg", "jpeg_quality": 80}, "reencode", Reencode("jpeg", quality=80)),
        ({"resize": (4, 5), "resize_mode": "cover"}, "reencode", Reencode("", (4, 5), "cover")),
        ({}, "read_threads.number", 1),
        ({"threads": 5}, "read_threads.number", 5),
        ({"verify": "decode"}, "read_threads.number", 0),  # as many as the worker has cores
        ({"image_format": "png", "threads": 3}, "read_threads.number", 3),
        ({"input": "gs://bucket/photos/*.jpg"}, "read_threads.number", 64),
        ({"manifest": "m.csv", "allow_outside": True}, "read_threads.number", 64),
        ({"masks": "gs://bucket/masks"}, "read_threads.number", 64),
        ({}, "resolve_options.record_bytes", None),
    ],
)
def test_what_is_derived(values: dict[str, Any], name: str, derived: object) -> None:
    assert attrgetter(name)(config(**values)) == derived


def test_planned_sizes_of_resized_images() -> None:
    jpeg, png = (
        config(resize=(100, 200), image_format=name).resolve_options.record_bytes or 0 for name in ("jpeg", "png")
    )
    assert 0 < jpeg < png <= 100 * 200 * 3


CHANGES: dict[str, Any] = {
    **{"splits": HALVES, "seed": 1, "split_seed": 1, "no_shuffle": True, "shard_size": 5, "num_shards": 3},
    **{"split_shards": (("train", 2),), "balance": "bytes", "compression": "gzip", "labels": ("a",)},
    **{"verify": "decode", "image_format": "png", "resize": (4, 4), "jpeg_quality": 50, "max_pixels": 5},
    **{"max_reject_fraction": 0.5, "on_damaged_file": "reject"},
}


@pytest.mark.parametrize("name", CHANGES)
def test_what_shapes_the_output_stands_in_the_manifest(name: str) -> None:
    needed = {"image_format": "jpeg"} if name == "jpeg_quality" else {}
    changed = config(**needed, **{name: CHANGES[name]}).to_json()

    assert changed != config(**needed).to_json()
    json.dumps(changed)


@pytest.mark.parametrize("values", [{"output": "elsewhere"}, {"threads": 7}, {"overwrite": True}])
def test_what_does_not_shape_it_does_not(values: dict[str, Any]) -> None:
    assert config(**values).to_json() == config().to_json()
