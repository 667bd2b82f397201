"""From files found to files planned: split, label, key and size of each."""

import json
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest

from shardmill.metadata.labels import ClassNames
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.arrow import to_batches
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.files.references import PLANNED, PlanOptions, encode_columns, resolve_files
from shardmill.transforms.inputs.folders import CLASSES, SPLITS_OF_CLASSES
from shardmill.transforms.inputs.found_files import FOUND
from shardmill.transforms.layout.files import Layout
from shardmill.transforms.shards import balance
from tests.support.grouped import grouped

FRACTIONS = (Fraction(8, 10), Fraction(2, 10))
TREE = Layout(("train", "test"), FRACTIONS, CLASSES, ClassNames(("ant", "bee")))
FOLDERS = Layout(("train", "test"), None, SPLITS_OF_CLASSES, ClassNames(("ant", "bee")))
PLAIN = PlanOptions()
USER = {"user": ColumnType("bytes", None, 1)}

Row = tuple[Any, ...]


def file(name: str, size: int = 1000) -> Row:
    return name, size, None, None, None, None, None, None


def row(name: str, line: int, label: str | None = "ant", split: str | None = None, **columns: Any) -> Row:
    return name, 1000, None, label, split, line, json.dumps(columns), None


def planned(
    rows: list[Row], layout: Layout = TREE, options: PlanOptions = PLAIN
) -> tuple[list[dict[str, Any]], list[Reject]]:
    (batch,) = to_batches(rows, FOUND)
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
    found, _ = planned([file(name) for name in names], options=PlanOptions(grouped(seed=3, split_seed=4)["split"]))
    order = balance.hash_strings(names, 3)
    splits = balance.assign_splits(balance.split_keys(names, 4), balance.split_thresholds(FRACTIONS))

    assert [row["key"] for row in found] == order.tolist()
    assert {row["tie"] for row in found} == {0}  # no name occurs twice
    assert [row["split"] for row in found] == [("train", "test")[index] for index in splits]


@pytest.mark.parametrize(
    ("options", "moved"),
    [(PlanOptions(grouped(seed=9)["split"]), "key"), (PlanOptions(grouped(split_seed=9)["split"]), "split")],
)
def test_each_seed_moves_its_own(options: PlanOptions, moved: str) -> None:
    rows = [file(f"ant/{index}.jpg") for index in range(200)]
    before, _ = planned(rows)
    after, _ = planned(rows, options=options)

    for column in ("key", "split"):
        assert ([row[column] for row in before] != [row[column] for row in after]) is (column == moved)


def test_labels_are_ids() -> None:
    found, rejects = planned([file("bee/1.jpg"), file("ant/2.jpg")])

    assert [row["label"] for row in found] == [1, 0]
    assert not rejects


def test_folders_say_the_split() -> None:
    found, _ = planned([file("Test/bee/1.jpg"), file("train/ant/2.jpg")], FOLDERS)

    assert [(row["split"], row["label"]) for row in found] == [("test", 1), ("train", 0)]


def test_a_manifest_says_the_split() -> None:
    layout = replace(TREE, splits=("train", "validation"), fractions=None)
    found, rejects = planned([row("a", 2, split="VAL"), row("b", 3, split="train"), row("c", 4)], layout)

    assert [row["split"] for row in found] == ["validation", "train"]
    assert [(reject.source, reject.line, reject.reason) for reject in rejects] == [
        ("c", 4, "no split: the file is in no split folder, or the column 'split' is empty")
    ]


@pytest.mark.parametrize(
    ("item", "layout", "reason"),
    [
        (file("1.jpg"), TREE, "no label: the file is in no class folder, or the column 'label' is empty"),
        (row("1.jpg", 2, None), TREE, "no label: the file is in no class folder, or the column 'label' is empty"),
        (file("cow/1.jpg"), TREE, "class 'cow' is not in --labels_file"),
        (
            file("1.jpg"),
            replace(FOLDERS, class_names=None),
            "no split: the file is in no split folder, or the column 'split' is empty",
        ),
    ],
)
def test_rejects(item: Row, layout: Layout, reason: str) -> None:
    found, rejects = planned(
        [item, file("train/ant/2.jpg") if layout.folders.split is not None else file("ant/2.jpg")], layout
    )

    assert [row["name"] for row in found] == ["train/ant/2.jpg" if layout.folders.split is not None else "ant/2.jpg"]
    assert rejects == [Reject(item[0], item[5], "index", reason)]


def test_no_batch_where_all_are_rejected() -> None:
    assert planned([file("1.jpg"), file("2.jpg")])[0] == []


def test_unlabelled() -> None:
    found, rejects = planned([file("1.jpg"), file("x/2.jpg")], replace(TREE, class_names=None))

    assert [row["label"] for row in found] == [None, None]
    assert not rejects


def test_a_group_stays_in_one_split() -> None:
    rows = [row(f"{index}.jpg", index + 2, user=f"u{index % 20}") for index in range(400)]
    found, _ = planned(rows, replace(TREE, columns=USER), PlanOptions(grouped(group_by="user")["split"]))
    splits: dict[int, set[str]] = {}
    for index, item in enumerate(found):
        splits.setdefault(index % 20, set()).add(item["split"])

    assert all(len(found) == 1 for found in splits.values())
    assert {split for found in splits.values() for split in found} == {"train", "test"}


def test_rows_without_a_group_are_groups_of_their_own() -> None:
    rows = [row(f"{index}.jpg", index + 2, user="") for index in range(200)]
    found, _ = planned(rows, replace(TREE, columns=USER), PlanOptions(grouped(group_by="user")["split"]))

    assert [item["split"] for item in found] == [item["split"] for item in planned(rows)[0]]


def test_strata_keep_what_decides_their_split() -> None:
    rows = [row("a", 2, "ant"), row("b", 3, "bee"), row("c", 4, "ant")]
    found, _ = planned(rows, options=PlanOptions(grouped(stratify_by="label", split_seed=5)["split"]))

    assert [item["stratum"] for item in found] == ["ant", "bee", "ant"]
    assert [item["split_key"] for item in found] == balance.split_keys(["a", "b", "c"], 5).tolist()
    assert [item["split"] for item in found] == ["", "", ""]
    assert all(item["stratum"] is item["split_key"] is None for item in planned(rows)[0])


def test_two_rows_on_one_image_differ_by_their_tie() -> None:
    found, _ = planned([row("a", 2, x=1), row("a", 3, x=2)])

    assert found[0]["key"] == found[1]["key"]
    assert found[0]["split"] == found[1]["split"]
    assert found[0]["tie"] != found[1]["tie"]


def test_columns_are_encoded() -> None:
    types = {"price": ColumnType("int64", None, 1)}
    found, _ = planned([row("a", 2, price="7"), row("b", 3)], replace(TREE, columns=types))

    assert [item["columns"] for item in found] == [encode_columns({"price": "7"}, types), None]


def test_planned_sizes_grow_with_what_is_written() -> None:
    small, large = planned([file("ant/1.jpg", 1000), file("ant/1.jpg", 5000)])[0]
    resized, other = planned([file("ant/1.jpg", 1000), file("ant/1.jpg", 5000)], options=PlanOptions(record_bytes=300))[
        0
    ]

    assert large["size"] - small["size"] == 4000
    assert resized["size"] == other["size"] == small["size"] - 700
    assert small["size"] > 1000
