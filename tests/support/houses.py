"""What tests of preprocessing share: houses for sale, and modules for --module_file."""

import filecmp
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from shardmill.data.example import decode_example
from shardmill.metadata import file_names
from shardmill.metadata.tfds_metadata import TransformedOutput, TransformFile
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


def write_parts(folder: Path) -> Path:
    """The houses in three Parquet files, in another order than that of their names."""
    folder.mkdir()
    for part in range(3):
        pq.write_table(rows().slice(part * 150, 150), folder / f"{2 - part}.parquet", row_group_size=40)
    return folder


def convert(root: Path, command: str, source: Path, *flags: str, module: Path | None = None) -> Path:
    """The version directory of `source`, converted with TRANSFORM or a module."""
    (root / "transform.yaml").write_text(TRANSFORM)
    given = [command, "--input", str(source), "--output", str(root / "out"), "--name", "houses", *FLAGS, *flags]
    how = ["--module_file", str(module)] if module else ["--transform", str(root / "transform.yaml")]
    assert cli.main([*given, *how, "--quiet"]) == 0
    return root / "out" / "houses" / "1.0.0"


def transform_file(directory: Path) -> TransformFile:
    """What a version's transform.json says."""
    return TransformFile.from_json((directory / file_names.TRANSFORM).read_bytes(), file_names.TRANSFORM)


def outputs_of(directory: Path) -> dict[str, TransformedOutput]:
    """The outputs of a transform by name."""
    return {output.name: output for output in transform_file(directory).outputs}


def analyzed(directory: Path, preprocessing_fn: Any, out: Path) -> Any:
    """What TFT alone finds in the training split, as a TFTransformOutput."""
    import apache_beam as beam
    import tensorflow_transform as tft
    import tensorflow_transform.beam as tft_beam
    from tensorflow_transform.tf_metadata import schema_utils
    from tfx_bsl.public import tfxio

    spec = graph_of(directory).raw_feature_spec()
    source = tfxio.TFExampleBeamRecord("records", schema=schema_utils.schema_from_feature_spec(spec))
    with tft_beam.Context(temp_dir=str(out / "tmp")), beam.Pipeline() as pipeline:
        batches = pipeline | beam.Create(serialized(directory, "train")) | source.BeamSource()
        _ = (
            (batches, source.TensorAdapterConfig())
            | tft_beam.AnalyzeDataset(preprocessing_fn)
            | tft_beam.WriteTransformFn(str(out / "graph"))
        )
    return tft.TFTransformOutput(str(out / "graph"))


def examples(directory: Path, split: str) -> list[dict[str, Any]]:
    """Raw examples as Python reads them, without what is missing."""
    dataset = open_dataset(directory)
    return [
        decode_example(record) for shard in dataset.manifest.split(split).shards for record in dataset.records(shard)
    ]


def serialized(directory: Path, split: str) -> list[bytes]:
    dataset = open_dataset(directory)
    return [record for shard in dataset.manifest.split(split).shards for record in dataset.records(shard)]


def graph_of(directory: Path) -> Any:
    """A version's graph as TFT opens it."""
    import tensorflow_transform as tft

    return tft.TFTransformOutput(str(directory / file_names.TRANSFORM_GRAPH))


def layer_of(directory: Path) -> Any:
    return graph_of(directory).transform_features_layer()


def parsed(directory: Path, split: str, graph: Path | None = None) -> dict[str, Any]:
    """A split by TFT's raw spec, of its own graph or that of another version."""
    import tensorflow as tf

    spec = graph_of(graph or directory).raw_feature_spec()
    parsed: dict[str, Any] = tf.io.parse_example(serialized(directory, split), spec)
    return parsed


def differing(
    one: Mapping[str, Any], other: Mapping[str, Any], rtol: float = 1e-6, atol: float = 1e-6, names: Iterable[str] = ()
) -> list[str]:
    """The outputs of which a row differs.

    Two evaluations of one graph agree to 1e-6. TFT adds means and deviations up in float32, in the order in which
    batches come, and its z-scores are 1e-5 from exact ones.
    """
    found = []
    for name in names or one:
        mine, its = ([np.ravel(row) for row in values_of(value[name])] for value in (one, other))
        left, right = np.hstack(mine), np.hstack(its)
        is_same = [len(row) for row in mine] == [len(row) for row in its] and (
            (left == right).all() or np.allclose(left.astype(float), right.astype(float), rtol, atol)
        )
        found += [] if is_same else [name]
    return found


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
