"""`shardmill rebuild` of several recipes: whatever happens to one, the others are looked at."""

from pathlib import Path
from typing import Any

import pytest

from shardmill.addons.nightly.inputs import find_inputs
from shardmill.errors import UserError
from shardmill.pipelines import cli
from tests.support.command import write_files

RECIPE = """\
name: {name}
output: {root}/sets
csv:
  input: {root}/in
"""


def write_recipes(folder: Path) -> list[Path]:
    """Two recipes, and the table that both read."""
    write_files(folder / "in", {"a.csv": b"x\n1\n"})
    recipes = [folder / f"{name}.yaml" for name in ("first", "second")]
    for recipe in recipes:
        recipe.write_text(RECIPE.format(name=recipe.stem, root=folder))
    return recipes


def test_a_store_that_fails_one_recipe_does_not_stop_the_others(tmp_path: Path, capsys: Any, caplog: Any) -> None:
    recipes = write_recipes(tmp_path)

    def failing(config: Any, *options: Any) -> Any:
        if config.name == "first":
            raise OSError(5, "Input/output error", str(tmp_path / "in"))
        return find_inputs(config, *options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shardmill.addons.nightly.planning.find_inputs", failing)
        assert cli.main(["rebuild", *map(str, recipes), "--dry_run"]) == 1
    assert "first: a store failed: " in caplog.text
    assert "second: there is no version yet: 1.0.0 would be built" in capsys.readouterr().out


def test_the_status_of_several_recipes_is_that_of_all_or_of_the_first_failure(tmp_path: Path, capsys: Any) -> None:
    first, second = map(str, write_recipes(tmp_path))
    assert cli.main(["rebuild", first]) == 0
    capsys.readouterr()
    for status, ends in ((0, "1 unchanged, 1 published"), (99, "2 unchanged")):
        assert cli.main(["rebuild", first, second, "--unchanged_status", "99"]) == status
        assert f"2 recipes: {ends}\n" in capsys.readouterr().out

    (tmp_path / "in/a.csv").unlink()
    assert cli.main(["rebuild", first]) == 2
    with pytest.raises(UserError, match="no CSV files"):
        cli.main(["rebuild", first, "--debug"])
