"""Recipes: values of flags and sections, mistakes and their lines, options of Beam, and `--write_recipe`."""

import re
from contextlib import chdir
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.addons.nightly import recipe_values
from shardmill.addons.nightly.recipe import (
    BuildOptions,
    FailureOptions,
    FreshnessOptions,
    InvalidRecipe,
    Recipe,
    RetainOptions,
    load_recipes,
    parse_recipe,
    read_recipes,
    recipe_text,
)
from shardmill.errors import UserError
from shardmill.flag_values import OptionValueError
from shardmill.pipelines.jobs.registry import KINDS
from tests.support.command import Run, check_mistake, write_files


def test_there_and_back() -> None:
    words = ["--runner", "DataflowRunner", "--region=eu", "--no_use_public_ips"]
    words += ["--experiments=a", "--experiments", "b=c"]
    entries = {"runner": "DataflowRunner", "region": "eu", "no_use_public_ips": "true", "experiments": ["a", "b=c"]}

    assert recipe_values.beam_entries(words) == entries
    text = b"beam:\n  runner: DataflowRunner\n  no_use_public_ips: true\n  experiments: [a, b=c]\n"
    (node,) = read_recipes(text, "a")
    given = ["--runner=DataflowRunner", "--no_use_public_ips", "--experiments=a", "--experiments=b=c"]
    assert list(recipe_values.beam_arguments(node.mapping()["beam"])) == given


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("30m", 1800), ("26h", 93_600), ("1.5h", 5400), ("30d", 2_592_000), ("2 w", 1_209_600)],
)
def test_units(text: str, seconds: float) -> None:
    assert recipe_values.parse_duration(text) == seconds
    assert recipe_values.parse_duration(seconds) == seconds


@pytest.mark.parametrize("text", ["26", "h", "-1h", "26 hours", "0h", "1e3h", "99999d", "1h30m", True, None])
def test_what_is_none(text: object) -> None:
    with pytest.raises(OptionValueError):
        recipe_values.parse_duration(text)


def test_days_are_whole() -> None:
    assert (
        recipe_values.parse_days("7d"),
        recipe_values.parse_days("1w"),
        recipe_values.parse_days("48h"),
        recipe_values.parse_days(7),
    ) == (7, 7, 2, 7)
    with pytest.raises(OptionValueError, match="'36h' is not a number of whole days"):
        recipe_values.parse_days("36h")


DURATIONS = {
    30: "30s",
    119: "119s",
    120: "2m",
    600: "10m",
    93_600: "26h",
    172_800: "2d",
    180_000: "50h",
    302_400: "3.5d",
    2_592_000: "30d",
}


def test_shown() -> None:
    assert {seconds: recipe_values.format_duration(seconds) for seconds in DURATIONS} == DURATIONS


DAY = date(2026, 11, 20)


def load(tmp_path: Path, text: str | bytes, **given: str) -> Recipe | InvalidRecipe:
    path = tmp_path / "flowers.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    (found,) = load_recipes([str(path)], given, DAY, {"BUCKET": "gs://photos"})
    return found


def read(tmp_path: Path, text: str | bytes, **given: str) -> Recipe:
    found = load(tmp_path, text, **given)
    assert isinstance(found, Recipe), found
    return found


def mistake(tmp_path: Path, text: str | bytes, **given: str) -> str:
    sentence = error_of(load(tmp_path, text, **given))
    assert "\n" not in sentence
    return sentence.replace(f"{tmp_path}/", "")


GOOD = """\
name: flowers
output: data/sets
version: 1.0.{YYYY}{MM}{DD}
images:
  input: photos
  splits: train=0.8,test=0.2
  resize: 224x224
  overwrite: true
labels: keep
retain: {min_versions: 7, max_age: 30d}
freshness:
  warn_after: 26h
  error_after: 50h
on_failure:
  webhook: https://hooks.example.org/T0
unchanged_status: 99
beam:
  runner: DataflowRunner
  experiments: [a, b]
  no_use_public_ips: true
  streaming: false
"""


