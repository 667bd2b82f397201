"""Nested values of JSON lines, Parquet and Avro: named at once, and stored as fields, parallel lists or JSON text."""

import io
import json
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shardmill
from tests.support.command import Run, check_mistake
from tests.support.table_results import convert

ROWS: list[dict[str, Any]] = [
    {
        "id": 1,
        "messages": [
            {"role": "user", "content": "hi", "tool_calls": None},
            {"role": "assistant", "content": None, "tool_calls": [{"id": 7}]},
        ],
        "meta": {"source": "pile", "n": 5},
    },
    {"id": 2, "messages": [{"role": "user", "content": "ho", "tool_calls": None}], "meta": {"source": "web", "n": 6}},
    {"id": 3, "messages": [], "meta": None},
]
FLAT = [
    {
        "id": 1,
        "messages.role": [b"user", b"assistant"],
        "messages.content": [b"hi", b""],
        "messages.tool_calls": [b"", b'[{"id":7}]'],
        "meta.source": b"pile",
        "meta.n": 5,
    },
    {
        "id": 2,
        "messages.role": [b"user"],
        "messages.content": [b"ho"],
        "messages.tool_calls": [b""],
        "meta.source": b"web",
        "meta.n": 6,
    },
    {"id": 3, "messages.role": [], "messages.content": [], "messages.tool_calls": []},
]


def nullable(kind: Any) -> list[Any]:
    return ["null", kind]


def record(name: str, **fields: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields.items()]}


CALLS = nullable({"type": "array", "items": record("call", id="long")})
MESSAGE = record("message", role="string", content=nullable("string"), tool_calls=CALLS)
AVRO = record(
    "row",
    id="long",
    messages={"type": "array", "items": MESSAGE},
    meta=nullable(record("meta", source="string", n="long")),
)


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def write_jsonl(path: Path) -> None:
    path.write_text("".join(json.dumps(without_nulls(row)) + "\n" for row in ROWS))


def write_parquet(path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(ROWS), path)


def write_avro(path: Path) -> None:
    file = io.BytesIO()
    fastavro.writer(file, AVRO, ROWS)
    path.write_bytes(file.getvalue())


WRITERS: dict[str, Callable[[Path], None]] = {"jsonl": write_jsonl, "parquet": write_parquet, "avro": write_avro}


@pytest.mark.parametrize("command", WRITERS)
def test_each_flag_of_the_message_is_followed(command: str, tmp_path: Path, run: Run) -> None:
    source = tmp_path / f"a.{command}"
    WRITERS[command](source)
    flags = ("--flatten", "--json_columns messages,meta", "--drop messages,meta")
    refused = run(command, "--input", source, "--output", tmp_path / "out", "--name", "n")
    check_mistake(refused, "column 'messages'", "column 'meta'", *flags)

    results = [
        convert(command, source, tmp_path / str(number), "--no_shuffle", *shlex.split(flag)).rows
        for number, flag in enumerate(flags)
    ]

    assert results[0] == FLAT
    assert results[2] == [{"id": 1}, {"id": 2}, {"id": 3}]
    stored = [without_nulls({key: json.loads(text) for key, text in row.items() if key != "id"}) for row in results[1]]
    assert stored == [without_nulls({key: row[key] for key in ("messages", "meta")}) for row in ROWS]


