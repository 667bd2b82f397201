"""Bytes are a promise: every file that every route publishes has the sha256 that is committed; see golden_cases."""

import json
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest

from shardmill.transforms.execution.pool import open_workers
from shardmill.transforms.files import shards
from shardmill.transforms.records import staging
from shardmill.transforms.shards import writing
from tests.support.golden_cases import CALLS, CASES, DIGESTS, digests

GOLDEN = json.loads(DIGESTS.read_text())
TRANSFORMED = [case for case, words in CASES.items() if {"--transform", "--module_file"} & set(words)]


def test_every_case_has_digests() -> None:
    assert GOLDEN.keys() == CASES.keys() | CALLS.keys()


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=pytest.mark.slow if case in TRANSFORMED else ()) for case in (*CASES, *CALLS)]
)
def test_bytes_are_those_promised(case: str, inputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(inputs)

    assert digests(case) == GOLDEN[case]


def test_images_left_in_tars_do_not_show(inputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(inputs)
    left: list[int] = []
    leave = staging._leave_images

    def counting(*arguments: Any) -> Any:
        records = leave(*arguments)
        left.append(0 if records.references is None else int((records.references["length"] > 0).sum()))
        return records

    monkeypatch.setattr(staging, "_LEAST_CACHED", 1)
    monkeypatch.setattr(staging, "_leave_images", counting)
    assert digests("webdataset", output="left") == GOLDEN["webdataset"]
    assert sum(left) == 8  # one of nine is cut, and the other tar is compressed


def test_how_records_are_cut_does_not_show() -> None:
    assert GOLDEN["csv-blocks"] == GOLDEN["csv"]


def test_rows_of_memory_have_the_bytes_of_their_file() -> None:
    shards = {name: digest for name, digest in GOLDEN["parquet"].items() if "tfrecord" in name}
    assert len(shards) > 1
    assert shards.items() <= GOLDEN["write"].items()


def test_cases_differ() -> None:
    """A case whose option changes nothing would hold nothing."""
    seen: dict[str, str] = {}
    for case, files in GOLDEN.items():
        if case == "csv-blocks":
            continue
        other = seen.setdefault(json.dumps(files, sort_keys=True), case)
        assert other == case


@pytest.fixture(scope="module")
def workers(request: pytest.FixtureRequest, inputs: Path) -> Iterator[str]:
    """A number of worker processes, which jobs share: their start takes longer than a job of these.

    All jobs of this process use them until the end of the module, so tests without them stand above.
    """
    with chdir(inputs), open_workers(int(request.param), [shards.__name__, staging.__name__]):
        yield request.param


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workers", "case"), sorted(("27"[len(case) % 2], case) for case in CASES), indirect=["workers"], scope="module"
)
def test_worker_processes_do_not_show(workers: str, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_SHARDS_A_WORKER", 0)  # so that they write all shards

    assert digests(case, "--workers", workers, output="workers") == GOLDEN[case]
