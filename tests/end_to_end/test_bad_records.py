"""Bad lines of JSON, text and TFRecords end to end: what is good comes out, and each reject says why."""

import gzip
import json
from pathlib import Path

import pytest

from shardmill.metadata import file_names
from tests.support.command import Result, Run, check_mistake, write_files
from tests.support.framed_records import SIZE, WHOLE, flipped, framed, records
from tests.support.table_results import TOLERANT, check_consistent, convert

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


def test_bad_json_lines(tmp_path: Path) -> None:
    files = {
        "a.jsonl": b"\xef\xbb\xbf" + b"\n".join(line for line, _ in JSON_LINES),
        "empty.jsonl": b"",
        "half.jsonl.gz": gzip.compress(
            b"".join(b'{"a": %d, "b": "%x"}\n' % (n, n * 2654435761) for n in range(20_000))
        )[:100_000],
    }
    table = convert("jsonl", write_files(tmp_path / "in", files), tmp_path, "--no_shuffle", *TOLERANT)
    good = [row for _, row in JSON_LINES if isinstance(row, dict)]
    assert table.rows[: len(good)] == good
    rejects = [reject for reject in table.rejects() if reject["source"] == "a.jsonl"]
    bad = [(line, row) for line, (_, row) in enumerate(JSON_LINES, 1) if isinstance(row, str)]
    assert [(reject["line"], reject["stage"]) for reject in rejects] == [(line, "read") for line, _ in bad]
    for reject, (_, reason) in zip(rejects, bad, strict=True):
        assert reason in reject["reason"]
    (lost,) = (reject for reject in table.rejects() if reject["source"] != "a.jsonl")
    assert lost["source"] == "half.jsonl.gz"
    assert lost["reason"].startswith("the gzip data ends too early, at byte 100,000 of the compressed file")
    assert table.rows[len(good) :] == [{"a": n, "b": b"%x" % (n * 2654435761)} for n in range(lost["line"] - 1)]
    assert lost["line"] > 1000
    assert "passed over 2 blank lines" in table.dataset.manifest.notices
    check_consistent(table)


NESTED = b'{"a": 1, "k": 5, "o": {"x": 1}}\n{"a": 2, "k": 6, "o": [[1, {}]]}\n'


def test_json_that_no_feature_can_hold_is_left_out(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {"a.jsonl": NESTED})
    command = ("jsonl", "--input", folder, "--output", tmp_path / "out", "--name", "n")
    check_mistake(run(*command), "column 'o' in 2 rows, the first of them a.jsonl, line 1", "--drop o")
    dropped = convert("jsonl", folder, tmp_path / "1", "--drop", "o", "--no_shuffle")
    assert dropped.rows == [{"a": 1, "k": 5}, {"a": 2, "k": 6}]
    assert dropped.dataset.manifest.notices == ()
    mistaken = convert("jsonl", folder, tmp_path / "3", "--drop", "o,kk", "--no_shuffle")
    assert mistaken.rows == dropped.rows
    assert list(mistaken.dataset.manifest.notices) == [
        "no row has 'kk', which --drop leaves out; did you mean k? the columns are a, k, o"
    ]
    chosen = convert("jsonl", folder, tmp_path / "2", "--only", "a", "--key", "k")
    assert sorted(chosen.column("a")) == [1, 2]
    assert list(chosen.features) == ["a"]


