"""--module_file through the command line: TFT analyzes what was staged, and finds what it finds of the same examples
alone."""

import json
import shutil
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from apache_beam.options.pipeline_options import PipelineOptions

import shardmill
from shardmill.metadata import file_names
from shardmill.metadata.tfds_metadata import ModuleSummary, TransformFile
from shardmill.pipelines import cli
from shardmill.pipelines.api import make_config, run_config
from tests.support import houses
from tests.support.command import Run
from tests.support.houses import FLAGS, TFT, parsed, serialized, values_of, write_package

pytestmark = pytest.mark.slow

MODULE = Path(__file__).parents[1] / "support/preprocessing.py"
OUTPUTS = ["label", "height", "fare", "city", "text", "rooms", "rooms_scaled", "tokens"]


def convert(root: Path, command: str, source: Path, *flags: str, module: Path = MODULE) -> Path:
    given = [command, "--input", str(source), "--output", str(root / "out"), "--name", "houses", *FLAGS, *flags]
    assert cli.main([*given, "--module_file", str(module), "--quiet"]) == 0
    return root / "out" / "houses" / "1.0.0"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("made")
    pyarrow.csv.write_csv(houses.rows(), root / "houses.csv")
    return convert(root, "csv", root / "houses.csv", "--threads", "1")


def source_of(directory: Path) -> Path:
    return directory.parents[2] / "houses.csv"


def layer_of(directory: Path) -> Any:
    import tensorflow_transform as tft

    return tft.TFTransformOutput(str(directory / file_names.TRANSFORM_GRAPH)).transform_features_layer()


def told(directory: Path) -> TransformFile:
    return TransformFile.from_json((directory / file_names.TRANSFORM).read_bytes(), file_names.TRANSFORM)


def module_of(directory: Path) -> ModuleSummary:
    module = told(directory).module
    assert module is not None
    return module


def differing(one: Mapping[str, Any], other: Mapping[str, Any], tolerance: float = 1e-6) -> list[str]:
    """The outputs of which a row differs."""
    found = []
    for name in one:
        mine, its = ([np.ravel(row) for row in values_of(value[name])] for value in (one, other))
        if [len(row) for row in mine] != [len(row) for row in its]:
            found.append(name)
            continue
        left, right = np.hstack(mine), np.hstack(its)
        if not (left == right).all() and not np.allclose(left.astype(float), right.astype(float), tolerance, tolerance):
            found.append(name)
    return found


def test_the_graph_is_that_of_tft_alone_on_the_training_split(made: Path, tmp_path: Path) -> None:
    import apache_beam as beam
    import tensorflow_transform as tft
    import tensorflow_transform.beam as tft_beam
    from tensorflow_transform.tf_metadata import schema_utils
    from tfx_bsl.public import tfxio

    from tests.support.preprocessing import preprocessing_fn

    spec = tft.TFTransformOutput(str(made / file_names.TRANSFORM_GRAPH)).raw_feature_spec()
    source = tfxio.TFExampleBeamRecord("records", schema=schema_utils.schema_from_feature_spec(spec))
    with tft_beam.Context(temp_dir=str(tmp_path / "tmp")), beam.Pipeline() as pipeline:
        batches = pipeline | beam.Create(serialized(made, "train")) | source.BeamSource()
        _ = (
            (batches, source.TensorAdapterConfig())
            | tft_beam.AnalyzeDataset(preprocessing_fn)
            | tft_beam.WriteTransformFn(str(tmp_path / "graph"))
        )

    alone = tft.TFTransformOutput(str(tmp_path / "graph"))
    mine = tft.TFTransformOutput(str(made / file_names.TRANSFORM_GRAPH))
    assert mine.vocabulary_by_name("city") == alone.vocabulary_by_name("city")
    assert mine.transformed_feature_spec() == alone.transformed_feature_spec()
    for split in ("train", "test"):
        raw = parsed(made, split)
        expected = alone.transform_features_layer()(raw)
        assert sorted(expected) == sorted(OUTPUTS)
        assert differing(expected, layer_of(made)(raw), 1e-5) == []


def test_examples_stay_as_they_are_and_the_version_says_what_was_found(made: Path, tmp_path: Path, run: Run) -> None:
    plain = ("csv", "--input", source_of(made), "--output", tmp_path, "--name", "houses", *FLAGS, "--quiet")
    assert run(*plain).status == 0
    manifest = json.loads((made / file_names.MANIFEST).read_bytes())
    before = json.loads((tmp_path / "houses/1.0.0" / file_names.MANIFEST).read_bytes())

    assert manifest["splits"] == before["splits"]
    assert manifest["configuration"]["module_file"] == {
        "name": "preprocessing.py",
        "sha256": module_of(made).sha256,
    }
    assert manifest["versions"]["tensorflow-transform"]
    assert any(module_of(made).found in notice and "last digits" in notice for notice in manifest["notices"])
    assert told(made).analyzed == {"train": len(serialized(made, "train"))}
    assert run("verify", made).status == 0

    lines = run("inspect", made).out
    assert "Transformed features, by preprocessing.py" in lines
    assert "transform_graph/transform_fn/assets/city: 4 lines: Rome, Oslo" in lines


def test_load_applies_the_graph(made: Path) -> None:
    import tensorflow as tf

    raw = parsed(made, "test")
    expected = layer_of(made)(raw)
    inputs, labels = next(iter(shardmill.load(made, "test", len(raw["label"]), shuffle=False, transform=True)))

    assert sorted(inputs) == sorted(set(OUTPUTS) - {"label"})
    assert differing({**inputs, "label": labels}, expected) == []
    assert isinstance(inputs["text"], tf.RaggedTensor)
    assert isinstance(inputs["tokens"], tf.RaggedTensor)


