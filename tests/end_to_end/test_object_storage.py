"""`shardmill images` on object stores: real clients against emulators, each a process on loopback that the tests
start."""

import gzip
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from google.auth.credentials import AnonymousCredentials
from google.cloud import storage as google_storage
from PIL import Image

from pipelines import cli
from shardmill import naming
from shardmill.errors import LockedError
from shardmill.naming import TEMP_PREFIX
from tests.support.command import REPOSITORY
from transforms.inputs.listing import Found, Listed, list_input
from transforms.publishing import lease, publish
from transforms.stores import conditional, storage
from transforms.stores.clients import set_options
from transforms.stores.stored import ChangedError

SERVER = REPOSITORY / "tests/support/object_store_server.py"
CLASSES = ("daisy", "rose", "tulip wild")
ODD_NAMES = (
    "a b",
    "100%",
    "%41",
    "#1",
    "x[1]",
    "x1",
    "é",
    "q?",
    "star*",
    "a+b&c=d",
    "a%2Fb",
    ".hidden",
    "~'\"",
    "a\\b",
)
Files = dict[str, bytes]


class Bucket(Protocol):
    """An emulator's bucket, through a client of its own rather than the code under test."""

    url: str
    flags: list[str]
    environment: dict[str, str]

    def put(self, name: str, data: bytes) -> None: ...

    def files(self, prefix: str = "") -> Files: ...

    def requests(self) -> dict[str, Any]: ...


class _Bucket:
    def __init__(self, url: str, endpoint: str, flags: list[str], environment: dict[str, str]) -> None:
        self.url, self.endpoint, self.flags, self.environment = url, endpoint, flags, environment

    def requests(self) -> dict[str, Any]:
        """The requests since this was last asked, and how many reads were under way at once."""
        with urllib.request.urlopen(f"{self.endpoint}/requests") as answer:
            return dict(json.load(answer))


class GoogleBucket(_Bucket):
    def __init__(self, name: str, endpoint: str, environment: dict[str, str]) -> None:
        super().__init__(f"gs://{name}", endpoint, [], environment)
        client = google_storage.Client("test", AnonymousCredentials(), client_options={"api_endpoint": endpoint})  # type: ignore[no-untyped-call]
        self._bucket = client.create_bucket(name)

    def put(self, name: str, data: bytes) -> None:
        self._bucket.blob(name).upload_from_string(data, "image/jpeg")

    def files(self, prefix: str = "") -> Files:
        names = [blob.name for blob in self._bucket.list_blobs(prefix=prefix)]
        return {name: self._bucket.blob(name).download_as_bytes() for name in names}


class S3Bucket(_Bucket):
    def __init__(self, name: str, endpoint: str) -> None:
        access = {
            "endpoint_url": endpoint,
            "access_key_id": "key",
            "secret_access_key": "secret",
            "region_name": "us-east-1",
        }
        super().__init__(f"s3://{name}", endpoint, [f"--s3_{flag}={value}" for flag, value in access.items()], {})
        names = {name: name if name.endswith(("url", "name")) else f"aws_{name}" for name in access}
        self.client = boto3.session.Session().client("s3", **{names[key]: value for key, value in access.items()})
        self.client.create_bucket(Bucket=name)
        self.name = name

    def put(self, name: str, data: bytes) -> None:
        self.client.put_object(Bucket=self.name, Key=name, Body=data)

    def files(self, prefix: str = "") -> Files:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        names = [item["Key"] for page in pages for item in page.get("Contents", ())]
        return {name: self.client.get_object(Bucket=self.name, Key=name)["Body"].read() for name in names}


@contextmanager
def _server(kind: str, log: Path) -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with log.open("wb") as output:
        process = subprocess.Popen([sys.executable, str(SERVER), kind, str(port)], stdout=output, stderr=output)
    try:
        for _ in range(300):
            assert process.poll() is None, log.read_text()
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


