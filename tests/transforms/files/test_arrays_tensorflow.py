"""Tests of transforms/files/arrays.py."""

import io
import json
import pickle
import struct
from contextlib import suppress
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from shardmill.data import example
from shardmill.data.codecs import PLAIN_CODEC
from shardmill.data.example import decode_example
from shardmill.data.features import Feature
from shardmill.errors import UserError
from shardmill.metadata.labels import ClassNames
from shardmill.metadata.manifest import Reject
from shardmill.transforms.columns.arrow import convert_batch
from shardmill.transforms.columns.example_encoding import MAX_RECORD_BYTES
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.files.arrays import (
    HEADER_BYTES,
    ArrayEncoder,
    ArrayLayout,
    ArrayOptions,
    ArrayStats,
    ArrayType,
    NpyError,
    make_array_layout,
    read_array,
    read_header,
)
from shardmill.transforms.files.references import PLANNED
from shardmill.transforms.findings import merged
from shardmill.transforms.inputs.folders import CLASSES
from shardmill.transforms.inputs.found_files import FOUND
from shardmill.transforms.inputs.summary import InputSummary, summarize_batch
from shardmill.transforms.layout.options import FileLayoutOptions
from shardmill.transforms.options.image_options import ELEMENTS
from shardmill.transforms.shards.sources import EncodedChunk
from tests.support.command import npy, write_files
from tests.support.profiles import as_json


def with_header(text: str, version: int = 1, data: bytes = b"") -> bytes:
    """A .npy file with a header of one's own."""
    header = text.encode("latin-1")
    return b"\x93NUMPY" + bytes([version, 0]) + struct.pack("<H" if version == 1 else "<I", len(header)) + header + data


@given(
    st.sampled_from(ELEMENTS).flatmap(
        lambda name: arrays.arrays(np.dtype(name), arrays.array_shapes(min_dims=0, max_dims=4, min_side=1, max_side=4))
    ),
    st.sampled_from("CF"),
    st.sampled_from("<>"),
    st.sampled_from([(1, 0), (2, 0), (3, 0)]),
)
def test_any_array_in_any_order_of_axes_and_bytes(
    array: np.ndarray, axes: Any, order: Any, version: tuple[int, int]
) -> None:
    data = npy(np.asarray(array, array.dtype.newbyteorder(order), order=axes), version)
    header = read_header(data[:HEADER_BYTES])

    assert header.type == ArrayType(array.dtype.name, array.shape)
    assert header.type.size_bytes == array.nbytes
    assert read_array(data, header.type) == read_array(data) == array.astype(array.dtype.newbyteorder("<")).tobytes("C")


@pytest.mark.slow
def test_tensorflow_reads_each_type() -> None:
    import tensorflow as tf

    for element in ELEMENTS:
        array = np.array([[0, 1, 1], [1, 0, 1]], element)
        decoded = tf.reshape(
            tf.io.decode_raw(read_array(npy(np.asfortranarray(array))), tf.as_dtype(element)), array.shape
        )
        assert np.array_equal(decoded.numpy(), array)


class Bomb:
    """What must never be unpickled."""

    def __reduce__(self) -> Any:
        return pytest.fail, ("a pickle was loaded",)


