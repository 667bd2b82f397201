"""Tables to Examples: the bytes of shardmill.data.example, and what TensorFlow reads in them."""

import mmap
from contextlib import suppress
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.data import example, spans
from shardmill.transforms.columns import example_encoding
from tests.support.encoded import encode_example
from tests.support.framed_records import check, one_column
from tests.support.later import Later

tf = Later("tensorflow")

BINARY = (pa.binary(), pa.large_binary(), pa.string(), pa.large_string())
LEAVES = (pa.int64(), pa.float32(), *BINARY)
INTS = st.one_of(
    st.integers(-(1 << 63), (1 << 63) - 1), st.integers(-3, 300), st.integers(0, 63).map(lambda bits: (1 << bits) - 1)
)
LENGTHS = st.sampled_from([0, 1, 7, 8, 9, 16, 17, 100, 118, 127, 128, 129, 300])
STRINGS = st.one_of(st.binary(max_size=30), LENGTHS.map(lambda length: b"\xff" * length))
FLOAT_BITS = st.one_of(
    st.integers(0, (1 << 32) - 1),  # signalling NaNs and their payloads among them
    st.sampled_from([0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0x7FA00001, 0x00000001]),
)
NAMES = st.one_of(
    st.text(st.characters(codec="utf-8"), max_size=12),
    st.sampled_from([1, 100, 110, 127, 128, 200]).map(lambda n: "n" * n),
)


def leaf_array(kind: pa.DataType, values: list[Any], mask: np.ndarray | None = None) -> pa.Array:
    """Integers, float32 as their bits, or bytes; strings need not be UTF-8."""
    if pa.types.is_float32(kind):
        return pa.array(np.array(values, np.uint32).view(np.float32), mask=mask)
    if pa.types.is_int64(kind):
        return pa.array(np.array(values, np.int64), mask=mask)
    large = kind in (pa.large_binary(), pa.large_string())
    masked = values if mask is None else [None if null else value for value, null in zip(values, mask)]
    return pa.array(masked, pa.large_binary() if large else pa.binary()).view(kind)


@st.composite
def arrays(draw: st.DrawFn, rows: int) -> pa.Array:
    leaf = draw(st.sampled_from(LEAVES))
    values = INTS if leaf == pa.int64() else FLOAT_BITS if leaf == pa.float32() else STRINGS
    nulls = draw(st.sampled_from(["none", "some", "all"]))
    null = st.booleans() if nulls == "some" else st.just(nulls == "all")
    mask = np.array(draw(st.lists(null, min_size=rows, max_size=rows)), bool)
    nesting = draw(st.sampled_from(["scalar", "list", "large_list", "fixed_size_list"]))
    if nesting == "scalar":
        return leaf_array(leaf, draw(st.lists(values, min_size=rows, max_size=rows)), mask)
    if nesting == "fixed_size_list":
        size = draw(st.integers(1, 4))
        items = leaf_array(leaf, draw(st.lists(values, min_size=rows * size, max_size=rows * size)))
        return pa.FixedSizeListArray.from_arrays(items, size, mask=pa.array(mask))
    counts = draw(st.lists(st.sampled_from([0, 1, 2, 3, 40]), min_size=rows, max_size=rows))
    some = draw(st.lists(values, min_size=1, max_size=8))
    items = leaf_array(leaf, [some[index % len(some)] for index in range(sum(counts))])
    lists = pa.ListArray if nesting == "list" else pa.LargeListArray
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32 if nesting == "list" else np.int64)
    return lists.from_arrays(pa.array(offsets), items, mask=pa.array(mask))


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    """Any columns, often a slice of a larger batch."""
    rows = draw(st.integers(1, 12))
    names = draw(st.lists(NAMES, min_size=1, max_size=5, unique=True))
    batch = pa.RecordBatch.from_arrays([draw(arrays(rows)) for _ in names], names=names)
    start = draw(st.integers(0, rows))
    return batch.slice(start, draw(st.integers(0, rows - start)))


@given(batches())
def test_bytes_are_those_of_the_plain_encoder(batch: pa.RecordBatch) -> None:
    check(batch)


def parsed(record: bytes) -> dict[str, tuple[str, list[Any]]]:
    features = tf.train.Example.FromString(record).features.feature
    kinds = {name: feature.WhichOneof("kind") for name, feature in features.items()}
    return {name: (kind, list(getattr(features[name], kind).value)) for name, kind in kinds.items()}


