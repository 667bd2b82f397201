"""Which version a rebuild makes: `auto` gives a number once."""

from pathlib import Path

import pytest

from shardmill.metadata.versions import BuildRecord, Status
from shardmill.pipelines.nightly.planning import next_patch, version_to_build
from shardmill.transforms.publishing.build_records import write_record


def publish(parent: Path, *versions: str) -> None:
    for version in versions:
        (parent / version).mkdir(parents=True)
        (parent / version / "_SUCCESS").write_text("")


def record(parent: Path, version: str, status: Status) -> None:
    write_record(str(parent), BuildRecord("n", version, status, "2026-11-20T03:00:00Z"))


def test_the_patch_after_the_newest(tmp_path: Path) -> None:
    assert version_to_build("auto", str(tmp_path)) == "1.0.0"
    publish(tmp_path, "1.0.9", "1.0.10", "0.9.99")
    assert version_to_build("auto", str(tmp_path)) == "1.0.11"
    assert version_to_build("3.0.0", str(tmp_path)) == "3.0.0"


def test_a_version_that_was_deleted_is_not_made_again(tmp_path: Path) -> None:
    publish(tmp_path, "1.0.3")
    record(tmp_path, "1.0.4", "published")

    assert version_to_build("auto", str(tmp_path)) == "1.0.5"


@pytest.mark.parametrize("status", ["failed", "checks_failed", "locked"])
def test_a_version_that_was_never_published_is_made_now(tmp_path: Path, status: Status) -> None:
    publish(tmp_path, "1.0.3")
    record(tmp_path, "1.0.4", status)
    (tmp_path / "1.0.4" / "beam-temp-n-1").mkdir(parents=True)  # of a job that builds it: the two must meet

    assert version_to_build("auto", str(tmp_path)) == "1.0.4"


def test_next_patch() -> None:
    assert next_patch("1.2.9") == "1.2.10"