@pytest.fixture(scope="session")
def gs_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, str]]]:
    folder = tmp_path_factory.mktemp("gs")
    with _server("gs", folder / "log") as endpoint, pytest.MonkeyPatch.context() as patch:
        # Credentials as a job has them, so that Beam does not look for some elsewhere; the token comes from the
        # emulator.
        (folder / "token").write_text("a token to exchange")
        credentials = {
            "type": "external_account",
            "audience": "//emulator",
            "subject_token_type": "urn:ietf:params:oauth:token-type:jwt",
            "token_url": f"{endpoint}/token",
            "credential_source": {"file": str(folder / "token")},
        }
        (folder / "credentials.json").write_text(json.dumps(credentials))
        environment = {
            "STORAGE_EMULATOR_HOST": endpoint,
            "GOOGLE_APPLICATION_CREDENTIALS": str(folder / "credentials.json"),
            "GOOGLE_CLOUD_PROJECT": "test",
        }
        for name, value in environment.items():
            patch.setenv(name, value)
        yield endpoint, environment


@pytest.fixture(scope="session")
def s3_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with _server("s3", tmp_path_factory.mktemp("s3") / "log") as endpoint:
        yield endpoint


@pytest.fixture(params=["gs", "s3"])
def bucket(request: pytest.FixtureRequest) -> Iterator[Bucket]:
    """A new bucket; storage finds its store without a pipeline, too."""
    name = f"bucket-{random.SystemRandom().getrandbits(64):x}"
    made: Bucket
    if request.param == "gs":
        made = GoogleBucket(name, *request.getfixturevalue("gs_endpoint"))
    else:
        made = S3Bucket(name, request.getfixturevalue("s3_endpoint"))
    set_options(PipelineOptions(made.flags))
    yield made
    set_options(None)


@pytest.fixture(scope="session")
def photos() -> Files:
    """A tree of images by name, those of the first class with odd names; a hidden file, and one that is no image."""
    files = {}
    for number, folder in enumerate(CLASSES):
        for index, stem in enumerate(ODD_NAMES if number == 0 else [f"{index:02d}" for index in range(9)]):
            files[f"{folder}/{stem}.jpg"] = _jpeg(number * 100 + index)
    files["daisy/.thumbnails/1.jpg"] = files["daisy/.thumbnails/2.jpg"] = _jpeg(7)
    files["readme.txt"] = b"no image"
    return files


def _jpeg(seed: int) -> bytes:
    from io import BytesIO

    colours = random.Random(seed)
    output = BytesIO()
    Image.frombytes("RGB", (8, 8), colours.randbytes(192)).save(output, "JPEG")
    return output.getvalue()


