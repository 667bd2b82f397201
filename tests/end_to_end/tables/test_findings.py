"""A finding about values is one of the column: whatever the column is used for, and whatever format it comes from."""

import io
import sqlite3
from collections.abc import Callable
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
import pytest

import shardmill
from shardmill.metadata.manifest import Manifest
from shardmill.reading.dataset import open_dataset
from tests.support.jobs import Jobs
from tests.support.reading import plain
from tests.support.table_results import encode_rows, parquet

Row = dict[str, Any]
SAME = "def same(row):\n    return row\n"
TIMES = [1_700_000_000.25 + n / 2 for n in range(40)]  # of which float32 makes one number
TEXTS = [str(n) for n in range(20)] + ["?"] + [str(n) for n in range(20, 40)]
# A finding: the values of a column, and the words about it
FINDINGS: dict[str, tuple[list[Any], str]] = {
    "float32": (TIMES, "column {!r} is stored as float32"),
    "numbers as texts": (TEXTS, "column {!r} is text: …values are numbers, the first other one is '?'"),
}


class Use(NamedTuple):
    """A use of a column: its flags, and its name."""

    flags: str
    make: Callable[[int, Any], Row] = lambda n, value: {"n": n, "v": value}
    name: str = "v"


USES = {
    "feature": Use(""),
    "label": Use("--label v"),
    "key": Use("--key v"),
    "order": Use("--sequence_by u --order_by v", lambda n, value: {"n": n, "u": n // 50, "v": value}),
    "in sequences": Use("--sequence_by u --order_by n", lambda n, value: {"n": n, "u": n // 50, "v": value}),
    "list": Use("", lambda n, value: {"n": n, "v": [value]}),
    "list of any length": Use("", lambda n, value: {"n": n, "v": [value] if n else []}),
    "nested": Use("--flatten", lambda n, value: {"n": n, "o": {"v": value}}, "o.v"),
    "nested in a list": Use("--flatten", lambda n, value: {"n": n, "o": [{"v": value}]}, "o.v"),
    "of a function": Use("--map same.py:same"),
}
_NESTED = {"list", "list of any length", "nested", "nested in a list"}
# The combinations that cannot be, by a pair of finding, use or format
NEVER = {
    ("numbers as texts", "order"): "'?' orders nothing, and the row is a reject",
    **{(use, "csv"): "fields of CSV hold no objects" for use in ("nested", "nested in a list")},
    **{(use, "sql"): "SQLite has neither lists nor objects" for use in _NESTED},
    ("of a function", "table"): "shardmill.write has no function",
    ("of a function", "dicts"): "shardmill.write has no function",
}
FORMATS = ("csv", "jsonl", "parquet", "avro", "sql", "table", "dicts")


def _avro_type(value: Any) -> Any:
    if isinstance(value, dict):
        fields = [{"name": name, "type": _avro_type(item)} for name, item in value.items()]
        return {"type": "record", "name": "r" + str(len(fields)), "fields": fields}
    if isinstance(value, list):
        return {"type": "array", "items": _avro_type(value[0])}
    return {int: "long", float: "double", str: "string"}[type(value)]


def _publish(jobs: Jobs, form: str, rows: list[Row], flags: str) -> Manifest:
    """Publish rows in a format, and return the manifest."""
    if form in ("table", "dicts"):
        words = flags.split()
        given: Any = {name[2:]: value for name, value in zip(words[::2], words[1::2], strict=False)}
        given |= {"flatten": True} if flags == "--flatten" else {}
        data = pa.Table.from_pylist(rows) if form == "table" else rows
        return open_dataset(shardmill.write(data, output="out", name="n", **given).directory).manifest
    if form == "sql":
        with sqlite3.connect("a.db") as connection:
            names = list(rows[0])
            connection.execute(f"CREATE TABLE rows ({', '.join(names)})")
            marks = ", ".join("?" * len(names))
            connection.executemany(f"INSERT INTO rows VALUES ({marks})", [tuple(row.values()) for row in rows])
        connection.close()
        return jobs.build(f"sql --url sqlite:///a.db --query 'SELECT * FROM rows' {flags}").manifest
    if form == "csv" and isinstance(rows[0]["v"], list):
        rows = [{**row, "v": " ".join(map(str, row["v"]))} for row in rows]
        flags += " --list_separator 'v= '"
    if form == "avro":
        out = io.BytesIO()
        fastavro.writer(out, _avro_type(rows[-1]), rows)
        data = out.getvalue()
    else:
        data = encode_rows(form, rows)
    return jobs.build(f"{form} --input in/a.{form} {flags}", files={f"a.{form}": data, "same.py": SAME}).manifest


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("finding", FINDINGS)
def test_a_finding_is_one_of_the_column(jobs: Jobs, finding: str, use: str, form: str) -> None:
    if NEVER.keys() & {(finding, use), (use, form), (finding, form)}:
        return
    (jobs.folder / "same.py").write_text(SAME)
    values, words = FINDINGS[finding]
    flags, make, name = USES[use]
    rows = [make(n, value) for n, value in enumerate(values)]
    manifest = _publish(jobs, form, rows, flags)
    notices = [notice for notice in manifest.notices if f"column {name!r}" in notice]
    assert len(notices) == 1, notices
    assert all(part in notices[0] for part in words.format(name).split("…"))
    assert sum(split.examples for split in manifest.splits) == (1 if "--sequence_by" in flags else len(rows))


ORDERED = pa.DictionaryArray.from_arrays([0, 2, 1], ["low", "mid", "high"], ordered=True)
NOT_UTF8 = pa.array([b"a", b"\xff", b"b"]).view(pa.string())
MARKED, UNGROUPED = "1 line begins with a byte order mark", "1 row has no value in column 'u' of --group_by"
SAID = [  # a command, its data, words about it, and the values of the last column in order
    ("csv", '\ufeffa,x\n"1",2\n\ufeff"a","x"\n\ufeff3,4\n', "2 lines begin with a byte order mark", [2, 4]),
    ("jsonl", '\ufeff{"x": 1}\n\ufeff{"x": 2}\n', MARKED, [1, 2]),
    ("text", "\ufeffa\nb\n\ufeffc\n", MARKED, ["a", "b", "c"]),
    ("parquet --label y", parquet(pa.table({"y": ORDERED})), "the ids of 'y' follow the order", [0, 2, 1]),
    ("csv --types y=bytes --label y", "n,y\n1,1\n1,10\n1,2\n", "ids follow the sorted names", [0, 1, 2]),
    ("parquet --max_reject_fraction 1", parquet(pa.table({"s": NOT_UTF8})), "b'\\xff' is not utf-8", ["a", "b"]),
    ("csv --splits a=1 --group_by u", "n,u\n1,José\n2,Jose\u0301\n3,\n", "1 row has a key or group", None),
    ("csv --splits a=1 --group_by u", "n,u\n1,José\n2,Jose\u0301\n3,\n", UNGROUPED, None),
    (
        "csv --sequence_by u --order_by t",
        "u,t,n\n1,2024-01-01T00:00Z,1\n1,2024-01-02T00:00,2\n",
        "for UTC among 1",
        None,
    ),
    ("csv --timestamp a=s,b=s", "a,b\n1970-01-02,1970-01-03\n", "'b': 1 value without a zone", [172_800]),
]


@pytest.mark.parametrize(
    ("line", "data", "words", "values"), SAID, ids=[f"{line}-{words}" for line, _, words, _ in SAID]
)
def test_a_reading_that_may_be_doubted_is_said(
    jobs: Jobs, line: str, data: Any, words: str, values: list[Any] | None
) -> None:
    name, order = f"a.{line.split()[0]}", "" if "--order_by" in line else "--no_shuffle"
    made = jobs.build(f"{line} --input in/{name} {order}", files={name: data})
    assert words in " ".join([*made.manifest.notices, made.said])
    column = made.manifest.features[-1].name
    assert values is None or [plain(row[column]) for row in made.examples()] == values


def test_one_text_of_sqlite_that_is_not_utf8_is_a_reject(jobs: Jobs) -> None:
    with sqlite3.connect("a.db") as connection:
        connection.executescript("CREATE TABLE t (n, s TEXT); INSERT INTO t VALUES (1, 'a'), (2, CAST(x'ff' AS TEXT))")
    for query in ("SELECT * FROM t", "SELECT s, CASE n WHEN 1 THEN 1 ELSE hex(n) END FROM t"):
        made = jobs.build(f"sql --url sqlite:///a.db --query '{query}' --max_reject_fraction 1 --overwrite")
        assert "is not utf-8" in made.said
        assert [plain(row["s"]) for row in made.examples()] == ["a"]
