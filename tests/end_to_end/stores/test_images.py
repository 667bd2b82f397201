"""`shardmill images` on object stores."""

import json
import os
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from shardmill.pipelines import cli
from shardmill.transforms.stores import storage
from tests.support.buckets import Bucket, Files, S3Bucket, below, jpeg, make_images, upload, without_source
from tests.support.command import Process, local_files, run_program

pytestmark = pytest.mark.slow

SPLIT_FLAGS = ("--splits", "train=0.8,test=0.2", "--num_shards", "train=2,test=1")


def test_images_of_a_local_manifest_may_lie_on_a_store(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket.put("elsewhere/a [1].jpg", jpeg(1))
    manifest = tmp_path / "photos.csv"
    manifest.write_text(f"image_uri,label\n{bucket.url}/elsewhere/a [1].jpg,daisy\n")
    flags = ("--manifest", str(manifest), "--allow_outside", "--output", str(tmp_path / "sets"))
    assert make_images(bucket, *flags) == 0
    assert json.loads((tmp_path / "sets/flowers/1.0.0/manifest.json").read_text())["input"]["records"] == 1

    if isinstance(bucket, S3Bucket):
        access = {"ENDPOINT_URL": bucket.endpoint, "ACCESS_KEY_ID": "key", "SECRET_ACCESS_KEY": "secret"}
        for name, value in {**access, "DEFAULT_REGION": "us-east-1"}.items():
            monkeypatch.setenv(f"AWS_{name}", value)
    # No flag names a store or is Beam's: such a command imports Beam without the libraries of stores
    ended = run_program("images", *flags, "--name", "again", "--quiet")
    assert (ended.status, ended.err) == (0, ""), ended
    assert (tmp_path / "sets/again/1.0.0/_SUCCESS").exists()


def test_rerun_refuses_and_overwrite_replaces_that_version_only(
    bucket: Bucket,
    photos: Files,
    local_photos: Path,
    reference: Callable[..., Files],
    capsys: pytest.CaptureFixture[str],
) -> None:
    neighbours = {
        "sets[1]/flowers-hard/1.0.0/flowers-train.tfrecord-00000-of-00001": b"another set's shard",
        "sets[1]/flowers-hard/1.0.0/_SUCCESS": b"",
        "sets[1]/flowers/1.0.0-old/flowers-train.tfrecord-00000-of-00001": b"not a version",
        "sets[1]/flowers/1.0.1/flowers-train.tfrecord-00000-of-00001": b"another version",
        "sets1/flowers/1.0.0/_SUCCESS": b"",  # which the name of the folder would match, if it were a pattern
        "sets1/flowers/1.0.0/stats.json": b"{}",
    }
    for name, data in neighbours.items():
        bucket.put(name, data)
    flags = ("--input", str(local_photos), "--output", f"{bucket.url}/sets[1]")
    assert make_images(bucket, *flags, *SPLIT_FLAGS) == 0
    published = bucket.files()
    assert make_images(bucket, *flags, *SPLIT_FLAGS) == 2
    assert f"{bucket.url}/sets[1]/flowers/1.0.0 is a published data set" in capsys.readouterr().err
    assert bucket.files() == published
    assert make_images(bucket, *flags, "--num_shards", "2", "--seed", "5", "--overwrite") == 0
    files = bucket.files()
    made = {f"sets[1]/{name}": data for name, data in reference("--num_shards", "2", "--seed", "5").items()}
    assert without_source(files) == without_source({**neighbours, **made})


def test_a_version_that_is_not_there_and_those_that_are(bucket: Bucket, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["1.0.0/_SUCCESS", "1.0.0/rejects/a", "1.1.0/_SUCCESS", "1.2.0/manifest.json", "1.3.0", "old/_SUCCESS"]
    folder = upload(bucket, "sets/flowers", dict.fromkeys(names, b""))
    there = f"; published in {folder}: 1.1.0, 1.0.0; open {folder}/1.1.0\n"
    nothing = "is not a data set: there is no _SUCCESS and no manifest.json in it"
    for command in ("verify", "inspect"):
        assert cli.main([command, folder, *bucket.flags]) == 2
        assert capsys.readouterr().err == f"shardmill: error: {folder} {nothing}{there}"
    bucket.put("sets/flowers/LATEST", b"2.0.0\n")
    for command in ("verify", "inspect"):
        assert cli.main([command, folder, *bucket.flags]) == 2
        assert (
            capsys.readouterr().err
            == f"shardmill: error: {folder}/LATEST names 2.0.0, but {folder}/2.0.0 {nothing}{there}"
        )
    assert storage.list_folders(f"{folder}/") == ["1.0.0", "1.1.0", "1.2.0", "old"]
    assert storage.list_folders(f"{folder}/1.1.0") == storage.list_folders(f"{folder}/gone") == []
    bucket.requests()
    storage.list_folders(folder)
    assert all("delimiter=%2F" in request for request in bucket.requests()["requests"])  # not all that lies below


def set_environment(variables: dict[str, str]) -> None:
    """Of this process."""
    os.environ.update(variables)


def test_next_run_clears_what_a_killed_one_left(
    bucket: Bucket, photos: Files, reference: Callable[..., Files], tmp_path: Path
) -> None:
    flags = ["--input", upload(bucket, "photos", photos), "--output", f"{bucket.url}/sets", "--num_shards", "4"]
    process = Process(
        tmp_path / "process",
        *("images", "--name", "flowers", *flags, "--threads", "1", *bucket.flags),
        before=partial(set_environment, bucket.environment),
    )
    deadline = time.monotonic() + 60
    while not any(".tfrecord-" in name for name in bucket.names("sets/")) and time.monotonic() < deadline:
        assert process.is_alive()
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    assert process.result().status == -signal.SIGKILL
    left = bucket.files("sets/")
    assert any("/beam-temp-" in name and ".tfrecord-" in name for name in left)
    assert "sets/flowers/1.0.0/_SUCCESS" not in left
    if isinstance(bucket, S3Bucket):
        temporary = next(name for name in left if "/beam-temp-" in name)
        bucket.client.create_multipart_upload(Bucket=bucket.name, Key=f"{temporary}-unfinished")
    assert make_images(bucket, *flags) == 0
    assert without_source(below(bucket.files(), "sets")) == without_source(reference("--num_shards", "4"))
    if isinstance(bucket, S3Bucket):
        assert "Uploads" not in bucket.client.list_multipart_uploads(Bucket=bucket.name)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--input", "{url}/missing.zip", "--output", "{url}/sets"), "nothing matches --input {url}/missing.zip\n"),
        (("--input", "{url}-none/photos", "--output", "{url}/sets"), "there is no such bucket"),
        (("--manifest", "{url}/none.csv", "--output", "{url}/sets"), "{url}/none.csv: no such file"),
        (("--input", "{url}/photos", "--output", "{url}-none/sets"), "--output {url}-none/sets cannot be listed"),
        (("--input", "ftp://host/photos", "--output", "{url}/sets"), "no file system for ftp://"),
        (("--input", "{scheme}://", "--output", "{url}/sets"), "there is no bucket in it"),
    ],
)
def test_mistakes_are_said_and_write_nothing(
    bucket: Bucket, flags: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    values = {"url": bucket.url, "scheme": bucket.url.split(":")[0]}
    assert make_images(bucket, *(flag.format(**values) for flag in flags)) == 2
    error = capsys.readouterr().err
    assert sentence.format(**values) in error
    assert "Traceback" not in error
    assert bucket.files() == {}


def test_reads_overlap_and_each_image_is_one_request(
    bucket: Bucket, photos: Files, reference: Callable[..., Files], tmp_path: Path
) -> None:
    source = upload(bucket, "photos", photos)
    flags = ("--num_shards", "1", "--folders", "label")  # else some images are looked at: they may be pairs
    # An answer may have come before the thread that sent it says so: one after another may seem to be two at once.
    for threads, least, most in (("0", 4, 64), ("1", 1, 2)):
        bucket.requests()
        output = tmp_path / threads
        assert make_images(bucket, "--input", source, "--output", str(output), *flags, "--threads", threads) == 0
        asked = bucket.requests()
        assert least <= asked["reads_at_once"] <= most
        of_images = [request for request in asked["requests"] if "/photos/" in request or "/photos%2F" in request]
        records = sum(name.endswith(".jpg") and "/." not in name for name in photos)
        assert len(of_images) == records
        assert without_source(local_files(output)) == without_source(reference(*flags))


def test_publishing_lists_rather_than_asks_for_each_shard(bucket: Bucket, local_photos: Path) -> None:
    counts = []
    for shards in (1, 6):  # each in a folder of its own: beside an older version more is looked at
        bucket.requests()
        flags = ("--output", f"{bucket.url}/sets{shards}", "--num_shards", str(shards))
        assert make_images(bucket, "--input", str(local_photos), *flags) == 0
        counts.append(len(bucket.requests()["requests"]))
    # Of each shard, gs: starts an upload and sends it; s3: starts, sends and completes it, then copies it. Hashes of
    # what it holds are written and read, and the page of the build looks into the first 24.
    assert (counts[1] - counts[0]) / 5 <= 8