@pytest.fixture(scope="session")
def local_photos(photos: Files, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _write(tmp_path_factory.mktemp("photos"), photos)


def _write(folder: Path, files: Files) -> Path:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def _upload(bucket: Bucket, prefix: str, files: Files) -> str:
    for name, data in files.items():
        bucket.put(f"{prefix}/{name}", data)
    return f"{bucket.url}/{prefix}"


def _images(bucket: Bucket | None, *flags: str) -> int:
    return cli.main(["images", "--name", "flowers", *flags, *(bucket.flags if bucket else [])])


SPLIT_FLAGS = ("--splits", "train=0.8,test=0.2", "--num_shards", "train=2,test=1")


@pytest.fixture(scope="session")
def reference(local_photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Files]:
    """What a local run over the same images makes, by flags."""
    made: dict[tuple[str, ...], Files] = {}

    def run(*flags: str) -> Files:
        if flags not in made:
            output = tmp_path_factory.mktemp("reference")
            assert _images(None, "--input", str(local_photos), "--output", str(output), *flags) == 0
            made[flags] = _local_files(output)
        return made[flags]

    return run


def _local_files(folder: Path) -> Files:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def _without_source(files: Files) -> dict[str, Any]:
    """The files of an output folder, but for where the input lay and checksums of what says it."""
    compared: dict[str, Any] = {}
    for name, data in files.items():
        if "/builds/" in name:  # records, which hold times
            continue
        compared[name] = data
        if name.endswith("manifest.json"):
            compared[name] = json.loads(data)
            del compared[name]["input"]["pattern"], compared[name]["files"]["dataset_info.json"]
        elif name.endswith("dataset_info.json"):
            compared[name] = json.loads(data)
            del compared[name]["description"]
        elif name.endswith("/_SUCCESS"):  # which has the checksum of the manifest
            compared[name] = len(data)
    return compared


def _below(files: Files, prefix: str) -> Files:
    return {name.removeprefix(f"{prefix}/"): data for name, data in files.items() if name.startswith(f"{prefix}/")}


def test_tree_gives_the_bytes_of_a_local_run(
    bucket: Bucket, photos: Files, reference: Callable[..., Files], capsys: pytest.CaptureFixture[str]
) -> None:
    source = _upload(bucket, "photos", photos)
    assert _images(bucket, "--input", source, "--output", f"{bucket.url}/sets", *SPLIT_FLAGS) == 0
    made = _below(bucket.files(), "sets")
    assert "flowers/1.0.0/_SUCCESS" in made
    assert _without_source(made) == _without_source(reference(*SPLIT_FLAGS))
    assert _below(bucket.files(), "photos") == photos
    for command in ("verify", "inspect"):
        assert cli.main([command, f"{bucket.url}/sets/flowers", *bucket.flags]) == 0
    assert "31 examples in 3 shards, no fault" in capsys.readouterr().out


def test_manifest_gives_the_bytes_of_a_local_run_and_rejects_what_is_missing(
    bucket: Bucket, photos: Files, tmp_path: Path
) -> None:
    names = [name for name in photos if name.endswith(".jpg")]
    rows = [{"file_name": name, "label": name.split("/")[0], "size": len(photos[name])} for name in names]
    rows.insert(3, {"file_name": "daisy/gone [1].jpg", "label": "daisy", "size": 1})
    files = {**photos, "photos.jsonl": "".join(json.dumps(row) + "\n" for row in rows).encode()}
    flags = ("--num_shards", "3", "--max_reject_fraction", "0.5")
    local = _write(tmp_path / "photos", files)
    assert _images(None, "--manifest", str(local / "photos.jsonl"), "--output", str(tmp_path / "sets"), *flags) == 0
    remote = _upload(bucket, "photos", files)
    assert _images(bucket, "--manifest", f"{remote}/photos.jsonl", "--output", f"{bucket.url}/sets", *flags) == 0
    made = _below(bucket.files("sets/"), "sets")
    assert f"was looked for in {remote}/".encode() in made["flowers/1.0.0/manifest.json"]
    there = {name: data.replace(remote.encode(), str(local).encode()) for name, data in made.items()}
    assert _without_source(there) == _without_source(_local_files(tmp_path / "sets"))
    (reject,) = made["flowers/1.0.0/rejects/rejects-00000-of-00001.jsonl"].decode().splitlines()
    assert json.loads(reject) == {"source": "daisy/gone [1].jpg", "line": 4, "stage": "index", "reason": "no such file"}


def test_images_of_a_local_manifest_may_lie_on_a_store(bucket: Bucket, tmp_path: Path) -> None:
    bucket.put("elsewhere/a [1].jpg", _jpeg(1))
    manifest = tmp_path / "photos.csv"
    manifest.write_text(f"image_uri,label\n{bucket.url}/elsewhere/a [1].jpg,daisy\n")
    flags = ("--manifest", str(manifest), "--allow_outside", "--output", str(tmp_path / "sets"))
    assert _images(bucket, *flags) == 0
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
    _upload(bucket, "sets", neighbours)
    flags = ("--input", str(local_photos), "--output", f"{bucket.url}/sets")
    assert _images(bucket, *flags, *SPLIT_FLAGS) == 0
    published = bucket.files()
    assert _images(bucket, *flags, *SPLIT_FLAGS) == 2
    assert f"{bucket.url}/sets/flowers/1.0.0 is a published data set" in capsys.readouterr().err
    assert bucket.files() == published
    assert _images(bucket, *flags, "--num_shards", "2", "--seed", "5", "--overwrite") == 0
    replaced = _below(bucket.files(), "sets")
    assert _without_source(replaced) == _without_source({**neighbours, **reference("--num_shards", "2", "--seed", "5")})


def test_a_version_that_is_not_there_and_those_that_are(bucket: Bucket, capsys: pytest.CaptureFixture[str]) -> None:
    names = ["1.0.0/_SUCCESS", "1.0.0/rejects/a", "1.1.0/_SUCCESS", "1.2.0/manifest.json", "1.3.0", "old/_SUCCESS"]
    folder = _upload(bucket, "sets/flowers", dict.fromkeys(names, b""))
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
    neighbours = _upload(bucket, "sets1", {"flowers/1.0.0/_SUCCESS": b"", "flowers/1.0.0/manifest.json": b"{}"})
    before = bucket.files()
    flags = ("--input", str(local_photos), "--output", f"{bucket.url}/sets[1]")
    assert _images(bucket, *flags) == 0
    assert _images(bucket, *flags, "--overwrite") == 0
    files = bucket.files()
    assert {name: files[name] for name in before} == before, neighbours
    assert "sets[1]/flowers/1.0.0/_SUCCESS" in files
    assert not [name for name in files if "beam-temp" in name]


def test_failed_job_leaves_its_rejects_and_nothing_else(bucket: Bucket, photos: Files) -> None:
    source = _upload(bucket, "photos", {**photos, "rose/broken.jpg": b"GIF? no"})
    flags = ("--input", source, "--output", f"{bucket.url}/sets", "--num_shards", "2")
    assert _images(bucket, *flags, "--max_reject_fraction", "0") == 1
    left = bucket.files("sets/")
    assert list(left) == ["sets/flowers/1.0.0-rejects.jsonl"]
    (reject,) = left["sets/flowers/1.0.0-rejects.jsonl"].decode().splitlines()
    assert json.loads(reject)["source"] == "rose/broken.jpg"
    assert _images(bucket, *flags, "--max_reject_fraction", "0.5") == 0
    files = bucket.files("sets/")
    assert "sets/flowers/1.0.0-rejects.jsonl" not in files
    assert not [name for name in files if "beam-temp" in name]


def test_next_run_clears_what_a_killed_one_left(bucket: Bucket, photos: Files, reference: Callable[..., Files]) -> None:
    flags = ["--input", _upload(bucket, "photos", photos), "--output", f"{bucket.url}/sets", "--num_shards", "4"]
    command = [
        sys.executable,
        "-m",
        "pipelines.cli",
        "images",
        "--name",
        "flowers",
        *flags,
        "--threads",
        "1",
        *bucket.flags,
    ]
    environment = {**os.environ, **bucket.environment}
    with subprocess.Popen(command, cwd=REPOSITORY, env=environment, stdout=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 60
        while not any(".tfrecord-" in name for name in bucket.files("sets/")) and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    left = bucket.files("sets/")
    assert any("/beam-temp-" in name and ".tfrecord-" in name for name in left)
    assert "sets/flowers/1.0.0/_SUCCESS" not in left
    if isinstance(bucket, S3Bucket):
        temporary = next(name for name in left if "/beam-temp-" in name)
        bucket.client.create_multipart_upload(Bucket=bucket.name, Key=f"{temporary}-unfinished")
    assert _images(bucket, *flags) == 0
    assert _without_source(_below(bucket.files(), "sets")) == _without_source(reference("--num_shards", "4"))
    if isinstance(bucket, S3Bucket):
        assert "Uploads" not in bucket.client.list_multipart_uploads(Bucket=bucket.name)


def test_dry_run_plans_and_writes_nothing(bucket: Bucket, photos: Files, capsys: pytest.CaptureFixture[str]) -> None:
    source = _upload(bucket, "photos", photos)
    labels = "".join(f"{name}\n" for name in CLASSES).encode()
    bucket.put("labels.txt", labels)
    flags = ("--input", source, "--output", f"{bucket.url}/sets", "--labels_file", f"{bucket.url}/labels.txt")
    before = bucket.files()
    assert _images(bucket, *flags, "--num_shards", "5", "--dry_run") == 0
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
        (("--input", "{url}/photos", "--output", "{url}/photos/sets"), "lies inside --input"),
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
    assert _images(bucket, *(flag.format(**values) for flag in flags)) == 2
    error = capsys.readouterr().err
    assert sentence.format(**values) in error
    assert "Traceback" not in error
    assert bucket.files() == {}


def test_reads_overlap_and_each_image_is_one_request(
    bucket: Bucket, photos: Files, reference: Callable[..., Files], tmp_path: Path
) -> None:
    source = _upload(bucket, "photos", photos)
    for threads, least, most in (("0", 4, 32), ("1", 1, 1)):
        bucket.requests()
        output = tmp_path / threads
        assert (
            _images(bucket, "--input", source, "--output", str(output), "--num_shards", "1", "--threads", threads) == 0
        )
        asked = bucket.requests()
        assert least <= asked["reads_at_once"] <= most
        of_images = [request for request in asked["requests"] if "/photos/" in request or "/photos%2F" in request]
        records = sum(name.endswith(".jpg") and "/." not in name for name in photos)
        assert len(of_images) == records
        assert _without_source(_local_files(output)) == _without_source(reference("--num_shards", "1"))


def test_publishing_lists_rather_than_asks_for_each_shard(bucket: Bucket, local_photos: Path) -> None:
    counts = []
    for version, shards in (("1.0.0", 1), ("1.0.1", 6)):
        bucket.requests()
        flags = ("--num_shards", str(shards), "--version", version)
        assert _images(bucket, "--input", str(local_photos), "--output", f"{bucket.url}/sets", *flags) == 0
        counts.append(len(bucket.requests()["requests"]))
    # Of each shard, gs: starts an upload and sends it; s3: starts, sends and completes it, then looks at it and copies
    # it.
    assert (counts[1] - counts[0]) / 5 <= (2 if bucket.url.startswith("gs:") else 5)


def test_shards_of_many_parts(bucket: Bucket, tmp_path: Path) -> None:
    files = {f"{index}.jpg": random.Random(index).randbytes(1 << 20) for index in range(20)}
    local = _write(tmp_path / "photos", files)
    flags = ("--input", str(local), "--verify", "none", "--num_shards", "1")
    assert _images(None, *flags, "--output", str(tmp_path / "sets")) == 0
    assert _images(bucket, *flags, "--output", f"{bucket.url}/sets") == 0
    assert _without_source(_below(bucket.files(), "sets")) == _without_source(_local_files(tmp_path / "sets"))


def test_listing_finds_what_a_local_one_finds(bucket: Bucket, photos: Files, local_photos: Path) -> None:
    root = _upload(bucket, "photos", photos)
    bucket.put("photos/rose/", b"")  # a "folder", as the consoles make it
    bucket.put("photos-hard/rose/1.jpg", b"")

    def ordered(listed: Iterator[Listed]) -> list[Listed]:
        return sorted(listed, key=repr)

    patterns = (
        "/*/*.jpg",
        "/**/*.jpg",
        "/**",
        "/daisy/x[[]1].jpg",
        "/daisy/x[0-9].jpg",
        "/rose/0*",
        "/ro?e/0[!1-9].jpg",
    )
    for pattern in ("", *patterns):
        found = ordered(list_input(root + pattern))
        assert found == ordered(list_input(str(local_photos) + pattern)), pattern
        assert any(isinstance(item, Found) for item in found), pattern


def test_operations_on_more_objects_than_a_request_holds(bucket: Bucket) -> None:
    number = 1005 if bucket.url.startswith("s3:") else 205
    names = [f"many/{index:04d} [%].jpg" for index in range(number)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda name: bucket.put(name, b"x"), names))
    bucket.put("many-more/1", b"")
    assert sorted(storage.list_files(f"{bucket.url}/many")) == [(name.removeprefix("many/"), 1) for name in names]
    storage.delete_tree(f"{bucket.url}/many/")
    assert list(bucket.files()) == ["many-more/1"]


def test_rename_may_be_repeated(bucket: Bucket) -> None:
    sources = [f"{bucket.url}/temporary/{index} [a]" for index in range(3)]
    finals = [f"{bucket.url}/final/{index} [a]" for index in range(3)]
    for index in range(3):
        bucket.put(f"temporary/{index} [a]", b"new")
    bucket.put("final/1 [a]", b"old")
    storage.rename(sources[:2], finals[:2])
    storage.rename(sources, finals)
    storage.rename(sources, finals)
    assert bucket.files() == {f"final/{index} [a]": b"new" for index in range(3)}
    with pytest.raises(FileNotFoundError, match="neither"):
        storage.rename([f"{bucket.url}/temporary/9"], [f"{bucket.url}/final/9"])


def test_missing_objects(bucket: Bucket) -> None:
    bucket.put("a1", b"")
    for operation in (storage.read_bytes, storage.size, storage.open_read):
        with pytest.raises(FileNotFoundError, match=r"a\[1\]"):
            operation(f"{bucket.url}/a[1]")
    assert not storage.exists(f"{bucket.url}/a[1]")
    storage.delete([f"{bucket.url}/a[1]"])
    assert list(bucket.files()) == ["a1"]


def test_files_that_did_not_change_are_taken_from_an_older_version(
    bucket: Bucket, photos: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--input", _upload(bucket, "photos", photos), "--output", f"{bucket.url}/sets", *SPLIT_FLAGS)
    assert _images(bucket, *flags, "--reuse", "record") == 0
    changed = {f"{CLASSES[1]}/03.jpg": _jpeg(901), f"{CLASSES[1]}/new.jpg": _jpeg(902)}
    _upload(bucket, "photos", changed)
    bucket.requests()
    assert _images(bucket, *flags, "--version", "1.0.1", "--reuse", "LATEST") == 0
    asked = bucket.requests()["requests"]
    assert "30 of 32 files taken from 1.0.0, the others read" in capsys.readouterr().out
    reads = [urllib.parse.unquote(request) for request in asked if _reads_an_image(request)]
    assert sorted(name for name in changed if any(name in request for request in reads)) == sorted(changed)
    assert len(reads) == len(changed)
    assert _images(bucket, *flags[:2], "--output", f"{bucket.url}/full", *SPLIT_FLAGS, "--version", "1.0.1") == 0
    assert _below(bucket.files(), "sets/flowers/1.0.1") == _below(bucket.files(), "full/flowers/1.0.1")


def _reads_an_image(request: str) -> bool:
    method, path = request.split(" ", 1)
    return method == "GET" and (".jpg" in path.partition("?")[0]) and ("/photos/" in path or "/photos%2F" in path)


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


@pytest.mark.parametrize("command", ["csv", "text", "jsonl", "parquet"])
def test_records_inside_objects_give_the_bytes_of_a_local_run(bucket: Bucket, tmp_path: Path, command: str) -> None:
    files = _tables()
    flags = ("--num_shards", "2", *(() if command == "parquet" else ("--block_size", "2KiB")))
    assert _records(None, command, str(_write(tmp_path / "in", files) / command), str(tmp_path / "out"), *flags) == 0
    source = _upload(bucket, "in", files)
    assert _records(bucket, command, f"{source}/{command}", f"{bucket.url}/sets", *flags) == 0
    made = _below(bucket.files(), "sets")
    assert _without_source(made) == _without_source(_local_files(tmp_path / "out"))
    assert not [name for name in bucket.files() if TEMP_PREFIX in name]
    shards = f"{bucket.url}/sets/{command}/1.0.0/*.tfrecord-*"
    assert _records(bucket, "reshard", shards, f"{bucket.url}/again", "--num_shards", "5") == 0
    assert cli.main(["verify", f"{bucket.url}/again/reshard", *bucket.flags]) == 0


def test_a_failed_table_leaves_no_runs(bucket: Bucket, capsys: pytest.CaptureFixture[str]) -> None:
    source = _upload(bucket, "in", {"a.csv": b"x,y\n" + b"1,2\n" * 500 + b"1,2,3\n" * 500})
    assert _records(bucket, "csv", source, f"{bucket.url}/sets", "--num_shards", "2", "--block_size", "1KiB") == 1
    assert "500 of 1000 records were rejected" in capsys.readouterr().err
    assert list(_below(bucket.files(), "sets")) == ["csv/1.0.0-rejects.jsonl"]


def test_ranges(bucket: Bucket) -> None:
    bucket.put("a [1]", bytes(range(100)))
    url = f"{bucket.url}/a [1]"
    assert storage.read_range(url, 10, 5) == bytes(range(10, 15))
    assert storage.read_range(url, 99, 1) == b"\x63"
    assert storage.read_range(url, 100, 0) == b""
    with pytest.raises(EOFError, match=r"5 bytes at 95, expected 10"):
        storage.read_range(url, 95, 10)
    storage.write_parts(f"{bucket.url}/made", [b"ab", memoryview(b"cd")])
    assert bucket.files()["made"] == b"abcd"


def test_a_change_needs_what_was_read(bucket: Bucket) -> None:
    url = f"{bucket.url}/small"
    assert conditional.read(url) is None
    conditional.create(url, "one")
    with pytest.raises(FileExistsError):
        conditional.create(url, "two")
    one = conditional.read(url)
    assert one is not None
    assert one.data == b"one"
    conditional.replace(url, "two", one)
    assert abs(one.modified - time.time()) < 3600
    with pytest.raises(ChangedError):
        conditional.replace(url, "three", one)
    with pytest.raises(ChangedError):
        conditional.delete(url, one)
    two = conditional.read(url)
    assert two is not None
    conditional.replace(url, "four", two)
    conditional.replace(url, "four", two)  # an answer was lost, and the request repeated
    four = conditional.read(url)
    assert four is not None
    conditional.delete(url, four)
    with pytest.raises(ChangedError):
        conditional.replace(url, "five", four)
    with pytest.raises(ChangedError):
        conditional.delete(url, four)
    assert bucket.files() == {}


def test_one_of_many_has_the_lease(bucket: Bucket) -> None:
    """At first, and when they find one that was not renewed by another machine."""
    directory = f"{bucket.url}/sets/n/1.0.0"

    def attempt(number: int) -> lease.Lease | None:
        try:
            return lease.take(directory, naming.temporary_folder("n", f"{number}"), f"{number}")
        except LockedError:
            return None

    with ThreadPoolExecutor(8) as pool:
        (won,) = filter(None, pool.map(attempt, range(8)))
        won.leave()
        found = json.loads(bucket.files()["sets/n/1.0.0/LOCK"])
        bucket.put("sets/n/1.0.0/LOCK", json.dumps({**found, "job": "x", "boot": "another", "host": "web7"}).encode())
        with pytest.raises(LockedError, match=r"on web7 since .* ends 300 s after it was last renewed"):
            lease.take(directory, naming.temporary_folder("n", "8"), "8")
        abandoned = {**found, "job": "x", "boot": "another", "seconds": -2}  # times of S3 are whole seconds
        bucket.put("sets/n/1.0.0/LOCK", json.dumps(abandoned).encode())
        (won,) = filter(None, pool.map(attempt, range(8)))
    won._write()  # as it does every minute
    assert json.loads(bucket.files()["sets/n/1.0.0/LOCK"])["beat"] == 1
    won.release()
    assert bucket.files() == {}


def test_the_second_command_names_the_first(
    bucket: Bucket, local_photos: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--input", str(local_photos), "--output", f"{bucket.url}/sets", "--overwrite")
    then, seen = publish.check_counts, []

    def second(build: Any) -> None:
        monkeypatch.setattr(publish, "check_counts", then)
        before = bucket.files()
        seen.append(_images(bucket, *flags, "--seed", "5"))
        assert bucket.files() == before
        then(build)

    monkeypatch.setattr(publish, "check_counts", second)
    assert _images(bucket, *flags) == 0
    assert seen == [4]
    assert f"{bucket.url}/sets/flowers/1.0.0 is being built by process {os.getpid()} of" in capsys.readouterr().err
    assert not [name for name in bucket.files() if "LOCK" in name or "beam-temp" in name]
