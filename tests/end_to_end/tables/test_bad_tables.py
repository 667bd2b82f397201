"""Bad tables end to end: a bad row of CSV or Parquet is a line in rejects/, a user's mistake is one sentence and status
2."""

import bz2
import gzip
import math
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import pytest
import zstandard

from tests.support.command import write_files
from tests.support.jobs import Jobs
from tests.support.table_results import TOLERANT, Table, check_consistent, convert

HEADER = "id,name,score\n"


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
        ((1, "a", 1), (5, "", math.nan), (6, "a", 1), (7, "c", 3)),
        (
            (3, "read", "the row has 2 fields; expected 3"),
            (4, "read", "the row has 1 field; expected 3"),
            (5, "read", "the row has 4 fields; expected 3"),
        ),
    ),
    Bad(
        "quote-closed-by-the-next.csv",
        text("11,a,1", '12,"b,2', "13,c,3", '14,"d",4', "15,e,5", '16,"f",6'),
        ((11, "a", 1), (13, "c", 3), (14, "d", 4), (15, "e", 5), (16, "f", 6)),
        ((3, "read", "a field opens with a quote that its line does not close"),),
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
        (
            (3, "read", "column 'name': byte 0xe9 (é in cp1252) is not utf-8"),
            (5, "read", "column 'id': byte 0xff (ÿ in cp1252) is not utf-8"),
        ),
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
# Each row, and what it becomes: values of i, f, b, s, or the reason
SCHEMA_ROWS: list[tuple[str, tuple[Any, ...] | str]] = [
    ("-9223372036854775808,1e-50,false,c", (-1 << 63, 0.0, 0, b"c")),
    ("9223372036854775808,1,true,d", "column 'i': '9223372036854775808' is beyond the range of int64"),
    ("1,-1e39,true,d", "column 'f': '-1e39' is beyond the range of float32"),
    ("1,nan,TRUE,e", (1, math.nan, 1, b"e")),
    ("1.5,1,true,i", "column 'i': '1.5' is not an integer (int64)"),
    ("1,1,maybe,i", "column 'b': 'maybe' is neither true nor false (bool)"),
    (",1,true,i", "column 'i' has no value, which --schema wants in every row"),
    ("1,NA,true,i", "column 'f' has no value, which --schema wants in every row"),
    ("007,-inf,true,", (7, -math.inf, 1, None)),
]


def test_rows_that_a_schema_does_not_fit(jobs: Jobs) -> None:
    lines = ["i,extra,f,b,s", *(row.replace(",", ",?,", 1) for row, _ in SCHEMA_ROWS)]
    made = jobs.build("csv --schema in/s --no_shuffle", *TOLERANT, files={"a.csv": "\n".join(lines), "s": NUMBERS})
    good = [dict(zip("ifbs", row, strict=True)) for _, row in SCHEMA_ROWS if not isinstance(row, str)]
    good = [{name: value for name, value in row.items() if value is not None} for row in good]
    assert list(map(repr, made.table.rows)) == list(map(repr, good))  # nan is nan
    assert made.reasons == {f"a.csv:{n}": row for n, (_, row) in enumerate(SCHEMA_ROWS, 2) if isinstance(row, str)}
    assert any("left out what --schema does not have: column 'extra'" in notice for notice in made.notices)
    check_consistent(made.table)


def test_numbers_that_types_are_inferred_from(jobs: Jobs) -> None:
    rows = ["a,b,c,d", "1,1,1,1", "9223372036854775808,nan,1e39,1e-50", "3,inf,2,2", "4,-inf,-1e39,3"]
    made = jobs.build("csv --no_shuffle", *TOLERANT, files={"a.csv": "\n".join(rows)})
    assert made.table.features == {"a": "bytes", "b": "float32", "c": "float32", "d": "float32"}
    first, third = ({"a": b"1", "b": 1.0, "c": 1.0, "d": 1.0}, {"a": b"3", "b": math.inf, "c": 2.0, "d": 2.0})
    assert made.table.rows == [first, third]
    assert made.reasons == {
        "a.csv:3": "column 'c': '1e39' is beyond the range of float32",
        "a.csv:5": "column 'c': '-1e39' is beyond the range of float32",
    }
    check_consistent(made.table)
