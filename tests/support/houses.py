"""What tests of preprocessing share: houses for sale, and modules for --module_file."""

import filecmp
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from shardmill.data.example import decode_example
from shardmill.metadata import file_names
from shardmill.pipelines import cli
from shardmill.reading.dataset import open_dataset
from tests.support.command import Run

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


TFT = "import tensorflow as tf\nimport tensorflow_transform as tft\ndef preprocessing_fn(inputs):\n"
CUSTOM = """
import apache_beam as beam
import numpy as np
import tensorflow as tf
import tensorflow_transform as tft

class Longest(beam.CombineFn):
    def create_accumulator(self):
        return 0
    def add_input(self, longest, batch):
        return max(longest, *map(len, batch[0].ravel()))
    def merge_accumulators(self, found):
        return max(found)
    def extract_output(self, longest):
        return np.int64(longest)

@beam.ptransform_fn
def longest(inputs, extra_args):
    return [inputs | beam.CombineGlobally(Longest()).without_defaults()]

def preprocessing_fn(inputs):
    found, = tft.experimental.ptransform_analyzer([inputs["text"]], longest(None), [tf.int64], [[]])
    return {"share": tf.cast(tf.strings.length(inputs["text"]), tf.float32) / tf.cast(found, tf.float32)}
"""

_MODULE = """
import tensorflow_transform as tft
from models import features

def preprocessing_fn(inputs):
    return {
        "id": tft.scale_to_0_1(inputs["id"]),
        "word": tft.compute_and_apply_vocabulary(inputs["word"], vocab_filename=features.FILE),
    }
"""


def write_package(module: Path, text: str = CUSTOM) -> None:
    """Write a module like CUSTOM whose analyzer is in a package beside it, as projects of TFX are laid out."""
    analyzer, function = text.split("def preprocessing_fn")
    package = module.parent / "analyzers"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("from .lengths import longest")
    (package / "lengths.py").write_text(analyzer)
    imports = "import tensorflow as tf\nimport tensorflow_transform as tft\nfrom analyzers import longest\n"
    module.write_text(f"{imports}def preprocessing_fn{function}")


def check_module(run: Run, folder: Path, flags: Sequence[str]) -> None:
    """Check that what a module asks for is analyzed on the runner that `flags` say, which gives the shards and the
    vocabulary of the local one."""
    (folder / "a.csv").write_text("id,word\n" + "".join(f"{n},w{n * n % 7}\n" for n in range(900)))
    (folder / "models").mkdir()
    (folder / "models/features.py").write_text("FILE = 'words'")
    (folder / "models/custom.py").write_text(_MODULE)
    words = ["csv", "--input", folder / "a.csv", "--name", "tiny", "--module_file", folder / "models/custom.py"]
    for name, more in (("local", ()), ("there", flags)):
        result = run(*words, "--output", folder / name, *more)
        assert result.status == 0, result.err
    local, there = (folder / name / "tiny" / "1.0.0" for name in ("local", "there"))
    names = sorted(path.name for path in local.glob("tiny-*"))
    assert names
    assert filecmp.cmpfiles(local, there, names, shallow=False) == (names, [], [])
    assets = "transform_graph/transform_fn/assets/words"
    assert (there / assets).read_bytes() == (local / assets).read_bytes()
    # By how often they are there; of equal ones TFT has the later first
    assert (there / assets).read_text().splitlines() == ["w4", "w2", "w1", "w0"]
