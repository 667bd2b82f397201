"""Labels: files that are named after them, lists of classes, several and numbers, and columns that tell the label."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import shardmill
from shardmill.data.features import Feature
from shardmill.errors import UserError
from shardmill.metadata.labels import check_label_name
from tests.end_to_end.convert.test_duplicates import OF_NUMBER
from tests.support.command import Run, image
from tests.support.jobs import Files, Jobs
from tests.support.table_results import encode_rows

TAGS = [["red", "green"], [], ["blue", "red", "blue"], ["green"]] + [["red"]] * 6
KEPT = [["red", "green"], [], ["blue", "red"], ["green"]] + [["red"]] * 6
CLASSES = ("blue", "green", "red")
SAID = (
    "a class of 'tags' is named again in its row once, and counts once there",
    "1 example has no class of 'tags': an empty list, of an empty or a missing value",
)


def tagged(form: str) -> tuple[str, Files]:
    """The command line, and the input, in a form in which people have such rows."""
    if form == "csv":
        rows: list[dict[str, Any]] = [{"id": number, "tags": " ; ".join(tags)} for number, tags in enumerate(TAGS)]
        return "csv --label tags --label_separator ;", {"in.csv": encode_rows("csv", rows)}
    rows = [{"id": number, "tags": tags or None} for number, tags in enumerate(TAGS)]
    return f"{form} --label tags", {f"in.{form}": encode_rows(form, rows)}


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_lists_of_classes(run: Run, jobs: Jobs, form: str) -> None:
    line, files = tagged(form)
    made = jobs.build(line, files=files)

    tags = Feature("tags", "int64", "class_label", (None,), class_names=CLASSES, role="label")
    assert made.manifest.features[1] == tags
    assert {one["id"]: one["tags"].tolist() for one in made.examples()} == {
        row: [CLASSES.index(tag) for tag in tags] for row, tags in enumerate(KEPT)
    }
    assert set(SAID) <= set(made.notices)
    assert (made.directory / "tags.labels.txt").read_text() == "blue\ngreen\nred\n"
    stats = made.stats["tags"]
    assert stats["classes"] == {"blue": 1, "green": 2, "red": 8}
    assert (stats["count"], stats["values_per_example"]["min"], stats["values_per_example"]["max"]) == (10, 0, 2)
    assert run("verify", made.directory).status == 0


@pytest.mark.slow
def test_readers_take_lists_of_classes(jobs: Jobs) -> None:
    import tensorflow as tf
    import tensorflow_datasets as tfds

    line, files = tagged("jsonl")
    version = jobs.build(line, files=files).directory

    builder = tfds.builder_from_directory(version)
    assert builder.info.features["tags"].feature.names == list(CLASSES)
    for example in tfds.as_numpy(builder.as_dataset(split="train")):
        assert example["tags"].tolist() == [CLASSES.index(tag) for tag in KEPT[int(example["id"])]]
    for options in ({"batch_size": 4}, {"batch_size": 4, "augment": lambda features: features}):
        batches = list(shardmill.load(version, multi_hot=True, shuffle=False, **options))
        ids = np.concatenate([batch[0] for batch in batches]).tolist()
        hot = np.concatenate([batch[1] for batch in batches])
        assert batches[0][1].dtype == tf.float32
        assert hot.tolist() == [[float(name in KEPT[row]) for name in CLASSES] for row in ids]
    ragged = next(iter(shardmill.load(version, batch_size=10, shuffle=False)))[1]
    assert isinstance(ragged, tf.RaggedTensor)
    padded = next(iter(shardmill.load(version, batch_size=10, shuffle=False, pad=True)))[1]
    assert padded.numpy().min() == -1
    with pytest.raises(shardmill.UserError, match="multi_hot is for lists of classes, and none of what is read is one"):
        shardmill.load(version, features=["id"], supervised=False, multi_hot=True)


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
    """Such a class once stopped the job, for it cannot be in a labels file."""
    lines = [f'{{"id": {row}, "tags": {tags}}}\n' for row, tags in enumerate(['["a", ""]', '["b"]', "[]"])]
    made = jobs.build("jsonl --label tags --max_reject_fraction 1", files={"in.jsonl": "".join(lines)})
    assert {one["id"]: one["tags"].tolist() for one in made.examples()} == {1: [1], 2: []}
    assert made.manifest.features[1].class_names == ("a", "b")
    assert made.reasons == {"in.jsonl:1": "a class without a name; expected names, or an empty list"}


@pytest.mark.parametrize("line", ["csv --label label", "images --manifest in/in.csv"])
def test_classes_that_are_called_as_lists_are_said(jobs: Jobs, line: str) -> None:
    """Pandas writes a column of lists so."""
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


SKIES = ("clear haze", "clear", "haze road", "road", "clear  haze   road", "haze", "cloudy")


@pytest.mark.parametrize("line", ["jsonl --label tags", "images --manifest in/t.jsonl --label_column tags"])
def test_words_that_spaces_separate_are_noticed_and_read(jobs: Jobs, line: str) -> None:
    rows = encode_rows("jsonl", [{"file_name": f"{row}.png", "tags": tags} for row, tags in enumerate(SKIES)])
    pictures = {f"{n}.png": image(n) for n in range(7)} if "images" in line else {}
    joined = jobs.build(line, files={"t.jsonl": rows, **pictures})
    (notice,) = (notice for notice in joined.notices if "join the words of others" in notice)
    assert "3 classes" in notice

    flag = notice.partition(": ")[2].partition(" makes")[0]
    made = jobs.build(f"{line} {flag} --overwrite")
    (label,) = (feature for feature in made.manifest.features if feature.role == "label")
    assert label.class_names == ("clear", "cloudy", "haze", "road")
    lists = sorted(sorted(label.class_names[each] for each in one[label.name].tolist()) for one in made.examples())
    assert lists == sorted(sorted(tags.split()) for tags in SKIES)


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


@pytest.mark.slow
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


UP = "../../../../victim"  # from out/n/1.0.0 to a file of the test's folder
NAMES = (UP, "/etc/x", "a//b", "a/../b", ".", "..", "a\\b", "a\x1b[2Jb", "a\nb", "ä" * 124)
NAMED = {"reshard": " --labels_file in/names --input in/a.reshard"}


@pytest.mark.parametrize("route", ["csv", "reshard", "schema"])
@pytest.mark.parametrize("name", [UP, "image/class/label"])
def test_a_label_whose_name_is_a_path_or_as_tensorflow_calls_it(run: Run, jobs: Jobs, route: str, name: str) -> None:
    """On the route "schema" yesterday's has the name."""
    command = route.replace("schema", "csv")
    values = (0, 1) if route == "reshard" else ("ant", "bee")
    files = {f"a.{command}": encode_rows(command, [{"n": n, name: value} for n, value in enumerate(values)])}
    line = f"{command} --label {name}{NAMED.get(command, '')}"
    jobs.write({**files, "names": "ant\nbee\n", "../victim.labels.txt": "mine"})
    if route == "schema":
        jobs.build("csv --input in/b.csv --label kind --name old", files={"b.csv": "n,kind\n1,ant\n2,bee\n"})
        schema = Path("out/old/1.0.0/schema.pbtxt").read_text().replace('"kind"', f'"{name}"')
        line = f"{line} --input in/a.csv --schema s --labels_file in/names"
        jobs.write({"../s": schema})
    if name == UP:
        jobs.refuse(line, "--label…named after it, and this is no valid file name; rename the column")
        return
    made = jobs.build(line)
    assert (made.directory / "image.class.label.labels.txt").read_text() == "ant\nbee\n"
    assert shardmill.info(made.directory).features[name].class_names == ("ant", "bee")
    assert sorted(int(example[name]) for example in made.examples()) == [0, 1]
    assert run("verify", made.directory).status == 0


