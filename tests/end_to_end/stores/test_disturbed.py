"""Whole jobs on stores that are disturbed, a row for each fault, on every store: the bytes of an undisturbed job, or an
error and nothing published. Wrong data is never published."""

import json
import os
import signal
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.transforms.stores import protocol, storage
from shardmill.transforms.stores.clients import using_options
from tests.end_to_end.stores.test_faults import store
from tests.support.buckets import Bucket, Files, below, flags_by, without_source
from tests.support.command import Process, Result, Run, image, local_files, write_files
from tests.support.faulty_store import FaultyStore, faulty

pytestmark = pytest.mark.slow
__all__ = ["store"]

ALWAYS = 1_000_000
Expected = Callable[[Run, str], Files]
PICTURES = {f"{'ab'[number % 2]}/{number}.png": image(number, "PNG") for number in range(8)}
TABLES = {f"{name}.csv": b"n,t\n" + b"".join(b"%d,%s\n" % (n, name.encode() * 9) for n in range(90)) for name in "abc"}


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Expected:
    """Return what undisturbed jobs publish, on a disk."""
    made: dict[str, Files] = {}

    def make(run: Run, command: str) -> Files:
        if command not in made:
            folder = tmp_path_factory.mktemp(command)
            write_files(folder / "in", PICTURES if command == "images" else TABLES)
            result = run(command, "--input", folder / "in", "--output", folder / "out", "--name", "n")
            assert result.status == 0, result.err
            made[command] = local_files(folder / "out")
        return made[command]

    return make


def flags(bucket: Bucket, store: FaultyStore) -> list[str]:
    """Return the flags with which a job reaches the bucket through the faulty store."""
    return [*flags_by(bucket, store.endpoint), "--s3_attempts=4"]


def convert(run: Run, bucket: Bucket, store: FaultyStore, command: str, *more: str) -> tuple[Result, Files]:
    """Run a job through the faulty store; return how it ended, and what is published. Some request has failed."""
    for name, data in (PICTURES if command == "images" else TABLES).items():
        bucket.put(f"in/{name}", data)  # by the store's client, which adds checksums
    places = ("--input", f"{bucket.url}/in", "--output", f"{bucket.url}/out", "--name", "n")
    result = run(command, *places, *flags(bucket, store), *more)
    assert store.failed > 0
    store.fail("", 0)
    return result, below(bucket.files(), "out")


def is_published(found: Files) -> bool:
    return any(name.endswith("_SUCCESS") for name in found)


@pytest.mark.parametrize(
    ("fault", "command"),
    [*((fault, "images") for fault in ("503", "reset", "lost", "damaged")), ("short", "csv"), ("slow", "csv")],
)
def test_a_fault_that_passes(
    run: Run, bucket: Bucket, store: FaultyStore, expected: Expected, fault: str, command: str
) -> None:
    """The first request for each object that is read fails."""
    store.fail(fault, 1, ".png" if command == "images" else ".csv", ALWAYS)
    result, found = convert(run, bucket, store, command)
    assert result.status == 0, result.err
    assert without_source(found) == without_source(expected(run, command))


@pytest.mark.parametrize("fault", ["503", "lost"])
def test_a_fault_of_what_is_written(
    run: Run, bucket: Bucket, store: FaultyStore, expected: Expected, fault: str
) -> None:
    """Shards that are being written are begun again, where the client does not repeat a request itself."""
    most = 8  # for what is begun anew has another name, whose first request would fail as well
    store.fail(fault, 1, "upload" if bucket.url.startswith("gs:") else "beam-temp", most)
    result, found = convert(run, bucket, store, "images", "--s3_attempts", "1")
    assert result.status == 0, result.err
    assert without_source(found) == without_source(expected(run, "images"))


@pytest.mark.parametrize("fault", ["503", "damaged"])
def test_a_fault_that_stays(run: Run, bucket: Bucket, store: FaultyStore, fault: str) -> None:
    store.fail(fault, ALWAYS, "3.png", ALWAYS)
    result, found = convert(run, bucket, store, "images", "--store_patience", "1")
    assert result.status == 1, result
    assert "3.png" in result.err
    assert not is_published(found)


@pytest.mark.parametrize("command", ["images", "csv"])
def test_other_etags(run: Run, bucket: Bucket, store: FaultyStore, expected: Expected, command: str) -> None:
    """An answer that names another version of the object than the listing did."""
    store.fail("etag", 1, "in", ALWAYS)
    result, found = convert(run, bucket, store, command)
    if is_published(found):
        assert result.status == 0, result.err
        assert without_source(found) == without_source(expected(run, command))
    else:
        assert result.status == 1, result


