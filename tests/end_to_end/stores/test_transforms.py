"""--transform on object stores: the graph, the materialized examples and a second night are those of a local run."""

from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest

from shardmill.pipelines import cli
from tests.support import houses
from tests.support.buckets import Bucket, below, upload, without_source
from tests.support.command import local_files, write_files

pytestmark = pytest.mark.slow

_RECIPE = """\
name: houses
output: {where}/sets
csv:
  input: {where}/in
  label: label
  key: id
  splits: train=0.7,test=0.3
  transform: {where}/transform.yaml
  materialize: true
  num_shards: 2
"""


def _rows() -> bytes:
    sink = pa.BufferOutputStream()
    pyarrow.csv.write_csv(houses.rows(), sink)
    return bytes(sink.getvalue())


def test_materialized_examples_and_their_graph_are_those_of_a_local_run(
    bucket: Bucket, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {"in/houses.csv": _rows(), "transform.yaml": houses.TRANSFORM.encode()}
    upload(bucket, "data", files)
    write_files(tmp_path / "data", files)
    for where, flags in ((f"{bucket.url}/data", bucket.flags), (f"{tmp_path}/data", [])):
        recipe = write_files(tmp_path / "recipes", {"houses.yaml": _RECIPE.format(where=where).encode()})
        assert cli.main(["rebuild", str(recipe / "houses.yaml"), *flags]) == 0
        assert "published" in capsys.readouterr().out
        assert cli.main(["rebuild", str(recipe / "houses.yaml"), *flags]) == 0
        assert "unchanged since 1.0.0" in capsys.readouterr().out
    made = below(bucket.files(), "data/sets")
    assert "houses/1.0.0/transform_graph/transform_fn/saved_model.pb" in made
    assert without_source(made) == without_source(local_files(tmp_path / "data" / "sets"))
