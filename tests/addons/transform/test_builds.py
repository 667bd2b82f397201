"""--transform, --materialize and --module_file of tables and of the columns of a manifest: from night to night, what
constants are taken of, and what TFT makes of the same examples."""

import json
import shutil
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

import shardmill
from shardmill.data.example import decode_example
from shardmill.metadata import file_names
from shardmill.metadata.tfds_metadata import ModuleSummary
from shardmill.pipelines import cli
from shardmill.pipelines.commands.convert import make_config, run_config
from shardmill.reading.dataset import open_dataset
from tests.support import houses
from tests.support.command import Run, image, write_files
from tests.support.houses import (
    FLAGS,
    TFT,
    analyzed,
    convert,
    differing,
    graph_bytes,
    graph_of,
    layer_of,
    outputs_of,
    parsed,
    serialized,
    transform_file,
    values_of,
    write_package,
    write_parts,
)

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
    train = list(map(decode_example, serialized(first, "train")))
    assert sorted(int(row["label"][0]) for row in train) == [0] * 40 + [1] * 40
    x = outputs_of(first)["x"].constants
    assert (x["values"], x["mean"]) == (80, pytest.approx(sum(float(row["x"][0]) for row in train) / 80))
    assert dataset.manifest.rejects["records"] == 3
    before, after = graph_bytes(first), graph_bytes(second)
    assert [name for name in before if before[name] != after[name]] == [file_names.TRANSFORM]
    assert outputs_of(second)["x"].drift["shift"] == pytest.approx(100 / x["std_dev"], rel=0.1)
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
    vocabulary = outputs_of(found[1])["word"].vocabulary
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


