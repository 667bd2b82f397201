"""Nested values of JSON lines, Parquet and Avro, named at once and stored as fields, parallel lists or JSON text;
columns of numbers that become one feature (--stack)."""

import io
import json
import shlex
from pathlib import Path
from typing import Any

import fastavro
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import shardmill
from tests.support.command import Run, check_mistake
from tests.support.jobs import Jobs
from tests.support.later import Later
from tests.support.table_results import convert, encode_rows

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


@pytest.mark.parametrize("command", ["jsonl", "parquet", "avro"])
def test_each_flag_of_the_message_is_followed(command: str, tmp_path: Path, run: Run) -> None:
    source = tmp_path / f"a.{command}"
    source.write_bytes(encode(command))
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
        more = ("--no_shuffle", "--block_size", block_size, *flags.split())
        table = convert("jsonl", tmp_path / "a.jsonl", tmp_path / block_size, *more)
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


def test_integers_beyond_64_bits_can_be_text(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"a": 18446744073709551616}\n{"a": 2}\n')
    flags = ("--input", tmp_path / "a.jsonl", "--output", tmp_path / "out", "--name", "n", "--overwrite")
    refused = run("jsonl", *flags)
    assert refused.status == 1
    assert "does not fit a 64-bit integer; --json_columns a stores such numbers as text" in refused.err
    assert run("jsonl", *flags, "--json_columns", "a").status == 0
    assert sorted(row["a"] for row in shardmill.examples(tmp_path / "out/n")) == [b"18446744073709551616", b"2"]


tfds = Later("tensorflow_datasets")

PIXELS = np.arange(40 * 12).reshape(40, 12) % 256
NAMES = [f"pixel{n}" for n in range(12)]


def write(folder: Path, kind: str, values: np.ndarray) -> Path:
    rows = [{"label": n % 3, **dict(zip(NAMES, row))} for n, row in enumerate(values.tolist())]
    (folder / f"rows.{kind}").write_bytes(encode_rows(kind, rows))
    return folder / f"rows.{kind}"


def converted(run: Run, path: Path, *flags: object) -> tuple[int, str, list[dict[str, Any]]]:
    out = path.parent / "out"
    result = run(
        path.suffix[1:], "--input", path, "--output", out, "--name", "n", "--overwrite", "--no_shuffle", *flags
    )
    examples = list(shardmill.examples(out / "n/1.0.0", split="train")) if result.status == 0 else []
    return result.status, result.out + result.err, examples


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
def test_stack(run: Run, tmp_path: Path, kind: str, stack: str, dtype: type, shape: tuple[int, ...]) -> None:
    status, said, examples = converted(run, write(tmp_path, kind, PIXELS), "--stack", stack, "--label", "label")

    assert status == 0, said
    assert [set(example) for example in examples] == [{"image", "label"}] * 40
    stacked = np.stack([example["image"] for example in examples])
    assert stacked.dtype == dtype
    assert stacked.shape == (40, *shape)
    assert (stacked.reshape(40, 12) == PIXELS).all()
    [read] = tfds.builder_from_directory(tmp_path / "out/n/1.0.0").as_dataset(split="train").take(1)
    assert (read["image"].numpy().reshape(12) == PIXELS[0]).all()
    again = ("--schema", tmp_path / "out/n/1.0.0/schema.pbtxt", "--version", "1.0.1", "--stack", stack)
    if kind != "jsonl":
        assert converted(run, tmp_path / f"rows.{kind}", *again, "--label", "label")[0] == 0
        assert len(list(shardmill.examples(tmp_path / "out/n/1.0.1", split="train"))) == 40


@pytest.mark.parametrize(
    ("stack", "message"),
    [
        ("image=pixl*", "no column has such a name"),
        ("label=pixel*", "there is a column 'label'"),
        ("image=pixel*:5,5", "the shape has 25 values, not 12"),
        ("image", "expected NAME=COLUMNS"),
        ("image=pixel*:uint16", "no column has such a name"),
    ],
)
def test_mistakes_in_stacks(jobs: Jobs, stack: str, message: str) -> None:
    rows = encode_rows("csv", [{"label": n % 3, **dict(zip(NAMES, row))} for n, row in enumerate(PIXELS.tolist())])
    jobs.refuse(f"csv --stack {stack}", message, files={"rows.csv": rows})


def test_values_that_do_not_fit(run: Run, tmp_path: Path) -> None:
    values = PIXELS.astype(object)
    values[3, 5], values[7, 2] = 256, None
    path = write(tmp_path, "csv", values)
    flags = ("--stack", "image=pixel*:uint8", "--max_reject_fraction", "1")

    status, said, examples = converted(run, path, *flags)

    assert (status, len(examples)) == (0, 38), said
    assert "column 'pixel5': 256 is not 0 to 255 (uint8)" in said
    assert "column 'pixel2' has no value, and --stack image needs one in each row; --fill pixel2=0 supplies it" in said
    assert len(converted(run, path, *flags, "--fill", "pixel2=0")[2]) == 39
    values[:, 4] = "x"
    status, said, _ = converted(run, write(tmp_path, "csv", values), *flags)
    assert status == 2
    assert "column 'pixel4' holds bytes; expected integers; leave it out with --drop pixel4" in said
    examples = converted(run, path, *flags, "--drop", "pixel4")[2]
    assert {len(example["image"]) for example in examples} == {11}


def test_many_numbered_columns_are_told(run: Run, tmp_path: Path) -> None:
    header, row = ",".join(f"emb_{n}" for n in range(128)), ",".join(f"{n / 7:.3f}" for n in range(128))
    (tmp_path / "rows.csv").write_text("\n".join([f"id,{header}", *(f"{n},{row}" for n in range(5))]))

    status, said, examples = converted(run, tmp_path / "rows.csv")

    assert (status, len(examples[0])) == (0, 129)
    assert "128 columns are called 'emb_' and a number, and each is a feature; " in said
    flags = said.split("and each is a feature; ")[1].split(" makes one")[0]
    _, said, examples = converted(run, tmp_path / "rows.csv", *shlex.split(flags))
    assert (set(examples[0]), "and each is a feature" in said) == ({"id", "embs"}, False)
