"""Entries of a feature: the headers of shardmill.data.example around values of any size."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.data import example
from shardmill.data.example import encode_varint
from shardmill.transforms.columns.example_bytes import PieceWriter, Sizes
from shardmill.transforms.columns.example_encoding import FeatureEntries, Payload

# Around the sizes at which one of the sizes in a header takes another byte.
LENGTH = st.one_of(st.integers(0, 140), st.integers((1 << 14) - 160, (1 << 14) + 3))


def rows_of(length: st.SearchStrategy[int]) -> st.SearchStrategy[list[tuple[int, bool]]]:
    return st.lists(st.tuples(length, st.booleans()), min_size=1, max_size=8)


# Of any lengths, or of similar ones, whose headers are equally long.
ROWS = st.one_of(rows_of(LENGTH), LENGTH.flatmap(lambda least: rows_of(st.integers(least, least + 8))))


@dataclass(frozen=True, slots=True)
class Filled(FeatureEntries):
    """Values of `lengths` bytes, of no meaning."""

    lengths: np.ndarray
    headed: str

    def payload(self, rows: slice) -> Payload:
        lengths = self.lengths[rows]
        return Payload.from_sizes(lengths if self.present is None else np.where(self.present[rows], lengths, 0))

    def write_payload(self, writer: PieceWriter, rows: slice, payload: Payload) -> None:
        data = np.full(payload.max_size, ord("v"), np.uint8)
        writer.write_ragged(data, np.zeros(len(self.lengths[rows]), np.int64), payload.sizes)

    def has_header(self, sizes: Sizes) -> bool | np.ndarray:
        return {"always": True, "never": False, "unless empty": sizes > 0}[self.headed]


def expected_entry(name: str, headed: str, length: int) -> bytes:
    has_header = headed == "always" or (headed == "unless empty" and length > 0)
    values = (b"\x0a" + encode_varint(length) if has_header else b"") + b"v" * length
    return example.encode_entry(name, b"\x1a" + encode_varint(len(values)) + values)


@given(
    lengths=ROWS,
    name=st.sampled_from([0, 1, 20, 100, 127, 128]).map(lambda size: "n" * size),
    headed=st.sampled_from(["always", "never", "unless empty"]),
    some=st.booleans(),
    start=st.integers(0, 7),
)
@settings(max_examples=200, deadline=None)
def test_entries_are_those_of_the_plain_encoder(
    lengths: list[tuple[int, bool]], name: str, headed: str, some: bool, start: int
) -> None:
    present = np.array([there for _, there in lengths]) if some else None
    prefix = b"\x0a" + encode_varint(len(name)) + name.encode() + b"\x12"
    column = Filled(prefix, b"\x1a", present, np.array([length for length, _ in lengths]), headed)
    rows = slice(min(start, len(lengths) - 1), len(lengths))
    expected = [expected_entry(name, headed, length) if there or not some else b"" for length, there in lengths][rows]
    sizes = np.array(list(map(len, expected)))
    starts, out = np.cumsum(sizes) - sizes, np.zeros(int(sizes.sum()), np.uint8)
    writer = PieceWriter(out, starts, starts + sizes)
    column.write(writer, rows)
    writer.flush()

    assert np.broadcast_to(column.sizes(rows), len(expected)).tolist() == sizes.tolist()
    assert out.tobytes() == b"".join(expected)


@pytest.mark.parametrize(
    ("sizes", "low", "high"),
    [(7, 7, 7), (np.array([7, 7]), 7, 7), (np.array([9, 0, 3]), 0, 9), (np.zeros(0, np.int64), 0, 0)],
)
def test_payload_of_sizes(sizes: Sizes, low: int, high: int) -> None:
    payload = Payload.from_sizes(sizes)

    assert (payload.min_size, payload.max_size) == (low, high)
    assert payload.sizes is sizes if low != high else payload.sizes == low
