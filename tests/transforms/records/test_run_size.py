"""Slices, a run's part of a shard, stay worth a request and are not too many, whatever the size of the data."""

from functools import partial

import pytest

from shardmill.transforms.records.staging import MAX_RUN_BYTES, MAX_SLICES, RunSize
from shardmill.transforms.shards.balance import ShardCount, estimate_shard_count

MIB, GIB, TIB = 1 << 20, 1 << 30, 1 << 40
DEFAULT = 16 * MIB


def run_size(count: ShardCount, remote: bool = False) -> RunSize:
    return RunSize(DEFAULT, partial(estimate_shard_count, {"": count}), remote)


@pytest.mark.parametrize("total", [0, 1, MIB, 200 * MIB, 2 * GIB, 30 * GIB])
@pytest.mark.parametrize("remote", [False, True])
def test_runs_are_blocks_as_long_as_there_are_few_shards(total: int, remote: bool) -> None:
    assert run_size(ShardCount(size_bytes=128 * MIB), remote)(total) == DEFAULT


@pytest.mark.parametrize("total", [GIB, 10 * GIB, 100 * GIB, TIB])
@pytest.mark.parametrize("shards", [10, 1000, 10_000])
def test_slices_are_worth_a_request_or_there_are_hardly_runs_enough(total: int, shards: int) -> None:
    size = run_size(ShardCount(number=shards), remote=True)(total)
    assert size / shards >= 64 << 10 or total / size <= 65 or size == MAX_RUN_BYTES
    assert total / size >= 64 or size == DEFAULT


@pytest.mark.parametrize("remote", [False, True])
def test_a_tebibyte_has_ten_million_slices(remote: bool) -> None:
    count = ShardCount(size_bytes=128 * MIB)
    size = run_size(count, remote)(TIB)
    slices = -(-TIB // size) * count.resolve(TIB, TIB)
    assert slices <= MAX_SLICES
    assert DEFAULT < size <= MAX_RUN_BYTES


def test_shards_are_those_of_all_splits() -> None:
    assert estimate_shard_count({"": ShardCount(7), "train": ShardCount(size_bytes=MIB)}, 10 * MIB) == 17
