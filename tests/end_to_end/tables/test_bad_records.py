"""Bad lines of JSON and text, bad rows of Parquet, bad TFRecords, texts of which no tokens are made: what is good comes
out, and each reject says why."""

import gzip
import json

import pyarrow as pa
import pytest

from shardmill.metadata import file_names
from tests.support.framed_records import SIZE, WHOLE, flipped, framed, records
from tests.support.jobs import Files, Jobs
from tests.support.table_results import TOLERANT, check_consistent, parquet
from tests.support.tokenizer_files import ids_of, tokenizer_json

# Each line, and what it becomes: a row, or words of the reason; None is no record.
JSON_LINES: list[tuple[bytes, dict[str, object] | str | None]] = [
    (b'{"a": 1, "b": "x"}', {"a": 1, "b": b"x"}),
    (b'{"a": 2, "b": {"c": 1}}', "column 'b': {\"c\": 1} is not a number, a string or a list of them"),
    (b'{"a": 3, "b": [["x"]]}', "column 'b'"),
    (
        b"[1, 2]",
        "not a JSON object, but [1, 2]; expected one object on each line: jq -c '.[]' makes such lines of an array",
    ),
    (b"null", "not a JSON object, but null"),
    (b'"text"', 'not a JSON object, but "text"'),
    (b'{"a": 4, "b": "y"', "not JSON: unexpected end of data, at character 18"),
    (b"{a: 5}", "not JSON"),
    (b'{"a": 6} {"a": 7}', "not JSON: unexpected content after document"),
    (b"", None),
    (b" \t\r", None),
    (b'{"a": NaN}', "not JSON"),
    (b'{"a": 1e400}', "not JSON: number is infinity"),
    (b'{"a": 18446744073709551616}', "column 'a': 18446744073709551616 does not fit a 64-bit integer"),
    (b'{"a": 8}', {"a": 8}),
    (b'{"a": null, "b": ""}', {"b": b""}),
    (b'{"b": "\\ud800"}', "not JSON: no low surrogate"),
    (b'{"b": "caf\xe9"}', "not JSON: byte 0xe9 (é in cp1252) is not utf-8"),
    (b'{"b": "\0"}', "not JSON: unexpected control character"),
    (b'{"b": "\\u0000"}', {"b": b"\0"}),
    (b'{"a": 9, "a": 10}', {"a": 10}),
    (b"\xff\xfe{\0}\0", "not JSON"),
    (b"[" * 100_000, "not JSON: depth limit exceeded"),
    (b'{"b": "' + b"x" * 5_000_000 + b'"}\r', {"b": b"x" * 5_000_000}),
    (b'{"a": 11, "b": "no end of line"}', {"a": 11, "b": b"no end of line"}),
]


def test_bad_json_lines(jobs: Jobs) -> None:
    half = gzip.compress(b"".join(b'{"a": %d, "b": "%x"}\n' % (n, n * 2654435761) for n in range(20_000)))
    files = {
        "a.jsonl": b"\xef\xbb\xbf" + b"\n".join(line for line, _ in JSON_LINES),
        "empty.jsonl": b"",
        "half.jsonl.gz": half[:100_000],
    }
    made = jobs.build("jsonl --no_shuffle", *TOLERANT, files=files)
    good = [row for _, row in JSON_LINES if isinstance(row, dict)]
    assert made.table.rows[: len(good)] == good
    *rejects, lost = made.rejects
    bad = [(line, row) for line, (_, row) in enumerate(JSON_LINES, 1) if isinstance(row, str)]
    assert [(one["source"], one["line"], one["stage"]) for one in rejects] == [("a.jsonl", n, "read") for n, _ in bad]
    for reject, (_, reason) in zip(rejects, bad, strict=True):
        assert reason in reject["reason"]
    assert lost["source"] == "half.jsonl.gz"
    assert lost["reason"].startswith("the gzip data ends too early, at byte 100,000 of the compressed file")
    assert made.table.rows[len(good) :] == [{"a": n, "b": b"%x" % (n * 2654435761)} for n in range(lost["line"] - 1)]
    assert lost["line"] > 1000
    assert "passed over 2 blank lines" in made.notices
    check_consistent(made.table)