GOOD = npy(np.arange(12, dtype=np.int64).reshape(3, 4))
ZIPPED = io.BytesIO()
np.savez(ZIPPED, a=np.zeros(3))
DESCRIBED = "{'descr': %r, 'fortran_order': True, 'shape': %s}"
UNREADABLE = "its header cannot be read"
BAD: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "the file is empty"),
    "HDF5": (b"\x89HDF\r\n\x1a\n", "not .npy, but an HDF5 file, which h5py reads; save the array with numpy.save"),
    "DICOM": (bytes(128) + b"DICM", "not .npy, but a DICOM image, which pydicom reads; save the array with numpy.save"),
    "text": (b"hello\nworld", "not .npy: it begins with 'hello\\nworld'"),
    "a JPEG": (b"\xff\xd8\xff\xe0" + bytes(100), "not .npy: it begins with '\\xff\\xd8\\xff\\xe0"),
    "npz": (ZIPPED.getvalue(), "not .npy, but a zip archive; save the array with numpy.save"),
    "a pickle": (pickle.dumps(Bomb()), "not .npy, but a pickle"),
    "magic alone": (GOOD[:6], UNREADABLE),
    "half a header": (GOOD[:40], UNREADABLE),
    "another version": (b"\x93NUMPY\x07\x00" + GOOD[8:], ".npy of version 7.0; expected 1.0, 2.0 or 3.0"),
    "cut off": (GOOD[:-1], "truncated: 1 of the 96 bytes of int64 of 3 x 4 are missing"),
    "no values": (GOOD[:128], "truncated: 96 of the 96 bytes"),
    "two arrays": (GOOD + GOOD, f"{len(GOOD)} bytes follow int64 of 3 x 4; expected one array and no more"),
    "objects": (npy(np.array([Bomb()], object)), "an array of dtype object; only numbers and booleans"),
    "strings": (npy(np.array(["a", "bc"])), "an array of dtype <U2; only numbers and booleans"),
    "bytes": (npy(np.array([b"a"])), "an array of dtype |S1; only"),
    "dates": (npy(np.array(["2024-02-29"], "M8[D]")), "an array of dtype datetime64[D]; only"),
    "a structure": (npy(np.zeros(2, "i4,f4")), "an array of dtype [('f0', '<i4'), ('f1', '<f4')]; only"),
    "names beyond latin-1": (npy(np.zeros(2, [("ж", "i4")]), (3, 0)), "an array of dtype [("),
    "uint32": (
        npy(np.zeros(2, np.uint32)),
        "an array of uint32, which tf.io.decode_raw does not read; expected one of",
    ),
    "uint64": (npy(np.zeros(2, np.uint64)), "an array of uint64, which"),
    "longdouble": (npy(np.zeros(2, np.longdouble)), "an array of float128, which"),
    "no size": (npy(np.zeros((0, 4), np.float32)), "float32 of 0 x 4 holds no values"),
    "a claim": (
        with_header(DESCRIBED % ("<f4", str((1_000_000, 1_000_000)))),
        "truncated: 4,000,000,000,000 of the 4,000,000,000,000 bytes of float32 of 1000000 x 1000000",
    ),
    "less than nothing": (with_header(DESCRIBED % ("<f4", str((-1, 4)))), "its header claims float32 of -1"),
    "dimensions": (with_header(DESCRIBED % ("<f4", str((1,) * 99))), "an array of 99 dimensions"),
    "code": (with_header("__import__('os').system('false')"), UNREADABLE),
    "nesting": (with_header("(" * 9000), UNREADABLE),
    "unbalanced": (with_header("{'descr': ("), UNREADABLE),
    "other keys": (with_header("{'shape': (1,)}"), UNREADABLE),
    "a size that is no number": (with_header(DESCRIBED % ("<f4", str(("a",)))), UNREADABLE),
    "no type": (with_header(DESCRIBED % ("<q9", str((1,)))), UNREADABLE),
    "a long header": (with_header(" " * 60_000), UNREADABLE),
    "a header of 4 GB": (b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}", UNREADABLE),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_array(name: str) -> None:
    data, sentence = BAD[name]

    with pytest.raises(NpyError) as error:
        read_array(data)
    assert str(error.value).startswith(sentence), str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "array", [np.zeros((64, 65), np.float32), np.zeros((64, 64), np.float64), np.zeros(4096, np.float32)]
)
def test_arrays_of_another_type(array: np.ndarray) -> None:
    shape = " x ".join(map(str, array.shape))

    with pytest.raises(NpyError) as error:
        read_array(npy(array), expected := ArrayType("float32", (64, 64)), "a.npy")
    problem, _, remedy = str(error.value).partition("; save array.")
    assert problem == f"{array.dtype} of {shape}; expected float32 of 64 x 64, as in a.npy"
    assert bool(remedy) == (array.shape == (64, 64))
    if remedy:
        assert remedy == "astype('float32') in its place"
        assert read_array(npy(array.astype("float32")), expected) == array.astype("float32").tobytes()


def test_a_header_of_python_2(recwarn: pytest.WarningsRecorder) -> None:
    data = with_header("{'descr': '<f4', 'fortran_order': False, 'shape': (2L,)}", data=bytes(8))

    assert read_header(data).type == ArrayType("float32", (2,))
    assert not recwarn.list


@given(st.binary(max_size=60), st.integers(1, 3))
def test_noise_behind_the_magic(noise: bytes, version: int) -> None:
    begun, disturbed = b"\x93NUMPY" + bytes([version, 0]) + noise, GOOD[:20] + noise + GOOD[20 + len(noise) :]
    for data in (noise, b"\x93NUMPY" + noise, begun, disturbed):
        with suppress(NpyError):
            assert isinstance(read_array(data), bytes)


FLOATS = ArrayType("float32", (2, 3))
LAYOUT = ArrayLayout(("train",), None, CLASSES, ClassNames(("a", "b")), array=FLOATS, example="a.npy")


def encode(root: Path, *rows: dict[str, Any], layout: ArrayLayout = LAYOUT) -> EncodedChunk:
    columns = [[row.get(field.name) for row in rows] for field in PLANNED]
    columns[PLANNED.get_field_index("size")] = [row.get("size", 0) for row in rows]
    return ArrayEncoder(str(root), "scan").of_layout(layout)(convert_batch(columns, PLANNED))


