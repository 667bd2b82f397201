"""`--sequence_by` on object stores: runs lie there with an entry before each record."""

from pathlib import Path

from tests.support.buckets import Bucket, below, local_files, upload, without_source
from tests.support.command import Run, write_files


def test_an_object_store_gives_the_bytes_of_a_disk(bucket: Bucket, tmp_path: Path, run: Run) -> None:
    rows = [b"%d,%d,w%d\n" % (n * 7 % 23, n * 31 % 400, n) for n in range(400)]
    files = {f"in/{name}.csv": b"id,t,word\n" + b"".join(rows[place::2]) for place, name in enumerate("ab")}
    url = upload(bucket, "x", files)
    told = ("--sequence_by", "id", "--order_by", "t", "--num_shards", "3", "--block_size", "1KiB", "--name", "n")
    there = ("--input", f"{url}/in", "--output", f"{bucket.url}/sets")
    assert run("csv", *there, *told, *bucket.flags).status == 0
    write_files(tmp_path, files)
    assert run("csv", "--input", tmp_path / "in", "--output", tmp_path / "sets", *told).status == 0

    assert without_source(below(bucket.files(), "sets")) == without_source(local_files(tmp_path / "sets"))