def test_json_that_no_feature_can_hold_is_left_out(jobs: Jobs) -> None:
    nested = '{"a": 1, "k": 5, "o": {"x": 1}}\n{"a": 2, "k": 6, "o": [[1, {}]]}\n'
    jobs.refuse("jsonl", "column 'o' in 2 rows, the first of them a.jsonl, line 1…--drop o", files={"a.jsonl": nested})
    dropped = jobs.build("jsonl --drop o --no_shuffle --name dropped")
    assert (dropped.table.rows, dropped.notices) == ([{"a": 1, "k": 5}, {"a": 2, "k": 6}], [])
    mistaken = jobs.build("jsonl --drop o,kk --no_shuffle --name mistaken")
    assert mistaken.table.rows == dropped.table.rows
    assert mistaken.notices == ["no row has 'kk', which --drop leaves out; did you mean k? the columns are a, k, o"]
    chosen = jobs.build("jsonl --only a --key k --name chosen").table
    assert (sorted(chosen.column("a")), list(chosen.features)) == ([1, 2], ["a"])


def test_bad_lines_of_text(jobs: Jobs) -> None:
    files = {
        "ant/latin-1.txt": b"caf\xe9\none\ntwo \xe2\x82\n",
        "ant/mixed.txt": b"\xef\xbb\xbfthree\r\n\r\n \t\nfour\rstill four\nfive\0\n\xef\xbb\xbfsix",
        "bee/half.txt.gz": gzip.compress("".join(f"n{n * 2654435761:x}\n" for n in range(20_000)).encode())[:50_000],
        "bee/long.txt": b"x" * 5_000_000 + b"\n",
        "bee/line\nbreak [1].txt": b"seven\n\xff\n",
    }
    made = jobs.build("text --line_numbers --no_shuffle", *TOLERANT, files=files)
    found = [(row["filename"].decode(), row["line_number"], row["text"]) for row in made.table.rows]
    assert [row for row in found if row[0] != "bee/half.txt.gz"] == [
        ("ant/latin-1.txt", 2, b"one"),
        ("ant/mixed.txt", 1, b"three"),
        ("ant/mixed.txt", 4, b"four\rstill four"),
        ("ant/mixed.txt", 5, b"five\0"),
        ("ant/mixed.txt", 6, b"\xef\xbb\xbfsix"),
        ("bee/line\nbreak [1].txt", 1, b"seven"),
        ("bee/long.txt", 1, b"x" * 5_000_000),
    ]
    assert {row["filename"].decode().split("/")[0]: row["label"] for row in made.table.rows} == {"ant": 0, "bee": 1}
    first, _, half, _ = made.rejects
    lost = half["line"]
    assert list(made.reasons) == [
        *("ant/latin-1.txt:1", "ant/latin-1.txt:3", f"bee/half.txt.gz:{lost}", "bee/line\nbreak [1].txt:2")
    ]
    assert first["reason"] == "not utf-8: byte 0xe9 (é in cp1252) at position 4 of the line"
    assert "the gzip data ends too early, at byte 50,000" in half["reason"]
    read = [(number, text) for name, number, text in found if name == "bee/half.txt.gz"]
    assert read == [(n + 1, b"n%x" % (n * 2654435761)) for n in range(lost - 1)]
    assert lost > 1000
    check_consistent(made.table)


def test_bad_files_of_text(jobs: Jobs) -> None:
    files = {
        "0.txt": "good\n",
        "empty.txt": "",
        "latin-1.txt": b"caf\xe9",
        "space.txt": " \n",
        "utf-16.txt": "a".encode("utf-16"),
    }
    made = jobs.build("text --record file", *TOLERANT, files=files)
    assert made.table.rows == [{"text": b"good\n", "filename": b"0.txt"}]
    assert made.reasons == {
        "empty.txt": "the file is empty",
        "latin-1.txt": "byte 3 is not utf-8: unexpected end of data; --encoding cp1252 reads it as 'café'",
        "space.txt": "the file holds nothing but white space",
        "utf-16.txt": "byte 0 is not utf-8: invalid start byte",
    }
    check_consistent(made.table)


