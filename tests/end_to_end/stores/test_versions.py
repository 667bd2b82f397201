"""Versions, tags, rollback, deletion, and whether there is anything to do: on object stores, each an emulator."""

import json
from pathlib import Path
from typing import Any

import pytest

import shardmill
from shardmill.addons.nightly.inputs import find_inputs
from shardmill.addons.nightly.planning import decide, encode_inputs
from shardmill.addons.nightly.recipe import RetainOptions
from shardmill.addons.nightly.retention import retain
from shardmill.metadata import file_names
from shardmill.pipelines.jobs.registry import KINDS
from shardmill.reading.dataset import open_dataset
from shardmill.transforms.publishing import lease
from shardmill.transforms.publishing.catalog import delete_version, list_versions
from shardmill.transforms.stores import storage
from shardmill.transforms.stores.beam_filesystems import process_options
from tests.addons.nightly.retained import CASES, check_retained
from tests.support.buckets import Bucket
from tests.support.command import Run, tree_bytes
from tests.support.small_data_set import make_version


@pytest.fixture
def parent(bucket: Bucket, tmp_path: Path) -> str:
    """Three versions of data set `n`, of which LATEST names the last; its folder."""
    for index in range(3):
        make_version(tmp_path / "n", f"1.0.{index}", latest=True, examples=index + 2)
    for name, data in tree_bytes(tmp_path).items():
        bucket.put(f"out/{name}", data)
    return f"{bucket.url}/out/n"


def latest(bucket: Bucket) -> str:
    return bucket.files("out/n/LATEST")["out/n/LATEST"].decode().strip()


def test_versions_tags_and_rollback(run: Run, bucket: Bucket, parent: str) -> None:
    assert run("rollback", parent, *bucket.flags).out == f"{parent}: LATEST: 1.0.2 -> 1.0.1\n"
    assert latest(bucket) == "1.0.1"
    assert run("tag", parent, "1.0.0", "good", *bucket.flags).status == 0
    assert run("tag", parent, "1.0.1", "good", *bucket.flags).status == 2
    assert run("tag", parent, "1.0.1", "good", "--move", *bucket.flags).status == 0
    assert bucket.files("out/n/TAGS/")["out/n/TAGS/good"] == b"1.0.1\n"
    assert open_dataset(parent, storage.StorageFiles(), "good").manifest.version == "1.0.1"

    rows = json.loads(run("versions", parent, "--json", *bucket.flags).out)
    assert [(row["version"], row["examples"], row["latest"], row["tags"]) for row in rows] == [
        ("1.0.2", 4, False, []),
        ("1.0.1", 3, True, ["good"]),
        ("1.0.0", 2, False, []),
    ]
    assert rows[0]["published"] > "2020"
    assert run("tag", parent, "good", "--delete", *bucket.flags).status == 0
    assert bucket.files("out/n/TAGS/") == {}


def test_functions_reach_a_store_by_options_of_beam(bucket: Bucket, parent: str) -> None:
    before = process_options()
    reach: dict[str, Any] = {"beam_options": bucket.flags}

    assert [row.version for row in shardmill.versions(parent, **reach)] == ["1.0.2", "1.0.1", "1.0.0"]
    assert shardmill.rollback(parent, **reach).version == latest(bucket) == "1.0.1"
    assert shardmill.tag(parent, "1.0.0", "good", **reach).version == "1.0.0"
    assert [fault.file for fault in shardmill.verify(parent, **reach).faults] == ["dataset_info.json", "stats.json"]
    assert shardmill.inspect(parent, examples=1, **reach).text.startswith("n 1.0.1\n")
    assert process_options() is before
    with pytest.raises(shardmill.UserError, match="no version"):
        shardmill.versions(f"{bucket.url}/none", **reach)


