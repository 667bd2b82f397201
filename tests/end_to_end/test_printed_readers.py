"""The lines below "Read it" in a job's summary work as they are printed: on every route, and for every kind of path."""

from pathlib import Path
from typing import Any

import pytest

from shardmill.pipelines import cli
from tests.support.golden_cases import CASES, command
from tests.support.golden_inputs import write_inputs

pytestmark = pytest.mark.slow


def printed_readers(summary: str) -> list[list[str]]:
    """Return the code below "Read it:", one piece for each way to read."""
    _, _, code = summary.partition("\nRead it:\n")
    lines = [line for line in code.split("\n\n")[0].splitlines() if line]
    assert lines, summary
    pieces: list[list[str]] = [[]]
    for line in lines:
        if line == "or, without shardmill:":
            pieces.append([])
        else:
            assert line.startswith("  ")
            pieces[-1].append(line.removeprefix("  "))
    return pieces


# Prints the number of examples that printed code yields
COUNT = (
    "print(sum(1 for _ in next(globals()[name] for name in ('records', 'examples', 'dataset') if name in globals())))"
)


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("golden")
    write_inputs(folder)
    return folder


@pytest.mark.parametrize("case", [case for case in CASES if case != "images-unverified"])  # some do not decode
def test_every_route(
    case: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(inputs)
    assert cli.main([*command(case), "--output", str(tmp_path / "a b[1]é'")]) == 0
    counts = []
    for piece in printed_readers(capsys.readouterr().out):
        names: dict[str, Any] = {}
        exec("\n".join([*piece, COUNT]), names)
        counts.append(int(capsys.readouterr().out))
    assert min(counts) > 0
    assert len(set(counts)) == 1