@pytest.mark.parametrize(
    ("lines", "flags", "rows"),
    [
        # a rare nested column costs no row once it is dropped, and a field can be dropped or stored as text
        (['{"a":1,"o":{"x":{"y":1},"z":2}}', '{"a":2}'], "--drop o", [{"a": 1}, {"a": 2}]),
        (['{"a":1,"o":{"x":{"y":1},"z":2}}'], "--flatten --json_columns o.x", [{"a": 1, "o.x": b'{"y":1}', "o.z": 2}]),
        (['{"a":1,"o":{"x":{"y":1},"z":2}}'], "--flatten --drop o.z,a", [{"o.x.y": 1}]),
        # --json_columns keeps what is exact, and quotes texts
        (['{"o":123456789012345678901234567890}', '{"o":"x"}'], "--json_columns o", [b"1234567890" * 3, b'"x"']),
        # numbers that objects lack need a fill
        (['{"o":[{"n":1},{"m":2.5,"n":3}]}'], "--flatten --fill o.m=-1", [{"o.m": [-1.0, 2.5], "o.n": [1, 3]}]),
        (['{"o":[{"k":"a"},{}]}', '{"o":[{},{}]}'], "--flatten", [{"o.k": [b"a", b""]}, {"o.k": [b"", b""]}]),
    ],
)
def test_fields_of_json_lines(lines: list[str], flags: str, rows: list[Any], tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    for block_size in ("1KiB", "1MiB"):
        table = convert(
            "jsonl",
            tmp_path / "a.jsonl",
            tmp_path / block_size,
            "--no_shuffle",
            "--block_size",
            block_size,
            *flags.split(),
        )
        assert table.rows == [row if isinstance(row, dict) else {"o": row} for row in rows]


def test_maps_and_unions(tmp_path: Path) -> None:
    pairs = pa.array([[("k", 1), ("l", 2)], [], None], pa.map_(pa.string(), pa.int64()))
    pq.write_table(pa.table({"id": [1, 2, 3], "m": pairs}), tmp_path / "a.parquet")
    flat = convert("parquet", tmp_path / "a.parquet", tmp_path / "0", "--no_shuffle", "--flatten").rows
    text = convert("parquet", tmp_path / "a.parquet", tmp_path / "1", "--no_shuffle", "--json_columns", "m").rows
    assert flat == [{"id": 1, "m.key": [b"k", b"l"], "m.value": [1, 2]}] + [
        {"id": number, "m.key": [], "m.value": []} for number in (2, 3)
    ]
    assert text == [{"id": 1, "m": b'{"k":1,"l":2}'}, {"id": 2, "m": b"{}"}, {"id": 3}]

    file = io.BytesIO()
    fastavro.writer(file, record("row", u=["int", "string", "null"]), [{"u": 1}, {"u": "é"}, {"u": None}])
    (tmp_path / "a.avro").write_bytes(file.getvalue())
    rows = convert("avro", tmp_path / "a.avro", tmp_path / "2", "--no_shuffle", "--json_columns", "u").rows
    assert rows == [{"u": b"1"}, {"u": '"é"'.encode()}, {}]


@pytest.mark.parametrize(
    ("text", "flags", "words"),
    [
        ('{"a.b":1,"a":{"b":2}}', ("--flatten",), ("two fields become the column 'a.b'", "--json_columns")),
        ('{"a":1}', ("--json_columns", "c"), ("--json_columns c: no such column",)),
        ('{"a":{"b":2}}', ("--json_columns", "a", "--drop", "a"), ("--json_columns a is also in --drop",)),
        ('{"a":{"b":2},"c,d":[[1],[2,3]]}', ("--drop", "e"), ("--drop 'e,a,\"c,d\"'", "--flatten --json_columns")),
    ],
)
def test_mistakes(text: str, flags: tuple[str, ...], words: tuple[str, ...], tmp_path: Path, run: Run) -> None:
    (tmp_path / "a.jsonl").write_text(text)
    result = run("jsonl", "--input", tmp_path / "a.jsonl", "--output", tmp_path / "out", "--name", "n", *flags)
    check_mistake(result, *words)


def test_integers_beyond_64_bits_can_be_text(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 18446744073709551616}\n{"a": 2}\n')
    flags = ("--input", tmp_path / "a.jsonl", "--output", tmp_path / "out", "--name", "n", "--overwrite")
    refused = run("jsonl", *flags)
    assert refused.status == 1
    assert "does not fit a 64-bit integer; --json_columns a stores such numbers as text" in refused.err
    assert run("jsonl", *flags, "--json_columns", "a").status == 0
    assert sorted(row["a"] for row in shardmill.examples(tmp_path / "out/n")) == [b"18446744073709551616", b"2"]
