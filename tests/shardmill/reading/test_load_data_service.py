"""load under tf.data service: a dispatcher and two workers in this process, in every processing mode."""

from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardmill
from shardmill.errors import UserError
from tests.support.later import Later
from tests.support.reading import FILLS, copy, shards

pytestmark = pytest.mark.slow

tf = Later("tensorflow")


@pytest.fixture(scope="module")
def service() -> Iterator[str]:
    """The address of a dispatcher with two workers."""
    of_service = tf.data.experimental.service
    dispatcher = of_service.DispatchServer()
    address = dispatcher.target.partition("://")[2]
    workers = [of_service.WorkerServer(of_service.WorkerConfig(address, heartbeat_interval_ms=50)) for _ in range(2)]
    yield dispatcher.target
    del workers, dispatcher


def distributed(dataset: Any, service: str, mode: Any) -> list[int]:
    """The feature `n` of all examples that the workers of the service read."""
    read = dataset.apply(tf.data.experimental.service.distribute(mode, service))
    return [
        int(n) for batch in read.as_numpy_iterator() for n in np.ravel(batch["n"] if isinstance(batch, dict) else batch)
    ]


def keep(features: Any, seed: Any) -> Any:
    return features


@pytest.mark.parametrize(
    "options",
    [
        {"features": ["n"], "batch_size": 3},
        {"features": ["n"]},
        {"features": ["n"], "batch_size": 3, "shuffle": False, "repeat": 2},
        {"features": ["n", "tokens"], "batch_size": 3, "augment": keep},
        {"features": ["n"], "num_workers": 2, "worker_index": 1},
        {"features": ["n"], "num_workers": 2, "worker_index": 1, "equal_parts": True},
        {"features": ["n"], "num_workers": 3, "worker_index": 0, "equal_parts": True, "batch_size": 4},
        {"batch_size": 3, "defaults": FILLS, "pad": True},
    ],
)
@pytest.mark.parametrize("mode", ["distributed_epoch", "parallel_epochs", "dynamic"])
def test_each_example_is_read_by_one_worker(rows: Path, service: str, mode: str, options: dict[str, Any]) -> None:
    policy = tf.data.experimental.service.ShardingPolicy
    dataset = shardmill.load(rows, supervised=False, data_service=True, **options)
    found = distributed(dataset, service, policy.DYNAMIC if mode == "dynamic" else mode)
    part = {name: value for name, value in options.items() if name in ("num_workers", "worker_index", "equal_parts")}
    once = sorted(int(example["n"]) for example in shardmill.examples(rows, features=["n"], **part))
    times = options.get("repeat", 1) * (2 if mode == "parallel_epochs" else 1)
    assert sorted(found) == sorted(chain(*[once] * times))


def test_a_worker_takes_two_shards_at_a_time(rows: Path, tmp_path: Path) -> None:
    """One that took all to fill a buffer would leave none to others."""
    directory = copy(rows, tmp_path)
    dataset = shardmill.load(
        directory, features=["n"], supervised=False, data_service=True, shuffle=False, batch_size=4
    )
    first_two = shardmill.info(directory).splits["train"].shards[:2]
    for shard in shards(directory)[2:]:
        shard.unlink()
    wanted = [int(example["n"]) for example in shardmill.examples(rows, features=["n"])]
    batches = sum(shard.examples for shard in first_two) // 4
    found = [int(n) for batch in dataset.take(batches) for n in batch.numpy()]
    assert len(found) == 4 * batches > 32
    assert set(found) <= set(wanted[: sum(shard.examples for shard in first_two)])


def test_a_shard_with_fewer_examples_is_an_error(rows: Path, service: str, tmp_path: Path) -> None:
    directory = copy(rows, tmp_path)
    dataset = shardmill.load(directory, features=["n"], supervised=False, data_service=True)
    shards(directory)[1].write_bytes(b"")
    with pytest.raises(tf.errors.OpError, match=r"expected to contain \d+ elements but contained only 0"):
        distributed(dataset, service, "distributed_epoch")


def test_without_the_option_only_parallel_epochs_work(rows: Path, service: str) -> None:
    """As the help of `data_service` says."""
    dataset = shardmill.load(rows, features=["n"], supervised=False, verify=False)
    assert len(distributed(dataset, service, "parallel_epochs")) == 2 * int(dataset.cardinality())
    with pytest.raises(tf.errors.OpError, match="elements but contained only"):
        distributed(dataset, service, "distributed_epoch")


@pytest.mark.parametrize("cache", [True, "file"])
def test_a_cache_is_refused(rows: Path, cache: bool | str) -> None:
    with pytest.raises(UserError, match=r"cache makes no sense with data_service=True: .*call cache\(\) on the distri"):
        shardmill.load(rows, features=["n"], data_service=True, cache=cache)


def test_what_is_distributed_can_be_cached(rows: Path, service: str) -> None:
    dataset = shardmill.load(rows, features=["n"], supervised=False, data_service=True)
    of_service = tf.data.experimental.service
    cached = dataset.apply(of_service.distribute("distributed_epoch", service)).cache()
    assert sorted(map(int, cached)) == sorted(map(int, cached)) == sorted(map(int, dataset))
