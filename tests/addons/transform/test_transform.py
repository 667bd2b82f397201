"""--transform through the command line: TensorFlow Transform reads the graph, whose results are those of its own
analyzers."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

import shardmill
from shardmill.metadata import file_names
from shardmill.pipelines import cli
from tests.support import houses as house_jobs
from tests.support.command import Run

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows of another format, in several files and threads."""
    root = tmp_path_factory.mktemp("others")
    return house_jobs.convert(root, "parquet", house_jobs.write_parts(root / "in"), "--threads", "3")


def tft_own(directory: Path, out: Path) -> Any:
    """What TFT's analyzers make of the training split, as a layer."""
    import tensorflow as tf
    import tensorflow_transform as tft

    def preprocessing_fn(inputs: dict[str, Any]) -> dict[str, Any]:
        age = tft.sparse_tensor_to_dense_with_shape(inputs["age"], [None, 1], 30.0)[:, 0]
        tokens = tf.strings.split(tf.strings.regex_replace(tf.strings.lower(inputs["text"]), "[^a-z]+", " "))
        logarithm = tf.math.log1p(inputs["fare"])
        return {
            "age": tft.scale_to_z_score(age),
            "fare": tft.scale_to_0_1(logarithm),
            "height": tft.scale_to_z_score(inputs["height"]),
            "city": tft.compute_and_apply_vocabulary(inputs["city"], top_k=4, num_oov_buckets=2, vocab_filename="city"),
            "text": tft.compute_and_apply_vocabulary(tokens.to_sparse(), default_value=-9),
            "rooms_scaled": tft.scale_by_min_max(inputs["rooms"], -1, 1),
            "rooms_bucket": tf.one_hot(tft.bucketize(inputs["rooms"], 4), 4),
            "street": tft.hash_strings(inputs["street"], 50),
            "year": tft.apply_buckets(inputs["year"], [[1950, 2000]]),
        }

    return house_jobs.analyzed(directory, preprocessing_fn, out).transform_features_layer()


def test_results_are_those_of_tfts_own_analyzers(houses: Path, tmp_path: Path) -> None:
    layer, mine = tft_own(houses, tmp_path), house_jobs.layer_of(houses)
    names = ["age", "fare", "height", "city", "text", "rooms_scaled", "rooms_bucket", "street", "year"]

    for split in ("train", "test"):
        raw = house_jobs.parsed(houses, split)
        assert house_jobs.differing(mine(raw), layer(raw), rtol=1e-5, names=names) == []


def test_tft_opens_the_folder(houses: Path) -> None:
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2
    from tensorflow_transform.tf_metadata import schema_utils

    output = house_jobs.graph_of(houses)
    vocabulary = (houses / "transform_graph/transform_fn/assets/city").read_bytes().splitlines()
    assert output.vocabulary_by_name("city") == vocabulary
    assert output.vocabulary_size_by_name("city") == len(vocabulary) == 4
    assert output.num_buckets_for_transformed_feature("city") == 6
    assert output.num_buckets_for_transformed_feature("year") == 3
    schema = text_format.Parse((houses / file_names.SCHEMA).read_text(), schema_pb2.Schema())
    whole = schema_utils.schema_as_feature_spec(schema).feature_spec
    assert output.raw_feature_spec() == {name: spec for name, spec in whole.items() if name != "id"}
    assert "id" not in output.transformed_feature_spec()
    assert output.transformed_feature_spec()["rooms_bucket"].shape == [4]


