"""`shardmill rebuild --dry_run`: a recipe whose store fails ends in a sentence; others are looked at."""

from pathlib import Path
from typing import Any

import pytest

from shardmill.pipelines.commands.rebuild import run_rebuild
from shardmill.pipelines.nightly.inputs import find_inputs
from tests.support.command import write_files

RECIPE = """\
name: {name}
output: {root}/sets
csv:
  input: {root}/in
"""


def test_a_store_that_fails_one_recipe_does_not_stop_the_others(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    write_files(tmp_path / "in", {"a.csv": b"x\n1\n"})
    recipes = [tmp_path / f"{name}.yaml" for name in ("first", "second")]
    for recipe in recipes:
        recipe.write_text(RECIPE.format(name=recipe.stem, root=tmp_path))

    def failing(config: Any, *options: Any) -> Any:
        if config.name == "first":
            raise OSError(5, "Input/output error", str(tmp_path / "in"))
        return find_inputs(config, *options)

    monkeypatch.setattr("shardmill.pipelines.nightly.planning.find_inputs", failing)
    status = run_rebuild([*map(str, recipes), "--dry_run"])

    assert status == 1
    assert "first: a store failed: " in caplog.text
    assert "second: there is no version yet: 1.0.0 would be built" in capsys.readouterr().out
