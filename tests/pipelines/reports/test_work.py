"""What a job is to do, in words."""

from shardmill.pipelines.reports.summary import JobWork


def test_whole_files() -> None:
    work = JobWork(40, 40, 1_000, size_bytes=5_000_000)
    assert list(work.sentences(0)) == [
        "Work: 40 tasks, 40 shards",
        "Temporary space: the shards themselves, about 5.0 MB",
    ]


def test_records_go_through_runs() -> None:
    work = JobWork(64, 10, 129, runs=64)
    assert list(work.sentences(0)) == [
        "Work: 64 tasks, 64 runs, at most 640 slices, about 10 shards",
        "Temporary space: as large as all shards, for runs",
    ]


def test_requests_are_counted_of_what_lies_in_a_store() -> None:
    read, written = (JobWork(1, 10, 129, runs=4, is_remote=remote) for remote in ((True, False), (False, True)))
    assert read.requests == 129
    assert "Requests to stores: about 129" in list(read.sentences(0))
    assert JobWork(1, 10, 129, runs=4, is_remote=(True, True)).requests == read.requests + written.requests
    assert JobWork(1, 10, 129, runs=4).requests == 0


def test_fewer_shards_than_keep_all_slots_at_work_are_said() -> None:
    said = list(JobWork(8, 8, 8, size_bytes=1).sentences(3))
    assert said[-1] == (
        "NOTE: 8 shards for 3 workers at once: expected 12 at least (--num_shards, or a smaller --shard_size), or some"
        " are idle while the last shards are written"
    )
    assert list(JobWork(8, 8, 8, size_bytes=1).sentences(2)) == said[:-1]


def test_one_worker_alone_is_at_work_whatever_the_shards() -> None:
    assert list(JobWork(1, 1, 1, size_bytes=1).sentences(1)) == list(JobWork(1, 1, 1, size_bytes=1).sentences(0))
