"""WriteDataset: the shards of a PCollection are those that a command makes of a file with the same rows."""

import io
import json
import random
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.transforms.periodicsequence import PeriodicImpulse
from apache_beam.transforms.window import FixedWindows, TimestampedValue
from PIL import Image

import shardmill
import shardmill.beam
from shardmill.data.codecs import PLAIN_CODEC
from shardmill.errors import UserError
from shardmill.metadata import file_names
from shardmill.pipelines.commands import convert as commands
from shardmill.transforms.publishing import lease
from tests.support.command import rejects_of, tree_bytes
from tests.support.detection import draw
from tests.support.objects_in_tables import NAMES, SCENES, ids, said_of
from tests.support.tokenizer_files import END, tokenizer_json

ROWS = [{"id": number, "x": number / 3, "word": f"w{number % 7}"} for number in range(700)]


def write(elements: Iterable[Any], output: Path, *flags: str, **options: Any) -> dict[str, bytes]:
    """Write elements in a pipeline of Beam's local runner, and return the bytes of the shards by name."""
    with beam.Pipeline(options=PipelineOptions(list(flags))) as pipeline:
        written = pipeline | beam.Create(list(elements)) | shardmill.beam.WriteDataset(output, "d", **options)
        _ = written | beam.Map(lambda version: (output / "written").write_text(version.directory))
    assert (output / "written").read_text() == str(output / "d" / "1.0.0")
    return shards_of(output)


def convert(command: str, data: Path, output: Path, **options: Any) -> dict[str, bytes]:
    """Convert a file with a command, and return the bytes of the shards by name."""
    commands.convert(command, input=data, output=output, name="d", **options)
    return shards_of(output)


def shards_of(output: Path) -> dict[str, bytes]:
    files = tree_bytes(output / "d" / "1.0.0")
    return {name: data for name, data in files.items() if ".tfrecord" in name}


def records_of(lines: Path, folder: Path) -> list[bytes]:
    convert("jsonl", lines, folder / "first")
    shard = folder / "first/d/1.0.0/d-train.tfrecord-00000-of-00001"
    return list(PLAIN_CODEC.read_records(shard.open("rb"), "first"))


