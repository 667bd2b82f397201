"""What storage does with objects: it lists, renames, deletes and reads ranges of them."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from shardmill.data.codecs import PLAIN_CODEC
from shardmill.metadata import file_names
from shardmill.metadata.file_names import ShardName
from shardmill.metadata.manifest import Reject
from shardmill.transforms.inputs.listing import FoundFile, ListingItem, list_input
from shardmill.transforms.options.job_options import CheckOptions
from shardmill.transforms.publishing import publish
from shardmill.transforms.publishing.description import PublishOptions
from shardmill.transforms.shards.sources import ShardInfo
from shardmill.transforms.stores import storage
from shardmill.transforms.stores import storage as renames
from tests.support.buckets import Bucket, Files, upload
from tests.support.builds import rejects_of


def test_listing_finds_what_a_local_one_finds(bucket: Bucket, photos: Files, local_photos: Path) -> None:
    root = upload(bucket, "photos", photos)
    bucket.put("photos/rose/", b"")  # a "folder", as the consoles make it
    bucket.put("photos-hard/rose/1.jpg", b"")

    def ordered(listed: Iterator[ListingItem]) -> list[ListingItem]:
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
        assert any(isinstance(item, FoundFile) for item in found), pattern


def test_operations_on_more_objects_than_a_request_holds(bucket: Bucket) -> None:
    number = 1005 if bucket.url.startswith("s3:") else 205
    names = [f"many/{index:04d} [%].jpg" for index in range(number)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda name: bucket.put(name, b"x"), names))
    bucket.put("many-more/1", b"")
    assert sorted(storage.list_files(f"{bucket.url}/many")) == [(name.removeprefix("many/"), 1) for name in names]
    storage.delete_tree(f"{bucket.url}/many/")
    assert list(bucket.files()) == ["many-more/1"]


def test_a_file_is_written_as_its_bytes_come(bucket: Bucket, tmp_path: Path) -> None:
    parts = [bytes([number]) * (3 << 20) for number in range(4)]  # more than one part of an upload
    for where in (bucket.url, str(tmp_path)):
        with storage.open_write(f"{where}/streamed/a [1]") as file:
            for part in parts:
                file.write(part)
        assert storage.read_bytes(f"{where}/streamed/a [1]") == b"".join(parts)


def test_rename_may_be_repeated(bucket: Bucket) -> None:
    sources = [f"{bucket.url}/temporary/{index} [a]" for index in range(3)]
    finals = [f"{bucket.url}/final/{index} [a]" for index in range(3)]
    for index in range(3):
        bucket.put(f"temporary/{index} [a]", b"new")
    bucket.put("final/1 [a]", b"old")
    renames.rename(sources[:2], finals[:2])
    renames.rename(sources, finals)
    renames.rename(sources, finals)
    assert bucket.files() == {f"final/{index} [a]": b"new" for index in range(3)}
    with pytest.raises(FileNotFoundError, match="neither"):
        renames.rename([f"{bucket.url}/temporary/9"], [f"{bucket.url}/final/9"])


def test_a_version_that_failed_its_checks_is_kept_for_some_days(bucket: Bucket) -> None:
    told = PublishOptions(
        output=f"{bucket.url}/sets",
        name="n",
        version="1.0.1",
        codec=PLAIN_CODEC,
        shard_counts={},
        source="",
        configuration={},
        versions={},
        job="job",
        checks=CheckOptions(),
    )
    shard = ShardInfo(ShardName("n", "train", 0, 1), f"{told.directory}/{told.temporary}/0", 1, 1, 0, 4, 0, None)
    storage.write_text(shard.temporary, "data")
    noon = datetime(2026, 11, 20, 12, tzinfo=UTC)
    bad = Reject("a", 1, "read", "no")

    for _ in range(2):  # an attempt may be repeated
        said = publish.keep_failed_version([shard], {"manifest.json": b"{}"}, rejects_of(bad), told, noon)
    assert said == f"the shards are kept in {bucket.url}/sets/n/failed/1.0.1 until 2026-11-23"
    kept = {
        f"sets/n/failed/1.0.1/{name}"
        for name in (
            "n-train.tfrecord-00000-of-00001",
            "manifest.json",
            "_FAILED",
            f"rejects/{file_names.REJECTS_FILE}",
        )
    }
    assert bucket.files().keys() == kept

    publish.delete_expired_failures(told.parent, noon + timedelta(days=2))
    assert bucket.files().keys() == kept
    publish.delete_expired_failures(told.parent, noon + timedelta(days=4))
    assert bucket.files() == {}


def test_missing_objects(bucket: Bucket) -> None:
    bucket.put("a1", b"")
    for operation in (storage.read_bytes, storage.size, storage.open_read):
        with pytest.raises(FileNotFoundError, match=r"a\[1\]"):
            operation(f"{bucket.url}/a[1]")
    assert not storage.exists(f"{bucket.url}/a[1]")
    storage.delete([f"{bucket.url}/a[1]"])
    assert list(bucket.files()) == ["a1"]


def test_ranges(bucket: Bucket) -> None:
    bucket.put("a [1]", bytes(range(100)))
    url = f"{bucket.url}/a [1]"
    assert storage.read_range(url, 10, 5) == bytes(range(10, 15))
    assert storage.read_range(url, 99, 1) == b"\x63"
    assert storage.read_range(url, 100, 0) == b""
    with pytest.raises(EOFError, match=r"5 bytes at 95, expected 10"):
        storage.read_range(url, 95, 10)
    with pytest.raises(EOFError):
        storage.read_range(url, 100, 10)
    with storage.open_read(url, 200) as file:  # as it was larger when it was listed
        assert (file.seek(90), file.read(50), file.read(1)) == (90, bytes(range(90, 100)), b"")
    storage.write_parts(f"{bucket.url}/made", [b"ab", memoryview(b"cd")])
    assert bucket.files()["made"] == b"abcd"