def test_a_recipe_is_the_flags(tmp_path: Path) -> None:
    recipe = read(tmp_path, GOOD)

    config = recipe.config(recipe.build.version)

    flags = {"name": "flowers", "output": "data/sets", "version": "1.0.20261120", "input": "photos", "overwrite": True}
    assert config == KINDS["images"].make_config({**flags, "splits": "train=0.8,test=0.2", "resize": "224x224"})
    assert recipe.beam == ("--runner=DataflowRunner", "--experiments=a", "--experiments=b", "--no_use_public_ips")
    assert (recipe.build.labels, recipe.build.schema, recipe.build.unchanged_status) == ("keep", "rebuild", 99)
    assert (recipe.retain.min_versions, recipe.retain.max_age) == (7, 30 * 86_400)
    assert (recipe.freshness.warn_after, recipe.freshness.error_after) == (26 * 3600, 50 * 3600)
    assert recipe.on_failure.webhook == "https://hooks.example.org/T0"


LISTS = """\
name: rows
output: sets
csv:
  input: rows.csv
  splits: {train: 0.8, test: 0.2}
  num_shards: {train: 4, test: 1}
  drop: [a, "b,c"]
  fill: {age: -1, city: "no"}
  rename: [x=y]
  quote: ''
"""


def test_lists_and_mappings_are_what_flags_that_repeat_are(tmp_path: Path) -> None:
    where = {"name": "rows", "output": "sets", "input": "rows.csv", "splits": "train=0.8,test=0.2", "quote": ""}
    repeated = {"num_shards": "train=4,test=1", "drop": 'a,"b,c"', "fill": ["age=-1", "city=no"], "rename": ["x=y"]}

    assert read(tmp_path, LISTS).config("1.0.0") == KINDS["csv"].make_config({**where, **repeated})


def test_texts_stay_texts(tmp_path: Path) -> None:
    recipe = read(tmp_path, "name: on\noutput: '010'\ncsv:\n  input: 1_000\n  label: no\n  missing: 1.10\n")

    assert (recipe.name, recipe.output, recipe.options["label"]) == ("on", "010", ("no",))
    assert recipe.options["missing"] == ("", "1.10")


def test_days_and_variables(tmp_path: Path) -> None:
    text = """\
name: events_${KIND}
output: ${BUCKET}/sets
environment: [BUCKET]
window: 2d
csv:
  input: ${BUCKET}/dt={YYYY}-{MM}-{DD}/*.csv
  label: $${KIND}
"""
    recipe = read(tmp_path, text, KIND="clicks")

    assert (recipe.name, recipe.output) == ("events_clicks", "gs://photos/sets")
    assert recipe.options["input"] == "gs://photos/dt={2026-11-19,2026-11-20}/*.csv"
    assert recipe.options["label"] == ("${KIND}",)