def test_bad_lines_of_text(tmp_path: Path) -> None:
    files = {
        "ant/latin-1.txt": b"caf\xe9\none\ntwo \xe2\x82\n",
        "ant/mixed.txt": b"\xef\xbb\xbfthree\r\n\r\n \t\nfour\rstill four\nfive\0\n\xef\xbb\xbfsix",
        "bee/half.txt.gz": gzip.compress("".join(f"n{n * 2654435761:x}\n" for n in range(20_000)).encode())[:50_000],
        "bee/long.txt": b"x" * 5_000_000 + b"\n",
        "bee/line\nbreak [1].txt": b"seven\n\xff\n",
    }
    table = convert("text", write_files(tmp_path / "in", files), tmp_path, "--line_numbers", "--no_shuffle", *TOLERANT)
    found = [(row["filename"].decode(), row["line_number"], row["text"]) for row in table.rows]
    assert [row for row in found if row[0] != "bee/half.txt.gz"] == [
        ("ant/latin-1.txt", 2, b"one"),
        ("ant/mixed.txt", 1, b"three"),
        ("ant/mixed.txt", 4, b"four\rstill four"),
        ("ant/mixed.txt", 5, b"five\0"),
        ("ant/mixed.txt", 6, b"\xef\xbb\xbfsix"),
        ("bee/line\nbreak [1].txt", 1, b"seven"),
        ("bee/long.txt", 1, b"x" * 5_000_000),
    ]
    assert {row["filename"].decode().split("/")[0]: row["label"] for row in table.rows} == {"ant": 0, "bee": 1}
    rejects = {(reject["source"], reject["line"]): reject["reason"] for reject in table.rejects()}
    lost = next(line for source, line in rejects if source == "bee/half.txt.gz")
    assert list(rejects) == [
        ("ant/latin-1.txt", 1),
        ("ant/latin-1.txt", 3),
        ("bee/half.txt.gz", lost),
        ("bee/line\nbreak [1].txt", 2),
    ]
    assert rejects["ant/latin-1.txt", 1] == "not utf-8: byte 0xe9 (é in cp1252) at position 4 of the line"
    assert "the gzip data ends too early, at byte 50,000" in rejects["bee/half.txt.gz", lost]
    half = [(number, text) for name, number, text in found if name == "bee/half.txt.gz"]
    assert half == [(n + 1, b"n%x" % (n * 2654435761)) for n in range(lost - 1)]
    assert lost > 1000
    check_consistent(table)


def test_bad_files_of_text(tmp_path: Path) -> None:
    files = {
        "0.txt": b"good\n",
        "empty.txt": b"",
        "latin-1.txt": b"caf\xe9",
        "space.txt": b" \n",
        "utf-16.txt": "a".encode("utf-16"),
    }
    table = convert("text", write_files(tmp_path / "in", files), tmp_path, "--record", "file", *TOLERANT)
    assert table.rows == [{"text": b"good\n", "filename": b"0.txt"}]
    assert [(reject["source"], reject["line"], reject["reason"]) for reject in table.rejects()] == [
        ("empty.txt", None, "the file is empty"),
        ("latin-1.txt", None, "byte 3 is not utf-8: unexpected end of data; --encoding cp1252 reads it as 'café'"),
        ("space.txt", None, "the file holds nothing but white space"),
        ("utf-16.txt", None, "byte 0 is not utf-8: invalid start byte"),
    ]
    check_consistent(table)


def test_bad_tfrecords(tmp_path: Path) -> None:
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
    table = convert("reshard", write_files(tmp_path / "in", files), tmp_path, "--num_shards", 3, *TOLERANT)
    rejects = {(reject["source"], reject["line"]): reject["reason"] for reject in table.rejects()}
    assert {key: reason for key, reason in rejects.items() if key[0] != "6-cut.tfrecord.gz"} == {
        ("1-payload.tfrecord", 6): f"record 6 at byte {5 * SIZE} fails its checksum",
        ("2-length.tfrecord", 6): f"record 6 at byte {5 * SIZE} has a length that fails its checksum; "
        f"the remaining {15 * SIZE} bytes are lost",
        (
            "3-cut.tfrecord",
            20,
        ): f"record 20 at byte {19 * SIZE} is cut short, {SIZE - 5} of {SIZE} bytes, which are lost",
        ("4-cut-header.tfrecord", 21): f"record 21 at byte {20 * SIZE} is cut short, 3 of 12 bytes, which are lost",
        ("5-no-example.tfrecord", 1): "record 1 is not a tf.train.Example",
        ("5-no-example.tfrecord", 22): "record 22 is not a tf.train.Example",
        (
            "8-text.tfrecord",
            1,
        ): "record 1 at byte 0 is no record: the file begins as texts do; the remaining 60 bytes are lost",
        (
            "9-zeros.tfrecord",
            1,
        ): "record 1 at byte 0 has a length that fails its checksum; the remaining 100 bytes are lost",
    }
    ((_, lost),) = (key for key in rejects if key[0] == "6-cut.tfrecord.gz")
    assert lost > 15
    assert "the gzip data ends too early" in rejects["6-cut.tfrecord.gz", lost]
    ranges = [
        (1000, 1020),
        (2000, 2005),
        (2006, 2020),
        (3000, 3005),
        (4000, 4019),
        (5000, 5020),
        (6000, 6020),
        (8000, 8020),
    ]
    kept = [number for first, last in [*ranges, (7000, 7000 + lost - 1)] for number in range(first, last)]
    assert sorted(row["id"] for row in table.rows) == sorted(kept)
    assert all(row["t"] == b"%05d" % row["id"] for row in table.rows)
    check_consistent(table)


