"""Records that cannot be stored: nested values, texts of which no tokens are made, records that are cut short."""

import gzip
import json

import pyarrow as pa
import pytest

from shardmill.metadata import file_names
from tests.support.jobs import Files, Jobs
from tests.support.table_results import TOLERANT, parquet
from tests.support.tokenizer_files import ids_of, tokenizer_json


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
    ways = (
        ("cut", start, True),
        ("broken", start + b"\n", False),  # it ends with a line break, and the record is bad all the same
        ("bare", (start + rest)[:-1], False),
    )
    for name, data, is_cut in ways[: 3 if case in ("fewer fields", "JSON", "a letter of text") else 1]:
        files = {f"a.{suffix}": gzip.compress(data) if suffix.endswith(".gz") else data}
        done = jobs.run(f"{command} --encoding utf-8 --max_reject_fraction 0.9 --name {name}", files=files)
        assert ("without a line break, so it may be cut short" in done.out + done.err) == is_cut
        if name == "bare":
            assert done.status == 0, done.err
            assert "2" in done.out.split("train")[1].split()[0]


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
