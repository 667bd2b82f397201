"""`--tokenizer`: texts of which no tokens are made, and a user's mistakes."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.command import Run, check_failure, check_mistake, write_files
from tests.support.tokenizer_files import ids_of, tokenized, tokenizer_json, write_texts


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_texts(tmp_path)


def test_a_token_above_the_vocabulary_and_bytes_that_are_no_text_are_rejects(tmp_path: Path) -> None:
    vocabulary = {"[UNK]": 0, "a": 1, "b": 7}
    write_files(tmp_path, {"tokenizer.json": tokenizer_json((), vocabulary=vocabulary)})
    (tmp_path / "in").mkdir()
    table = pa.table({"text": pa.array([b"a a", b"a b", b"\xff a", b"x"], pa.binary())})
    pq.write_table(table, tmp_path / "in/a.parquet")
    made = tokenized(tmp_path / "in", tmp_path / "a", "--max_reject_fraction", 0.6, command="parquet")

    assert sorted(made.column("input_ids")) == [[0], [1, 1]]
    assert sorted((reject["line"], reject["reason"]) for reject in made.rejects()) == [
        (2, "'b', id 7, is above the vocabulary of tokenizer.json, whose 3 tokens have the ids from 0"),
        (3, "the text in column 'text' is not UTF-8, which a tokenizer reads"),
    ]


def test_a_text_that_the_tokenizer_refuses_is_a_reject(tmp_path: Path) -> None:
    """One without a token for unknown words says so of a whole batch."""
    content = json.loads(tokenizer_json())
    del content["model"]["vocab"]["[UNK]"]
    write_files(tmp_path, {"tokenizer.json": json.dumps(content).encode()})
    source = write_files(tmp_path / "in", {"a.txt": b"w1 w2\nw3 odd\nw4\n"})
    made = tokenized(source, tmp_path / "a", "--max_reject_fraction", 0.5)

    assert sorted(made.column("input_ids")) == [ids_of("w1 w2"), ids_of("w4")]
    assert [(reject["line"], reject["reason"]) for reject in made.rejects()] == [
        (2, "tokenizer.json makes no tokens of the text: WordLevel error: Missing [UNK] token from the vocabulary")
    ]


MISTAKES: list[tuple[tuple[object, ...], tuple[str, ...]]] = [
    (("--tokenizer", "no.json"), ("--tokenizer no.json:",)),
    (("--tokenizer", "in/a.txt"), ("--tokenizer a.txt is no tokenizer.json",)),
    (("--tokenizer", "t.json", "--tokenize", "txt"), ("--tokenize txt: no such column", "did you mean text?")),
    (("--tokenizer", "t.json", "--max_length", 0), ("--max_length 0: expected at least 1",)),
    (("--tokenizer", "cls.json", "--max_length", 2), ("puts 2 tokens around each text",)),
    (("--tokenizer", "t.json", "--pack_to", 1), ("--pack_to 1: expected at least 2",)),
    (("--tokenizer", "t.json", "--pack_to", 8, "--end_of_text", "no"), ("--end_of_text no", "has no such token")),
    (("--tokenizer", "t.json", "--end_of_text", "w1"), ("--end_of_text needs --pack_to",)),
    (("--tokenizer", "t.json", "--pack_to", 8, "--keep_text"), ("--keep_text and --pack_to",)),
    (("--tokenizer", "t.json", "--pack_to", 8, "--balance", "bytes"), ("--balance bytes", "8 tokens")),
    (("--tokenizer", "t.json", "--pack_to", 8, "--line_numbers"), ("--pack_to and --line_numbers",)),
    (("--tokenizer", "t.json", "--pack_to", 8, "--stratify_by", "label", "--splits", "a=1"), ("--pack_to and --stra",)),
    (("--tokenizer", "t.json", "--record", "file"), ("--tokenizer needs --record line",)),
    (("--pack_to", 8), ("--pack_to needs --tokenizer",)),
    (("--max_length", 8), ("--max_length needs --tokenizer",)),
    (("--balance", "tokens"), ("--balance tokens needs --tokenizer",)),
    (("--tokenizer", "t.json", "--pack_to", 10**6), ("split 'train' has", "fewer than one block")),
]


@pytest.mark.parametrize(("flags", "words"), MISTAKES)
def test_mistakes(
    flags: tuple[object, ...],
    words: tuple[str, ...],
    source: Path,
    tmp_path: Path,
    run: Run,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_files(tmp_path, {"t.json": tokenizer_json()})
    monkeypatch.chdir(tmp_path)
    check_mistake(run("text", "--input", "in", "--output", "out", "--name", "n", *flags), *words)
    assert not list(tmp_path.glob("out/**/_SUCCESS"))


TABLE_MISTAKES: list[tuple[str, tuple[object, ...], tuple[str, ...]]] = [
    ("id,body\n1,w1\n", (), ("--tokenize text: no such column", "id, body")),
    ("id,body\n1,w1\n", ("--tokenize", "id"), ("--tokenize id: the column holds int64",)),
    ("id,body\n1,w1\n", ("--tokenize", "body", "--label", "body"), ("--tokenize body: the column holds classes",)),
    ("id,body\n1,w1\n", ("--tokenize", "body", "--label", "id", "--pack_to", 4), ("--pack_to and --label",)),
    ("input_ids,body\n1,w1\n", ("--tokenize", "body"), ("has a column 'input_ids' already", "--drop input_ids")),
]


@pytest.mark.parametrize(("content", "flags", "words"), TABLE_MISTAKES)
def test_mistakes_of_tables(
    content: str, flags: tuple[object, ...], words: tuple[str, ...], tmp_path: Path, run: Run
) -> None:
    write_files(tmp_path, {"t.json": tokenizer_json(), "in/a.csv": content.encode()})
    told = ("--tokenizer", tmp_path / "t.json", *flags)
    check_mistake(run("csv", "--input", tmp_path / "in", "--output", tmp_path / "out", "--name", "n", *told), *words)
    assert not (tmp_path / "out").exists()


def test_texts_that_are_all_empty_fail_the_job(tmp_path: Path, run: Run) -> None:
    write_files(tmp_path, {"t.json": tokenizer_json(), "in/a.jsonl": b'{"text": ""}\n{"text": " "}\n'})
    flags = ("--tokenizer", tmp_path / "t.json")
    failed = run("jsonl", "--input", tmp_path / "in", "--output", tmp_path / "out", "--name", "n", *flags)
    check_failure(failed, "2 of 2 records were rejected", "an empty text: t.json makes no token of it")
