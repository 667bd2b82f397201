"""`--write_recipe`: what it writes is read back as the same job."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.pipelines.jobs.registry import KINDS
from shardmill.pipelines.nightly.recipe import Recipe, load_recipes, parse_recipe, read_recipes, recipe_text
from shardmill.pipelines.nightly.recipe_values import Variables
from tests.support.command import Run, write_files

DAY = date(2026, 11, 20)


def back(text: str) -> Recipe:
    (node,) = read_recipes(text.encode(), "a.yaml")
    return parse_recipe(Variables({}).fill(node), DAY)


@pytest.mark.parametrize(
    ("command", "values"),
    [
        (
            "images",
            {"input": "photos/**/*.jpg", "splits": "train=0.8,test=0.2", "resize": "224x224", "no_shuffle": True},
        ),
        ("csv", {"input": "a.csv", "delimiter": "\t", "quote": "", "missing": "-,NA", "fill": ["a=1", "b=: {#"]}),
        ("csv", {"input": "a: b #c.csv", "delimiter": ";", "label": "no", "key": "null", "seed": "010"}),
        ("csv", {"input": "${HOME}/$a/é.csv", "rename": ["a=b"], "num_shards": "train=8"}),
        ("text", {"input": "a.txt", "threads": "3", "compression": "gzip"}),
    ],
)
def test_there_and_back(command: str, values: dict[str, Any]) -> None:
    values = {"name": "n", "output": "sets", **values}
    kind = KINDS[command]

    recipe = back(recipe_text(kind, values, ["--runner", "DataflowRunner", "--streaming", "--experiments=a"]))

    assert recipe.config("1.0.0") == kind.make_config({**values, "version": "1.0.0"})
    assert recipe.beam == ("--runner=DataflowRunner", "--streaming", "--experiments=a")
    assert recipe.build.version == "auto"


@settings(max_examples=25, deadline=None)
@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn"]), min_size=1))
def test_any_text_comes_back(text: str) -> None:
    if any(word in text for word in ("{YYYY}", "{MM}", "{DD}")):
        return
    values = {"name": "n", "output": "sets", "input": "a.csv", "key": text}

    assert back(recipe_text(KINDS["csv"], values, [])).options["key"] == text


def test_the_command_writes_it_and_converts_nothing(run: Run, tmp_path: Path) -> None:
    write_files(tmp_path, {"a.csv": b"a,b\n1,2\n"})
    flags = ("--input", tmp_path / "a.csv", "--output", tmp_path / "sets", "--name", "rows", "--fill", "a=1")

    result = run("csv", *flags, "--version", "2.0.0", "--overwrite", "--write_recipe", tmp_path / "rows.yaml")

    assert result.status == 0
    assert not (tmp_path / "sets").exists()
    assert "--version and --overwrite are left out, for each build is the next patch" in result.out
    (recipe,) = load_recipes([str(tmp_path / "rows.yaml")], {}, DAY, {})
    assert isinstance(recipe, Recipe)
    assert recipe.options["fill"] == (("a", "1"),)

    again = run("csv", *flags, "--write_recipe", tmp_path / "rows.yaml")

    assert again.status == 2
    assert "rows.yaml: the file is there; delete it" in again.err


def test_a_command_that_does_not_work_is_not_written(run: Run, tmp_path: Path) -> None:
    result = run(
        *("csv", "--input", tmp_path / "a.csv", "--output", tmp_path, "--name", "rows"),
        *("--write_recipe", tmp_path / "rows.yaml"),
    )

    assert result.status == 2
    assert "a.csv: no such file or folder" in result.err
    assert not (tmp_path / "rows.yaml").exists()
