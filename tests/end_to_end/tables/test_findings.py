"""A finding about values is one of the column: whatever the column is used for, and whatever format it comes from."""

import io
import sqlite3
from collections.abc import Callable
from datetime import date, timedelta
from typing import Any, NamedTuple

import fastavro
import pyarrow as pa
import pytest

import shardmill
from shardmill.metadata.manifest import Manifest
from shardmill.reading.dataset import open_dataset
from tests.support.command import image
from tests.support.jobs import Jobs
from tests.support.reading import plain
from tests.support.table_results import encode_rows, parquet

Row = dict[str, Any]
SAME = "def same(row):\n    return row\n"
DAYS = [date(2024, 1, 1) + timedelta(days=n) for n in range(40)]
# A finding by its column: the values, the words about the column, and the type that it is given
FINDINGS: dict[str, tuple[Any, ...]] = {
    "float": ([1_700_000_000.25 + n / 2 for n in range(40)], "column {!r} is stored as float32"),
    "number": (
        ["0", "?", *map(str, range(1, 39))],
        "column {!r} is stored as text: …values are numbers, the first other one is '?'",
    ),
    "iso": (list(map(str, DAYS)), "column {0!r} is stored as text…values are dates…--timestamp"),
    "german": ([f"{day:%d.%m.%Y}" for day in DAYS], "the first '01.01.2024'…--timestamp"),
    "minus": (["7", "1999-", "2-", "−5", *map(str, range(36))], "{!r} has 3 numbers with a plus…'1999-'; --t", "int64"),
    "plus": ([f"+491{n + 10}" for n in range(40)], "column {!r} has 4…with a plus…'+49110'; --types", "int64"),
    "fraction": (["7", "2.5-", *map(str, range(38))], "{!r} has 1 number with…such as '2.5-'", "float32"),
    "names": ([f"u{n}" for n in range(40)], "label {0!r} has 40 classes in 40 examples, such as 'u0' and 'u1'"),
}


class Use(NamedTuple):
    """A use of columns: the flags with their names, how a row holds their values, and a prefix of their names."""

    flags: str
    make: Callable[[int, Row], Row] = lambda n, values: {"n": n, **values}
    prefix: str = ""


