"""`shardmill csv`, text, jsonl and parquet on object stores."""

import gzip
import urllib.parse
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardmill.metadata.file_names import TEMP_PREFIX
from shardmill.pipelines import cli
from tests.support.buckets import Bucket, Files, below, local_files, upload, without_source
from tests.support.command import write_files


def _tables() -> Files:
    """What each command of records inside files reads: 600 rows in three files, one of them compressed."""
    rows = [f"{n},{n / 7:.3f},{'abc'[n % 3]}\n".encode() for n in range(600)]
    header = b"id,x,word\n"
    return {
        "csv/a [1].csv": header + b"".join(rows[:150]),
        "csv/b/%41.csv": header + b"".join(rows[150:400]),
        "csv/c.csv.gz": gzip.compress(header + b"".join(rows[400:]), mtime=0),
        "text/a.txt": b"".join(rows),
        "jsonl/a.jsonl": b"".join(b'{"id": %d, "tags": ["a", "b"]}\n' % n for n in range(300)),
        "parquet/a.parquet": _parquet(),
    }


def _parquet() -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": list(range(500)), "x": [n / 3 for n in range(500)]}), sink, row_group_size=120)
    return bytes(sink.getvalue())


def _records(bucket: Bucket | None, command: str, source: str, output: str, *flags: str) -> int:
    arguments = [command, "--input", source, "--output", output, "--name", command, *flags]
    return cli.main([*arguments, *(bucket.flags if bucket else [])])


def _flags(command: str) -> tuple[str, ...]:
    return ("--num_shards", "2", *(() if command == "parquet" else ("--block_size", "2KiB")))


@pytest.fixture(scope="module")
def made_locally(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Files]:
    """What a local run of a command makes of the same files."""
    source = write_files(tmp_path_factory.mktemp("in"), _tables())

    @cache
    def run(command: str) -> Files:
        output = tmp_path_factory.mktemp(command)
        assert _records(None, command, str(source / command), str(output), *_flags(command)) == 0
        return local_files(output)

    return run


@pytest.mark.parametrize("pattern", ["csv/c.csv.gz", "{csv/b/%41.csv,csv/c.csv.gz}", "text/a.txt", "parquet/a.parquet"])
def test_one_object_gives_the_bytes_of_one_file(bucket: Bucket, tmp_path: Path, pattern: str) -> None:
    command = pattern.lstrip("{").partition("/")[0]
    files = _tables()
    source = upload(bucket, "in", {**files, "text/a.txt/below.txt": b"not of this file\n"})
    write_files(tmp_path / "in", files)
    assert _records(bucket, command, f"{source}/{pattern}", f"{bucket.url}/sets", *_flags(command)) == 0
    assert _records(None, command, f"{tmp_path}/in/{pattern}", str(tmp_path / "sets"), *_flags(command)) == 0
    assert without_source(below(bucket.files(), "sets")) == without_source(local_files(tmp_path / "sets"))


def test_an_empty_object_that_marks_a_folder_is_no_file(bucket: Bucket) -> None:
    source = upload(bucket, "in", {"v1.0": b"", "v1.0/a.csv": b"x\n1\n2\n"})
    assert _records(bucket, "csv", f"{source}/v1.0", f"{bucket.url}/sets") == 0
    assert b'"examples": 2' in bucket.files()["sets/csv/1.0.0/manifest.json"]


@pytest.mark.parametrize("command", ["csv", "text", "jsonl", "parquet"])
def test_records_inside_objects_give_the_bytes_of_a_local_run(
    bucket: Bucket, made_locally: Callable[[str], Files], command: str
) -> None:
    source = upload(bucket, "in", {name: data for name, data in _tables().items() if name.startswith(f"{command}/")})
    assert _records(bucket, command, f"{source}/{command}", f"{bucket.url}/sets", *_flags(command)) == 0
    made = below(bucket.files(), "sets")
    assert without_source(made) == without_source(made_locally(command))
    assert not [name for name in bucket.names() if TEMP_PREFIX in name]
    shards = f"{bucket.url}/sets/{command}/1.0.0/*.tfrecord-*"
    assert _records(bucket, "reshard", shards, f"{bucket.url}/again", "--num_shards", "5") == 0
    assert cli.main(["verify", f"{bucket.url}/again/reshard", *bucket.flags]) == 0


def test_a_failed_table_leaves_no_runs(bucket: Bucket, capsys: pytest.CaptureFixture[str]) -> None:
    source = upload(bucket, "in", {"a.csv": b"x,y\n" + b"1,2\n" * 500 + b"1,2,3\n" * 500})
    assert _records(bucket, "csv", source, f"{bucket.url}/sets", "--num_shards", "2", "--block_size", "1KiB") == 1
    assert "500 of 1000 records were rejected" in capsys.readouterr().err
    assert list(below(bucket.files(), "sets")) == ["csv/1.0.0-rejects.jsonl"]


def test_a_slice_of_a_run_is_one_request_and_many_are_asked_at_once(bucket: Bucket) -> None:
    rows = b"".join(b"%d,%d\n" % (n, n * n) for n in range(3000))
    source = upload(bucket, "in", {"a.csv": b"x,y\n" + rows})
    bucket.requests()
    assert _records(bucket, "csv", source, f"{bucket.url}/sets", "--num_shards", "3", "--block_size", "4KiB") == 0
    asked = bucket.requests()
    of_runs = [request for request in asked["requests"] if "run-" in request]
    runs = {urllib.parse.unquote(request).partition("run-")[2][:32] for request in of_runs}
    reads = [request for request in of_runs if request.startswith("GET") and not _is_listing(request)]
    looks = 3  # at all keys of a run: to count them, to find the cuts, to slice it
    assert len(runs) > 8
    assert 0 < len(reads) <= len(runs) * (looks + 3)
    assert asked["reads_at_once"] > 2  # as two shards, one request after another, would be


def _is_listing(request: str) -> bool:
    return "list-type=" in request or "prefix=" in request
