"""Bytes are a promise: every file that every route publishes has the sha256 that is committed; see golden_cases."""

import json
from pathlib import Path

import pytest

from tests.support.golden_cases import CALLS, CASES, DIGESTS, digests
from tests.support.golden_inputs import write_inputs

GOLDEN = json.loads(DIGESTS.read_text())


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    write_inputs(folder)
    return folder


def test_every_case_has_digests() -> None:
    assert GOLDEN.keys() == CASES.keys() | CALLS.keys()


@pytest.mark.parametrize("case", [*CASES, *CALLS])
def test_bytes_are_those_promised(case: str, inputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(inputs)

    assert digests(case) == GOLDEN[case]


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
