"""`--timestamp column=unit`: dates and times of every format as int64."""

import sqlite3
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

import shardmill
from tests.support.command import Run
from tests.support.jobs import Built, Jobs, check_sentence
from tests.support.later import Later
from tests.support.table_results import encode_rows, parquet

tfds = Later("tensorflow_datasets")
pd = Later("pandas")
polars = Later("polars")

MOMENTS = [datetime(2024, 1, 1, 12, 30, n % 60, n * 1000, UTC) if n % 10 else None for n in range(200)]
FLAGS = "--timestamp created=ms --key id"


def rows(moments: list[datetime | None]) -> list[dict[str, object]]:
    return [{"id": n, "created": None if m is None else m.isoformat()} for n, m in enumerate(moments)]


def stored(built: Built) -> dict[int, int | None]:
    return {row["id"]: row.get("created") for row in built.table.rows}


def expected(per_second: int = 1000) -> dict[int, int | None]:
    """As pandas has them."""
    size = {1: "s", 1000: "ms", 1_000_000: "us"}[per_second]
    return {
        n: None if m is None else int(pd.Timestamp(m).as_unit("ns").floor(size).value // (10**9 // per_second))
        for n, m in enumerate(MOMENTS)
    }


def files(command: str, records: Sequence[Mapping[str, Any]]) -> dict[str, bytes]:
    return {f"a.{command}": encode_rows(command, records)}


CSV = files("csv", rows(MOMENTS))


@pytest.mark.slow
@pytest.mark.parametrize("command", ["csv", "jsonl", "parquet", "parquet-texts", "avro"])
def test_every_format(command: str, jobs: Jobs, run: Run) -> None:
    command, _, texts = command.partition("-")
    records: list[dict[str, Any]] = rows(MOMENTS)
    if command == "avro" or (command == "parquet" and not texts):
        berlin = ZoneInfo("Europe/Berlin")
        records = [{"id": n, "created": moment and moment.astimezone(berlin)} for n, moment in enumerate(MOMENTS)]
    built = jobs.build(f"{command} {FLAGS} --splits train=0.7,test=0.3", files=files(command, records))

    assert built.table.features == {"id": "int64", "created": "int64?"} or command == "parquet"
    assert stored(built) == expected()
    trained = [row["created"] for row in built.table.splits["train"] if "created" in row]
    assert built.stats["created"]["min"] == min(trained)
    assert built.manifest.configuration["timestamp"] == {"created": "ms"}
    assert not [notice for notice in built.notices if "created" in notice]
    assert run("verify", built.directory).status == 0
    if command == "csv":
        found = tfds.as_numpy(tfds.builder_from_directory(built.directory).as_dataset("test"))
        told = {int(row["id"]): next(iter(row["created"].tolist()), None) for row in found}
        assert told == {n: value for n, value in expected().items() if n in told}
        assert len(told) == built.splits["test"]


def test_the_unit_is_heeded_and_what_is_lost_is_said(jobs: Jobs) -> None:
    built = jobs.build("csv --timestamp created=s", files=CSV)
    assert stored(built) == expected(1)
    more = sum(m is not None and m.microsecond > 0 for m in MOMENTS)
    said = f"column 'created': {more} values are more exact than s; the whole s before is stored"
    assert [notice for notice in built.notices if "created" in notice] == [said]
    assert stored(jobs.build("csv --timestamp created=us --output us")) == expected(1_000_000)
    assert jobs.build("csv --output texts").table.features == {"id": "int64", "created": "bytes?"}


def test_bad_times_are_rejects_and_naive_ones_are_said(jobs: Jobs) -> None:
    lines = ["1,2024-01-31", "2,soon", "3,2024-01-31 10:00", "4,2024-01-31T10:00:00Z", "5,2024-02-30", "6,"]
    text = "\n".join(["id,created", *lines])
    built = jobs.build(f"csv {FLAGS} --max_reject_fraction 0.5", files={"a.csv": text})
    noon = 1706695200000
    assert stored(built) == {1: 1706659200000, 3: noon, 4: noon, 6: None}
    assert {place: reason.partition(" as ISO")[0] for place, reason in built.reasons.items()} == {
        "a.csv:3": "column 'created': soon is no date and no time",
        "a.csv:6": "column 'created': 2024-02-30 is no date and no time",
    }
    assert "column 'created': 2 values without a zone were taken for UTC" in built.notices


def test_the_unit_is_in_the_schema_and_another_is_another_type(jobs: Jobs, run: Run) -> None:
    line = f"csv {FLAGS} --splits train=0.7,test=0.3"
    first = jobs.build(line, files=CSV)
    schema = first.directory / "schema.pbtxt"
    again = jobs.build(f"{line} --schema {schema} --output b")
    assert stored(again) == stored(first)
    (created,) = (
        feature
        for feature in text_format.Parse(schema.read_text(), schema_pb2.Schema()).feature
        if feature.name == "created"
    )
    assert created.time_domain.integer_format == schema_pb2.TimeDomain.UNIX_MILLISECONDS
    assert (again.directory / "schema.pbtxt").read_text() == schema.read_text()
    said = "--timestamp created=s: --schema says that its times are in ms"
    jobs.refuse(f"csv --timestamp created=s --schema {schema} --output c", said)

    assert {feature.name: feature.time for feature in first.manifest.features}["created"] == "ms"
    assert "time in ms" in run("inspect", first.directory).out
    other = jobs.build("csv --timestamp created=s --key id --output d")
    done = run("diff", first.directory, other.directory)
    assert "created (int64 in ms -> int64 in s)" in done.out or "int64 in ms" in done.out, done


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("created=min", "--timestamp: created=min is not column=unit, such as created=ms; units are s,"),
        ("created", "--timestamp: 'created' is not column=unit"),
        ("created=s --timestamp created=ms", "--timestamp: created=… is given twice"),
        ("create=s", "--timestamp create: no such column in --input"),
        ("created=s:%d/%m", "--timestamp: %d/%m has no year; expected a form such as %d/%m/%Y"),
        ("created=s --drop created", "--timestamp created is also in --drop"),
        ("created=s --label created", "--timestamp created=s is also in --label"),
    ],
)
def test_mistakes(flags: str, said: str, jobs: Jobs) -> None:
    jobs.refuse(f"csv --timestamp {flags}", said, files=CSV)


