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
from tests.support.command import Run, check_mistake, image, write_files

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
    with pytest.raises(shardmill.UserError, match="pad fills up lists of any length, and no feature that is read"):
        shardmill.load(version, batch_size=2, multi_hot=True, pad=True)
    with pytest.raises(shardmill.UserError, match="multi_hot is for lists of classes, and none of what is read is one"):
        shardmill.load(version, features=["id"], supervised=False, multi_hot=True)


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


_TABLES = {
    "in.csv": "id,tags,n,none\n1,a;b,1;2,\n2,b,3,\n3,a,0,\n",
    "in.jsonl": '{"id": 1, "tags": ["a"], "deep": [["a"]], "n": [1, 2]}\n{"id": 2, "tags": ["b", "a"], "deep": [["b"]],'
    ' "n": []}\n',
    "names.txt": "a\nb\n",
    "few.txt": "a\n",
}


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        ("csv --label_separator ;", "--label_separator ';' splits a label; name its column with --label"),
        ("csv --label tags --label_separator  ", "--label_separator: ' ': expected a separator of classes"),
        (
            "csv --label tags,id --label_separator ;",
            "which of tags, id? Give --label_separator 'id=;' if it is that one",
        ),
        ("csv --label tags,id --label_separator n=;", "--label_separator n=;: --label names no n"),
        ("csv --label tag --label_separator ;", "--label tag: no such column in --input in.csv; did you mean tags?"),
        ("csv --label none --label_separator ;", "--label none has no value in any row; give a column that has some"),
        (
            "csv --label tags --label_separator ; --stratify_by label --splits a=0.5,b=0.5",
            "--stratify_by tags: rows have any number of its",
        ),
        (
            "csv --label n --label_separator ; --labels_file names.txt",
            "but --label n holds numbers, which stay as they",
        ),
        (
            "csv --label tags --label_separator ; --labels_file few.txt",
            "class 'b' is in the input but not in --labels_f",
        ),
        ("csv --label tags,tags", "--label: 'tags,tags' names a column twice"),
        ("csv --label tags,id --labels_file names.txt", "give --labels_file tags=tags.labels.txt,id=id.labels.txt"),
        (
            "csv --label tags,id --labels_file x=names.txt,y=few.txt",
            "--labels_file says nothing of the classes of 'tags'",
        ),
        ("jsonl --label tags --label_separator ;", "--label tags holds lists already; leave the separator out"),
        ("jsonl --label deep", "--label deep holds lists of lists; expected one value in each row, or a list of them"),
        (
            "jsonl --label tags --stratify_by tags --splits a=0.5,b=0.5",
            "--stratify_by tags: rows have any number of its values",
        ),
        ("jsonl --label n --labels_file names.txt", "but --label n holds numbers, which stay as they are"),
    ],
)
def test_labels_that_are_none(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, sentence: str
) -> None:
    monkeypatch.chdir(write_files(tmp_path, {name: text.encode() for name, text in _TABLES.items()}))
    format_, *flags = command.split(" ") if not command.endswith("  ") else [*command.split(" ")[:4], " "]

    result = run(format_, "--input", f"in.{format_}", *flags, "--output", "out", "--name", "n")

    check_mistake(result, sentence)
    assert not (tmp_path / "out").exists()


def test_a_row_of_a_class_that_is_none_is_a_reject(run: Run, tmp_path: Path) -> None:
    rows = ['["a", "b"]', '["c", "a", "d"]', "[]", '["b", null]', '[["a"]]', '"a"']
    write_files(
        tmp_path,
        {
            "in.jsonl": "".join(f'{{"id": {row}, "tags": {tags}}}\n' for row, tags in enumerate(rows)).encode(),
            "names.txt": b"b\na\n",
        },
    )
    flags = ("--label", "tags", "--labels_file", tmp_path / "names.txt", "--max_reject_fraction", 1)
    command = ("jsonl", "--input", tmp_path / "in.jsonl", *flags)

    made = make(run, tmp_path / "out", *command, "--on_new_label", "reject")

    assert labels(tmp_path / "out") == {0: [1, 0], 2: [], 5: [1]}
    assert made.rejects["reasons"]["class 'c' is not in --labels_file"] == 1
    assert made.rejects["records"] == 3
    appended = make(run, tmp_path / "more", *command, "--on_new_label", "append")
    assert appended.features[1].class_names == ("b", "a", "c", "d")


def test_a_class_without_a_name_is_a_reject(run: Run, tmp_path: Path) -> None:
    """It stopped the job, which said that it cannot be in a labels file."""
    rows = ['["a", ""]', '["b"]', "[]"]
    lines = [f'{{"id": {row}, "tags": {tags}}}\n' for row, tags in enumerate(rows)]
    write_files(tmp_path, {"in.jsonl": "".join(lines).encode()})
    flags = ("--label", "tags", "--max_reject_fraction", 1)

    manifest = make(run, tmp_path / "out", "jsonl", "--input", tmp_path / "in.jsonl", *flags)

    assert labels(tmp_path / "out") == {1: [1], 2: []}
    assert manifest.features[1].class_names == ("a", "b")
    assert manifest.rejects["reasons"] == {"a class without a name; expected names, or an empty list": 1}


