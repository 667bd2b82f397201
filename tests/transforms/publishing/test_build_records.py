"""The records of builds: that of what stands is not lost to a build that failed."""

from dataclasses import replace
from pathlib import Path

from shardmill.metadata.versions import BuildRecord
from shardmill.transforms.publishing.build_records import (
    find_newest_built,
    place_record,
    read_record,
    stage_record,
    write_record,
)

GOOD = BuildRecord("n", "1.0.0", "published", "2026-11-20T03:00:00Z")
BAD = replace(GOOD, status="failed", started="2026-11-21T03:00:00Z")


def test_a_failed_build_is_recorded_until_one_succeeds(tmp_path: Path) -> None:
    paths = [write_record(str(tmp_path), record) for record in (BAD, GOOD, BAD)]

    assert [Path(path).name for path in paths] == ["1.0.0.json", "1.0.0.json", "1.0.0.failed.json"]
    assert [read_record(path) for path in paths[1:]] == [GOOD, BAD]
    assert find_newest_built(str(tmp_path)) == "1.0.0"
    assert sorted(path.name for path in (tmp_path / "builds").iterdir()) == ["1.0.0.failed.json", "1.0.0.json"]


def test_a_record_that_is_damaged_is_none(tmp_path: Path) -> None:
    (tmp_path / "builds").mkdir()
    (tmp_path / "builds" / "1.0.0.json").write_text("{")

    assert read_record(f"{tmp_path}/builds/1.0.0.json") is None
    assert write_record(str(tmp_path), BAD) == f"{tmp_path}/builds/1.0.0.json"


def test_whoever_completes_a_publication_puts_its_record_in_place(tmp_path: Path) -> None:
    directory = str(tmp_path / "1.0.0")
    (tmp_path / "1.0.0" / "beam-temp-n-1").mkdir(parents=True)
    stage_record(directory, "beam-temp-n-1", GOOD)
    for before in (GOOD, BAD):  # the second should have replaced the first
        write_record(str(tmp_path), before)
    (tmp_path / "builds" / "1.0.0.failed.html").touch()

    for _ in range(2):
        place_record(directory, "beam-temp-n-1")
        assert read_record(f"{tmp_path}/builds/1.0.0.json") == GOOD
        assert [path.name for path in (tmp_path / "builds").iterdir()] == ["1.0.0.json"]


def test_the_page_of_failed_checks_goes_where_a_later_build_of_that_version_crashes(tmp_path: Path) -> None:
    """It tells of checks, and of shards that are kept, which are not those of the build on record."""
    path = Path(write_record(str(tmp_path), replace(BAD, status="checks_failed")))
    page = path.with_suffix(".html")
    page.write_text("checks")

    write_record(str(tmp_path), replace(BAD, started="2026-11-22T03:00:00Z"))

    assert not page.exists()


def test_the_page_of_what_stands_stays(tmp_path: Path) -> None:
    page = Path(write_record(str(tmp_path), GOOD)).with_suffix(".html")
    page.write_text("good")

    write_record(str(tmp_path), BAD)

    assert page.exists()
