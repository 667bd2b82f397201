"""Tests of planning.py: what a build keeps of a version before, and which version it makes."""

import re
from datetime import date
from pathlib import Path

import pytest
from apache_beam.options.pipeline_options import PipelineOptions

from shardmill.addons.nightly import planning as plan
from shardmill.addons.nightly.recipe import Recipe, load_recipes
from shardmill.errors import UserError
from shardmill.metadata.manifest import Manifest, success_text
from shardmill.metadata.versions import BuildRecord, Status
from shardmill.pipelines.commands.convert import run_config
from shardmill.pipelines.config.job import JobConfig
from shardmill.pipelines.jobs.outcome import Published
from shardmill.pipelines.jobs.registry import KINDS
from shardmill.reading.dataset import open_dataset
from shardmill.transforms.publishing.build_records import write_record
from tests.support.command import Run, write_files

FIRST = "label,x,note\nb,1,p\nd,2,q\n"
SECOND = "label,x,note,more\na,1.5,7,1\nb,2,8,2\nd,3,9,3\n"  # a class before all others; x and note of other types


def recipe_of(folder: Path, *lines: str, flags: str = "label: label") -> Recipe:
    text = "\n".join([f"name: n\noutput: {folder}/out", f"csv: {{input: {folder}/in, num_shards: 1, {flags}}}", *lines])
    (folder / "n.yaml").write_text(text)
    (found,) = load_recipes([str(folder / "n.yaml")], {}, date(2026, 11, 20), {})
    assert isinstance(found, Recipe), found
    return found


