"""What a job over records inside files makes of what it is told."""

import pytest

from shardmill.pipelines.config.records import RecordsConfig
from shardmill.pipelines.jobs.registry import KINDS
from shardmill.transforms.workers.running import TWICE_THE_CORES

LOCAL, REMOTE = "/data/rows.csv", "gs://bucket/rows.csv"


@pytest.mark.parametrize(
    ("values", "threads"),
    [
        ({"input": LOCAL, "output": "/out"}, 0),
        ({"input": REMOTE, "output": "/out"}, TWICE_THE_CORES),
        ({"input": LOCAL, "output": "s3://bucket/out"}, TWICE_THE_CORES),
        ({"input": REMOTE, "output": "s3://bucket/out", "threads": 3}, 3),
    ],
)
def test_read_threads(values: dict[str, object], threads: int) -> None:
    config = KINDS["csv"].make_config({"name": "n", **values})
    assert isinstance(config, RecordsConfig)
    assert config.read_threads == threads
