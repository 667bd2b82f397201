"""Labels of tables that are lists of classes, numbers, or several: what comes out, by which reader, what is said."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shardmill
from shardmill.data.features import Feature
from shardmill.metadata.manifest import Manifest
from shardmill.reading.dataset import open_dataset
from tests.support.command import Run, image, write_files
from tests.support.jobs import Jobs

TAGS = [["red", "green"], [], ["blue", "red", "blue"], ["green"]] + [["red"]] * 6
KEPT = [["red", "green"], [], ["blue", "red"], ["green"]] + [["red"]] * 6
NAMES = ("blue", "green", "red")
SAID = (
    "a class of 'tags' is named again in its row once, and counts once there",
    "1 example has no class of 'tags': an empty list, of an empty or a missing value",
)


def write(folder: Path, form: str) -> list[object]:
    """The command that reads the rows, in a form in which people have them."""
    if form == "csv":
        rows = "".join(f"{number},{' ; '.join(tags)}\n" for number, tags in enumerate(TAGS))
        write_files(folder, {"in.csv": f"id,tags\n{rows}".encode()})
        return ["csv", "--input", folder / "in.csv", "--label_separator", ";"]
    if form == "jsonl":
        lines = (json.dumps({"id": number, "tags": tags or None}) for number, tags in enumerate(TAGS))
        write_files(folder, {"in.jsonl": "".join(f"{line}\n" for line in lines).encode()})
        return ["jsonl", "--input", folder / "in.jsonl"]
    pq.write_table(pa.table({"id": range(len(TAGS)), "tags": TAGS}), folder / "in.parquet")
    return ["parquet", "--input", folder / "in.parquet"]


def make(run: Run, folder: Path, *command: object, name: str = "n") -> Manifest:
    result = run(*command, "--output", folder, "--name", name)
    assert result.status == 0, result.err
    return open_dataset(folder / name).manifest


def labels(folder: Path, name: str = "tags") -> dict[int, list[Any]]:
    return {int(one["id"]): one[name].tolist() for one in shardmill.examples(folder / "n")}


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_lists_of_classes(run: Run, tmp_path: Path, form: str) -> None:
    made = make(run, tmp_path / "out", *write(tmp_path, form), "--label", "tags")

    assert made.features[1] == Feature("tags", "int64", "class_label", (None,), class_names=NAMES, role="label")
    assert labels(tmp_path / "out") == {row: [NAMES.index(tag) for tag in tags] for row, tags in enumerate(KEPT)}
    assert set(SAID) <= set(made.notices)
    version = tmp_path / "out/n/1.0.0"
    assert (version / "tags.labels.txt").read_text() == "blue\ngreen\nred\n"
    stats = json.loads((version / "stats.json").read_text())["splits"]["train"]["features"]["tags"]
    assert stats["classes"] == {"blue": 1, "green": 2, "red": 8}
    assert (stats["count"], stats["values_per_example"]["min"], stats["values_per_example"]["max"]) == (10, 0, 2)
    assert run("verify", version).status == 0


def test_readers_take_lists_of_classes(run: Run, tmp_path: Path) -> None:
    import tensorflow as tf
    import tensorflow_datasets as tfds

    make(run, tmp_path / "out", *write(tmp_path, "jsonl"), "--label", "tags")
    version = tmp_path / "out/n/1.0.0"

    builder = tfds.builder_from_directory(version)
    assert builder.info.features["tags"].feature.names == list(NAMES)
    for example in tfds.as_numpy(builder.as_dataset(split="train")):
        assert example["tags"].tolist() == [NAMES.index(tag) for tag in KEPT[int(example["id"])]]
    for options in ({"batch_size": 4}, {"batch_size": 4, "augment": lambda features: features}):
        batches = list(shardmill.load(version, multi_hot=True, shuffle=False, **options))
        ids = np.concatenate([batch[0] for batch in batches]).tolist()
        hot = np.concatenate([batch[1] for batch in batches])
        assert batches[0][1].dtype == tf.float32
        assert hot.tolist() == [[float(name in KEPT[row]) for name in NAMES] for row in ids]
    ragged = next(iter(shardmill.load(version, batch_size=10, shuffle=False)))[1]
    assert isinstance(ragged, tf.RaggedTensor)
    padded = next(iter(shardmill.load(version, batch_size=10, shuffle=False, pad=True)))[1]
    assert padded.numpy().min() == -1


def test_what_people_are_shown(run: Run, tmp_path: Path) -> None:
    command = [*write(tmp_path, "csv"), "--label", "tags"]
    dry = run(*command, "--output", tmp_path / "out", "--name", "n", "--dry_run")
    assert "tags: int64 list, 3 classes: blue, green, red" in dry.out
    make(run, tmp_path / "out", *command)

    shown = run("inspect", tmp_path / "out/n", "--examples", 10)

    assert "3 classes of 'tags':" in shown.out
    assert "red 8" in shown.out
    page = run("report", tmp_path / "out/n/1.0.0", "--output", tmp_path / "page.html")
    assert page.status == 0, page.err
    assert "class_label, 3 classes" in (tmp_path / "page.html").read_text()


def test_a_row_of_a_class_that_is_none_is_a_reject(jobs: Jobs) -> None:
    rows = ['["a", "b"]', '["c", "a", "d"]', "[]", '["b", null]', '[["a"]]', '"a"']
    lines = "".join(f'{{"id": {row}, "tags": {tags}}}\n' for row, tags in enumerate(rows))
    flags = "jsonl --label tags --labels_file in/names --max_reject_fraction 1 --on_new_label"

    made = jobs.build(f"{flags} reject", files={"in.jsonl": lines, "names": "b\na\n"})

    assert {one["id"]: one["tags"].tolist() for one in made.examples()} == {0: [1, 0], 2: [], 5: [1]}
    assert made.manifest.rejects["reasons"]["class 'c' is not in --labels_file"] == 1
    assert len(made.rejects) == 3
    assert jobs.build(f"{flags} append --overwrite").manifest.features[1].class_names == ("b", "a", "c", "d")


def test_a_class_without_a_name_is_a_reject(jobs: Jobs) -> None:
    """It stopped the job, which said that it cannot be in a labels file."""
    lines = [f'{{"id": {row}, "tags": {tags}}}\n' for row, tags in enumerate(['["a", ""]', '["b"]', "[]"])]
    made = jobs.build("jsonl --label tags --max_reject_fraction 1", files={"in.jsonl": "".join(lines)})
    assert {one["id"]: one["tags"].tolist() for one in made.examples()} == {1: [1], 2: []}
    assert made.manifest.features[1].class_names == ("a", "b")
    assert made.reasons == {"in.jsonl:1": "a class without a name; expected names, or an empty list"}


@pytest.mark.parametrize("line", ["csv --label label", "images --manifest in/in.csv"])
def test_classes_that_are_called_as_lists_are_said(jobs: Jobs, line: str) -> None:
    """As pandas writes a column of lists."""
    pictures = {f"{number}.png": image(number, "PNG") for number in (1, 2)}
    made = jobs.build(line, files={**pictures, "in.csv": "file_name,label\n1.png,\"['a', 'b']\"\n2.png,b\n"})
    (said,) = [notice for notice in made.notices if "list is written" in notice]
    assert said.startswith(
        "1 class of 'label' is called as a list is written, such as \"['a', 'b']\", and each is one class; rows of"
    )


def test_a_separator_that_is_nowhere_is_said(jobs: Jobs) -> None:
    made = jobs.build("csv --label tags --label_separator ;", files={"in.csv": "id,tags\n1,a|b\n2,b\n"})
    assert made.manifest.features[1].class_names == ("a|b", "b")
    assert "no row has several values of 'tags': is ';' the separator between them?" in made.notices


def test_labels_that_are_numbers_stay(jobs: Jobs, run: Run, tmp_path: Path) -> None:
    files = {"in.csv": "id,n,x,y\n1,3;3;1,0.5;2,0.25\n2,,1,8\n3,2,,-1\n"}
    made = jobs.build("csv --label n,y --label_separator n=; --name a", files=files)
    assert made.manifest.features[1] == Feature("n", "int64", shape=(None,), role="label")
    assert made.manifest.features[3] == Feature("y", "float32", role="label")
    assert made.manifest.configuration["label_separator"] == {"n": ";"}
    assert {one["id"]: one["n"].tolist() for one in made.examples()} == {1: [3, 3, 1], 2: [], 3: [2]}
    made = jobs.build("csv --label x --label_separator ; --name b")
    assert {one["id"]: one["x"].tolist() for one in made.examples()} == {1: [0.5, 2], 2: [1], 3: []}
    one = jobs.build("csv --drop n,x --label y --name c")
    assert one.manifest.features[1] == Feature("y", "float32", role="label")
    assert (one.stats["y"]["min"], one.stats["y"]["max"]) == (-1, 8)
    assert not [*tmp_path.rglob("*.labels.txt")]
    assert run("report", one.directory, "--output", tmp_path / "page.html").status == 0


def test_several_labels(jobs: Jobs) -> None:
    rows = "".join(f"{row},{'ab'[row % 2]},{'x;y' if row % 3 else 'x'},{row / 2}\n" for row in range(12))
    made = jobs.build("csv --label kind,score --drop tags", files={"in.csv": f"id,kind,tags,score\n{rows}"})
    roles = {feature.name: feature.role for feature in made.manifest.features}
    assert roles == {"id": "input", "kind": "label", "score": "label"}
    assert made.manifest.configuration["label"] == ["kind", "score"]
    features, targets = next(iter(shardmill.load(made.directory, batch_size=12, shuffle=False)))
    assert targets["kind"].numpy().tolist() == [row % 2 for row in features.numpy()]
    assert targets["score"].numpy().tolist() == [row / 2 for row in features.numpy()]


def test_several_labels_keep_their_classes(jobs: Jobs) -> None:
    files = {"in.csv": "id,kind,tags\n1,b,y;z\n2,d,\n", "kinds": "d\nb\n", "tags": "z\ny\n"}
    flags = "--label kind,tags --label_separator 'tags=;' --labels_file kind=in/kinds,tags=in/tags"
    made = jobs.build(f"csv {flags}", files=files)
    assert [feature.class_names for feature in made.manifest.features[1:]] == [("d", "b"), ("z", "y")]
    assert made.manifest.configuration["labels"] == {"kind": ["d", "b"], "tags": ["z", "y"]}
