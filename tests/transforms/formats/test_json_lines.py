"""JSON lines as rows: beside the rules of transforms.columns.types applied value by value, in every block size."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shardmill.transforms.columns.arrow import parse_fill
from shardmill.transforms.columns.conversion import convert_value
from shardmill.transforms.columns.nested import Nesting
from shardmill.transforms.columns.types import ColumnError, ColumnType, Inferred, value_type
from shardmill.transforms.findings import Remarks, merged
from shardmill.transforms.formats.format import BlockRef
from shardmill.transforms.formats.json_lines import REPEATED_KEYS, JsonLinesFormat
from tests.support.format_files import Row, Types, file_ref, infer, read
from tests.support.json_strategies import VALUES

JSON_OR_DROP = "--json_columns x stores JSON text, and --drop x leaves the column out"
ARRAY = "; expected one object on each line: jq -c '.[]' makes such lines of an array"


def table(
    folder: Path, *lines: str, fill: tuple[tuple[str, str], ...] = (), types: Types | None = None
) -> tuple[Any, ...]:
    """Types, rows without their numbers, and rejects as (line, reason)."""
    file = file_ref(folder, "\n".join(lines).encode())
    format_ = JsonLinesFormat(20, fill)
    types = infer(format_, file).types if types is None else types
    rows, _, rejects, _ = read(format_, file, types)
    return types, rows, [(reject.line, reject.reason) for reject in rejects]


AS_TEXT = "; --json_columns x stores such numbers as text"


@pytest.mark.parametrize(
    ("values", "column", "expected"),
    [
        (["1", "-2"], ColumnType("int64", None, 2), [1, -2]),
        (["9223372036854775807"], ColumnType("int64", None, 1), [(1 << 63) - 1]),
        (["1", "2.5"], ColumnType("float32", None, 2), [1.0, 2.5]),
        (["9007199254740993", "2.5"], ColumnType("float32", None, 2), [9007199254740992.0, 2.5]),
        (["true", "false"], ColumnType("bool", None, 2), [1, 0]),
        (["true", "2"], ColumnType("bytes", None, 2), [b"true", b"2"]),
        (["true", "2.5"], ColumnType("bytes", None, 2), [b"true", b"2.5"]),
        (["[true, 1]", "[]"], ColumnType("bytes", -1, 2, empty=1), [[b"true", b"1"], []]),
        (["[true]", "[]", "[false]"], ColumnType("bool", -1, 3, empty=1), [[1], [], [0]]),
        (['"a"', '"ä\\u0000"'], ColumnType("bytes", None, 2), [b"a", "ä\0".encode()]),
        (['"a"', "1", "1.50", "true"], ColumnType("bytes", None, 4), [b"a", b"1", b"1.5", b"true"]),
        (["1", "null"], ColumnType("int64", None, 1), [1, None]),
        (["[1,2]", "[3,4]", "null"], ColumnType("int64", 2, 2), [[1, 2], [3, 4], None]),
        (["[1]", "[3,4.5]", "null"], ColumnType("float32", -1, 2), [[1.0], [3.0, 4.5], []]),
        (["[1]", "2"], ColumnType("int64", -1, 2), [[1], [2]]),
        (["[]", "null"], ColumnType("int64", 0, 1), [[], []]),
        (['["a", 1]', "[true]"], ColumnType("bytes", -1, 2), [[b"a", b"1"], [b"true"]]),
        (["1e30", "1e-50"], ColumnType("float32", None, 2), [float(np.float32(1e30)), 0.0]),
        (["1e300", '"x"'], ColumnType("bytes", None, 2), [b"1e+300", b"x"]),
    ],
)
def test_columns(tmp_path: Path, values: list[str], column: ColumnType, expected: list[Any]) -> None:
    types, rows, rejects = table(tmp_path, *(f'{{"x": {value}}}' for value in values))

    assert types == {"x": column}
    assert rejects == []
    assert [row["x"] for row in rows] == expected


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("@", "not JSON: unexpected character, expected a JSON value, at character 1"),
        ('{"x": 1', "not JSON: unexpected end of data, at character 8"),
        ('{"x": 1} {"x": 2}', "not JSON: unexpected content after document, at character 10"),
        (
            '{"x": NaN}',
            "not JSON: unexpected character, expected a JSON value, at character 7"
            "; NaN and Infinity are not JSON, null is",
        ),
        ('{"x": 1,}', "not JSON: trailing comma is not allowed, at character 8"),
        (
            "{'x': True}",
            "not JSON: unexpected character, expected a string key, at character 2; it is a literal of Python:"
            " json.dumps(ast.literal_eval(line)) makes JSON of it",
        ),
        (
            '{"x": 1}\r{"x": 2}',
            "not JSON: unexpected content after document, at character 10; its lines end in CR alone:"
            " tr '\\r' '\\n' mends them",
        ),
        (
            '\x1e{"x": 1}',
            "not JSON: unexpected character, expected a JSON value, at character 1; it begins with the mark of JSON"
            " text sequences (RFC 7464): tr -d '\\036' makes lines of them",
        ),
        (
            '{"x": 1},',
            f"not JSON: unexpected content after document, at character 9{ARRAY}, jq -c . of objects over several lines"
            ", sed 's/,$//' of lines with a comma behind each",
        ),
        ("[1]", "not a JSON object, but [1]" + ARRAY),
        ("null", "not a JSON object, but null"),
        (
            '{"x": {"a": 1}}',
            "column 'x': {\"a\": 1} is not a number, a string or a list of them; --flatten makes columns of the fields"
            f" of objects, {JSON_OR_DROP}",
        ),
        ('{"x": [1, null]}', "column 'x': null is not a number, a string or a list of them"),
        ('{"x": 9223372036854775808}', f"column 'x': 9223372036854775808 does not fit a 64-bit integer{AS_TEXT}"),
        ('{"x": -9223372036854775809}', f"column 'x': -9223372036854775809 does not fit a 64-bit integer{AS_TEXT}"),
        (
            '{"x": [1, 99999999999999999999]}',
            f"column 'x': 99999999999999999999 does not fit a 64-bit integer{AS_TEXT}",
        ),
    ],
)
def test_lines_that_are_rejects(tmp_path: Path, line: str, reason: str) -> None:
    for others in (['{"x": 1}', '{"x": 2}'], ['{"x": 1.5}', '{"x": "text"}'], ['{"x": [1, 2]}', '{"x": [3, 4]}']):
        types, rows, rejects = table(tmp_path, others[0], line, others[1])

        assert rejects == [(2, reason)]
        assert len(rows) == 2
        assert types["x"].present == 2


@pytest.mark.parametrize(
    ("value", "column", "reason"),
    [
        ("1.5", ColumnType("int64", None, 0), "1.5 is no integer"),
        ('"a"', ColumnType("int64", None, 0), '"a" is no integer'),
        ('"1,5"', ColumnType("float32", None, 0), '"1,5" is no number'),
        ("1e39", ColumnType("float32", None, 0), "1e+39 is beyond the range of float32"),
        ("[1e39]", ColumnType("float32", 1, 0), "1e+39 is beyond the range of float32"),
        ("true", ColumnType("int64", None, 0), "true is no integer"),
        ("true", ColumnType("float32", None, 0), "true is no number"),
        ("[1, false]", ColumnType("int64", 2, 0), "false is no integer"),
        ("1", ColumnType("bool", None, 0), "1 is no true or false"),
        ("1.0", ColumnType("bool", None, 0), "1.0 is no true or false"),
        ("[1]", ColumnType("int64", None, 0), "a list of 1, where one value was expected"),
        ("[1, 2, 3]", ColumnType("int64", 2, 0), "3 values, where 2 were expected"),
        ("[]", ColumnType("int64", 2, 0), "0 values, where 2 were expected"),
        ("1", ColumnType("int64", 2, 0), "1 values, where 2 were expected"),
    ],
)
def test_values_that_do_not_fit(tmp_path: Path, value: str, column: ColumnType, reason: str) -> None:
    _, rows, rejects = table(tmp_path, "{}", f'{{"x": {value}}}', "{}", types={"x": column})

    assert rejects == [(2, f"column 'x': {reason}")]
    assert rows == [{"x": None}] * 2


@pytest.mark.parametrize(
    ("value", "column", "expected"),
    [
        ("true", ColumnType("bool", None, 0), 1),
        ("[false, true]", ColumnType("bool", 2, 0), [0, 1]),
        ("3.0", ColumnType("int64", None, 0), 3),
        ("3", ColumnType("bytes", None, 0), b"3"),
        ("3", ColumnType("int64", -1, 0), [3]),
        ("3", ColumnType("int64", 1, 0), [3]),
        ("3.4028235e38", ColumnType("float32", None, 0), float(np.finfo(np.float32).max)),
    ],
)
def test_values_that_fit_a_type_that_was_given(tmp_path: Path, value: str, column: ColumnType, expected: Any) -> None:
    assert table(tmp_path, f'{{"x": {value}}}', types={"x": column})[1:] == ([{"x": expected}], [])


DEEP = f'{{"x":1,"z":{"[" * 300}{"]" * 300}}}'  # which orjson reads, and does not write


@pytest.mark.parametrize(
    "bad",
    [
        '{"x": 1, "x":2}',
        '{"x" : 1, "x":2}',
        '{"x":"\\":","x":2}',
        '{"z":{"y":1,"y":1},"x":2}',
        '{"x":1,"x":"2","z":"\\u0022\\u0022"}',
    ],
)
@pytest.mark.parametrize("good", [[], [DEEP], ['{"x":"\\":\\":"}', '{"x":1,"z":{"x":1}}', "", "[]"]])
def test_of_a_key_given_twice_the_last_counts_which_is_said(tmp_path: Path, bad: str, good: list[str]) -> None:
    file = file_ref(tmp_path, "\n".join([*good, bad]).encode())
    (rows,) = JsonLinesFormat(1000).read(BlockRef(file, 0, file.size_bytes), {"x": ColumnType("bytes", None, 1)})
    assert rows.batch["x"].to_pylist()[-1] == b"2"
    assert rows.findings.find(Remarks).rows == {REPEATED_KEYS: (1, ("file.txt", len(good) + 1))}


def test_only_the_columns_asked_for_matter(tmp_path: Path) -> None:
    file = file_ref(tmp_path, b'{"x": {}, "y": 1}\n{"y": 2, "z": [[]]}\n')
    types = {"y": ColumnType("int64", None, 2)}

    assert infer(JsonLinesFormat(100), file, ["y"]) == Inferred(types, 2)
    unseen = ColumnType("bytes", None, 0)  # named, and not looked at
    assert infer(JsonLinesFormat(100, nesting=Nesting(drop=("x", "z", "a"))), file) == Inferred(
        {"x": unseen, **types, "z": unseen}, 2
    )
    assert read(JsonLinesFormat(100), file, types) == ([{"y": 1}, {"y": 2}], [1, 2], [], 0)
    assert infer(JsonLinesFormat(100), file).rows == 0


def test_columns_are_in_the_order_in_which_they_first_appear(tmp_path: Path) -> None:
    types, _, _ = table(tmp_path, '{"b": 1}', '{"c": null, "a": "x", "b": 3}', '{"c": [2]}')

    assert types == {
        "b": ColumnType("int64", None, 2),
        "a": ColumnType("bytes", None, 1),
        "c": ColumnType("int64", 1, 1),
    }


def test_a_column_without_any_value_is_none(tmp_path: Path) -> None:
    assert table(tmp_path, '{"x": null}', "{}") == ({"x": ColumnType("bytes", None, 0)}, [{"x": None}] * 2, [])


def test_fill_of_a_column_that_no_row_has(tmp_path: Path) -> None:
    assert table(tmp_path, "{}", fill=(("x", "7"),))[:2] == ({"x": ColumnType("int64", None, 1)}, [{"x": 7}])


@pytest.mark.parametrize(
    ("text", "value"),
    [
        *(("1", 1), ("1.0", 1.0), ('"1"', "1"), ("true", True), ("false", False)),
        *((text, text) for text in ("True", "null", "[1]", "NaN", "", "07", "9223372036854775808")),
    ],
)
def test_the_value_of_a_fill(text: str, value: Any) -> None:
    assert parse_fill(text) == value
    assert type(parse_fill(text)) is type(value)


def test_values_are_what_they_are_as_strings(tmp_path: Path) -> None:
    file = file_ref(
        tmp_path, '{"x": "ä"}\n{"x": 1}\n{"x": true}\n{"x": 1.5}\n{"x": null}\n{"x": "ä"}\n{"x": ["b", 2]}'.encode()
    )

    assert infer(JsonLinesFormat(10), file, [], "x").values["x"] == frozenset({"ä", "1", "true", "1.5", "b", "2"})
    assert infer(JsonLinesFormat(10, (("x", "none"),)), file, [], "x").values["x"] == frozenset(
        {"ä", "1", "true", "1.5", "b", "2", "none"}
    )


def test_blank_lines_are_counted_and_lines_numbered(tmp_path: Path) -> None:
    file = file_ref(tmp_path, b'\n{"x": 1}\r\n  \t\n\xef\xbb\xbf\n{"x": 2}')
    for size in (1, 10, 100):
        rows, lines, rejects, blank = read(JsonLinesFormat(size), file, {"x": ColumnType("int64", None, 0)})

        assert (rows, lines) == ([{"x": 1}, {"x": 2}], [2, 5])
        assert (rejects, blank) == ([], 3)


def test_a_byte_order_mark_is_passed_over(tmp_path: Path) -> None:
    assert table(tmp_path, '\ufeff{"x": 1}')[1:] == ([{"x": 1}], [])


@given(st.lists(st.dictionaries(st.sampled_from("abc"), VALUES, max_size=3), max_size=12), st.integers(1, 200))
@settings(max_examples=150)
def test_any_block_size_gives_the_rows(
    tmp_path_factory: pytest.TempPathFactory, objects: list[Row], block_size: int
) -> None:
    lines = [json.dumps(row).encode() for row in objects]
    lines[2:2] = [b"", b"nonsense", b" \t"]
    file = file_ref(tmp_path_factory.mktemp("json"), b"\n".join(lines))
    inferred = infer(JsonLinesFormat(block_size), file, None, "a")
    types: dict[str, ColumnType] = {}
    good = 0
    for row in objects:
        try:
            found = {name: value_type(value, is_text=False) for name, value in row.items()}
        except ColumnError:
            continue
        good += 1
        types = merged(types, {name: column for name, column in found.items() if column is not None})
    # A column whose every value was refused has a type without a value, so that it is not forgotten.
    assert ({name: column for name, column in inferred.types.items() if column.present}, inferred.rows) == (types, good)
    assert inferred.types.keys() <= {name for row in objects for name in row}

    whole = read(JsonLinesFormat(1 << 20), file, types)
    rows, numbers, rejects, blank = read(JsonLinesFormat(block_size), file, types)
    assert (rows, numbers, rejects, blank) == whole
    assert len(rows) + len(rejects) + blank == len(lines) - (0 if lines[-1] else 1)
    assert set(numbers).isdisjoint(reject.line for reject in rejects)
    for number, row in zip(numbers, rows):
        assert row == {
            name: convert_value(json.loads(lines[number - 1]).get(name), column) for name, column in types.items()
        }
    for reject in rejects:
        assert reject.line is not None
        assert not _fits(lines[reject.line - 1], types)


def _fits(line: bytes, types: Types) -> bool:
    try:
        row = json.loads(line)
        values = [convert_value(row.get(name), column) for name, column in types.items()]
        return all(math.isfinite(value) for value in values if isinstance(value, float))
    except ValueError:
        return False