def test_one_object_is_forbidden(run: Run, bucket: Bucket, store: FaultyStore) -> None:
    store.fail("403", ALWAYS, "3.png", ALWAYS)
    result, found = convert(run, bucket, store, "images", "--max_reject_fraction", "0.5")
    assert result.status == 0, result.err
    (line,) = found["n/1.0.0/rejects/rejects-00000-of-00001.jsonl"].splitlines()
    reject = json.loads(line)
    assert (reject["source"], reject["reason"]) == ("b/3.png", "cannot be read: Permission denied")


@pytest.mark.parametrize("command", ["images", "csv"])
def test_a_listing_of_yesterday(run: Run, bucket: Bucket, store: FaultyStore, command: str) -> None:
    """It names an object that is gone, and another revision of one that was written anew: neither is published."""
    names = ("a/2.png", "b/3.png") if command == "images" else ("b.csv", "c.csv")
    places = ("--input", f"{bucket.url}/in", "--output", f"{bucket.url}/out", "--name", "n")
    bucket.put_all("in", PICTURES if command == "images" else TABLES)
    words = [*places, *flags(bucket, store)]
    assert run(command, *words, "--dry_run").status == 0  # by which the listing is known
    files = PICTURES if command == "images" else TABLES
    with using_options(PipelineOptions(bucket.flags)):
        storage.delete([f"{bucket.url}/in/{names[0]}"])
    anew = image(77, "PNG", size=(40, 40)) if command == "images" else files[names[1]] * 2
    bucket.put(f"in/{names[1]}", anew)
    store.fail("stale", ALWAYS, "prefix=in", ALWAYS)
    result = run(command, *words, "--max_reject_fraction", "0.9")
    assert store.failed > 0
    found = below(bucket.files(), "out")
    assert result.status == 1, result
    assert not is_published(found)


def test_metadata_files_that_cannot_be_listed(run: Run, bucket: Bucket, store: FaultyStore) -> None:
    """The job does not go by the folders instead, which would be another data set."""
    bucket.put("in/metadata.csv", b"file_name,label\na/0.png,cat\n")
    store.fail("503", 8, "metadata", ALWAYS)  # more often than any client asks, and no more then
    result, found = convert(run, bucket, store, "images", "--store_patience", "0")
    assert result.status == 1, result
    assert bucket.url in result.err
    assert not is_published(found)


def prepare(environment: Mapping[str, str]) -> None:
    os.environ.update(environment)
    protocol.TIMEOUT_S = 1.0


def test_what_is_left_is_said_and_the_next_run_clears_it(
    run: Run, bucket: Bucket, local_photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who interrupts a job whose store is gone for good is told what is left there, at once."""
    words = ("images", "--input", local_photos, "--output", f"{bucket.url}/sets", "--name", "n")
    directory = f"{bucket.url}/sets/n/1.0.0"
    with faulty(bucket.endpoint) as store:  # type: ignore[attr-defined]
        google = bucket.url.startswith("gs:")
        environment = {**bucket.environment, "STORAGE_EMULATOR_HOST": store.endpoint} if google else {}
        more = [] if google else flags_by(bucket, store.endpoint)
        store.fail("reset", ALWAYS, "uploadType=resumable" if google else ".tfrecord", ALWAYS)
        process = Process(tmp_path / "process", *words, *more, before=partial(prepare, environment))
        while process.is_alive() and not store.failed:
            time.sleep(0.01)
        store.fail("reset", ALWAYS, "", ALWAYS)
        process.send_signal(signal.SIGINT)
        result = process.result()
        left = bucket.names("sets")
        store.fail("", 0)
        if google:
            monkeypatch.setenv("STORAGE_EMULATOR_HOST", store.endpoint)
        assert run(*words, *more).status == 0

    assert result.status == 130, result
    told = result.err.splitlines()
    assert told[0].startswith(f"shardmill: warning: {directory}/beam-temp-n-")
    assert told[0].endswith(
        " could not be deleted, nor perhaps LOCK next to it; the next run deletes them: the store no longer answers"
    )
    said = f"interrupted; it is not known whether {directory} is published; if that had begun, the next run, or"
    assert said in told[-1]
    assert "sets/n/1.0.0/LOCK" in left
    assert not [name for name in bucket.names("sets") if "beam-temp" in name or name.endswith("LOCK")]