def test_the_model_is_served_alone_with_values_that_are_missing_and_unknown(houses: Path) -> None:
    import tensorflow as tf

    served = tf.saved_model.load(str(houses / "transform_graph/transform_fn"))
    batch = {
        "age": tf.SparseTensor([[1, 0]], [50.0], [2, 1]),
        "fare": tf.constant([0.0, 1e9]),
        "height": tf.SparseTensor(np.zeros((0, 2), np.int64), tf.constant([], tf.float32), [2, 0]),
        "city": tf.SparseTensor([[0, 0], [1, 0]], ["Atlantis", "Rome"], [2, 1]),
        "text": tf.constant(["", "a HOUSE on mars"]),
        "rooms": tf.constant([1000, 2], tf.int64),
        "street": tf.constant(["", "street 1"]),
        "year": tf.constant([1950, 2030], tf.int64),
        "label": tf.constant([0, 1], tf.int64),
    }
    found = {name: house_jobs.values_of(value) for name, value in served.transform_fn(batch).items()}

    age = house_jobs.outputs_of(houses)["age"].constants
    assert found["age"] == pytest.approx([(value - age["mean"]) / age["std_dev"] for value in (30, 50)], rel=1e-5)
    assert found["height"] == [[], []]
    assert found["city"][0][0] in (4, 5)
    words = (houses / "transform_graph/transform_fn/assets/text").read_text().split("\n")
    assert found["text"] == [[], [words.index("a"), words.index("house"), -9, -9]]
    assert found["rooms_bucket"][0] == [0, 0, 0, 1]
    assert found["year"] == [1, 2]


def test_bytes_do_not_depend_on_the_format_the_files_or_the_threads(houses: Path, others: Path) -> None:
    one, other = house_jobs.graph_bytes(houses), house_jobs.graph_bytes(others)

    assert one.keys() == other.keys()
    assert [name for name in one if one[name] != other[name]] == []
    assert len(one) == 10


def test_a_transform_moves_no_example(houses: Path, tmp_path: Path) -> None:
    flags = ["csv", "--input", str(houses.parents[2] / "houses.csv"), "--output", str(tmp_path), "--name", "houses"]
    assert cli.main([*flags, *house_jobs.FLAGS, "--quiet"]) == 0

    before = json.loads((tmp_path / "houses/1.0.0" / file_names.MANIFEST).read_bytes())
    after = json.loads((houses / file_names.MANIFEST).read_bytes())
    assert before["splits"] == after["splits"]
    assert "transform" not in before["configuration"]
    assert after["configuration"]["transform"]["dropped"] == ["id"]
    assert {name for name in after["files"] if name not in before["files"]} == set(house_jobs.graph_bytes(houses))


def test_what_was_found_is_what_the_training_split_holds(houses: Path) -> None:
    train, test = house_jobs.examples(houses, "train"), house_jobs.examples(houses, "test")
    by_name = house_jobs.outputs_of(houses)

    assert house_jobs.transform_file(houses).analyzed == {"train": len(train)}
    heights = [float(np.float32(row["height"][0])) for row in train if "height" in row]
    assert by_name["height"].constants["mean"] == pytest.approx(np.mean(heights), rel=1e-12)
    assert by_name["height"].constants["std_dev"] == pytest.approx(np.std(heights), rel=1e-9)
    city = by_name["city"].vocabulary
    assert city is not None
    cities = [row["city"][0].decode() for row in test if "city" in row]
    known = {entry for entry, _ in city.head}
    assert city.unknown["test"] == (len(cities), sum(name not in known for name in cities))


def test_verify_finds_a_graph_that_was_changed(houses: Path, run: Run) -> None:
    assert run("verify", houses).status == 0
    asset = houses / "transform_graph/transform_fn/assets/city"
    whole = asset.read_bytes()
    asset.write_bytes(whole.replace(b"Rome", b"Roma"))
    try:
        result = run("verify", houses)
    finally:
        asset.write_bytes(whole)

    assert result.status == 1
    assert "transform_graph/transform_fn/assets/city" in result.out + result.err


