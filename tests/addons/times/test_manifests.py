"""`--timestamp` for a column of a manifest: the same times, rejects and notices as of the same rows as a table."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from google.protobuf import text_format
from tensorflow_metadata.proto.v0 import schema_pb2

from tests.support.command import image, npy
from tests.support.jobs import Built, Jobs
from tests.support.sounds import wav
from tests.support.table_results import encode_rows

MOMENTS = ["2024-01-31T09:00:00.25Z", None, "soon", "2024-01-31", "2024-W05-3T10:00+01:00", "2024-02-30"]
GERMAN = ["31.12.2024", None, "12/31/2024", "01.02.2024"]


def files(kind: str, values: list[Any]) -> dict[str, bytes]:
    """Return images and a manifest of one of each value."""
    rows = [{"file_name": f"{n}.png", "at": value} for n, value in enumerate(values)]
    return {row["file_name"]: image(n, "PNG") for n, row in enumerate(rows)} | {f"m.{kind}": encode_rows(kind, rows)}


def found(built: Built, name: str) -> list[Any]:
    """Return what a job says of the column `at`: its values by file, rejects, notices, feature and schema."""
    values = {row[name]: row.get("at") for row in built.examples()}
    said = sorted(notice for notice in built.notices if "'at'" in notice)
    schema = text_format.Parse((built.directory / "schema.pbtxt").read_text(), schema_pb2.Schema())
    features = [feature for feature in (*built.manifest.features, *schema.feature) if feature.name == "at"]
    return [values, [(one["line"], one["reason"]) for one in built.rejects], said, *features]


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
@pytest.mark.parametrize(
    ("values", "flag", "stored"),
    [
        (MOMENTS, "at=s", [1_706_691_600, None, 1_706_659_200, 1_706_691_600]),
        (GERMAN, "at=ms:%d.%m.%Y", [1_735_603_200_000, None, 1_706_745_600_000]),
        ([1700000000.25, 1700000001.5], "at=us", [1_700_000_000, 1_700_000_001]),
        ([20240131, 20240201], "at=s:%Y%m%d", [1_706_659_200, 1_706_745_600]),
        ([20240131, 1700000000], "at=s", [1_700_000_000]),
    ],
)
def test_a_manifest_has_the_times_of_a_table(kind: str, values: list[Any], flag: str, stored: Any, jobs: Jobs) -> None:
    flags = f"--timestamp {flag} --max_reject_fraction .7"
    listed = found(jobs.build(f"images --manifest in/m.{kind} {flags}", files=files(kind, values)), "filename")

    assert [value for _, value in sorted(listed[0].items())] == stored
    assert len(listed[1]) == len(values) - len(stored)
    assert listed[3].time == flag[3:].partition(":")[0]
    assert listed == found(jobs.build(f"{kind} --input in/m.{kind} {flags} --output t"), "file_name")


def test_timestamps_of_parquet_are_times_already(jobs: Jobs) -> None:
    moments = [
        datetime(2024, 1, 31, 9, 0, 0, 250_000, ZoneInfo("Europe/Berlin")),
        None,
        datetime(1960, 1, 1, tzinfo=UTC),
    ]
    made = jobs.build("images --manifest in/m.parquet --timestamp at=ms", files=files("parquet", moments))
    assert found(made, "filename")[0] == dict(
        zip([b"0.png", b"1.png", b"2.png"], [1_706_688_000_250, None, -315_619_200_000], strict=True)
    )
    assert made.notices == []


@pytest.mark.parametrize(("command", "data"), [("images", image()), ("arrays", npy([1.5])), ("audio", wav())])
def test_each_command_with_a_manifest_has_times(command: str, data: bytes, jobs: Jobs) -> None:
    line = f"{command} --manifest in/m.csv --timestamp at=ms --missing never"
    done = jobs.run(f"{line} --dry_run", files={"0": data, "1": data, "m.csv": "file_name,at\n0,2024-01-31\n1,never\n"})
    assert "column 'at': 1 value without a zone was taken for UTC" in done.out
    assert [row.get("at") for row in jobs.build(f"{line} --no_shuffle").examples()] == [1_706_659_200_000, None]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("when=s", "--timestamp when: --manifest in/m.jsonl has no such column; its columns are file_name, at, days"),
        ("file_name=s", "--timestamp file_name: no example has that column of --manifest in/m.jsonl: it is about"),
        ("at=s --drop at", "--timestamp at: no example has that column"),
        ("at=s --only days", "--timestamp at: no example has that column"),
        ("days=s", "--timestamp days=s: the column holds lists of bytes; expected one date, time or number"),
        ("at=s:%d/%m", "--timestamp: %d/%m has no year"),
        ("at=s --input in", "--timestamp at=s is about a --manifest; leave it out with --input"),
    ],
)
def test_mistakes(flags: str, said: str, jobs: Jobs) -> None:
    row = '{"file_name": "0.png", "at": "2024-01-31", "days": ["2024-01-31"]}\n'
    line = "images" if "--input" in flags else "images --manifest in/m.jsonl"
    jobs.refuse(f"{line} --timestamp {flags}", said, files={"0.png": image(), "m.jsonl": row})
