"""The index of records on object stores, each an emulator: the files of a disk, and the same positions."""

from pathlib import Path
from typing import Any

import apache_beam as beam
import numpy as np
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from apache_beam.testing.util import assert_that, equal_to

import shardmill
from shardmill.transforms.shards import reading
from shardmill.transforms.stores import storage
from tests.support.buckets import Bucket, below
from tests.support.command import Run, tree_bytes, write_files
from tests.support.reading import make, read_index

TABLE = b"n,text\n" + b"".join(b"%d,%s\n" % (number, b"x" * (number % 50)) for number in range(200))
FLAGS = ("--splits", "train=0.75,test=0.25", "--num_shards", "2")


@pytest.mark.parametrize("bucket", ["s3"], indirect=True)
def test_an_index_in_a_store(bucket: Bucket, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    source = write_files(tmp_path / "in", {"rows.csv": TABLE}) / "rows.csv"
    local = make("csv", source, tmp_path / "out", *FLAGS, "--index")
    expected = tree_bytes(local)
    result = run(
        "csv", "--input", source, "--output", f"{bucket.url}/out", "--name", "n", *FLAGS, "--index", *bucket.flags
    )
    assert result.status == 0, result.err
    assert below(bucket.files("out/n/1.0.0/"), "out/n/1.0.0") == expected
    url = f"{bucket.url}/out/n/1.0.0"
    assert run("verify", url, *bucket.flags).status == 0
    result = run("csv", "--input", source, "--output", f"{bucket.url}/plain", "--name", "n", *FLAGS, *bucket.flags)
    assert result.status == 0, result.err
    found = shardmill.index(f"{bucket.url}/plain/n", beam_options=bucket.flags)
    assert (found.shards, found.records) == (4, 200)
    index = {name: data for name, data in expected.items() if name.startswith("index/")}
    assert below(bucket.files("plain/n/1.0.0/index/"), "plain/n/1.0.0") == index
    again = run("index", f"{bucket.url}/plain/n/1.0.0/n-t*", *bucket.flags)  # its files, without the manifest
    assert again.out.endswith("200 records in 4 shards\n")
    assert below(bucket.files("plain/n/1.0.0/index/"), "plain/n/1.0.0") == index
    split = (read_index(url, storage.StorageFiles()) or {})["train"]
    on_disk = (read_index(local) or {})["train"]
    assert all(np.array_equal(split.shard(number).bounds, on_disk.shard(number).bounds) for number in (0, 1))
    slices = [list(shardmill.examples(of, "train[90%:]", files=storage.StorageFiles())) for of in (url, local)]
    assert [len(found) for found in slices] == [15, 15]
    assert slices[0] == slices[1]

    # Pipelines read parts of the shards
    monkeypatch.setattr(reading.divide_slice, "__defaults__", (500,))
    with beam.Pipeline(options=PipelineOptions(bucket.flags)) as pipeline:
        for split_name in ("train", "train[20:50]"):
            wanted = sorted(int(example["n"]) for example in shardmill.examples(local, split_name))
            numbers = (
                pipeline | split_name >> reading.ReadDataset(url, split_name) | f"{split_name} n" >> beam.Map(_number)
            )
            assert_that(numbers, equal_to(wanted), split_name)


def _number(example: dict[str, Any]) -> int:
    return int(example["n"])
