"""Mistakes in the steps of --transform and in a module of --module_file: one sentence, status 2, or 1 where only
examples show them, and nothing published; rows that the graph does not take."""

import json
from typing import Any

import numpy as np
import pyarrow.csv
import pytest

from shardmill.installed import install_hint
from tests.support import houses
from tests.support.houses import CUSTOM, TFT, serialized
from tests.support.jobs import Files, Jobs

ROWS = "age,city,same,gap,label\n" + "".join(
    f"{20 + row},{'Rome' if row % 3 else 'Oslo'},7,{'' if row % 2 else row},{'ab'[row % 2]}\n" for row in range(40)
)
CITIES = {"a.csv": ROWS}
FEW = {"a.csv": "".join(f"{line}\n" for line in ROWS.splitlines()[:3])}
FIT = "--splits fit=0.8,test=0.2"
# The steps, further flags, the exit status, the sentence; `…` is any text
MISTAKES: list[tuple[Files, str, str, int, str]] = [
    (CITIES, "# h\nhight: z_score", "", 2, "t.yaml line 2: feature 'hight' is not there; expected one of age, city"),
    (CITIES, "city: !!python/name:os.system", "", 2, "tags are not supported"),
    (
        *(CITIES, "same: z_score", "", 1),
        "t.yaml line 1: feature 'same': z_score: all 40 values are 7, which cannot be scaled",
    ),
    (
        *(CITIES, "age: z_score", FIT, 2),
        "there is no split 'train' to compute constants from; the splits are fit, test; --analyze_splits",
    ),
    (CITIES, "same: z_score", f"{FIT} --analyze_splits fit,test", 1, "all 40 values are 7"),
    (CITIES, "", "--transform none.yaml", 2, "none.yaml: No such file or directory"),
    (
        CITIES,
        "",
        "--transform steps.py",
        2,
        "--transform steps.py is no transform.yaml; tables and lines take Python by",
    ),
    (CITIES, "", "--analyze_splits train", 2, "--analyze_splits needs --transform"),
    (
        *(FEW, "age: z_score", "--splits train=0.005,test=0.995", 1),
        "no example is in split 'train', from which constants are computed; splits with examples are test",
    ),
]


@pytest.mark.parametrize(("files", "transform", "flags", "status", "sentence"), MISTAKES)
def test_a_mistake_in_the_steps(
    jobs: Jobs, files: Files, transform: str, flags: str, status: int, sentence: str
) -> None:
    given = "--transform t.yaml" if transform else ""
    end = jobs.refuse if status == 2 else jobs.fail
    end(f"csv --quiet {given} {flags}", sentence, files={**files, "../t.yaml": transform})


ASSERTS = """\
 rooms = inputs["rooms"]
 with tf.control_dependencies([tf.debugging.assert_less(rooms, tf.constant(10, tf.int64), "many rooms")]):
  return {"a": tft.scale_to_z_score(tf.identity(rooms))}
"""


def returning(value: str) -> str:
    """A module whose function returns something."""
    return f"{TFT} return {value}"


@pytest.fixture(scope="module")
def table() -> bytes:
    sink: Any = pyarrow.BufferOutputStream()
    pyarrow.csv.write_csv(houses.rows(), sink)
    return bytes(sink.getvalue().to_pybytes())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "sentence"),
    [
        ("def preprocess(inputs): ...", "--module_file m.py has no function preprocessing_fn(inputs)"),
        (returning("{'a': 1}"), "preprocessing_fn returns 'a', which is int32; expected int64, float32 or"),
        (returning("{'a': inputs}"), "preprocessing_fn returns 'a', which is a dict; expected a tensor"),
        (CUSTOM.replace("Globally(Longest", "Globally(Long"), "its analyzers cannot be run: NameError: name 'Long'"),
        (returning("{'a': tft.scale_to_z_score(inputs['text'])}"), "m.py line 4: preprocessing_fn raises TypeError"),
        (returning("{'a': inputs['rooms'] > 3}"), "which is bool; expected int64, float32 or string: cast it"),
        (returning("{'a': tft.min(inputs['rooms'])}"), "expected one row an example, whose shape is known"),
        (returning("{'a': tf.strings.split(inputs['text'])}"), "is ragged; give what its to_sparse() makes of it"),
    ],
)
def test_what_a_module_does_wrong(jobs: Jobs, table: bytes, module: str, sentence: str) -> None:
    line = "csv --module_file m.py --splits train=0.7,test=0.3 --quiet"
    jobs.refuse(line, sentence, files={"a.csv": table, "../m.py": module})


@pytest.mark.slow
def test_what_only_examples_show_of_a_module(jobs: Jobs, table: bytes) -> None:
    files = {"a.csv": table, "../m.py": TFT + ASSERTS}
    line = "csv --module_file m.py --quiet --splits"
    sentence = "TensorFlow Transform cannot analyze the examples: assertion failed: [many rooms]"
    jobs.fail(f"{line} train=0.7,test=0.3", sentence, files=files)
    files = {"a.csv": b"id,label\n1,a\n2,b\n", "../m.py": returning("{'a': tft.scale_to_z_score(inputs['id'])}")}
    sentence = "--module_file: no example is in split 'train', which is analyzed"
    jobs.fail(f"{line} train=0.000001,test=0.999999", sentence, files=files)
    there = "there is no split 'train' to compute constants from; the splits are fit, test; --analyze_splits names"
    jobs.refuse(f"{line} fit=0.5,test=0.5 --name other", f"--module_file: {there}")
    both = "--module_file and --transform: each makes a transform graph"
    jobs.refuse("csv --module_file m.py --transform t.yaml --name other", both, files={"../t.yaml": "fare: z_score"})


@pytest.mark.slow
def test_a_row_that_the_graph_does_not_take_is_a_reject_and_the_others_are_written(jobs: Jobs) -> None:
    splits = {"train": range(9), "test": (1, 99, 2, 3)}
    files = {f"{split}/a.csv": "\n".join(["rooms", *map(str, rooms), ""]) for split, rooms in splits.items()}
    line = "csv --materialize --module_file m.py --max_reject_fraction 0.2"  # whose assertion holds for `train`
    made = jobs.build(line, files={**files, "../m.py": TFT + ASSERTS})
    (reject,) = made.rejects
    assert "rooms=[99]" in json.dumps(reject)
    assert reject["reason"].startswith("the transform graph fails: assertion failed: [many rooms]")
    found = sorted(float(row["a"][0]) for row in houses.examples(made.directory, "test"))
    assert found == pytest.approx([(value - 4) / np.std(range(9)) for value in (1, 2, 3)], abs=1e-5)
    assert len(serialized(made.directory, "train")) == 9


def test_an_installation_without_tft_says_what_to_install(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardmill.addons.transform.options.find_spec", lambda name: None)
    sentence = f"--transform needs TensorFlow Transform; {install_hint('transform')}"
    jobs.refuse("csv --transform t.yaml", sentence, files={**CITIES, "../t.yaml": "age: z_score"})
