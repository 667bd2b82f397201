"""ReadDataset and WriteDataset in one pipeline: copies of a data set, as it is or changed."""

from pathlib import Path
from typing import Any

import apache_beam as beam
import pyarrow as pa

import shardmill
from tests.support.command import tree_bytes
from tests.support.reading import make_rows


def shards_of(folder: Path) -> dict[str, bytes]:
    return {name: data for name, data in tree_bytes(folder).items() if ".tfrecord" in name}


def test_copies_have_the_shards_of_reshard(tmp_path: Path) -> None:
    """Examples, and record batches, which keep names of classes and what may be missing."""
    original = make_rows(tmp_path / "rows", "--index")
    shardmill.convert("reshard", input=original, output=tmp_path / "expected", name="d")
    expected = shards_of(tmp_path / "expected" / "d" / "1.0.0")
    with beam.Pipeline() as pipeline:
        for as_ in ("examples", "batches"):
            elements = pipeline | as_ >> shardmill.beam.ReadDataset(original, as_=as_)
            _ = elements | f"Write {as_}" >> shardmill.beam.WriteDataset(tmp_path / as_, "d")
            if as_ == "examples":  # which have ids alone
                named: dict[str, Any] = {"label": "city", "labels_file": original / "city.labels.txt"}
                _ = elements | "Write names" >> shardmill.beam.WriteDataset(tmp_path / "named", "d", **named)
    for as_ in ("examples", "batches"):
        assert shards_of(tmp_path / as_ / "d" / "1.0.0") == expected
    found, features = (shardmill.info(path).features for path in (tmp_path / "batches" / "d", original))
    assert found["city"].class_names == features["city"].class_names
    named_features = shardmill.info(tmp_path / "named" / "d").features
    assert named_features["city"].class_names == features["city"].class_names
    kept = {name: (item.dtype, item.shape, item.required) for name, item in found.items()}
    assert kept == {name: (item.dtype, item.shape, item.required) for name, item in features.items()}


def test_a_changed_copy(tmp_path: Path) -> None:
    original = make_rows(tmp_path / "rows")

    def older(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(pa.compute.greater(batch["n"], 49))

    with beam.Pipeline() as pipeline:
        batches = pipeline | shardmill.beam.ReadDataset(original, as_="batches") | beam.Map(older)
        _ = batches | shardmill.beam.WriteDataset(tmp_path / "copy", "d", label="city")
    assert shardmill.info(tmp_path / "copy" / "d").label == "city"
    assert sorted(int(row["n"]) for row in shardmill.examples(tmp_path / "copy" / "d")) == list(range(50, 100))
