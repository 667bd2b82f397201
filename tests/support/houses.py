"""Houses for sale, converted with --transform: what tests of preprocessing share."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shardmill.data.example import decode_example
from shardmill.metadata import file_names
from shardmill.pipelines import cli
from shardmill.reading.dataset import open_dataset

TRANSFORM = """\
age: [{fill: 30}, z_score]
fare: [log1p, scale_0_1]
height: z_score
city: {vocabulary: {top_k: 4, num_oov_buckets: 2}}
text:
  - lower
  - tokenize: "[^a-z]+"
  - {vocabulary: {default_value: -9}}
rooms:
  - {min_max: [-1, 1], output: rooms_scaled}
  - {bucketize: {num_buckets: 4}, one_hot: true, output: rooms_bucket}
  - {vocabulary: {frequency_threshold: 3}, output: rooms_id}
street: [{hash: {hash_buckets: 50}}]
year: [{bucketize: {boundaries: [1950, 2000]}}]
id: drop
"""
FLAGS = ("--label", "label", "--splits", "train=0.7,test=0.3", "--key", "id")
ROWS = 400


def rows(seed: int = 0) -> pa.Table:
    """Houses; no two words of a vocabulary are as frequent as each other, for TFT orders those otherwise."""
    rng = np.random.default_rng(seed)
    cities = np.array(["Rome", "Oslo", "São Paulo", "Bern", "Graz", "Kyiv"])
    words = np.array(["A", "quiet", "house", "near", "the", "Sea"])

    def drawn(values: np.ndarray, count: int) -> list[str]:
        return rng.choice(values, count, p=np.array([32, 16, 8, 4, 2, 1]) / 63).tolist()

    rooms = rng.integers(1, 30, ROWS)
    return pa.table(
        {
            "id": pa.array(range(ROWS)),
            "age": pa.array([None if row % 6 == 0 else round(float(rng.gamma(3, 12)), 2) for row in range(ROWS)]),
            "fare": pa.array(np.round(rng.exponential(40, ROWS), 2)),
            "height": pa.array([None if row % 9 == 0 else round(float(rng.normal(3, 1)), 3) for row in range(ROWS)]),
            "city": pa.array([None if row % 10 == 0 else city for row, city in enumerate(drawn(cities, ROWS))]),
            "text": pa.array([", ".join(drawn(words, int(rng.integers(1, 6)))) for _ in range(ROWS)]),
            "rooms": pa.array(rooms),
            "street": pa.array([f"street {number}" for number in rng.integers(0, 90, ROWS)]),
            "year": pa.array(rng.integers(1900, 2030, ROWS)),
            "label": pa.array(np.where(rooms > 14, "large", "small")),
        }
    )


def convert(root: Path, command: str, source: Path, *flags: str, transform: str = TRANSFORM) -> Path:
    """The version directory of `source`, converted."""
    (root / "transform.yaml").write_text(transform)
    given = [command, "--input", str(source), "--output", str(root / "out"), "--name", "houses", *FLAGS, *flags]
    assert cli.main([*given, "--transform", str(root / "transform.yaml"), "--quiet"]) == 0
    return root / "out" / "houses" / "1.0.0"


def examples(directory: Path, split: str) -> list[dict[str, Any]]:
    """Raw examples as Python reads them, without what is missing."""
    dataset = open_dataset(directory)
    return [
        decode_example(record) for shard in dataset.manifest.split(split).shards for record in dataset.records(shard)
    ]


def serialized(directory: Path, split: str) -> list[bytes]:
    dataset = open_dataset(directory)
    return [record for shard in dataset.manifest.split(split).shards for record in dataset.records(shard)]


def parsed(directory: Path, split: str) -> dict[str, Any]:
    """A split as TFT's raw spec has it."""
    import tensorflow as tf
    import tensorflow_transform as tft

    spec = tft.TFTransformOutput(str(directory / file_names.TRANSFORM_GRAPH)).raw_feature_spec()
    parsed: dict[str, Any] = tf.io.parse_example(serialized(directory, split), spec)
    return parsed


def graph_bytes(directory: Path) -> dict[str, bytes]:
    return {
        path.relative_to(directory).as_posix(): path.read_bytes()
        for path in sorted(directory.rglob("*"))
        if path.is_file() and file_names.is_transform_file(path.relative_to(directory).as_posix())
    }


def values_of(tensor: Any) -> list[Any]:
    """Rows of a tensor, sparse or not; None where there is no value."""
    import tensorflow as tf

    if isinstance(tensor, tf.SparseTensor):
        tensor = tf.RaggedTensor.from_sparse(tensor)
    found: list[Any] = tensor.to_list() if isinstance(tensor, tf.RaggedTensor) else tensor.numpy().tolist()
    return found
