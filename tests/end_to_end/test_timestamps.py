"""`--timestamp column=unit`: dates and times of every format as int64."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from tests.support.command import Run, check_mistake, write_files
from tests.support.jobs import Jobs
from tests.support.later import Later
from tests.support.table_results import Table, convert, encode_rows, write_rows

tfds = Later("tensorflow_datasets")
pd = Later("pandas")

MOMENTS = [datetime(2024, 1, 1, 12, 30, n % 60, n * 1000, UTC) if n % 10 else None for n in range(200)]
FLAGS = ("--timestamp", "created=ms", "--key", "id")


def rows(moments: list[datetime | None]) -> list[dict[str, object]]:
    return [{"id": n, "created": None if m is None else m.isoformat()} for n, m in enumerate(moments)]


def stored(table: Table) -> dict[int, int | None]:
    return {row["id"]: row.get("created") for row in table.rows}


def expected(per_second: int = 1000) -> dict[int, int | None]:
    """As pandas has them."""
    size = {1: "s", 1000: "ms", 1_000_000: "us"}[per_second]
    return {
        n: None if m is None else int(pd.Timestamp(m).as_unit("ns").floor(size).value // (10**9 // per_second))
        for n, m in enumerate(MOMENTS)
    }


@pytest.mark.parametrize("command", ["csv", "jsonl", "parquet", "parquet-texts", "avro"])
def test_every_format(command: str, tmp_path: Path, run: Run) -> None:
    command, _, texts = command.partition("-")
    records: list[dict[str, Any]] = rows(MOMENTS)
    if command == "avro" or (command == "parquet" and not texts):
        berlin = ZoneInfo("Europe/Berlin")
        records = [{"id": n, "created": moment and moment.astimezone(berlin)} for n, moment in enumerate(MOMENTS)]
    source = write_rows(tmp_path / "in", command, records)

    table = convert(command, source, tmp_path, *FLAGS, "--splits", "train=0.7,test=0.3")

    assert table.features == {"id": "int64", "created": "int64?"} or command == "parquet"
    assert stored(table) == expected()
    assert table.stats()["created"]["min"] == min(row["created"] for row in table.splits["train"] if "created" in row)
    assert table.dataset.manifest.configuration["timestamp"] == {"created": "ms"}
    assert not [notice for notice in table.dataset.manifest.notices if "created" in notice]
    assert run("verify", table.directory).status == 0
    if command == "csv":
        found = tfds.as_numpy(tfds.builder_from_directory(table.directory).as_dataset("test"))
        told = {int(row["id"]): next(iter(row["created"].tolist()), None) for row in found}
        assert told == {n: value for n, value in expected().items() if n in told}
        assert len(told) == table.dataset.manifest.splits[1].examples


def test_the_unit_is_heeded_and_what_is_lost_is_said(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "in", "csv", rows(MOMENTS))
    table = convert("csv", source, tmp_path, "--timestamp", "created=s")
    assert stored(table) == expected(1)
    more = sum(m is not None and m.microsecond > 0 for m in MOMENTS)
    (notice,) = [notice for notice in table.dataset.manifest.notices if "created" in notice]
    assert notice == f"column 'created': {more} values are more exact than s; the whole s before is stored"
    exact = convert("csv", source, tmp_path / "us", "--timestamp", "created=us")
    assert stored(exact) == expected(1_000_000)


def test_without_the_flag_they_are_texts(tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", {"a.csv": encode_rows("csv", rows(MOMENTS[1:5]))})
    assert convert("csv", source, tmp_path).features == {"id": "int64", "created": "bytes"}


def test_bad_times_are_rejects_and_naive_ones_are_said(tmp_path: Path) -> None:
    lines = [
        "id,created",
        "1,2024-01-31",
        "2,soon",
        "3,2024-01-31 10:00",
        "4,2024-01-31T10:00:00Z",
        "5,2024-02-30",
        "6,",
    ]
    source = write_files(tmp_path / "in", {"a.csv": "\n".join(lines).encode()})
    table = convert("csv", source, tmp_path, *FLAGS, "--max_reject_fraction", 0.5)
    noon = 1706695200000
    assert stored(table) == {1: 1706659200000, 3: noon, 4: noon, 6: None}
    assert [(r["line"], r["reason"].partition(" as ISO")[0]) for r in table.rejects()] == [
        (3, "column 'created': soon is no date and no time"),
        (6, "column 'created': 2024-02-30 is no date and no time"),
    ]
    assert "column 'created': 2 values without a zone were taken for UTC" in table.dataset.manifest.notices


def test_a_sequence_is_in_the_order_of_the_moments(tmp_path: Path) -> None:
    """Which is not that of their texts, where these name different zones."""
    lines = ["user,created", "a,2024-01-01T10:00:00+05:00", "a,2024-01-01T08:00:00Z", "a,2024-01-01T06:30:00Z"]
    source = write_files(tmp_path / "in", {"a.csv": "\n".join(lines).encode()})
    flags = ("--timestamp", "created=s", "--sequence_by", "user", "--order_by", "created")
    (row,) = convert("csv", source, tmp_path, *flags).rows
    first = 1704085200
    assert row == {"user": b"a", "created": [first, first + 5400, first + 10800]}


def test_a_schema_says_the_unit(tmp_path: Path, run: Run) -> None:
    source = write_rows(tmp_path / "in", "csv", rows(MOMENTS))
    flags = (*FLAGS, "--splits", "train=0.7,test=0.3")
    first = convert("csv", source, tmp_path / "a", *flags)
    schema = first.directory / "schema.pbtxt"
    again = convert("csv", source, tmp_path / "b", *flags, "--schema", schema)
    assert stored(again) == stored(first)
    (created,) = (
        feature
        for feature in text_format.Parse(schema.read_text(), schema_pb2.Schema()).feature
        if feature.name == "created"
    )
    assert created.time_domain.integer_format == schema_pb2.TimeDomain.UNIX_MILLISECONDS
    assert (again.directory / "schema.pbtxt").read_text() == schema.read_text()
    done = run(
        "csv", "--input", source, "--timestamp", "created=s", "--schema", schema, "--output", tmp_path, "--name", "n"
    )
    check_mistake(done, "--timestamp created=s: --schema says that its times are in ms")


def test_the_unit_is_shown_and_another_is_another_type(tmp_path: Path, run: Run) -> None:
    source = write_rows(tmp_path / "in", "csv", rows(MOMENTS))
    table = convert("csv", source, tmp_path / "a", *FLAGS)
    (created,) = (feature for feature in table.dataset.manifest.features if feature.name == "created")
    assert created.time == "ms"
    assert "time in ms" in run("inspect", table.directory).out
    other = convert("csv", source, tmp_path / "b", "--timestamp", "created=s", "--key", "id")
    done = run("diff", table.directory, other.directory)
    assert "created (int64 in ms -> int64 in s)" in done.out or "int64 in ms" in done.out, done


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("created=min", "--timestamp: created=min is not column=unit, such as created=ms; units are s,"),
        ("created", "--timestamp: created is not column=unit"),
        ("created=s --timestamp created=ms", "--timestamp: created=… is given twice"),
        ("create=s", "--timestamp create: no such column in --input"),
        ("id=s", "--timestamp id=s: the column holds int64; expected one date or time in each row"),
        ("created=s --drop created", "--timestamp created is also in --drop"),
        ("created=s --label created", "--timestamp created=s is also in --label"),
    ],
)
def test_mistakes(flags: str, said: str, jobs: Jobs) -> None:
    jobs.refuse(f"csv --timestamp {flags}", said, files={"a.csv": encode_rows("csv", rows(MOMENTS))})


def test_lists_of_times_are_refused(jobs: Jobs) -> None:
    said = "--timestamp t=s: the column holds lists of bytes; expected one date or time"
    jobs.refuse("jsonl --timestamp t=s", said, files={"a.jsonl": '{"t": ["2024-01-01"]}\n{"t": []}\n'})


def test_dry_run_and_a_recipe(tmp_path: Path, run: Run) -> None:
    source = write_rows(tmp_path / "in", "csv", rows(MOMENTS))
    done = run("csv", "--input", source, *FLAGS, "--output", tmp_path / "out", "--name", "n", "--dry_run")
    assert "  created: int64, ms since 1970 in UTC, may be missing" in done.out, done
    recipe = tmp_path / "r.yaml"
    recipe.write_text(
        f"name: n\noutput: {tmp_path / 'sets'}\nschema: keep\ncsv:\n  input: {source}\n  timestamp: {{created: ms}}\n"
    )
    assert run("rebuild", recipe).status == 0
    (source / "b.csv").write_bytes(encode_rows("csv", rows(MOMENTS)))
    second = run("rebuild", recipe)
    assert second.status == 0, second
    assert "1.0.1 is published: 400 in train" in second.out


@pytest.mark.parametrize("command", ["csv", "jsonl", "parquet", "avro"])
def test_a_schema_alone_is_told_by_its_unit(tmp_path: Path, command: str) -> None:
    """What was written with --timestamp, and whole numbers of the unit, which any schema may say it of."""
    records: list[dict[str, Any]] = rows(MOMENTS)
    if command in ("parquet", "avro"):
        zone = UTC if command == "avro" else None
        records = [{"id": n, "created": moment and moment.replace(tzinfo=zone)} for n, moment in enumerate(MOMENTS)]
    write_rows(tmp_path / "in", command, records)
    first = convert(command, tmp_path / "in", tmp_path / "a", *FLAGS)
    flags = ("--schema", first.directory / "schema.pbtxt", "--key", "id")

    again = convert(command, tmp_path / "in", tmp_path / "b", *flags)

    assert stored(again) == stored(first) == expected()
    assert again.rejects() == []
    assert (again.directory / "schema.pbtxt").read_text() == (first.directory / "schema.pbtxt").read_text()
    numbers = list(expected().values())
    write_rows(tmp_path / "in", command, [{"id": n, "created": number} for n, number in enumerate(numbers)])
    assert stored(convert(command, tmp_path / "in", tmp_path / "c", *flags)) == expected()


def test_a_schema_alone_of_dates_numbers_and_neither(tmp_path: Path) -> None:
    """Of sequences, too; what a date has no zone of, and what it is cut by, is said as with the flag."""
    text = "user,created\na,2024-01-31T00:00:00.5\na,1706659201\na,soon\na,99999999999999999999\na,2024-02-30\n"
    source = write_files(tmp_path / "in", {"a.csv": text.encode()})
    schema = tmp_path / "schema.pbtxt"
    schema.write_text(
        'feature { name: "user" type: BYTES value_count { min: 1 max: 1 } }'
        'feature { name: "created" type: INT value_count { min: 1 max: 1 }'
        "  time_domain { integer_format: UNIX_SECONDS } }"
    )
    flags = ("--schema", schema, "--max_reject_fraction", 0.9)
    table = convert("csv", source, tmp_path, *flags)
    assert sorted(row["created"] for row in table.rows) == [1706659200, 1706659201]
    assert [(item["line"], item["reason"].partition(" as ISO")[0]) for item in table.rejects()] == [
        (line, f"column 'created': {text} is no date and no time")
        for line, text in ((4, "soon"), (5, "99999999999999999999"), (6, "2024-02-30"))
    ]
    said = "column 'created': 1 value is more exact than s; the whole s before is stored"
    assert said in table.dataset.manifest.notices
    gathered = convert("csv", source, tmp_path / "s", *flags, "--sequence_by", "user", "--order_by", "created")
    assert [row["created"] for row in gathered.rows] == [[1706659200, 1706659201]]
    labelled = convert("csv", write_files(tmp_path / "n", {"a.csv": b"user,created\na,5\n"}), tmp_path / "l", *flags)
    assert [row["created"] for row in labelled.rows] == [5]


@pytest.mark.parametrize(("name", "flags"), [("at", ""), ("when", " --rename at=when")])
def test_a_unit_that_is_not_written_is_refused(name: str, flags: str, jobs: Jobs) -> None:
    schema = f'feature {{ name: "{name}" type: INT time_domain {{ integer_format: UNIX_DAYS }} }}'
    said = "--timestamp at=s: --schema says that its times are in UNIX_DAYS, which is not written"
    files = {"a.csv": "at\n2024-01-31\n", "../schema.pbtxt": schema}
    jobs.refuse(f"csv --timestamp at=s --schema schema.pbtxt{flags}", said, files=files)


@pytest.mark.parametrize("command", ["parquet", "avro"])
@pytest.mark.parametrize("domain", ["", "time_domain { integer_format: UNIX_DAYS }"])
def test_times_where_a_schema_has_integers_are_no_rejects_row_by_row(
    command: str, domain: str, tmp_path: Path, run: Run
) -> None:
    """Files that say what a column holds are held against the schema at once."""
    moments = [moment for moment in MOMENTS if moment]
    write_rows(tmp_path / "in", command, [{"created": moment} for moment in moments])
    schema = tmp_path / "schema.pbtxt"
    schema.write_text(f'feature {{ name: "created" type: INT value_count {{ min: 1 max: 1 }} {domain} }}')
    where = ("--input", tmp_path / "in", "--schema", schema, "--output", tmp_path / "out", "--name", "n")

    said = f"a.{command}: column 'created' holds dates or times, where integers are asked for; --timestamp created=s"
    check_mistake(run(command, *where), said)
    assert not list(tmp_path.glob("out/n/*"))
    if not domain:
        table = convert(command, tmp_path / "in", tmp_path / "told", "--schema", schema, "--timestamp", "created=ms")
        assert sorted(row["created"] for row in table.rows) == sorted(v for v in expected().values() if v is not None)


def test_durations_are_no_points_in_time(tmp_path: Path, run: Run) -> None:
    (tmp_path / "in").mkdir()
    spans = pa.array([1000, 60000], pa.duration("ms"))
    pq.write_table(
        pa.table({"id": [1, 2], "took": spans, "at": pa.array([1, 2], pa.time32("s"))}), tmp_path / "in/a.parquet"
    )
    schema = schema_pb2.Schema()
    for name in ("id", "took"):
        schema.feature.add(name=name, type=schema_pb2.INT, presence={"min_fraction": 1.0}).shape.SetInParent()
    schema.feature[1].time_domain.integer_format = schema_pb2.TimeDomain.UNIX_SECONDS
    (tmp_path / "asked.pbtxt").write_text(text_format.MessageToString(schema))
    words = ("parquet", "--input", tmp_path / "in", "--output", tmp_path / "out", "--name", "n")
    asked = run(*words, "--schema", tmp_path / "asked.pbtxt")
    check_mistake(asked, "a.parquet: column 'took' holds duration[ms], where --timestamp or a schema's")
    check_mistake(run(*words, "--timestamp", "took=s"), "--timestamp took=s: the column holds durations; expected one")
    check_mistake(run(*words, "--timestamp", "at=s"), "a.parquet: column 'at' holds time32[ms], where --timestamp or")
    table = convert("parquet", tmp_path / "in", tmp_path)
    assert sorted(table.column("took")) == [1000, 60000]
    (said,) = [notice for notice in table.dataset.manifest.notices if "took" in notice]
    assert said == "column 'took' holds durations, of which the numbers of ms are stored"