@pytest.mark.parametrize("command", ["csv", "images"])
def test_classes_that_are_called_as_lists_are_said(run: Run, tmp_path: Path, command: str) -> None:
    """As pandas writes a column of lists."""
    write_files(tmp_path, {"1.png": image(1, "PNG"), "2.png": image(2, "PNG")})
    write_files(tmp_path, {"in.csv": b"file_name,label\n1.png,\"['a', 'b']\"\n2.png,b\n"})
    flags = ("--input", tmp_path / "in.csv", "--label", "label")

    manifest = make(run, tmp_path / "out", command, *(flags if command == "csv" else ("--manifest", flags[1])))

    (said,) = [notice for notice in manifest.notices if "list is written" in notice]
    assert said.startswith(
        "1 class of 'label' is called as a list is written, such as \"['a', 'b']\", and each is one class; rows of"
    )


def test_a_separator_that_is_nowhere_is_said(run: Run, tmp_path: Path) -> None:
    write_files(tmp_path, {"in.csv": b"id,tags\n1,a|b\n2,b\n"})
    flags = ("--label", "tags", "--label_separator", ";")

    made = make(run, tmp_path / "out", "csv", "--input", tmp_path / "in.csv", *flags)

    assert made.features[1].class_names == ("a|b", "b")
    assert "no row has several values of 'tags': is ';' the separator between them?" in made.notices


def test_labels_that_are_numbers_stay(run: Run, tmp_path: Path) -> None:
    write_files(tmp_path, {"in.csv": b"id,n,x,y\n1,3;3;1,0.5;2,0.25\n2,,1,8\n3,2,,-1\n"})
    command = ("csv", "--input", tmp_path / "in.csv")
    made = make(run, tmp_path / "n", *command, "--label", "n,y", "--label_separator", "n=;")
    make(run, tmp_path / "x", *command, "--label", "x", "--label_separator", ";")
    one = make(run, tmp_path / "one", *command, "--drop", "n,x", "--label", "y")

    assert made.features[1] == Feature("n", "int64", shape=(None,), role="label")
    assert made.features[3] == Feature("y", "float32", role="label")
    assert made.configuration["label_separator"] == {"n": ";"}
    assert labels(tmp_path / "n", "n") == {1: [3, 3, 1], 2: [], 3: [2]}
    assert labels(tmp_path / "x", "x") == {1: [0.5, 2], 2: [1], 3: []}
    assert one.features[1] == Feature("y", "float32", role="label")
    stats = json.loads((tmp_path / "one/n/1.0.0/stats.json").read_text())["splits"]["train"]["features"]["y"]
    assert (stats["min"], stats["max"]) == (-1, 8)
    assert not [*tmp_path.rglob("*.labels.txt")]
    page = run("report", tmp_path / "one/n/1.0.0", "--output", tmp_path / "page.html")
    assert page.status == 0, page.err


def test_several_labels(run: Run, tmp_path: Path) -> None:
    rows = "".join(f"{row},{'ab'[row % 2]},{'x;y' if row % 3 else 'x'},{row / 2}\n" for row in range(12))
    write_files(tmp_path, {"in.csv": f"id,kind,tags,score\n{rows}".encode()})
    flags = ("--label", "kind,score", "--drop", "tags")

    made = make(run, tmp_path / "flags", "csv", "--input", tmp_path / "in.csv", *flags)

    assert {feature.name: feature.role for feature in made.features} == {
        "id": "input",
        "kind": "label",
        "score": "label",
    }
    assert made.configuration["label"] == ["kind", "score"]
    features, targets = next(iter(shardmill.load(tmp_path / "flags/n", batch_size=12, shuffle=False)))
    assert targets["kind"].numpy().tolist() == [row % 2 for row in features.numpy()]
    assert targets["score"].numpy().tolist() == [row / 2 for row in features.numpy()]


def test_several_labels_keep_their_classes(run: Run, tmp_path: Path) -> None:
    write_files(tmp_path, {"in.csv": b"id,kind,tags\n1,b,y;z\n2,d,\n", "kinds": b"d\nb\n", "tags": b"z\ny\n"})
    frozen = f"kind={tmp_path / 'kinds'},tags={tmp_path / 'tags'}"
    flags = ("--label", "kind,tags", "--label_separator", "tags=;", "--labels_file", frozen)

    made = make(run, tmp_path / "out", "csv", "--input", tmp_path / "in.csv", *flags)

    assert [feature.class_names for feature in made.features[1:]] == [("d", "b"), ("z", "y")]
    assert made.configuration["labels"] == {"kind": ["d", "b"], "tags": ["z", "y"]}
