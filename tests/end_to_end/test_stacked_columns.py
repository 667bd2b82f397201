"""Columns of numbers that become one feature (--stack), and fields that hold lists of numbers (--list_separator)."""

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import shardmill
from tests.support.command import Run
from tests.support.later import Later

tfds = Later("tensorflow_datasets")

PIXELS = np.arange(40 * 12).reshape(40, 12) % 256
NAMES = [f"pixel{n}" for n in range(12)]


def write(folder: Path, kind: str, values: np.ndarray) -> Path:
    path = folder / f"rows.{kind}"
    rows = [{"label": n % 3, **dict(zip(NAMES, row))} for n, row in enumerate(values.tolist())]
    if kind == "csv":
        lines = (",".join("" if value is None else str(value) for value in row.values()) for row in rows)
        path.write_text("\n".join([",".join(rows[0]), *lines]) + "\n")
    elif kind == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pa.parquet.write_table(pa.Table.from_pylist(rows), path)
    return path


def convert(run: Run, path: Path, *flags: object) -> tuple[int, str, list[dict[str, Any]]]:
    out = path.parent / "out"
    result = run(
        path.suffix[1:], "--input", path, "--output", out, "--name", "n", "--overwrite", "--no_shuffle", *flags
    )
    examples = list(shardmill.examples(out / "n/1.0.0", split="train")) if result.status == 0 else []
    return result.status, result.out + result.err, examples


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize(
    ("stack", "dtype", "shape"),
    [
        ("image=pixel*", np.int64, (12,)),
        ("image=pixel*:float32", np.float32, (12,)),
        ("image=pixel*:3,4", np.int64, (3, 4)),
        ("image=pixel*:uint8:3,4", np.uint8, (3, 4)),
        ("image=*", np.int64, (12,)),
    ],
)
def test_stack(run: Run, tmp_path: Path, kind: str, stack: str, dtype: type, shape: tuple[int, ...]) -> None:
    status, said, examples = convert(run, write(tmp_path, kind, PIXELS), "--stack", stack, "--label", "label")

    assert status == 0, said
    assert [set(example) for example in examples] == [{"image", "label"}] * 40
    stacked = np.stack([example["image"] for example in examples])
    assert stacked.dtype == dtype
    assert stacked.shape == (40, *shape)
    assert (stacked.reshape(40, 12) == PIXELS).all()
    [read] = tfds.builder_from_directory(tmp_path / "out/n/1.0.0").as_dataset(split="train").take(1)
    assert (read["image"].numpy().reshape(12) == PIXELS[0]).all()
    again = ("--schema", tmp_path / "out/n/1.0.0/schema.pbtxt", "--version", "1.0.1", "--stack", stack)
    if kind != "jsonl":
        assert convert(run, tmp_path / f"rows.{kind}", *again, "--label", "label")[0] == 0
        assert len(list(shardmill.examples(tmp_path / "out/n/1.0.1", split="train"))) == 40


@pytest.mark.parametrize(
    ("stack", "message"),
    [
        ("image=pixl*", "no column has such a name"),
        ("label=pixel*", "there is a column 'label'"),
        ("image=pixel*:5,5", "the shape has 25 values, not 12"),
        ("image", "expected NAME=COLUMNS"),
        ("image=pixel*:uint16", "no column has such a name"),
    ],
)
def test_mistakes(run: Run, tmp_path: Path, stack: str, message: str) -> None:
    status, said, _ = convert(run, write(tmp_path, "csv", PIXELS), "--stack", stack)
    assert (status, message in said) == (2, True), said


def test_values_that_do_not_fit(run: Run, tmp_path: Path) -> None:
    values = PIXELS.astype(object)
    values[3, 5], values[7, 2] = 256, None
    path = write(tmp_path, "csv", values)
    flags = ("--stack", "image=pixel*:uint8", "--max_reject_fraction", "1")

    status, said, examples = convert(run, path, *flags)

    assert (status, len(examples)) == (0, 38), said
    assert "column 'pixel5': 256 is not 0 to 255 (uint8)" in said
    assert "column 'pixel2' has no value, and --stack image needs one in each row; --fill pixel2=0 supplies it" in said
    assert len(convert(run, path, *flags, "--fill", "pixel2=0")[2]) == 39
    values[:, 4] = "x"
    status, said, _ = convert(run, write(tmp_path, "csv", values), *flags)
    assert (status, "column 'pixel4' holds bytes; expected integers; leave it out with --drop pixel4" in said) == (
        2,
        True,
    )
    examples = convert(run, path, *flags, "--drop", "pixel4")[2]
    assert {len(example["image"]) for example in examples} == {11}


def test_many_numbered_columns_are_told(run: Run, tmp_path: Path) -> None:
    header, row = ",".join(f"emb_{n}" for n in range(128)), ",".join(f"{n / 7:.3f}" for n in range(128))
    (tmp_path / "rows.csv").write_text("\n".join([f"id,{header}", *(f"{n},{row}" for n in range(5))]))

    status, said, examples = convert(run, tmp_path / "rows.csv")

    assert (status, len(examples[0])) == (0, 129)
    assert "128 columns are called 'emb_' and a number, and each is a feature; " in said
    flags = said.split("and each is a feature; ")[1].split(" makes one")[0]
    _, said, examples = convert(run, tmp_path / "rows.csv", *shlex.split(flags))
    assert (set(examples[0]), "and each is a feature" in said) == ({"id", "embs"}, False)
