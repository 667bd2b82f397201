"""Jobs on Spark, by Beam's job server for it: the bytes that are promised. `make check NAME=spark`."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.clusters.installed import missing
from tests.support.clusters.spark import spark
from tests.support.golden_cases import DIGESTS, digests
from tests.support.golden_inputs import write_inputs

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing() or "Spark can be started")

GOLDEN = json.loads(DIGESTS.read_text())


@pytest.fixture(scope="module")
def job_endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with spark(tmp_path_factory.mktemp("spark")) as endpoint:
        yield endpoint


@pytest.mark.parametrize("case", ["csv-label", "images-splits"])
def test_the_bytes_that_are_promised(
    job_endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    write_inputs(tmp_path)
    monkeypatch.chdir(tmp_path)
    runner = ("--runner", "PortableRunner", "--job_endpoint", job_endpoint, "--environment_type", "LOOPBACK")
    assert digests(case, *runner) == GOLDEN[case]
