"""How often object stores are asked: each request is a wait of some tens of milliseconds."""

import re
import urllib.parse
from pathlib import Path

import pytest

from shardmill.addons.nightly.planning import version_to_build
from shardmill.metadata.versions import BuildRecord, Status
from shardmill.pipelines import cli
from shardmill.reading.dataset import open_dataset
from shardmill.transforms.stores import storage
from tests.support.buckets import Bucket, below, jpeg, make_images, upload
from tests.support.command import Run, tree_bytes
from tests.support.small_data_set import make_version

pytestmark = pytest.mark.slow

# Of a rebuild with one shard in which one image changed; one more is for what is yet to be written, and two are for the
# examples of the summary
_REQUESTS = {"gs": 99, "s3": 95}


_SAID = re.compile(r"^Requests to stores: about ([\d,]+)$", re.MULTILINE)
_WITHIN = 1.3  # times
_OF_BUCKETS = re.compile(r"GET /storage/v1/b/[^/?]+[?]")  # which Google's client asks in a thread of its own


def asked(bucket: Bucket) -> list[str]:
    """The requests since this was last called that are about objects."""
    requests = map(urllib.parse.unquote, bucket.requests()["requests"])
    return [request for request in requests if not _OF_BUCKETS.match(request)]


def test_an_image_that_is_reused_is_no_request(bucket: Bucket, capsys: pytest.CaptureFixture[str]) -> None:
    """A rebuild asks as often whether it takes 11 images from the older version or 59, and gives the same bytes."""
    counts = []
    flags = ("--output", f"{bucket.url}/sets", "--num_shards", "1")
    for number, images in enumerate((12, 60)):
        source = upload(bucket, "photos", {f"rose/{index:02d}.jpg": jpeg(index) for index in range(images)})
        assert make_images(bucket, "--input", source, *flags, "--version", f"1.{number}.0", "--reuse", "record") == 0
        upload(bucket, "photos", {"rose/03.jpg": jpeg(900 + number)})
        asked(bucket)
        assert make_images(bucket, "--input", source, *flags, "--version", f"1.{number}.1", "--reuse", "LATEST") == 0
        assert f"{images - 1} of {images} files taken from 1.{number}.0, the others read" in capsys.readouterr().out
        requests = asked(bucket)
        assert len([request for request in requests if request.startswith("GET") and "/03.jpg" in request]) == 1
        counts.append(len(requests))
    assert counts[0] == counts[1] <= _REQUESTS[bucket.url.partition(":")[0]], "\n".join(requests)
    assert (
        make_images(bucket, "--input", source, "--output", f"{bucket.url}/full", "--version", "1.1.1", *flags[2:]) == 0
    )
    assert below(bucket.files(), "sets/flowers/1.1.1") == below(bucket.files(), "full/flowers/1.1.1")


@pytest.mark.parametrize(("command", "name", "looks"), [("csv", "a.csv", 2), ("text", "a.txt", 1)])
def test_a_block_is_one_request_each_time_it_is_read(bucket: Bucket, command: str, name: str, looks: int) -> None:
    """It is read for its types, if it says them, and for its records; before, the file is cut into blocks.

    A task, which has a block or more, asks once whether its file is the one that was listed.
    """
    rows = [b'{"x": %d, "y": "%s"}\n' % (number, b"z" * 50) for number in range(1000)]
    source = upload(bucket, "in", {name: b"".join([b"x,y\n" * (command == "csv"), *rows])})
    asked(bucket)
    flags = ["--block_size", "8KiB", "--output", f"{bucket.url}/sets", "--name", "n", *bucket.flags]
    assert cli.main([command, "--input", source, *flags]) == 0
    of_input = [request for request in asked(bucket) if f"/in/{name}" in request]
    blocks = sum(map(len, rows)) // (8 << 10) + 1
    cuts = 2 if command == "csv" else 1  # its header is read before
    reads = [request for request in of_input if request.startswith("GET") and "projection=" not in request]
    assert len(reads) <= cuts + looks * blocks, "\n".join(of_input)
    assert all("alt=json" not in request for request in of_input)
    assert 0 < len(of_input) - len(reads) <= 1 + looks * blocks


def test_the_next_version_is_known_by_the_newest_alone(bucket: Bucket, tmp_path: Path) -> None:
    """However many nights there were: each would be a request or three."""
    counts = []
    for nights in (2, 12):
        for index in range(nights):
            make_version(tmp_path / f"{nights}", f"1.0.{index}", latest=True)
        for name, data in tree_bytes(tmp_path / f"{nights}").items():
            bucket.put(f"{nights}/{name}", data)
        for index in range(nights + 2):
            status: Status = "published" if index < nights else "failed"
            record = BuildRecord("n", f"1.0.{index}", status, "2026-11-20T00:00:00Z")
            bucket.put(f"{nights}/builds/1.0.{index}.json", record.to_json().encode())
        asked(bucket)
        assert version_to_build("auto", f"{bucket.url}/{nights}") == f"1.0.{nights}"
        counts.append(len(asked(bucket)))
    assert counts[0] == counts[1] <= 7, counts  # one of them asks if the newest is being published


@pytest.mark.parametrize("named", ["LATEST", "the version"])
def test_each_file_of_a_data_set_is_one_request(bucket: Bucket, tmp_path: Path, named: str) -> None:
    make_version(tmp_path / "n", "1.0.0", latest=True)
    for name, data in tree_bytes(tmp_path).items():
        bucket.put(f"out/{name}", data)
    asked(bucket)
    dataset = open_dataset(f"{bucket.url}/out/n{'' if named == 'LATEST' else '/1.0.0'}", storage.StorageFiles())
    dataset.metadata("features.json")
    requests = asked(bucket)
    assert len(requests) == 4, requests  # LATEST, looked for in both, _SUCCESS, the manifest and that file
    assert all(request.startswith("GET") for request in requests)


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("images", ("--num_shards", "12")),
        ("csv", ("--num_shards", "1", "--block_size", "8KiB")),
        ("csv", ("--num_shards", "12", "--block_size", "8KiB")),
    ],
)
def test_a_dry_run_says_about_how_many_there_are(bucket: Bucket, run: Run, command: str, more: tuple[str, ...]) -> None:
    rows = b"".join(b"%d,%d\n" % (number, number * number) for number in range(4000))
    files = {f"{number}.csv": b"x,y\n" + rows for number in range(3)}
    photos = {f"{'ab'[number % 2]}/{number}.jpg": jpeg(number) for number in range(60)}
    source = upload(bucket, "in", photos if command == "images" else files)
    words = [command, "--input", source, "--output", f"{bucket.url}/sets", "--name", "n", *more, *bucket.flags]
    dry = run(*words, "--dry_run")
    assert (dry.status, bucket.names("sets/")) == (0, []), dry.err
    (said,) = (int(number.replace(",", "")) for number in _SAID.findall(dry.out))
    asked(bucket)
    assert run(*words).status == 0
    found = len(asked(bucket))
    assert said / _WITHIN <= found <= said * _WITHIN, (said, found)