def build_version(config: JobConfig) -> Published:
    return run_config(KINDS["csv"].make_job, config, PipelineOptions([]))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of the first file, version 1.0.0, and the input of the second."""
    folder = tmp_path_factory.mktemp("keep")
    write_files(folder, {"in/a.csv": FIRST.encode(), "out/n/TAGS/good": b"1.0.0\n"})
    recipe = recipe_of(folder, "labels: keep", flags="label: label, on_new_label: append")
    kept = plan.find_kept_settings(recipe, str(folder / "out/n"))
    assert kept == plan.KeptSettings(
        messages=("there is no version yet whose labels or schema could be kept: those of the input are taken",)
    )
    build_version(kept.config(recipe, "1.0.0"))
    write_files(folder, {"in/a.csv": SECOND.encode()})
    return folder


def build(folder: Path, version: str, *lines: str, flags: str) -> tuple[tuple[str, ...], Manifest]:
    recipe = recipe_of(folder, *lines, flags=flags)
    kept = plan.find_kept_settings(recipe, str(folder / "out/n"))
    published = build_version(kept.config(recipe, version))
    (folder / "out/n/LATEST").write_text("1.0.0\n")
    return kept.messages, open_dataset(published.directory).manifest


def shapes(manifest: Manifest) -> dict[str, str]:
    return {feature.name: feature.dtype for feature in manifest.features}


def classes(manifest: Manifest) -> tuple[str, ...]:
    (names,) = (feature.class_names for feature in manifest.features if feature.name == "label")
    return names


def test_nothing_is_kept_unless_it_is_asked(folder: Path) -> None:
    said, manifest = build(folder, "1.0.1", flags="label: label")

    assert (said, classes(manifest)) == ((), ("a", "b", "d"))
    assert shapes(manifest) == {"label": "int64", "x": "float32", "note": "int64", "more": "int64"}


def test_classes_keep_their_ids(folder: Path) -> None:
    said, manifest = build(folder, "1.0.2", "labels: keep", flags="label: label, on_new_label: append")

    assert said == ("the ids of 2 classes are those of 1.0.0; a new one gets the next id",)
    assert classes(manifest) == ("b", "d", "a")
    assert shapes(manifest)["x"] == "float32"


def test_a_new_class_fails_unless_the_recipe_says_what_it_does(folder: Path) -> None:
    sentence = "class 'a' is in the input but not in the kept labels of version 1.0.0; give --on_new_label append"
    with pytest.raises(UserError, match=sentence):
        build(folder, "1.0.9", "labels: keep", flags="label: label")
    with pytest.raises(UserError, match=r"^the labels of version 1[.]0[.]0 are kept, but no --label; name the column"):
        build(folder, "1.0.9", "labels: keep", flags="")
    flags = "label: label, on_new_label: reject, max_reject_fraction: 1"
    said, manifest = build(folder, "1.0.3", "labels: keep", flags=flags)

    assert said == ("the ids of 2 classes are those of 1.0.0; a new one is rejected",)
    assert classes(manifest) == ("b", "d")
    assert manifest.rejects["reasons"] == {"class 'a' is not in the kept labels of version 1.0.0": 1}


def test_columns_keep_their_types(folder: Path) -> None:
    said, manifest = build(folder, "1.0.4", "schema: keep", flags="label: label, max_reject_fraction: 1")

    assert said == ("the types of 3 columns are those of 1.0.0",)
    assert shapes(manifest) == {"label": "int64", "x": "int64", "note": "bytes"}
    assert manifest.rejects["records"] == 1  # 1.5 is no int64
    assert classes(manifest) in (("a", "b", "d"), ("b", "d"))
    left_out = "left out what the kept schema of version 1.0.0 does not have: column 'more'"
    assert any(left_out in notice for notice in manifest.notices)


def test_what_a_kept_schema_wants_is_told_as_its_own(folder: Path) -> None:
    """Who wrote `schema: keep` never gave --schema."""
    write_files(folder, {"in/a.csv": b"label,x,note,mark\nb,,n,1\nd,2,o,1\nb,3,p,1\n"})
    try:
        _, manifest = build(folder, "1.0.5", "schema: keep", flags="label: label, max_reject_fraction: 1")
        with pytest.raises(UserError, match=r"^--label mark: the kept schema of version 1[.]0[.]0 has no such feature"):
            build(folder, "1.0.9", "schema: keep", flags="label: mark")
    finally:
        write_files(folder, {"in/a.csv": SECOND.encode()})

    sentence = "column 'x' has no value, which the kept schema of version 1.0.0 wants in every row"
    assert manifest.rejects["reasons"] == {sentence: 1}


@pytest.mark.parametrize("named", ["LATEST", "1.0.0", "good"])
def test_like_a_version_keeps_both(folder: Path, named: str) -> None:
    recipe = recipe_of(folder, f"like: {named}", flags="label: label, on_new_label: append")
    kept = plan.find_kept_settings(recipe, str(folder / "out/n"))

    assert kept.config_changes["labels"] == ("b", "d")
    types = {feature.name: feature.dtype for feature in kept.config_changes["schema"].features}
    assert types == {"label": "int64", "x": "int64", "note": "bytes"}
    assert len(kept.messages) == 2


def test_a_tag_that_is_moved_is_another_thing_to_be_like(folder: Path) -> None:
    parent = str(folder / "out/n")

    assert plan.kept_digest_entries(recipe_of(folder), parent) == {}
    assert plan.kept_digest_entries(recipe_of(folder, "labels: keep"), parent) == {"labels": "keep"}
    both = {"labels": "keep", "schema": "keep"}
    assert plan.kept_digest_entries(recipe_of(folder, "like: LATEST"), parent) == both | {"like": "LATEST"}
    assert plan.kept_digest_entries(recipe_of(folder, "like: good"), parent) == both | {"like": "1.0.0"}
    write_files(folder, {"out/n/TAGS/moved": b"1.0.7\n"})
    assert plan.kept_digest_entries(recipe_of(folder, "like: moved"), parent) == both | {"like": "1.0.7"}


LABELS = "label: label, labels_file: {}/names"


@pytest.mark.parametrize(
    ("lines", "flags", "said"),
    [
        (("like: 1.0.7",), "label: label", "1.0.7 is not a data set"),
        (("like: best",), "label: label", "has no version or tag 'best'"),
        (("labels: keep",), LABELS, "labels: a version before says it, and so does --labels_file"),
        (("like: good",), LABELS, "like: a version before says it, and so does --labels_file"),
    ],
)
def test_mistakes(folder: Path, lines: tuple[str, ...], flags: str, said: str) -> None:
    write_files(folder, {"names": b"a\n"})
    with pytest.raises(UserError, match=said):
        plan.find_kept_settings(recipe_of(folder, *lines, flags=flags.format(folder)), str(folder / "out/n"))


def test_images_have_no_schema(folder: Path) -> None:
    (folder / "i.yaml").write_text(f"name: i\noutput: {folder}/out\nimages: {{input: {folder}/in}}\nschema: keep\n")
    (recipe,) = load_recipes([str(folder / "i.yaml")], {}, date(2026, 11, 20), {})
    assert isinstance(recipe, Recipe)

    sentence = r"i.yaml line 4.*schema: keep has no meaning for images, which has no --schema"
    with pytest.raises(UserError, match=sentence):
        plan.find_kept_settings(recipe, str(folder / "out/i"))


def test_without_latest_the_newest_version_is_kept(folder: Path) -> None:
    """Ids must not move because somebody deleted LATEST."""
    latest = folder / "out/n/LATEST"
    named = latest.read_text()
    latest.unlink()
    kept = plan.find_kept_settings(recipe_of(folder, "labels: keep"), str(folder / "out/n"))
    latest.write_text(named)

    assert kept.messages[0].startswith("there is no LATEST: 1.0.")
    assert kept.config_changes["labels"]


SCHEMA = """
feature { name: "label" type: BYTES presence { min_fraction: 1 min_count: 1 } shape {} }
feature {
  name: "x" type: INT presence { min_fraction: 0.5 } value_count { min: 1 max: 1 }
  drift_comparator { jensen_shannon_divergence { threshold: 0.25 } }
}
dataset_constraints { min_examples_count: 2 }
"""


def test_what_a_schema_asks_for_is_kept_too(run: Run, tmp_path: Path) -> None:
    """By a night after the one that was given --schema, which renamed a column; verify has nothing against it."""
    write_files(tmp_path, {"in/a.csv": FIRST.encode(), "s.pbtxt": SCHEMA.encode()})
    rename = "rename: x=y"
    given = recipe_of(tmp_path, flags=f"label: label, schema: {tmp_path}/s.pbtxt, {rename}")
    build_version(given.config("1.0.0"))
    parent = tmp_path / "out/n"
    text = (parent / "1.0.0/schema.pbtxt").read_text()
    assert "min_examples_count: 2" in text
    assert re.search(r'name: "y".*threshold: 0.25', text, re.DOTALL)
    assert run("verify", parent).status == 0

    recipe = recipe_of(tmp_path, "schema: keep", "labels: keep", flags=f"label: label, {rename}")
    kept = plan.find_kept_settings(recipe, str(parent))
    assert kept.constraints is not None
    assert kept.constraints.limits()["y"]["numeric_drift"].error == 0.25
    assert kept.checks(recipe).schema == kept.constraints
    assert kept.checks(given).schema == given.checks.schema  # the one that the recipe gives
    build_version(kept.config(recipe, "1.0.1"))
    assert (parent / "1.0.1/schema.pbtxt").read_text() == text


def test_the_schema_of_transformed_examples_is_none_of_the_input(folder: Path) -> None:
    published = build_version(recipe_of(folder, flags="label: label").config("1.0.30"))
    path = Path(published.directory) / "manifest.json"
    manifest = path.read_text()
    assert '"configuration": {' in manifest
    path.write_text(manifest.replace('"configuration": {', '"configuration": {"materialize": true,', 1))
    (path.parent / "_SUCCESS").write_text(success_text(path.read_bytes()))

    with pytest.raises(UserError, match=r"schema: keep: the schema of 1\.0\.30 is that of transformed examples"):
        plan.find_kept_settings(
            recipe_of(folder, "schema: keep\nlike: 1.0.30", flags="label: label"), str(folder / "out/n")
        )
    kept = plan.find_kept_settings(recipe_of(folder, "like: 1.0.30", flags="label: label"), str(folder / "out/n"))
    assert "schema" not in kept.config_changes
    assert any("1.0.30 has transformed examples" in said for said in kept.messages)
    (folder / "out/n/LATEST").write_text("1.0.0\n")


@pytest.mark.parametrize("kept", [["labels: keep"], ["labels: keep", "schema: keep"]])
def test_each_of_several_labels_keeps_its_ids(tmp_path: Path, kept: list[str]) -> None:
    """One of them is a list of classes, and one is numbers, of which there is nothing to keep."""
    flags = 'label: [kind, tags, score], label_separator: {tags: ";"}, on_new_label: append'
    write_files(tmp_path, {"in/a.csv": b"kind,tags,score\nb,y;z,1\nd,,2\n"})
    build(tmp_path, "1.0.0", *kept, flags=flags)
    write_files(tmp_path, {"in/a.csv": b"kind,tags,score\na,x;z,1\nd,z,2\n"})

    said, manifest = build(tmp_path, "1.0.1", *kept, flags=flags)

    assert said[-1] == "the ids of 4 classes are those of 1.0.0; a new one gets the next id"
    assert [feature.class_names for feature in manifest.features] == [("b", "d", "a"), ("y", "z", "x"), ()]
    assert [feature.shape for feature in manifest.features] == [(), (None,), ()]
    assert [feature.role for feature in manifest.features] == ["label"] * 3


def publish(parent: Path, *versions: str) -> None:
    for version in versions:
        (parent / version).mkdir(parents=True)
        (parent / version / "_SUCCESS").write_text("")


def record(parent: Path, version: str, status: Status) -> None:
    write_record(str(parent), BuildRecord("n", version, status, "2026-11-20T03:00:00Z"))


def test_the_patch_after_the_newest(tmp_path: Path) -> None:
    assert plan.version_to_build("auto", str(tmp_path)) == "1.0.0"
    publish(tmp_path, "1.0.9", "1.0.10", "0.9.99")
    assert plan.version_to_build("auto", str(tmp_path)) == "1.0.11"
    assert plan.version_to_build("3.0.0", str(tmp_path)) == "3.0.0"
    assert plan.next_patch("1.2.9") == "1.2.10"


@pytest.mark.parametrize("status", ["published", "failed", "checks_failed", "locked"])
def test_a_version_that_was_never_published_is_made_now(tmp_path: Path, status: Status) -> None:
    """But none again that was published and deleted."""
    publish(tmp_path, "1.0.3")
    record(tmp_path, "1.0.4", status)
    if status != "published":  # of a job that builds it: the two must meet
        (tmp_path / "1.0.4" / "beam-temp-n-1").mkdir(parents=True)

    assert plan.version_to_build("auto", str(tmp_path)) == ("1.0.5" if status == "published" else "1.0.4")
