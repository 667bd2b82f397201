"""Stores that fail for a moment: every operation has the outcome of one on a store that does not, and so has a job."""

import re
import time
from collections.abc import Callable, Iterator

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.transforms.stores import patience, storage
from shardmill.transforms.stores import storage as conditional
from shardmill.transforms.stores.clients import object_store, set_options
from shardmill.transforms.stores.protocol import Rename
from tests.support.buckets import Bucket, flags_by
from tests.support.faulty_store import FAULTS, FaultyStore, attempts_unsaid, faulty

pytestmark = pytest.mark.slow

TIMES = 2  # that each request fails
_OF_THE_BUCKET = re.compile(r"GET /storage/v1/b/[^/?]+\?")


@pytest.fixture
def store(bucket: Bucket, monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyStore]:
    with attempts_unsaid(), faulty(bucket.endpoint) as proxy:  # type: ignore[attr-defined]
        if bucket.url.startswith("gs:"):
            monkeypatch.setenv("STORAGE_EMULATOR_HOST", proxy.endpoint)
        monkeypatch.setattr(time, "sleep", lambda seconds: None)  # of the clients' own attempts
        monkeypatch.setattr(patience, "FIRST_SECONDS", 0.01)
        yield proxy


def flags(bucket: Bucket, store: FaultyStore) -> list[str]:
    """Of a job that reaches the bucket through the faulty store; S3's own client does not repeat a request."""
    return [*flags_by(bucket, store.endpoint), "--s3_attempts=1"] if bucket.flags else []


@pytest.fixture
def patient(bucket: Bucket, store: FaultyStore) -> Iterator[FaultyStore]:
    """The store, as a step of a job reaches it."""
    set_options(PipelineOptions(flags(bucket, store)))
    patience.set_patience()
    yield store
    patience.set_patience(False)


def written(url: str) -> bytes:
    storage.write_bytes(url, b"other")
    return storage.read_bytes(url)


def created(url: str) -> bytes:
    object_store(url).create(f"{url}-made", b"x")
    return storage.read_bytes(f"{url}-made")


def deleted(url: str) -> bool:
    storage.delete([url, f"{url}-2"])
    return storage.exists(url)


def replaced(url: str) -> bytes:
    found = conditional.read(url)
    assert found is not None
    object_store(url).replace(url, b"anew", found.revision)
    return object_store(url).read(url)


def deleted_unchanged(url: str) -> bool:
    object_store(url).delete_unchanged(url, object_store(url).read_with_revision(url).revision)
    return storage.exists(url)


def renamed(url: str) -> bytes:
    object_store(url).rename([Rename(url, f"{url}-new", 5000)])
    return storage.read_bytes(f"{url}-new")


OPERATIONS: dict[str, Callable[[str], object]] = {
    "read": storage.read_bytes,
    "read_range": lambda url: storage.read_range(url, 10, 4000),
    "write": written,
    "create": created,
    "replace": replaced,
    "delete_unchanged": deleted_unchanged,
    "stat": lambda url: (storage.size(url), storage.stat_file(url).size_bytes),
    "list": lambda url: list(storage.list_files(url.rpartition("/")[0])),
    "stats": lambda url: [found.size_bytes for found in object_store(url).stats(url.rpartition("/")[0])],
    "folders": lambda url: storage.list_folders(url.rpartition("/")[0]),
    "delete": deleted,
    "rename": renamed,
}


READING = ("read", "read_range", "list", "stats", "folders")


@pytest.mark.parametrize("operation", OPERATIONS)
def test_every_operation(bucket: Bucket, patient: FaultyStore, operation: str) -> None:
    def outcome(folder: str, fault: str) -> object:
        for name in ("a", "a-2", "inner/b"):
            bucket.put(f"{folder}/{name}", bytes(range(250)) * 20)
        patient.fail(fault, TIMES if fault else 0, bucket.url.partition("://")[2])
        try:
            return repr(OPERATIONS[operation](f"{bucket.url}/{folder}/a")).replace(folder, "")
        finally:
            failed, times = patient.failed, patient.times
            patient.fail("", 0)
            writes = fault == "short" and operation not in READING  # of which no answer is long enough to break off
            assert bool(failed) == bool(times) or writes

    expected = outcome("faultless", "")
    assert [outcome(f"store{fault}", fault) for fault in FAULTS] == [expected] * len(FAULTS)


def test_an_answer_is_none_of_that(bucket: Bucket, patient: FaultyStore) -> None:
    patient.fail("", 0)
    for read in (storage.read_bytes, storage.size):
        with pytest.raises(FileNotFoundError):
            read(f"{bucket.url}/none")
    bucket.put("forbidden", b"x")
    with pytest.raises(PermissionError):
        storage.read_bytes(f"{bucket.url}/forbidden")
    assert max(patient.asked.values()) == 1


@pytest.mark.parametrize("operation", [*READING, "write", "stat"])
def test_no_client_waits_for_longer_than_is_said(bucket: Bucket, store: FaultyStore, operation: str) -> None:
    """Clients repeat requests themselves: Google's for two minutes, whatever its user has in mind."""
    bucket.put("in/a", b"x")
    set_options(PipelineOptions([*flags(bucket, store), "--store_patience", "0"]))
    store.fail("503", 1000, bucket.url.partition("://")[2])
    with pytest.raises(OSError, match=r"503|ServiceUnavailable"):
        OPERATIONS[operation](f"{bucket.url}/in/a")
    # A connection that has ended meanwhile is opened again. A thread of Google's client that nobody waits for looks up
    # the bucket, for traces.
    asked = [number for request, number in store.asked.items() if not _OF_THE_BUCKET.match(request)]
    assert max(asked) <= 2