SPLITS = ("train", "test")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, houses: Path) -> Path:
    root = tmp_path_factory.mktemp("made")
    return convert(root, "csv", houses.parents[2] / "houses.csv", "--materialize", "--threads", "1")


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows of another format, in several files, blocks and threads."""
    root = tmp_path_factory.mktemp("others")
    return convert(root, "parquet", write_parts(root / "in"), "--materialize", "--threads", "3")


def written(directory: Path, split: str) -> dict[str, Any]:
    import tensorflow as tf

    found: dict[str, Any] = tf.io.parse_example(serialized(directory, split), shardmill.feature_spec(str(directory)))
    return found


@pytest.mark.parametrize("split", SPLITS)
def test_each_row_is_what_tfts_layer_and_the_model_alone_make_of_it(houses: Path, made: Path, split: str) -> None:
    import tensorflow as tf

    found, examples = written(made, split), parsed(houses, split)

    layer = layer_of(made)
    served = tf.saved_model.load(str(made / "transform_graph/transform_fn"))
    assert set(found) == set(layer(examples))
    assert differing(found, layer(examples)) == []
    assert differing(found, served.transform_fn(examples)) == []


def test_the_graph_is_that_of_raw_examples(houses: Path, made: Path) -> None:
    written, told = graph_bytes(houses), graph_bytes(made)
    assert {name: data for name, data in told.items() if name != file_names.TRANSFORM} == {
        name: data for name, data in written.items() if name != file_names.TRANSFORM
    }


def test_what_describes_the_data_set_is_of_transformed_examples(made: Path, run: Run) -> None:
    manifest = open_dataset(made).manifest
    features = {feature.name: feature for feature in manifest.features}
    stats = json.loads((made / file_names.STATS).read_bytes())["splits"]

    assert "id" not in features
    assert {name: features[name].shape for name in ("height", "text", "rooms_bucket")} == {
        "height": (),
        "text": (None,),
        "rooms_bucket": (4,),
    }
    assert features["label"].class_names == ("large", "small")
    assert stats["train"]["features"]["height"]["mean"] == pytest.approx(0, abs=1e-5)
    assert manifest.configuration["materialize"] is True
    assert run("verify", made).status == 0
    assert run("inspect", made, "--examples", "1").status == 0


def test_they_are_loaded_as_any_and_not_transformed_twice(made: Path) -> None:
    batch = next(iter(shardmill.load(made, "train", 8, features=["age", "rooms_bucket"])))
    assert batch[0]["rooms_bucket"].shape == (8, 4)

    with pytest.raises(shardmill.UserError, match="are transformed already, by --materialize"):
        shardmill.load(made, "train", 8, transform=True)


def test_it_needs_a_transform(tmp_path: Path, run: Run) -> None:
    (tmp_path / "rows.csv").write_text("a\n1\n")
    given = ("csv", "--input", tmp_path / "rows.csv", "--output", tmp_path / "out", "--name", "rows")

    result = run(*given, "--materialize")

    assert (result.status, "--materialize needs --transform" in result.err) == (2, True)


MODULE = Path(__file__).parents[2] / "support/preprocessing.py"
OUTPUTS = ["label", "height", "fare", "city", "text", "rooms", "rooms_scaled", "tokens"]


def convert_by_module(root: Path, command: str, source: Path, *flags: str) -> Path:
    return houses.convert(root, command, source, *flags, module=MODULE)


@pytest.fixture(scope="module")
def by_module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("made")
    pyarrow.csv.write_csv(houses.rows(), root / "houses.csv")
    return convert_by_module(root, "csv", root / "houses.csv", "--threads", "1")


def source_of(directory: Path) -> Path:
    return directory.parents[2] / "houses.csv"


def summary_of(directory: Path) -> ModuleSummary:
    module = transform_file(directory).module
    assert module is not None
    return module


def test_the_graph_is_that_of_tft_alone_on_the_training_split(by_module: Path, tmp_path: Path) -> None:
    from tests.support.preprocessing import preprocessing_fn

    alone, mine = analyzed(by_module, preprocessing_fn, tmp_path), graph_of(by_module)
    assert mine.vocabulary_by_name("city") == alone.vocabulary_by_name("city")
    assert mine.transformed_feature_spec() == alone.transformed_feature_spec()
    for split in ("train", "test"):
        raw = parsed(by_module, split)
        expected = alone.transform_features_layer()(raw)
        assert sorted(expected) == sorted(OUTPUTS)
        assert differing(expected, layer_of(by_module)(raw), 1e-5, 1e-5) == []


def test_examples_stay_as_they_are_and_the_version_says_what_was_found(
    by_module: Path, tmp_path: Path, run: Run
) -> None:
    plain = ("csv", "--input", source_of(by_module), "--output", tmp_path, "--name", "houses", *FLAGS, "--quiet")
    assert run(*plain).status == 0
    manifest = json.loads((by_module / file_names.MANIFEST).read_bytes())
    before = json.loads((tmp_path / "houses/1.0.0" / file_names.MANIFEST).read_bytes())

    assert manifest["splits"] == before["splits"]
    assert manifest["configuration"]["module_file"] == {
        "name": "preprocessing.py",
        "sha256": summary_of(by_module).sha256,
    }
    assert manifest["versions"]["tensorflow-transform"]
    assert any(summary_of(by_module).found in notice and "last digits" in notice for notice in manifest["notices"])
    assert transform_file(by_module).analyzed == {"train": len(serialized(by_module, "train"))}
    assert run("verify", by_module).status == 0

    lines = run("inspect", by_module).out
    assert "Transformed features, by preprocessing.py" in lines
    assert "transform_graph/transform_fn/assets/city: 4 lines: Rome, Oslo" in lines


LENGTHS = """\
import tensorflow as tf
import tensorflow_transform as tft


def preprocessing_fn(inputs):
    return {"share": tft.scale_to_0_1(tf.cast(tf.strings.length(inputs["text"]), tf.float32))}
