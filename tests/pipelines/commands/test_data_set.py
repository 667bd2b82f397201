"""What the commands about data sets share: options of Beam that mean nothing to them are refused."""

from pathlib import Path

import pytest

from tests.support.command import Run, check_mistake


@pytest.mark.parametrize(
    "arguments",
    [
        ("inspect", "n"),
        ("report", "n"),
        ("diff", "n", "1.0.0", "1.0.1"),
        ("versions", "n"),
        ("rollback", "n", "1.0.0"),
        ("tag", "n", "1.0.0", "good"),
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_runner_is_refused_where_nothing_runs(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    monkeypatch.chdir(tmp_path)

    result = run(*arguments, "--runner", "DirectRunner")

    check_mistake(result, f"--runner has no meaning here: {arguments[0]} reads the data set in this process")