@pytest.fixture(scope="module")
def lines(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of ROWS as JSON lines."""
    path = tmp_path_factory.mktemp("lines") / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def test_dictionaries_are_written_as_json_lines_are(lines: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"splits": {"train": 0.8, "test": 0.2}, "num_shards": 2, "label": "word"}
    expected = convert("jsonl", lines, tmp_path / "command", **options)

    assert write(ROWS, tmp_path / "pipeline", **options) == expected

    folder = tmp_path / "pipeline" / "d"
    record = json.loads((folder / "builds" / "1.0.0.json").read_text())
    assert (record["status"], sum(record["splits"].values())) == ("published", len(ROWS))
    assert (folder / "builds" / "1.0.0.html").exists()
    assert not (folder / "1.0.0" / file_names.LOCK).exists()
    assert shardmill.verify(folder).ok
    with pytest.raises(UserError, match="is a published data set; give --overwrite to replace it"):
        write(ROWS, tmp_path / "pipeline", **options)
    assert write(ROWS, tmp_path / "pipeline", overwrite=True, **options) == expected


def test_batches_are_written_as_parquet_is(tmp_path: Path) -> None:
    table = pa.Table.from_pylist(ROWS)
    pq.write_table(table, tmp_path / "rows.parquet")
    expected = convert("parquet", tmp_path / "rows.parquet", tmp_path / "command", key="id")

    assert write(table.to_batches(100), tmp_path / "batches", key="id") == expected
    assert write([table[:50], table[50:]], tmp_path / "tables", key="id") == expected


# Rows of which many have the key, the group, the time or everything of another
MANY = [{"key": number % 40, "group": number % 7, "at": number % 5, "value": number % 90 // 2} for number in range(400)]
BAD = [{"key": 1, "value": "x"}, {"key": 2, "value": {"y": 1}}, {3: 4}, {"value": float("nan")}]


HALVES = {"train": 0.5, "test": 0.5}


@pytest.mark.parametrize(
    ("rows", "options"),
    [
        (MANY, {"key": "key", "splits": HALVES, "stratify_by": "group", "num_shards": 3}),
        pytest.param(
            *(MANY, {"key": "key", "on_duplicate_key": "reject", "max_reject_fraction": 1}), marks=pytest.mark.slow
        ),
        pytest.param(MANY, {"sequence_by": "key", "order_by": "at"}, marks=pytest.mark.slow),
        ([*MANY, *BAD], {"key": "key", "max_reject_fraction": 1, "types": ["value=int64"]}),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, dict) else "",
)
def test_bundles_show_nowhere(
    rows: Sequence[Any], options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    versions = []
    for number, rows_of_file in enumerate((256, 7)):
        for name, limit in (("FEWEST_ROWS", rows_of_file), ("MOST_ROWS", rows_of_file), ("FILE_BYTES", 1)):
            monkeypatch.setattr(f"shardmill.transforms.rows.spool.{name}", limit)
        output = tmp_path / str(number)
        write(random.Random(number).sample(rows, len(rows)), output, **options)
        versions.append(tree_bytes(output / "d" / "1.0.0"))
    assert all(version == versions[0] for version in versions)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        {"splits": HALVES, "group_by": "word", "balance": "bytes", "num_shards": 4, "rename": {"x": "y"}},
        {"sequence_by": "word", "order_by": "id"},
        {"tokenizer": "tokenizer.json", "tokenize": "word", "pack_to": 16, "end_of_text": END},
        {"schema": "schema.pbtxt", "fill": {"z": "3"}},
        {"transform": "transform.yaml", "drop": ["word"]},
    ],
    ids="-".join,
)
def test_options_are_those_of_the_command(options: dict[str, Any], lines: Path, tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").write_bytes(tokenizer_json())
    (tmp_path / "schema.pbtxt").write_text(
        "".join(f'feature {{ name: "{name}" type: {kind} value_count {{ min: 1 max: 1 }} }}\n' for name, kind in SCHEMA)
    )
    (tmp_path / "transform.yaml").write_text("x: scale_0_1\n")
    for name in ("tokenizer", "schema", "transform"):
        if name in options:
            options = {**options, name: tmp_path / options[name]}

    assert write(ROWS, tmp_path / "pipeline", **options) == convert("jsonl", lines, tmp_path / "command", **options)


SCHEMA = [("id", "INT"), ("x", "FLOAT"), ("word", "BYTES"), ("z", "INT")]


def test_images_and_objects_are_written_as_of_parquet(tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = []
    for scene in SCENES:
        draw(scene, tmp_path / "drawn")
        described = {**said_of(scene), "category": [NAMES[index] for index in ids(scene)]}
        rows.append({"image": (tmp_path / "drawn" / scene.name).read_bytes(), "name": scene.name, "objects": described})
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    expected = convert("parquet", tmp_path / "rows.parquet", tmp_path / "command", image="image")

    assert write(rows, tmp_path / "rows", image="image") == expected
    opened = [{**row, "image": Image.open(io.BytesIO(row["image"]))} for row in rows]
    generated = [lambda row=row: row for row in opened]  # as a step of a pipeline makes them, for they are not pickled
    with beam.Pipeline() as pipeline:
        made = pipeline | beam.Create(range(len(rows))) | beam.Map(lambda number: generated[number]())
        _ = made | shardmill.beam.WriteDataset(tmp_path / "images", "d", image="image")
    assert shards_of(tmp_path / "images") == expected


def test_examples_are_written_as_reshard_does(lines: Path, tmp_path: Path) -> None:
    records = records_of(lines, tmp_path)
    expected = convert("reshard", tmp_path / "first" / "d" / "1.0.0", tmp_path / "command", key="id", num_shards=3)

    assert write(records[::-1], tmp_path / "pipeline", key="id", num_shards=3) == expected

    version = tmp_path / "damaged"
    write([*records, b"no example"], version, key="id", max_reject_fraction=0.1)
    (reject,) = rejects_of(version / "d" / "1.0.0")
    assert reject["source"] == "b'no example'"
    assert reject["reason"] == "is not a tf.train.Example"


def test_rows_with_a_schema_and_windows(tmp_path: Path) -> None:
    expected = write(ROWS[:50], tmp_path / "dictionaries")
    with beam.Pipeline() as pipeline:
        made = pipeline | beam.Create(ROWS[:50]) | beam.Map(lambda row: beam.Row(**row))
        windowed = made | beam.Map(lambda row: TimestampedValue(row, row.id)) | beam.WindowInto(FixedWindows(7))
        _ = windowed | shardmill.beam.WriteDataset(tmp_path / "rows", "d")
    assert shards_of(tmp_path / "rows") == expected


@pytest.mark.slow
def test_worker_processes(tmp_path: Path) -> None:
    expected = write(ROWS, tmp_path / "one", key="id", num_shards=2)
    flags = ("--direct_running_mode=multi_processing", "--direct_num_workers=2")
    assert write(ROWS, tmp_path / "two", *flags, key="id", num_shards=2) == expected
    options: dict[str, Any] = {"map": draw_number, "max_reject_fraction": 0.1, "num_shards": 2}
    assert write(ROWS, tmp_path / "four", *flags, **options) == write(ROWS, tmp_path / "three", **options)


@pytest.mark.parametrize(
    ("elements", "options", "message"),
    [
        (["a"], {}, "the elements of the PCollection are of type str; expected dictionaries"),
        ([1.5], {}, "the elements of the PCollection are of type float; expected dictionaries"),
        (ROWS[:1], {"splitz": "a"}, "unknown option 'splitz'; did you mean splits?"),
        (ROWS[:1], {"input": "a"}, "--input: the rows are in no files; leave it out"),
        (ROWS[:1], {"no_shuffle": True}, "--no_shuffle: rows without an order cannot keep it; leave it out"),
        ([{"a": 1}], {"elements": "bytes"}, "elements='bytes': expected 'rows' or 'examples'"),
        (ROWS[:1], {"module_file": __file__}, "--module_file is traced with the types of columns"),
    ],
    ids=str,
)
def test_mistakes_end_before_the_pipeline_runs(
    elements: list[Any], options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(UserError, match=re.escape(message)):
        beam.Pipeline() | beam.Create(elements) | shardmill.beam.WriteDataset(tmp_path, "d", **options)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("second", [{}, {"version": "1.0.1"}], ids=["same", "other version"])
def test_two_of_one_name_are_refused(second: dict[str, Any], tmp_path: Path) -> None:
    pipeline = beam.Pipeline()
    rows = pipeline | beam.Create(ROWS[:5])
    for name in ("d", "e"):
        _ = rows | name >> shardmill.beam.WriteDataset(tmp_path, name)
    with pytest.raises(UserError, match=r"writes .*/d already, and it can write one version of that; give another"):
        _ = rows | "again" >> shardmill.beam.WriteDataset(f"{tmp_path}/", "d", **second)
    _ = beam.Pipeline() | beam.Create(ROWS) | shardmill.beam.WriteDataset(tmp_path, "d")


def test_an_unbounded_collection_is_refused(tmp_path: Path) -> None:
    pipeline = beam.Pipeline(options=PipelineOptions(streaming=True))
    rows = pipeline | PeriodicImpulse() | beam.Map(lambda at: {"at": at})
    with pytest.raises(UserError, match="the PCollection is unbounded, and a version has all rows"):
        rows | shardmill.beam.WriteDataset(tmp_path, "d")


@pytest.mark.parametrize(
    ("elements", "options", "message"),
    [
        ([], {}, "no rows in the PCollection"),
        (
            [{"a": 1}, pa.table({"a": [1]})],
            {},
            "the rows are dictionaries and record batches; expected one kind of row",
        ),
        ([{"a": 1}, 3], {}, "an element is of type int; expected dictionaries, rows with a schema, or Arrow record"),
        ([{"a": 1}, b"x"], {}, "an element is of type bytes, and the type of the PCollection does not say so; give"),
        ([{"a": 1}], {"elements": "examples"}, "an element is of type dict; expected tf.train.Examples, serialized or"),
        ([pa.table([[1], [2]], ["a", "a"])], {}, "column 'a' is there twice; expected names that differ"),
        ([{"a": 1}], {"label": "b"}, "--label b: no such column"),
        ([{"a": 1}, {3: 1}], {}, "1 of 2 records were rejected"),
    ],
    ids=str,
)
def test_mistakes_in_rows_end_the_pipeline(
    elements: list[Any], options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(Exception, match=re.escape(message)), beam.Pipeline() as pipeline:
        pipeline | beam.Create(elements) | shardmill.beam.WriteDataset(tmp_path, "d", **options)
    assert not (tmp_path / "d" / "1.0.0" / file_names.SUCCESS).exists()


def test_after_a_failed_pipeline_the_next_one_can_write(tmp_path: Path) -> None:
    with pytest.raises(Exception, match="1 of 1 records were rejected"):
        write([{3: 1}], tmp_path)
    assert (tmp_path / "d" / "1.0.0" / file_names.LOCK).exists()

    assert write([{"a": 1}], tmp_path)

    assert not [path for path in (tmp_path / "d" / "1.0.0").iterdir() if path.is_dir() or path.name == file_names.LOCK]


def test_a_version_that_another_process_builds_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "d" / "1.0.0"
    held = lease.hold_lease(str(directory), file_names.temporary_folder("d", "other"), "other")
    with held, pytest.raises(Exception, match="is being built by process"):
        write(ROWS[:3], tmp_path)
    assert write(ROWS[:3], tmp_path)


def draw_number(row: Any, rng: Any) -> Any:
    if row["id"] % 10 == 3:
        return None
    if row["id"] == 25:
        raise ValueError("twenty-five")
    return {"id": row["id"], "made": [row["x"]], "drawn": int(rng.integers(1 << 40))}


def test_a_function_changes_rows_alike_however_they_are_divided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [*ROWS, {"id": 1, "x": float("nan")}]
    options: dict[str, Any] = {"max_reject_fraction": 0.5, "splits": HALVES, "num_shards": 2}
    versions = []
    for number, rows_of_file in enumerate((256, 7)):
        for name, limit in (("FEWEST_ROWS", rows_of_file), ("MOST_ROWS", rows_of_file), ("FILE_BYTES", 1)):
            monkeypatch.setattr(f"shardmill.transforms.rows.spool.{name}", limit)
        output = tmp_path / str(number)
        versions.append(write(random.Random(number).sample(rows, len(rows)), output, map=draw_number, **options))
        reasons = {reject["source"]: reject["reason"] for reject in rejects_of(output / "d" / "1.0.0")}
        assert len(reasons) == 2
        assert reasons["{'id': 25, 'x': 8.333333333333334, 'word': 'w4'}"].endswith("raises ValueError: twenty-five")
    assert versions[0] == versions[1]

    batches = pa.Table.from_pylist(ROWS).to_batches(100)
    write(
        batches,
        tmp_path / "batches",
        map_batches=lambda batch: batch.select(["id"]).filter(pc.greater(batch["id"], 6)),
        **options,
    )
    made = [row["id"] for split in HALVES for row in shardmill.examples(tmp_path / "batches" / "d" / "1.0.0", split)]
    assert len(made) == 693
    with pytest.raises(UserError, match="has the parameters"):
        write(ROWS, tmp_path / "mistake", map=lambda: None)


def test_a_function_changes_examples(lines: Path, tmp_path: Path) -> None:
    records = records_of(lines, tmp_path)
    write(records, tmp_path / "made", map=lambda row: {"n": row["id"][0], "word": row["word"][0].upper()})
    made = shardmill.examples(tmp_path / "made" / "d" / "1.0.0", "train")
    assert sorted((row["n"], row["word"]) for row in made) == [(n, f"W{n % 7}".encode()) for n in range(700)]