def test_what_a_killed_deletion_left_of_a_version_goes(bucket: Bucket, parent: str) -> None:
    """No more than the lease, of a machine that renewed it long ago."""
    held = lease.take_lease(f"{parent}/1.0.9", file_names.temporary_folder("deletion", "x"), "x")
    held.leave()
    found = json.loads(bucket.files()["out/n/1.0.9/LOCK"])
    options = RetainOptions(min_versions=5, max_age=1.0)
    assert retain(parent, options) == []
    assert "out/n/1.0.9/LOCK" in bucket.files()  # this process lives
    abandoned = {**found, "boot": "another", "host": "web7", "seconds": -2}  # times of S3 are whole seconds
    bucket.put("out/n/1.0.9/LOCK", json.dumps(abandoned).encode())

    assert retain(parent, options) == []
    assert not any(name.startswith("out/n/1.0.9/") for name in bucket.files())
    assert len(list_versions(parent)) == 3


def test_deletion(bucket: Bucket, parent: str) -> None:
    bucket.put("out/n/builds/1.0.0.inputs", b"x")
    before = bucket.files()
    assert not delete_version(f"{parent}/1.0.0", lambda: True)
    assert not delete_version(f"{parent}/1.0.0", iter([False, True]).__next__)
    assert bucket.files() == before

    assert delete_version(f"{parent}/1.0.0", lambda: False)
    gone = {name for name in before if name.startswith("out/n/1.0.0/")} | {"out/n/builds/1.0.0.inputs"}
    assert bucket.files() == {name: data for name, data in before.items() if name not in gone}
    assert [state.version for state in list_versions(parent)] == ["1.0.2", "1.0.1"]

    storage.delete([f"{parent}/1.0.1/_SUCCESS", f"{parent}/1.0.1/features.json"])  # as one that was interrupted
    assert [(state.version, state.published) for state in list_versions(parent)][-1] == ("1.0.1", False)
    assert delete_version(f"{parent}/1.0.1", lambda: False)
    assert bucket.files("out/n/1.0.1/") == {}


@pytest.mark.parametrize(("listed", "fingerprint"), [(False, "content"), (True, "metadata")])
def test_is_there_anything_to_do(bucket: Bucket, parent: str, listed: bool, fingerprint: str) -> None:
    names = [f"c{number % 2}/{number}.jpg" for number in range(4)]
    for name in names:
        bucket.put(f"in/{name}", b"one")
    bucket.put("in/m.csv", "\n".join(["file_name,label", *(f"{name},a" for name in names)]).encode())
    source = {"manifest": f"{bucket.url}/in/m.csv"} if listed else {"input": f"{bucket.url}/in"}
    config = KINDS["images"].make_config({**source, "output": f"{bucket.url}/out", "name": "n", "version": "1.0.3"})

    def said() -> str:
        return str(decide(config, find_inputs(config, fingerprint)))

    assert said() == "what 1.0.2 was made from was not recorded"
    bucket.put("out/n/builds/1.0.2.inputs", encode_inputs(find_inputs(config, fingerprint)))
    assert said() == "unchanged since 1.0.2: 4 files"
    bucket.put("in/c0/0.jpg", b"one")  # again: its content is the same
    assert said() == "unchanged since 1.0.2: 4 files"
    bucket.put("in/c0/0.jpg", b"two")  # of equal size
    assert said() == "0 files new, 1 changed, 0 gone"


def test_the_newest_input_by_the_clock_of_the_store(bucket: Bucket) -> None:
    bucket.put("in/a.jpg", b"x")
    config = KINDS["images"].make_config({"input": f"{bucket.url}/in", "output": f"{bucket.url}/out", "name": "n"})
    newest = find_inputs(config).newest

    assert newest is not None
    assert newest == storage.stat_file(f"{bucket.url}/in/a.jpg").modified > 1_600_000_000


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_what_goes_and_what_stays(bucket: Bucket, case: str) -> None:
    """The table that also runs on a disk."""
    check_retained(bucket, CASES[case])
