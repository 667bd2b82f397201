"""Where records are: as Arrow finds them, whatever the ranges in which they are looked for."""

import io

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.transforms.formats import csv_scan
from shardmill.transforms.formats.conventions import Dialect

CSV = Dialect()
NASTY = st.lists(
    st.sampled_from(
        [b'"', b'""', b'"""', b",", b"\n", b"\r\n", b"\r", b"a", b"bc", b" ", b';"', b',"', b'",', b'"\n', b'\n"']
    ),
    max_size=40,
).map(b"".join)


def arrow_rows(data: bytes, width: int, dialect: Dialect = CSV) -> list[tuple[bytes, ...]]:
    """What Arrow reads; raises pa.ArrowInvalid where a row has not `width` fields."""
    names = [f"c{column}" for column in range(width)]
    table = pa.csv.read_csv(
        io.BytesIO(data),
        read_options=pa.csv.ReadOptions(column_names=names, use_threads=False, block_size=len(data) + 1),
        parse_options=pa.csv.ParseOptions(
            delimiter=dialect.delimiter.decode(), quote_char=dialect.quote.decode() or False, newlines_in_values=True
        ),
        convert_options=pa.csv.ConvertOptions(column_types={name: pa.binary() for name in names}),
    )
    return list(zip(*[column.to_pylist() for column in table.columns]))


def slow_ranges(data: bytes, size: int, dialect: Dialect = CSV) -> list[csv_scan.ScannedRange]:
    """`data` scanned in ranges of `size` bytes, each from the bytes that it needs and no more."""
    ranges = []
    for begin in range(0, len(data), size):
        end = min(begin + size, len(data))
        after = end
        while dialect.quote and data[after : after + 1] == dialect.quote:
            after += 1
        first = max(begin - 1, 0)
        ranges.append(csv_scan.scan_range(data[first : after + 1], dialect, begin - first, end - first, first))
    return ranges


@given(NASTY, st.integers(1, 9))
@settings(max_examples=200)
def test_a_scan_in_parts_is_that_of_the_whole(data: bytes, size: int) -> None:
    whole = csv_scan.scan_range(data, CSV)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_scan, "SCAN_BYTES", size)
        assert csv_scan.scan_range(data, CSV) == whole


@given(NASTY, st.integers(0, 30), st.integers(0, 30))
def test_lines_are_counted_where_they_end(data: bytes, begin: int, length: int) -> None:
    begin = min(begin, len(data))
    end = min(begin + length, len(data))

    assert csv_scan.count_lines(data, begin, end) == len(csv_scan.line_ends(data, begin, end))


@pytest.mark.parametrize(
    ("data", "starts", "lines"),
    [
        (b"", [], []),
        (b"a", [0], [0]),
        (b"a\nb", [0, 2], [0, 1]),
        (b"a\r\nb\r\n", [0, 3], [0, 1]),
        (b"a\rb\r", [0, 2], [0, 1]),
        (b"a\r\r\nb\n\rc", [0, 2, 4, 6, 7], [0, 1, 2, 3, 4]),
        (b'"a\nb",c\nd', [0, 8], [0, 2]),
        (b'"a\r\nb"\r\nd', [0, 8], [0, 2]),
        (b'a"b\nc"d\n', [0, 4], [0, 1]),
        (b'"""\n"\na', [0, 6], [0, 2]),
        (b'""""\n"\na', [0, 5], [0, 1]),
        (b'a,"\n",""\n""""\n', [0, 9], [0, 2]),
        (b'"a\nb', [0], [0]),
        (b'"a"b"\nc"\n', [0, 6], [0, 1]),
    ],
)
def test_records(data: bytes, starts: list[int], lines: list[int]) -> None:
    found = csv_scan.find_records(data, CSV)

    assert found.starts.tolist() == starts
    assert found.stops.tolist() == ([*starts[1:], len(data)] if data else [])
    assert found.lines.tolist() == lines


def test_blank_records() -> None:
    found = csv_scan.find_records(b'\na\n\r\n\rb\n""\n \n"\n"', CSV)
    assert (len(found.is_blank), np.flatnonzero(found.is_blank).tolist()) == (8, [0, 2, 3])


@pytest.mark.parametrize(
    ("record", "malformed"),
    [
        *((record, False) for record in (b"a", b'"a"', b'""', b'""""', b'a "b" c', b'a "b', b'"a""b"')),
        *((record, True) for record in (b'"a"b', b'"a" ', b'"a"b"c"', b'""a""', b'"stray\nb,"c"')),
    ],
)
def test_malformed_records(record: bytes, malformed: bool) -> None:
    assert csv_scan.find_records(b"x\n" + record + b",y\nz\n", CSV).is_malformed.tolist() == [False, malformed, False]
    assert csv_scan.find_records(record, CSV).is_malformed.tolist() == [malformed]