def test_two_labels_of_one_file_are_refused(jobs: Jobs) -> None:
    sentence = "'a/b' and 'a.b' would have the names of their classes in one file, a.b.labels.txt; --rename"
    jobs.refuse("csv --label a/b,a.b", sentence, files={"in.csv": "a/b,a.b\nant,x\nbee,y\n"})
    jobs.build("csv --label a/b,a.b --rename a/b=c")


@pytest.mark.parametrize("name", NAMES, ids=range(len(NAMES)))
def test_names_that_are_no_file_s(name: str) -> None:
    with pytest.raises(UserError, match="named after it, and this is no valid file name; rename the column") as raised:
        check_label_name(name)
    assert str(raised.value).isprintable()


def test_a_label_whose_name_is_odd_but_a_file_s(jobs: Jobs) -> None:
    name = "..größe [x] 日本"
    made = jobs.build("csv", "--label", name, files={"in.csv": f"n,{name}\n1,ant\n2,bee\n"})
    assert (made.directory / f"{name}.labels.txt").read_text() == "ant\nbee\n"


def test_a_label_of_numbers_has_no_file(jobs: Jobs) -> None:
    jobs.build("csv --label a/b", files={"in.csv": "n,a/b\n1,3\n2,4\n"})


# `w` is the label as text, and `id` as a number; x tells nothing
ROWS: list[dict[str, Any]] = [{"id": n, "x": n * 7919 % 11, "w": ("no", "yes")[n % 3 == 0]} for n in range(120)]
LABELLED = [{**row, "id": int(row["w"] == "yes")} for row in ROWS]
FILES = {f"a.{name}": encode_rows(name, LABELLED) for name in ("csv", "reshard")}
SPLITS = "--splits train=0.7,test=0.3"


