"""Leases on object stores, and the conditional writes that they are made of."""

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from shardmill.errors import LockedError
from shardmill.metadata import file_names
from shardmill.transforms.publishing import lease, publish
from tests.support.buckets import Bucket, make_images
from tests.support.pairs import make_source, race

pytestmark = pytest.mark.slow


def test_one_of_many_has_the_lease(bucket: Bucket) -> None:
    """At first, and when they find one that was not renewed by another machine."""
    directory = f"{bucket.url}/sets/n/1.0.0"

    def attempt(number: int) -> lease.Lease | None:
        try:
            return lease.take_lease(directory, file_names.temporary_folder("n", f"{number}"), f"{number}")
        except LockedError:
            return None

    with ThreadPoolExecutor(8) as pool:
        (won,) = filter(None, pool.map(attempt, range(8)))
        won.leave()
        found = json.loads(bucket.files()["sets/n/1.0.0/LOCK"])
        bucket.put("sets/n/1.0.0/LOCK", json.dumps({**found, "job": "x", "boot": "another", "host": "web7"}).encode())
        with pytest.raises(LockedError, match=r"on web7 since .* ends 300 s after it was last renewed"):
            lease.take_lease(directory, file_names.temporary_folder("n", "8"), "8")
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
        seen.append(make_images(bucket, *flags, "--seed", "5"))
        assert bucket.files() == before
        then(build)

    monkeypatch.setattr(publish, "check_counts", second)
    assert make_images(bucket, *flags) == 0
    assert seen == [4]
    assert f"{bucket.url}/sets/flowers/1.0.0 is being built by process {os.getpid()} of" in capsys.readouterr().err
    assert not [name for name in bucket.files() if "LOCK" in name or "beam-temp" in name]


@pytest.mark.parametrize("versions", [("1.0.0", "1.0.0"), ("1.0.0", "1.0.1")], ids=["one version", "two versions"])
def test_a_pair_of_builders(bucket: Bucket, tmp_path: Path, versions: tuple[str, str]) -> None:
    race(tmp_path, make_source(tmp_path / "in"), f"{bucket.url}/sets", versions, bucket.flags, bucket.environment)
