"""Avro end to end: every option of tables, TFDS and parse_example on what comes out, and a user's mistakes."""

import datetime
import decimal
import os
from pathlib import Path
from typing import Any

import pytest

from tests.support.avro_files import avro
from tests.support.command import Run, write_files
from tests.support.table_results import Table, contents, convert

FLAGS = ("--splits", "train=0.7,test=0.3", "--label", "city", "--drop", "extra", "--key", "id")

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

SCHEMA: dict[str, Any] = {
    "type": "record",
    "name": "visit",
    "namespace": "org.example",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "city", "type": {"type": "enum", "name": "cities", "symbols": ["Oslo", "Rome"]}},
        {"name": "home", "type": ["null", "cities"], "default": None},
        {"name": "score", "type": ["null", "double"]},
        {"name": "boxes", "type": {"type": "array", "items": {"type": "array", "items": "float"}}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "user", "type": "int"},
        {"name": "extra", "type": {"type": "map", "values": "string"}},
    ],
}
DAY = datetime.date(2024, 2, 29)
ROWS: list[dict[str, Any]] = [
    {
        "id": n,
        "city": ("Oslo", "Rome")[n % 2],
        "home": None if n % 3 else "Rome",
        "score": None if n % 4 == 1 else n / 8,
        "boxes": [[n, 1, 2, 3]] * (n % 3),
        "day": DAY + datetime.timedelta(n),
        "price": decimal.Decimal(n).scaleb(-2),
        "user": n % 9,
        "extra": {"n": str(n)},
    }
    for n in range(300)
]


def visits(rows: list[Any], codec: str = "deflate") -> bytes:
    return avro(SCHEMA, rows, 700, codec)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_files(
        tmp_path_factory.mktemp("avro"), {"a.avro": visits(ROWS[:200]), "b.avro": visits(ROWS[200:], codec="null")}
    )


@pytest.fixture(scope="module")
def table(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Table:
    return convert("avro", source, tmp_path_factory.mktemp("out"), *FLAGS)


def test_every_row_is_there(table: Table) -> None:
    assert table.features == {
        **{"id": "int64", "home": "bytes?", "score": "float32?", "boxes": "float32[]"},
        **{"day": "bytes", "price": "bytes", "user": "int64", "city": "int64"},
    }
    cities = (table.directory / "city.labels.txt").read_text().split()
    rows = {row["id"]: row for row in table.rows}
    assert sorted(rows) == list(range(300))
    for row in ROWS:
        found = rows[row["id"]]
        assert cities[found["city"]] == row["city"]
        assert found.get("home") == (row["home"].encode() if row["home"] else None)
        assert found.get("score") == row["score"]
        assert found.get("boxes", []) == [value for box in row["boxes"] for value in box]
        assert found["day"] == str(row["day"]).encode()
        assert found["price"] == str(row["price"]).encode()


def test_verify_and_small_blocks(run: Run, source: Path, table: Table, tmp_path: Path) -> None:
    assert run("verify", table.directory).status == 0
    assert contents(convert("avro", source, tmp_path, *FLAGS, "--block_size", "1KiB").directory) == contents(
        table.directory
    )
