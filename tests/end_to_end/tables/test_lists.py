"""Lists end to end: vectors, sequences and bounding boxes in tables and in manifests of images, in every reader."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shardmill
from shardmill.data.features import Feature
from shardmill.metadata import schema
from tests.support.command import Run, write_files
from tests.support.jobs import Jobs
from tests.support.table_results import Table, convert


def row(number: int) -> dict[str, Any]:
    """A vector of 5, a sequence, boxes, and corners of a fixed shape."""
    return {
        "id": number,
        "vector": [number / 4 + k for k in range(5)],
        "tokens": list(range(number % 4)),
        "boxes": [[k / 8, number / 64, 0.5, 1] for k in range(number % 3)],
        "corners": [[number, 1], [2, 3], [4, 5]],
        "captions": [f"“{number}”", "b"],
    }


ROWS = [row(number) for number in range(60)]
SHAPES = {"id": (), "vector": (5,), "tokens": (None,), "boxes": (None, 4), "corners": (3, 2), "captions": (2,)}
DTYPES = {
    "id": "int64",
    "vector": "float32",
    "tokens": "int64",
    "boxes": "float32",
    "corners": "int64",
    "captions": "bytes",
}


def lines(rows: list[Any]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def parquet(rows: list[dict[str, Any]], path: Path) -> None:
    boxes = pa.list_(pa.list_(pa.float32(), 4))
    columns = {name: pa.array([row[name] for row in rows], boxes if name == "boxes" else None) for name in SHAPES}
    pq.write_table(pa.table(columns), path, row_group_size=7)


@pytest.fixture(scope="session", params=["jsonl", "parquet"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Table:
    source = tmp_path_factory.mktemp(request.param)
    if request.param == "jsonl":
        write_files(source / "in", {"a.jsonl": lines(ROWS[:20]), "b.jsonl": lines(ROWS[20:])})
    else:
        (source / "in").mkdir()
        parquet(ROWS, source / "in" / "a.parquet")
    return convert(request.param, source / "in", source, "--num_shards", 3)


def check_values(found: dict[str, Any]) -> None:
    """Check that an example holds its row."""
    expected = ROWS[int(found["id"])]
    for name in SHAPES:
        texts = [text.encode() for text in expected[name]] if name == "captions" else None
        if texts is not None:
            assert list(found[name]) == texts
        else:
            wanted = np.array(expected[name], DTYPES[name]).reshape(
                [-1 if size is None else size for size in SHAPES[name]]
            )
            assert np.array_equal(np.reshape(found[name], wanted.shape), wanted), name


def test_features_and_values(table: Table) -> None:
    features = {feature.name: feature for feature in table.dataset.manifest.features}
    assert {name: feature.shape for name, feature in features.items()} == SHAPES
    assert {name: feature.dtype for name, feature in features.items()} == DTYPES
    assert all(feature.required for feature in features.values())
    assert sorted(found["id"] for found in table.rows) == list(range(60))
    for found in table.rows:
        check_values(found)
    boxes = table.stats()["boxes"]
    assert (boxes["max"], boxes["values_per_example"]["max"]) == (1, 8)


@pytest.mark.slow
def test_parse_example_reads_it_by_our_spec(table: Table) -> None:
    import tensorflow as tf

    spec = shardmill.feature_spec(table.directory)
    for path in table.directory.glob("*.tfrecord*"):
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            parsed = tf.io.parse_single_example(record, spec)
            dense = {name: tf.sparse.to_dense(v) if isinstance(v, tf.SparseTensor) else v for name, v in parsed.items()}
            check_values({name: getattr(value, "flat_values", value).numpy() for name, value in dense.items()})


@pytest.mark.slow
def test_our_readers_read_it(table: Table) -> None:
    found = list(shardmill.examples(table.directory))
    assert len(found) == 60
    for example in found:
        assert example["boxes"].shape == (int(example["id"]) % 3, 4)
        check_values({**example, "captions": [t.encode() if isinstance(t, str) else t for t in example["captions"]]})
    for loaded in shardmill.load(table.directory, supervised=False).as_numpy_iterator():
        check_values(loaded)


def test_verify_and_inspect(table: Table, run: Run) -> None:
    assert run("verify", table.directory).status == 0
    shown = run("inspect", table.directory)
    assert shown.status == 0
    assert "any number x 4" in shown.out
    assert "3 x 2" in shown.out


def test_fixed_shapes_hold_today_s_rows(jobs: Jobs) -> None:
    jobs.build("jsonl", files={"a.jsonl": lines(ROWS)})
    today = [*ROWS[:30], {**row(30), "corners": [[1, 2]]}, {**row(31), "vector": [1.0]}]
    flags = "--schema out/n/1.0.0/schema.pbtxt --max_reject_fraction 0.2 --version 1.0.1"
    advice = "; --json_columns corners stores JSON text, and --drop corners leaves the column out"
    assert jobs.build(f"jsonl {flags}", files={"a.jsonl": lines(today)}).reasons == {
        "a.jsonl:31": f"column 'corners': [[1, 2]] has 1 x 2 values, where 3 x 2 were expected{advice}",
        "a.jsonl:32": "column 'vector': 1 values, where 5 were expected",
    }


def test_an_array_in_a_schema_is_no_column(jobs: Jobs) -> None:
    text = schema.to_pbtxt((Feature("scan", "bytes", "array", (2,), element="int8"),))
    sentence = "--schema says that 'scan' is an array, which no column holds; --drop scan leaves it out"
    jobs.refuse("jsonl --schema in/s", sentence, files={"a.jsonl": '{"scan": "x"}\n', "s": text})
