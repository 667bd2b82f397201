"""Tests of transforms/publishing/build_records.py."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from shardmill.metadata import file_names
from shardmill.metadata.versions import BuildRecord
from shardmill.transforms.publishing import build_records as build_records_of
from shardmill.transforms.publishing.description import Build
from shardmill.transforms.publishing.publish import publish
from tests.support.builds import FEATURES, build, options
from tests.support.faults import faulty, in_child, kill

GOOD = BuildRecord("n", "1.0.0", "published", "2026-11-20T03:00:00Z")
BAD = replace(GOOD, status="failed", started="2026-11-21T03:00:00Z")


def test_a_failed_build_is_recorded_until_one_succeeds(tmp_path: Path) -> None:
    paths = [build_records_of.write_record(str(tmp_path), record) for record in (BAD, GOOD, BAD)]

    assert [Path(path).name for path in paths] == ["1.0.0.json", "1.0.0.json", "1.0.0.failed.json"]
    assert [build_records_of.read_record(path) for path in paths[1:]] == [GOOD, BAD]
    assert build_records_of.find_newest_built(str(tmp_path)) == "1.0.0"
    assert sorted(path.name for path in (tmp_path / "builds").iterdir()) == ["1.0.0.failed.json", "1.0.0.json"]


def test_a_record_that_is_damaged_is_none(tmp_path: Path) -> None:
    (tmp_path / "builds").mkdir()
    (tmp_path / "builds" / "1.0.0.json").write_text("{")

    assert build_records_of.read_record(f"{tmp_path}/builds/1.0.0.json") is None
    assert build_records_of.write_record(str(tmp_path), BAD) == f"{tmp_path}/builds/1.0.0.json"


def test_whoever_completes_a_publication_puts_its_record_in_place(tmp_path: Path) -> None:
    directory = str(tmp_path / "1.0.0")
    (tmp_path / "1.0.0" / "beam-temp-n-1").mkdir(parents=True)
    build_records_of.stage_record(directory, "beam-temp-n-1", GOOD)
    for before in (GOOD, BAD):  # the second should have replaced the first
        build_records_of.write_record(str(tmp_path), before)
    (tmp_path / "builds" / "1.0.0.failed.html").touch()

    for _ in range(2):
        build_records_of.place_record(directory, "beam-temp-n-1")
        assert build_records_of.read_record(f"{tmp_path}/builds/1.0.0.json") == GOOD
        assert [path.name for path in (tmp_path / "builds").iterdir()] == ["1.0.0.json"]


def test_the_page_of_failed_checks_goes_where_a_later_build_of_that_version_crashes(tmp_path: Path) -> None:
    """It tells of checks, and of shards that are kept, which are not those of the build on record."""
    path = Path(build_records_of.write_record(str(tmp_path), replace(BAD, status="checks_failed")))
    page = path.with_suffix(".html")
    page.write_text("checks")

    build_records_of.write_record(str(tmp_path), replace(BAD, started="2026-11-22T03:00:00Z"))

    assert not page.exists()


def test_the_page_of_what_stands_stays(tmp_path: Path) -> None:
    page = Path(build_records_of.write_record(str(tmp_path), GOOD)).with_suffix(".html")
    page.write_text("good")

    build_records_of.write_record(str(tmp_path), BAD)

    assert page.exists()


SHARDS = {"train": 1, "test": 1}


def staged(output: Path, job: str, inputs: bytes | None) -> Build:
    """A build of version 1.0.0 whose shards are written, by a job that has staged its inputs."""
    directory = output / "flowers/1.0.0"
    made = build(directory, job, counts=SHARDS)
    if inputs is not None:
        build_records_of.stage_inputs(str(directory / file_names.temporary_folder("flowers", job)), inputs)
    return made


def published(output: Path, job: str, inputs: bytes | None) -> None:
    publish(staged(output, job, inputs), FEATURES, options(output, job=job))


def found(output: Path) -> bytes | None:
    path = Path(build_records_of.inputs_path(str(output / "flowers"), "1.0.0"))
    return path.read_bytes() if path.exists() else None


@pytest.mark.slow
def test_it_is_that_of_the_job_that_published_last(tmp_path: Path) -> None:
    published(tmp_path, "a", b"of a")
    assert found(tmp_path) == b"of a"
    published(tmp_path, "b", b"of b")
    assert found(tmp_path) == b"of b"
    published(tmp_path, "c", None)
    assert found(tmp_path) is None  # nobody knows what that was made from


@pytest.mark.slow
def test_a_job_that_publishes_nothing_leaves_that_of_the_version(tmp_path: Path) -> None:
    published(tmp_path, "a", b"of a")
    staged(tmp_path, "b", b"of b")

    assert found(tmp_path) == b"of a"


@pytest.mark.slow
def test_wherever_a_publication_is_killed_it_is_of_the_version_that_stands(tmp_path: Path) -> None:
    published(tmp_path / "old", "old", b"of old")
    manifest = (tmp_path / "old/flowers/1.0.0/manifest.json").read_bytes()
    seen = set()
    for at in range(1000):
        output = Path(shutil.copytree(tmp_path / "old", tmp_path / "now"))
        # Of another source, so that the manifests tell the two apart
        made, told = staged(output, "new", b"of new"), options(output, job="new", source="other/")

        def attempt(at: int = at, made: Build = made, told: object = told) -> None:
            with faulty(at, kill) as faults:
                publish(made, FEATURES, told)  # type: ignore[arg-type]
            assert faults.count > at

        status = in_child(attempt)
        if (output / "flowers/1.0.0/_SUCCESS").exists():
            is_old = (output / "flowers/1.0.0/manifest.json").read_bytes() == manifest
            seen.add((is_old, found(output)))
        publish(made, FEATURES, told)
        assert found(output) == b"of new"
        shutil.rmtree(output)
        if status != 9:
            break
    assert seen == {(True, b"of old"), (False, None), (False, b"of new")}
