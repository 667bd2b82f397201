"""Every route on object stores gives the bytes of a disk, and leaves nothing else there."""

import gzip
import json
import random
import urllib.parse
import zipfile
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardmill.metadata.file_names import TEMP_PREFIX
from tests.end_to_end.stores.conftest import make_photos
from tests.support.archives import tar, zipped
from tests.support.buckets import Bucket, Files, below, jpeg, upload, without_source
from tests.support.command import Result, Run, check_mistake, image, local_files, write_files
from tests.support.masks import encoded, picture, values
from tests.support.tokenizer_files import texts, tokenizer_json


class Route(NamedTuple):
    """A conversion; `{}` in its command line is the folder of its files."""

    files: Callable[[], Files]
    command: str


@cache
def _tables() -> Files:
    """Return the input files of each command that reads records; of some, one file is compressed."""
    rows = [f"{n},{n / 7:.3f},{'abc'[n % 3]}\n".encode() for n in range(600)]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": list(range(500)), "x": [n / 3 for n in range(500)]}), sink, row_group_size=120)
    return {
        "csv/a [1].csv": b"id,x,word\n" + b"".join(rows[:150]),
        "csv/b/%41.csv": b"id,x,word\n" + b"".join(rows[150:400]),
        "csv/c.csv.gz": gzip.compress(b"id,x,word\n" + b"".join(rows[400:]), mtime=0),
        "text/a.txt": b"".join(rows),
        "jsonl/a.jsonl": b"".join(b'{"id": %d, "tags": ["a", "b"]}\n' % n for n in range(300)),
        "parquet/a.parquet": bytes(sink.getvalue()),
    }


def _tars() -> Files:
    """Two tar files, and one that is no tar any longer."""
    files = {}
    for shard in range(2):
        files[f"s-{shard}.tar"] = tar(
            [
                (f"{n:03}.{suffix}", data)
                for n in range(30 * shard, 30 * shard + 30)
                for suffix, data in (("png", image(n)), ("cls", b"%d" % (n % 3)), ("json", b'{"n": %d}' % n))
            ]
        )
    return files | {"s-2.tar": files["s-1.tar"].replace(b"03", b"93").replace(b"04", b"94")[:-5000]}


def _sequences() -> Files:
    rows = [b"%d,%d,w%d\n" % (n * 7 % 23, n * 31 % 400, n) for n in range(400)]
    return {f"{name}.csv": b"id,t,word\n" + b"".join(rows[place::2]) for place, name in enumerate("ab")}


