"""`--schema` and `schema: keep` where texts become tokens and rows sequences: what is published says what the input
holds."""

from pathlib import Path

import pytest

from tests.support.command import Run, check_mistake, tree_bytes, write_files
from tests.support.table_results import convert
from tests.support.tokenizer_files import WORDS, tokenizer_json

TEXTS = [" ".join(WORDS[n % 90 : n % 90 + n % 7 + 1]) for n in range(120)]
TABLE = "n,body,x\n" + "".join(f"{n},{text},{n / 4}\n" for n, text in enumerate(TEXTS))
# Numbers that would be texts, and texts that would be numbers, if types were inferred again
MORE = "n,body,x\n" + "".join(f"{n},12,{n}\n" for n in range(20)) + "20,w1,one\n"
EVENTS = "user,t,x,word,score\n" + "".join(f"{n % 7},{n * 31 % 90},{n / 4},w{n},{n}\n" for n in range(90))
MORE_EVENTS = "user,t,x,word,score\n" + "".join(f"{n % 7},{n},{n},{n},{n}\n" for n in range(40)) + "1,50,one,2,3\n"
TOKENS = ("--tokenize", "body")
SEQUENCES = ("--sequence_by", "user", "--order_by", "t")
REJECTS = ("--max_reject_fraction", 0.1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {"a/a.csv": TABLE, "b/a.csv": MORE, "events/a.csv": EVENTS, "more/a.csv": MORE_EVENTS}
    write_files(tmp_path, {"t.json": tokenizer_json()})
    return write_files(tmp_path, {name: text.encode() for name, text in files.items()})


def _without_configuration(tree: dict[str, bytes]) -> dict[str, bytes]:
    return {name: data for name, data in tree.items() if name not in ("manifest.json", "_SUCCESS")}


@pytest.mark.parametrize(
    ("flags", "first", "second", "types"),
    [
        (TOKENS, "a", "b", {"n": "int64", "input_ids": "int64[]", "x": "float32"}),
        (
            (*TOKENS, "--keep_text", "--max_length", 3),
            *("a", "b"),
            {"n": "int64", "body": "bytes", "input_ids": "int64[]", "x": "float32"},
        ),
        ((*TOKENS, "--pack_to", 16), "a", "b", {"input_ids": "int64[16]"}),
        (
            (*TOKENS, "--rename", "input_ids=ids", "--rename", "n=number"),
            "a",
            "b",
            {"number": "int64", "ids": "int64[]", "x": "float32"},
        ),
        (
            SEQUENCES,
            *("events", "more"),
            {"user": "int64", "t": "int64[]", "x": "float32[]", "word": "bytes[]", "score": "int64[]"},
        ),
        (
            (*SEQUENCES, "--label", "user"),
            *("events", "more"),
            {"user": "int64", "t": "int64[]", "x": "float32[]", "word": "bytes[]", "score": "int64[]"},
        ),
    ],
)
def test_a_published_schema_is_taken_again(
    flags: tuple[object, ...], first: str, second: str, types: dict[str, str], folder: Path
) -> None:
    flags = (*flags, "--tokenizer", folder / "t.json") if TOKENS[0] in flags else flags
    made = convert("csv", folder / first, folder / "1", *flags)
    schema = made.directory / "schema.pbtxt"
    assert made.features == types

    again = convert("csv", folder / first, folder / "2", *flags, "--schema", schema)
    assert _without_configuration(tree_bytes(again.directory)) == _without_configuration(tree_bytes(made.directory))
    other = convert("csv", folder / second, folder / "3", *flags, "--schema", schema, *REJECTS)
    assert other.features == types
    if len(types) > 1:
        (reject,) = other.rejects()
        assert "'one'" in reject["reason"]


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("a", "tokenizer: {folder}/t.json, tokenize: body"),
        ("events", "sequence_by: user, order_by: t"),
    ],
)
def test_a_night_keeps_the_schema(kind: str, options: str, folder: Path, run: Run) -> None:
    recipe = folder / "r.yaml"
    more = {"a": TABLE + "120,w1,one\n", "events": EVENTS + "1,91,one,w,1\n"}[kind]

    def night(options: str) -> None:
        recipe.write_text(
            f"name: n\noutput: {folder}/out\nschema: keep\n"
            f"csv: {{input: {folder}/{kind}, max_reject_fraction: 1, {options.format(folder=folder)}}}\n"
        )

    night(options)
    assert run("rebuild", recipe).status == 0
    schema = (folder / "out/n/1.0.0/schema.pbtxt").read_text()
    write_files(folder, {f"{kind}/a.csv": more.encode()})
    done = run("rebuild", recipe)
    assert done.status == 0, done
    assert (folder / "out/n/1.0.1/schema.pbtxt").read_text() == schema
    night("drop: []")
    refused = run("rebuild", recipe)
    assert refused.status == 2
    assert "schema: keep: the schema of 1.0.1 is that of" in refused.err


def test_a_schema_of_the_input_is_taken_too(folder: Path) -> None:
    """As it is published of rows that stay rows, and texts that stay texts."""
    for source, flags in (("a", (*TOKENS, "--tokenizer", folder / "t.json")), ("events", SEQUENCES)):
        plain = convert("csv", folder / source, folder / f"{source}-1")
        schema = ("--schema", plain.directory / "schema.pbtxt")
        made = convert("csv", folder / source, folder / f"{source}-2", *flags)
        again = convert("csv", folder / source, folder / f"{source}-3", *flags, *schema)
        assert _without_configuration(tree_bytes(again.directory)) == _without_configuration(tree_bytes(made.directory))


def test_tokens_that_are_others_are_a_sentence(folder: Path, run: Run) -> None:
    told = ("--tokenizer", folder / "t.json", *TOKENS)
    schema = convert("csv", folder / "a", folder / "1", *told, "--pack_to", 16).directory / "schema.pbtxt"
    words = ("csv", "--input", folder / "a", "--output", folder / "out", "--name", "n", "--schema", schema)
    done = run(*words, *told, "--pack_to", 8)
    check_mistake(done, "--schema says that 'input_ids' is int64[16]; with these flags it is int64[8]")
    check_mistake(run(*words, *told), "'input_ids' is int64[16]; with these flags it is int64[any number]")
    write_files(folder, {"x.pbtxt": b'feature { name: "n" type: INT }'})
    done = run(*words[:-1], folder / "x.pbtxt", *told)
    check_mistake(done, "--tokenizer: --schema has neither 'input_ids' nor the column of texts, 'body'")
