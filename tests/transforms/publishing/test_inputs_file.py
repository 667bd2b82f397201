"""What a version was made from belongs to the version that stands, wherever a publication is interrupted."""

import shutil
from pathlib import Path

import pytest

from shardmill.metadata import file_names
from shardmill.transforms.publishing import build_records
from shardmill.transforms.publishing.description import Build
from shardmill.transforms.publishing.publish import publish
from tests.support.builds import FEATURES, build, options
from tests.support.faults import faulty, in_child, kill

pytestmark = pytest.mark.slow

SHARDS = {"train": 1, "test": 1}


def staged(output: Path, job: str, inputs: bytes | None) -> Build:
    """A build of version 1.0.0 whose shards are written, by a job that has staged its inputs."""
    directory = output / "flowers/1.0.0"
    made = build(directory, job, counts=SHARDS)
    if inputs is not None:
        build_records.stage_inputs(str(directory / file_names.temporary_folder("flowers", job)), inputs)
    return made


def published(output: Path, job: str, inputs: bytes | None) -> None:
    publish(staged(output, job, inputs), FEATURES, options(output, job=job))


def found(output: Path) -> bytes | None:
    path = Path(build_records.inputs_path(str(output / "flowers"), "1.0.0"))
    return path.read_bytes() if path.exists() else None


def test_it_is_that_of_the_job_that_published_last(tmp_path: Path) -> None:
    published(tmp_path, "a", b"of a")
    assert found(tmp_path) == b"of a"
    published(tmp_path, "b", b"of b")
    assert found(tmp_path) == b"of b"
    published(tmp_path, "c", None)
    assert found(tmp_path) is None  # nobody knows what that was made from


def test_a_job_that_publishes_nothing_leaves_that_of_the_version(tmp_path: Path) -> None:
    published(tmp_path, "a", b"of a")
    staged(tmp_path, "b", b"of b")

    assert found(tmp_path) == b"of a"


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