TOP = "name: flowers\noutput: sets\n"
IMAGES = f"{TOP}images:\n  input: photos\n"
NO_DURATION = "is not a length of time; expected a number and a unit, such as 26h"
NO_DATE = "is no part of a date; expected {YYYY}, {MM} and {DD}"
NO_VALUE = "${{{0}}} has no value: give --set {0}=…, or name it under environment"
QUOTE_IT = "has no value; put a text that begins with { in quotes"
MISTAKES: list[tuple[str | bytes, str]] = [
    # Keys and flags
    (f"{IMAGES}lables: keep\n", "line 5: unknown key 'lables'; did you mean labels?"),
    (f"{IMAGES}xyzzy: 1\n", "line 5: unknown key 'xyzzy'; expected one of name, output, images"),
    (f"{IMAGES}  resise: 10x10\n", "line 5: images has no flag 'resise'; did you mean resize?"),
    (f"{IMAGES}  pack_to: 8\n", "line 5: images has no flag 'pack_to'"),
    (f"{IMAGES}  --resize: 10x10\n", "images has no flag '--resize'; did you mean resize?"),
    (f"{IMAGES}resize: 10x10\n", "line 5: resize is a flag of images: put it below images, in line 3"),
    (f"{IMAGES}  version: 1.0.0\n", "line 5: version belongs at the top of a recipe"),
    (f"{TOP}imags:\n  input: photos\n", "line 3: unknown key 'imags'; did you mean images?"),
    (TOP, "line 1: there is no command; expected one of images, arrays"),
    (f"{IMAGES}csv:\n  input: a\n", "line 5: csv, but images is there too; expected one command"),
    ("output: sets\nimages:\n  input: a\n", "line 1: name is missing, the name of the data set"),
    ("\n\nname: a\nimages:\n  input: a\n", "line 3: output is missing, the folder of all data sets"),
    (f"{TOP}images:\n  resize: 10x10\n", "line 3: give either --input, a folder or a glob, or --manifest"),
    # Values
    (f"{IMAGES}  splits: train=0.5\n", "line 5: --splits: the fractions add up to 0.5; expected 1"),
    (f"{IMAGES}  balance: size\n", "line 5: --balance size: expected one of examples, bytes"),
    (f"{IMAGES}  threads: many\n", "line 5: --threads: 'many' is not a whole number"),
    (f"{IMAGES}  overwrite: yes\n", "line 5: --overwrite: 'yes' is not true or false"),
    ("name: 1a\noutput: s\nimages:\n  input: a\n", "line 1: --name '1a': expected a letter, then"),
    (f"{IMAGES}version: 1.0\n", "line 5: version '1.0': expected three numbers, such as 1.0.0, or"),
    (f"{IMAGES}  seed: [1, 2]\n", "line 5: --seed: ['1', '2'] is not a whole number"),
    (f"{IMAGES}  splits: [train, test]\n", "line 5: --splits: 'train' is not name=fraction"),
    (f"{IMAGES}  balance: {{a: 1}}\n", "line 5: --balance: {'a': '1'} is not a text"),
    (f"{TOP}images: photos\n", "line 3: images is a text; expected keys and values below it"),
    (f"{IMAGES}  num_shards: 8\n  shard_size: 1MB\n", "line 5: give --num_shards or --shard_size, not both"),
    (f"{IMAGES}  seed: 3\n  stratify_by: label\n", "line 6: --stratify_by label needs"),
    (f"{IMAGES}  labels_file: none.txt\n", "line 5: --labels_file none.txt: No such file"),
    (f"{IMAGES}labels: frozen\n", "line 5: labels frozen: expected one of keep, rebuild"),
    (f"{IMAGES}  resize:\n", "line 5: images.resize has no value; leave the line out, or write ''"),
    (f"{IMAGES}labels: null\n", "line 5: labels has no value; leave the line out"),
    # Sections
    (f"{IMAGES}retain:\n  max_ages: 3d\n", "line 6: unknown key 'max_ages' in retain; did you mean"),
    (f"{IMAGES}retain: {{max_age: 30}}\n", f"line 5: max_age: '30' {NO_DURATION}"),
    (f"{IMAGES}freshness:\n  error_after: 1h\n  warn_after: 2h\n", "line 6: error_after is less than warn_after"),
    (f"{IMAGES}retain: 7\n", "line 5: retain is a text; expected keys and values"),
    (f"{IMAGES}beam: [a]\n", "line 5: beam is a list; expected keys and values below it"),
    (f"{IMAGES}beam:\n  labels: {{a: b}}\n", "line 6: beam.labels is a mapping; expected a text"),
    # Days and variables
    (f"{IMAGES}version: 1.0.{{YYYY}}{{M}}\n", "line 5: version: {M} is no part of a date; expected"),
    (f"{TOP}csv:\n  input: dt={{yyyy}}/*\n", f"line 4: csv.input: {{yyyy}} {NO_DATE}"),
    (f"{IMAGES}window: 7d\n", "line 5: window: 7d is about the days in the input, which names"),
    (f"{TOP}images:\n  input: ${{PHOTOS}}/a\n", f"line 4: {NO_VALUE.format('PHOTOS')}"),
    (
        f"environment: [BUCKET]\n{TOP}images:\n  input: ${{BUKET}}/a\n",
        f"line 5: {NO_VALUE.format('BUKET')}; did you mean ${{BUCKET}}?",
    ),
    (
        f"environment: [NIGHT]\n{TOP}images:\n  input: ${{NIGHT}}/a\n",
        "line 5: ${NIGHT}: there is no environment variable NIGHT; set it, or give --set NIGHT=…",
    ),
    (f"{TOP}images:\n  input: ${{a b}}\n", "line 4: ${a b}: expected a name of letters"),
    (f"environment: [a b]\n{IMAGES}", "line 1: environment: 'a b' is not the name of a"),
    # YAML
    (f"{TOP}images:\n\tinput: a\n", "line 4: a tab where YAML wants spaces; indent with spaces"),
    (f"{IMAGES}name: b\n", "line 5: 'name' is there twice; the first is in line 1"),
    (f"{IMAGES}  input: b\n", "line 5: 'input' is there twice; the first is in line 4"),
    (f"{TOP}images: &a\n  input: a\n", "line 3: &a: anchors and aliases are not supported; write out"),
    (f"{TOP}images: *a\n", "line 3: *a: anchors and aliases are not supported"),
    (f"{TOP}images:\n  <<: b\n", "line 4: <<: merging is not supported; write out what it refers to"),
    (f"{TOP}images: !!python/object:os.x ['echo']\n", "line 3: tag !!python/object:os.x: tags are not supported"),
    (f"{TOP}images:\n  input: !!binary aGk=\n", "line 4: tag !!binary: tags are not supported"),
    (f"{TOP}[a]: 1\n", "line 3: a key that is no plain word"),
    (f"{TOP}images: input: a\n", "line 3: a ':' where no key can be; put a text that holds ': ' in quotes"),
    (f"{TOP}images:\n  input: 'a\n", "not YAML: found unexpected end of stream while"),
    (f"{TOP}images:\n  input: {{YYYY}}/a\n", f"line 4: images.input.YYYY {QUOTE_IT}"),
    (f"{TOP}images:\n  input: \x07\n", "line 4: the character U+0007 cannot be in YAML"),
    (TOP.encode() + b"images:\n  input: \xff\n", "line 4: not UTF-8; save the file as UTF-8"),
    ("- name: a\n", "line 1: a list; expected a recipe: name, output, and a command over its flags"),
    ("flowers\n", "line 1: a text; expected a recipe"),
    ("# later\n", " is empty; expected a recipe"),
    (f"{TOP}images: {'[' * 50}{']' * 50}\n", "line 3: mappings and lists are nested too deep"),
    (b"#" * (2 << 20), " has 2,097,152 bytes; a recipe has some hundred"),
]


