"""`shardmill diff`, and the line that a command ends with."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.command import Run, check_mistake
from tests.support.reading import make


def write(path: Path, rows: Sequence[tuple[str, float]], extra: str = "") -> Path:
    head = "action,amount" + (f",{extra}" if extra else "")
    path.write_text("\n".join([head, *(f"{a},{x}{',1' if extra else ''}" for a, x in rows)]) + "\n")
    return path


NIGHT = [(["buy", "click", "view"][index % 3], 9 + index % 3) for index in range(300)]


@pytest.fixture(scope="module")
def parent(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1.0.0, and 1.0.1 of a bad night: no one buys, and amounts are in cents."""
    folder = tmp_path_factory.mktemp("diff")
    bad = [(a, 100 * x) for a, x in NIGHT if a != "buy"]
    for index, night in enumerate((write(folder / "a.csv", NIGHT), write(folder / "b.csv", bad, "more"))):
        make("csv", night, folder, "--label", "action", "--quiet", "--splits", "train=1", "--version", f"1.0.{index}")
    return folder / "n"


SINCE = "since 1.0.0: 300 -> 200 rows; class buy gone; "


def test_what_differs(run: Run, parent: Path) -> None:
    for words in ((parent, "1.0.0", "LATEST"), (parent / "1.0.0", parent / "1.0.1")):
        result = run("diff", *words)
        assert result.status == 0
        first, _, head, split, *said = result.out.splitlines()
        assert first.startswith(SINCE)
        assert head.split() == ["split", "1.0.0", "1.0.1", "1.0.0", "1.0.1"]
        assert split.split()[:4] == ["train", "examples", "300", "200"]
        assert any(line.startswith("error: classes_gone: 1 class is gone since 1.0.0: 'buy'") for line in said)
        assert any(line.startswith("error: numeric_drift: 'amount' in 'train'") for line in said)


def test_as_json(run: Run, parent: Path) -> None:
    found = json.loads(run("diff", parent, "1.0.0", "1.0.1", "--json").out)

    assert found["old"] == {"version": "1.0.0", "splits": {"train": 300}}
    assert found["since"].startswith(SINCE)
    more = {"what": "feature", "words": "column more new", "feature": "more", "before": None, "after": "int64"}
    assert more in found["differences"]
    failed = {check["check"] for check in found["checks"] if check["severity"] == "error"}
    assert failed == {"classes_gone", "label_drift", "numeric_drift"}


def test_the_other_way_round(run: Run, parent: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Folders of versions may be called by these alone."""
    monkeypatch.chdir(parent)
    for words in ((parent, "1.0.1", "1.0.0"), ("1.0.1", "1.0.0")):
        assert run("diff", *words).out.startswith("since 1.0.1: 200 -> 300 rows; class buy new;")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["."], "expected a folder and two versions, or the folders of two versions; found ."),
        (["{parent}", "1.0.0", "1.0.7"], "1.0.7 is not a data set"),
        (["{parent}", "gold", "LATEST"], "has no version or tag 'gold'"),
        (["{parent}", "1.0.0", "LATEST", "--jsn"], "--jsn"),
        (["{parent}", "1.0.0"], "one version cannot be compared with anything; give a second, such as"),
    ],
)
def test_mistakes(run: Run, parent: Path, words: list[str], sentence: str) -> None:
    check_mistake(run("diff", *(word.format(parent=parent) for word in words)), sentence)


def test_a_command_that_publishes_beside_an_older_version_says_what_changed(run: Run, tmp_path: Path) -> None:
    arguments = ["--input", write(tmp_path / "a.csv", NIGHT[:30]), "--output", tmp_path / "out", "--name", "n"]
    first = run("csv", *arguments)
    assert first.status == 0
    assert "since" not in first.out

    since = "since 1.0.0: 30 rows, as before; nothing else changed in its statistics"
    assert run("csv", *arguments, "--version", "1.0.1").out.splitlines()[-1] == since
    assert json.loads((tmp_path / "out" / "n" / "builds" / "1.0.1.json").read_text())["since"] == since
