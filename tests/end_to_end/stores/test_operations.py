"""Operations of storage: the same on a disk and on object stores, and those that only stores have."""

import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from shardmill.data.codecs import PLAIN_CODEC
from shardmill.metadata import file_names
from shardmill.metadata.file_names import ShardName
from shardmill.metadata.manifest import Reject
from shardmill.transforms.inputs.listing import ListingItem, list_input, list_singly
from shardmill.transforms.options.job_options import CheckOptions
from shardmill.transforms.publishing import publish
from shardmill.transforms.publishing.description import PublishOptions
from shardmill.transforms.shards.sources import ShardInfo
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.protocol import ChangedError, FileStat, StoredFile
from tests.end_to_end.stores.conftest import a_new_bucket
from tests.support.buckets import Bucket, Disk, Files, upload
from tests.support.builds import rejects_of


@pytest.fixture(params=["disk", "gs", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bucket]:
    """A folder of a disk, or a new bucket."""
    with nullcontext(Disk(tmp_path)) if request.param == "disk" else a_new_bucket(request.param, request) as made:
        yield made


ODD = ["[x]*?.jpg", "a b%20#.jpg", "ü.jpg"]


def check_changed(url: str, then: StoredFile) -> None:
    """Check that a file that is no longer as it was then is neither written nor deleted."""
    with pytest.raises(ChangedError):
        storage.replace(url, "other", then)
    with pytest.raises(ChangedError):
        storage.delete_if_unchanged(url, then)


def test_a_change_needs_what_was_read(place: Bucket) -> None:
    url = f"{place.url}/small"
    assert storage.read(url) is None
    storage.create(url, "one")
    with pytest.raises(FileExistsError):
        storage.create(url, "two")
    one = storage.read(url)
    assert one is not None
    assert one.data == b"one"
    assert abs(one.modified - time.time()) < 3600
    storage.replace(url, "one" if isinstance(place, Disk) else "two", one)  # on a disk, of the same bytes too
    check_changed(url, one)
    two = storage.read(url)
    assert two is not None
    for _ in range(1 if isinstance(place, Disk) else 2):  # an answer was lost, and the request repeated
        storage.replace(url, "four", two)
    four = storage.read(url)
    assert four is not None
    storage.delete_if_unchanged(url, four)
    check_changed(url, four)
    assert place.files() == {}


@pytest.mark.parametrize("data", [b"", b"x", bytes(range(256)) * 9000])
def test_reading(place: Bucket, data: bytes) -> None:
    place.put_all("in", dict.fromkeys(ODD, data))
    for url in (f"{place.url}/in/{name}" for name in ODD):
        assert storage.read_bytes(url) == data
        with storage.open_read(url) as file:
            assert file.read() == data
        assert storage.size(url) == len(data)
        assert storage.exists(url)


def test_ranges(place: Bucket) -> None:
    place.put("a [1]", bytes(range(100)))
    url = f"{place.url}/a [1]"
    assert storage.read_range(url, 10, 5) == bytes(range(10, 15))
    assert storage.read_range(url, 99, 1) == b"\x63"
    assert storage.read_range(url, 100, 0) == b""
    with pytest.raises(EOFError, match=r"5 bytes at 95, expected 10"):
        storage.read_range(url, 95, 10)
    with pytest.raises(EOFError):
        storage.read_range(url, 100, 10)
    with storage.open_read(url, 200) as file:  # as it was larger when it was listed
        assert (file.seek(90), file.read(50), file.read(1)) == (90, bytes(range(90, 100)), b"")


def test_what_is_missing(place: Bucket) -> None:
    place.put("a1", b"")
    url = f"{place.url}/a[1]"
    assert not storage.exists(url)
    for read in (storage.read_bytes, storage.open_read, storage.size):
        with pytest.raises(FileNotFoundError, match=r"a\[1\]"):
            read(url)
    assert list(storage.list_files(url)) == []
    assert storage.list_folders(url) == []
    storage.delete([url])
    storage.delete_tree(url)
    assert list(place.files()) == ["a1"]


def test_lists_and_deletions_take_names_as_they_are(place: Bucket) -> None:
    names = ["a", "d/b", "d/e/c", *ODD]
    place.put_all("in", dict.fromkeys(names, b"123"))
    place.put("in2/a", b"")

    assert dict(storage.list_files(f"{place.url}/in/")) == dict.fromkeys(names, 3)
    assert storage.list_folders(f"{place.url}/in") == ["d"]
    storage.delete(f"{place.url}/in/{name}" for name in ("*", "[ad]", ODD[0], "gone"))
    assert sorted(place.names()) == sorted([*(f"in/{name}" for name in names if name != ODD[0]), "in2/a"])
    storage.delete_tree(f"{place.url}/in/")
    assert place.names() == ["in2/a"]


def test_writing(place: Bucket) -> None:
    for text in ("größe\n", "größer\n"):
        storage.write_text(f"{place.url}/d/a.json", text)
    storage.write_parts(f"{place.url}/parts", [b"ab", memoryview(b"cd")])
    parts = [bytes([number]) * (3 << 20) for number in range(4)]  # more than one part of an upload
    with storage.open_write(f"{place.url}/streamed [1]") as file:
        for part in parts:
            file.write(part)
    assert place.files() == {"d/a.json": "größer\n".encode(), "parts": b"abcd", "streamed [1]": b"".join(parts)}


def test_rename_may_be_repeated_and_moves_nothing_where_one_is_lost(place: Bucket) -> None:
    sources, finals = ([f"{place.url}/{kind}/{n} [a]" for n in range(3)] for kind in ("temporary", "final"))
    place.put_all("temporary", {f"{n} [a]": b"new" for n in range(3)})
    place.put("final/1 [a]", b"old")
    lost = f"{place.url}/temporary/9", f"{place.url}/final/9"
    before = place.files()
    with pytest.raises(FileNotFoundError, match=f"^neither {lost[0]} nor {lost[1]} exists$"):
        storage.rename([sources[0], lost[0]], [finals[0], lost[1]])
    assert place.files() == before
    storage.rename(sources[:2], finals[:2])
    for _ in range(2):
        storage.rename(sources, finals)
    assert place.files() == {f"final/{n} [a]": b"new" for n in range(3)}


def test_files_for_a_reader(place: Bucket) -> None:
    place.put("in/a", b"x")
    files = storage.StorageFiles()
    assert files.read(f"{place.url}/in/a") == files.open(f"{place.url}/in/a").read() == b"x"
    assert files.folders(place.url) == ["in"]
    assert files.exists(f"{place.url}/in/a")
    assert not files.exists(f"{place.url}/in/b")


def test_listing_finds_what_a_local_one_finds(bucket: Bucket, photos: Files, local_photos: Path) -> None:
    root = upload(bucket, "photos", photos)
    bucket.put("photos/rose/", b"")  # a "folder", as the consoles make it
    bucket.put("photos-hard/rose/1.jpg", b"")

    def ordered(pattern: str) -> list[ListingItem]:
        items = list_singly(list_input(pattern))
        return sorted((FileStat(i.path, i.size_bytes) if isinstance(i, FileStat) else i for i in items), key=repr)

    patterns = [
        *("/*/*.jpg", "/**/*.jpg", "/**", "/daisy/x[[]1].jpg", "/daisy/x[0-9].jpg", "/rose/0*", "/ro?e/0[!1-9].jpg"),
    ]
    for pattern in ("", *patterns):
        found = ordered(root + pattern)
        assert found == ordered(str(local_photos) + pattern), pattern
        assert any(isinstance(item, FileStat) for item in found), pattern


def test_operations_on_more_objects_than_a_request_holds(bucket: Bucket) -> None:
    number = 1005 if bucket.url.startswith("s3:") else 205
    names = [f"many/{index:04d} [%].jpg" for index in range(number)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda name: bucket.put(name, b"x"), names))
    bucket.put("many-more/1", b"")
    assert sorted(storage.list_files(f"{bucket.url}/many")) == [(name.removeprefix("many/"), 1) for name in names]
    storage.delete_tree(f"{bucket.url}/many/")
    assert list(bucket.files()) == ["many-more/1"]


