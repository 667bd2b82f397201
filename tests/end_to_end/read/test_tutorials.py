"""The programs in examples/, each run as its docstring says."""

import ast
import base64
import contextlib
import csv
import importlib
import io
import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pyarrow import parquet

import shardmill
from shardmill.data.example import decode_example
from shardmill.pipelines import cli
from tests.support.command import REPOSITORY
from tests.support.houses import serialized
from tests.support.later import Later

pytestmark = pytest.mark.slow

tf = Later("tensorflow")

sys.path.insert(0, str(REPOSITORY / "examples"))
read_without_shardmill = Later("read_without_shardmill")
train_arrays = Later("train_arrays")
train_rows = Later("train_rows")
train_sequences = Later("train_sequences")

EXAMPLES = REPOSITORY / "examples"
Words = list[str]


class Shell:
    """A folder in which the commands of docstrings are run; those that make data are run once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._done: list[Words] = []
        (folder / "examples").mkdir()
        for path in EXAMPLES.glob("*.yaml"):
            shutil.copy(path, folder / "examples")

    def prepare(self, script: str) -> list[Words]:
        """Make the data that `script` is for; returns the arguments of each of its own commands."""
        own = []
        for command in commands(script):
            if command[:2] == ["python", f"examples/{script}.py"]:
                own.append(command[2:])
            elif command not in self._done:
                self._run(command)
                self._done.append(command)
        assert own
        return own

    def follow(self, script: str) -> list[Any]:
        """All that its docstring says; returns what each of its own commands does."""
        main = importlib.import_module(script).main
        runs = self.prepare(script)
        with contextlib.chdir(self.folder):
            return [main(arguments) for arguments in runs]

    def train(self, script: str) -> list[float]:
        """Follow the docstring of `script` with processes of their own, and return the accuracies that they print.

        The layer of TensorFlow Transform makes other features after some models were trained in the same process.
        """
        accuracies = []
        for arguments in self.prepare(script):
            program = [sys.executable, str(EXAMPLES / f"{script}.py"), *arguments]
            done = subprocess.run(program, cwd=self.folder, capture_output=True, text=True, timeout=300)
            assert done.returncode == 0, done.stderr
            accuracies.append(float(done.stdout.split()[-1]))
        return accuracies

    def _run(self, command: Words) -> None:
        with contextlib.chdir(self.folder):
            if command[0] == "shardmill":
                assert cli.main(command[1:]) == 0
            else:
                importlib.import_module(Path(command[1]).stem).main(command[2:])


def commands(script: str) -> list[Words]:
    """The shell commands in the docstring of a script, which is not imported."""
    text = ast.get_docstring(ast.parse((EXAMPLES / f"{script}.py").read_text()))
    assert text
    return [shlex.split(line) for line in text.splitlines() if line.startswith(("python examples/", "shardmill "))]


@pytest.fixture(scope="module")
def shell(tmp_path_factory: pytest.TempPathFactory) -> Shell:
    return Shell(tmp_path_factory.mktemp("shell"))


# The least accuracy on the test split, or share of shapes found there.
# Always saying the most frequent class gives 0.1 (digits), 0.4 (rows) or 0.5 (the
# others).
LEARNERS = [
    ("train_images", 0.85),
    ("train_detection", 0.7),
    ("train_multi_label", 0.8),  # of all classes at once; of saying the most frequent set 0.2
    ("train_segmentation", 0.8),  # mean IoU; of saying that nothing is anywhere 0.27
    ("train_text", 0.8),
    ("train_arrays", 0.85),
    ("train_sequences", 0.85),
    ("train_language_model", 0.2),  # of the tokens of sentences; the most frequent one is a twentieth of them
    ("train_two_inputs", 0.85),
]


@pytest.mark.parametrize(("script", "least"), LEARNERS)
def test_learns(script: str, least: float, shell: Shell) -> None:
    accuracies = shell.follow(script)

    assert min(accuracies) >= least, accuracies


def test_a_data_frame_is_written(shell: Shell) -> None:
    (published,) = shell.follow("from_dataframe")

    assert published.splits == {"train": 142, "test": 36}
    assert shardmill.info(shell.folder / "datasets/wine_frame").class_names == ("class_0", "class_1", "class_2")


def test_the_end_of_a_pipeline_is_written(shell: Shell) -> None:
    (directory,) = shell.follow("from_your_pipeline")

    info = shardmill.info(shell.folder / directory)
    assert 0 < sum(split.examples for split in info.splits.values()) < len(range(0, 1797, 9))
    assert info.class_names == tuple(map(str, range(10)))


_SERVE = """
import json, sys
import tensorflow as tf
served = tf.saved_model.load("served").signatures["serving_default"]
logits = served(text=tf.constant(json.load(sys.stdin)))["logits"]
print(json.dumps(logits.numpy().argmax(1).tolist()))
"""


def test_a_fresh_process_serves_sentences_as_they_are_written(shell: Shell) -> None:
    (accuracy,) = shell.train("train_transformed")
    found = list(shardmill.examples(shell.folder / "datasets/transformed", split="test"))
    texts = json.dumps([example["text"] for example in found], default=bytes.decode)

    program = [sys.executable, "-c", _SERVE]
    done = subprocess.run(program, input=texts, cwd=shell.folder, capture_output=True, text=True, timeout=300)

    assert done.returncode == 0, done.stderr
    right = [int(example["label"]) == given for example, given in zip(found, json.loads(done.stdout), strict=True)]
    assert accuracy >= 0.8
    # The mean over a sentence includes its padding, and here all sentences are one batch
    assert np.mean(right) == pytest.approx(accuracy, abs=0.02)


_SERVE_ROWS = """
import base64, json, sys
import tensorflow as tf
served = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
examples = list(map(base64.b64decode, json.load(sys.stdin)))
print(json.dumps(served(examples=tf.constant(examples))["probabilities"].numpy().argmax(1).tolist()))
"""


def test_a_fresh_process_serves_raw_examples_of_rows(shell: Shell) -> None:
    accuracies = shell.train("train_rows")
    for accuracy, (directory, served) in zip(accuracies, shell.prepare("train_rows"), strict=True):
        records = serialized(shell.folder / directory, "test")
        labels = [int(decode_example(record)["cultivar"][0]) for record in records]
        texts = json.dumps([base64.b64encode(record).decode() for record in records])

        program = [sys.executable, "-c", _SERVE_ROWS, served]
        done = subprocess.run(program, input=texts, cwd=shell.folder, capture_output=True, text=True, timeout=300)

        assert done.returncode == 0, done.stderr
        assert accuracy >= 0.85
        right = [label == given for label, given in zip(labels, json.loads(done.stdout), strict=True)]
        assert np.mean(right) == pytest.approx(accuracy, abs=0.01)


# What the readers of these programs give, compared with the source


def by_key(pairs: Iterable[tuple[Any, Any]]) -> list[tuple[bytes, Any]]:
    """Arrays and what belongs to each, in an order that does not depend on theirs."""
    return sorted((np.asarray(array).tobytes(), value) for array, value in pairs)


def test_arrays(shell: Shell) -> None:
    ((directory,),) = shell.prepare("train_arrays")
    directory = str(shell.folder / directory)
    source = by_key(zip(*(np.load(shell.folder / f"inputs/arrays/stack/{name}.npy") for name in "Xy"), strict=True))

    by_tensorflow = [
        pair for split in ("train", "test") for pair in train_arrays.read(directory, split).as_numpy_iterator()
    ]
    by_shardmill = [
        pair for split in ("train", "test") for pair in shardmill.load(directory, split).as_numpy_iterator()
    ]

    assert by_key(by_tensorflow) == by_key(by_shardmill) == source
    (arrays, _) = shardmill.load(directory, "train", 32).element_spec
    assert arrays == tf.TensorSpec([None, 8, 8], tf.float32)


@pytest.mark.parametrize("which", [0, 1], ids=["plain", "gzip"])
def test_rows(which: int, shell: Shell) -> None:
    directory = str(shell.folder / shell.prepare("train_rows")[which][0])
    names = shardmill.info(directory).class_names
    numbers = train_rows.NUMBERS
    with (shell.folder / "inputs/wines.csv").open() as file:
        cells: list[dict[str, Any]] = [
            {name: cell or train_rows.DEFAULTS.get(name) for name, cell in row.items()} for row in csv.DictReader(file)
        ]
    source = [(*(np.float32(row[name]) for name in numbers), row["colour"], row["cultivar"]) for row in cells]

    found = []
    for split in ("train", "test"):
        for columns, labels in train_rows.read(directory, split, 1).as_numpy_iterator():
            assert columns["proline"].dtype == np.int64
            for index, label in enumerate(labels):
                values = [np.float32(columns[name][index]) for name in numbers]
                found.append((*values, columns["colour"][index].decode(), names[label]))

    assert shardmill.info(directory).compression == ("gzip" if which else "")
    assert sum("unknown" in row for row in found) == 18
    assert sorted(found) == sorted(source)


def test_sequences(shell: Shell) -> None:
    ((directory,),) = shell.prepare("train_sequences")
    lines = (shell.folder / "inputs/walks.jsonl").read_text().splitlines()
    source = sorted((line["places"], ["down", "up"].index(line["direction"])) for line in map(json.loads, lines))

    found: list[Any] = []
    for split in ("train", "test"):
        walks = train_sequences.read(str(shell.folder / directory), split).as_numpy_iterator()
        found += [(places.tolist(), int(direction)) for places, direction in walks]

    assert sorted(found) == source


def test_two_inputs(shell: Shell) -> None:
    ((directory,),) = shell.prepare("train_two_inputs")
    source = []
    for row in parquet.read_table(shell.folder / "inputs/digits.parquet").to_pylist():
        pixels = np.asarray(Image.open(io.BytesIO(row["image"])))[:, :, None]
        source.append((pixels, (row["metadata"], int(row["label"]))))

    found = []
    for split in ("train", "test"):
        for inputs, label in shardmill.load(
            shell.folder / directory, split, channels=1, image_dtype="uint8"
        ).as_numpy_iterator():
            found.append((inputs["image"], (inputs["metadata"].tolist(), int(label))))

    assert by_key(found) == by_key(source)


def test_no_shardmill_at_all(shell: Shell) -> None:
    assert shell.follow("read_without_shardmill") == [40]

    ((relative,),) = shell.prepare("read_without_shardmill")
    directory = str(shell.folder / relative)
    paths = (shell.folder / "inputs/photos").rglob("*.jpg")
    # TensorFlow's decoder: Pillow's differs by a grey level here and there.
    source = by_key((tf.io.decode_jpeg(path.read_bytes()).numpy(), path.parent.name) for path in paths)
    read_with_tfds, read_with_tft = read_without_shardmill.read_with_tfds, read_without_shardmill.read_with_tft
    assert by_key(pair for split in ("train", "test") for pair in read_with_tfds(directory, split)) == source
    assert by_key(pair for split in ("train", "test") for pair in read_with_tft(directory, split)) == source
    assert read_without_shardmill.count_with_tfds(directory) == {"train": 32, "test": 8}
    first, rest = (by_key(read_with_tfds(directory, f"train[{part}]")) for part in (":20%", "20%:"))
    assert (len(first), len(rest)) == (6, 26)
    assert sorted(first + rest) == by_key(read_with_tfds(directory, "train"))


# Without TensorFlow


def test_jax_learns(shell: Shell) -> None:
    ((directory,),) = shell.prepare("jax_digits")
    command = [sys.executable, str(EXAMPLES / "jax_digits.py"), directory]
    done = subprocess.run(command, cwd=shell.folder, capture_output=True, text=True, check=True)
    assert float(done.stdout.split()[-1]) >= 0.85
