"""`shardmill images` on object stores."""

import json
import os
import random
import signal
import time
import urllib.parse
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from shardmill.pipelines import cli
from shardmill.transforms.stores import storage
from tests.support.archives import zipped
from tests.support.buckets import Bucket, Files, S3Bucket, below, jpeg, local_files, make_images, upload, without_source
from tests.support.command import Process, write_files
from tests.support.masks import write_pairs

pytestmark = pytest.mark.slow

SPLIT_FLAGS = ("--splits", "train=0.8,test=0.2", "--num_shards", "train=2,test=1")


def test_tree_gives_the_bytes_of_a_local_run(
    bucket: Bucket, photos: Files, reference: Callable[..., Files], capsys: pytest.CaptureFixture[str]
) -> None:
    source = upload(bucket, "photos", photos)
    assert make_images(bucket, "--input", source, "--output", f"{bucket.url}/sets", *SPLIT_FLAGS) == 0
    made = below(bucket.files(), "sets")
    assert "flowers/1.0.0/_SUCCESS" in made
    assert without_source(made) == without_source(reference(*SPLIT_FLAGS))
    assert below(bucket.files(), "photos") == photos
    for command in ("verify", "inspect"):
        assert cli.main([command, f"{bucket.url}/sets/flowers", *bucket.flags]) == 0
    assert "31 examples in 3 shards, no fault" in capsys.readouterr().out


def test_a_zip_archive_is_read_by_ranges(
    bucket: Bucket, photos: Files, reference: Callable[..., Files], capsys: pytest.CaptureFixture[str]
) -> None:
    """Its directory once, and each image by a request of its own: nothing is downloaded whole."""
    large = {"zzz/other.bin": random.Random(0).randbytes(3_000_000)}
    bucket.put("photos.zip", zipped({**photos, **large}, zipfile.ZIP_STORED))

    assert (
        make_images(bucket, "--input", f"{bucket.url}/photos.zip", "--output", f"{bucket.url}/sets", *SPLIT_FLAGS) == 0
    )
    made = below(bucket.files("sets/"), "sets")
    of_disk = reference(*SPLIT_FLAGS)
    shards = [name for name in of_disk if ".tfrecord-" in name]
    assert [made[name] for name in shards] == [of_disk[name] for name in shards]
    assert json.loads(made["flowers/1.0.0/manifest.json"])["rejects"]["records"] == 0


def test_a_zip_archive_that_is_not_there(bucket: Bucket, capsys: pytest.CaptureFixture[str]) -> None:
    missing = f"{bucket.url}/missing.zip"
    assert make_images(bucket, "--input", missing, "--output", f"{bucket.url}/sets", *SPLIT_FLAGS) == 2
    assert f"nothing matches --input {missing}\n" in capsys.readouterr().err


@pytest.mark.parametrize("splits", [("train/", "test/"), ("",)])
def test_the_image_folder_of_hugging_face_is_that_of_a_disk(
    bucket: Bucket, photos: Files, tmp_path: Path, splits: tuple[str, ...]
) -> None:
    """Its metadata in each split folder, or beside its images; columns of further files too."""
    images = [data for name, data in photos.items() if name.endswith(".jpg")]
    rows = [{"file_name": f"{n}.jpg", "next_file_name": f"next/{n}.jpg", "age": n} for n in range(10)]
    files = {f"{split}{n}.jpg": images[n] for split in splits for n in range(10)}
    files |= {f"{split}next/{n}.jpg": images[n + 10] for split in splits for n in range(10)}
    files |= {f"{split}metadata.jsonl": "".join(json.dumps(row) + "\n" for row in rows).encode() for split in splits}
    flags = SPLIT_FLAGS[2:] if len(splits) > 1 else SPLIT_FLAGS
    local = write_files(tmp_path / "folder", files)
    assert make_images(None, "--input", str(local), "--output", str(tmp_path / "sets"), *flags) == 0
    remote = upload(bucket, "folder", files)

    assert make_images(bucket, "--input", remote, "--output", f"{bucket.url}/sets", *flags) == 0
    made, of_disk = below(bucket.files("sets/"), "sets"), local_files(tmp_path / "sets")
    shards = [name for name in of_disk if ".tfrecord-" in name]
    assert len(shards) == 3
    assert [made[name] for name in shards] == [of_disk[name] for name in shards]
    notice, *_ = json.loads(made["flowers/1.0.0/manifest.json"])["notices"]
    assert f"{remote}/{splits[0]}metadata.jsonl" in notice
    assert "say what its images are" in notice or "says what its images are" in notice


