"""Objects that may not be read: each is a reject of its own on every route, as one is that is not there; a store that
refuses whoever asks has failed."""

import json
import random
from collections.abc import Mapping
from functools import partial

import pyarrow as pa
import pytest

from shardmill.data import tfrecord
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.storage import raise_if_store_failed
from tests.support.buckets import Bucket, S3Bucket, jpeg, upload
from tests.support.command import Run
from tests.support.encoded import encode_example
from tests.support.object_store_server import FORBIDDEN, OF_THE_CALLER
from tests.support.table_results import parquet


@pytest.mark.parametrize("operation", [storage.read_bytes, partial(storage.read_range, offset=0, length=1)])
def test_what_a_403_is_about(bucket: Bucket, operation: partial[bytes]) -> None:
    of_the_object, of_the_caller = (f"{bucket.url}/{name}" for name in (FORBIDDEN, OF_THE_CALLER))
    with pytest.raises(PermissionError, match=FORBIDDEN) as raised:
        operation(of_the_object)
    raise_if_store_failed(raised.value, of_the_object)
    with pytest.raises(OSError, match=OF_THE_CALLER) as failed:
        operation(of_the_caller)
    assert not isinstance(failed.value, PermissionError)
    with pytest.raises(OSError, match=OF_THE_CALLER):
        raise_if_store_failed(failed.value, of_the_caller)
    for of_metadata in (storage.size, storage.stat_file, storage.open_read):
        with pytest.raises(PermissionError):
            of_metadata(of_the_object)


# What each route reads, by the ending of its files; "manifest" is images by a list of their names
FILES: Mapping[str, tuple[str, bytes]] = {
    "images": (".jpg", jpeg(1)),
    "manifest": (".jpg", jpeg(1)),
    "csv": (".csv", b"n\n1\n"),
    "parquet": (".parquet", parquet(pa.table({"n": [1]}))),
    "reshard": (".tfrecord", tfrecord.frame_record(encode_example({"n": [1]}))),
}


@pytest.fixture
def s3(s3_endpoint: str) -> S3Bucket:
    return S3Bucket(f"bucket-{random.SystemRandom().getrandbits(64):x}", s3_endpoint)


@pytest.mark.parametrize(
    "route", [*FILES][:1] + [pytest.param(route, marks=pytest.mark.slow) for route in [*FILES][1:]]
)
def test_the_other_files_are_read_and_it_is_a_reject(run: Run, s3: S3Bucket, route: str) -> None:
    suffix, data = FILES[route]
    names = [f"cat/{stem}{suffix}" for stem in ("a", "b", FORBIDDEN)]
    source = upload(s3, route, dict.fromkeys(names, data))
    flags = [f"--input={source}{'/**' if route == 'reshard' else ''}"]
    if route == "manifest":
        s3.put(f"{route}/list.csv", "\n".join(["file_name", *names]).encode())
        flags = [f"--manifest={source}/list.csv"]
    if route in ("csv", "parquet", "reshard"):
        flags.append("--on_damaged_file=reject")
    command = "images" if route == "manifest" else route
    flags += [f"--output={s3.url}/sets", f"--name={route}", "--max_reject_fraction=0.9", *s3.flags]
    result = run(command, *flags)
    assert result.status == 0, result.err
    made = s3.files(f"sets/{route}/1.0.0/")
    (reject,) = map(json.loads, made[f"sets/{route}/1.0.0/rejects/rejects-00000-of-00001.jsonl"].splitlines())
    assert reject["source"].endswith(names[-1])
    assert reject["reason"] == "cannot be read: Permission denied"
    (split,) = json.loads(made[f"sets/{route}/1.0.0/manifest.json"])["splits"]
    assert sum(shard["examples"] for shard in split["shards"]) == 2