def test_bad_tfrecords(jobs: Jobs) -> None:
    files = {
        "0.tfrecord": WHOLE,
        "1-payload.tfrecord": flipped(records(2000), 5 * SIZE + 20),
        "2-length.tfrecord": flipped(records(3000), 5 * SIZE + 2),
        "3-cut.tfrecord": records(4000)[:-5],
        "4-cut-header.tfrecord": records(5000) + b"\x01\x02\x03",
        "5-no-example.tfrecord": framed(b"hello") + records(6000) + framed(b"\x0a\x05abc"),
        "6-cut.tfrecord.gz": gzip.compress(records(7000))[:-12],
        "7-empty.tfrecord": b"",
        "8-text.tfrecord": b"id,name\n1,2\n" * 5,
        "9-zeros.tfrecord": bytes(100),
        "line\nbreak [1].tfrecord-00000-of-00001": records(8000),
    }
    made = jobs.build("reshard --num_shards 3", *TOLERANT, files=files)
    reasons = made.reasons
    ((cut, reason),) = ((place, reasons.pop(place)) for place in list(reasons) if place.startswith("6-cut"))
    sixth, no_length = f"record 6 at byte {5 * SIZE}", "has a length that fails its checksum; the remaining"
    assert reasons == {
        "1-payload.tfrecord:6": f"{sixth} fails its checksum",
        "2-length.tfrecord:6": f"{sixth} {no_length} {15 * SIZE} bytes are lost",
        "3-cut.tfrecord:20": f"record 20 at byte {19 * SIZE} is cut short, {SIZE - 5} of {SIZE} bytes, which are lost",
        "4-cut-header.tfrecord:21": f"record 21 at byte {20 * SIZE} is cut short, 3 of 12 bytes, which are lost",
        "5-no-example.tfrecord:1": "record 1 is not a tf.train.Example",
        "5-no-example.tfrecord:22": "record 22 is not a tf.train.Example",
        "8-text.tfrecord:1": "record 1 at byte 0 is no record: the file begins as texts do; the remaining 60 bytes are"
        " lost",
        "9-zeros.tfrecord:1": f"record 1 at byte 0 {no_length} 100 bytes are lost",
    }
    lost = int(cut.partition(":")[2])
    assert lost > 15
    assert "the gzip data ends too early" in reason
    ranges = [(1000, 20), (2000, 5), (2006, 14), (3000, 5), (4000, 19), (5000, 20), (6000, 20), (8000, 20)]
    kept = [first + number for first, count in [*ranges, (7000, lost - 1)] for number in range(count)]
    assert sorted(made.table.column("id")) == sorted(kept)
    assert all(row["t"] == b"%05d" % row["id"] for row in made.table.rows)
    check_consistent(made.table)


def test_rejects_are_json_whatever_they_quote(jobs: Jobs) -> None:
    """Values, names and classes that would break a line, a string or an encoding."""
    odd, name = '"\\\u2028\x1b\x7f\u0085', '"q\\\u2028.jsonl'
    rows = [json.dumps({"n": value}, ensure_ascii=False).encode() for value in (1, 2, {odd: odd}, [[odd]])]
    made = jobs.build("jsonl --no_shuffle", *TOLERANT, files={name: b"\n".join([*rows, b"{\xff\n"])})
    assert made.table.column("n") == [1, 2]
    # U+2028 ends a line for Python alone
    lines = (made.directory / "rejects" / file_names.REJECTS_FILE).read_text().split("\n")
    assert [(one["source"], one["line"]) for one in map(json.loads, lines[:-1])] == [(name, n) for n in (3, 4, 5)]


