"""What --schema asks for beside types stands in the schema.pbtxt that is published, on every route that takes one."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from tests.support.command import Run, write_files

ASKED = """
feature {
  name: "x" type: INT presence { min_fraction: 1 min_count: 1 } shape {}
  drift_comparator { jensen_shannon_divergence { threshold: 0.25 } }
  int_domain { min: 0 max: 9 }
}
dataset_constraints { min_examples_count: 2 }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("asked")
    write_files(
        folder, {"csv/a.csv": b"x\n1\n2\n", "jsonl/a.jsonl": b'{"x": 1}\n{"x": 2}\n', "s.pbtxt": ASKED.encode()}
    )
    (folder / "parquet").mkdir()
    pq.write_table(pa.table({"x": [1, 2]}), folder / "parquet/a.parquet")
    return folder


@pytest.mark.parametrize("route", ["csv", "jsonl", "parquet", "reshard"])
def test_it_is_published_again(run: Run, folder: Path, tmp_path: Path, route: str) -> None:
    source = folder / route
    if route == "reshard":
        made = run("csv", "--input", folder / "csv", "--output", tmp_path / "first", "--name", "n")
        assert made.status == 0
        source = tmp_path / "first/n/1.0.0"

    flags = ("--input", source, "--output", tmp_path / "out", "--name", "n", "--schema", folder / "s.pbtxt")
    result = run(route, *flags)

    assert result.status == 0, result.err
    text = (tmp_path / "out/n/1.0.0/schema.pbtxt").read_text()
    assert text_format.Parse(text, schema_pb2.Schema()) == text_format.Parse(ASKED, schema_pb2.Schema())
    assert run("verify", tmp_path / "out/n").status == 0
