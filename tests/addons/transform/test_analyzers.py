"""Tests of addons/transform/analyzers.py."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.addons.transform import analyzers
from shardmill.addons.transform.analyses import DeclaredAnalysis
from shardmill.addons.transform.analyzers import COUNT_SCHEMA, Constants, Gathered, Gatherer, find_constants
from shardmill.addons.transform.graph_process import GraphProcess, graph_process, prestarted
from shardmill.addons.transform.preprocessing_sources import drift_notices, measure_drift, parse_transform
from shardmill.data.features import NO_RENAMES
from shardmill.errors import JobError
from shardmill.metadata.tfds_metadata import TransformedOutput, TransformFile
from tests.support.processes import is_there

TRANSFORM = b"""\
x: z_score
y: {fill: 5, min_max: [0, 1]}
t: [lower, tokenize, {vocabulary: {top_k: 3}}]
n:
  - {vocabulary: {frequency_threshold: 2}, output: n_id}
  - {bucketize: {num_buckets: 4}, output: n_bucket}
  - {log1p: true, z_score: true, output: n_log}
l: vocabulary
"""
SPLITS = ("train", "test")


def analysis(text: bytes = TRANSFORM, splits: tuple[str, ...] = ("train",)) -> DeclaredAnalysis:
    declaration = parse_transform(text, "t.yaml")
    return DeclaredAnalysis(flag="--transform", renames=NO_RENAMES, declaration=declaration, splits=splits)


def examples(rows: int = 600, seed: int = 0) -> pa.RecordBatch:
    rng = np.random.default_rng(seed)
    texts = [" ".join(rng.choice(["The", "cat", "sat", "ON", "mats"], rng.integers(0, 5))) for _ in range(rows)]
    lists = [None if row % 7 == 0 else [f"{value}" for value in rng.integers(0, 3, row % 4)] for row in range(rows)]
    x = rng.normal(1e6, 1, rows).astype(np.float32)
    return pa.record_batch(
        {
            "x": pa.array([None if row % 5 == 0 else float(value) for row, value in enumerate(x)], pa.float32()),
            "y": pa.array([None if row % 3 == 0 else row % 11 for row in range(rows)], pa.int64()),
            "t": pa.array(texts, pa.large_binary()),
            "n": pa.array(rng.integers(0, 40, rows)),
            "l": pa.array(lists, pa.large_list(pa.large_binary())),
        }
    )


def groups_of(batch: pa.RecordBatch) -> np.ndarray:
    return (np.arange(len(batch)) % 4 == 3).astype(np.int64)


def found(what: DeclaredAnalysis, folder: Path, batch: pa.RecordBatch, step: int = 600) -> tuple[Gathered, Any]:
    groups = groups_of(batch)
    whole = Gathered()
    for first in reversed(range(0, len(batch), 2 * step)):
        gatherer = Gatherer(what.declaration, what.splits, str(folder))
        for start in (first, first + step):
            gatherer.add_groups(batch.slice(start, step), groups[start : start + step], SPLITS)
        whole.merge(gatherer.close())
    return whole, told(find_constants(what, whole))


def told(constants: dict[str, Constants]) -> Any:
    return {
        output: (dict(found.numbers), found.entries and found.entries.to_pydict(), dict(found.unknown_counts))
        for output, found in constants.items()
    }


def test_they_are_what_python_finds_in_the_training_split(tmp_path: Path) -> None:
    batch = examples()
    rows = [row for row, group in zip(batch.to_pylist(), groups_of(batch)) if group == 0]

    _, constants = found(analysis(), tmp_path, batch)

    x = [row["x"] for row in rows if row["x"] is not None]
    assert constants["x"][0] == {
        "mean": pytest.approx(fmean(x), rel=1e-15),
        "std_dev": pytest.approx(pstdev(x), rel=1e-12),
        "values": len(x),
    }
    assert constants["y"][0] == {"minimum": 0, "maximum": 10, "values": len(rows)}
    tokens = Counter(token for row in rows for token in row["t"].lower().split())
    first = sorted(tokens.items(), key=lambda item: (-item[1], item[0]))[:3]
    assert constants["t"][1] == {"value": [key for key, _ in first], "count": [number for _, number in first]}
    ids = Counter(str(row["n"]).encode() for row in rows)
    ordered = sorted(ids.items(), key=lambda item: (-item[1], item[0]))
    assert constants["n_id"][1]["value"] == [key for key, number in ordered if number >= 2]
    numbers = sorted(row["n"] for row in rows)
    assert constants["n_bucket"][0]["boundaries"] == tuple(numbers[len(numbers) * part // 4] for part in (1, 2, 3))
    logs = [float(np.float32(np.log1p(number))) for number in numbers]
    assert constants["n_log"][0]["mean"] == pytest.approx(fmean(logs), rel=1e-14)
    values = Counter(value for row in rows for value in row["l"] or ())
    assert dict(zip(*constants["l"][1].values())) == values


def test_what_is_out_of_a_vocabulary_is_counted_by_split(tmp_path: Path) -> None:
    batch = examples()

    _, constants = found(analysis(), tmp_path, batch)

    known = set(constants["t"][1]["value"])
    for code, split in enumerate(SPLITS):
        mine = [row for row, group in zip(batch.to_pylist(), groups_of(batch)) if group == code]
        tokens = [token for row in mine for token in row["t"].lower().split()]
        assert constants["t"][2][split] == (len(tokens), sum(token not in known for token in tokens))


@pytest.mark.parametrize("step", [7, 100])
def test_batches_and_their_order_do_not_show(tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    batch = examples()
    _, whole = found(analysis(), tmp_path / "whole", batch)
    monkeypatch.setattr(analyzers, "MAX_COUNTS_HELD", 3)  # all is merged and written several times
    monkeypatch.setattr(analyzers, "MAX_KEY_BYTES_HELD", 100)
    monkeypatch.setattr(analyzers, "COUNT_BYTES_AT_ONCE", 1)  # and parts are merged one at a time

    gathered, parted = found(analysis(), tmp_path / "parted", batch, step)

    assert parted == whole
    assert len({section.path for section in gathered.spilled}) > 6
    assert len(analyzers.part_ranges(gathered.spilled, 1)) == analyzers.PARTS


def test_other_splits_do_not_show(tmp_path: Path) -> None:
    batch, other = examples(), examples(seed=9)
    in_train = pa.array(groups_of(batch) == 0)
    mixed = pa.record_batch(
        [pa.compute.if_else(in_train, mine, its) for mine, its in zip(batch.columns, other.columns)],
        schema=batch.schema,
    )

    _, before = found(analysis(), tmp_path / "before", batch)
    _, after = found(analysis(), tmp_path / "after", mixed)

    assert mixed != batch
    assert {key: value[:2] for key, value in before.items()} == {key: value[:2] for key, value in after.items()}
    assert before["n_id"][2]["train"] == after["n_id"][2]["train"]


def test_splits_that_are_named_are_analyzed_too(tmp_path: Path) -> None:
    _, train = found(analysis(), tmp_path / "train", examples())
    _, both = found(analysis(splits=SPLITS), tmp_path / "both", examples())

    assert both["x"][0]["values"] > train["x"][0]["values"]
    assert sum(both["n_id"][1]["count"]) > sum(train["n_id"][1]["count"])
    assert both["n_bucket"] != train["n_bucket"]


def test_numbers_that_are_none_are_not_analyzed(tmp_path: Path) -> None:
    what = analysis(b"x: [{z_score: true, output: z}, {bucketize: {num_buckets: 2}, output: b}]")
    gatherer = Gatherer(what.declaration, what.splits, str(tmp_path))
    gatherer.add(pa.record_batch({"x": pa.array([1.0, float("nan"), 3.0, float("inf")], pa.float32())}), "train", 2)

    constants = find_constants(what, gatherer.close())

    assert constants["z"].numbers == {"mean": 2.0, "std_dev": 1.0, "values": 2}
    assert constants["b"].numbers == {"boundaries": (3.0,)}


def test_what_cannot_be_a_line_is_no_entry(tmp_path: Path) -> None:
    what = analysis(b"t: vocabulary")
    gatherer = Gatherer(what.declaration, what.splits, str(tmp_path))
    values = [b"a", b"", b"two\nlines", b"b\r", b"a", b"\xff\x00"]
    gatherer.add(pa.record_batch({"t": pa.array(values, pa.large_binary())}), "train", 2)

    vocabulary = find_constants(what, gatherer.close())["t"]

    assert vocabulary.entries is not None
    assert vocabulary.entries["value"].to_pylist() == [b"a", b"\xff\x00"]
    assert vocabulary.unknown_counts == {"train": (6, 3)}
    assert b"".join(map(bytes, analyzers.vocabulary_lines(vocabulary.entries))) == b"a\n\xff\x00\n"


@pytest.mark.parametrize(
    ("text", "values", "sentence"),
    [
        (b"x: z_score", [None, None], "t.yaml line 1: feature 'x': z_score: no example of the analyzed splits has a"),
        (b"x: scale_0_1", [None], "min_max: no example of the analyzed splits has a value"),
        (b"x: {bucketize: {num_buckets: 3}}", [None], "bucketize: no example of the analyzed splits has a value"),
        (b"x: z_score", [2.5, 2.5, None], "z_score: all 2 values are 2.5, which cannot be scaled"),
        (b"x: scale_0_1", [2.5], "min_max: all 1 values are 2.5"),
        (
            b"x: z_score",
            [],
            "no example is in split 'train', from which constants are computed; .* test; --analyze_splits",
        ),
    ],
)
def test_constants_that_cannot_be_taken(tmp_path: Path, text: bytes, values: list[float | None], sentence: str) -> None:
    what = analysis(text)
    gatherer = Gatherer(what.declaration, what.splits, str(tmp_path))
    gatherer.add(pa.record_batch({"x": pa.array(values, pa.float32())}), "train", len(values))
    gatherer.add(pa.record_batch({"x": pa.array([1.0, 2.0], pa.float32())}), "test", 2)

    with pytest.raises(JobError, match=sentence):
        find_constants(what, gatherer.close())


def test_a_vocabulary_without_an_entry_is_none(tmp_path: Path) -> None:
    what = analysis(b"x: {vocabulary: {frequency_threshold: 2}}")
    gatherer = Gatherer(what.declaration, what.splits, str(tmp_path))
    gatherer.add(pa.record_batch({"x": pa.array([b"a", b"b"], pa.large_binary())}), "train", 2)

    with pytest.raises(JobError, match="none of 2 values is a vocabulary's entry at frequency_threshold 2"):
        find_constants(what, gatherer.close())


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1), st.integers(2, 20))
def test_quantiles_are_exact(numbers: list[float], buckets: int) -> None:
    keys = analyzers.numbers_to_keys(np.array(numbers, np.float32) + np.float32(0))
    ordered = sorted(np.float32(number) for number in numbers)

    half = len(keys) // 2
    boundaries = analyzers.quantile_boundaries(buckets, lambda: [keys[half:], keys[:half]])

    assert boundaries == tuple(float(ordered[len(ordered) * part // buckets]) for part in range(1, buckets))


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_keys_are_ordered_as_their_numbers(numbers: list[float]) -> None:
    array = np.array(numbers, np.float32) + np.float32(0)
    keys = analyzers.numbers_to_keys(array)

    assert np.array_equal(analyzers.keys_to_numbers(keys), array)
    assert np.array_equal(np.sort(array), analyzers.keys_to_numbers(np.sort(keys)))


def entries(*values: bytes) -> pa.Table:
    return pa.table([pa.array(values, pa.large_binary()), pa.array([0] * len(values), pa.int64())], schema=COUNT_SCHEMA)


FORMER = {
    "age": Constants({"mean": 10.0, "std_dev": 2.0}),
    "fare": Constants({"minimum": 0, "maximum": 9}),
    "size": Constants({"minimum": 0, "maximum": 9}),
    "rooms": Constants({"boundaries": (2.0, 4.0)}),
    "city": Constants({"entries": 3}, entries(b"a", b"b", b"c")),
}
NEW = {
    "age": Constants({"mean": 9.0, "std_dev": 1.0}),
    "fare": Constants({"minimum": -1, "maximum": 8}),
    "size": Constants({"minimum": 1, "maximum": 8}),
    "rooms": Constants({"boundaries": (2.0, 5.0)}),
    "city": Constants({"entries": 2}, entries(b"d", b"b")),
}


def test_what_would_have_changed_is_said() -> None:
    outputs = tuple(
        TransformedOutput(name, name, (), FORMER[name].numbers, drift=measure_drift(FORMER[name], NEW[name]))
        for name in NEW
    )

    assert list(drift_notices(TransformFile({"train": 9}, outputs, "d 1.0.0"))) == [
        "the constants of transformed features are those of d 1.0.0",
        "age: the mean is 9, 0.5 standard deviations below that of d 1.0.0",
        "fare: values are from -1 to 8; in d 1.0.0 they were from 0 to 9",
        "rooms: the boundaries of buckets would be 2, 5",
        "city: 1 of 2 entries would be those of d 1.0.0",
    ]
    assert list(drift_notices(TransformFile({"train": 9}, ()))) == []


def test_it_is_read_back() -> None:
    output = TransformedOutput("age", "age", ({"z_score": {}},), {"mean": 1.0}, drift={"shift": 0.5})
    file = TransformFile({"train": 9}, (output,), "d 1.0.0")

    assert TransformFile.from_json(file.to_json(), "transform.json") == file


FOLDERS = "shardmill-transform-*"


def test_the_process_that_was_begun_ahead_is_taken_once() -> None:
    with prestarted():
        with prestarted(), graph_process() as first:
            assert first.folder.is_dir()
        with graph_process() as second:
            assert second.pid != first.pid
    assert not is_there(first.pid)
    assert not first.folder.exists()


def test_one_that_nobody_takes_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with prestarted():
        assert len(list(tmp_path.glob(FOLDERS))) == 1
    assert list(tmp_path.glob(FOLDERS)) == []


def test_it_ends_with_whoever_began_it(tmp_path: Path) -> None:
    program = (
        "import time; from shardmill.addons.transform.graph_process import GraphProcess as G; p = G(); print(p.pid)"
    )
    launcher = subprocess.Popen(
        [sys.executable, "-u", "-c", f"{program}; time.sleep(600)"],
        stdout=subprocess.PIPE,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )
    with launcher:
        assert launcher.stdout is not None
        pid = int(launcher.stdout.readline())
        launcher.send_signal(signal.SIGKILL)
    while is_there(pid):
        time.sleep(0.05)


def test_what_it_cannot_do_is_one_sentence() -> None:
    process = GraphProcess()
    try:
        with pytest.raises(JobError, match=r"TensorFlow Transform wrote no graph .*job\.json"):
            process.run()
    finally:
        process.close()