@pytest.mark.parametrize("command", ["csv", "jsonl", "parquet", "avro"])
def test_numbers_since_1970_and_dates_that_are_numbers(command: str, jobs: Jobs) -> None:
    records = [{"id": n, "at": 1700000000.25 + n, "day": 20240131 + n % 2 * 199} for n in range(4)]
    flags = "--key id --timestamp at=s --timestamp"
    built = jobs.build(f"{command} {flags} day=s:%Y%m%d", files=files(command, records))

    days = [1706659200, 1711756800]
    assert sorted(row["at"] for row in built.table.rows) == [1700000000 + n for n in range(4)]
    assert sorted(row["day"] for row in built.table.rows) == [days[0], days[0], days[1], days[1]]
    assert "column 'at': 4 numbers were taken for times of the years 2023 to 2023" in built.notices
    assert "column 'at': 4 values are more exact than s; the whole s before is stored" in built.notices
    done = jobs.run(f"{command} {flags} day=ms --output b")
    check_sentence(done, 1, "20240131 may be a date or a number of seconds: --timestamp day=ms:%Y%m%d reads dates,")
    counts = jobs.build(f"{command} {flags} day=ms:%s --output c").table.column("day")
    assert sorted(counts)[0] == 20240131000


def test_seconds_with_a_decimal_comma(jobs: Jobs) -> None:
    built = jobs.build("csv --delimiter ; --decimal , --timestamp t=ms:%s", files={"a.csv": "t;x\n1,5;1\n2,25;2\n"})
    assert sorted(built.table.column("t")) == [1500, 2250]


def test_lists_of_times_are_refused(jobs: Jobs) -> None:
    said = "--timestamp t=s: the column holds lists of bytes; expected one date,"
    jobs.refuse("jsonl --timestamp t=s", said, files={"a.jsonl": '{"t": ["2024-01-01"]}\n{"t": []}\n'})


def test_dry_run_and_a_recipe(jobs: Jobs, run: Run) -> None:
    done = jobs.run(f"csv {FLAGS} --dry_run", files=CSV)
    assert "  created: int64, ms since 1970 in UTC, may be missing" in done.out, done
    recipe = "name: n\noutput: sets\nschema: keep\ncsv:\n  input: in\n  timestamp: {created: ms}\n"
    jobs.write({"../r.yaml": recipe})
    assert run("rebuild", "r.yaml").status == 0
    jobs.write({"b.csv": CSV["a.csv"]})
    second = run("rebuild", "r.yaml")
    assert second.status == 0, second
    assert "1.0.1 is published: 400 in train" in second.out


