"""What --schema asks for beside types stands in the schema.pbtxt that is published, on every route that takes one."""

import pyarrow as pa
import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from tests.support.command import Run
from tests.support.jobs import Jobs
from tests.support.table_results import parquet

ASKED = """
feature {
  name: "x" type: INT presence { min_fraction: 1 min_count: 1 } shape {}
  drift_comparator { jensen_shannon_divergence { threshold: 0.25 } }
  int_domain { min: 0 max: 9 }
}
dataset_constraints { min_examples_count: 2 }
"""
FILES = {
    "a.csv": "x\n1\n2\n",
    "a.jsonl": '{"x": 1}\n{"x": 2}\n',
    "a.parquet": parquet(pa.table({"x": [1, 2]})),
    "s": ASKED,
}


@pytest.mark.parametrize("line", ["csv", "jsonl", "parquet", "reshard --input out/first/1.0.0"])
def test_it_is_published_again(run: Run, jobs: Jobs, line: str) -> None:
    jobs.build("csv --input in/a.csv --name first", files=FILES)
    made = jobs.build(f"{line} --schema in/s")
    text = (made.directory / "schema.pbtxt").read_text()
    assert text_format.Parse(text, schema_pb2.Schema()) == text_format.Parse(ASKED, schema_pb2.Schema())
    assert run("verify", made.directory).status == 0
