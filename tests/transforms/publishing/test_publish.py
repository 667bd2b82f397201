"""Publishing: nothing lost, all or nothing, any number of times, and never a neighbour's file."""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from shardmill.errors import JobError, LockedError
from shardmill.metadata import file_names
from shardmill.metadata.file_names import ShardName
from shardmill.metadata.manifest import Reject
from shardmill.reading.dataset import open_dataset
from shardmill.transforms.publishing import lease, publication
from shardmill.transforms.publishing import publication as job_folder
from shardmill.transforms.publishing.description import Build
from shardmill.transforms.publishing.publish import check_complete, check_counts, prepare_folder, publish
from shardmill.transforms.stores import storage
from tests.support.builds import FEATURES, REJECT, SHARDS, build, contents, options, own
from tests.support.rejects import rejects_of


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
        "FeatureStats.pb",
        "features.json",
        "dataset_info.json",
        "schema.pbtxt",
        "stats.json",
        "manifest.json",
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
    journal = job_folder.read_journal(str(directory))
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
    run(tmp_path, directory)
    before = contents(directory)

    prepared(tmp_path)

    assert contents(directory) == before


def test_prepare_clears_what_an_interrupted_job_left(tmp_path: Path, directory: Path) -> None:
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
    [(0, 0.0, True), (1, 0.0, False), (6, 0.1, True), (7, 0.1, False), (10, 1.0, True)],
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

    with pytest.raises(
        JobError, match=r"^expected 6 shards, got 5; missing: \[\('train', 0\)\], more than once: \[\]$"
    ):
        check_complete(shards[1:], made.divisions)
    with pytest.raises(
        JobError, match=r"^expected 6 shards, got 7; missing: \[\], more than once: \[\('train', 2\)\]$"
    ):
        check_complete([*shards, shards[2]], made.divisions)
    with pytest.raises(
        JobError, match=r"^expected 6 shards, got 6; missing: \[\('test', 1\)\], more than once: \[\('train', 0\)\]$"
    ):
        check_complete([*shards[:-1], shards[0]], made.divisions)


def test_a_shard_that_is_nowhere_fails_the_job(tmp_path: Path, directory: Path) -> None:
    prepared(tmp_path)
    made = build(directory)
    Path(made.shards[3].temporary).unlink()

    with pytest.raises(JobError, match=r"/train-3 has no bytes, but 10 were written"):
        publish(made, FEATURES, options(tmp_path))
    assert not (directory / file_names.SUCCESS).exists()