@pytest.mark.slow
def test_nulls_have_no_entry_and_empty_lists_an_empty_one() -> None:
    batch = pa.RecordBatch.from_pydict(
        {
            "i": pa.array([[1], None, []], pa.list_(pa.int64())),
            "f": pa.array([None, [0.5], []], pa.large_list(pa.float32())),
            "b": pa.array([[b""], [], None], pa.list_(pa.binary())),
            "s": pa.array(["", None, "é"]),
        }
    )

    assert [parsed(record) for record in example_encoding.encode_examples(batch).to_pylist()] == [
        {"i": ("int64_list", [1]), "b": ("bytes_list", [b""]), "s": ("bytes_list", [b""])},
        {"f": ("float_list", [0.5]), "b": ("bytes_list", [])},
        {"i": ("int64_list", []), "f": ("float_list", []), "s": ("bytes_list", ["é".encode()])},
    ]
    check(batch)


@pytest.mark.parametrize("bits", [0x7FA00001, 0xFFC12345, 0x80000000, 0xFF800000, 0x00000001])
def test_floats_keep_their_bits(bits: int) -> None:
    floats = leaf_array(pa.float32(), [bits])
    golden = "0a0f0a0d0a0178120812060a04" + bits.to_bytes(4, "little").hex()

    for values in (floats, pa.FixedSizeListArray.from_arrays(floats, 1)):
        assert example_encoding.encode_examples(one_column(values)).to_pylist()[0].hex() == golden


def test_what_lies_under_a_null_does_not_matter() -> None:
    offsets = pa.array([0, 2, 4, 5], pa.int32())
    values = pa.array([1, 2, None, 1 << 40, 5])
    lists = pa.ListArray.from_arrays(offsets, values, mask=pa.array([False, True, False]))
    fixed = pa.FixedSizeListArray.from_arrays(
        pa.array([b"a", None, b"c" * 200]), 1, mask=pa.array([False, True, False])
    )

    check(pa.RecordBatch.from_arrays([lists, fixed], names=["lists", "fixed"]))


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int64()), pa.large_list(pa.float32()), pa.list_(pa.string()), pa.list_(pa.int64(), 2)]
)
def test_a_null_inside_a_list_is_refused(kind: pa.DataType) -> None:
    leaf = "a" if kind.value_type == pa.string() else 1
    batch = pa.RecordBatch.from_pydict({"fine": [1, 2, 3], "odd": pa.array([[leaf, leaf], None, [leaf, None]], kind)})

    for encode in (example_encoding.encode_examples, example_encoding.encode_framed, example_encoding.example_sizes):
        with pytest.raises(ValueError, match="column 'odd': the list in row 2 of the batch has a null"):
            encode(batch)
    check(batch.slice(0, 2))


OTHERS = (
    pa.int32(),
    pa.float64(),
    pa.bool_(),
    pa.null(),
    pa.timestamp("us"),
    pa.list_(pa.int32()),
    pa.list_(pa.list_(pa.int64())),
)


@pytest.mark.parametrize("kind", OTHERS)
def test_other_types_are_refused(kind: pa.DataType) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([None], kind)], names=["fine", "odd"])

    for encode in (example_encoding.encode_examples, example_encoding.encode_framed, example_encoding.example_sizes):
        with pytest.raises(TypeError) as raised:
            encode(batch)
        assert f"column 'odd' is {kind}; expected int64, float32, binary, string" in str(raised.value)


def test_no_columns() -> None:
    batch = pa.RecordBatch.from_struct_array(pa.array([{}] * 3, pa.struct([])))

    assert example_encoding.encode_examples(batch).to_pylist() == [encode_example({})] * 3
    check(batch)


@pytest.mark.parametrize("leaf", LEAVES)
@pytest.mark.parametrize("nest", [lambda leaf: leaf, pa.list_, pa.large_list, lambda leaf: pa.list_(leaf, 3)])
def test_no_rows(leaf: pa.DataType, nest: Any) -> None:
    batch = one_column(pa.array([], nest(leaf)))

    assert example_encoding.encode_examples(batch).type == pa.large_binary()
    assert example_encoding.example_sizes(batch).shape == (0,)
    check(batch)


