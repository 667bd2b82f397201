"""Steps run twice, and either result counts: the bytes are those of one run, and nothing else is left."""

from pathlib import Path
from typing import Any

import apache_beam as beam
import pytest

from shardmill.pipelines.jobs import launch
from shardmill.transforms.workers.running import report_failures
from tests.support.command import Run
from tests.support.golden_cases import CASES
from tests.support.golden_inputs import write_inputs
from tests.support.replay import Replay

pytestmark = pytest.mark.slow

ROUTES = (
    "images-stratified",
    "images-by-bytes",
    "images-manifest",
    "images-transform",
    "images-coco",
    "images-near-duplicates",
    "images-masks",
    "arrays",
    "audio",
    "csv-label",
    "csv-by-bytes",
    "csv-transform",
    "csv-materialize",
    "csv-sequences",
    "jsonl",
    "parquet",
    "avro",
    "webdataset",
    "text",
    "text-parallel",
    "text-packed",
    "reshard",
)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("inputs")
    write_inputs(folder)
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """All files below a folder, but for the records of builds, which hold times."""
    files = (path for path in folder.rglob("*") if path.is_file() and "builds" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def folders(root: Path) -> set[str]:
    """Those below a folder."""
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_dir()}


@pytest.mark.parametrize("case", ROUTES)
def test_every_bundle_twice(run: Run, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    monkeypatch.chdir(inputs)
    words = (*CASES[case], "--max_reject_fraction", "0.9", "--name", "d")
    assert run(*words, "--output", tmp_path / "once").status == 0
    steps: list[list[str]] = []

    def replayed(pipeline: beam.Pipeline, *arguments: Any, **named: Any) -> None:
        report_failures(pipeline, *arguments, **named)
        replay = Replay(keep)
        pipeline.visit(replay)
        steps.append(replay.steps)

    monkeypatch.setattr(launch, "report_failures", replayed)
    starts_tensorflow = case in ("csv-transform", "csv-materialize", "images-transform")
    for keep in (1,) if starts_tensorflow else (0, 1):  # each run of those starts it twice
        result = run(*words, "--output", tmp_path / str(keep))
        assert result.status == 0, result.err
        assert contents(tmp_path / str(keep)) == contents(tmp_path / "once")
        assert folders(tmp_path / str(keep)) == folders(tmp_path / "once")
    for labels in steps:
        assert {"Layout", "Prepare", "Write", "Publish"} <= {word for label in labels for word in label.split("/")}


def test_every_command_is_one_of_them() -> None:
    assert {CASES[case][0] for case in ROUTES} == {words[0] for words in CASES.values()}
