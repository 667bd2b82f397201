"""Checks before publishing; publishing."""

import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import anomalies_pb2

from shardmill.errors import ChecksError, JobError, LockedError, UserError
from shardmill.metadata import file_names
from shardmill.metadata.file_names import ShardName
from shardmill.metadata.manifest import Reject
from shardmill.quality.limits import CheckResult
from shardmill.reading.dataset import open_dataset
from shardmill.transforms.options.job_options import CheckOptions
from shardmill.transforms.publishing import lease, publication
from shardmill.transforms.publishing import publish as checking
from shardmill.transforms.publishing.description import Build
from shardmill.transforms.publishing.publish import check_complete, check_counts, prepare_folder, publish
from shardmill.transforms.stores import storage
from shardmill.transforms.workers.rejects import Rejects
from tests.support.builds import FEATURES, REJECT, SHARDS, build, contents, options, own, rejects_of

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
        "2 checks failed; compared with 1.0.0; nothing was published\n"
        "  examples_under: there are 20 examples, 60 in 1.0.0: 0.333 times as many (error at 0.5)\n"
    )
    assert f"\n  the shards are kept in {failed} until " in said
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


def test_what_passes_is_published_and_the_baseline_may_be_another_version(tmp_path: Path) -> None:
    for version, shards, baseline in (("1.0.0", HALF, "LATEST"), ("1.0.1", FULL, "LATEST"), ("1.0.2", HALF, "1.0.0")):
        night(tmp_path, version, shards, CheckOptions(baseline=baseline))
    assert (tmp_path / "flowers" / file_names.LATEST).read_text() == "1.0.2\n"

    with pytest.raises(ChecksError, match=r"(?s)nothing was published.*60 in 1\.0\.1.*its shards are not kept"):
        night(tmp_path, "1.0.3", HALF, CheckOptions(baseline="1.0.1", keep_failed=0))
    assert not (tmp_path / "flowers" / file_names.FAILED).exists()


@pytest.mark.parametrize("baseline", ["LATEST", "1.0.0", "gold"])
def test_a_baseline_that_cannot_be_read_is_an_error(tmp_path: Path, baseline: str) -> None:
    """What nothing can be compared with has not passed."""
    night(tmp_path, "1.0.0", FULL, None)
    (tmp_path / "flowers" / "1.0.0" / file_names.STATS).write_text("{}")

    with pytest.raises(ChecksError, match=rf"{baseline}, which this version is to be compared with, cannot be read"):
        night(tmp_path, "1.0.1", FULL, CheckOptions(baseline=baseline))


def test_what_was_kept_for_long_enough_is_deleted(tmp_path: Path) -> None:
    above = tmp_path / "flowers" / file_names.FAILED
    for version, until in (("1.0.1", "2026-11-20T11:59:59Z"), ("1.0.2", "2026-11-20T12:00:01Z")):
        (above / version).mkdir(parents=True)
        (above / version / file_names.FAILED_MARK).write_text(json.dumps({"job": "x", "until": until}))
    (above / "mine").mkdir()  # not ours

    assert checking.delete_expired_failures(str(tmp_path / "flowers"), NOON) == [str(above / "1.0.1")]
    assert sorted(path.name for path in above.iterdir()) == ["1.0.2", "mine"]


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


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "flowers" / "1.0.0"


def prepared(tmp_path: Path, job: str = "1") -> None:
    """What comes before a job's first shard."""
    own(tmp_path / "flowers" / "1.0.0", job)
    prepare_folder(options(tmp_path, job=job))


def run(tmp_path: Path, directory: Path, attempt: str = "1", rejects: int = 0) -> list[str]:
    prepared(tmp_path, attempt)
    return publish(build(directory, attempt, rejects), FEATURES, options(tmp_path, job=attempt))


