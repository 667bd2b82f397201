"""Checks before publishing: what fails is kept apart, whole, for some days, and what was published stands."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import anomalies_pb2

from shardmill.errors import ChecksError, UserError
from shardmill.metadata import file_names
from shardmill.quality.limits import CheckResult
from shardmill.reading.dataset import open_dataset
from shardmill.transforms.options.job_options import CheckOptions
from shardmill.transforms.publishing import publish as checking
from shardmill.transforms.publishing.description import PublishOptions
from shardmill.transforms.publishing.publish import prepare_folder, publish
from shardmill.transforms.workers.rejects import Rejects
from tests.support.builds import FEATURES, build, contents, options, own

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def night(
    tmp_path: Path, version: str, shards: Mapping[str, int], checks: CheckOptions | None, job: str = "1"
) -> list[str]:
    """Publish a version of so many shards of ten examples; all are of two classes."""
    told = replace(options(tmp_path), version=version, job=job, checks=checks)
    own(Path(told.directory), job)
    prepare_folder(told)
    return publish(build(Path(told.directory), job, counts=shards), FEATURES, told)


FULL, HALF = {"train": 4, "test": 2}, {"train": 1, "test": 1}


def test_what_fails_is_kept_apart(tmp_path: Path) -> None:
    night(tmp_path, "1.0.0", FULL, CheckOptions())
    before = contents(tmp_path / "flowers" / "1.0.0")

    with pytest.raises(ChecksError, match="nothing was published") as caught:
        night(tmp_path, "1.0.1", HALF, CheckOptions())

    failed = tmp_path / "flowers" / file_names.FAILED / "1.0.1"
    said = str(caught.value)
    assert said.startswith(
        "2 checks failed: examples_under: there are 20 examples, 60 in 1.0.0: 0.333 times as many (error at 0.5); "
    )
    assert f"; the shards are kept in {failed} until " in said
    names = contents(failed).keys()
    assert {"flowers-train.tfrecord-00000-of-00001", "manifest.json", "stats.json", file_names.ANOMALIES} <= names
    assert file_names.SUCCESS not in names
    anomalies = text_format.Parse((failed / file_names.ANOMALIES).read_text(), anomalies_pb2.Anomalies())
    assert anomalies.dataset_anomaly_info.severity == anomalies.dataset_anomaly_info.ERROR
    with pytest.raises(UserError, match="no _SUCCESS"):
        open_dataset(str(failed))
    assert contents(tmp_path / "flowers" / "1.0.0") == before
    assert (tmp_path / "flowers" / file_names.LATEST).read_text() == "1.0.0\n"
    assert not [
        name for name in contents(tmp_path / "flowers" / "1.0.1") if not name.startswith(file_names.TEMP_PREFIX)
    ]


def test_an_attempt_that_is_repeated_says_the_same(tmp_path: Path) -> None:
    night(tmp_path, "1.0.0", FULL, None)
    told = replace(options(tmp_path), version="1.0.1", checks=CheckOptions())
    own(Path(told.directory), told.job)
    prepare_folder(told)
    made = build(Path(told.directory), counts=HALF)
    said = []
    for _ in range(2):
        with pytest.raises(ChecksError) as caught:
            publish(made, FEATURES, told)
        said.append((str(caught.value), contents(tmp_path / "flowers" / file_names.FAILED)))

    assert said[0] == said[1]


def test_a_version_that_failed_before_is_replaced(tmp_path: Path) -> None:
    night(tmp_path, "1.0.0", {"train": 9, "test": 2}, None)
    for job, shards in (("2", {"train": 3, "test": 1}), ("3", HALF)):
        with pytest.raises(ChecksError):
            night(tmp_path, "1.0.1", shards, CheckOptions(), job)

    kept = contents(tmp_path / "flowers" / file_names.FAILED / "1.0.1")
    assert kept["flowers-train.tfrecord-00000-of-00001"] == b"3: train 0"
    assert len([name for name in kept if "tfrecord" in name]) == 2


def test_of_many_failures_those_of_different_checks_are_said_first() -> None:
    names = ["examples_under", "examples_under", "examples_under", "classes_gone", "label_drift"]
    failed = [CheckResult(name, "error", f"sentence {number}") for number, name in enumerate(names)]
    said = "examples_under: sentence 0; classes_gone: sentence 3; label_drift: sentence 4; and 2 more"
    assert checking.failure_message(failed) == f"5 checks failed: {said}"
    assert (
        checking.failure_message(failed[:2])
        == "2 checks failed: examples_under: sentence 0; examples_under: sentence 1"
    )


def test_what_passes_is_published(tmp_path: Path) -> None:
    for version in ("1.0.0", "1.0.1"):
        night(tmp_path, version, FULL, CheckOptions())

    assert (tmp_path / "flowers" / file_names.LATEST).read_text() == "1.0.1\n"
    assert not (tmp_path / "flowers" / file_names.FAILED).exists()


def test_the_baseline_may_be_another_version(tmp_path: Path) -> None:
    night(tmp_path, "1.0.0", HALF, None)
    night(tmp_path, "1.0.1", FULL, None)

    night(tmp_path, "1.0.2", HALF, CheckOptions(baseline="1.0.0"))
    with pytest.raises(ChecksError, match=r"60 in 1\.0\.1"):
        night(tmp_path, "1.0.3", HALF, CheckOptions(baseline="1.0.1"))


@pytest.mark.parametrize("baseline", ["LATEST", "1.0.0", "gold"])
def test_a_baseline_that_cannot_be_read_is_an_error(tmp_path: Path, baseline: str) -> None:
    """What nothing can be compared with has not passed."""
    night(tmp_path, "1.0.0", FULL, None)
    (tmp_path / "flowers" / "1.0.0" / file_names.STATS).write_text("{}")

    with pytest.raises(ChecksError, match=rf"{baseline}, which this version is to be compared with, cannot be read"):
        night(tmp_path, "1.0.1", FULL, CheckOptions(baseline=baseline))


def test_shards_need_not_be_kept(tmp_path: Path) -> None:
    night(tmp_path, "1.0.0", FULL, None)

    with pytest.raises(ChecksError, match="its shards are not kept; nothing was published"):
        night(tmp_path, "1.0.1", HALF, CheckOptions(keep_failed=0))
    assert not (tmp_path / "flowers" / file_names.FAILED).exists()


def test_what_was_kept_for_long_enough_is_deleted(tmp_path: Path) -> None:
    above = tmp_path / "flowers" / file_names.FAILED
    for version, until in (("1.0.1", "2026-11-20T11:59:59Z"), ("1.0.2", "2026-11-20T12:00:01Z")):
        (above / version).mkdir(parents=True)
        (above / version / checking.FAILED_MARK).write_text(json.dumps({"job": "x", "until": until}))
    (above / "mine").mkdir()  # not ours

    checking.delete_expired_failures(str(tmp_path / "flowers"), NOON)

    assert sorted(path.name for path in above.iterdir()) == ["1.0.2", "mine"]


def test_how_long_it_is_kept(tmp_path: Path) -> None:
    told: PublishOptions = replace(options(tmp_path), checks=CheckOptions(keep_failed=1.5))
    said = checking.keep_failed_version([], {}, Rejects(), told, NOON)

    folder = tmp_path / "flowers" / file_names.FAILED / "1.0.0"
    assert said == f"the shards are kept in {folder} until 2026-11-22"
    assert json.loads((folder / checking.FAILED_MARK).read_text())["until"] == "2026-11-22T00:00:00Z"
    checking.delete_expired_failures(told.parent, NOON + timedelta(days=2))
    assert not folder.exists()


@pytest.mark.parametrize(
    ("latest", "said"), [(None, "there is no LATEST"), ("9.9.9", "LATEST names '9.9.9', which is not published")]
)
def test_where_latest_names_nothing_the_newest_version_is_compared_with(
    tmp_path: Path, latest: str | None, said: str
) -> None:
    """A LATEST that somebody deleted must not let everything pass."""
    for version in ("1.0.0", "1.0.10", "1.0.9"):
        night(tmp_path, version, FULL, None)
    file = tmp_path / "flowers" / file_names.LATEST
    file.unlink() if latest is None else file.write_text(latest)

    with pytest.raises(ChecksError, match=r"60 in 1\.0\.10"):
        night(tmp_path, "1.0.11", HALF, CheckOptions())
    night(tmp_path, "1.0.12", FULL, CheckOptions())

    file.unlink() if latest is None else file.write_text(latest)
    told = replace(options(tmp_path), checks=CheckOptions(), version="1.0.13")
    files = {
        name: (tmp_path / "flowers/1.0.12" / name).read_bytes() for name in (file_names.MANIFEST, file_names.STATS)
    }
    found = checking.check_before_publishing([], files, Rejects(), told, NOON)
    assert (found.baseline, found.results[0].severity) == ("1.0.12", "warn")
    assert found.results[0].sentence == f"{said}: 1.0.12, the newest that is published, takes its place"