@pytest.mark.parametrize("rows", [('{"a":1,"o":%d}', '{"a":2}', '{"a":3}'), ('{"a":1}', '{"o":%d}', '{"a":3}')])
def test_a_column_without_a_good_value_is_not_forgotten(jobs: Jobs, rows: tuple[str, ...]) -> None:
    lines = "\n".join(rows).replace("%d", "99999999999999999999")
    made = jobs.build("jsonl --max_reject_fraction 0.5", files={"a.jsonl": f"{lines}\n"})
    bad = next(line for line, row in enumerate(rows, 1) if "%d" in row)
    kept = {1, 2, 3} - {bad}
    assert (set(made.table.column("a")), made.table.features) == (kept, {"a": "int64"})
    ((place, reason),) = made.reasons.items()
    assert (place, reason.partition(": ")[0]) == (f"a.jsonl:{bad}", "column 'o'")
    assert "column 'o' has no value in any row that can be read, and was left out" in made.notices


# Files whose last record is incomplete; the last is what is missing
CUT_SHORT: dict[str, tuple[str, bytes, bytes]] = {
    "fewer fields": ("csv", b"x,y,z\n1,2,3\n4,5", b",6\n"),
    "open quote": ("csv", b'x,y,z\n1,2,3\n4,5,"six', b'"\n'),
    "open quote of gzip": ("csv.gz", b'x,y,z\n1,2,3\n4,5,"six', b'"\n'),
    "a letter of CSV": ("csv", b"x,y,z\n1,2,a\n4,5,\xc3", b"\xa4\n"),
    "JSON": ("jsonl", b'{"x": 1}\n{"x": 2', b"}\n"),
    "a letter of text": ("txt", b"one\ntw\xc3", b"\xa4\n"),
}


@pytest.mark.parametrize("case", CUT_SHORT)
def test_a_file_that_is_cut_short_is_named_as_such(case: str, jobs: Jobs) -> None:
    suffix, start, rest = CUT_SHORT[case]
    command = {"txt": "text"}.get(suffix, suffix.removesuffix(".gz"))
    whole = start + rest
    for name, data, is_cut in (
        ("cut", start, True),
        ("broken", start + b"\n", False),  # it ends with a line break, and the record is bad all the same
        ("whole", whole, False),
        ("bare", whole[:-1], False),
    ):
        files = {f"a.{suffix}": gzip.compress(data) if suffix.endswith(".gz") else data}
        done = jobs.run(f"{command} --encoding utf-8 --max_reject_fraction 0.9 --name {name}", files=files)
        assert ("without a line break, so it may be cut short" in done.out + done.err) == is_cut
        if name in ("whole", "bare"):
            assert done.status == 0, done.err
            assert "2" in done.out.split("train")[1].split()[0]


def overwritten(data: bytes, at: int) -> bytes:
    return data[:at] + b"\xff" * 40 + data[at + 40 :]


def test_bad_parquet_files(jobs: Jobs) -> None:
    table = pa.table({"id": range(1000), "name": [f"n{number}" for number in range(1000)]})
    whole = parquet(table, row_group_size=250, compression="none", use_dictionary=False)
    files = {
        "broken-group.parquet": overwritten(whole, 3000),
        "cut.parquet": whole[:-10],
        "empty.parquet": b"",
        "footer.parquet": overwritten(whole, len(whole) - 60),
        "no-rows.parquet": parquet(table.slice(0, 0)),
        "odd.parquet": parquet(pa.table({"id": pa.array([2000, 1 << 63], pa.uint64()), "name": ["a", "b"]})),
        "text.parquet": b"id,name\n1,2\n",
    }
    made = jobs.build("parquet", *TOLERANT, files=files)
    kept = {number: b"n%d" % number for number in range(250, 1000)} | {2000: b"a"}
    assert {row["id"]: row["name"] for row in made.table.rows} == kept
    assert len(made.table.rows) == len(kept)
    starts = {
        ("broken-group.parquet:1", "read"): "row group 0 cannot be read from row 1 on, all of which is lost: ",
        ("cut.parquet", "index"): "not a Parquet file: ",
        ("empty.parquet", "index"): "not a Parquet file: ",
        ("footer.parquet", "index"): "",
        ("odd.parquet:2", "read"): "column 'id': 9223372036854775808",
        ("text.parquet", "index"): "not a Parquet file: ",
    }
    assert [*zip(made.reasons, (one["stage"] for one in made.rejects), strict=True)] == [*starts]
    for reason, start in zip(made.reasons.values(), starts.values(), strict=True):
        assert reason.startswith(start)
    check_consistent(made.table)