def test_rejects_are_json_whatever_they_quote(tmp_path: Path) -> None:
    """Values, names and classes that would break a line, a string or an encoding."""
    odd = '"\\\u2028\x1b\x7f\u0085'
    rows = b"".join(
        json.dumps({"n": value}, ensure_ascii=False).encode() + b"\n" for value in (1, 2, {odd: odd}, [[odd]])
    )
    folder = write_files(tmp_path / "in", {'"q\\\u2028.jsonl': rows + b"{\xff\n"})
    table = convert("jsonl", folder, tmp_path, "--no_shuffle", *TOLERANT)
    assert table.column("n") == [1, 2]
    # U+2028 ends a line for Python alone
    lines = (table.directory / "rejects" / file_names.REJECTS_FILE).read_text().split("\n")
    assert [(reject["source"], reject["line"]) for reject in map(json.loads, lines[:-1])] == [
        ('"q\\\u2028.jsonl', line) for line in (3, 4, 5)
    ]


@pytest.mark.parametrize(
    ("lines", "kept", "bad"),
    [
        (['{"a":1,"o":99999999999999999999}', '{"a":2}', '{"a":3}'], [2, 3], 1),
        (['{"a":1}', '{"o":99999999999999999999}', '{"a":3}'], [1, 3], 2),
    ],
)
def test_a_column_without_a_good_value_is_not_forgotten(
    tmp_path: Path, lines: list[str], kept: list[int], bad: int
) -> None:
    source = write_files(tmp_path / "in", {"a.jsonl": "".join(f"{line}\n" for line in lines).encode()})
    table = convert("jsonl", source, tmp_path, "--max_reject_fraction", 0.5)
    assert (sorted(table.column("a")), table.features) == (kept, {"a": "int64"})
    (reject,) = table.rejects()
    assert reject["line"] == bad
    assert reject["reason"].startswith("column 'o': ")
    assert "column 'o' has no value in any row that can be read, and was left out" in table.dataset.manifest.notices


_CUT = "without a line break, so it may be cut short"
# Files whose last record is incomplete; `whole` is what is missing
CUT_SHORT: dict[str, tuple[str, bytes, bytes]] = {
    "fewer fields": ("csv", b"x,y,z\n1,2,3\n4,5", b",6\n"),
    "open quote": ("csv", b'x,y,z\n1,2,3\n4,5,"six', b'"\n'),
    "open quote of gzip": ("csv.gz", b'x,y,z\n1,2,3\n4,5,"six', b'"\n'),
    "a letter of CSV": ("csv", b"x,y,z\n1,2,a\n4,5,\xc3", b"\xa4\n"),
    "JSON": ("jsonl", b'{"x": 1}\n{"x": 2', b"}\n"),
    "a letter of text": ("txt", b"one\ntw\xc3", b"\xa4\n"),
}


@pytest.mark.parametrize("case", CUT_SHORT)
def test_a_file_that_is_cut_short_is_named_as_such(case: str, tmp_path: Path, run: Run) -> None:
    suffix, start, rest = CUT_SHORT[case]
    command = {"txt": "text"}.get(suffix, suffix.removesuffix(".gz"))

    def convert_file(name: str, data: bytes) -> Result:
        data = gzip.compress(data) if suffix.endswith(".gz") else data
        source = write_files(tmp_path / name, {f"a.{suffix}": data})
        words = (command, "--input", source, "--output", tmp_path / "out", "--name", name, "--encoding", "utf-8")
        return run(*words, "--max_reject_fraction", "0.9")

    cut, broken = convert_file("cut", start), convert_file("broken", start + b"\n")
    assert _CUT in cut.out + cut.err
    assert _CUT not in broken.out + broken.err  # the file ends with a line break, and the record is bad all the same
    for name, data in (("whole", start + rest), ("bare", (start + rest)[:-1])):
        done = convert_file(name, data)
        assert done.status == 0, done.err
        assert "2" in done.out.split("train")[1].split()[0]
        assert _CUT not in done.out