@pytest.mark.parametrize("command", ["csv", "parquet", "avro"])
def test_a_schema_alone_is_told_by_its_unit(jobs: Jobs, command: str) -> None:
    """What was written with --timestamp, and whole numbers of the unit, which any schema may say it of."""
    records: list[dict[str, Any]] = rows(MOMENTS)
    if command in ("parquet", "avro"):
        zone = UTC if command == "avro" else None
        records = [{"id": n, "created": moment and moment.replace(tzinfo=zone)} for n, moment in enumerate(MOMENTS)]
    first = jobs.build(f"{command} {FLAGS}", files=files(command, records))
    line = f"{command} --schema out/n/1.0.0/schema.pbtxt --key id"

    again = jobs.build(f"{line} --output b")

    assert stored(again) == stored(first) == expected()
    assert again.rejects == []
    assert (again.directory / "schema.pbtxt").read_text() == (first.directory / "schema.pbtxt").read_text()
    numbers = [{"id": n, "created": number} for n, number in enumerate(expected().values())]
    assert stored(jobs.build(f"{line} --output c", files=files(command, numbers))) == expected()


def test_a_schema_alone_of_dates_numbers_and_neither(jobs: Jobs) -> None:
    """Of sequences, too; what a date has no zone of, and what it is cut by, is said as with the flag."""
    text = "user,created\na,2024-01-31T00:00:00.5\na,1706659201\na,soon\na,99999999999999999999\na,2024-02-30\n"
    schema = (
        'feature { name: "user" type: BYTES value_count { min: 1 max: 1 } }'
        'feature { name: "created" type: INT value_count { min: 1 max: 1 }'
        "  time_domain { integer_format: UNIX_SECONDS } }"
    )
    line = "csv --schema schema.pbtxt --max_reject_fraction 0.9"
    built = jobs.build(line, files={"a.csv": text, "../schema.pbtxt": schema})
    assert sorted(built.table.column("created")) == [1706659200, 1706659201]
    assert {place: reason.partition(" as ISO")[0] for place, reason in built.reasons.items()} == {
        f"a.csv:{line}": f"column 'created': {text} is no date and no time"
        for line, text in ((4, "soon"), (5, "99999999999999999999"), (6, "2024-02-30"))
    }
    assert "column 'created': 1 value is more exact than s; the whole s before is stored" in built.notices
    gathered = jobs.build(f"{line} --sequence_by user --order_by created --output s")
    assert gathered.table.column("created") == [[1706659200, 1706659201]]
    labelled = jobs.build(f"{line} --output l", files={"a.csv": "user,created\na,5\n"})
    assert labelled.table.column("created") == [5]


@pytest.mark.parametrize(("name", "flags"), [("at", ""), ("when", " --rename at=when")])
def test_a_unit_that_is_not_written_is_refused(name: str, flags: str, jobs: Jobs) -> None:
    schema = f'feature {{ name: "{name}" type: INT time_domain {{ integer_format: UNIX_DAYS }} }}'
    said = "--timestamp at=s: --schema says that its times are in UNIX_DAYS, which is not written"
    given = {"a.csv": "at\n2024-01-31\n", "../schema.pbtxt": schema}
    jobs.refuse(f"csv --timestamp at=s --schema schema.pbtxt{flags}", said, files=given)


@pytest.mark.parametrize(
    ("domain", "command"), [("", "parquet"), ("time_domain { integer_format: UNIX_DAYS }", "avro")]
)
def test_times_where_a_schema_has_integers_are_no_rejects_row_by_row(command: str, domain: str, jobs: Jobs) -> None:
    """Files that say what a column holds are held against the schema at once."""
    schema = f'feature {{ name: "created" type: INT value_count {{ min: 1 max: 1 }} {domain} }}'
    jobs.write(files(command, [{"created": moment} for moment in MOMENTS if moment]) | {"../s.pbtxt": schema.encode()})
    said = f"a.{command}: column 'created' holds dates or times, where integers are asked for; --timestamp created=s"
    check_sentence(jobs.run(f"{command} --schema s.pbtxt"), 2, said)
    assert not list(jobs.folder.glob("out/n/*"))
    if not domain:
        built = jobs.build(f"{command} --schema s.pbtxt --timestamp created=ms --output b")
        assert sorted(built.table.column("created")) == sorted(v for v in expected().values() if v is not None)