def test_manifest_gives_the_bytes_of_a_local_run_and_rejects_what_is_missing(
    bucket: Bucket, photos: Files, tmp_path: Path
) -> None:
    names = [name for name in photos if name.endswith(".jpg")]
    rows = [{"file_name": name, "label": name.split("/")[0], "size": len(photos[name])} for name in names]
    rows.insert(3, {"file_name": "daisy/gone [1].jpg", "label": "daisy", "size": 1})
    files = {**photos, "photos.jsonl": "".join(json.dumps(row) + "\n" for row in rows).encode()}
    flags = ("--num_shards", "3", "--max_reject_fraction", "0.5")
    local = write_files(tmp_path / "photos", files)
    assert make_images(None, "--manifest", str(local / "photos.jsonl"), "--output", str(tmp_path / "sets"), *flags) == 0
    remote = upload(bucket, "photos", files)
    assert make_images(bucket, "--manifest", f"{remote}/photos.jsonl", "--output", f"{bucket.url}/sets", *flags) == 0
    made = below(bucket.files("sets/"), "sets")
    assert f"was looked for in {remote}/".encode() in made["flowers/1.0.0/manifest.json"]
    there = {name: data.replace(remote.encode(), str(local).encode()) for name, data in made.items()}
    assert without_source(there) == without_source(local_files(tmp_path / "sets"))
    (reject,) = made["flowers/1.0.0/rejects/rejects-00000-of-00001.jsonl"].decode().splitlines()
    assert json.loads(reject) == {"source": "daisy/gone [1].jpg", "line": 4, "stage": "index", "reason": "no such file"}