"""


def test_the_module_travels_to_workers_with_what_it_defines_and_imports(by_module: Path, tmp_path: Path) -> None:
    houses.write_parts(tmp_path / "in")
    write_package(tmp_path / "models/custom.py")
    given = {"input": str(tmp_path / "in"), "output": str(tmp_path / "out"), "name": "houses"}
    flags = {"label": "label", "splits": "train=0.7,test=0.3", "key": "id"}
    kind, config = make_config("parquet", {**given, **flags, "module_file": tmp_path / "models/custom.py"})
    shutil.rmtree(tmp_path / "models")  # before the job begins, whose workers are processes that are started by it
    workers = ("--direct_running_mode", "multi_processing", "--direct_num_workers", "2")

    written = Path(run_config(kind.make_job, config, PipelineOptions(list(workers))).directory)

    texts = {split: [len(text) for text in parsed(by_module, split)["text"].numpy()] for split in ("train", "test")}
    shares = layer_of(written)(parsed(written, "test"))["share"].numpy()
    assert shares == pytest.approx([length / max(texts["train"]) for length in texts["test"]])
    recorded = json.loads((written / file_names.MANIFEST).read_bytes())["configuration"]["module_file"]["modules"]
    assert sorted(recorded) == ["analyzers/__init__.py", "analyzers/lengths.py"]


def test_lines_of_text(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("".join(f"{text}\n" for text in houses.rows()["text"].to_pylist()))
    (tmp_path / "lengths.py").write_text(LENGTHS)
    where = ("--input", str(tmp_path / "lines.txt"), "--output", str(tmp_path / "out"), "--name", "lines")
    assert cli.main(["text", *where, "--module_file", str(tmp_path / "lengths.py"), "--quiet"]) == 0
    directory = tmp_path / "out" / "lines" / "1.0.0"

    raw = parsed(directory, "train")

    lengths = np.array([len(text) for text in raw["text"].numpy()], float)
    share = layer_of(directory)(raw)["share"].numpy()
    assert share == pytest.approx((lengths - lengths.min()) / np.ptp(lengths), abs=1e-5)


def test_nothing_is_taken_of_other_splits_or_of_rejects(by_module: Path, tmp_path: Path) -> None:
    """Every value of another split is changed, which splits by --key do not see; a row is added that is rejected."""
    train = (
        {int(number) for number in parsed(by_module, "train")["id"].numpy()}
        if "id" in parsed(by_module, "train")
        else set()
    )
    table = houses.rows()
    mine = np.isin(table["id"].to_numpy(), list(train))
    assert 0 < mine.sum() < len(table)
    changed = pa.table(
        {
            name: column
            if name in ("id", "label")
            else pa.array(
                [value if kept else other(value) for value, kept in zip(column.to_pylist(), mine)], column.type
            )
            for name, column in zip(table.column_names, table.columns)
        }
    )
    pyarrow.csv.write_csv(changed, tmp_path / "houses.csv")
    with (tmp_path / "houses.csv").open("a") as file:
        file.write("1,2,too,many,fields,in,this,row,of,the,table,1\n")

    written = convert_by_module(tmp_path, "csv", tmp_path / "houses.csv", "--max_reject_fraction", "0.1")

    assert json.loads((written / file_names.MANIFEST).read_bytes())["rejects"]["records"] == 1
    assert summary_of(written).found == summary_of(by_module).found


def other(value: Any) -> Any:
    if value is None:
        return None
    return f"{value} elsewhere" if isinstance(value, str) else value + 1000


def test_analyze_splits_widens_it(by_module: Path, tmp_path: Path) -> None:
    written = convert_by_module(tmp_path, "csv", source_of(by_module), "--analyze_splits", "train,test")

    assert sum(transform_file(written).analyzed.values()) == houses.ROWS
    assert summary_of(written).found != summary_of(by_module).found


def test_a_dry_run_says_what_is_returned_and_found(tmp_path: Path, run: Run) -> None:
    table = houses.rows().append_column("large", pa.array([2**24 + 1.5] * houses.ROWS))
    pyarrow.csv.write_csv(table, tmp_path / "a.csv")
    given = ("csv", "--input", tmp_path / "a.csv", "--output", tmp_path / "out", "--name", "houses", *FLAGS)

    result = run(*given, "--module_file", MODULE, "--dry_run")

    assert result.status == 0
    told = {"Transform: preprocessing.py", "  rooms: float32 of the shape 4", "  tokens: lists of bytes"}
    assert told <= set(result.out.splitlines())
    assert f"NOTE: column 'large' is stored as float32, which changes {houses.ROWS:,} numbers" in result.out
    assert not (tmp_path / "out").exists()


def test_its_graph_is_not_taken_up_again(by_module: Path, run: Run, tmp_path: Path) -> None:
    given = ("csv", "--input", source_of(by_module), "--output", tmp_path / "out", "--name", "rows")
    result = run(*given, "--transform_graph", by_module)
    assert (result.status, "was made by --module_file, whose analysis cannot be used again" in result.err) == (2, True)


def test_a_recipe_builds_again_as_the_text_of_its_module_or_of_one_beside_it_changes(run: Run, tmp_path: Path) -> None:
    recipe = f"""
        name: rows
        output: {tmp_path}/out
        like: LATEST
        csv:
          input: {tmp_path}/in
          module_file: {tmp_path}/m.py
    """
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_text("a,b\n" + "".join(f"{row},{row % 7}\n" for row in range(50)))
    (tmp_path / "rows.yaml").write_text(textwrap.dedent(recipe))

    def night(text: str, **beside: str) -> list[str]:
        (tmp_path / "m.py").write_text(text)
        for name, content in beside.items():
            (tmp_path / f"{name}.py").write_text(content)
        assert run("rebuild", tmp_path / "rows.yaml").status == 0
        return sorted(path.name for path in (tmp_path / "out/rows").iterdir() if path.name[0].isdigit())

    text = TFT + " import names\n return {names.OUTPUT: tft.scale_to_z_score(inputs['a'])}"
    assert night(text, names="OUTPUT = 'a'") == ["1.0.0"]
    assert night(text, unused="x = 1") == ["1.0.0"]
    assert night(text, names="OUTPUT = 'b'") == ["1.0.0", "1.0.1"]
    assert night(TFT + " return {'a': tft.scale_to_0_1(inputs['a'])}") == ["1.0.0", "1.0.1", "1.0.2"]
    assert summary_of(tmp_path / "out/rows/1.0.0").found != summary_of(tmp_path / "out/rows/1.0.2").found


COLUMNS = """\
age: [{fill: 30}, z_score]
city: {vocabulary: {num_oov_buckets: 1}}
size:
  - {min_max: [0, 1], output: size_scaled}
  - {bucketize: {num_buckets: 3}, one_hot: true, output: size_bucket}