def test_durations_are_no_points_in_time(jobs: Jobs) -> None:
    spans, clock = pa.array([1000, 60000], pa.duration("ms")), pa.array([1, 2], pa.time32("s"))
    schema = schema_pb2.Schema()
    for name in ("id", "took"):
        schema.feature.add(name=name, type=schema_pb2.INT, presence={"min_fraction": 1.0}).shape.SetInParent()
    schema.feature[1].time_domain.integer_format = schema_pb2.TimeDomain.UNIX_SECONDS
    table = parquet(pa.table({"id": [1, 2], "took": spans, "at": clock}))
    jobs.write({"a.parquet": table, "../asked.pbtxt": text_format.MessageToString(schema)})
    for flags, said in (
        ("--schema asked.pbtxt", "a.parquet: column 'took' holds duration[ms], where --timestamp or a schema's"),
        ("--timestamp took=s", "--timestamp took=s: the column holds durations; expected one"),
        ("--timestamp at=s", "a.parquet: column 'at' holds time32[ms], where --timestamp or"),
    ):
        check_sentence(jobs.run(f"parquet {flags}"), 2, said)
    built = jobs.build("parquet --output b")
    assert sorted(built.table.column("took")) == [1000, 60000]
    said = "column 'took' holds durations, of which the numbers of ms are stored"
    assert [notice for notice in built.notices if "took" in notice] == [said]


def moment_texts() -> list[str | None]:
    """Return one moment, 09:00:00.123 on 31 January 2024 in UTC, in forms of ISO 8601, and no moment."""
    clocks = ("09:00:00.1230000Z", "09:00:00,123+00:00", "10:00:00.123+01:00", "09:00:00.123")
    days = ("2024-01-31", "2024-031", "2024-W05-3")
    return [f"{day}T{clock}" for day in days for clock in clocks] + ["20240131T090000.123Z", None]


def test_texts_of_times_in_a_database_are_exact(jobs: Jobs) -> None:
    texts = moment_texts()
    with sqlite3.connect("t.db") as connection:
        connection.execute("CREATE TABLE t (id INTEGER, at TEXT, spoken TEXT)")
        connection.executemany("INSERT INTO t VALUES (?, ?, ?)", [(n, t, "31.01.2024") for n, t in enumerate(texts)])
    connection.close()
    flags = "--timestamp at=ms --timestamp 'spoken=s:%d.%m.%Y' --key id"
    built = jobs.build(f"sql --url sqlite:///t.db --query 'SELECT * FROM t' {flags}")
    moment = 1_706_691_600_123
    assert [row.get("at") for row in sorted(built.table.rows, key=lambda row: row["id"])] == [
        None if text is None else moment for text in texts
    ]
    assert {row["spoken"] for row in built.table.rows} == {1_706_659_200}


@pytest.mark.parametrize("kind", ["s", "us", "ns", "Europe/Berlin", "objects", "polars", "arrow", "dicts"])
def test_times_in_frames_are_exact(kind: str, tmp_path: Path) -> None:
    first, last = (datetime(year, 7, 31, 9, 0, 5, tzinfo=UTC) for year in (1901, 2200))
    naive = [first.replace(tzinfo=None), None, last.replace(tzinfo=None)]
    frame: Any = pd.DataFrame({"id": [0, 1, 2], "at": pd.Series(pd.to_datetime(naive))})
    if kind in ("s", "us", "ns"):
        frame["at"] = frame["at"].astype(f"datetime64[{kind}]")
    elif kind == "Europe/Berlin":
        frame["at"] = frame["at"].dt.tz_localize("UTC").dt.tz_convert(kind)
    elif kind == "objects":
        frame["at"] = pd.Series([first, pd.NaT, last], dtype=object)
    else:
        table = pa.table({"id": [0, 1, 2], "at": pa.array([first, None, last], pa.timestamp("us", "UTC"))})
        frame = table.to_pylist() if kind == "dicts" else polars.from_arrow(table) if kind == "polars" else table
        if kind == "dicts":
            frame[1]["at"] = pd.NaT
    made = shardmill.write(frame, output=tmp_path, name="n", timestamp={"at": "us"}, key="id")
    found = {row["id"]: row.get("at") for row in shardmill.examples(made.directory)}
    assert found == {0: int(first.timestamp()) * 10**6, 1: None, 2: int(last.timestamp()) * 10**6}
