"""`shardmill webdataset` on object stores: a file is read in blocks there, each of them a stream of ranges."""

from pathlib import Path

from tests.support.buckets import Bucket, below, local_files, upload, without_source
from tests.support.command import Run, image, write_files
from tests.support.tars import tar

DAMAGED = ("--on_damaged_file", "reject", "--max_reject_fraction", "0.9")


def test_an_object_store_gives_the_bytes_of_a_disk(bucket: Bucket, tmp_path: Path, run: Run) -> None:
    files = {}
    for shard in range(2):
        members = [
            (f"{n:03}.{suffix}", data)
            for n in range(30 * shard, 30 * shard + 30)
            for suffix, data in (("png", image(n)), ("cls", b"%d" % (n % 3)), ("json", b'{"n": %d}' % n))
        ]
        files[f"in/s-{shard}.tar"] = tar(members)
    files["in/s-2.tar"] = files["in/s-1.tar"].replace(b"03", b"93").replace(b"04", b"94")[:-5000]  # no tar any longer
    url = upload(bucket, "x", files)
    told = ("--num_shards", "3", "--block_size", "4KiB", "--name", "n", "--splits", "train=0.7,test=0.3", *DAMAGED)
    there = ("--input", f"{url}/in", "--output", f"{bucket.url}/sets")
    done = run("webdataset", *there, *told, *bucket.flags)
    assert done.status == 0, done.err
    write_files(tmp_path, files)
    done = run("webdataset", "--input", tmp_path / "in", "--output", tmp_path / "sets", *told)
    assert done.status == 0, done.err

    made = local_files(tmp_path / "sets")
    assert without_source(below(bucket.files(), "sets")) == without_source(made)
    (rejects,) = (data for name, data in made.items() if "/rejects/" in name)
    assert b"s-2.tar" in rejects