"""
IMAGES = 60
BROKEN = 7  # the number of an image that is cut, whose values are far from all others
MANIFEST_FLAGS = ("--max_reject_fraction", "0.1", "--num_shards", "train=3,test=2", "--quiet")


def manifest_rows(of_test: int = 0) -> list[dict[str, Any]]:
    """What the manifest says; of the other split, something else for each `of_test`."""
    found = []
    for number in range(IMAGES):
        split = "test" if number % 4 == 0 else "train"
        moved = of_test if split == "test" else 0
        row = {
            "file_name": f"{number:02}.png",
            "label": "ab"[number % 2],
            "split": split,
            "age": None if number % 5 == 0 else number + 1000 * moved,
            "city": ("Rome", "Oslo", "Rome", "Bern")[number % 4] + "!" * moved,
            "size": number * number / 8 - moved,
        }
        found.append(row | ({"age": 10**6, "city": "Atlantis", "size": -1e6} if number == BROKEN else {}))
    return found


def folder_of(root: Path, of_test: int = 0) -> Path:
    files = {f"{number:02}.png": image(number, "PNG", (8, 6)) for number in range(IMAGES)}
    files[f"{BROKEN:02}.png"] = files[f"{BROKEN:02}.png"][:40]
    write_files(root, files)
    (root / "all.jsonl").write_text("".join(json.dumps(row) + "\n" for row in manifest_rows(of_test)))
    (root / "t.yaml").write_text(COLUMNS)
    return root


def build(root: Path, name: str, *flags: str) -> Path:
    given = (
        "--manifest",
        str(root / "all.jsonl"),
        "--output",
        str(root / "out"),
        "--name",
        name,
        *MANIFEST_FLAGS,
        *flags,
    )
    assert cli.main(["images", *given, "--transform", str(root / "t.yaml")]) == 0
    return root / "out" / name / "1.0.0"


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(folder_of(tmp_path_factory.mktemp("made")), "made", "--threads", "1")


def test_constants_are_of_the_training_rows_whose_images_are_good(listed: Path) -> None:
    train = [row for number, row in enumerate(manifest_rows()) if row["split"] == "train" and number != BROKEN]
    ages = np.array([30 if row["age"] is None else row["age"] for row in train], float)
    sizes = [row["size"] for row in train]
    found = outputs_of(listed)

    assert found["age"].constants["mean"] == pytest.approx(ages.mean())
    assert found["age"].constants["std_dev"] == pytest.approx(ages.std())
    assert found["size_scaled"].constants == {"minimum": min(sizes), "maximum": max(sizes), "values": len(train)}
    city = found["city"].vocabulary
    assert city
    assert dict(city.head) == {name: sum(row["city"] == name for row in train) for name in ("Rome", "Oslo", "Bern")}
    assert city.unknown["train"] == (len(train), 0)


def test_tft_applies_the_graph_to_the_examples(listed: Path) -> None:
    raw = parsed(listed, "test")
    found = layer_of(listed)(raw)

    age = outputs_of(listed)["age"].constants
    named = [name.decode() for name in raw["filename"].numpy()]
    ages = [row["age"] or 30 for row in (manifest_rows()[int(name[:2])] for name in named)]
    assert found["age"].numpy() == pytest.approx([(value - age["mean"]) / age["std_dev"] for value in ages], abs=1e-5)
    assert found["image"].numpy().tolist() == raw["image"].numpy().tolist()
    assert {len(row) for row in values_of(found["size_bucket"])} == {3}


def test_load_decodes_images_beside_transformed_columns(listed: Path) -> None:
    inputs, labels = next(iter(shardmill.load(listed, "train", 8, transform=True, seed=1)))

    assert inputs["image"].shape == (8, 6, 8, 3)
    assert inputs["size_bucket"].shape == (8, 3)
    assert labels.shape == (8,)


def test_examples_are_those_without_it_and_bytes_those_of_any_threads(listed: Path, run: Run) -> None:
    root = listed.parents[2]
    plain = ("--manifest", root / "all.jsonl", "--output", root / "out", "--name", "plain", *MANIFEST_FLAGS)
    assert run("images", *plain).status == 0
    again = build(root, "again", "--threads", "3")

    records = [serialized(one, split) for one in (listed, root / "out/plain/1.0.0") for split in ("train", "test")]
    assert records[:2] == records[2:]
    assert len(records[0]) == len([row for row in manifest_rows() if row["split"] == "train"]) - 1
    assert graph_bytes(again) == graph_bytes(listed)


def test_a_second_build_that_reads_no_file_finds_the_same(listed: Path, run: Run) -> None:
    root = listed.parents[2]
    first = build(root, "nights", "--reuse", "record")
    given = ("--manifest", root / "all.jsonl", "--output", root / "out", "--name", "nights", *MANIFEST_FLAGS)
    again = ("--version", "1.0.1", "--reuse", "LATEST", "--transform", root / "t.yaml")
    assert run("images", *given, *again).status == 0
    second = first.parent / "1.0.1"

    record = json.loads(next((first.parent / "builds").glob("1.0.1*")).read_bytes())
    assert (record["reused"], record["read"]) == (IMAGES, 0)
    assert graph_bytes(second) == graph_bytes(first)


def test_constants_of_what_is_no_column_are_one_sentence(run: Run, tmp_path: Path) -> None:
    sentence = "t.yaml line 1: feature 'height': constants are taken of the columns of the manifest"
    folder_of(tmp_path)
    (tmp_path / "t.yaml").write_text("height: z_score")
    given = ("--manifest", tmp_path / "all.jsonl", "--output", tmp_path / "out", "--name", "n", *MANIFEST_FLAGS)

    result = run("images", *given, "--transform", tmp_path / "t.yaml")

    assert (result.status, sentence in result.err) == (2, True), result.err
    assert not list((tmp_path / "out").rglob("*.tfrecord*"))


def test_it_needs_a_manifest_and_a_dry_run_says_what_was_understood(run: Run, tmp_path: Path) -> None:
    folder_of(tmp_path)
    transform = ("--transform", tmp_path / "t.yaml", "--output", tmp_path / "out", "--name", "n")

    folder = run("images", "--input", tmp_path, *transform)
    dry = run("images", "--manifest", tmp_path / "all.jsonl", *transform, "--dry_run")

    assert (folder.status, "--transform is about the columns of a --manifest" in folder.err) == (2, True)
    assert dry.status == 0
    assert "  age: age | fill(value=30) | z_score -> float32" in dry.out.splitlines()
    assert not (tmp_path / "out").exists()
