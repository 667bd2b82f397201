"""Bad tables end to end: a bad row of CSV or Parquet is a line in rejects/, a user's mistake is one sentence and status
2."""

import bz2
import gzip
import io
import json
import math
import os
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard

from tests.support.command import Process, Run, bind_root_to_permissions, check_mistake, tree_bytes, write_files
from tests.support.table_results import Table, convert, read_table

HEADER = "id,name,score\n"
TOLERANT = ("--max_reject_fraction", "0.9", "--on_damaged_file", "reject")


class Bad(NamedTuple):
    """A file of a table with `id,name,score`: its good rows, and (line, stage, words of the reason) of each reject.

    A row of three values, from the first: the id is unique in all files, so that it finds the row.
    """

    name: str
    content: bytes
    rows: tuple[tuple[int, str, float], ...] = ()
    rejects: tuple[tuple[int | None, str, str], ...] = ()


def text(*lines: str) -> bytes:
    """A file of `lines` under the header."""
    return (HEADER + "".join(f"{line}\n" for line in lines)).encode()


def many(first: int, count: int) -> tuple[tuple[int, str, float], ...]:
    """Good rows that hardly compress."""
    return tuple((first + number, f"n{number * 2654435761 % 2**32:x}", number / 4) for number in range(count))


def written(rows: Iterable[tuple[int, str, float]]) -> bytes:
    return text(*(",".join(map(str, row)) for row in rows))


MANY = many(100_000, 30_000)
LONG = "x" * 5_000_000
LINES = "y\n" * 2_500_000
HALF_GZ = gzip.compress(written(MANY), mtime=0)[:100_000]
HALF_ZST = zstandard.compress(written(MANY))[:150_000]
_BZ2 = bz2.compress(written(many(200_000, 10)))

BAD_FILES = [
    Bad(
        "ragged.csv",
        text("1,a,1", "2,a", "3", "4,b,2.5,9", "5,,", "6,a,1,", "7,c,3"),
        ((1, "a", 1), (5, "", math.nan), (7, "c", 3)),
        (
            (3, "read", "the row has 2 fields; expected 3"),
            (4, "read", "the row has 1 field; expected 3"),
            (5, "read", "the row has 4 fields; expected 3"),
            (7, "read", "the row has 4 fields; expected 3"),
        ),
    ),
    Bad(
        "quote-closed-by-the-next.csv",
        text("11,a,1", '12,"b,2', "13,c,3", '14,"d",4', "15,e,5", '16,"f",6'),
        ((11, "a", 1), (15, "e", 5), (16, "f", 6)),
        ((3, "read", "lines 3 to 5: text goes on after the quote that closes a field"),),
    ),
    Bad(
        "quote-in-the-middle.csv",
        text('21,a "b" c,1', '22,"b"x,2', '23,"c ""d"" e",3', "24,it's,4"),
        ((21, 'a "b" c', 1), (23, 'c "d" e', 3), (24, "it's", 4)),
        ((3, "read", "text goes on after the quote that closes a field"),),
    ),
    Bad("header-only.csv", HEADER.encode()),
    Bad("header-without-end.csv", HEADER.strip().encode()),
    Bad("empty.csv", b"", (), ((None, "index", "the file is empty: no header"),)),
    Bad("blank.csv", b"\n\r\n\n", (), ((None, "index", "the file is empty: no header"),)),
    Bad(
        "mixed-ends.csv",
        b'id,name,score\r\n31,a,1\n32,b,2\r33,c,3\r\n\r\n34,"d\r\ne",4\r35,f,5',
        ((31, "a", 1), (32, "b", 2), (33, "c", 3), (34, "d\r\ne", 4), (35, "f", 5)),
    ),
    Bad("nul.csv", text("41,a\0b,1", "42,\0,2"), ((41, "a\0b", 1), (42, "\0", 2))),
    Bad(
        "latin-1.csv",
        HEADER.encode() + b"51,a,1\n52,caf\xe9,2\n53,b,3\n5\xff4,c,4\n55,\xc3\xa9,5\n",
        ((51, "a", 1), (53, "b", 3), (55, "é", 5)),
        ((3, "read", "column 'name': the text is not utf-8"), (5, "read", "column 'id': the text is not utf-8")),
    ),
    Bad(
        "byte-order-mark.csv",
        b"\xef\xbb\xbf\n" + text("61,a,1", "", "", "62,\ufeffb,2"),
        ((61, "a", 1), (62, "\ufeffb", 2)),
    ),
    Bad("other-order.csv", b"score,id,name\n1.5,71,a\n", ((71, "a", 1.5),)),
    Bad("long.csv", text(f"81,{LONG},1", "82,a,2", f'83,"{LINES}",3'), ((81, LONG, 1), (82, "a", 2), (83, LINES, 3))),
    Bad("half.csv.gz", HALF_GZ, (), ()),  # checked in a test of its own
    Bad("head.csv.gz", HALF_GZ[:12], (), ((None, "index", "the gzip data ends too early, at byte 12"),)),
    Bad("no.csv.gz", text("1,a,1"), (), ((None, "index", "the gzip data is damaged"),)),
    Bad("zero.csv.gz", b"", (), ((None, "index", "the file is empty, without even a gzip header"),)),
    Bad("half.csv.zst", HALF_ZST, (), ()),  # checked in a test of its own
    Bad("bad.csv.bz2", _BZ2[:40] + b"\0\0\0\0" + _BZ2[44:], (), ((None, "index", "the bzip2 data is damaged"),)),
    Bad("whole.csv.bz2", bz2.compress(text("91,a,1")), ((91, "a", 1),)),
    Bad("with space.csv", text("101,a,1"), ((101, "a", 1),)),
    Bad("[brackets]*?.csv", text("102,a,1", "x,y"), ((102, "a", 1),), ((3, "read", "the row has 2 fields"),)),
    Bad("line\nbreak.csv", text("103,a,1", "x,y"), ((103, "a", 1),), ((3, "read", "the row has 2 fields"),)),
    Bad("-dash,comma\"quote'.csv", text("104,a,1"), ((104, "a", 1),)),
    Bad("naïve-日本語.CSV", text("105,a,1"), ((105, "a", 1),)),
]


