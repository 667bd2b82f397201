"""Nested values of JSON lines, Parquet and Avro, named at once and stored as fields, parallel lists or JSON text;
columns of numbers that become one feature (--stack)."""

import io
import json
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pytest

from tests.support.jobs import Jobs
from tests.support.later import Later
from tests.support.table_results import encode_rows, parquet

tfds = Later("tensorflow_datasets")

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


def encode(command: str) -> bytes:
    """ROWS as a file for a command."""
    if command != "avro":
        return encode_rows(command, without_nulls(ROWS) if command == "jsonl" else ROWS)
    file = io.BytesIO()
    fastavro.writer(file, AVRO, ROWS)
    return file.getvalue()


@pytest.mark.parametrize("command", ["jsonl", "avro"])
def test_each_flag_of_the_message_is_followed(command: str, jobs: Jobs) -> None:
    jobs.write({f"a.{command}": encode(command)})
    flags = ("--flatten", "--json_columns messages,meta", "--drop messages,meta")
    refused = jobs.run(command)
    assert refused.status == 2
    for words in ("column 'messages'", "column 'meta'", *flags):
        assert words in refused.err
    flat, texts, dropped = (
        jobs.build(f"{command} --no_shuffle {flag} --output {number}").table.rows for number, flag in enumerate(flags)
    )

    assert flat == FLAT
    assert dropped == [{"id": 1}, {"id": 2}, {"id": 3}]
    stored = [without_nulls({key: json.loads(text) for key, text in row.items() if key != "id"}) for row in texts]
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
def test_fields_of_json_lines(lines: list[str], flags: str, rows: list[Any], jobs: Jobs) -> None:
    table = jobs.build(f"jsonl --no_shuffle {flags}", files={"a.jsonl": "\n".join(lines)}).table
    assert table.rows == [row if isinstance(row, dict) else {"o": row} for row in rows]


def test_maps_and_unions(jobs: Jobs) -> None:
    pairs = pa.array([[("k", 1), ("l", 2)], [], None], pa.map_(pa.string(), pa.int64()))
    file = io.BytesIO()
    fastavro.writer(file, record("row", u=["int", "string", "null"]), [{"u": 1}, {"u": "é"}, {"u": None}])
    jobs.write({"a.parquet": parquet(pa.table({"id": [1, 2, 3], "m": pairs})), "a.avro": file.getvalue()})
    flat = jobs.build("parquet --input in/a.parquet --no_shuffle --flatten --output 0").table.rows
    text = jobs.build("parquet --input in/a.parquet --no_shuffle --json_columns m --output 1").table.rows
    empty: list[Any] = [{"id": number, "m.key": [], "m.value": []} for number in (2, 3)]
    assert flat == [{"id": 1, "m.key": [b"k", b"l"], "m.value": [1, 2]}, *empty]
    assert text == [{"id": 1, "m": b'{"k":1,"l":2}'}, {"id": 2, "m": b"{}"}, {"id": 3}]
    rows = jobs.build("avro --input in/a.avro --no_shuffle --json_columns u --output 2").table.rows
    assert rows == [{"u": b"1"}, {"u": '"é"'.encode()}, {}]


@pytest.mark.parametrize(
    ("text", "flags", "said"),
    [
        ('{"a.b":1,"a":{"b":2}}', "--flatten", "two fields become the column 'a.b'…--json_columns"),
        ('{"a":1}', "--json_columns c", "--json_columns c: no such column"),
        ('{"a":{"b":2}}', "--json_columns a --drop a", "--json_columns a is also in --drop"),
        ('{"a":{"b":2},"c,d":[[1],[2,3]]}', "--drop e", "--flatten --json_columns…--drop 'e,a,\"c,d\"'"),
    ],
)
def test_mistakes(text: str, flags: str, said: str, jobs: Jobs) -> None:
    jobs.refuse(f"jsonl {flags}", said, files={"a.jsonl": text})


PIXELS = np.arange(40 * 12).reshape(40, 12) % 256
NAMES = [f"pixel{n}" for n in range(12)]


def rows_of(kind: str, values: np.ndarray) -> dict[str, bytes]:
    rows = [{"label": n % 3, **dict(zip(NAMES, row))} for n, row in enumerate(values.tolist())]
    return {f"a.{kind}": encode_rows(kind, rows)}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "stack", "dtype", "shape"),
    [
        ("csv", "image=pixel*", np.int64, (12,)),
        ("csv", "image=pixel*:float32", np.float32, (12,)),
        ("csv", "image=pixel*:3,4", np.int64, (3, 4)),
        ("csv", "image=*", np.int64, (12,)),
        *((kind, "image=pixel*:uint8:3,4", np.uint8, (3, 4)) for kind in ("csv", "jsonl", "parquet")),
    ],
)
def test_stack(jobs: Jobs, kind: str, stack: str, dtype: type, shape: tuple[int, ...]) -> None:
    line = f"{kind} --no_shuffle --label label --stack {stack}"
    built = jobs.build(line, files=rows_of(kind, PIXELS))
    examples = built.examples()

    assert [set(example) for example in examples] == [{"image", "label"}] * 40
    stacked = np.stack([example["image"] for example in examples])
    assert stacked.dtype == dtype
    assert stacked.shape == (40, *shape)
    assert (stacked.reshape(40, 12) == PIXELS).all()
    [read] = tfds.builder_from_directory(built.directory).as_dataset(split="train").take(1)
    assert (read["image"].numpy().reshape(12) == PIXELS[0]).all()
    if kind != "jsonl":
        assert jobs.build(f"{line} --schema out/n/1.0.0/schema.pbtxt --version 1.0.1").splits == {"train": 40}


@pytest.mark.parametrize(
    ("stack", "message"),
    [
        ("image=pixl*", "no column has such a name"),
        ("label=pixel*", "there is a column 'label'"),
        ("image=pixel*:5,5", "the shape has 25 values, not 12"),
        ("image", "'image' is not NAME=COLUMNS"),
        ("image=pixel*:uint16", "no column has such a name"),
    ],
)
def test_mistakes_in_stacks(jobs: Jobs, stack: str, message: str) -> None:
    jobs.refuse(f"csv --stack {stack}", message, files=rows_of("csv", PIXELS))


def test_values_that_do_not_fit(jobs: Jobs) -> None:
    values = PIXELS.astype(object)
    values[3, 5], values[7, 2] = 256, None
    line = "csv --stack image=pixel*:uint8 --max_reject_fraction 1"
    built = jobs.build(line, files=rows_of("csv", values))

    assert built.splits == {"train": 38}
    assert "column 'pixel5': 256 is not 0 to 255 (uint8)" in built.said
    values[:, 4] = "x"
    said = "column 'pixel4' holds bytes; expected integers; leave it out with --drop pixel4"
    jobs.refuse(f"{line} --output c", said, files=rows_of("csv", values))
    assert {len(example["image"]) for example in jobs.build(f"{line} --drop pixel4 --output d").examples()} == {11}
