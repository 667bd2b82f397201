"""From planned files to shards; references between stages; from files found to files planned."""

import random
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.data import example
from shardmill.metadata.labels import ClassNames
from shardmill.metadata.manifest import Reject
from shardmill.pipelines.jobs.runner import make_runner
from shardmill.transforms.columns.arrow import convert_batch, to_batches
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.files.plan import AssignStrata, KeepOrder, PlanShards, distribute
from shardmill.transforms.files.references import PLANNED, PlanOptions, resolve_files, sort_by_key
from shardmill.transforms.inputs.folders import CLASSES, FolderRoles
from shardmill.transforms.inputs.found_files import FOUND, with_columns
from shardmill.transforms.layout.files import Layout
from shardmill.transforms.shards import balance
from shardmill.transforms.shards.balance import ShardCount, ShardKey, shard_count
from shardmill.transforms.shards.divisions import Division, to_cuts
from shardmill.transforms.workers.elements import RecordBatchCoder
from tests.support.grouped import grouped

Row = dict[str, Any]
SPLITS = (("train", Fraction(8, 10)), ("validation", Fraction(1, 10)), ("test", Fraction(1, 10)))
COUNTS = {"": ShardCount(7), "test": ShardCount(2)}


def rows(number: int, **values: Any) -> list[Row]:
    bits = random.Random(number)
    usual = {
        "name": "{:05}.jpg".format,
        "size": lambda index: 100 + index % 13,
        "split": lambda index: "test" if index % 5 == 0 else "train",
        "key": lambda _: bits.getrandbits(64),
        "tie": lambda index: index,
    }
    columns = dict.fromkeys(PLANNED.names) | usual | values
    return [
        {name: value(index) if callable(value) else value for name, value in columns.items()} for index in range(number)
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
    return {shard: sort_by_key(batches) for shard, batches in parts.items()}


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


@pytest.mark.parametrize(
    ("planned", "sizes"),
    [(rows(3, split="train"), [1, 1, 1]), (rows(100, key=7, split="train"), [14, 14, 14, 14, 14, 15, 15])],
    ids=["more shards than records", "equal keys"],
)
def test_few_records_and_few_keys(planned: list[Row], sizes: list[int]) -> None:
    def check(found: list[tuple[ShardKey, pa.RecordBatch]]) -> None:
        assert sorted(len(batch) for batch in by_shard(found).values()) == sizes

    run(plan("examples"), batches(planned, 9), check)


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

    split = grouped(splits=SPLITS, stratify_by="label")["split"]
    run(lambda pcoll: (pcoll | AssignStrata(split))[0], batches(planned, size), check)


@pytest.mark.parametrize("lines", [False, True])
def test_keep_order_is_that_of_lines_or_names(lines: bool) -> None:
    planned = rows(300, line=(lambda index: 1000 - index) if lines else None)

    def check(found: list[pa.RecordBatch]) -> None:
        ordered = sort_by_key(found)
        assert ordered["name"].to_pylist() == sorted((row["name"] for row in planned), reverse=lines)
        assert len({key >> 46 for key in ordered["key"].to_pylist()}) == 300  # a bin of the histogram each: 18 bits

    run(lambda pcoll: pcoll | KeepOrder(), batches(planned, 70), check)


def test_distribute_gives_each_shard_one_slice() -> None:
    (batch,) = batches(rows(100, key=lambda index: index), 100)
    divisions = {"train": Division(80, to_cuts([(50, 0)])), "test": Division(20, to_cuts([]))}

    shards = list(distribute(batch, divisions))

    assert len(shards) == 3
    assert {shard: len(part) for shard, part in shards} == {("train", 0): 40, ("train", 1): 40, ("test", 0): 20}


def test_shard_count_by_split() -> None:
    asked = [("test", 100), ("test", 1), ("train", 100), ("other", 100), ("train", 0)]
    assert [shard_count(COUNTS, split, examples, 10**6) for split, examples in asked] == [2, 1, 7, 7, 0]


NAME = st.none() | st.text(max_size=10)
FOUND_ROWS = st.lists(
    st.tuples(
        st.text(max_size=10),
        st.integers(0, 1 << 40),
        *(NAME, NAME, NAME),
        st.none() | st.integers(1, 1 << 40),
        st.none() | st.integers(0, (1 << 64) - 1),
    ),
    max_size=30,
)


def planned(keys: list[tuple[int, int]]) -> pa.RecordBatch:
    rows = [(f"{key}-{tie}", 1, None, 0, None, b"\0\xff", "train", key, tie, None, None, None) for key, tie in keys]
    return convert_batch([list(column) for column in zip(*rows)], PLANNED)


@given(FOUND_ROWS, st.integers(1, 8), st.data())
@settings(max_examples=60)
def test_batches_hold_the_rows_in_order_and_travel(rows: list[tuple[Any, ...]], size: int, data: st.DataObject) -> None:
    made, coder = list(to_batches(rows, FOUND, size)), RecordBatchCoder()

    assert all(len(batch) == size for batch in made[:-1])
    assert all(0 < len(batch) <= size for batch in made)
    assert [tuple(row.values()) for batch in made for row in batch.to_pylist()] == rows
    for batch in made:
        start = data.draw(st.integers(0, len(batch)))
        for value in (batch, batch.slice(start, data.draw(st.integers(0, len(batch) - start)))):
            decoded = coder.decode(coder.encode(value))
            assert decoded.equals(value)
            assert decoded.schema == FOUND


@pytest.mark.parametrize("rows", [0, 1, 1000])
def test_columns_without_a_value_keep_their_types(rows: int) -> None:
    coder = RecordBatchCoder()
    types = [pa.timestamp("ms", "UTC"), pa.decimal128(5, 2), pa.int8(), pa.list_(pa.int64()), pa.large_string()]
    of_user = pa.schema([(str(kind), kind) for kind in types], {"made": "by a program"})
    for schema in (FOUND, PLANNED, of_user):
        batch = pa.RecordBatch.from_arrays([pa.nulls(rows, field.type) for field in schema], schema=schema)
        decoded = coder.decode(coder.encode(batch))
        decoded.validate(full=True)
        assert decoded.equals(batch)
        assert decoded.schema.equals(schema, check_metadata=True)


def test_a_slice_does_not_carry_the_whole() -> None:
    batch = planned([(random.Random(1).getrandbits(64), index) for index in range(10_000)])
    coder = beam.coders.registry.get_coder(pa.RecordBatch)

    assert isinstance(coder, RecordBatchCoder)
    assert len(coder.encode(batch.slice(5000, 10))) < len(coder.encode(batch)) / 10


KEY = st.integers(0, 2) | st.integers(0, (1 << 64) - 1)


@given(st.lists(st.tuples(KEY, st.integers(0, 9)), min_size=1, max_size=40, unique=True), st.randoms())
@settings(max_examples=60)
def test_sorting_forgets_how_rows_arrived(keys: list[tuple[int, int]], shuffle: Any) -> None:
    shuffled = list(keys)
    shuffle.shuffle(shuffled)
    parts = [planned(shuffled[start : start + 7]) for start in range(0, len(keys), 7)]

    batch = sort_by_key(parts)

    assert batch.equals(planned(sorted(keys)))


SPLIT_FRACTIONS = (Fraction(8, 10), Fraction(2, 10))
TREE = Layout(("train", "test"), SPLIT_FRACTIONS, CLASSES, ClassNames(("ant", "bee")))
FOLDERS = Layout(("train", "test"), None, FolderRoles(0, 1), ClassNames(("ant", "bee")))
PLAIN = PlanOptions()
USER = {"user": ColumnType("bytes", None, 1)}

ResolveRow = tuple[Any, ...]


def file(name: str, size: int = 1000) -> ResolveRow:
    return name, size, None, None, None, None, None


def row(name: str, line: int, label: str | None = "ant", split: str | None = None) -> ResolveRow:
    return name, 1000, None, label, split, line, None


def resolved(
    rows: list[ResolveRow], layout: Layout = TREE, options: PlanOptions = PLAIN, **columns: list[Any]
) -> tuple[list[dict[str, Any]], list[Reject]]:
    (batch,) = to_batches(rows, FOUND)
    batch = with_columns(batch, {name: pa.array(values) for name, values in columns.items()})
    rejects, found = [], []
    for item in resolve_files(batch, layout, options):
        if isinstance(item, Reject):
            rejects.append(item)
        else:
            assert isinstance(item, pa.RecordBatch)
            assert item.schema == PLANNED
            found += item.to_pylist()
    return found, rejects


def test_keys_and_splits_are_those_of_the_name() -> None:
    names = [f"ant/{index}.jpg" for index in range(500)]
    found, _ = resolved([file(name) for name in names], options=PlanOptions(grouped(seed=3, split_seed=4)["split"]))
    order = balance.hash_strings(names, 3)
    splits = balance.assign_splits(balance.split_keys(names, 4), balance.split_thresholds(SPLIT_FRACTIONS))

    assert [row["key"] for row in found] == order.tolist()
    assert {row["tie"] for row in found} == {0}  # no name occurs twice
    assert [row["split"] for row in found] == [("train", "test")[index] for index in splits]


@pytest.mark.parametrize(
    ("options", "moved"),
    [(PlanOptions(grouped(seed=9)["split"]), "key"), (PlanOptions(grouped(split_seed=9)["split"]), "split")],
)
def test_each_seed_moves_its_own(options: PlanOptions, moved: str) -> None:
    rows = [file(f"ant/{index}.jpg") for index in range(200)]
    before, _ = resolved(rows)
    after, _ = resolved(rows, options=options)

    for column in ("key", "split"):
        assert ([row[column] for row in before] != [row[column] for row in after]) is (column == moved)


def test_folders_say_label_and_split() -> None:
    for names, layout, expected in (
        (["bee/1.jpg", "ant/2.jpg"], TREE, [1, 0]),
        (["Test/bee/1.jpg", "train/ant/2.jpg"], FOLDERS, [("test", 1), ("train", 0)]),
        (["1.jpg", "x/2.jpg"], replace(TREE, class_names=None), [None, None]),
    ):
        found, rejects = resolved(list(map(file, names)), layout)

        assert [(row["split"], row["label"]) if layout is FOLDERS else row["label"] for row in found] == expected
        assert not rejects


def test_a_manifest_says_the_split() -> None:
    layout = replace(TREE, splits=("train", "validation"), fractions=None)
    found, rejects = resolved([row("a", 2, split="VAL"), row("b", 3, split="train"), row("c", 4)], layout)

    assert [row["split"] for row in found] == ["validation", "train"]
    assert rejects == [Reject("c", 4, "index", NO_SPLIT)]


NO_LABEL = "no label: the file is in no class folder, or the column 'label' is empty"
NO_SPLIT = "no split: the file is in no split folder, or the column 'split' is empty"


@pytest.mark.parametrize(
    ("item", "layout", "good", "reason"),
    [
        (file("1.jpg"), TREE, "ant/2.jpg", NO_LABEL),
        (row("1.jpg", 2, None), TREE, "ant/2.jpg", NO_LABEL),
        (file("cow/1.jpg"), TREE, "ant/2.jpg", "class 'cow' is not in --labels_file"),
        (file("1.jpg"), replace(FOLDERS, class_names=None), "train/ant/2.jpg", NO_SPLIT),
    ],
)
def test_rejects(item: ResolveRow, layout: Layout, good: str, reason: str) -> None:
    found, rejects = resolved([item, file(good)], layout)

    assert [row["name"] for row in found] == [good]
    assert rejects == [Reject(item[0], item[5], "index", reason)]
    assert resolved([item], layout) == ([], rejects)


def test_a_group_stays_in_one_split_and_rows_without_one_are_groups_of_their_own() -> None:
    def splits(users: Callable[[int], str], grouped_by: str | None) -> list[str]:
        rows = [row(f"{index}.jpg", index + 2) for index in range(400)]
        options, user = PlanOptions(grouped(group_by=grouped_by)["split"]), list(map(users, range(400)))
        return [item["split"] for item in resolved(rows, replace(TREE, columns=USER), options, user=user)[0]]

    by_user = splits(lambda index: f"u{index % 20}", "user")
    assert by_user == by_user[:20] * 20
    assert set(by_user) == {"train", "test"}
    assert splits(lambda _: "", "user") == splits(lambda _: "", None)


def test_strata_keep_what_decides_their_split() -> None:
    rows = [row("a", 2, "ant"), row("b", 3, "bee"), row("c", 4, "ant")]
    found, _ = resolved(rows, options=PlanOptions(grouped(stratify_by="label", split_seed=5)["split"]))

    assert [item["stratum"] for item in found] == ["ant", "bee", "ant"]
    assert [item["split_key"] for item in found] == balance.split_keys(["a", "b", "c"], 5).tolist()
    assert [item["split"] for item in found] == ["", "", ""]
    assert all(item["stratum"] is item["split_key"] is None for item in resolved(rows)[0])


def test_two_rows_on_one_image_differ_by_their_tie() -> None:
    found, _ = resolved([row("a", 2), row("a", 3)], x=[1, 2])

    assert found[0]["key"] == found[1]["key"]
    assert found[0]["split"] == found[1]["split"]
    assert found[0]["tie"] != found[1]["tie"]


def test_columns_are_encoded() -> None:
    types = {"price": ColumnType("int64", None, 1)}
    rows = [row("a", 2), row("b", 3)]
    found, _ = resolved(rows, replace(TREE, columns=types), price=[7, None], unknown=["x", "y"])

    price = example.encode_entry("price", example.encode_int64_feature([7]))
    assert [item["columns"] for item in found] == [price, None]


def test_planned_sizes_grow_with_what_is_written() -> None:
    files = [file("ant/1.jpg", 1000), file("ant/1.jpg", 5000)]
    small, large = (row["size"] for row in resolved(files)[0])
    resized = [row["size"] for row in resolved(files, options=PlanOptions(record_bytes=300))[0]]

    assert large - small == 4000
    assert resized == [small - 700] * 2
    assert small > 1000