def test_a_version_that_failed_its_checks_is_kept_for_some_days(place: Bucket) -> None:
    told = PublishOptions(
        output=f"{place.url}/sets",
        name="n",
        version="1.0.1",
        codec=PLAIN_CODEC,
        shard_counts={},
        source="",
        configuration={},
        versions={},
        job="job",
        checks=CheckOptions(keep_failed=1.5),
    )
    shard = ShardInfo(ShardName("n", "train", 0, 1), f"{told.directory}/{told.temporary}/0", 1, 1, 0, 4, 0, None)
    storage.write_text(shard.temporary, "data")
    noon = datetime(2026, 11, 20, 12, tzinfo=UTC)
    bad = Reject("a", 1, "read", "no")

    for _ in range(2):  # an attempt may be repeated
        said = publish.keep_failed_version([shard], {"manifest.json": b"{}"}, rejects_of(bad), told, noon)
    assert said == f"the shards are kept in {place.url}/sets/n/failed/1.0.1 until 2026-11-22"
    kept = {
        f"sets/n/failed/1.0.1/{name}"
        for name in (
            "n-train.tfrecord-00000-of-00001",
            "manifest.json",
            "_FAILED",
            f"rejects/{file_names.REJECTS_FILE}",
        )
    }
    mark = json.loads(place.files()["sets/n/failed/1.0.1/_FAILED"])
    assert mark["until"] == "2026-11-22T00:00:00Z"
    for now in (noon, noon + timedelta(days=1)):
        assert place.files().keys() == kept
        publish.delete_expired_failures(told.parent, now)
    assert place.files().keys() == kept
    publish.delete_expired_failures(told.parent, noon + timedelta(days=2))
    assert place.files() == {}