def test_load_transforms_batch_by_batch(houses: Path) -> None:
    import tensorflow as tf

    expected = house_jobs.layer_of(houses)(house_jobs.parsed(houses, "test"))

    batches = list(shardmill.load(houses, "test", batch_size=64, transform=True, defaults={"height": 0.5, "city": -1}))

    features = {name: tf.concat([batch[0][name] for batch in batches], 0) for name in batches[0][0]}
    names = ["age", "fare", "text", "rooms_scaled", "rooms_bucket", "street"]
    assert house_jobs.differing(features, expected, rtol=1e-5, names=names) == []
    heights = [value[0] if value else 0.5 for value in house_jobs.values_of(expected["height"])]
    assert features["height"].numpy().tolist() == pytest.approx(heights)
    assert [value[0] if value else -1 for value in house_jobs.values_of(expected["city"])] == features[
        "city"
    ].numpy().tolist()
    labels = tf.concat([batch[1] for batch in batches], 0)
    assert labels.numpy().tolist() == expected["label"].numpy().tolist()
    assert "id" not in features


def test_inspect_shows_what_was_found(houses: Path, run: Run) -> None:
    said = run("inspect", houses, "--examples", "0").out

    told, outputs = house_jobs.transform_file(houses), house_jobs.outputs_of(houses)
    height, city = outputs["height"].constants, outputs["city"].vocabulary
    assert city is not None
    assert f"Transformed features, constants of examples: {told.analyzed['train']:,} of train" in said
    assert f"height | z_score; mean {height['mean']:.6g}; std_dev {height['std_dev']:.6g}; values" in said
    first, count = city.head[0]
    assert f"4 entries of 6 values: {first} {count:,}" in said
    values, unknown = city.unknown["test"]
    assert f"test {unknown / values:.2%} of {values:,}" in said
    assert json.loads(run("inspect", houses, "--json").out)["transform"] == json.loads(told.to_json())


def test_yesterdays_constants_stay_and_drift_is_said(houses: Path, tmp_path: Path, run: Run) -> None:
    table = house_jobs.rows()
    higher = pa.compute.add(table["height"], 2.0)
    moved = table.set_column(table.schema.get_field_index("height"), "height", higher)
    pyarrow.csv.write_csv(moved, tmp_path / "houses.csv")
    given = (
        "csv",
        "--input",
        tmp_path / "houses.csv",
        "--output",
        tmp_path / "out",
        "--name",
        "houses",
        *house_jobs.FLAGS,
    )

    result = run(*given, "--transform_graph", houses, "--quiet")

    assert result.status == 0
    new = tmp_path / "out" / "houses" / "1.0.0"
    before, after = house_jobs.graph_bytes(houses), house_jobs.graph_bytes(new)
    assert {name for name in before if before[name] != after[name]} == {file_names.TRANSFORM}
    height = house_jobs.outputs_of(new)["height"]
    assert height.drift["shift"] == pytest.approx(2 / height.constants["std_dev"], rel=1e-4)
    manifest = json.loads((new / file_names.MANIFEST).read_bytes())
    assert manifest["configuration"]["transform_graph"] == house_jobs.transform_file(new).former == "houses 1.0.0"
    notices = " ".join(manifest["notices"])
    assert "the constants of transformed features are those of houses 1.0.0" in notices
    assert (
        f"height: the mean is {height.drift['mean']:.6g}, {height.drift['shift']:.2g} standard deviations above"
        in notices
    )
    assert "city: 4 of 4 entries would be those of houses 1.0.0" in notices


def test_a_graph_of_another_transform_or_schema_is_none(houses: Path, tmp_path: Path, run: Run) -> None:
    (tmp_path / "rows.csv").write_text("age,city\n1,a\n2,b\n")
    (tmp_path / "t.yaml").write_text("age: z_score\n")
    given = ("csv", "--input", tmp_path / "rows.csv", "--output", tmp_path / "out", "--name", "rows")

    other = run(*given, "--transform_graph", houses, "--transform", tmp_path / "t.yaml")
    schema = run(*given, "--transform_graph", houses)
    none = run(*given, "--transform_graph", tmp_path)

    assert (other.status, "its graph was made by another transform" in other.err) == (2, True)
    assert (schema.status, "manifest.json: feature 'fare' is not there" in schema.err) == (2, True)
    assert (none.status, "is not a data set" in none.err) == (2, True)
    assert not list((tmp_path / "out").rglob("*.tfrecord*"))