def test_images_of_a_local_manifest_may_lie_on_a_store(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("elsewhere/a [1].jpg", jpeg(1))
    manifest = tmp_path / "photos.csv"
    manifest.write_text(f"image_uri,label\n{bucket.url}/elsewhere/a [1].jpg,daisy\n")
    flags = ("--manifest", str(manifest), "--allow_outside", "--output", str(tmp_path / "sets"))
    assert make_images(bucket, *flags) == 0
    assert json.loads((tmp_path / "sets/flowers/1.0.0/manifest.json").read_text())["input"]["records"] == 1


def test_rerun_refuses_and_overwrite_replaces_that_version_only(
    bucket: Bucket,
    photos: Files,
    local_photos: Path,
    reference: Callable[..., Files],
    capsys: pytest.CaptureFixture[str],
) -> None:
    neighbours = {
        "flowers-hard/1.0.0/flowers-train.tfrecord-00000-of-00001": b"another set's shard",
        "flowers-hard/1.0.0/_SUCCESS": b"",
        "flowers/1.0.0-old/flowers-train.tfrecord-00000-of-00001": b"not a version",
        "flowers/1.0.1/flowers-train.tfrecord-00000-of-00001": b"another version",
    }
    upload(bucket, "sets", neighbours)
    flags = ("--input", str(local_photos), "--output", f"{bucket.url}/sets")
    assert make_images(bucket, *flags, *SPLIT_FLAGS) == 0
    published = bucket.files()
    assert make_images(bucket, *flags, *SPLIT_FLAGS) == 2
    assert f"{bucket.url}/sets/flowers/1.0.0 is a published data set" in capsys.readouterr().err
    assert bucket.files() == published
    assert make_images(bucket, *flags, "--num_shards", "2", "--seed", "5", "--overwrite") == 0
    replaced = below(bucket.files(), "sets")
    assert without_source(replaced) == without_source({**neighbours, **reference("--num_shards", "2", "--seed", "5")})


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


def test_names_with_wildcards_are_names(bucket: Bucket, local_photos: Path) -> None:
    neighbours = upload(bucket, "sets1", {"flowers/1.0.0/_SUCCESS": b"", "flowers/1.0.0/manifest.json": b"{}"})
    before = bucket.files()
    flags = ("--input", str(local_photos), "--output", f"{bucket.url}/sets[1]")
    assert make_images(bucket, *flags) == 0
    assert make_images(bucket, *flags, "--overwrite") == 0
    files = bucket.files()
    assert {name: files[name] for name in before} == before, neighbours
    assert "sets[1]/flowers/1.0.0/_SUCCESS" in files
    assert not [name for name in files if "beam-temp" in name]


def test_failed_job_leaves_its_rejects_and_nothing_else(bucket: Bucket, photos: Files) -> None:
    source = upload(bucket, "photos", {**photos, "rose/broken.jpg": b"GIF? no"})
    flags = ("--input", source, "--output", f"{bucket.url}/sets", "--num_shards", "2")
    assert make_images(bucket, *flags, "--max_reject_fraction", "0") == 1
    left = bucket.files("sets/")
    assert list(left) == ["sets/flowers/1.0.0-rejects.jsonl"]
    (reject,) = left["sets/flowers/1.0.0-rejects.jsonl"].decode().splitlines()
    assert json.loads(reject)["source"] == "rose/broken.jpg"
    assert make_images(bucket, *flags, "--max_reject_fraction", "0.5") == 0
    files = bucket.files("sets/")
    assert "sets/flowers/1.0.0-rejects.jsonl" not in files
    assert not [name for name in files if "beam-temp" in name]


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


def test_dry_run_plans_and_writes_nothing(bucket: Bucket, photos: Files, capsys: pytest.CaptureFixture[str]) -> None:
    source = upload(bucket, "photos", photos)
    labels = "".join(f"{name}\n" for name in ("daisy", "rose", "tulip wild")).encode()
    bucket.put("labels.txt", labels)
    flags = ("--input", source, "--output", f"{bucket.url}/sets", "--labels_file", f"{bucket.url}/labels.txt")
    before = bucket.files()
    assert make_images(bucket, *flags, "--num_shards", "5", "--dry_run") == 0
    said = capsys.readouterr().out
    assert f"Would write {bucket.url}/sets/flowers/1.0.0" in said
    assert "in 5 shards" in said
    assert "2 tulip wild: 9 train" in said
    assert bucket.files() == before


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (("--input", "{url}/nothing", "--output", "{url}/sets"), "{url}/nothing"),
        (("--input", "{url}/*/*.jpg", "--output", "{url}/sets"), "{url}/*/*.jpg"),
        (("--input", "{url}-none/photos", "--output", "{url}/sets"), "there is no such bucket"),
        (("--manifest", "{url}/none.csv", "--output", "{url}/sets"), "{url}/none.csv: no such file"),
        (("--input", "{url}/photos", "--output", "{url}-none/sets"), "--output {url}-none/sets cannot be listed"),
        (("--input", "{url}/photos", "--output", "{url}/photos/sets"), "is inside --input"),
        (
            ("--input", "{url}/photos", "--output", "{url}/sets", "--labels_file", "{url}/none"),
            "--labels_file {url}/none",
        ),
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


def test_shards_of_many_parts(bucket: Bucket, tmp_path: Path) -> None:
    files = {f"{index}.jpg": random.Random(index).randbytes(1 << 20) for index in range(20)}
    local = write_files(tmp_path / "photos", files)
    flags = ("--input", str(local), "--verify", "none", "--num_shards", "1")
    assert make_images(None, *flags, "--output", str(tmp_path / "sets")) == 0
    assert make_images(bucket, *flags, "--output", f"{bucket.url}/sets") == 0
    assert without_source(below(bucket.files(), "sets")) == without_source(local_files(tmp_path / "sets"))


def test_files_that_did_not_change_are_taken_from_an_older_version(
    bucket: Bucket, photos: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--input", upload(bucket, "photos", photos), "--folders", "label", *SPLIT_FLAGS)
    sets = ("--output", f"{bucket.url}/sets")
    assert make_images(bucket, *flags, *sets, "--reuse", "record") == 0
    changed = {"rose/03.jpg": jpeg(901), "rose/new.jpg": jpeg(902)}
    upload(bucket, "photos", changed)
    bucket.requests()
    assert make_images(bucket, *flags, *sets, "--version", "1.0.1", "--reuse", "LATEST") == 0
    asked = bucket.requests()["requests"]
    assert "30 of 32 files taken from 1.0.0, the others read" in capsys.readouterr().out
    reads = [urllib.parse.unquote(request) for request in asked if _reads_an_image(request)]
    assert sorted(name for name in changed if any(name in request for request in reads)) == sorted(changed)
    assert len(reads) == len(changed)
    assert make_images(bucket, *flags, "--output", f"{bucket.url}/full", "--version", "1.0.1") == 0
    assert below(bucket.files(), "sets/flowers/1.0.1") == below(bucket.files(), "full/flowers/1.0.1")


def _reads_an_image(request: str) -> bool:
    method, path = request.split(" ", 1)
    return method == "GET" and (".jpg" in path.partition("?")[0]) and ("/photos/" in path or "/photos%2F" in path)


def test_masks_of_a_bucket_give_the_bytes_of_a_local_run(bucket: Bucket, tmp_path: Path) -> None:
    local = write_pairs(tmp_path / "data")
    files = local_files(local)
    rows = "".join(f"{name},{name.replace('images', 'masks')}\n" for name in files if name.startswith("images"))
    files["m.csv"] = f"file_name,mask\n{rows}".encode()
    write_files(local, files)
    remote = upload(bucket, "data", files)
    for flags in (("--input", "{}/images", "--masks", "{}/masks"), ("--manifest", "{}/m.csv", "--mask_column", "mask")):
        made = []
        for root, output, store in ((local, str(tmp_path / "sets"), None), (remote, f"{bucket.url}/sets", bucket)):
            words = [flag.format(root) for flag in flags]
            assert make_images(store, *words, "--output", output, "--overwrite", "--num_shards", "2") == 0
            made.append(below(bucket.files("sets/"), "sets") if store else local_files(tmp_path / "sets"))
        assert without_source(made[0]) == without_source(made[1])