@pytest.mark.parametrize(("text", "sentence"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_named_with_its_line(text: str | bytes, sentence: str, tmp_path: Path) -> None:
    said = mistake(tmp_path, text)

    assert said.startswith("flowers.yaml")
    assert sentence in said


def test_a_window_that_begins_before_there_are_days(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(f"{TOP}images:\n  input: dt={{YYYY}}-{{MM}}-{{DD}}/*\nwindow: 7d\n")
    sentence = "line 5: window: 7d up to 0001-01-06 begins before there are dates, in the year 1"

    (early,), (late,) = (load_recipes([str(tmp_path)], {}, date(1, 1, day), {}) for day in (6, 7))
    assert isinstance(late, Recipe)
    assert error_of(early).endswith(sentence)


def error_of(recipe: Recipe | InvalidRecipe) -> str:
    assert isinstance(recipe, InvalidRecipe)
    return str(recipe.error)


def test_several_recipes_in_a_file_and_in_a_folder(tmp_path: Path) -> None:
    two = "---\nname: b\noutput: s\nimages:\n  input: a\n---\nname: c\noutput: s\nimages: {}\n"
    files = {"b.yml": two, "a.yaml": IMAGES, "c.yaml": f"# again\n{IMAGES}", ".hidden.yaml": "odd", "notes.txt": "odd"}
    write_files(tmp_path, {name: text.encode() for name, text in files.items()})

    first, second, third, fourth = load_recipes([str(tmp_path)], {}, DAY, {})

    assert isinstance(first, Recipe)
    assert isinstance(second, Recipe)
    assert (first.name, second.name) == ("flowers", "b")
    assert f"{tmp_path}/b.yml line 9: give either --input" in error_of(third)
    assert f"{tmp_path}/c.yaml line 2: flowers in sets is built by {tmp_path}/a.yaml line 1" in error_of(fourth)


def test_two_recipes_of_one_data_set_whatever_they_call_its_folder(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "sets")
    for number, output in enumerate(("sets", "./sets", "link", str(tmp_path / "sets/"), "other")):
        (tmp_path / f"{number}.yaml").write_text(IMAGES.replace("output: sets", f"output: {output}"))

    with chdir(tmp_path):
        first, *same, other = load_recipes([str(tmp_path)], {}, DAY, {})

    assert isinstance(first, Recipe)
    assert isinstance(other, Recipe)
    for recipe in same:
        assert error_of(recipe).endswith(f"is built by {tmp_path}/0.yaml line 1 already")


def test_what_is_no_recipe_at_all(tmp_path: Path) -> None:
    (found,) = load_recipes([f"{tmp_path}/none.yaml"], {}, DAY, {})
    assert "no such file or folder" in error_of(found)
    with pytest.raises(UserError, match="has no recipe; expected files whose names"):
        load_recipes([str(tmp_path)], {}, DAY, {})


@pytest.mark.parametrize(
    ("pairs", "words"),
    [
        (("BUCKET",), "--set BUCKET: expected NAME=value, such as"),
        (("A-B=c",), "--set A-B=c: expected NAME=value, such as"),
        (("BUCKET=a", "BUCKET=a"), "--set BUCKET=… is given twice; give it once"),
    ],
)
def test_mistakes_in_set(pairs: tuple[str, ...], words: str) -> None:
    with pytest.raises(UserError, match=re.escape(words)):
        recipe_values.parse_set(pairs)


def test_a_set_that_nobody_asks_for_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--set BUKET=…: there is no \$\{BUKET\} in .*; did you mean BUCKET\?"):
        load(tmp_path, f"environment: [BUCKET]\n{TOP}images:\n  input: ${{BUCKET}}\n", BUKET="a")


def test_the_checks_hold_a_version_to_what_its_schema_asks_for(tmp_path: Path) -> None:
    for name, number in (("a", 5), ("b", 7)):
        (tmp_path / f"{name}.pbtxt").write_text(
            f"feature {{ name: 'x' type: INT }} dataset_constraints {{ min_examples_count: {number} }}"
        )
    text = f"name: n\noutput: o\ncsv:\n  input: x.csv\n  schema: {tmp_path}/a.pbtxt\n"

    def least(recipe: Recipe) -> int:
        assert recipe.checks.schema is not None
        return int(recipe.checks.schema.schema().dataset_constraints.min_examples_count)

    assert least(read(tmp_path, text)) == 5
    assert least(read(tmp_path, f"{text}checks:\n  schema: {tmp_path}/b.pbtxt\n")) == 7
    assert "line 5: --schema c.pbtxt" in mistake(tmp_path, text.replace("a.pbtxt", "c.pbtxt"))


@pytest.mark.parametrize(
    ("section", "values", "words"),
    [
        (FreshnessOptions, {"warn_after": "26"}, "--warn_after: '26' is not a length of time"),
        (FreshnessOptions, {"warn_after": "3h", "error_after": "2h"}, "--error_after is less than --warn_after"),
        (RetainOptions, {"min_versions": "0"}, "--min_versions 0: expected at least 1"),
        (RetainOptions, {"max_age": "old"}, "--max_age: 'old' is not a length of time"),
        (RetainOptions, {"max_age": "30d"}, "give --min_versions and --max_age, for both must allow a deletion; 0d"),
        (FailureOptions, {"webhook": "ftp://secret"}, "--webhook: expected a URL"),
        (FailureOptions, {"webhook": "hooks.example.org/T0/secret"}, "--webhook: expected a URL"),
        (BuildOptions, {"labels": "freeze"}, "--labels freeze: expected one of keep, rebuild"),
        (BuildOptions, {"window": "0d"}, "--window: '0d': expected more than nothing"),
        (BuildOptions, {"unchanged_status": "126"}, "--unchanged_status 126: expected 0 to 125"),
        (BuildOptions, {"version": "1.0"}, "--version '1.0': expected three numbers, such as 1.0.0, or auto"),
    ],
)
def test_mistakes(section: Any, values: dict[str, str], words: str) -> None:
    with pytest.raises(UserError) as caught:
        section(**values)

    assert words in str(caught.value)
    assert "secret" not in str(caught.value)


def test_defaults() -> None:
    assert (BuildOptions().version, BuildOptions().labels, BuildOptions().window) == ("auto", "rebuild", 1)
    assert FreshnessOptions(warn_after="26h").warn_after == 93_600  # type: ignore[arg-type]


def back(text: str) -> Recipe:
    (node,) = read_recipes(text.encode(), "a.yaml")
    return parse_recipe(recipe_values.Variables({}).fill(node), DAY)


FOLDER = {"input": "photos/**/*.jpg", "splits": "train=0.8,test=0.2", "resize": "224x224", "no_shuffle": True}


@pytest.mark.parametrize(
    ("command", "values"),
    [
        ("images", FOLDER),
        ("csv", {"input": "a.csv", "delimiter": "\t", "quote": "", "missing": "-,NA", "fill": ["a=1", "b=: {#"]}),
        ("csv", {"input": "a: b #c.csv", "delimiter": ";", "label": "no", "key": "null", "seed": "010"}),
        ("csv", {"input": "${HOME}/$a/é.csv", "rename": ["a=b"], "num_shards": "train=8"}),
        ("text", {"input": "a.txt", "threads": "3", "compression": "gzip"}),
    ],
)
def test_write_there_and_back(command: str, values: dict[str, Any]) -> None:
    values = {"name": "n", "output": "sets", **values}
    kind = KINDS[command]

    recipe = back(recipe_text(kind, values, ["--runner", "DataflowRunner", "--streaming", "--experiments=a"]))

    assert recipe.config("1.0.0") == kind.make_config({**values, "version": "1.0.0"})
    assert recipe.beam == ("--runner=DataflowRunner", "--streaming", "--experiments=a")
    assert recipe.build.version == "auto"


@settings(max_examples=25)
@given(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn"]), min_size=1))
def test_any_text_comes_back(text: str) -> None:
    if any(word in text for word in ("{YYYY}", "{MM}", "{DD}", "://")):
        return
    values = {"name": "n", "output": "sets", "input": "a.csv", "key": text}

    assert back(recipe_text(KINDS["csv"], values, [])).options["key"] == text


def test_the_command_writes_it_and_converts_nothing(run: Run, tmp_path: Path) -> None:
    flags = ("csv", "--input", tmp_path / "a.csv", "--output", tmp_path / "sets", "--name", "rows", "--fill", "a=1")
    written = ("--write_recipe", tmp_path / "rows.yaml")
    check_mistake(run(*flags, *written), "a.csv: no such file or folder")
    assert not (tmp_path / "rows.yaml").exists()
    write_files(tmp_path, {"a.csv": b"a,b\n1,2\n"})

    result = run(*flags, "--version", "2.0.0", "--overwrite", *written)

    assert result.status == 0
    assert not (tmp_path / "sets").exists()
    assert "--version and --overwrite are left out, for each build is the next patch" in result.out
    (recipe,) = load_recipes([str(tmp_path / "rows.yaml")], {}, DAY, {})
    assert isinstance(recipe, Recipe)
    assert recipe.options["fill"] == (("a", "1"),)
    check_mistake(run(*flags, *written), "rows.yaml: the file is there; delete it")
