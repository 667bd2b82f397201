"""Large CSV files, and properties of any."""

import csv
import gzip
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from shardmill.errors import UserError
from shardmill.transforms.columns.types import ColumnType
from shardmill.transforms.findings import MISSING, Remarks
from shardmill.transforms.formats.csv import CsvFormat
from shardmill.transforms.formats.format import FileRef
from tests.support.csv_files import CSV, types, write
from tests.support.format_files import infer, read

NAMES = CsvFormat(header_line="first")  # whatever the rows are

# Sizes


@pytest.mark.slow
def test_a_field_of_100_megabytes(tmp_path: Path) -> None:
    field = b'abcdefghijklm"\n,' * 6_250_000
    file = write(tmp_path, b'a,b\n1,"' + field.replace(b'"', b'""') + b'"\n2,y\n')

    rows, lines, rejects, _ = read(CsvFormat(is_quote_given=True), file, types(a="int64", b="bytes"))

    assert [row["a"] for row in rows] == [1, 2]
    assert rows[0]["b"] == field
    assert (rows[1]["b"], lines, rejects) == (b"y", [2, 3 + 6_250_000], [])


def test_ten_thousand_columns(tmp_path: Path) -> None:
    names = [f"c{column}" for column in range(10_000)]
    file = write(tmp_path, "\n".join([",".join(names), *[",".join([str(row)] * len(names)) for row in range(7)]]))

    found = infer(CSV, file)

    assert found.rows == 7
    assert set(found.types.values()) == {ColumnType("int64", None, 7)}
    rows, lines, rejects, _ = read(CSV, file, found.types)
    assert rows == [dict.fromkeys(names, row) for row in range(7)]
    assert (lines, rejects) == ([2, 3, 4, 5, 6, 7, 8], [])


# Properties

FIELDS = st.one_of(
    st.text(st.sampled_from(' ,"\n\r;ab1é'), max_size=6), st.sampled_from(["1", "-2", "1.5", "true", "NA", "", "007"])
)
RAW = st.lists(
    st.sampled_from(['"', '""', '"""', *",\n\ra1é ", "\r\n", ',"', '",', '"\n', '\n"', "\n,", "1,2\n", "\0" * 4]),
    max_size=40,
).map("".join)
SMALL = st.integers(1, 20)
many = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@many
@given(
    st.lists(st.tuples(FIELDS, FIELDS)),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from([csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
    SMALL,
)
def test_what_the_csv_module_writes(
    tmp_path: Path, fields: list[tuple[str, str]], end: str, quoting: Any, size: int
) -> None:
    assume(("a", "b") not in fields)  # a header among the rows is left out
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator=end, quoting=quoting).writerows([("a", "b"), *fields])
    file = write(tmp_path, text.getvalue())

    rows, _, rejects, blank = read(
        replace(NAMES, block_size=size, missing=(), is_quote_given=True), file, types(a="bytes", b="bytes")
    )

    assert [(row["a"].decode(), row["b"].decode()) for row in rows] == fields
    assert (rejects, blank) == ([], 0)


def outcome(found: CsvFormat, file: FileRef) -> Any:
    """All that a file says but for its name, or the error."""
    try:
        rows, lines, rejects, blank = read(found, file, types(a="bytes", b="int64"))
        inferred = infer(found, file, values_of="a")
        found_remarks = inferred.findings.find(Remarks).rows.items()
        remarks = {text: (count, ("", line)) for text, (count, (_, line)) in found_remarks}
        rejects = [replace(reject, source="") for reject in rejects]
        return rows, lines, rejects, blank, inferred, remarks
    except UserError as error:  # which quote is at fault depends on what is read at once
        return "a quote" if "--quote ''" in str(error) else str(error).removeprefix(file.name)


@many
@given(RAW, SMALL, st.sampled_from([("utf-8", '"'), ("utf-8", ""), ("utf-16", '"'), ("latin-1", '"')]))
def test_any_block_size_finds_the_same(tmp_path: Path, text: str, size: int, dialect: tuple[str, str]) -> None:
    encoding, quote = dialect
    file = write(tmp_path, ("a,b\n" + text).encode(encoding))
    found = CsvFormat(encoding=encoding, quote=quote, is_quote_given=True)

    assert outcome(replace(found, block_size=size), file) == outcome(found, file)


@many
@given(RAW, SMALL)
def test_a_compressed_file_is_as_one_that_is_not(tmp_path: Path, text: str, size: int) -> None:
    plain = write(tmp_path, "a,b\n" + text)
    compressed = write(tmp_path, gzip.compress(("a,b\n" + text).encode()), "b.csv.gz")

    expected = outcome(NAMES, plain)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shardmill.transforms.formats.format.MAX_LINES", size)  # and pieces are cut once more
        assert outcome(replace(NAMES, block_size=size), compressed) == expected


@many
@given(RAW, SMALL)
def test_every_record_is_a_row_a_reject_or_blank(tmp_path: Path, text: str, size: int) -> None:
    file = write(tmp_path, "a,b\n" + text)
    try:
        rows, lines, rejects, blank = read(
            CsvFormat(block_size=size, header_line="first"), file, types(a="bytes", b="int64")
        )
    except UserError:  # a quote that is never closed
        return

    reader = csv.reader(io.StringIO(text, newline=""))
    starts, records, before = [], [], 0
    for record in reader:
        starts.append(before + 2)
        records.append(record)
        before = reader.line_num
    if any("its line does not close" in reject.reason for reject in rejects):
        return  # the module takes the lines after it for part of the field
    if "\r" not in text.replace("\r\n", ""):  # the module counts lines otherwise where a lone CR is quoted
        found = sorted([*lines, *[reject.line or 0 for reject in rejects]])
        passed = {start for start, record in zip(starts, records) if not any(record)}  # blank, or delimiters alone
        assert [line for line in found if line not in passed] == sorted({*starts} - passed)
        assert {*found} <= {*starts}
    assert len(rows) + len(rejects) + blank == len(records)
    if not rejects:
        assert [row["a"] for row in rows if row["a"]] == [
            record[0].encode() for record in records if record and record[0] not in MISSING
        ]


@many
@given(RAW)
def test_rows_inferred_are_rows_read_as_text(tmp_path: Path, text: str) -> None:
    file = write(tmp_path, "a,b\n" + text)
    try:
        found = infer(NAMES, file)
        rows, _, _, _ = read(NAMES, file, {**types(a="bytes", b="bytes"), **found.types})
    except UserError:  # which quote is at fault depends on what is read at once
        return

    assert len(rows) == found.rows  # what a type was inferred from fits it
    assert {name: sum(row[name] is not None for row in rows) for name in found.types} == {
        name: column.present for name, column in found.types.items()
    }
