"""Times as files have them: of INT96, in zones that nobody knows, and before standard time."""

from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from tests.support.jobs import Jobs
from tests.support.table_results import parquet

DATES = ["9999-12-31", "0001-01-01", "1600-01-01", "2263-01-01", "2024-01-31T09:00:00.123457"]
ZONES = ["tzutc()", "utc", "Z", "GMT+1", "W. Europe Standard Time", "Foo/Bar", "+00:19:32"]


def seconds(date: str) -> int:
    return int(np.datetime64(date, "s").astype(int))


def test_int96_is_read_in_microseconds(jobs: Jobs) -> None:
    column = pa.array(DATES).cast(pa.timestamp("us"))
    kind = pa.list_(pa.struct({"t": pa.list_(pa.timestamp("ns")), "n": pa.int64()}))
    lists = pa.array([[{"t": [1_700_000_000_123_456_789], "n": 1}]] * 5, kind)
    columns = {"id": range(5), "t": column, "l": lists.flatten().field("t"), "s": lists.flatten(), "j": lists}
    file = parquet(pa.table(columns), use_deprecated_int96_timestamps=True)
    built = jobs.build("parquet --key id --flatten --json_columns j", files={"a.parquet": file})
    texts = {row["id"]: row["t"].decode() for row in built.table.rows}
    assert texts == dict(enumerate(column.cast(pa.string()).to_pylist()))
    said = "column '{}' holds times of Parquet's INT96, which are read to a microsecond"
    assert [notice for notice in built.notices if "INT96" in notice] == [said.format(n) for n in ("t", "l", "s.t", "j")]

    built = jobs.build("parquet --key id --timestamp t=s --drop l,s,j --output b")
    assert {row["id"]: row["t"] for row in built.table.rows} == {n: seconds(date) for n, date in enumerate(DATES)}


@pytest.mark.parametrize("flags", ["--key id", "--key id --group_by t0 --splits a=0.5,b=0.5"])
def test_times_in_unknown_zones_are_in_utc(flags: str, jobs: Jobs) -> None:
    columns: dict[str, Any] = {"id": range(3)}
    numbers = pa.array([0, 1_706_691_600_000_000, None])
    columns |= {f"t{n}": numbers.cast(pa.timestamp("us", zone)) for n, zone in enumerate(ZONES)}
    built = jobs.build(f"parquet {flags}", files={"a.parquet": parquet(pa.table(columns))})
    rows = {row["id"]: row for row in built.table.rows}
    for n, zone in enumerate(ZONES):
        assert rows[0][f"t{n}"] == b"1970-01-01 00:00:00.000000Z"
        assert rows[1][f"t{n}"] == b"2024-01-31 09:00:00.000000Z"
        said = f"column 't{n}' holds times in the zone {zone!r}, which no database of zones has; they are stored in UTC"
        assert said in built.notices


def test_offsets_before_standard_time_keep_their_seconds(jobs: Jobs) -> None:
    moments = [datetime(1900, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC), None]
    column = pa.array(moments, pa.timestamp("us", "UTC")).cast(pa.timestamp("us", "Europe/Amsterdam"))
    built = jobs.build("parquet --key id", files={"a.parquet": parquet(pa.table({"id": range(3), "t": column}))})
    texts = {row["id"]: row.get("t") for row in built.table.rows}
    assert texts == {0: b"1900-01-01 00:19:32.000000+001932", 1: b"2024-01-01 01:00:00.000000+0100", 2: None}
    built = jobs.build("parquet --key id --timestamp t=us --output b")
    assert {row["id"]: row.get("t") for row in built.table.rows} == dict(enumerate(column.cast(pa.int64()).to_pylist()))


def test_times_that_cannot_be_written_are_rejects(jobs: Jobs) -> None:
    columns = {"id": range(3), "t": pa.array([10**18, 0, 0]).cast(pa.timestamp("us"))}
    columns["d"] = pa.array([0, 10**8, 0], pa.int32()).cast(pa.date32())
    built = jobs.build("parquet --max_reject_fraction 1", files={"a.parquet": parquet(pa.table(columns))})
    said = "a time beyond the years that can be written, -32767 to 32767"
    assert sorted(built.reasons.values()) == [f"column 'd': {said}", f"column 't': {said}"]
