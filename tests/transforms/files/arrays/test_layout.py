"""What all arrays are: as said, or as the first file by name is, wherever that was listed."""

import io
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from shardmill.data.features import Feature
from shardmill.errors import UserError
from shardmill.transforms.columns.arrow import convert_batch
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.files.arrays import ArrayOptions, ArrayType, array_features, make_array_layout
from shardmill.transforms.inputs.found_files import FOUND
from shardmill.transforms.inputs.summary import InputSummary, summarize_batch
from shardmill.transforms.layout.options import FileLayoutOptions
from tests.support.command import write_files

OPTIONS = FileLayoutOptions("--input scans")
FLOATS = ArrayType("float32", (4, 3))


def npy(array: np.ndarray) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def found(*names: str, uris: list[str | None] | None = None) -> pa.RecordBatch:
    nothing: list[None] = [None] * len(names)
    return convert_batch([list(names), [1] * len(names), uris or nothing, *[nothing] * 5], FOUND)


def test_the_first_file_of_all_batches_says_the_type(tmp_path: Path) -> None:
    files: dict[str, np.ndarray] = {
        "b/0.npy": np.zeros(7),
        "a/1.npy": np.zeros((4, 3), np.float32),
        "a/2.npy": np.zeros(9, np.int8),
    }
    write_files(tmp_path, {name: npy(array) for name, array in files.items()})
    parts = [summarize_batch(found("b/0.npy")), summarize_batch(found("a/2.npy", "a/1.npy")), InputSummary(rejected=1)]
    for order in (parts, parts[::-1]):
        summary = InputSummary()
        for part in order:
            summary = summary.merge(part)
        layout = make_array_layout(summary, OPTIONS, ArrayOptions(str(tmp_path)))

        assert (layout.array, layout.example) == (FLOATS, "a/1.npy")
        assert layout.notices == (
            "the arrays are float32 of 4 x 3, as is 'a/1.npy', the first by name; others are rejected",
        )
        assert layout.class_names is not None


def test_the_first_file_of_a_manifest_may_lie_elsewhere(tmp_path: Path) -> None:
    write_files(tmp_path, {"x/0.npy": npy(np.zeros((4, 3), np.float32))})
    uri = str(tmp_path / "x" / "0.npy")
    layout = make_array_layout(summarize_batch(found(uri, uris=[uri])), OPTIONS, ArrayOptions("/nowhere"))

    assert layout.array == FLOATS


def test_what_is_said_is_not_looked_up() -> None:
    summary = summarize_batch(found("gone.npy"))
    layout = make_array_layout(summary, OPTIONS, ArrayOptions("/nowhere", "scan", FLOATS))

    assert (layout.array, layout.example, layout.notices) == (FLOATS, "", ())
    assert array_features(layout, 1, "scan") == (
        Feature("scan", "bytes", "array", (4, 3), element="float32"),
        Feature("filename", "bytes", "text", role="source"),
    )


def test_features_of_a_manifest(tmp_path: Path) -> None:
    summary = summarize_batch(found("a.npy"), {"height": ColumnType("int64", None, 1)})
    layout = make_array_layout(summary, OPTIONS, ArrayOptions("", given=FLOATS))

    assert [feature.name for feature in array_features(layout, 1, "image")] == ["image", "filename", "height"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"hello", "does not say what the arrays are: not .npy: it begins with 'hello'; give --shape and --dtype"),
        (b"", "the file is empty; give --shape and --dtype"),
        (npy(np.zeros((0, 3))), "float64 of 0 x 3 holds no values; give --shape and --dtype"),
        (None, "no such file; give --shape and --dtype"),
    ],
)
def test_a_first_file_that_says_nothing(tmp_path: Path, content: bytes | None, sentence: str) -> None:
    if content is not None:
        (tmp_path / "a.npy").write_bytes(content)
    with pytest.raises(UserError) as error:
        make_array_layout(summarize_batch(found("a.npy")), OPTIONS, ArrayOptions(str(tmp_path)))
    assert str(error.value).startswith("--input scans: 'a.npy', the first file by name, ")
    assert sentence in str(error.value)


def test_arrays_that_no_example_holds(tmp_path: Path) -> None:
    with pytest.raises(
        UserError,
        match=r"^--shape and --dtype: float64 of 50000 x 50000 is 20,000,000,000 bytes; an example holds 2 GB",
    ):
        make_array_layout(
            summarize_batch(found("a")), OPTIONS, ArrayOptions("", given=ArrayType("float64", (50_000, 50_000)))
        )


def test_no_file_at_all() -> None:
    with pytest.raises(UserError, match="has no file that says what the arrays are; give --shape and --dtype"):
        make_array_layout(InputSummary(rejected=1), OPTIONS, ArrayOptions(""))