def test_what_is_published(tmp_path: Path, directory: Path) -> None:
    paths = run(tmp_path, directory)

    names = [
        str(ShardName("flowers", split, index, SHARDS[split]))
        for split in ("test", "train")
        for index in range(SHARDS[split])
    ]
    assert paths == [str(directory / name) for name in names]
    described = {
        *("FeatureStats.pb", "features.json", "dataset_info.json", "schema.pbtxt", "stats.json", "manifest.json"),
        "label.labels.txt",
    }
    assert contents(directory).keys() == {*names, *described, "_SUCCESS"}
    assert (directory / names[1]).read_text() == "1: test 1"
    assert (directory.parent / file_names.LATEST).read_text() == "1.0.0\n"
    assert not list(directory.glob(f"{file_names.TEMP_PREFIX}*"))
    assert open_dataset(str(directory.parent)).manifest.split("train").examples == 40


def test_publishing_twice_gives_the_same(tmp_path: Path, directory: Path) -> None:
    prepared(tmp_path)
    made = build(directory)
    first = publish(made, FEATURES, options(tmp_path))
    before = contents(tmp_path)

    assert publish(made, FEATURES, options(tmp_path)) == first
    assert contents(tmp_path) == before


def test_a_cluster_s_job_without_a_launcher_gives_its_version_up_once_it_has_published(
    tmp_path: Path, directory: Path
) -> None:
    made = build(directory)
    storage.delete([str(directory / file_names.LOCK)])
    folder = file_names.temporary_folder("flowers", "1")
    lease.take_lease(str(directory), folder, "1", lease.DETACHED_LEASE_SECONDS, detached=True).leave()

    publish(made, FEATURES, options(tmp_path))

    owner = lease.read_holder(str(directory))
    assert owner is not None
    assert (owner.job, owner.detached, owner.seconds) == ("1", False, lease.LEASE_SECONDS)


def test_a_job_that_was_taken_for_dead_publishes_nothing(tmp_path: Path, directory: Path) -> None:
    """Another job cleared this one's temporary files, and the older data set has shards of the same names."""
    run(tmp_path, directory, "older build")
    before = contents(directory)
    made = build(directory, "2")
    shutil.rmtree(Path(made.shards[0].temporary).parent)

    with pytest.raises(JobError, match=r"test-0 has no bytes, but 9 were written: .*Nothing was published"):
        publish(made, FEATURES, options(tmp_path, job="2"))
    assert contents(directory) == before


def test_a_job_that_has_lost_its_lease_publishes_nothing(tmp_path: Path, directory: Path) -> None:
    run(tmp_path, directory, "older build")
    made = build(directory, "2")
    own(directory, "3")
    before = contents(directory)
    for step in (
        lambda: publish(made, FEATURES, options(tmp_path, job="2")),
        lambda: prepare_folder(options(tmp_path, job="2")),
    ):
        with pytest.raises(LockedError, match=r"has lost the lease of .*, to process \d+ of .*"):
            step()
    (directory / file_names.LOCK).unlink()
    with pytest.raises(LockedError, match=r"no longer has the lease .*; nothing of this one was published"):
        publish(made, FEATURES, options(tmp_path, job="2"))
    assert contents(directory) == before