def test_parquet_column_that_cannot_be_read_is_dropped(jobs: Jobs) -> None:
    maps = pa.array([[("k", 1)], []], pa.map_(pa.string(), pa.int64()))
    files = {"a.parquet": parquet(pa.table({"a": [1, 2], "s": [{"x": 1}, {"x": 2}], "m": maps}))}
    struct = "a.parquet: column 's' is struct<x: int64>, column 'm' is map<…--drop s,m leaves"
    jobs.refuse("parquet", struct, files=files)
    jobs.refuse("parquet --drop s", "a.parquet: column 'm' is map<…--drop s,m leaves")
    assert sorted(jobs.build("parquet --drop s,m").table.column("a")) == [1, 2]


def test_many_files_and_many_columns(jobs: Jobs) -> None:
    table = jobs.build("csv --num_shards 4", files={f"{n % 7}/{n}.csv": f"a,b\n{n},x{n}\n" for n in range(400)}).table
    assert sorted((row["a"], row["b"]) for row in table.rows) == [(n, b"x%d" % n) for n in range(400)]
    assert table.sizes == {"train": [100] * 4}
    names = [f"c{number}" for number in range(2000)]
    lines = [",".join(names), ",".join(map(str, range(2000))), ",".join(["1"] * 1999)]
    made = jobs.build("csv --input in/w.csv --name wide", *TOLERANT, files={"w.csv": "\n".join(lines)})
    assert made.table.rows == [{name: number for number, name in enumerate(names)}]
    assert list(made.reasons.values()) == [
        "the row has 1999 fields; expected 2000, one for each column; the file ends there without a line break, so it"
        " may be cut short: compare its size with the original's"
    ]


def _without_unknown() -> bytes:
    """A tokenizer without a token for unknown words, who says so of a whole batch."""
    content = json.loads(tokenizer_json())
    del content["model"]["vocab"]["[UNK]"]
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    ("command", "files", "tokens", "reasons"),
    [
        (
            "parquet",
            {
                "a.parquet": parquet(pa.table({"text": pa.array([b"a a", b"a b", b"\xff a", b"x"], pa.binary())})),
                "../t.json": tokenizer_json((), vocabulary={"[UNK]": 0, "a": 1, "b": 7}),
            },
            [[0], [1, 1]],
            {
                "a.parquet:2": "'b', id 7, is above the vocabulary of t.json, whose 3 tokens have the ids from 0",
                "a.parquet:3": "the text in column 'text' is not UTF-8, which a tokenizer reads",
            },
        ),
        (
            "text",
            {"a.txt": "w1 w2\nw3 odd\nw4\n", "../t.json": _without_unknown()},
            [ids_of("w1 w2"), ids_of("w4")],
            {"a.txt:2": "t.json makes no tokens of the text: WordLevel error: Missing [UNK] token from the vocabulary"},
        ),
    ],
)
def test_texts_of_which_no_tokens_are_made_are_rejects(
    jobs: Jobs, command: str, files: Files, tokens: list[list[int]], reasons: dict[str, str]
) -> None:
    made = jobs.build(f"{command} --tokenizer t.json --max_reject_fraction 0.6", files=files)
    assert (sorted(made.table.column("input_ids")), made.reasons) == (tokens, reasons)