def _tokens() -> Files:
    text = "".join(f"{text}\n" for text in texts(200)).encode()
    halves = {"in/a.txt": text[: len(text) // 2], "in/b.txt": text[len(text) // 2 :]}
    return {**halves, "t.json": tokenizer_json()}


def _pairs() -> Files:
    de = {f"de/{n}.txt": "".join(f"Zeile {n} {line} ä\n" for line in range(300)).encode() for n in range(2)}
    return de | {f"en/{n}.txt": "".join(f"line {n} {line}\n" for line in range(300)).encode() for n in range(2)}


def _folder(*splits: str) -> Files:
    """Return an image folder of Hugging Face: its metadata in each split folder, columns of further files too."""
    rows = [{"file_name": f"{n}.jpg", "next_file_name": f"next/{n}.jpg", "age": n} for n in range(10)]
    files = {f"{split}{n}.jpg": jpeg(n) for split in splits for n in range(10)}
    files |= {f"{split}next/{n}.jpg": jpeg(n + 10) for split in splits for n in range(10)}
    return files | {f"{split}metadata.jsonl": _lines(rows) for split in splits}


def _lines(rows: Sequence[Mapping[str, object]]) -> bytes:
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def _manifest() -> Files:
    """Return images and a list of them, which names one that is not there."""
    photos = make_photos()
    names = [name for name in photos if name.endswith(".jpg")]
    rows = [{"file_name": name, "label": name.split("/")[0], "size": len(photos[name])} for name in names]
    rows.insert(3, {"file_name": "daisy/gone [1].jpg", "label": "daisy", "size": 1})
    return {**photos, "photos.jsonl": _lines(rows)}


def _masks() -> Files:
    masks = {f"{'ab'[n % 2]}/{n}.png": values(n) for n in range(8)}
    files = {f"images/{name}": picture(mask) for name, mask in masks.items()}
    files |= {f"masks/{name}": encoded(mask) for name, mask in masks.items()}
    return files | {"m.csv": "\n".join(["file_name,mask", *(f"images/{name},masks/{name}" for name in masks)]).encode()}


TABLES = ("csv", "jsonl", "parquet")
_SPLITS = "--splits train=0.8,test=0.2 --num_shards train=2,test=1"
_LARGE = {"zzz/README.bin": random.Random(0).randbytes(3_000_000)}  # in a zip archive, of which nobody asks for it
IMAGES = {
    "tree": Route(make_photos, f"images --input {{}} {_SPLITS}"),
    "zip": Route(
        lambda: {"photos.zip": zipped(make_photos() | _LARGE, zipfile.ZIP_STORED)},
        f"images --input {{}}/photos.zip {_SPLITS}",
    ),
    "Hugging Face": Route(partial(_folder, ""), f"images --input {{}} {_SPLITS}"),
    "Hugging Face, splits": Route(partial(_folder, "train/", "test/"), "images --input {} --num_shards train=2,test=1"),
    "manifest": Route(_manifest, "images --manifest {}/photos.jsonl --num_shards 3 --max_reject_fraction 0.5"),
    "masks": Route(_masks, "images --input {}/images --masks {}/masks --num_shards 2"),
    "mask column": Route(_masks, "images --manifest {}/m.csv --mask_column mask --num_shards 2"),
    "shards of many parts": Route(
        lambda: {f"{n}.jpg": random.Random(n).randbytes(1 << 20) for n in range(20)},
        "images --input {} --verify none --num_shards 1",
    ),
    "shards without records": Route(  # S3 completes no upload without parts
        lambda: {f"rose/{n}.jpg": jpeg(n) if n % 2 else b"no image" for n in range(8)},
        "images --input {} --num_shards 8 --max_reject_fraction 0.6",
    ),
}
_KIB = "--block_size 1KiB --num_shards 3"
_PAIR = "text --input de={}/de --input en={}/en"
_OTHERS = {"text/a.txt/below.txt": b"not of this file\n"}  # which a disk cannot have
ROUTES = {
    **{name: Route(_tables, f"{name} --input {{}}/{name} --num_shards 2") for name in TABLES},
    "two files": Route(_tables, "csv --input {}/{{csv/b/%41.csv,csv/c.csv.gz}} --num_shards 2 --block_size 2KiB"),
    "one text": Route(_tables, "text --input {}/text/a.txt --num_shards 2 --block_size 2KiB"),
    "tars": Route(
        _tars,
        "webdataset --input {} --num_shards 3 --block_size 4KiB --splits train=0.7,test=0.3 "
        "--on_damaged_file reject --max_reject_fraction 0.9",
    ),
    "sequences": Route(_sequences, f"csv --input {{}} --sequence_by id --order_by t {_KIB}"),
    "repeated keys": Route(
        _sequences, f"csv --input {{}} --key id --on_duplicate_key reject --max_reject_fraction 1 {_KIB}"
    ),
    "packed": Route(_tokens, f"text --input {{}}/in --tokenizer {{}}/t.json --pack_to 32 {_KIB}"),
    "pairs": Route(_pairs, f"{_PAIR} {_KIB} --splits train=0.7,test=0.3"),
}


REJECTED = {  # what stands in the rejects of a route
    "tars": b"s-2.tar",
    "repeated keys": b"which is kept",
    "manifest": b'"daisy/gone [1].jpg", "line": 4, "stage": "index", "reason": "no such file"',
    "shards without records": b"rose/",
}


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Run, str, str, Files], tuple[Path, Files]]:
    """Return what a route makes on a disk, and the folder of its files; it is made once for all stores."""
    made: dict[str, tuple[Path, Files]] = {}

    def make(run: Run, route: str, command: str, files: Files) -> tuple[Path, Files]:
        if route not in made:
            folder = tmp_path_factory.mktemp("route")
            convert_route(run, command, str(write_files(folder / "in", files)), str(folder / "sets"))
            made[route] = folder / "in", local_files(folder / "sets")
        return made[route]

    return make


def convert_route(run: Run, command: str, where: str, output: str, *flags: str) -> None:
    words = [word.format(where) for word in command.split(" ")]
    done = run(*words, "--output", output, "--name", "n", *flags)
    assert done.status == 0, done.err