@pytest.mark.parametrize("step", ["begin_publication", "_move_into_place", "_check_placed"])
def test_a_job_that_loses_its_lease_while_it_publishes_leaves_the_rest_to_the_other(
    tmp_path: Path, directory: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Whoever takes a lease over finds the journal, or the job finds out before it touches anything."""
    run(tmp_path, directory, "older build")
    before = contents(directory)
    made = build(directory, "2")
    then = getattr(publication, step)

    def lose(*arguments: object) -> None:
        own(directory, "3")
        then(*arguments)

    monkeypatch.setattr(publication, step, lose)
    with pytest.raises(LockedError):
        publish(made, FEATURES, options(tmp_path, job="2"))
    monkeypatch.undo()
    if step == "begin_publication":
        assert not (directory / file_names.PUBLISHING).exists()
        shutil.rmtree(directory / file_names.temporary_folder("flowers", "2"))
        assert contents(directory) == before
        return
    assert not (directory / file_names.SUCCESS).exists()
    journal = publication.read_journal(str(directory))
    assert journal is not None
    publication.complete_publication(str(directory), journal, "3")
    assert (directory / "flowers-test.tfrecord-00001-of-00002").read_text() == "2: test 1"
    assert contents(directory).keys() == before.keys()


def test_published_meanwhile_by_another_job(tmp_path: Path, directory: Path) -> None:
    made = build(directory, "slow")
    publish(build(directory, "quick"), FEATURES, options(tmp_path, job="quick"))
    before = contents(directory)

    with pytest.raises(JobError, match=r"was published by another job while this one ran, and is kept: .* --overwrite"):
        publish(made, FEATURES, options(tmp_path, job="slow", overwrite=False))
    assert contents(directory) == before
    own(directory, "slow")
    publish(made, FEATURES, options(tmp_path, job="slow"))
    assert (directory / "flowers-test.tfrecord-00001-of-00002").read_text() == "slow: test 1"


def test_an_earlier_build_leaves_nothing_behind(tmp_path: Path, directory: Path) -> None:
    """Other numbers of shards, other splits, rejects, gzip: what is not of the new build goes."""
    run(tmp_path, directory, "1", rejects=1)
    for name in (
        "flowers-train.tfrecord-00000-of-00009",
        "flowers-val.tfrecord-00000-of-00001.gz",
        "other.labels.txt",
        "stats.json.tmp",
    ):
        (directory / name).touch()
    assert (directory / "rejects").is_dir()

    run(tmp_path, directory, "2")
    run(tmp_path / "fresh", tmp_path / "fresh" / "flowers" / "1.0.0", "2")

    assert contents(directory) == contents(tmp_path / "fresh" / "flowers" / "1.0.0")


def test_neighbours_are_never_touched(tmp_path: Path, directory: Path) -> None:
    neighbours = [
        tmp_path / "flowers-hard" / "1.0.0" / "flowers-hard-train.tfrecord-00000-of-00004",
        tmp_path / "flowers2" / "1.0.0" / "_SUCCESS",
        tmp_path / "flowers" / "1.0.0-old" / "flowers-train.tfrecord-00000-of-00004",
        tmp_path / "flowers" / "1.0.1" / "flowers-train.tfrecord-00000-of-00004",
        tmp_path / "flowers" / "1.0.1" / "beam-temp-flowers-7" / "part",
        tmp_path / "flowers" / "1.0.1-rejects.jsonl",
        directory / "flowers-train-hard.tfrecord-00000-of-00004",
        directory / "notes.txt",
        directory / "mine" / "manifest.json",
    ]
    for path in neighbours:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"precious {path.name}")

    run(tmp_path, directory, "1")
    run(tmp_path, directory, "2")

    assert [path.read_text() for path in neighbours] == [f"precious {path.name}" for path in neighbours]


def test_a_published_data_set_stands_while_its_successor_is_made(tmp_path: Path, directory: Path) -> None:
    """And what an interrupted job left is cleared."""
    run(tmp_path, directory)
    before = contents(directory)
    (directory / "beam-temp-flowers-9").mkdir()
    (directory / "beam-temp-flowers-9" / "part").touch()

    prepared(tmp_path)

    assert contents(directory) == before
    assert not (directory / "beam-temp-flowers-9").exists()


def test_prepare_may_run_late(tmp_path: Path, directory: Path) -> None:
    """A runner repeats the step when shards are written: they stay, and those of a job without the lease go."""
    other = build(directory, "other")
    build(directory, "mine")
    before = contents(directory)
    for _ in range(2):
        prepare_folder(options(tmp_path, job="mine"))
        assert not Path(other.shards[0].temporary).parent.exists()
        assert len(contents(directory)) == len(before) / 2


def test_rejects_are_listed_in_the_order_of_their_sources(tmp_path: Path, directory: Path) -> None:
    prepared(tmp_path)
    made = build(directory, rejects=1)
    others = [Reject("z.jpg", 4, "index", "bad"), Reject("a.jpg", None, "index", "sö")]
    publish(replace(made, rejects=rejects_of(*others, REJECT), records=62), FEATURES, options(tmp_path))

    lines = (directory / "rejects" / file_names.REJECTS_FILE).read_text().splitlines()
    assert lines == [
        '{"source": "a.jpg", "line": null, "stage": "index", "reason": "sö"}',
        '{"source": "bad.jpg", "line": null, "stage": "write", "reason": "the file is empty"}',
        '{"source": "z.jpg", "line": 4, "stage": "index", "reason": "bad"}',
    ]


@pytest.mark.parametrize(
    ("rejects", "fraction", "good"),
    [
        (0, 0.0, True),
        (1, 0.0, False),
        (3, 0.01, True),  # the default
        (4, 0.01, False),
        (1, 0.011, False),
        (6, 0.1, True),
        (7, 0.1, False),
        (10, 1.0, True),
    ],
)
def test_the_limit_of_rejects(tmp_path: Path, directory: Path, rejects: int, fraction: float, good: bool) -> None:
    prepared(tmp_path)
    made = build(directory, rejects=rejects)
    chosen = options(tmp_path, max_reject_fraction=fraction)

    if good:
        assert publish(made, FEATURES, chosen)
        assert not Path(chosen.failed_rejects).exists()
        return
    sentence = (
        f"^{rejects} of 60 records were rejected, more than --max_reject_fraction {fraction} allows; .*: the file is"
        " empty"
    )
    with pytest.raises(JobError, match=sentence):
        publish(made, FEATURES, chosen)
    assert not (directory / file_names.SUCCESS).exists()
    assert len((directory.parent / "1.0.0-rejects.jsonl").read_text().splitlines()) == rejects


def test_a_success_clears_the_rejects_of_a_failure(tmp_path: Path, directory: Path) -> None:
    prepared(tmp_path)
    with pytest.raises(JobError):
        publish(build(directory, rejects=9), FEATURES, options(tmp_path))
    run(tmp_path, directory, "2")

    assert not (directory.parent / "1.0.0-rejects.jsonl").exists()


def test_all_rejected_is_no_data_set_whatever_is_allowed(tmp_path: Path, directory: Path) -> None:
    prepared(tmp_path)
    made = Build(1, 0, 0, ("train",), {}, [], rejects_of(REJECT), {})

    with pytest.raises(JobError, match=r"^1 of 1 records were rejected, none is left; "):
        publish(made, FEATURES, options(tmp_path, max_reject_fraction=1.0))


def test_a_failed_job_leaves_the_published_data_set(tmp_path: Path, directory: Path) -> None:
    run(tmp_path, directory)
    before = contents(directory)
    prepared(tmp_path)
    made = build(directory, "2", rejects=9)

    with pytest.raises(JobError):
        publish(made, FEATURES, options(tmp_path, job="2"))

    assert {
        name: data for name, data in contents(directory).items() if not name.startswith(file_names.TEMP_PREFIX)
    } == before


def test_lost_records_fail_the_job(tmp_path: Path, directory: Path) -> None:
    made = build(directory)

    with pytest.raises(
        JobError, match=r"^61 records read, but 60 written and 0 rejected: records were lost; nothing was published$"
    ):
        publish(replace(made, records=61), FEATURES, options(tmp_path))
    with pytest.raises(JobError, match=r"^60 records read, but 60 written and 1 rejected"):
        check_counts(replace(made, rejects=rejects_of(REJECT)))
    short = replace(made.shards[0], examples=9)
    with pytest.raises(
        JobError, match=r"^flowers-train.tfrecord-00000-of-00004: 10 records planned, but 9 written and 0 rejected$"
    ):
        check_counts(replace(made, shards=[short, *made.shards[1:]]))
    assert not (directory / file_names.SUCCESS).exists()


def test_shards_missing_or_twice_fail_the_job(directory: Path) -> None:
    made = build(directory)
    shards = list(made.shards)
    check_complete(shards[::-1], made.divisions)

    for given, said in (
        (shards[1:], "5; missing: [('train', 0)], more than once: []"),
        ([*shards, shards[2]], "7; missing: [], more than once: [('train', 2)]"),
        ([*shards[:-1], shards[0]], "6; missing: [('test', 1)], more than once: [('train', 0)]"),
    ):
        with pytest.raises(JobError, match=f"^of 6 shards, got {re.escape(said)}$"):
            check_complete(given, made.divisions)


def test_a_shard_that_is_nowhere_fails_the_job(tmp_path: Path, directory: Path) -> None:
    prepared(tmp_path)
    made = build(directory)
    Path(made.shards[3].temporary).unlink()

    with pytest.raises(JobError, match=r"/train-3 has no bytes, but 10 were written"):
        publish(made, FEATURES, options(tmp_path))
    assert not (directory / file_names.SUCCESS).exists()
