"""What a module of --module_file does wrong, and the sentence that says it; rows that its graph does not take."""

import json
from pathlib import Path

import numpy as np
import pyarrow.csv
import pytest

from shardmill.reading.dataset import open_dataset
from tests.support import houses
from tests.support.command import Contents, Run
from tests.support.houses import CUSTOM, TFT, serialized

ASSERTS = """\
 rooms = inputs["rooms"]
 with tf.control_dependencies([tf.debugging.assert_less(rooms, tf.constant(10, tf.int64), "many rooms")]):
  return {"a": tft.scale_to_z_score(tf.identity(rooms))}
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "houses.csv"
    pyarrow.csv.write_csv(houses.rows(), path)
    return path


@pytest.mark.parametrize(
    ("module", "status", "sentence"),
    [
        ("def f(:", 2, "--module_file m.py line 1 is no Python: "),
        (
            "import nowhere_at_all",
            2,
            "m.py line 1 does not import: No module named 'nowhere_at_all'; what it imports must",
        ),
        ("x = 1\ny = x / 0", 2, "m.py line 2 does not import: ZeroDivisionError: division by zero"),
        ("def preprocess(inputs): ...", 2, "--module_file m.py has no function preprocessing_fn(inputs)"),
        (TFT + " return None", 2, "m.py: preprocessing_fn returns nothing; expected a dictionary of tensors"),
        (TFT + " return [inputs]", 2, "m.py: preprocessing_fn returns a list; expected a dictionary of tensors"),
        (TFT + " return {}", 2, "preprocessing_fn returns an empty dictionary"),
        (TFT + " return {'a': 1}", 2, "preprocessing_fn returns 'a', which is int32; expected int64, float32 or"),
        (TFT + " return {'a': inputs}", 2, "preprocessing_fn returns 'a', which is a dict; expected a tensor"),
        (CUSTOM.replace("Globally(Longest", "Globally(Long"), 2, "its analyzers cannot be run: NameError: name 'Long'"),
        (TFT + " raise RuntimeError('no')", 2, "m.py line 4: preprocessing_fn raises RuntimeError: no"),
        (TFT + " return {'a': tft.min(inputs['hight'])}", 2, "m.py line 4: feature 'hight' is not there; did you mean"),
        (
            TFT + " return {'a': tft.scale_to_z_score(inputs['text'])}",
            2,
            "m.py line 4: preprocessing_fn raises TypeError",
        ),
        (TFT + " return {'a': inputs['rooms'] > 3}", 2, "which is bool; expected int64, float32 or string: cast it"),
        (TFT + " return {'a': tft.min(inputs['rooms'])}", 2, "expected one row an example, whose shape is known"),
        (
            TFT + " return {'a': tf.strings.split(inputs['text'])}",
            2,
            "is ragged; give what its to_sparse() makes of it",
        ),
        (TFT + ASSERTS, 1, "TensorFlow Transform cannot analyze the examples: assertion failed: [many rooms]"),
    ],
)
def test_what_a_module_does_wrong(
    source: Path, run: Run, tmp_path: Path, module: str, status: int, sentence: str
) -> None:
    (tmp_path / "m.py").write_text(module)

    found, said = refused(run, tmp_path, source)

    assert (found, sentence in said) == (status, True), said


def test_a_row_that_the_graph_does_not_take_is_a_reject_and_the_others_are_written(run: Run, tmp_path: Path) -> None:
    for split, rooms in (("train", range(9)), ("test", (1, 99, 2, 3))):
        (tmp_path / "in" / split).mkdir(parents=True)
        (tmp_path / "in" / split / "a.csv").write_text("rooms\n" + "".join(f"{number}\n" for number in rooms))
    (tmp_path / "m.py").write_text(TFT + ASSERTS)  # which holds for all that is analyzed
    given = ("csv", "--input", tmp_path / "in", "--output", tmp_path / "out", "--name", "n", "--materialize", "--quiet")

    result = run(*given, "--module_file", tmp_path / "m.py", "--max_reject_fraction", "0.2")

    written = tmp_path / "out/n/1.0.0"
    assert result.status == 0, result.err
    (reject,) = Contents(open_dataset(str(written)), {}, {}).rejects()
    assert "rooms=[99]" in json.dumps(reject)
    assert reject["reason"].startswith("the transform graph fails: assertion failed: [many rooms]")
    found = sorted(float(row["a"][0]) for row in houses.examples(written, "test"))
    assert found == pytest.approx([(value - 4) / np.std(range(9)) for value in (1, 2, 3)], abs=1e-5)
    assert len(serialized(written, "train")) == 9


def refused(run: Run, tmp_path: Path, source: Path, *flags: str, splits: str = "train=0.7,test=0.3") -> tuple[int, str]:
    """How the command ends, and its one sentence; nothing is written."""
    given = ("csv", "--input", source, "--output", tmp_path / "out", "--name", "rows", "--splits", splits, *flags)
    result = run(*given, "--module_file", tmp_path / "m.py", "--quiet")
    assert [path for path in (tmp_path / "out").rglob("*") if path.is_file() and "builds" not in path.parts] == []
    assert "Traceback" not in result.err
    assert len(result.err.strip().splitlines()) == 1
    return result.status, result.err


def test_an_empty_training_split_and_one_that_is_not_there(run: Run, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(TFT + " return {'a': tft.scale_to_z_score(inputs['id'])}")
    (tmp_path / "rows.csv").write_text("id,label\n1,a\n2,b\n")

    assert refused(run, tmp_path, tmp_path / "rows.csv", splits="fit=0.5,test=0.5") == (
        2,
        "shardmill: error: --module_file: there is no split 'train' to compute constants from; the splits are fit,"
        " test; --analyze_splits names others\n",
    )
    status, said = refused(run, tmp_path, tmp_path / "rows.csv", splits="train=0.000001,test=0.999999")
    assert (status, "--module_file: no example is in split 'train', which is analyzed" in said) == (1, True)


def test_one_transform_at_a_time(source: Path, run: Run, tmp_path: Path) -> None:
    (tmp_path / "m.py").write_text(TFT + " return inputs")
    (tmp_path / "t.yaml").write_text("fare: z_score")

    status, said = refused(run, tmp_path, source, "--transform", str(tmp_path / "t.yaml"))

    assert (status, "--module_file and --transform: each makes a transform graph" in said) == (2, True)