def test_materialized_examples_are_what_the_graph_makes_of_raw_ones(made: Path, tmp_path: Path, run: Run) -> None:
    import tensorflow as tf

    written = convert(tmp_path, "csv", source_of(made), "--materialize")
    spec = shardmill.feature_spec(str(written))

    for split in ("train", "test"):
        found = tf.io.parse_example(serialized(written, split), spec)
        assert sorted(found) == sorted(OUTPUTS)
        assert differing(found, layer_of(written)(parsed_as(written, made, split))) == []
    assert module_of(written).found == module_of(made).found
    assert run("verify", written).status == 0


def parsed_as(graph: Path, raw: Path, split: str) -> Any:
    """The raw examples of one version as the graph of another takes them."""
    import tensorflow as tf
    import tensorflow_transform as tft

    spec = tft.TFTransformOutput(str(graph / file_names.TRANSFORM_GRAPH)).raw_feature_spec()
    return tf.io.parse_example(serialized(raw, split), spec)


LENGTHS = """\
import tensorflow as tf
import tensorflow_transform as tft


def preprocessing_fn(inputs):
    return {"share": tft.scale_to_0_1(tf.cast(tf.strings.length(inputs["text"]), tf.float32))}
"""


def test_the_module_travels_to_workers_with_what_it_defines_and_imports(made: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for part in range(3):
        pq.write_table(houses.rows().slice(part * 150, 150), tmp_path / "in" / f"{2 - part}.parquet", row_group_size=40)
    write_package(tmp_path / "models/custom.py")
    given = {"input": str(tmp_path / "in"), "output": str(tmp_path / "out"), "name": "houses"}
    flags = {"label": "label", "splits": "train=0.7,test=0.3", "key": "id"}
    kind, config = make_config("parquet", {**given, **flags, "module_file": tmp_path / "models/custom.py"})
    shutil.rmtree(tmp_path / "models")  # before the job begins, whose workers are processes that are started by it
    workers = ("--direct_running_mode", "multi_processing", "--direct_num_workers", "2")

    written = Path(run_config(kind, config, PipelineOptions(list(workers))).directory)

    texts = {split: [len(text) for text in parsed(made, split)["text"].numpy()] for split in ("train", "test")}
    shares = layer_of(written)(parsed(written, "test"))["share"].numpy()
    assert shares == pytest.approx([length / max(texts["train"]) for length in texts["test"]])
    recorded = json.loads((written / file_names.MANIFEST).read_bytes())["configuration"]["module_file"]["modules"]
    assert sorted(recorded) == ["analyzers/__init__.py", "analyzers/lengths.py"]


@pytest.mark.parametrize("command", ["jsonl", "avro"])
def test_other_formats_give_what_a_csv_gives(made: Path, tmp_path: Path, command: str) -> None:
    rows = houses.rows().to_pylist()
    if command == "jsonl":
        (tmp_path / "houses.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        types = {pa.int64(): "long", pa.float64(): "double", pa.string(): "string"}
        fields = [{"name": field.name, "type": ["null", types[field.type]]} for field in houses.rows().schema]
        with (tmp_path / "houses.avro").open("wb") as file:
            fastavro.writer(file, {"type": "record", "name": "house", "fields": fields}, rows)

    written = convert(tmp_path, command, tmp_path / f"houses.{command}")

    for split in ("train", "test"):
        raw = parsed(made, split)
        assert houses.examples(written, split) == houses.examples(made, split)
        assert differing(layer_of(made)(raw), layer_of(written)(raw), 1e-5) == []


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


def test_nothing_is_taken_of_other_splits_or_of_rejects(made: Path, tmp_path: Path) -> None:
    """Every value of another split is changed, which splits by --key do not see; a row is added that is rejected."""
    train = {int(number) for number in parsed(made, "train")["id"].numpy()} if "id" in parsed(made, "train") else set()
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

    written = convert(tmp_path, "csv", tmp_path / "houses.csv", "--max_reject_fraction", "0.1")

    assert json.loads((written / file_names.MANIFEST).read_bytes())["rejects"]["records"] == 1
    assert module_of(written).found == module_of(made).found


def other(value: Any) -> Any:
    if value is None:
        return None
    return f"{value} elsewhere" if isinstance(value, str) else value + 1000


def test_analyze_splits_widens_it(made: Path, tmp_path: Path) -> None:
    written = convert(tmp_path, "csv", source_of(made), "--analyze_splits", "train,test")

    assert sum(told(written).analyzed.values()) == houses.ROWS
    assert module_of(written).found != module_of(made).found


def test_a_dry_run_says_what_is_returned(made: Path, tmp_path: Path, run: Run) -> None:
    given = ("csv", "--input", source_of(made), "--output", tmp_path / "out", "--name", "houses", *FLAGS)

    result = run(*given, "--module_file", MODULE, "--dry_run")

    assert result.status == 0
    lines = result.out.splitlines()
    assert "Transform: preprocessing.py" in lines
    assert "  rooms: float32 of the shape 4" in lines
    assert "  tokens: lists of bytes" in lines
    assert not (tmp_path / "out").exists()


def test_its_graph_is_not_taken_up_again(made: Path, run: Run, tmp_path: Path) -> None:
    given = ("csv", "--input", source_of(made), "--output", tmp_path / "out", "--name", "rows")
    result = run(*given, "--transform_graph", made)
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
    assert module_of(tmp_path / "out/rows/1.0.0").found != module_of(tmp_path / "out/rows/1.0.2").found