@pytest.fixture(scope="session")
def disturbed(tmp_path_factory: pytest.TempPathFactory) -> Table:
    """All bad files in one table."""
    root = tmp_path_factory.mktemp("bad")
    folder = write_files(root / "in", {bad.name: bad.content for bad in BAD_FILES})
    (folder / os.fsdecode(b"not-utf-8-\xff.csv")).write_bytes(text("106,a,1"))
    (folder / "dangling.csv").symlink_to("nowhere.csv")
    return convert("csv", folder, root, *TOLERANT)


def check_consistent(table: Table) -> None:
    """Check that all that describes a data set is JSON to the letter, and that its numbers add up."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    for file in table.directory.rglob("*.json"):
        json.loads(file.read_text(), parse_constant=refuse)
    manifest, rejects = table.dataset.manifest, table.rejects()
    for reject in rejects:
        lost = {"records", "size_bytes", "count"} if "records" in reject else set()
        assert reject.keys() == {"source", "line", "stage", "reason"} | lost
        assert all(reject[key] for key in ("source", "stage", "reason"))
    rejected = sum(reject.get("records", 1) for reject in rejects)
    assert manifest.input["records"] == len(table.rows) + rejected
    assert manifest.rejects["records"] == rejected
    assert sum(manifest.rejects["reasons"].values()) == rejected or len(rejects) > 100
    assert {split.name: split.examples for split in manifest.splits} == {
        name: len(rows) for name, rows in table.splits.items()
    }
    stats = json.loads((table.directory / "stats.json").read_text())["splits"]
    assert {name: split["examples"] for name, split in stats.items()} == {
        name: len(rows) for name, rows in table.splits.items()
    }


@pytest.mark.parametrize("bad", BAD_FILES, ids=lambda bad: ascii(bad.name))
def test_bad_file_of_a_table(disturbed: Table, bad: Bad) -> None:
    found = {row["id"]: row for row in disturbed.rows}
    for number, name, score in bad.rows:
        expected = {
            "id": number,
            **({"name": name.encode()} if name else {}),
            **({} if math.isnan(score) else {"score": score}),
        }
        assert found[number] == expected
    if not bad.name.startswith("half"):
        rejects = [reject for reject in disturbed.rejects() if reject["source"] == bad.name]
        assert [(reject["line"], reject["stage"]) for reject in rejects] == [reject[:2] for reject in bad.rejects]
        for reject, (_, _, reason) in zip(rejects, bad.rejects, strict=True):
            assert reason in reject["reason"]


def test_rows_before_the_end_of_a_truncated_file_survive(disturbed: Table) -> None:
    good = {row[0]: row for row in MANY}
    rejects = {reject["source"]: reject for reject in disturbed.rejects() if reject["source"].startswith("half")}
    found = sorted(row["id"] for row in disturbed.rows if row["id"] >= 100_000)
    lost = {source: reject["line"] for source, reject in rejects.items()}
    before = [number for line in lost.values() for number in range(100_000, 100_000 + line - 2)]
    assert found == sorted(before)
    assert min(lost.values()) > 1000
    for row in disturbed.rows:
        if row["id"] >= 100_000:
            assert (row["id"], row["name"].decode(), row["score"]) == good[row["id"]]
    for source, kind, size in (("half.csv.gz", "gzip", "100,000"), ("half.csv.zst", "zstd", "150,000")):
        reason = rejects[source]["reason"]
        assert reason.startswith(f"the {kind} data ends too early, at byte {size} of the compressed file, after ")
        assert reason.endswith(f"the records from line {lost[source]} on are lost")


def test_nothing_else_is_rejected_and_nothing_is_lost(disturbed: Table) -> None:
    check_consistent(disturbed)
    others = [reject for reject in disturbed.rejects() if reject["source"] not in {bad.name for bad in BAD_FILES}]
    assert [(reject["source"], reject["line"], reject["stage"]) for reject in others] == [
        ("dangling.csv", None, "index"),
        ("not-utf-8-\\xff.csv", None, "index"),
    ]
    assert "dangling or looping symbolic link" in others[0]["reason"]
    assert "the file name is not UTF-8" in others[1]["reason"]
    assert sum(row["id"] < 100_000 for row in disturbed.rows) == sum(len(bad.rows) for bad in BAD_FILES)
    assert disturbed.features == {"id": "int64", "name": "bytes?", "score": "float32?"}
    assert any(
        notice.startswith("passed over ") and "blank lines" in notice for notice in disturbed.dataset.manifest.notices
    )


NUMBERS = """feature { name: "i" type: INT shape {} presence { min_fraction: 1.0 min_count: 1 } }
feature { name: "f" type: FLOAT shape {} presence { min_fraction: 1.0 min_count: 1 } }
feature { name: "b" type: INT shape {} bool_domain {} presence { min_fraction: 1.0 min_count: 1 } }
feature { name: "s" type: BYTES value_count { min: 1 max: 1 } }
"""

# Each row, and what it becomes: values of i, f, b, s, or words of the reason.
SCHEMA_ROWS: list[tuple[str, tuple[Any, ...] | str]] = [
    ("1,1,true,a", (1, 1.0, 1, b"a")),
    ("9223372036854775807,1,false,b", ((1 << 63) - 1, 1.0, 0, b"b")),
    ("-9223372036854775808,1,false,c", (-1 << 63, 1.0, 0, b"c")),
    ("9223372036854775808,1,true,d", "column 'i': '9223372036854775808' is beyond the range of int64"),
    ("-9223372036854775809,1,true,d", "column 'i': '-9223372036854775809' is beyond the range of int64"),
    ("1,1e400,true,d", "column 'f': '1e400' is beyond the range of float32"),
    ("1,1e39,true,d", "column 'f': '1e39' is beyond the range of float32"),
    ("1,-1e39,true,d", "column 'f': '-1e39' is beyond the range of float32"),
    ("1,nan,TRUE,e", (1, math.nan, 1, b"e")),
    ("1,inf,True,f", (1, math.inf, 1, b"f")),
    ("1,-inf,False,g", (1, -math.inf, 0, b"g")),
    ("1,1e-50,FALSE,h", (1, 0.0, 0, b"h")),
    ("1.5,1,true,i", "column 'i': '1.5' is not an integer (int64)"),
    ("x,1,true,i", "column 'i': 'x' is not an integer (int64)"),
    (" 1,1,true,i", "column 'i': ' 1' is not an integer (int64)"),
    ("0x10,1,true,i", "column 'i': '0x10' is not an integer (int64)"),
    ("1,x,true,i", "column 'f': 'x' is not a number (float32)"),
    ("1,1_0,true,i", "column 'f': '1_0' is not a number (float32)"),
    ("1,1,maybe,i", "column 'b': 'maybe' is neither true nor false (bool)"),
    (",1,true,i", "column 'i' has no value, which --schema wants in every row"),
    ("1,NA,true,i", "column 'f' has no value, which --schema wants in every row"),
    ("1,1,true,", (1, 1.0, 1, None)),
    ("007,1,true,j", (7, 1.0, 1, b"j")),
]


def test_rows_that_a_schema_does_not_fit(tmp_path: Path) -> None:
    lines = ["i,extra,f,b,s", *(row.replace(",", ",?,", 1) for row, _ in SCHEMA_ROWS)]
    folder = write_files(tmp_path / "in", {"a.csv": "\n".join(lines).encode()})
    (tmp_path / "schema.pbtxt").write_text(NUMBERS)
    table = convert("csv", folder, tmp_path, "--schema", tmp_path / "schema.pbtxt", "--no_shuffle", *TOLERANT)
    good = [dict(zip("ifbs", row, strict=True)) for _, row in SCHEMA_ROWS if not isinstance(row, str)]
    good = [{name: value for name, value in row.items() if value is not None} for row in good]
    assert list(map(repr, table.rows)) == list(map(repr, good))  # nan is nan
    rejects = [(reject["source"], reject["line"], reject["reason"]) for reject in table.rejects()]
    assert rejects == [("a.csv", line, row) for line, (_, row) in enumerate(SCHEMA_ROWS, 2) if isinstance(row, str)]
    assert any(
        "left out what --schema does not have: column 'extra'" in notice for notice in table.dataset.manifest.notices
    )
    check_consistent(table)


def test_numbers_that_types_are_inferred_from(tmp_path: Path) -> None:
    rows = ["1,1,1,1", "9223372036854775808,nan,1e400,1e-50", "3,inf,2,2", "4,-inf,-1e39,3"]
    folder = write_files(tmp_path / "in", {"a.csv": "\n".join(["a,b,c,d", *rows]).encode()})
    table = convert("csv", folder, tmp_path, "--no_shuffle", *TOLERANT)
    assert table.features == {"a": "bytes", "b": "float32", "c": "float32", "d": "float32"}
    assert table.rows == [{"a": b"1", "b": 1.0, "c": 1.0, "d": 1.0}, {"a": b"3", "b": math.inf, "c": 2.0, "d": 2.0}]
    assert [(reject["line"], reject["reason"]) for reject in table.rejects()] == [
        (3, "column 'c': '1e400' is beyond the range of float32"),
        (5, "column 'c': '-1e39' is beyond the range of float32"),
    ]
    check_consistent(table)


ENCODINGS = [
    ("latin-1", "caf\xe9 \x80", b""),
    ("cp1252", "“café” €", b"\x81"),
    ("shift_jis", "日本 ソ表", b"\x81"),
    ("utf-16", "日本 €", b"\x00\xdc"),
]


@pytest.mark.parametrize(("encoding", "value", "invalid"), ENCODINGS, ids=lambda value: ascii(value))
def test_encoding_that_is_declared(tmp_path: Path, encoding: str, value: str, invalid: bytes) -> None:
    lines = f"id,value\n1,{value}\n2,".encode(encoding)
    end = "\n3,z\n".encode("utf-16-le" if encoding == "utf-16" else encoding)  # without another byte order mark
    folder = write_files(tmp_path / "in", {"a.csv": lines + invalid + end})
    table = convert("csv", folder, tmp_path, "--encoding", encoding, "--no_shuffle", *TOLERANT)
    between = [] if invalid else [{"id": 2}]
    assert table.rows == [{"id": 1, "value": value.encode()}, *between, {"id": 3, "value": b"z"}]
    reasons = [(reject["line"], reject["reason"]) for reject in table.rejects()]
    assert reasons == ([(3, f"column 'value': the text is not {encoding}")] if invalid else [])


def zipped() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(zipfile.ZipInfo("a.csv"), "a\n1\n")
    return out.getvalue()


def parquet(table: pa.Table, **options: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(table, out, **options)
    return out.getvalue()


GOOD = b"id,label,age\n1,ant,3\n2,bee,4\n3,ant,\n"
SCHEMA = 'feature { name: "%s" type: INT shape {} presence { min_fraction: 1.0 } }'

WRONG_CSV: list[tuple[dict[str, bytes], tuple[str, ...], tuple[str, ...]]] = [
    ({"a.csv": b'a,b\n1,2\n3,"x\n5,6\n'}, (), ("a.csv, line 3", "never closed", "--quote ''")),
    ({"a.csv.gz": gzip.compress(b'a,b\n1,2\n3,"x\n5,6\n', mtime=0)}, (), ("a.csv.gz, line 3", "never closed")),
    ({"a.csv": b'a,"b\n1,2\n3,4\n'}, (), ("a.csv, line 1", "never closed")),
    ({"a.csv": b"a,b\n"}, (), ("has no rows",)),
    ({"a.csv": b"a,b,a\n1,2,3\n"}, (), ("a.csv, line 1", "names the column 'a' 2 times")),
    ({"a.csv": b"\na,,b\n1,2,3\n"}, (), ("a.csv, line 2", "no name for column 2 of 3")),
    (
        {"a.csv": GOOD, "b.csv": b"id,label,height\n1,ant,3\n"},
        (),
        ("headers differ", "'b.csv' lacks 'age' and has 'height'", "'a.csv'"),
    ),
    (
        {"a.csv": GOOD, "b.csv": b""},
        ("--label", "labl"),
        ("--label labl: no such column", "did you mean label?", "id, label, age"),
    ),
    ({"a.csv": GOOD}, ("--key", "idd"), ("--key idd: no such column", "did you mean id?")),
    (
        {"a.csv": GOOD},
        ("--group_by", "agee", "--splits", "a=1"),
        ("--group_by agee: no such column", "did you mean age?"),
    ),
    ({"a.csv": GOOD}, ("--stratify_by", "labels", "--splits", "a=1"), ("--stratify_by labels", "did you mean label?")),
    ({"a.csv": GOOD}, ("--drop", "age,agge"), ("--drop agge: no such column", "did you mean age?")),
    ({"a.csv": GOOD}, ("--only", "lable"), ("--only lable: no such column", "did you mean label?")),
    ({"a.csv": GOOD}, ("--fill", "aeg=3"), ("--fill aeg: no such column", "did you mean age?")),
    ({"a.csv": GOOD}, ("--label", "label", "--drop", "label"), ("--label label is also in --drop",)),
    ({"a.csv": GOOD}, ("--drop", "id,label,age"), ("no column of --input", "--drop")),
    ({"a.csv": b"id,label\n1,\n2,NA\n"}, ("--label", "label"), ("--label label has no value in any row",)),
    ({"a.csv": b"id,label\n1, ant\n"}, ("--label", "label"), ("class name ' ant'", "rename the class")),
    (
        {"a.csv": GOOD, "l.txt": b"bee\n"},
        ("--label", "label", "--labels_file", "l.txt"),
        ("class 'ant' is in the input", "append"),
    ),
    (
        {"a.csv": GOOD, "l.txt": b"bee\n"},
        ("--label", "age", "--labels_file", "l.txt"),
        ("--labels_file", "--label age holds numbers"),
    ),
    ({"a.csv": GOOD, "l.txt": b"bee\n"}, ("--labels_file", "l.txt"), ("--labels_file was given, but no --label",)),
    (
        {"a.csv": GOOD, "s": (SCHEMA % "agge").encode()},
        ("--schema", "s"),
        ("--schema wants column 'agge'", "did you mean age?"),
    ),
    (
        {"a.csv": GOOD, "s": (SCHEMA % "id").encode()},
        ("--schema", "s", "--fill", "id=x"),
        ("--fill id=x", "'id' holds int64"),
    ),
    ({"a.csv": GOOD, "s": GOOD}, ("--schema", "s"), ("--schema s is not a tensorflow-metadata Schema",)),
    ({"a.csv": GOOD, "s": b"\x89PNG\0"}, ("--schema", "s"), ("--schema s is not a tensorflow-metadata Schema",)),
    ({"a.csv": GOOD, "s": b""}, ("--schema", "s"), ("--schema s has no features",)),
    ({"a.csv": GOOD, "s": (SCHEMA % "id" * 2).encode()}, ("--schema", "s"), ("--schema s has feature 'id' twice",)),
    ({"a.csv": GOOD, "s": b"feature { type: INT }"}, ("--schema", "s"), ("--schema s has a feature without a name",)),
    ({"a.csv": GOOD}, ("--schema", "none"), ("--schema none: No such file",)),
    ({"a.csv": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\xff\n1\n"}, (), ("a.csv",)),
    ({"a.csv": zipped()}, (), ("a.csv is not CSV; it begins like a zip archive or a spreadsheet",)),
    ({"a.csv": parquet(pa.table({"a": [1]}))}, (), ("a.csv is not CSV; it begins like a Parquet file",)),
    ({"a.csv": gzip.compress(GOOD, mtime=0)}, (), ("a.csv is not CSV; it begins like gzip data: name it .csv.gz",)),
    (
        {"a.csv": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(99)},
        (),
        ("a.csv is not CSV; it begins like an old Excel file",),
    ),
    (
        {"a.csv": GOOD.decode().encode("utf-16")},
        (),
        ("a.csv is not CSV; it begins like UTF-16: give --encoding utf-16",),
    ),
    ({"a.csv": GOOD.decode().encode("utf-16-le")}, (), ("a.csv, line 1: there is a NUL byte in the header",)),
    (
        {"a.csv": GOOD},
        ("--encoding", "utf-16"),
        ("a.csv is not utf-16", "give the encoding of the file with --encoding"),
    ),
    ({"a.csv": b"id,caf\xe9\n1,2\n"}, (), ("a.csv, line 1: the header is not utf-8; give the encoding",)),
    ({"a.jsonl": b"{}"}, (), ("no CSV files in --input",)),
]


@pytest.mark.parametrize(("files", "flags", "words"), WRONG_CSV, ids=lambda value: ascii(value)[:50])
def test_wrong_csv_is_one_sentence_and_writes_nothing(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, bytes],
    flags: tuple[str, ...],
    words: tuple[str, ...],
) -> None:
    folder = write_files(tmp_path / "in", files)
    monkeypatch.chdir(folder)
    check_mistake(run("csv", "--input", folder, "--output", tmp_path / "out", "--name", "n", *flags), *words)
    assert not (tmp_path / "out").exists()
    assert tree_bytes(folder) == files


WRONG_FLAGS: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (("--delimiter", "ab"), ("--delimiter: 'ab' is not one ASCII character",)),
    (("--delimiter", ""), ("--delimiter: '' is not one ASCII character",)),
    (("--delimiter", "é"), ("--delimiter: 'é' is not one ASCII character",)),
    (("--delimiter", "x"), ("the delimiter 'x' is no good",)),
    (("--quote", "ab"), ("--quote: 'ab' is not one ASCII character",)),
    (("--quote", ","), ("--quote ',' needs --delimiter",)),
    (("--delimiter", ";", "--quote", ";"), ("--delimiter and --quote are both ';'",)),
    (("--columns", "a,a"), ("--columns: 'a,a' names a column twice",)),
    (("--columns", "a,"), ("--columns: 'a,' is not a list of names",)),
    (("--columns", ""), ("--columns: '' is not a list of names",)),
    (("--drop", "a,a"), ("--drop: 'a,a' names a column twice",)),
    (("--only", ""), ("--only: '' is not a list of names",)),
    (("--block_size", "5"), ("--block_size 5: expected 1KiB to 1GiB",)),
    (("--block_size", "2GiB"), ("--block_size", "expected 1KiB to 1GiB")),
    (("--block_size", "much"), ("--block_size: 'much' is not a size",)),
    (("--encoding", "nope"), ("unknown encoding 'nope'",)),
    (("--encoding", ""), ("unknown encoding ''",)),
    (("--encoding", "base64"), ("'base64' is no encoding of text files",)),
    (("--missing", "-,?"), ("--missing: expected one argument", "--missing=VALUE")),
    (("--fill", "a"), ("--fill: 'a' is not column=value",)),
    (("--fill", "=3"), ("--fill: '=3' is not column=value",)),
    (("--fill", "a=1", "--fill", "a=2"), ("--fill: a=… is given twice",)),
    (("--max_reject_fraction", "2"), ("--max_reject_fraction 2: expected 0 to 1",)),
    (("--max_reject_fraction", "nan"), ("--max_reject_fraction nan: expected 0 to 1",)),
    (("--delimeter", ";"), ("unknown flag --delimeter", "did you mean --delimiter?")),
    (("--record", "file"), ("unknown flag --record",)),
    (("--group_by", "id"), ("--group_by id needs --splits",)),
    (("--on_new_label", "append"), ("--on_new_label append needs --labels_file",)),
]


@pytest.mark.parametrize(("flags", "words"), WRONG_FLAGS, ids=lambda value: " ".join(value)[:40])
def test_wrong_flag_is_one_sentence(run: Run, tmp_path: Path, flags: tuple[str, ...], words: tuple[str, ...]) -> None:
    folder = write_files(tmp_path / "in", {"a.csv": GOOD})
    check_mistake(run("csv", "--input", folder, "--output", tmp_path / "out", "--name", "n", *flags), *words)
    assert not (tmp_path / "out").exists()


def test_spellings_of_a_missing_value(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {"a.csv": b'a,b\n1,NA\n-,x\n"?",y\n"",\n'})
    table = convert("csv", folder, tmp_path, "--missing=-,?", "--no_shuffle")
    assert table.rows == [{"a": 1, "b": b"NA"}, {"b": b"x"}, {"b": b"y"}, {}]


def test_classes_that_are_missing_or_new(run: Run, tmp_path: Path) -> None:
    rows = b"id,label\n0,ant\n1,bee\n2,cow\n3,\n4,NA\n5,cow\n"
    folder = write_files(tmp_path / "in", {"a.csv": rows})
    (tmp_path / "labels.txt").write_text("cow\nant\n")
    flags = ("--label", "label", "--labels_file", tmp_path / "labels.txt", *TOLERANT)
    missing = [(5, "no label: column 'label' has no value"), (6, "no label: column 'label' has no value")]
    appended = convert("csv", folder, tmp_path / "1", *flags, "--on_new_label", "append")
    assert {row["id"]: row["label"] for row in appended.rows} == {0: 1, 1: 2, 2: 0, 5: 0}
    assert [(reject["line"], reject["reason"]) for reject in appended.rejects()] == missing
    rejected = convert("csv", folder, tmp_path / "2", *flags, "--on_new_label", "reject")
    assert {row["id"]: row["label"] for row in rejected.rows} == {0: 1, 2: 0, 5: 0}
    new = (3, "class 'bee' is not in --labels_file")
    assert [(reject["line"], reject["reason"]) for reject in rejected.rejects()] == [new, *missing]
    for table in (appended, rejected):
        check_consistent(table)


def check_failure(result: Any, *words: str) -> None:
    """Check that a job ended with status 1 and one sentence that holds `words`, whatever its progress printed
    before."""
    assert (result.status, result.out) == (1, ""), result
    assert result.err.startswith("shardmill: error: "), result.err
    assert result.err.count("\n") == 1, result.err
    for word in words:
        assert word in result.err, result.err


def test_too_many_rejects(run: Run, tmp_path: Path) -> None:
    good = "".join(f"{number},x\n" for number in range(97))
    folder = write_files(tmp_path / "in", {"a.csv": f"a,b\n{good}1\n2\n3\n".encode()})
    out = tmp_path / "out" / "n"
    command = ("csv", "--input", folder, "--output", tmp_path / "out", "--name", "n")
    rejects = out / "1.0.0-rejects.jsonl"
    result = run(*command, "--max_reject_fraction", "0.02")
    check_failure(
        result, "3 of 100 records were rejected", "--max_reject_fraction 0.02", "the row has 1 field", str(rejects)
    )
    assert [json.loads(line)["line"] for line in rejects.read_text().splitlines()] == [99, 100, 101]
    assert list(tree_bytes(tmp_path / "out")) == ["n/1.0.0-rejects.jsonl"]
    assert run(*command, "--max_reject_fraction", "0.03").status == 0
    assert sorted(path.name for path in out.iterdir()) == ["1.0.0", "LATEST"]


@pytest.mark.parametrize("flags", [(), ("--label", "Report 2024")], ids=["", "label"])
def test_rows_none_of_which_can_be_read(run: Run, tmp_path: Path, flags: tuple[str, ...]) -> None:
    """A title above the header, say."""
    folder = write_files(tmp_path / "in", {"a.csv": b"Report 2024\na,b\n1,2\n"})
    result = run("csv", "--input", folder, "--output", tmp_path / "out", "--name", "n", *flags)
    check_failure(result, "2 of 2 records were rejected, none is left", "the row has 2 fields; expected 1")
    assert list(tree_bytes(tmp_path / "out")) == ["n/1.0.0-rejects.jsonl"]


def test_output_that_is_published_or_inside_the_input(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {"a.csv": GOOD})
    command = ("csv", "--input", folder, "--name", "n", "--output")
    for output in (folder, folder / "out"):
        check_mistake(run(*command, output), "lies inside --input")
    assert tree_bytes(folder) == {"a.csv": GOOD}
    assert run(*command, tmp_path / "out").status == 0
    before = tree_bytes(tmp_path / "out")
    check_mistake(run(*command, tmp_path / "out", "--seed", 7), "is a published data set; give --overwrite")
    assert tree_bytes(tmp_path / "out") == before


def test_file_without_read_permission_is_one_reject(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {"a.csv": b"a\n1\n", "b.csv": b"a\n2\n", "c/d.csv": b"a\n3\n"})
    (folder / "b.csv").chmod(0)
    (folder / "c").chmod(0)
    command = ("csv", "--input", folder, "--output", tmp_path, "--name", "n", *TOLERANT)
    result = Process(tmp_path / "process", *command, before=bind_root_to_permissions).result()
    (folder / "c").chmod(0o755)
    assert result.status == 0, result.err
    table = read_table(tmp_path / "n")
    assert table.rows == [{"a": 1}]
    file = {"records": 1, "size_bytes": 4, "count": "estimated"}  # by the one file that could be read
    lost = {"records": 1, "size_bytes": 0, "count": "at least"}
    assert table.rejects() == [
        {"source": "b.csv", "line": None, "stage": "index", "reason": "cannot be read: Permission denied", **file},
        {"source": "c/", "line": None, "stage": "index", "reason": "cannot list the folder: Permission denied", **lost},
    ]
    check_consistent(table)


def test_2000_files_of_a_row_each(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {f"{n % 7}/{n}.csv": f"a,b\n{n},x{n}\n".encode() for n in range(2000)})
    table = convert("csv", folder, tmp_path, "--num_shards", 4)
    assert sorted((row["a"], row["b"]) for row in table.rows) == [(n, b"x%d" % n) for n in range(2000)]
    assert table.sizes == {"train": [500] * 4}


def test_row_of_thousands_of_columns(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(2000)]
    lines = [",".join(names), ",".join(map(str, range(2000))), ",".join(["1"] * 1999)]
    folder = write_files(tmp_path / "in", {"a.csv": "\n".join(lines).encode()})
    table = convert("csv", folder, tmp_path, *TOLERANT)
    assert table.rows == [{name: number for number, name in enumerate(names)}]
    assert [reject["reason"] for reject in table.rejects()] == [
        "the row has 1999 fields; expected 2000, one for each column"
    ]


PARQUET = pa.table({"id": range(1000), "name": [f"n{number}" for number in range(1000)]})
WHOLE = parquet(PARQUET, row_group_size=250, compression="none", use_dictionary=False)


def overwritten(data: bytes, at: int) -> bytes:
    return data[:at] + b"\xff" * 40 + data[at + 40 :]


def test_bad_parquet_files(tmp_path: Path) -> None:
    odd = pa.table({"id": pa.array([2000, 1 << 63], pa.uint64()), "name": ["a", "b"]})
    files = {
        "broken-group.parquet": overwritten(WHOLE, 3000),
        "cut.parquet": WHOLE[:-10],
        "empty.parquet": b"",
        "footer.parquet": overwritten(WHOLE, len(WHOLE) - 60),
        "no-rows.parquet": parquet(PARQUET.slice(0, 0)),
        "odd.parquet": parquet(odd),
        "text.parquet": b"id,name\n1,2\n",
    }
    table = convert("parquet", write_files(tmp_path / "in", files), tmp_path, *TOLERANT)
    kept = {number: b"n%d" % number for number in range(250, 1000)} | {2000: b"a"}
    assert {row["id"]: row["name"] for row in table.rows} == kept
    assert len(table.rows) == len(kept)
    rejects = {reject["source"]: (reject["line"], reject["stage"], reject["reason"]) for reject in table.rejects()}
    assert [(source, *found[:2]) for source, found in rejects.items()] == [
        ("broken-group.parquet", 1, "read"),
        ("cut.parquet", None, "index"),
        ("empty.parquet", None, "index"),
        ("footer.parquet", None, "index"),
        ("odd.parquet", 2, "read"),
        ("text.parquet", None, "index"),
    ]
    assert rejects["broken-group.parquet"][2].startswith(
        "row group 0 cannot be read from row 1 on, all of which is lost: "
    )
    assert "column 'id': 9223372036854775808" in rejects["odd.parquet"][2]
    assert all(
        rejects[name][2].startswith("not a Parquet file: ") for name in ("cut.parquet", "empty.parquet", "text.parquet")
    )
    check_consistent(table)


NESTED = pa.table(
    {"a": [1, 2], "s": [{"x": 1}, {"x": 2}], "m": pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64()))}
)


def test_parquet_column_that_cannot_be_read_is_dropped(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {"a.parquet": parquet(NESTED)})
    command = ("parquet", "--input", folder, "--output", tmp_path / "out", "--name", "n")
    check_mistake(run(*command), "a.parquet: column 's' is struct<x: int64>", "--drop s")
    check_mistake(run(*command, "--drop", "s"), "a.parquet: column 'm' is map<", "--drop m")
    assert not (tmp_path / "out").exists()
    assert run(*command, "--drop", "s,m").status == 0
    assert sorted(row["a"] for row in read_table(tmp_path / "out" / "n").rows) == [1, 2]


WRONG_PARQUET: list[tuple[dict[str, Callable[[], pa.Table]], tuple[str, ...], tuple[str, ...]]] = [
    (
        {"a.pq": lambda: pa.table({"a": [1]}), "b.pq": lambda: pa.table({"b": [1]})},
        (),
        ("headers differ: 'b.pq' lacks 'a' and has 'b'",),
    ),
    ({"a.pq": lambda: pa.table({"": [1]})}, (), ("a column without a name",)),
    ({"a.pq": lambda: pa.table({})}, (), ("has no rows",)),
    (
        {"a.pq": lambda: pa.table({"label": [1]})},
        ("--label", "lable"),
        ("--label lable: no such column", "did you mean label?"),
    ),
    ({"a.pq": lambda: pa.table({"a": [1]})}, ("--fill", "b=1"), ("--fill b: no such column",)),
    ({"a.pq": lambda: pa.table([[1], [2]], names=["a", "a"])}, (), ("a.pq: column 'a' is there twice",)),
]


@pytest.mark.parametrize(("files", "flags", "words"), WRONG_PARQUET, ids=lambda value: ascii(value)[:30])
def test_wrong_parquet_is_one_sentence_and_writes_nothing(
    run: Run, tmp_path: Path, files: dict[str, Callable[[], pa.Table]], flags: tuple[str, ...], words: tuple[str, ...]
) -> None:
    folder = write_files(tmp_path / "in", {name: parquet(make()) for name, make in files.items()})
    check_mistake(run("parquet", "--input", folder, "--output", tmp_path / "out", "--name", "n", *flags), *words)
    assert not (tmp_path / "out").exists()
