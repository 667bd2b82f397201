"""The order that load gives examples in: shuffled or not, over epochs and workers, cached."""

import json
import os
import subprocess
import sys
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardmill
from tests.support.buckets import free_port
from tests.support.later import Later
from tests.support.reading import copy, count, make_rows, shards

pytestmark = pytest.mark.slow

tf = Later("tensorflow")

TRAINER = """
import json, sys
import tensorflow as tf
strategy = tf.distribute.MultiWorkerMirroredStrategy()
import shardmill
data = shardmill.load(sys.argv[1], features=["n"], supervised=False, batch_size=4)
found = []
for batch in strategy.experimental_distribute_dataset(data):
    found += [int(n) for n in tf.concat(strategy.experimental_local_results(batch), 0)]
open(sys.argv[2], "w").write(json.dumps(found))
"""


def numbers(dataset: Any) -> list[int]:
    """The feature `n` of a dataset that is read without any other, batched or not."""
    return [int(n) for batch in dataset.as_numpy_iterator() for n in np.ravel(batch)]


def read_numbers(directory: Path, **options: Any) -> list[int]:
    return numbers(shardmill.load(directory, features=["n"], supervised=False, **options))


def test_train_is_shuffled_and_others_come_in_order(rows: Path) -> None:
    in_order = [int(example["n"]) for example in shardmill.examples(rows, features=["n"])]
    assert read_numbers(rows, shuffle=False) == in_order
    assert read_numbers(rows, shuffle=False, batch_size=7) == in_order
    found = read_numbers(rows, batch_size=7)
    assert found != in_order
    assert sorted(found) == sorted(in_order)
    test = [int(example["n"]) for example in shardmill.examples(rows, "test", features=["n"])]
    assert read_numbers(rows, split="test") == test
    assert read_numbers(rows, split="test", shuffle=True, seed=1) != test


def test_a_seed_makes_the_order_and_epochs_differ(rows: Path) -> None:
    def epochs(**options: Any) -> list[list[int]]:
        dataset = shardmill.load(rows, features=["n"], supervised=False, batch_size=5, **options)
        return [numbers(dataset), numbers(dataset)]

    assert epochs(seed=1) == epochs(seed=1)
    orders = [tuple(order) for seed in (1, 2) for order in epochs(seed=seed)]
    orders.append(tuple(read_numbers(rows, seed=1, shuffle_buffer_size=1)))
    assert len(set(orders)) == 5


