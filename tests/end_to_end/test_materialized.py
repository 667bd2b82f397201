"""--materialize: transformed examples are what the graph makes of raw ones, row by row, and say so of themselves."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import shardmill
from shardmill.metadata import file_names
from shardmill.reading.dataset import open_dataset
from tests.support.command import Run
from tests.support.houses import convert, parsed, rows, serialized, values_of

pytestmark = pytest.mark.slow

SPLITS = ("train", "test")


@pytest.fixture(scope="module")
def raw(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("raw")
    pyarrow.csv.write_csv(rows(), root / "houses.csv")
    return convert(root, "csv", root / "houses.csv")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, raw: Path) -> Path:
    root = tmp_path_factory.mktemp("made")
    return convert(root, "csv", raw.parents[2] / "houses.csv", "--materialize", "--threads", "1")


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows of another format, in several files, blocks and threads."""
    root = tmp_path_factory.mktemp("others")
    (root / "in").mkdir()
    for part in range(3):
        pq.write_table(rows().slice(part * 150, 150), root / "in" / f"{2 - part}.parquet", row_group_size=40)
    return convert(root, "parquet", root / "in", "--materialize", "--threads", "3")


def written(directory: Path, split: str) -> dict[str, Any]:
    import tensorflow as tf

    found: dict[str, Any] = tf.io.parse_example(serialized(directory, split), shardmill.feature_spec(str(directory)))
    return found


def differing(one: dict[str, Any], other: dict[str, Any]) -> list[str]:
    """The outputs of which a row differs by more than 1e-6."""
    found = []
    for name in one:
        mine, its = values_of(one[name]), values_of(other[name])
        same_lengths = [np.size(value) for value in mine] == [np.size(value) for value in its]
        one_flat, other_flat = (
            np.hstack([np.ravel(value) for value in values]).astype(float) for values in (mine, its)
        )
        if not (same_lengths and np.allclose(one_flat, other_flat, rtol=1e-6, atol=1e-6)):
            found.append(name)
    return found


@pytest.mark.parametrize("split", SPLITS)
def test_each_row_is_what_tfts_layer_and_the_model_alone_make_of_it(raw: Path, made: Path, split: str) -> None:
    import tensorflow as tf
    import tensorflow_transform as tft

    found, examples = written(made, split), parsed(raw, split)

    layer = tft.TFTransformOutput(str(made / file_names.TRANSFORM_GRAPH)).transform_features_layer()
    served = tf.saved_model.load(str(made / "transform_graph/transform_fn"))
    assert set(found) == set(layer(examples))
    assert differing(found, layer(examples)) == []
    assert differing(found, served.transform_fn(examples)) == []


def test_the_graph_is_that_of_raw_examples(raw: Path, made: Path) -> None:
    for path in (raw / file_names.TRANSFORM_GRAPH).rglob("*"):
        if path.is_file():
            assert (made / path.relative_to(raw)).read_bytes() == path.read_bytes()


def test_bytes_do_not_depend_on_the_format_the_files_or_the_threads(made: Path, others: Path) -> None:
    assert [serialized(made, split) for split in SPLITS] == [serialized(others, split) for split in SPLITS]


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
