"""`shardmill.write` to an object store: the bytes of a disk, and nothing else there."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import shardmill
from tests.support.buckets import Bucket, below, without_source
from tests.support.command import local_files

TABLE = pa.table({"id": range(300), "text": [f"t{n}" for n in range(300)]})


@pytest.mark.parametrize(("bucket", "data"), [("gs", TABLE), ("s3", TABLE.to_pylist())], indirect=["bucket"])
def test_a_store_has_the_bytes_of_a_disk(data: Any, bucket: Bucket, tmp_path: Path) -> None:
    shardmill.write(data, output=tmp_path / "out", name="d", num_shards=2)
    shardmill.write(data, output=f"{bucket.url}/out", name="d", num_shards=2, beam_options=bucket.flags)

    assert without_source(below(bucket.files(), "out")) == without_source(local_files(tmp_path / "out"))