@pytest.mark.parametrize(
    ("options", "cardinality"),
    [
        ({"batch_size": 7}, lambda n: -(-n // 7)),
        ({"batch_size": 7, "drop_remainder": True}, lambda n: n // 7),
        ({"batch_size": 7, "repeat": 3}, lambda n: -(-3 * n // 7)),
        ({"batch_size": 7, "repeat": True}, lambda n: tf.data.INFINITE_CARDINALITY),
        ({"batch_size": 7, "cache": True}, lambda n: -(-n // 7)),
        ({"repeat": 2}, lambda n: 2 * n),
    ],
)
@pytest.mark.parametrize("kind", ["augmented", "cached images"])
def test_cardinality(kind: str, options: dict[str, Any], cardinality: Any, rows: Path, flowers: Path) -> None:
    directory = flowers if "images" in kind else rows
    extra: dict[str, Any] = {"image_size": (4, 4)} if "images" in kind else {"features": ["n"]}
    if kind == "augmented":
        extra["augment"] = lambda features, seed: features
    if kind == "cached images":
        extra["cache"] = True

    dataset = shardmill.load(directory, **{**extra, **options})

    expected = cardinality(count(directory))
    assert dataset.cardinality() == expected
    if expected != tf.data.INFINITE_CARDINALITY:
        assert sum(1 for _ in dataset) == expected
    else:
        assert sum(1 for _ in dataset.take(40)) == 40


def test_epochs_do_not_mix(rows: Path) -> None:
    found = read_numbers(rows, repeat=2)

    assert sorted(found[: count(rows)]) == sorted(found[count(rows) :])


@pytest.mark.parametrize("in_file", [True, False])
@pytest.mark.parametrize("kind", ["rows", "flowers"])
def test_cache(kind: str, in_file: bool, rows: Path, flowers: Path, tmp_path: Path) -> None:
    directory = copy(rows if kind == "rows" else flowers, tmp_path)
    cache = str(tmp_path / "cache") if in_file else True
    options: dict[str, Any] = {"features": ["n"]} if kind == "rows" else {"image_size": (4, 4)}
    dataset = shardmill.load(directory, batch_size=10, cache=cache, seed=3, **options)

    first = [label.numpy().tolist() for _, label in dataset]
    for shard in shards(directory):
        shard.unlink()
    second = [label.numpy().tolist() for _, label in dataset]

    assert first != second
    assert sorted(chain(*first)) == sorted(chain(*second))
    assert list(tmp_path.glob("cache*")) != [] or not in_file


OTHER_CALLS: list[tuple[str, dict[str, Any]]] = [
    ("rows", {"num_workers": 2, "worker_index": 1}),
    ("flowers", {"num_workers": 2, "worker_index": 0, "equal_parts": True}),
    ("flowers", {"seed": 4}),
    ("flowers", {"image_size": (6, 6), "image_dtype": "uint8"}),
    ("flowers", {"features": ["image", "filename"]}),
    ("rows", {"features": ["word"], "defaults": None}),
    ("rows", {"label": "word", "features": ["n"], "supervised": True, "defaults": None}),
    ("rows", {"defaults": {"age": 7, "note": "other"}}),
    ("rows", {"pad": True, "features": ["n", "tokens"], "batch_size": 5, "defaults": {"tokens": -3}}),
    ("rows", {"repeat": 2}),
    ("rows", {"augment": lambda features: features}),
]


@pytest.mark.parametrize(("kind", "other"), OTHER_CALLS, ids="-".join)
def test_a_cache_file_is_read_by_the_same_call_only(
    kind: str, other: dict[str, Any], rows: Path, flowers: Path, tmp_path: Path
) -> None:
    usual: dict[str, Any] = {"image_size": (4, 4)}
    if kind == "rows":
        usual = {"features": ["n", "age", "note"], "defaults": {"age": -1, "note": "none"}, "supervised": False}
        usual["shuffle"] = False

    def read(**options: Any) -> list[Any]:
        dataset = shardmill.load(
            flowers if kind == "flowers" else rows, **{**usual, "cache": str(tmp_path / "cache"), **options}
        )
        return [tf.nest.map_structure(lambda value: value.numpy(), each) for each in dataset]

    read()
    found, expected = read(**other), read(**other, cache=False)

    tf.nest.assert_same_structure(found, expected)
    for one, two in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        np.testing.assert_array_equal(one, two)


def test_a_cache_file_holds_one_version(tmp_path: Path) -> None:
    """Also one that was replaced by another of its number."""
    cache = str(tmp_path / "cache")
    for number, flags in ((5, ()), (7, ("--overwrite",))):
        directory = make_rows(tmp_path, "--num_shards", 2, *flags, rows=number)
        assert sorted(read_numbers(directory, cache=cache)) == list(range(number))
        assert sorted(read_numbers(directory, cache=cache)) == list(range(number))


def test_a_cache_file_holds_one_split(rows: Path, tmp_path: Path) -> None:
    cache = str(tmp_path / "cache")
    assert read_numbers(rows, cache=cache) != read_numbers(rows, split="test", cache=cache)
    assert read_numbers(rows, split="test", cache=cache) == read_numbers(rows, split="test")
    assert len(list(tmp_path.glob("cache-*.index"))) == 2


def test_processes_share_all_examples_without_a_seed(rows: Path) -> None:
    from tensorflow.python.data.experimental.ops.distribute import _AutoShardDataset

    parts = [
        numbers(_AutoShardDataset(shardmill.load(rows, features=["n"], supervised=False), 2, worker))
        for worker in range(2)
    ]

    assert sorted(chain(*parts)) == sorted(read_numbers(rows))


def test_two_trainers_share_all_examples_without_a_seed(rows: Path, tmp_path: Path) -> None:
    ports = [free_port(), free_port()]
    cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    trainers = []
    for index in range(2):
        configuration = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
        command = [sys.executable, "-c", TRAINER, str(rows), str(tmp_path / str(index))]
        trainers.append(subprocess.Popen(command, env={**os.environ, "TF_CONFIG": configuration}))
    assert [trainer.wait() for trainer in trainers] == [0, 0]

    parts = [json.loads((tmp_path / str(index)).read_text()) for index in range(2)]
    assert sorted(chain(*parts)) == sorted(read_numbers(rows))


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("workers", [2, 7])
@pytest.mark.filterwarnings("ignore:split 'train' has 4 shards for 7 workers")
def test_each_example_is_on_one_worker(rows: Path, workers: int, shuffle: bool) -> None:
    parts = [
        read_numbers(rows, shuffle=shuffle, batch_size=3, num_workers=workers, worker_index=worker)
        for worker in range(workers)
    ]

    assert all(parts)
    assert sorted(chain(*parts)) == sorted(read_numbers(rows))


def test_options_of_tf_data(rows: Path) -> None:
    policy = tf.data.experimental.AutoShardPolicy
    alone = shardmill.load(rows, features=["n"]).options()
    assert alone.experimental_distribute.auto_shard_policy == policy.DATA
    assert alone.deterministic is True
    assert alone.autotune.enabled is False
    shared = shardmill.load(
        rows, features=["n"], num_workers=2, seed=1, num_parallel_calls=1, prefetch_buffer_size=1
    ).options()
    assert shared.experimental_distribute.auto_shard_policy == policy.OFF
    assert shared.deterministic is True
