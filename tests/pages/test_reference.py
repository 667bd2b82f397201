"""The pages of docs/reference/ are made from the code as it is, and have everything that the code declares."""

import json
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import shardmill
from docs import build_site
from shardmill import errors
from shardmill.addons.nightly import recipe
from shardmill.metadata import file_names
from shardmill.metadata.versions import BuildRecord
from shardmill.pipelines import cli
from shardmill.quality.limits import SCHEMA_CHECKS
from shardmill.transforms.options.declare import options_of
from shardmill.transforms.options.job_options import CheckOptions
from tests.support import diagrams, reference, reference_examples
from tests.support.command import REPOSITORY
from tests.support.pages import anchors, heading_anchor

REMEDY = "run `python -m tests.support.reference`"
OUTPUTS = reference_examples.OUTPUTS


def read(name: str) -> str:
    return (reference.FOLDER / name).read_text()


@pytest.mark.parametrize(("name", "content"), reference.declared_pages().items())
def test_a_page_is_made_from_the_declarations(name: str, content: str) -> None:
    assert read(name) == content, REMEDY


def test_no_page_is_left_over() -> None:
    made = {*reference.declared_pages(), "files.md", "json.md"}
    assert {page.name for page in reference.FOLDER.glob("*.md")} == made, REMEDY


@pytest.mark.parametrize("command", cli.parsers())
def test_every_flag_has_an_anchor(command: str) -> None:
    parser = cli.parsers()[command]
    flags = [action.option_strings[0] for action in parser._actions if action.option_strings]
    found = anchors(reference.FOLDER / f"{command}.md")

    assert set(flags) - {"-h"} <= set(found)
    assert len(found) == len(set(found))  # GitHub and the site number anchors that repeat
    assert f"({command}.md)" in read("commands.md")


def test_every_key_of_a_recipe_has_an_anchor() -> None:
    found = anchors(reference.FOLDER / "recipe.md")
    keys = [*recipe._TOP_KEYS, *recipe._OTHER_KEYS, *(option.name for option in options_of(recipe.BuildOptions))]
    below = [
        heading_anchor(f"{title}: {option.name}")
        for title, section in recipe._SECTIONS.items()
        for option in options_of(section)
        if not (section is CheckOptions and option.name in CheckOptions().limits)
    ]

    assert {*keys, *below} <= set(found)
    assert len(found) == len(set(found))


def test_every_check_has_an_anchor() -> None:
    found = anchors(reference.FOLDER / "checks.md")
    assert {*CheckOptions().limits, *SCHEMA_CHECKS} <= set(found)
    assert len(found) == len(set(found))


@pytest.mark.parametrize(
    ("check", "limits"),
    [
        ("examples_under", "below 0.9 | below 0.5"),
        ("examples_over", "above 2 | "),
        ("columns_gone", " | above 0"),
        ("min_examples_per_class", " | "),
        ("label_drift", "above 0.1 | above 0.3"),
    ],
)
def test_thresholds(check: str, limits: str) -> None:
    assert f"| [`{check}`](#{check}) | {limits} |" in read("checks.md")


def test_every_exit_status_of_an_error_has_a_meaning() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and hasattr(kind, "exit_status")]
    used = {kind.exit_status for kind in kinds} | {
        0,
        *map(errors.interruption_status, [None, *map(errors.Terminated, (1, 15))]),
    }

    assert used == errors.EXIT_STATUSES.keys()
    assert all(f"| {status} | " in read("exit-statuses.md") for status in used)


def test_every_public_name_is_in_the_reference() -> None:
    grouped = [name for names in build_site.api_names().values() for name in names]
    assert sorted(name for name in grouped if "." not in name) == sorted(shardmill.__all__)
    assert [name for name in grouped if f"| `{name}` | " not in read("api.md")] == []


@pytest.fixture(scope="module")
def examples(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, str]]:
    """Return the folder of a small data set, and what commands print about it."""
    folder = tmp_path_factory.mktemp("examples")
    return folder, reference.make_examples(folder)


def test_examples_of_files(examples: tuple[Path, dict[str, str]]) -> None:
    assert read("files.md") == reference.file_page(examples[0]) + reference.MADE, REMEDY


def test_examples_of_json_output(examples: tuple[Path, dict[str, str]]) -> None:
    assert read("json.md") == reference.json_page(examples[1]) + reference.MADE, REMEDY


def test_every_file_of_a_data_set_is_explained(examples: tuple[Path, dict[str, str]]) -> None:
    page, version = read("files.md"), examples[0] / "datasets/sales/1.0.0"
    declared = [*file_names._FILES, file_names.LATEST, file_names.ANOMALIES, file_names.FAILED_MARK]

    assert [name for name in declared if f"`{name}`" not in page and f"## {name}\n" not in page] == []
    for path in (path for path in version.rglob("*") if path.is_file()):
        assert str(path.relative_to(version)) in page


def top_keys(name: str, examples: tuple[Path, dict[str, str]]) -> tuple[set[str], set[str]]:
    """The keys of a JSON value and those that have comments."""
    folder, outputs = examples
    if name in OUTPUTS:
        content, shown = outputs[name], OUTPUTS[name][1]
    else:
        (path,) = (folder / "datasets").glob(reference_examples.FILES[name].pattern)
        content, shown = path.read_text(), reference_examples.COMMENTS[name]
    return set(json.loads(content)), {path for path in shown.comments if "." not in path and "[" not in path}


@pytest.mark.parametrize("name", [*reference_examples.COMMENTS, *OUTPUTS])
def test_every_key_has_a_comment(name: str, examples: tuple[Path, dict[str, str]]) -> None:
    keys, comments = top_keys(name, examples)
    assert keys == comments


def test_every_key_of_a_build_record_has_a_comment() -> None:
    record = reference_examples.COMMENTS["Build record"].comments
    assert {item.name for item in fields(BuildRecord)} | {"format"} == {
        key for key in record if "." not in key and "[" not in key
    }


def keys_of(value: Any) -> Iterator[str]:
    """Yield the keys of the objects in a JSON value that are not names of features, splits, classes or options."""
    if isinstance(value, list):
        for item in value:
            yield from keys_of(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield key
            if key not in ("splits", "statistics", "configuration", "features", "reasons", "versions", "quantiles"):
                yield from keys_of(item)


@pytest.mark.parametrize("words", [words for words in OUTPUTS if "rebuild" not in words])
def test_the_page_on_json_has_every_key(words: str, examples: tuple[Path, dict[str, str]]) -> None:
    page = (REPOSITORY / "docs/json.md").read_text()
    assert {key for key in keys_of(json.loads(examples[1][words])) if f"`{key}`" not in page} == set()


def test_the_drawing_is_that_of_the_graphs() -> None:
    for command, phases in diagrams.STEPS.items():
        assert list(diagrams.arrows(command)) == list(diagrams.explanations(command))
        assert tuple(phases) == diagrams.PHASES
    assert diagrams.PATH.read_text() == diagrams.drawing(), "run `python -m tests.support.diagrams`"
