"""Labels of a manifest that are numbers to predict: said, for a label is a class; a column of its own holds them."""

from pathlib import Path

import numpy as np
import pytest

import shardmill
from tests.support.command import Run, check_mistake, image, write_files


def manifest(folder: Path, column: str, values: list[str]) -> Path:
    rows = "".join(f"{number}.jpg,{value}\n" for number, value in enumerate(values))
    files = {f"{number}.jpg": image(number) for number in range(len(values))}
    write_files(folder, {**files, "meta.csv": f"file_name,{column}\n{rows}".encode()})
    return folder / "meta.csv"


@pytest.mark.parametrize("values", [["0.5", "1.37", "2"], ["1e-3", "-2.5", ".5"]])
def test_fractions_are_no_classes(values: list[str], tmp_path: Path, run: Run) -> None:
    out = ("--output", tmp_path / "out", "--name", "n")
    by_default = run("images", "--manifest", manifest(tmp_path / "a", "label", values), *out)
    named = run("images", "--manifest", manifest(tmp_path / "b", "age", values), "--label_column", "age", *out)

    for done in (by_default, named):
        check_mistake(done, "the labels are numbers with fractions, such as ", "in a column of another name than")


def test_another_column_holds_them_as_they_are(tmp_path: Path, run: Run) -> None:
    path = manifest(tmp_path / "a", "age", ["0.5", "1.37", "2"])

    assert run("images", "--manifest", path, "--output", tmp_path, "--name", "n").status == 0
    ages = [example["age"] for example in shardmill.examples(tmp_path / "n")]
    assert np.allclose(sorted(ages), [0.5, 1.37, 2])


@pytest.mark.parametrize("values", [["0", "1", "2.0"], ["0.5", "low", "1"], ["1.2.3", "1.2.4", "1"]])
def test_other_labels_are_classes(values: list[str], tmp_path: Path, run: Run) -> None:
    path = manifest(tmp_path / "a", "label", values)

    assert run("images", "--manifest", path, "--output", tmp_path, "--name", "n").status == 0


def test_a_file_of_labels_says_that_they_are_classes(tmp_path: Path, run: Run) -> None:
    path = manifest(tmp_path / "a", "label", ["0.5", "1.5", "0.5"])
    labels = tmp_path / "labels.txt"
    labels.write_text("0.5\n1.5\n")
    words = ("images", "--manifest", path, "--output", tmp_path, "--name", "n", "--labels_file", labels)

    assert run(*words).status == 0
    assert sorted(example["label"] for example in shardmill.examples(tmp_path / "n")) == [0, 0, 1]