@pytest.mark.parametrize(
    ("bucket", "route"),
    [
        pytest.param(("gs", "s3")[number % 2], route, marks=pytest.mark.slow if route in IMAGES else ())
        for number, route in enumerate((*ROUTES, *IMAGES))
    ],
    indirect=["bucket"],
)
def test_an_object_store_gives_the_bytes_of_a_disk(
    bucket: Bucket, run: Run, on_disk: Callable[[Run, str, str, Files], tuple[Path, Files]], route: str
) -> None:
    make, command = (ROUTES | IMAGES)[route]
    files = make()
    if command.split()[0] in ("csv", "text", "jsonl") and "--block_size" not in command:
        command += " --block_size 2KiB"
    if bucket.url.startswith("az:"):  # which keeps no backslash
        files = {name.replace("\\", "-"): data for name, data in files.items()}
    remote = upload(bucket, "in", files | (_OTHERS if route == "one text" else {}))
    convert_route(run, command, remote, f"{bucket.url}/sets", *bucket.flags)
    local, made = on_disk(run, route, command, files)
    there = {name: data.replace(remote.encode(), bytes(local)) for name, data in bucket.files().items()}
    assert without_source(below(there, "sets")) == without_source(made)
    assert not [name for name in there if TEMP_PREFIX in name]
    assert below(bucket.files("in/"), "in").keys() >= files.keys()
    rejects = [data for name, data in made.items() if "/rejects/" in name]
    assert [REJECTED[route] in data for data in rejects] == [True] * (route in REJECTED)
    empty = [name for name, data in made.items() if ".tfrecord-" in name and not data]
    assert len(empty) == (4 if route == "shards without records" else 0)
    if route == "csv":
        shards = f"{bucket.url}/sets/n/1.0.0/*.tfrecord-*"
        again = ("--output", f"{bucket.url}/again", "--name", "n", "--num_shards", "5")
        assert run("reshard", "--input", shards, *again, *bucket.flags).status == 0
        assert run("verify", f"{bucket.url}/again/n", *bucket.flags).status == 0
        kept = ("--output", f"{bucket.url}/kept", "--name", "n")
        assert run("reshard", "--input", f"{bucket.url}/sets/n", *kept, *bucket.flags).status == 0
        before, after = (json.loads(bucket.files()[f"{name}/n/1.0.0/manifest.json"]) for name in ("sets", "kept"))
        assert after["features"] == before["features"]
        assert after["input"]["pattern"] == f"{bucket.url}/sets/n/1.0.0"


def convert(run: Run, bucket: Bucket, files: Files, *flags: str, folder: str = "in") -> Result:
    """Convert CSV files of the bucket."""
    source = upload(bucket, folder, files)
    return run("csv", "--input", source, "--output", f"{bucket.url}/sets", "--name", "n", *flags, *bucket.flags)


def test_files_of_different_length_are_a_sentence(bucket: Bucket, run: Run) -> None:
    url = upload(bucket, "y", _pairs() | {"en/1.txt": b"one\n"})
    words = _PAIR.format(url, url).split()
    done = run(*words, "--output", f"{bucket.url}/none", "--name", "n", *bucket.flags)
    check_mistake(done, "de=1.txt has 300 lines and en=1.txt has 1 line: line n of the one belongs to line n")


def test_an_empty_object_that_marks_a_folder_is_no_file(bucket: Bucket, run: Run) -> None:
    bucket.put("in/v1.0", b"")
    assert convert(run, bucket, {"a.csv": b"x\n1\n2\n"}, folder="in/v1.0").status == 0
    assert b'"examples": 2' in bucket.files()["sets/n/1.0.0/manifest.json"]


@pytest.mark.parametrize("bucket", ["s3"], indirect=True)
def test_a_failed_table_leaves_its_rejects_alone_until_one_succeeds(bucket: Bucket, run: Run) -> None:
    files = {"a.csv": b"x,y\n" + b"1,2\n" * 500 + b"1,2,3\n" * 500}
    flags = ("--num_shards", "2", "--block_size", "1KiB")
    done = convert(run, bucket, files, *flags)
    assert (done.status, "500 of 1000 records were rejected" in done.err) == (1, True), done.err
    assert list(below(bucket.files(), "sets")) == ["n/1.0.0-rejects.jsonl"]
    assert convert(run, bucket, files, *flags, "--max_reject_fraction", "0.5").status == 0
    left = bucket.names("sets/")
    assert not [name for name in left if TEMP_PREFIX in name or name.endswith("/1.0.0-rejects.jsonl")]


def test_a_slice_of_a_run_is_one_request_and_many_are_asked_at_once(bucket: Bucket, run: Run) -> None:
    files = {"a.csv": b"x,y\n" + b"".join(b"%d,%d\n" % (n, n * n) for n in range(3000))}
    bucket.requests()
    assert convert(run, bucket, files, "--num_shards", "3", "--block_size", "1KiB").status == 0
    asked = bucket.requests()
    of_runs = [request for request in asked["requests"] if "run-" in request]
    runs = {urllib.parse.unquote(request).partition("run-")[2][:32] for request in of_runs}
    listings = ("list-type=", "prefix=")
    reads = [each for each in of_runs if each.startswith("GET") and not any(word in each for word in listings)]
    looks = 3  # at all keys of a run: to count them, to find the cuts, to slice it
    assert len(runs) > 8
    assert 0 < len(reads) <= len(runs) * (looks + 3)
    assert asked["reads_at_once"] > 2  # as two shards, one request after another, would be
