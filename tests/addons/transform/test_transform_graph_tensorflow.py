"""What a graph makes of records, and which of them it does not take: a real one, that TensorFlow saved."""

from typing import Any

import pyarrow as pa
import pytest

from shardmill.addons.transform.transform_graph import Apply, transform_records
from shardmill.data.features import Feature
from shardmill.metadata.schema import to_pbtxt
from shardmill.transforms.columns.example_encoding import encode_examples

pytestmark = pytest.mark.slow

RAW = (Feature("x", "float32"), Feature("maybe", "int64", required=False), Feature("text", "bytes"))
OUTPUTS = (
    Feature("x", "float32"),
    Feature("maybe", "int64", required=False),
    Feature("tokens", "bytes", shape=(None,)),
    Feature("pair", "float32", shape=(2,)),
)


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Apply:
    """One that asserts of x that it is not negative."""
    import tensorflow as tf

    from shardmill.addons.transform.tensorflow_apply import SavedGraph

    class Module(tf.Module):
        @tf.function(  # type: ignore[untyped-decorator]
            input_signature=[
                {
                    "x": tf.TensorSpec((None,), tf.float32),
                    "maybe": tf.SparseTensorSpec((None, None), tf.int64),
                    "text": tf.TensorSpec((None,), tf.string),
                }
            ]
        )
        def transform_fn(self, raw: Any) -> Any:
            with tf.control_dependencies([tf.debugging.assert_non_negative(raw["x"], "x is negative")]):
                x = tf.identity(raw["x"]) * 2
            pair = tf.stack([x, -x], 1)
            return {"x": x, "maybe": raw["maybe"], "tokens": tf.strings.split(raw["text"]).to_sparse(), "pair": pair}

    folder = tmp_path_factory.mktemp("graph")
    tf.saved_model.save(Module(), str(folder / "transform_graph/transform_fn"))
    (folder / "transform_graph/metadata").mkdir()
    (folder / "transform_graph/metadata/schema.pbtxt").write_text(to_pbtxt(RAW))
    return SavedGraph(str(folder), OUTPUTS)


def records(numbers: list[float]) -> list[bytes]:
    columns = {
        "x": pa.array(numbers, pa.float32()),
        "maybe": pa.array([None if row % 2 else row for row in range(len(numbers))], pa.int64()),
        "text": pa.array(["a b", "", "c"] * len(numbers))[: len(numbers)],
    }
    found: list[bytes] = encode_examples(pa.RecordBatch.from_pydict(columns)).to_pylist()
    return found


def test_examples_become_columns(graph: Apply) -> None:
    (batch,), failed = transform_records(records([1, 2, 3]), graph)

    assert failed == {}
    assert batch.to_pydict() == {
        "x": [2, 4, 6],
        "maybe": [0, None, 2],
        "tokens": [[b"a", b"b"], [], [b"c"]],
        "pair": [[2, -2], [4, -4], [6, -6]],
    }


def test_the_rows_around_one_that_the_graph_does_not_take_are_kept(graph: Apply) -> None:
    numbers = [float(number) for number in range(100)]
    for bad in (0, 41, 42, 99):
        numbers[bad] = -1

    batches, failed = transform_records(records(numbers), graph)

    assert [x / 2 for batch in batches for x in batch["x"].to_pylist()] == [number for number in numbers if number >= 0]
    assert list(failed) == [0, 41, 42, 99]
    assert all("x is negative" in why and "\n" not in why for why in failed.values())
