"""--transform from night to night, and what its constants are taken of: nothing of another split, nothing that was
rejected."""

import json
from pathlib import Path

import pytest

from shardmill.data.example import decode_example
from shardmill.metadata import file_names
from shardmill.metadata.tfds_metadata import TransformedOutput, TransformFile
from shardmill.reading.dataset import open_dataset
from tests.support.command import Run
from tests.support.houses import graph_bytes

pytestmark = pytest.mark.slow

RECIPE = """\
name: houses
output: {root}/out
csv:
  input: {root}/in
  label: label
  splits: train=0.8,test=0.2
  stratify_by: label
  max_reject_fraction: 0.2
  transform:
    x: z_score
    word: {{vocabulary: {{num_oov_buckets: 1}}}}
like: LATEST
checks: {{numeric_drift: warn}}
"""


def table(shift: float = 0, bad: int = 0, word: str = "w") -> str:
    lines = [f"{row % 17 + shift:.1f},{word}{row % 5},{row % 2}" for row in range(100)] + ["1.5,w9,0,more"] * bad
    return "x,word,label\n" + "".join(f"{line}\n" for line in lines)


def outputs(directory: Path) -> dict[str, TransformedOutput]:
    told = TransformFile.from_json((directory / file_names.TRANSFORM).read_bytes(), file_names.TRANSFORM)
    return {output.name: output for output in told.outputs}


def test_a_recipe_takes_constants_of_its_strata_and_keeps_them_the_next_night(tmp_path: Path, run: Run) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "houses.yaml").write_text(RECIPE.format(root=tmp_path))
    (tmp_path / "in/a.csv").write_text(table(bad=3))
    assert run("rebuild", tmp_path / "houses.yaml").status == 0
    (tmp_path / "in/a.csv").write_text(table(shift=100))
    result = run("rebuild", tmp_path / "houses.yaml")

    assert result.status == 0
    first, second = sorted(path for path in (tmp_path / "out/houses").iterdir() if path.name[0].isdigit())
    dataset = open_dataset(first)
    train = [
        decode_example(record) for shard in dataset.manifest.split("train").shards for record in dataset.records(shard)
    ]
    assert sorted(int(row["label"][0]) for row in train) == [0] * 40 + [1] * 40
    x = outputs(first)["x"].constants
    assert (x["values"], x["mean"]) == (80, pytest.approx(sum(float(row["x"][0]) for row in train) / 80))
    assert dataset.manifest.rejects["records"] == 3
    before, after = graph_bytes(first), graph_bytes(second)
    assert [name for name in before if before[name] != after[name]] == [file_names.TRANSFORM]
    assert outputs(second)["x"].drift["shift"] == pytest.approx(100 / x["std_dev"], rel=0.1)
    assert any("standard deviations above" in notice for notice in open_dataset(second).manifest.notices)


def test_no_value_of_another_split_changes_what_is_found(tmp_path: Path, run: Run) -> None:
    transform = tmp_path / "t.yaml"
    transform.write_text(
        "x: [{z_score: true, output: z}, {min_max: [0, 1], output: s}, {bucketize: {num_buckets: 4}, output: b}]\n"
        "word: vocabulary\n"
    )
    found = []
    for number, test in enumerate((table(), table(shift=1e6, word="other"))):
        for split, text in (("train", table()), ("test", test)):
            path = tmp_path / f"in{number}" / split / "a.csv"
            path.parent.mkdir(parents=True)
            path.write_text(text)
        given = ("--input", tmp_path / f"in{number}", "--output", tmp_path / "out", "--name", f"n{number}")
        assert run("csv", *given, "--transform", transform, "--quiet").status == 0
        found.append(tmp_path / "out" / f"n{number}" / "1.0.0")

    one, other = map(graph_bytes, found)
    assert [name for name in one if one[name] != other[name]] == [file_names.TRANSFORM]
    mine, its = (json.loads(files[file_names.TRANSFORM]) for files in (one, other))
    for told in (mine, its):
        for output in told["outputs"]:
            output.get("vocabulary", {}).pop("unknown", None)  # which is of every split
    assert mine == its
    vocabulary = outputs(found[1])["word"].vocabulary
    assert vocabulary is not None
    assert vocabulary.unknown == {"test": (100, 100), "train": (100, 0)}


def test_a_version_without_a_graph_in_the_place_of_one_leaves_no_folder_of_it(tmp_path: Path, run: Run) -> None:
    (tmp_path / "a.csv").write_text(table())
    (tmp_path / "t.yaml").write_text("x: log1p\n")
    given = ("csv", "--input", tmp_path / "a.csv", "--output", tmp_path / "out", "--name", "n", "--quiet")
    assert run(*given, "--transform", tmp_path / "t.yaml").status == 0
    assert (tmp_path / "out/n/1.0.0" / file_names.TRANSFORM_GRAPH).is_dir()

    assert run(*given, "--overwrite").status == 0

    assert not (tmp_path / "out/n/1.0.0" / file_names.TRANSFORM_GRAPH).exists()
