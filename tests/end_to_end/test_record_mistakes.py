"""Mistakes in flags and input of JSON lines, text and TFRecords: one sentence, and nothing is written."""

from pathlib import Path

import pytest

from tests.support.command import Run, check_failure, check_mistake, check_refused, tree_bytes, write_files
from tests.support.framed_records import WHOLE

WRONG: list[tuple[str, dict[str, bytes], tuple[str, ...], tuple[str, ...]]] = [
    (
        "jsonl",
        {"a.jsonl": b'{"a": 1, "label": "x"}\n'},
        ("--label", "lable"),
        ("--label lable: no such column", "did you mean label?"),
    ),
    (
        "jsonl",
        {"a.jsonl": b'{"a": 1, "label": "x"}\n'},
        ("--key", "aa"),
        ("--key aa: no such column", "did you mean a?"),
    ),
    ("jsonl", {"a.jsonl": b'{"": 1}\n'}, (), ("a column without a name",)),
    ("jsonl", {"a.jsonl": b"{}\n{}\n"}, (), ("no column of --input",)),
    ("jsonl", {"a.jsonl": b""}, (), ("has no rows",)),
    ("jsonl", {"a.jsonl": b"\n \n"}, (), ("has no rows",)),
    ("text", {"a.txt": b""}, (), ("has no rows",)),
    ("text", {"a.txt": b"\n \n"}, (), ("has no rows",)),
    ("text", {"a.csv": b"a\n"}, (), ("no text files in --input", "1 .csv file, such as 'a.csv'")),
    ("jsonl", {"a.jsonl": '{"a": 1}\n'.encode("utf-16")}, (), ("a.jsonl begins like UTF-16; give --encoding utf-16",)),
    ("text", {"a.txt": "a\nb\n".encode("utf-16")}, (), ("a.txt begins like UTF-16; give --encoding utf-16",)),
    ("text", {"a.txt": b"a\n"}, ("--encoding", "utf-16"), ("a.txt is not utf-16", "--encoding")),
    ("text", {"a.txt": b"a\n"}, ("--encoding", "nope"), ("encoding", "nope")),
    ("text", {"a.txt": b"a\n"}, ("--record", "file", "--encoding", "nope"), ("--encoding nope",)),
    ("text", {"a.txt": b"a\n"}, ("--record", "file", "--encoding", "base64"), ("--encoding base64",)),
    ("text", {"a.txt": b"a\n"}, ("--record", "file", "--line_numbers"), ("--line_numbers needs --record line",)),
    ("text", {"a.txt": b"a\n"}, ("--record", "word"), ("--record word", "expected one of auto, line, paragraph, file")),
    (
        *("text", {"a.txt": b"a\nb\n<|endoftext|>\r\nc\n"}, ()),
        ("a.txt, line 3 is <|endoftext|> alone", "give --separator '<|endoftext|>' for an", "or --record line for one"),
    ),
    ("text", {"a.txt": b"a\n"}, ("--separator", "x", "--record", "line"), ("--separator 'x' and --record line",)),
    ("text", {"a.txt": b"a\n"}, ("--separator", "x", "--record", "file"), ("--separator divides a file",)),
    ("text", {"a.txt": b"a\n"}, ("--label", "text"), ("--label", "the folder of its file")),
    ("text", {"a.txt": b"a\n"}, ("--block_size", "5"), ("--block_size 5: expected 1KiB to 1GiB",)),
    ("text", {"a.txt": b"a\n"}, ("--line_number",), ("unknown flag --line_number", "did you mean --line_numbers?")),
    (
        "text",
        {"a.txt": b"a\n"},
        ("--group_by", "label", "--splits", "a=1"),
        ("--group_by label: no such column", "text"),
    ),
    (
        "text",
        {"x/a.txt": b"a\n"},
        ("--stratify_by", "labels", "--splits", "a=1"),
        ("--stratify_by labels", "did you mean label?"),
    ),
    (
        "text",
        {"x/a.txt": b"a\n", "b.txt": b"b\n", "l": b"x\n"},
        ("--labels_file", "l"),
        ("--labels_file", "not every file"),
    ),
    (
        "text",
        {"x/a.txt": b"a\n", "l": b"y\n"},
        ("--labels_file", "l"),
        ("class 'x' is in the input but not in --labels_file",),
    ),
    ("reshard", {"a.tfrecord": b""}, (), ("has no rows",)),
    ("reshard", {"a.txt": b"a\n"}, (), ("no TFRecord files in --input", "1 .txt file, such as 'a.txt'")),
]


@pytest.mark.parametrize(("command", "files", "flags", "words"), WRONG, ids=lambda value: ascii(value)[:40])
def test_wrong_input_is_one_sentence_and_writes_nothing(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
    files: dict[str, bytes],
    flags: tuple[str, ...],
    words: tuple[str, ...],
) -> None:
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    check_refused(run, tmp_path / "in", files, command, flags, words)


@pytest.mark.parametrize(
    ("command", "name", "content", "words"),
    [
        (
            *("jsonl", "a.json", b'[\n  {\n    "a": 1\n  },\n  {\n    "a": 2\n  }\n]\n'),
            ("8 of 8 records were rejected", "jq -c '.[]' makes such lines of an array, jq -c . of objects"),
        ),
        (
            *("jsonl", "a.jsonl", b"{'a': 1, 'b': None}\n{'a': 2, 'b': True}\n"),
            ("2 of 2 records were rejected", "json.dumps(ast.literal_eval(line)) makes JSON of it"),
        ),
        ("jsonl", "a.jsonl", b'{"a": NaN}\n', ("1 of 1 records were rejected", "NaN and Infinity are not JSON")),
        (
            "jsonl",
            "a.jsonl",
            b'{"a": 1}\r{"a": 2}\r',
            ("1 of 1 records were rejected", "unexpected content after document"),
        ),
        ("jsonl", "a.json", b'[\n{"a": 1},\n{"a": 2}\n]\n', ("3 of 4 records were rejected", "jq -c '.[]'")),
        (
            "reshard",
            "a.tfrecord",
            b"\x89PNG\r\n\x1a\n" + bytes(99),
            ("record 1 at byte 0 is no record: the file begins as PNG images do",),
        ),
    ],
    ids=["array over lines", "Python", "NaN", "carriage returns", "an array", "png"],
)
def test_records_none_of_which_can_be_read(
    run: Run, tmp_path: Path, command: str, name: str, content: bytes, words: tuple[str, ...]
) -> None:
    folder = write_files(tmp_path / "in", {name: content})
    check_failure(run(command, "--input", folder, "--output", tmp_path / "out", "--name", "n"), *words)
    assert list(tree_bytes(tmp_path / "out")) == ["n/1.0.0-rejects.jsonl"]


@pytest.mark.parametrize("flag", ["--label", "--key", "--group_by", "--stratify_by"])
def test_feature_that_no_record_has(run: Run, tmp_path: Path, flag: str) -> None:
    folder = write_files(tmp_path / "in", {"a.tfrecord": WHOLE})
    command = ("reshard", "--input", folder, "--output", tmp_path / "out", "--name", "n", "--splits", "a=0.5,b=0.5")
    check_mistake(
        run(*command, flag, "idd"), f"{flag} idd: no example has such a feature; did you mean id? they have id, t"
    )
    assert not (tmp_path / "out").exists()