def told(run: Run) -> dict[str, str]:
    """The severity of each feature that is held against the label, where that is what the page says of it, too."""
    reported = json.loads(run("report", "out/n", "--json").out)
    checks = [check for check in reported["verdict"]["checks"] if check["check"] == "label_leakage"]
    severities = {check["feature"]: check["severity"] for check in checks}
    for feature in reported["features"]:
        said = [alert for alert in feature["alerts"] if "label" in alert]
        expected = ["looks like the label: reduces errors in predicting it by 100.0% in train"]
        assert said == (expected if severities.get(feature["name"]) == "warn" else [])
    return severities


@pytest.mark.parametrize(
    ("line", "leak"),
    [
        ("csv --input in/a.csv --label w", "id"),
        # of numbers, which have no class names: 0 and 1, as a click is
        ("csv --input in/a.csv --label id", "w"),
        ("reshard --input in/a.reshard --label id --labels_file in/names.txt", "w"),
        ("reshard --input in/a.reshard --label w", "id"),
    ],
)
def test_each_format_names_it(line: str, leak: str, run: Run, jobs: Jobs) -> None:
    jobs.build(f"{line} {SPLITS}", files={**FILES, "names.txt": "no\nyes\n"})
    assert told(run) == {leak: "warn", "x": "ok"}


@pytest.mark.parametrize(
    ("name", "suffix", "rename"),
    [("images", "jpg", ""), ("arrays", "npy", "--rename code=meta/code"), ("audio", "wav", "")],
)
def test_manifests_columns_are_counted(name: str, suffix: str, rename: str, run: Run, jobs: Jobs) -> None:
    """`code` is the label; `x` and the lists tell nothing; `note` is missing in nearly all."""
    lines = [
        {
            "file_name": f"{n % 12}.{suffix}",
            "label": row["w"],
            "code": ["a", "b"][row["w"] == "yes"],
            "x": row["x"] / 2,
            "pair": [row["x"], n],
            "any": list(range(n % 3)),
            **({"note": True} if n == 5 else {}),
        }
        for n, row in enumerate(ROWS)
    ]
    lines.append({**lines[0], "file_name": f"missing.{suffix}", "x": 1e6})
    files = {f"{n}.{suffix}": OF_NUMBER[suffix](n) for n in range(12)}
    text = "".join(f"{json.dumps(line)}\n" for line in lines)
    flags = f"--manifest in/m.jsonl --max_reject_fraction 0.1 --group_by x {SPLITS} {rename}"
    made = jobs.build(f"{name} {flags}", files={**files, "m.jsonl": text})

    code = "meta/code" if rename else "code"
    assert told(run) == {code: "warn", "x": "ok", "note": "ok"}
    features = [split["features"] for split in made.json("stats.json")["splits"].values()]
    assert sum(found["x"]["count"] for found in features) == len(ROWS)  # and not what was rejected
    assert max(found["x"]["max"] for found in features) == 5.0
    assert sum(found["note"]["missing"] for found in features) == len(ROWS) - 1
    assert {found["pair"]["values_per_example"]["min"] for found in features} == {2}
    assert {found["any"]["values_per_example"]["max"] for found in features} == {2}
    assert "values_per_example" not in features[0]["x"]
    assert {value["value"] for found in features for value in found[code]["top_values"]} == {"a", "b"}
    assert "looks like the label" in (made.directory.parent / "builds/1.0.0.html").read_text()
