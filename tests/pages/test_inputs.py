"""docs/inputs.md says which command takes which data: every one of them is run, on data that lie as it says."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import REPOSITORY, Run


def rows() -> Iterator[tuple[str, tuple[str, ...]]]:
    """The command of each line, and the features that it says come out."""
    for line in (REPOSITORY / "docs" / "inputs.md").read_text().splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 3 and cells[1].startswith("`shardmill "):
            words = cells[2].split("`")[1::2]
            yield cells[1].strip("`"), tuple(words)


ROWS = list(rows())


def test_there_are_rows() -> None:
    assert len(ROWS) == 47


@pytest.mark.parametrize(("command", "wanted"), ROWS)
def test_the_command_takes_it(
    command: str, wanted: tuple[str, ...], data: Path, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(data)

    done = run(*shlex.split(command)[1:], "--output", tmp_path, "--name", "n")

    assert done.status == 0, done.err
    described = json.loads((tmp_path / "n/1.0.0/features.json").read_text())
    entries = described.get("featuresDict", {}).get("features") or described["translation"]["languages"]
    assert set(wanted) <= set(entries)
    if "coco" in command and "validation=" in command:
        stats = json.loads((tmp_path / "n/1.0.0/stats.json").read_text())["splits"]
        assert {split: found["examples"] for split, found in stats.items()} == {"train": 4, "validation": 2}
