"""Whole commands against an S3 that answers 503 for seconds, by a proxy in front of an emulator; and two buckets at
once."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.transforms.stores import storage
from shardmill.transforms.stores import storage as renames
from shardmill.transforms.stores.clients import using_options
from shardmill.transforms.stores.protocol import Rename
from shardmill.transforms.stores.s3 import S3
from tests.support.buckets import S3Bucket, flags_by, s3_named_once, server
from tests.support.command import Run, image
from tests.support.faulty_store import FaultyStore, attempts_unsaid, faulty

pytestmark = pytest.mark.slow

BUSY_SECONDS = 2.0  # more than boto3 waits where nothing is configured


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with server("s3", tmp_path_factory.mktemp("s3") / "log") as url, s3_named_once():
        yield url


@pytest.fixture
def store(endpoint: str) -> Iterator[FaultyStore]:
    with attempts_unsaid(), faulty(endpoint) as store:
        yield store


def new_bucket(endpoint: str) -> S3Bucket:
    return S3Bucket(f"bucket-{random.SystemRandom().getrandbits(64):x}", endpoint)


def arguments(bucket: S3Bucket, store: FaultyStore) -> list[str]:
    for number in range(8):
        bucket.put(f"in/{'ab'[number % 2]}/{number}.png", image(number, "PNG"))
    flags = ["--input", f"{bucket.url}/in", "--output", f"{bucket.url}/out", "--name", "n", "--num_shards", "2"]
    return ["images", *flags, *flags_by(bucket, store.endpoint)]


@pytest.mark.parametrize(("methods", "part"), [("GET", "in/a/"), ("PUT", "out/"), ("GET PUT POST HEAD", "")])
def test_a_store_that_is_busy_for_seconds(run: Run, endpoint: str, store: FaultyStore, methods: str, part: str) -> None:
    bucket = new_bucket(endpoint)
    words = arguments(bucket, store)
    store.fail_for("503", BUSY_SECONDS, methods.split(), part)
    result = run(*words)
    assert result.status == 0, result.err
    assert store.failed >= 2
    assert "out/n/1.0.0/_SUCCESS" in bucket.files("out/")
    assert run("verify", f"{bucket.url}/out/n", *flags_by(bucket, store.endpoint)).status == 0


@pytest.mark.parametrize(("method", "part", "named"), [("GET", "in/a/", "/in/a/"), ("PUT", "out/", "/out/n/1.0.0/")])
def test_one_attempt_fails_and_says_where(
    run: Run, endpoint: str, store: FaultyStore, method: str, part: str, named: str
) -> None:
    bucket = new_bucket(endpoint)
    words = arguments(bucket, store)
    store.fail_for("503", 3600, [method], part)
    result = run(*words, "--s3_attempts", "1", "--store_patience", "0")
    assert result.status in (1, 2)
    assert result.out == ""
    assert f"{bucket.url}{named}" in result.err
    assert "503" in result.err
    assert "Traceback" not in result.err
    assert "out/n/1.0.0/_SUCCESS" not in bucket.files("out/")


@pytest.mark.parametrize("through", ["storage", "client"])
def test_two_buckets_at_once(endpoint: str, tmp_path: Path, through: str) -> None:
    one, two = new_bucket(endpoint), new_bucket(endpoint)
    kept = {"kept": b"k"}
    for bucket in (one, two):
        for name in ("kept", "gone", "gone too", "moved"):
            bucket.put(name, name[:1].encode())
    (tmp_path / "moved").write_bytes(b"l")
    with using_options(PipelineOptions(one.flags)):
        client = S3(PipelineOptions(one.flags))
        gone = [f"{bucket.url}/{name}" for name in ("gone", "gone too", "never there") for bucket in (two, one)]
        moves = [(f"{bucket.url}/moved", f"{bucket.url}/final") for bucket in (two, one)]
        if through == "storage":
            storage.delete([str(tmp_path / "never there"), *gone])
            moves.append((str(tmp_path / "moved"), str(tmp_path / "final")))
            for _ in range(2):
                renames.rename(*zip(*moves, strict=True))
            assert (tmp_path / "final").read_bytes() == b"l"
        else:
            client.delete(gone)
            client.rename([Rename(source, final, 1) for source, final in moves])
        for bucket in (one, two):
            assert bucket.files() == {**kept, "final": b"m"}
        renames.rename([f"{one.url}/final"], [f"{two.url}/from one"])  # from one to another, too
    assert one.files() == kept
    assert two.files() == {**kept, "final": b"m", "from one": b"m"}