def table(rows: int, seed: int = 0) -> pa.RecordBatch:
    """A bit of everything, with lengths on both sides of what the encoder treats alike."""
    rng = np.random.default_rng(seed)
    mask = rng.random(rows) < 0.1
    ints = rng.integers(-(1 << 63), (1 << 63) - 1, rows) >> rng.integers(0, 64, rows)
    counts = rng.integers(0, 9, rows)
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]), pa.int32())
    words = [b"w" * size for size in rng.integers(0, 12, int(counts.sum())).tolist()]
    texts = [
        b"t" * size
        for size in rng.choice([3, 100, 130, 200, 900, 2047, 2048, 5000], rows, p=[0.93, *[0.01] * 7]).tolist()
    ]
    columns = {
        "small": pa.array(rng.integers(0, 1000, rows)),
        "ints": pa.array(ints, mask=mask),
        "floats": pa.array(rng.standard_normal(rows).astype(np.float32), mask=mask[::-1].copy()),
        "fixed": pa.FixedSizeListArray.from_arrays(pa.array(rng.standard_normal(rows * 3).astype(np.float32)), 3),
        "lists": pa.ListArray.from_arrays(offsets, pa.array(rng.integers(0, 1 << 20, int(counts.sum())))),
        "words": pa.ListArray.from_arrays(offsets, pa.array(words, pa.binary())),
        "texts": pa.array(texts, pa.binary()),
        "last": pa.array([None if null else "x" * size for null, size in zip(mask, counts.tolist())]),
    }
    return pa.RecordBatch.from_pydict(columns)


def test_many_rows() -> None:
    check(table(9000))


@pytest.mark.parametrize("rows", [1, 8191, 8192, 8193])
def test_rows_do_not_depend_on_their_neighbours(rows: int) -> None:
    whole = table(8200)
    records = example_encoding.encode_examples(whole)

    assert example_encoding.encode_examples(whole.slice(3, rows)).equals(records.slice(3, rows))
    order = np.random.default_rng(1).permutation(rows)
    assert example_encoding.encode_examples(whole.take(pa.array(order))).equals(records.take(pa.array(order)))


def test_lists_of_size_zero() -> None:
    check(one_column(pa.array([[], [], None], pa.list_(pa.float32(), 0))))


def test_ten_thousand_columns() -> None:
    rng = np.random.default_rng(2)
    columns = []
    for number in range(10_000):
        kinds = (
            rng.integers(0, 1000, 2),
            rng.standard_normal(2).astype(np.float32),
            [f"word {number}", None],
            ["x" * 150, ""],
        )
        columns.append(pa.array(kinds[number % 4]))
    check(pa.RecordBatch.from_arrays(columns, names=[f"column {number}" for number in range(10_000)]))


NUMBERS = st.lists(st.integers(-3, 40), max_size=5)
PIECES = st.one_of(st.none(), st.binary(max_size=40), NUMBERS)


@given(st.lists(st.tuples(st.binary(max_size=60), st.integers(0, 30), *[PIECES] * 3), max_size=3), NUMBERS, NUMBERS)
@settings(max_examples=200)
def test_compiled_functions_refuse_what_does_not_fit(
    columns: list[Any], entries: list[int], offsets: list[int]
) -> None:
    """Sizes and offsets of any kind are an error or are written within the buffer, never a crash."""

    def filled(piece: Any) -> Any:
        return np.array(piece, np.int64) if isinstance(piece, list) else piece

    made = [tuple(map(filled, column)) for column in columns]
    sizes, places = np.array(entries, np.int64), np.array(offsets, np.int64)
    guarded = np.full(300, 7, np.uint8)
    refused = suppress(ValueError, TypeError, BufferError)
    with refused:
        spans.size_entries(made, sizes.copy())
    for framed in (False, True):
        with refused:
            spans.encode_rows(made, sizes, places, guarded[100:200], not framed, framed)
    assert (guarded[:100] == 7).all()
    assert (guarded[200:] == 7).all()


@pytest.mark.parametrize("framed", [False, True])
def test_compiled_functions_refuse_sizes_that_are_not_those_of_the_values(framed: bool) -> None:
    assert spans.COMPILED
    texts, name = np.frombuffer(b"aabbbcc", np.uint8), b"\x0a\x01x\x12"
    ends = np.array([0, 2, 5, 7])
    columns: list[spans.NativeColumn] = [(name, 0x0A, texts, ends, None)]
    entries = np.empty(3, np.int64)
    spans.size_entries(columns, entries)
    sizes = entries + 2 + 16 * framed
    places = np.append(0, np.cumsum(sizes))
    out = np.zeros(int(places[-1]), np.uint8)
    spans.encode_rows(columns, entries, places, out, True, framed)

    assert b"bbb" in out.tobytes()
    for row in range(3):
        for wrong in (-1, 1):
            other = entries.copy()
            other[row] += wrong
            shifted = np.append(0, np.cumsum(other + 2 + 16 * framed))
            room = np.zeros(int(shifted[-1]), np.uint8)
            with pytest.raises(ValueError, match="sizes of the records are not those of their values"):
                spans.encode_rows(columns, other, shifted, room, True, framed)
    with pytest.raises(ValueError, match="sizes of the records"):
        spans.encode_rows(columns, entries, places, out[:-1], True, framed)
    for bad in (ends[:-1], ends + 1, ends[::-1].copy(), ends - 1):
        with pytest.raises(ValueError, match="an offset lies outside its buffer"):
            spans.size_entries([(name, 0x0A, texts, bad, None)], entries)
    for values, present in ((np.zeros(2, np.uint64), None), (np.zeros(3, np.uint64), np.ones(2, bool))):
        with pytest.raises(ValueError, match="as many values as there are rows"):
            spans.size_entries([(name, 0x1A, values, None, present)], entries)


