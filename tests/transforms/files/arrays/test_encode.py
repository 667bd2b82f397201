"""Arrays as examples: bytes, features, statistics, and a Reject for each file that does not fit."""

import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.data import example
from shardmill.data.example import decode_example
from shardmill.data.tfrecord import read_records
from shardmill.metadata.labels import ClassNames
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.arrow import convert_batch
from shardmill.transforms.columns.example_encoding import MAX_RECORD_BYTES
from shardmill.transforms.files.arrays import ArrayEncoder, ArrayLayout, ArrayStats, ArrayType, NpyError, read_header
from shardmill.transforms.files.references import PLANNED
from shardmill.transforms.inputs.folders import CLASSES
from shardmill.transforms.shards.sources import EncodedChunk
from tests.support.command import write_files
from tests.support.profiles import as_json

FLOATS = ArrayType("float32", (2, 3))
LAYOUT = ArrayLayout(("train",), None, CLASSES, ClassNames(("a", "b")), array=FLOATS, example="a.npy")


def npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def encode(root: Path, *rows: dict[str, Any], layout: ArrayLayout = LAYOUT) -> EncodedChunk:
    columns = [[row.get(field.name) for row in rows] for field in PLANNED]
    columns[PLANNED.get_field_index("size")] = [row.get("size", 0) for row in rows]
    return ArrayEncoder(str(root), "scan").of_layout(layout)(convert_batch(columns, PLANNED))


def examples(chunk: EncodedChunk) -> list[dict[str, Any]]:
    return [decode_example(record) for record in read_records(io.BytesIO(chunk.framed), "chunk")]


def test_an_example(tmp_path: Path) -> None:
    array = np.array([[1.5, -2, 3], [4, 5, 6]], np.float32)
    write_files(tmp_path, {"x/a.npy": npy(array), "x/b.npy": npy(np.asfortranarray(array.astype(">f4")))})
    age = example.encode_entry("age", example.encode_int64_feature([7]))
    chunk = encode(tmp_path, {"name": "x/a.npy", "label": 1, "columns": age}, {"name": "x/b.npy"})
    first, second = examples(chunk)

    assert list(first) == ["scan", "label", "filename", "age"]
    assert first["scan"] == second["scan"] == [array.tobytes()]
    assert (first["label"].tolist(), first["filename"], first["age"].tolist()) == ([1], [b"x/a.npy"], [7])
    assert list(second) == ["scan", "filename"]
    assert (chunk.examples, chunk.rejects) == (2, [])


def test_what_does_not_fit_is_a_reject_and_the_others_are_written(tmp_path: Path) -> None:
    good = npy(np.zeros((2, 3), np.float32))
    write_files(tmp_path, {"a.npy": good, "b.npy": npy(np.zeros((3, 4), np.int64)), "c.npy": good[:-1], "e.npy": good})
    names = ["a.npy", "b.npy", "c.npy", "gone.npy", "e.npy"]
    huge = {"name": "a.npy", "size": MAX_RECORD_BYTES + 1, "line": 9}
    chunk = encode(tmp_path, *({"name": name, "line": line} for line, name in enumerate(names, 2)), huge)

    assert [row["filename"] for row in examples(chunk)] == [[b"a.npy"], [b"e.npy"]]
    assert chunk.rejects == [
        Reject("b.npy", 3, "write", "int64 of 3 x 4; expected float32 of 2 x 3, as in a.npy"),
        Reject("c.npy", 4, "write", "truncated: 1 of the 24 bytes of float32 of 2 x 3 are missing"),
        Reject("gone.npy", 5, "write", "no such file: it vanished after it was listed"),
        Reject("a.npy", 9, "write", "2,147,483,648 bytes as an example, which holds 2,147,483,647 at most"),
    ]


def test_a_file_elsewhere(tmp_path: Path) -> None:
    write_files(tmp_path, {"a.npy": npy(np.ones((2, 3), np.float32))})
    uri = str(tmp_path / "a.npy")

    assert examples(encode(Path("/nowhere"), {"name": uri, "uri": uri}))[0]["filename"] == [uri.encode()]


@pytest.mark.parametrize(
    ("element", "values", "expected"),
    [
        ("float32", [1.5, -2.0, 3.0], {"min": -2.0, "max": 3.0}),
        ("float64", [np.nan, np.inf, 0.1, -np.inf], {"min": 0.1, "max": 0.1, "nan": 1, "infinity": 2}),
        ("float16", [np.nan], {"nan": 1}),
        ("uint8", [0, 255], {"min": 0, "max": 255}),
        ("int64", [-(1 << 63), (1 << 63) - 1], {"min": -(1 << 63), "max": (1 << 63) - 1}),
        ("bool", [True, False], {"min": 0, "max": 1}),
        ("complex64", [1j], None),
    ],
)
def test_statistics(element: str, values: list[Any], expected: dict[str, Any] | None) -> None:
    stats = ArrayStats("scan")
    stats.add(np.array(values, element).tobytes(), element)
    found = stats.summary({})["scan"].to_json()

    assert found.get("values") == expected
    assert found["size_bytes"]["max"] == np.array(values, element).nbytes


@given(st.lists(st.lists(st.floats(width=32), min_size=1, max_size=3), min_size=1, max_size=5), st.integers(0, 5))
def test_statistics_know_no_order(rows: list[list[float]], cut: int) -> None:
    def of(parts: list[list[float]]) -> ArrayStats:
        stats = ArrayStats("x")
        for part in parts:
            stats.add(np.array(part, np.float32).tobytes(), "float32")
        return stats

    merged = of(rows[cut:])
    merged.merge(of(rows[:cut]))
    assert json.dumps(as_json(merged.summary({}))) == json.dumps(as_json(of(rows).summary({})))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "the file is empty"),
        (b"\x89HDF\r\n\x1a\n", "not .npy, but an HDF5 file, which h5py reads; save the array with numpy.save"),
        (bytes(128) + b"DICM", "not .npy, but a DICOM image, which pydicom reads; save the array with numpy.save"),
        (b"text", "not .npy: it begins with 'text'"),
    ],
)
def test_another_file_is_named(data: bytes, said: str) -> None:
    with pytest.raises(NpyError, match=f"^{re.escape(said)}$"):
        read_header(data)
