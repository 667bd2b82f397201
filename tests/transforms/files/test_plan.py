"""From planned files to shards: exact strata, path order, balanced shards, for any batches."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that

from shardmill.pipelines.jobs.runner import make_runner
from shardmill.transforms.columns.arrow import convert_batch
from shardmill.transforms.files.plan import AssignStrata, KeepOrder, PlanShards, distribute
from shardmill.transforms.files.references import PLANNED, sorted_by_key
from shardmill.transforms.shards.balance import ShardCount, ShardKey, shard_count
from shardmill.transforms.shards.divisions import Division, to_cuts

Row = dict[str, Any]
SPLITS, FRACTIONS = ("train", "validation", "test"), (Fraction(8, 10), Fraction(1, 10), Fraction(1, 10))
COUNTS = {"": ShardCount(7), "test": ShardCount(2)}


def rows(number: int, **values: Any) -> list[Row]:
    bits = random.Random(number)
    return [
        {
            "name": f"{index:05}.jpg",
            "size": 100 + index % 13,
            "uri": None,
            "label": None,
            "line": None,
            "columns": None,
            "split": "test" if index % 5 == 0 else "train",
            "key": bits.getrandbits(64),
            "tie": index,
            "stratum": None,
            "split_key": None,
            "identity": None,
        }
        | {name: value(index) if callable(value) else value for name, value in values.items()}
        for index in range(number)
    ]


def batches(planned: list[Row], size: int) -> list[pa.RecordBatch]:
    shuffled = random.Random(size).sample(planned, len(planned))
    parts = [shuffled[start : start + size] for start in range(0, len(shuffled), size)]
    return [convert_batch([[row[field.name] for row in part] for field in PLANNED], PLANNED) for part in parts]


def run(build: Callable[[Any], Any], parts: list[pa.RecordBatch], check: Callable[[list[Any]], None]) -> None:
    with beam.Pipeline(runner=make_runner(PipelineOptions([]))) as pipeline:
        planned = pipeline | beam.Create(parts).with_output_types(pa.RecordBatch) | beam.Reshuffle()
        assert_that(build(planned), check)


def by_shard(found: list[tuple[ShardKey, pa.RecordBatch]]) -> dict[ShardKey, pa.RecordBatch]:
    parts = defaultdict(list)
    for shard, batch in found:
        parts[shard].append(batch)
    return {shard: sorted_by_key(batches) for shard, batches in parts.items()}


def plan(balance: str) -> Callable[[Any], Any]:
    return lambda planned: (planned | PlanShards(partial(shard_count, COUNTS), balance))[0]


@pytest.mark.parametrize("balance", ["examples", "bytes"])
@pytest.mark.parametrize("size", [33, 5000])
def test_shards_are_balanced_and_hold_every_row_once(size: int, balance: str) -> None:
    planned = rows(1000)

    def check(found: list[tuple[ShardKey, pa.RecordBatch]]) -> None:
        shards = by_shard(found)
        assert shards.keys() == {("train", shard) for shard in range(7)} | {("test", shard) for shard in range(2)}
        for split in ("train", "test"):
            examples = [len(batch) for shard, batch in shards.items() if shard[0] == split]
            size_bytes = [sum(batch["size"].to_pylist()) for shard, batch in shards.items() if shard[0] == split]
            assert max(examples) - min(examples) <= 1 or balance == "bytes"
            assert max(size_bytes) - min(size_bytes) <= 112 or balance == "examples"
            ordered = [
                name for shard in sorted(shards) if shard[0] == split for name in shards[shard]["name"].to_pylist()
            ]
            expected = sorted((row["key"], row["name"]) for row in planned if row["split"] == split)
            assert ordered == [name for _, name in expected]

    run(plan(balance), batches(planned, size), check)


def test_more_shards_than_records() -> None:
    def check(found: list[tuple[ShardKey, pa.RecordBatch]]) -> None:
        assert sorted((shard, len(batch)) for shard, batch in by_shard(found).items()) == [
            (("train", n), 1) for n in range(3)
        ]

    run(plan("examples"), batches(rows(3, split="train"), 2), check)


def test_equal_keys_still_balance() -> None:
    def check(found: list[tuple[ShardKey, pa.RecordBatch]]) -> None:
        assert sorted(len(batch) for batch in by_shard(found).values()) == [14, 14, 14, 14, 14, 15, 15]

    run(plan("examples"), batches(rows(100, key=7, split="train"), 9), check)


@pytest.mark.parametrize("size", [17, 5000])
def test_strata_are_cut_exactly(size: int) -> None:
    sizes = {"rose": 100, "daisy": 37, "rare": 1, "": 5}
    strata = [name for name, number in sizes.items() for _ in range(number)]
    bits = random.Random(2)
    planned = rows(len(strata), stratum=strata.__getitem__, split_key=lambda _: bits.getrandbits(64), split="")

    def check(found: list[pa.RecordBatch]) -> None:
        given = {row["name"]: row for row in planned}
        counted: dict[str, Counter[str]] = defaultdict(Counter)
        for batch in found:
            assert batch.schema == PLANNED
            assert batch["stratum"].null_count == batch["split_key"].null_count == len(batch)
            for name, split in zip(batch["name"].to_pylist(), batch["split"].to_pylist(), strict=True):
                counted[given[name]["stratum"]][split] += 1
        assert counted == {
            "rose": {"train": 80, "validation": 10, "test": 10},
            "daisy": {"train": 30, "validation": 3, "test": 4},
            "rare": {"train": 1},
            "": {"train": 4, "validation": 1},
        }

    run(lambda pcoll: pcoll | AssignStrata(SPLITS, FRACTIONS), batches(planned, size), check)


@pytest.mark.parametrize("lines", [False, True])
def test_keep_order_is_that_of_lines_or_names(lines: bool) -> None:
    planned = rows(300, line=(lambda index: 1000 - index) if lines else None)

    def check(found: list[pa.RecordBatch]) -> None:
        ordered = sorted_by_key(found)["name"].to_pylist()
        assert ordered == sorted((row["name"] for row in planned), reverse=lines)

    run(lambda pcoll: pcoll | KeepOrder(), batches(planned, 70), check)


def test_kept_order_is_spread_over_the_histogram() -> None:
    def check(found: list[pa.RecordBatch]) -> None:
        keys = sorted_by_key(found)["key"].to_pylist()
        assert len({key >> 46 for key in keys}) == 300  # a bin each: 18 bits

    run(lambda pcoll: pcoll | KeepOrder(), batches(rows(300), 70), check)


def test_distribute_gives_each_shard_one_slice() -> None:
    (batch,) = batches(rows(100, key=lambda index: index), 100)
    divisions = {"train": Division(80, 0, to_cuts([(50, 0)])), "test": Division(20, 0, to_cuts([]))}

    shards = list(distribute(batch, divisions))

    assert len(shards) == 3
    assert {shard: len(part) for shard, part in shards} == {("train", 0): 40, ("train", 1): 40, ("test", 0): 20}


@pytest.mark.parametrize(
    ("split", "examples", "shards"),
    [("test", 100, 2), ("test", 1, 1), ("train", 100, 7), ("other", 100, 7), ("train", 0, 0)],
)
def test_shard_count_by_split(split: str, examples: int, shards: int) -> None:
    assert shard_count(COUNTS, split, examples, 10**6) == shards
