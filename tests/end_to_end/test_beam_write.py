"""WriteDataset: the shards of a PCollection are those that a command makes of a file with the same rows."""

import json
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

import shardmill
import shardmill.beam
from shardmill.errors import UserError
from shardmill.metadata import file_names
from shardmill.pipelines import api
from tests.support.command import tree_bytes

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
    api.convert(command, input=data, output=output, name="d", **options)
    return shards_of(output)


def shards_of(output: Path) -> dict[str, bytes]:
    files = tree_bytes(output / "d" / "1.0.0")
    return {name: data for name, data in files.items() if ".tfrecord" in name}


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
        pytest.param(MANY, {}, marks=pytest.mark.slow),
        (MANY, {"key": "key", "splits": HALVES, "stratify_by": "group", "num_shards": 3}),
        pytest.param(
            *(MANY, {"key": "key", "on_duplicate_key": "reject", "max_reject_fraction": 1}), marks=pytest.mark.slow
        ),
        pytest.param(MANY, {"group_by": "group", "splits": HALVES, "balance": "bytes"}, marks=pytest.mark.slow),
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
        monkeypatch.setattr("shardmill.transforms.rows.spool._FEWEST_ROWS", rows_of_file)
        monkeypatch.setattr("shardmill.transforms.rows.spool._MOST_ROWS", rows_of_file)
        monkeypatch.setattr("shardmill.transforms.rows.spool._FILE_BYTES", 1)
        output = tmp_path / str(number)
        write(random.Random(number).sample(rows, len(rows)), output, **options)
        versions.append(tree_bytes(output / "d" / "1.0.0"))
    assert all(version == versions[0] for version in versions)