# Sizes: each has more bytes from a limit of its own on


@pytest.mark.parametrize("limit", [1 << 7, 1 << 14])
@pytest.mark.parametrize("name", ["x", "n" * 50])
def test_each_size_before_a_string_grows_at_its_own_limit(limit: int, name: str) -> None:
    sizes = range(limit - 90, limit + 3)
    values = pa.array([b"v" * size for size in sizes], pa.binary())

    check(one_column(values, name))
    for row in range(len(values)):  # alone: no other row whose header has another length
        check(one_column(values.slice(row, 1), name))


@pytest.mark.parametrize("limit", [1 << 7, 1 << 14])
def test_each_size_before_a_list_grows_at_its_own_limit(limit: int) -> None:
    floats = [np.arange(count, dtype=np.float32) for count in range(limit // 4 - 10, limit // 4 + 2)]
    ints = [[-1, *range(100, 130)] * ((limit - back) // 43) + [1] * back for back in range(40)]
    strings = [[b"v" * 11] * (limit // 13 - 2) + [b"w" * size] for size in range(30)]

    check(one_column(pa.array(floats, pa.list_(pa.float32()))))
    check(one_column(pa.array(ints, pa.large_list(pa.int64()))))
    check(one_column(pa.array(strings, pa.list_(pa.binary()))))


def test_sizes_before_a_string_of_two_megabytes() -> None:
    limit = 1 << 21
    check(
        one_column(
            pa.array([b"v" * (limit - back) for back in (24, 18, 13, 9, 5, 4, 1, 0)], pa.large_binary()), "image"
        )
    )


def test_sizes_before_a_string_of_a_quarter_gigabyte() -> None:
    limit = 1 << 28
    for size in (limit - 1, limit):
        offsets = pa.py_buffer(np.array([0, size], np.int64))
        data = pa.py_buffer(np.zeros(size, np.uint8))  # never touched, so no memory
        batch = one_column(pa.LargeBinaryArray.from_buffers(pa.large_binary(), 1, [None, offsets, data]))
        entry_header = example.bytes_entry_header("x", size)
        header = example.example_header(len(entry_header) + size) + entry_header
        record = np.frombuffer(example_encoding.encode_examples(batch).buffers()[2], np.uint8)

        assert example_encoding.example_sizes(batch).tolist() == [len(record)]
        assert len(record) == len(header) + size
        assert record[: len(header)].tobytes() == header
        assert not record[len(header) :].any()


def test_sizes_of_values_that_are_not_there_to_read() -> None:
    size = 3 << 30
    with mmap.mmap(-1, size) as untouched:
        offsets = np.array([0, 5, size - 7, size], np.int64)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(untouched)]
        batch = one_column(pa.LargeBinaryArray.from_buffers(pa.large_binary(), 3, buffers))
        sizes = example_encoding.example_sizes(batch)
        with pytest.raises(
            ValueError, match=rf"row 1 makes a record of {sizes[1]} bytes, .* up to 2147483647; leave it out"
        ):
            example_encoding.encode_examples(batch)
        assert example_encoding.encode_examples(batch.slice(0, 1)).to_pylist() == [encode_example({"x": [bytes(5)]})]
        del batch, buffers

    headers = [example.bytes_entry_header("x", int(length)) for length in np.diff(offsets)]
    entries = [len(header) + int(length) for header, length in zip(headers, np.diff(offsets))]
    assert sizes.dtype == np.int64
    assert sizes.tolist() == [entry + len(example.example_header(entry)) for entry in entries]
    assert (sizes > example_encoding.MAX_RECORD_BYTES).tolist() == [False, True, False]