USES = {
    "feature": Use(""),
    "label": Use("--label {}"),
    "key": Use("--key {}"),
    "order": Use("--sequence_by u --order_by {}", lambda n, values: {"n": n, "u": n // 50, **values}),
    "in sequences": Use("--sequence_by u --order_by n", lambda n, values: {"n": n, "u": n // 50, **values}),
    "list": Use("", lambda n, values: {"n": n} | {name: [value] for name, value in values.items()}),
    "list of any length": Use(
        "",
        lambda n, values: (
            {"n": n} | {name: [value][: n + 1] if n else [value, value] for name, value in values.items()}
        ),
    ),
    "nested": Use("--flatten", lambda n, values: {"n": n, "o": values}, "o."),
    "nested in a list": Use("--flatten", lambda n, values: {"n": n, "o": [values]}, "o."),
    "of a function": Use("--map same.py:same"),
    "folder": Use("--hive_partitioning"),
}
_ALONE = ("key", "order")  # uses of one column at a time: every second finding is in every second format
_NESTED = {"list", "list of any length", "nested", "nested in a list"}
# The combinations that cannot be, by a pair of finding, use or format
NEVER = {
    ("number", "order"): "'?' orders nothing, and the row is a reject",
    ("german", "order"): "these dates order nothing",
    ("names", "order"): "names order nothing",
    ("names", "in sequences"): "a sequence has one label",
    **{(use, "csv"): "fields of CSV hold no objects" for use in ("nested", "nested in a list")},
    **{(use, "sql"): "SQLite has neither lists nor objects" for use in _NESTED},
    **{("of a function", form): "shardmill.write has no function" for form in ("table", "dicts")},
    **{("folder", form): "these rows are in no file" for form in ("sql", "table", "dicts")},
}
FORMATS = ("csv", "jsonl", "parquet", "avro", "sql", "table", "dicts")


def _avro_type(value: Any) -> Any:
    if isinstance(value, dict):
        fields = [{"name": name, "type": ["null", _avro_type(item)]} for name, item in value.items()]
        return {"type": "record", "name": "r" + str(len(fields)), "fields": fields}
    if isinstance(value, list):
        return {"type": "array", "items": _avro_type(value[0])}
    return {int: "long", float: "double", str: "string"}[type(value)]


def _publish(jobs: Jobs, form: str, rows: list[Row], flags: str) -> Manifest:
    """Publish rows in a format, and return the manifest."""
    if form in ("table", "dicts"):
        words = flags.replace("--flatten ", "").split()
        given: Any = {name[2:]: value for name, value in zip(words[::2], words[1::2], strict=True)}
        given |= {"flatten": True} if "--flatten" in flags else {}
        data = pa.Table.from_pylist(rows) if form == "table" else rows
        return open_dataset(shardmill.write(data, output="out", name="n", overwrite=True, **given).directory).manifest
    if form == "sql":
        with sqlite3.connect("a.db") as connection:
            names = list(rows[0])
            connection.execute("DROP TABLE IF EXISTS rows")
            connection.execute(f"CREATE TABLE rows ({', '.join(names)})")
            marks = ", ".join("?" * len(names))
            connection.executemany(f"INSERT INTO rows VALUES ({marks})", [tuple(row.values()) for row in rows])
        connection.close()
        return jobs.build(f"sql --url sqlite:///a.db --query 'SELECT * FROM rows' --overwrite {flags}").manifest
    if form == "csv":
        lists = {name for name, value in rows[0].items() if isinstance(value, list)}
        rows = [row | {name: " ".join(map(str, row[name])) for name in lists} for row in rows]
        flags += "".join(f" --list_separator '{name}= '" for name in lists)
    files = {f"a.{form}": rows}
    if "--hive" in flags:
        names = list(rows[0])[1:]
        files = {f"{'/'.join(f'{name}={row[name]}' for name in names)}/a.{form}": [{"n": row["n"]}] for row in rows}
    return jobs.build(
        f"{form} --overwrite {flags}", files={name: _encode(form, part) for name, part in files.items()}
    ).manifest


def _encode(form: str, rows: list[Row]) -> bytes:
    if form != "avro":
        return encode_rows(form, rows)
    out = io.BytesIO()
    fastavro.writer(out, _avro_type(rows[-1]), rows)
    return out.getvalue()


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("use", USES)
def test_a_finding_is_one_of_the_column(jobs: Jobs, use: str, form: str) -> None:
    if (use, form) in NEVER:
        return
    (jobs.folder / "same.py").write_text(SAME)
    flags, make, prefix = USES[use]
    found = [finding for finding in FINDINGS if (finding, use) not in NEVER]
    for part in [[finding] for finding in found[FORMATS.index(form) % 2 :: 2]] if use in _ALONE else [found]:
        rows = [make(n, {name: FINDINGS[name][0][n] for name in part}) for n in range(40)]
        names = {name: f"{prefix}{name}" for name in part}
        given = flags.format(",".join(names.values()))
        typed = [f"{name}={FINDINGS[finding][2]}" for finding, name in names.items() if FINDINGS[finding][2:]]
        given += f" --types {','.join(typed)}" if typed else ""
        given += f" --label {names['names']}" if "names" in names and use != "label" else ""
        manifest = _publish(jobs, form, rows, given)
        for finding, name in names.items():
            words = FINDINGS[finding][1].format(name).split("…")
            assert sum(all(word in notice for word in words) for notice in manifest.notices) == 1, (
                finding,
                manifest.notices,
            )
        assert sum(split.examples for split in manifest.splits) == (1 if "--sequence_by" in given else len(rows))


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("flags", ["", "--only a"])
def test_rows_without_a_value_are_counted(jobs: Jobs, form: str, flags: str) -> None:
    rows: list[Row] = [{"n": n, "a": n + 0.5, "b": f"x{n}"} for n in range(9)]
    for n, text in enumerate((None, None, "x"), 3):  # the last has a value in a column that may not be read
        rows[n] = {"n": None, "a": None, "b": text}
    manifest = _publish(jobs, form, rows, flags)
    kept = bool(flags) + 2 * (form != "csv")
    words = "1 row has no value of its" if kept == 1 else f"{kept} rows have no value of their"
    found = [notice for notice in manifest.notices if "own to store; the first is " in notice]
    assert [notice.startswith(words) for notice in found] == [True] * (kept > 0)
    assert ("passed over 2 empty rows" in manifest.notices) == (form == "csv")
    assert sum(split.examples for split in manifest.splits) == (7 if form == "csv" else 9)


def test_a_folder_s_name_is_no_value_of_a_row(jobs: Jobs) -> None:
    made = jobs.build("jsonl --hive_partitioning", files={"y=1/a.jsonl": '{"x": 2}\n{"x": null}\n'})
    assert "1 row has no value of its own to store; the first is y=1/a.jsonl, line 2" in made.manifest.notices
    made = jobs.build("jsonl --hive_partitioning --label x --max_reject_fraction 1 --overwrite")
    assert not any("of its own" in notice for notice in made.manifest.notices)  # the row is a reject


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet"])
def test_a_finding_is_one_of_a_manifest_s_column(jobs: Jobs, form: str) -> None:
    names = [name for name, finding in FINDINGS.items() if name != "names" and not finding[2:]]  # --types is for tables
    groups = ["José", "Jose\u0301", None, *"x" * 37]
    rows = [
        {"file_name": "a.png", "label": "1", "u": groups[n]} | {name: FINDINGS[name][0][n] for name in names}
        for n in range(40)
    ]
    files = {"a.png": image(image_format="PNG"), f"m.{form}": encode_rows(form, rows)}
    notices = jobs.build(f"images --manifest in/m.{form} --group_by u --splits a=1", files=files).manifest.notices
    for name in names:
        words = FINDINGS[name][1].format(name).split("…")
        assert sum(all(word in notice for word in words) for notice in notices) == 1, (name, notices)
    assert all(words in " ".join(notices) for words in ("1 row has a key or group", UNGROUPED))
    assert not any("'label'" in notice or "'file_name'" in notice for notice in notices)


ORDERED = pa.DictionaryArray.from_arrays([0, 2, 1], ["low", "mid", "high"], ordered=True)
LISTED = pa.ListArray.from_arrays([0, 1, 3], ORDERED)
IN_STRUCT = pa.table({"x": range(3), "s": pa.StructArray.from_arrays([ORDERED], ["y"])})
NOT_UTF8 = pa.array([b"a", b"\xff", b"b"]).view(pa.string())
MARKED, UNGROUPED = "1 line begins with a byte order mark", "1 row has no value in column 'u' of --group_by"
ORDER = "--sequence_by u --order_by t"
SAID = [  # a command, its data, words about it, and the values of the last column in order
    ("csv", '\ufeffa,x\n"1",2\n\ufeff"a","x"\n\ufeff3,4\n', "2 lines begin with a byte order mark", [2, 4]),
    ("jsonl", '\ufeff{"x": 1}\n\ufeff{"x": 2}\n', MARKED, [1, 2]),
    ("csv --thousands ,", 'n,x\n1,"(1,500)"\n2,"1,000"\n', "'x' has 1 number with a plus, a minus", [-1500, 1000]),
    ("jsonl --types x=float32", '{"x": ["12345678.5-"]}\n{"x": ["2"]}\n', "has 1 number with", [[-12345678], [2]]),
    ("text", "\ufeffa\nb\n\ufeffc\n", MARKED, ["a", "b", "c"]),
    ("parquet --label y", parquet(pa.table({"y": ORDERED})), "the ids of 'y' follow the order", [0, 2, 1]),
    ("parquet --label y", parquet(pa.table({"y": LISTED})), "the ids of 'y' follow the order", [[0], [2, 1]]),
    ("parquet --label s.y --flatten", parquet(IN_STRUCT), "the ids of 's.y' follow the order", [0, 2, 1]),
    ("csv --types y=bytes --label y", "n,y\n1,1\n1,10\n1,2\n", "ids follow the sorted names", [0, 1, 2]),
    ("parquet --max_reject_fraction 1", parquet(pa.table({"s": NOT_UTF8})), "b'\\xff' is not utf-8", ["a", "b"]),
    ("csv --splits a=1 --group_by u", "n,u\n1,José\n2,Jose\u0301\n3,\n", "1 row has a key or group", None),
    ("csv --splits a=1 --group_by u", "n,u\n1,José\n2,Jose\u0301\n3,\n", UNGROUPED, None),
    ("csv --sequence_by u --order_by t", "u,t,n\n1,2024-01-01T00Z,1\n1,2024-01-02,2\n", "for UTC among 1", None),
    ("csv --delimiter ';' --decimal , --sequence_by u --order_by t", "u;t;n\n1;2,5;1\n1;1,5;2\n", "", [[2, 1]]),
    (f"csv --delimiter ; --decimal , --types t=bytes {ORDER}", "u;t\n1;12\n1;2,5\n", "", [["2,5", "12"]]),
    ("csv --delimiter ';' --decimal , --timestamp x=s", "n;x\n1;7,5\n", "1 number was taken for times", [7]),
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


def test_categories_whose_orders_differ_take_a_labels_file(jobs: Jobs) -> None:
    orders = (["low", "mid", "high"], ["high", "mid", "low"])
    columns = [pa.DictionaryArray.from_arrays([0, 2], order, ordered=True) for order in orders]
    files = {f"{name}.parquet": parquet(pa.table({"y": column})) for name, column in zip("ab", columns, strict=True)}
    jobs.refuse("parquet --label y", "give --labels_file, a class a line in its order", files=files)
    (jobs.folder / "names").write_text("low\nmid\nhigh\n")
    made = jobs.build("parquet --label y --labels_file names --no_shuffle")
    assert [row["y"] for row in made.examples()] == [0, 2, 2, 0]


@pytest.mark.parametrize(("command", "data"), [("csv", "x\n16777217\n3\n"), ("jsonl", '{"x": 16777217}\n{"x": 3}\n')])
def test_a_dry_run_with_a_schema_has_the_notices_of_its_job(jobs: Jobs, command: str, data: str) -> None:
    schema = 'feature { name: "x" type: FLOAT presence { min_fraction: 1.0 } shape {} }\n'
    files = {f"a.{command}": data, "s.pbtxt": schema}
    planned = jobs.run(f"{command} --input in/a.{command} --schema in/s.pbtxt --dry_run", files=files)
    (notice,) = jobs.build(f"{command} --input in/a.{command} --schema in/s.pbtxt").notices
    assert "which changes 1 number above 16,777,216" in notice
    assert f"NOTE: {notice}\n" in planned.out