def examples(chunk: EncodedChunk) -> list[dict[str, Any]]:
    return [decode_example(record) for record in PLAIN_CODEC.read_records(io.BytesIO(chunk.framed), "chunk")]


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
    names = ["a.npy", "b.npy", "c.npy", "e.npy"]
    huge = {"name": "a.npy", "size": MAX_RECORD_BYTES + 1, "line": 9}
    chunk = encode(tmp_path, *({"name": name, "line": line} for line, name in enumerate(names, 2)), huge)

    assert [row["filename"] for row in examples(chunk)] == [[b"a.npy"], [b"e.npy"]]
    assert chunk.rejects == [
        Reject("b.npy", 3, "write", "int64 of 3 x 4; expected float32 of 2 x 3, as in a.npy"),
        Reject("c.npy", 4, "write", "truncated: 1 of the 24 bytes of float32 of 2 x 3 are missing"),
        Reject("a.npy", 9, "write", "2,147,483,648 bytes as an example, which holds 2,147,483,647 at most"),
    ]


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
    stats.add(np.array(values, element).tobytes(), element, "a")
    found = stats.summary({})["scan"].to_json()

    assert found.get("values") == expected
    assert found["size_bytes"]["max"] == np.array(values, element).nbytes


@given(st.lists(st.lists(st.floats(width=32), min_size=1, max_size=3), min_size=1, max_size=5), st.integers(0, 5))
def test_statistics_know_no_order(rows: list[list[float]], cut: int) -> None:
    def of(parts: list[list[float]]) -> ArrayStats:
        stats = ArrayStats("x")
        for part in parts:
            stats.add(np.array(part, np.float32).tobytes(), "float32", "a")
        return stats

    merged = of(rows[cut:])
    merged.merge(of(rows[:cut]))
    assert json.dumps(as_json(merged.summary({}))) == json.dumps(as_json(of(rows).summary({})))


OPTIONS = FileLayoutOptions("--input scans")
SCANS = ArrayType("float32", (4, 3))


def found(*names: str, uris: list[str | None] | None = None) -> pa.RecordBatch:
    nothing: list[None] = [None] * len(names)
    return convert_batch([list(names), [1] * len(names), uris or nothing, *[nothing] * 4], FOUND)


def test_the_first_file_of_all_batches_says_the_type(tmp_path: Path) -> None:
    files: dict[str, np.ndarray] = {
        "b/0.npy": np.zeros(7),
        "a/1.npy": np.zeros((4, 3), np.float32),
        "a/2.npy": np.zeros(9, np.int8),
    }
    write_files(tmp_path, {name: npy(array) for name, array in files.items()})
    parts = [summarize_batch(found("b/0.npy")), summarize_batch(found("a/2.npy", "a/1.npy")), InputSummary(rejected=1)]
    for order in (parts, parts[::-1]):
        summary = reduce(merged, order, InputSummary())
        layout = make_array_layout(summary, OPTIONS, ArrayOptions(str(tmp_path)))

        assert (layout.array, layout.example) == (SCANS, "a/1.npy")
        assert layout.notices == (
            "the arrays are float32 of 4 x 3, as is 'a/1.npy', the first by name; others are rejected",
        )
        assert layout.class_names is not None


def test_the_first_file_of_a_manifest_may_lie_elsewhere(tmp_path: Path) -> None:
    write_files(tmp_path, {"x/0.npy": npy(np.zeros((4, 3), np.float32))})
    uri = str(tmp_path / "x" / "0.npy")
    layout = make_array_layout(summarize_batch(found(uri, uris=[uri])), OPTIONS, ArrayOptions("/nowhere"))

    assert layout.array == SCANS


def test_what_is_said_is_not_looked_up() -> None:
    summary = summarize_batch(found("gone.npy"), {"height": ColumnType("int64", None, 1)})
    layout = make_array_layout(summary, OPTIONS, ArrayOptions("/nowhere", "scan", SCANS))

    assert (layout.array, layout.example, layout.notices) == (SCANS, "", ())
    assert ArrayEncoder("", "scan").describe(summary, layout)[0] == (
        Feature("scan", "bytes", "array", (4, 3), element="float32"),
        Feature("filename", "bytes", "text", role="source"),
        Feature("height", "int64"),
    )


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


def test_arrays_that_no_example_holds_and_no_file_at_all() -> None:
    huge = ArrayOptions("", given=ArrayType("float64", (50_000, 50_000)))
    said = "^--shape and --dtype: float64 of 50000 x 50000 is 20,000,000,000 bytes; an example holds 2 GB"
    with pytest.raises(UserError, match=said):
        make_array_layout(summarize_batch(found("a")), OPTIONS, huge)
    with pytest.raises(UserError, match="has no file that says what the arrays are; give --shape and --dtype"):
        make_array_layout(InputSummary(rejected=1), OPTIONS, ArrayOptions(""))
