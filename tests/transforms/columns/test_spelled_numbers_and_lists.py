"""Numbers with other marks than a point, and lists in texts."""

from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from shardmill.transforms.columns import text
from shardmill.transforms.columns.types import ColumnType

STYLES = [(".", ","), (".", "'"), (".", "\u2019"), (",", "."), (",", " "), (",", "")]
NUMBERS = st.one_of(st.integers(-(10**12), 10**12), st.decimals(-(10**9), 10**9, places=3))


def texts(*values: str | None) -> pa.Array:
    return pa.array([value if value is None else value.encode() for value in values], pa.binary())


def spell(number: int | Decimal, decimal: str, thousands: str) -> str:
    return f"{number:,}".replace(",", "group").replace(".", decimal).replace("group", thousands)


@given(st.sampled_from(STYLES), st.lists(NUMBERS | st.none()), st.booleans())
def test_numbers_become_plain(style: tuple[str, str], numbers: list[int | Decimal | None], grouped: bool) -> None:
    decimal, thousands = style
    found = [None if one is None else spell(one, decimal, thousands if grouped else "") for one in numbers]
    plain = texts(*(None if one is None else f"{one}" for one in numbers))
    assert text.NumberStyle(decimal, thousands).rewrite(texts(*found)) == (plain, True)
    assert (text.NumberStyle(decimal, thousands).is_plain, text.NumberStyle().is_plain) == (False, True)


REWRITTEN = {"1.234": "1234", ",5": ".5", "7,": "7.", "-1,25e-3": "-1.25e-3", "(1.500)": "-1500", "1.015,5-": "-1015.5"}
OTHERS = ["1.23", "12.3456", "1234.567", "1.234.5", "1,2,3", "(1", "-(1)", ",", "", " 1", "1e", "--1", "x", "1,5 kg"]


def test_what_is_no_number_stays_as_it_is() -> None:
    style = text.NumberStyle(",", ".")
    assert style.rewrite(texts(*REWRITTEN, None)) == (texts(*REWRITTEN.values(), None), True)
    for other in OTHERS:
        assert style.rewrite(texts("1.000", other)) == (texts("1000", other), False)


LISTS = st.lists(st.none() | st.lists(st.integers(-999, 999), max_size=4), min_size=1)


@given(LISTS, st.sampled_from([" ", ",", ", ", ";", "|"]), st.sampled_from(["{}", "[{}]", " ( {} ) ", "{{{}}}"]))
def test_lists_there_and_back(lists: list[list[int] | None], separator: str, around: str) -> None:
    column = texts(*(None if one is None else around.format(separator.join(map(str, one))) for one in lists))
    flat = [str(value).encode() for one in lists for value in one or ()]
    present = [one for one in lists if one is not None]
    sizes = {len(one) for one in present}

    parts, lengths = text.split_lists(column, separator)
    assert (parts.to_pylist(), lengths.tolist()) == (flat, [len(one or ()) for one in lists])

    kind = text.infer_list_type(column, separator)
    if not present:
        assert kind is None
        return
    empty = sum(not one for one in present)
    of_all = (sizes.pop(), 0) if len(sizes) == 1 else (-1, empty)
    assert kind == ColumnType("int64", of_all[0], len(present), (), of_all[1])
    missing: list[int] | None = [] if kind.is_variable else None
    values, reasons = text.parse_lists(column, kind, separator)
    assert (values.to_pylist(), reasons) == ([missing if one is None else one for one in lists], {})


def test_parts_without_their_quotes() -> None:
    parts, lengths = text.split_lists(texts("['a b', \"c\"]", "x,,y,", " "), ",")
    assert (parts.to_pylist(), lengths.tolist()) == ([b"a b", b"c", b"x", b"", b"y"], [2, 3, 0])
    assert text.split_lists(texts("1 \t 2\n3"), " ")[1].tolist() == [3]
    own = [b"(a)", b"b", b"a", b"(b)", b"(1,2)", b"(3)", b"(0", b"1]"]
    assert text.split_lists(texts("(a);b", "a;(b)", "[(1,2);(3)]", "(0;1]"), ";")[0].to_pylist() == own


@pytest.mark.parametrize("values", [("1", "2"), ("1", "2.5"), ("true",), ("a", "1"), ("007",)])
def test_the_type_is_that_of_all_parts(values: tuple[str, ...]) -> None:
    kind, expected = text.infer_list_type(texts(";".join(values)), ";"), text.infer_type(texts(*values))
    assert kind is not None
    assert expected is not None
    assert (kind.dtype, kind.length) == (expected.dtype, len(values))


def test_lists_that_do_not_fit() -> None:
    column = texts("1;2", "1;2;3", None, "1;x", "y;z", "")
    fixed, reasons = text.parse_lists(column, ColumnType("int64", 2, 0), ";")
    assert fixed[0].as_py() == [1, 2]
    assert fixed.is_null().to_pylist() == [False, False, True, False, False, False]
    assert reasons == {
        1: "3 values, where 2 were expected",
        3: "'x' is not an integer (int64)",
        4: "'y' is not an integer (int64)",
        5: "0 values, where 2 were expected",
    }
    _, reasons = text.parse_lists(column, ColumnType("int64", -1, 0), ";")
    assert sorted(reasons) == [3, 4]
    assert np.array_equal(text.parse_lists(texts("0.5;1"), ColumnType("float32", 2, 0), ";")[0].flatten(), [0.5, 1])


def test_a_minus_behind_digits_alone_is_no_number_of_a_style() -> None:
    """`1999-` may mean a range, which only --types decides."""
    rewritten, are_numbers = text.NumberStyle(thousands=",").rewrite(pa.array([b"1,999-", b"1999-", b"7"]))
    assert (rewritten.to_pylist(), are_numbers) == ([b"-1999", b"1999-", b"7"], False)