def test_without_quotes_every_line_is_a_record() -> None:
    dialect = Dialect(quote=b"")

    assert csv_scan.find_records(b'"a\n"b\n', dialect).starts.tolist() == [0, 3]
    assert csv_scan.find_delimiters(b'"a,b"', dialect).tolist() == [2]
    assert csv_scan.scan_range(b'"a\n"b\n', dialect).scans[0].last_end == 6


def test_another_dialect() -> None:
    dialect = Dialect(b"\t", b"'")

    assert csv_scan.find_records(b"a\t'b\n'\n,'c\n", dialect).starts.tolist() == [0, 7]
    assert csv_scan.find_delimiters(b"a\t'b\t'\t", dialect).tolist() == [1, 6]


def test_of() -> None:
    assert csv_scan.find_records(b"ab\nc\n", CSV).record_numbers(np.array([0, 2, 3, 4])).tolist() == [0, 0, 1, 1]


@given(NASTY)
def test_line_ends(data: bytes) -> None:
    lines = data.splitlines(keepends=True)

    assert (csv_scan.line_ends(data) + 1).tolist() == np.cumsum(
        [len(line) for line in lines if line[-1:] in b"\r\n"]
    ).astype(int).tolist()


@given(NASTY, st.integers(1, 4))
def test_records_are_the_rows_that_arrow_reads(data: bytes, width: int) -> None:
    found = csv_scan.find_records(data, CSV)
    fields = np.diff(np.searchsorted(csv_scan.find_delimiters(data, CSV), np.append(found.starts, len(data)))) + 1
    keep = ~found.is_blank & (fields == width)
    kept = [data[start:stop] for start, stop in zip(found.starts[keep], found.stops[keep])]

    if kept:
        assert arrow_rows(b"".join(kept), width) == [row for record in kept for row in arrow_rows(record, width)]
        assert len(arrow_rows(b"".join(kept), width)) == len(kept)
    if (fields[~found.is_blank] != width).any():
        with pytest.raises(pa.ArrowInvalid):
            arrow_rows(data, width)
    elif data:
        assert len(arrow_rows(b"\n" + data, width)) == len(kept)


@given(NASTY, st.integers(1, 12))
def test_any_ranges_stitch_to_the_same_records(data: bytes, size: int) -> None:
    found = csv_scan.find_records(data, CSV)
    at = dict(zip(found.starts.tolist(), (found.lines + 1).tolist()))
    if found.stops.size and data:
        at[len(data)] = len(csv_scan.line_ends(data)) + 1

    ranges = slow_ranges(data, size)
    stitched = csv_scan.stitch(ranges)

    assert sum(part.lines for part in ranges) == len(csv_scan.line_ends(data))
    assert all(at.get(position, 1) == line for position, line in stitched.cuts)
    assert set(dict(stitched.cuts)) <= {0, *at}
    assert stitched.open_line == csv_scan.stitch([csv_scan.scan_range(data, CSV)]).open_line


@given(NASTY, st.integers(1, 12))
def test_every_range_in_which_a_record_ends_is_cut(data: bytes, size: int) -> None:
    stops = csv_scan.find_records(data, CSV).stops.tolist()
    ended = [stop for stop in stops if stop < len(data) or stop - 1 in csv_scan.line_ends(data)]
    if csv_scan.stitch([csv_scan.scan_range(data, CSV)]).open_line:
        ended = ended[:-1] if ended and ended[-1] == len(data) else ended

    cuts = [position for position, _ in csv_scan.stitch(slow_ranges(data, size)).cuts[1:]]

    lasts = {(stop - 1) // size: stop for stop in ended}
    assert cuts == list(lasts.values())


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b'a\n"b\nc\n', 2),
        (b'a\n"b"\nc\n', None),
        (b'a\n"b"\nc,"', 3),
        (b'"\n\n\n', 1),
        (b'a,"b"c"\n', None),
        (b'x\n"a\n"b,"\nc', 3),
    ],
)
@pytest.mark.parametrize("size", [1, 2, 3, 100])
def test_a_field_that_stays_open(data: bytes, line: int | None, size: int) -> None:
    assert csv_scan.stitch(slow_ranges(data, size)).open_line == line


def test_stitch_starts_where_it_is_told() -> None:
    data = b"head\r\nabc\ndef\n"

    assert csv_scan.stitch([csv_scan.scan_range(data, CSV, 6)], 6, 2).cuts == [(6, 2), (14, 4)]
