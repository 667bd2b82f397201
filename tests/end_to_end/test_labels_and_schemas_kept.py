"""Labels and schemas of the night before: --on_new_label in every route that has labels, and `--schema` or `schema:
keep` where texts become tokens, rows sequences, and objects name their values."""

from pathlib import Path
from typing import Any

import pytest

from shardmill.data import tfrecord
from shardmill.data.example import encode_example
from tests.support.command import Run, check_mistake, tree_bytes, write_files
from tests.support.table_results import Table, convert, read_table, write_rows
from tests.support.tokenizer_files import WORDS, tokenizer_json

CITIES = ("Bern", "Rome")


def rows_of(*cities: str) -> list[dict[str, Any]]:
    return [{"id": number, "city": cities[number % len(cities)]} for number in range(40)]


def cities_of(table: Table) -> dict[int, str]:
    names = (table.directory / "city.labels.txt").read_text().splitlines()
    return {row["id"]: names[row["city"]] for row in table.rows}


def nightly(table: Table, *flags: object) -> tuple[object, ...]:
    """The flags of the next night's run, with the two files of the one before."""
    return ("--schema", table.directory / "schema.pbtxt", "--labels_file", table.directory / "city.labels.txt", *flags)


@pytest.mark.parametrize(
    ("command", "named"),
    [*((command, ("--label", "city", "--key", "id")) for command in ("csv", "jsonl", "parquet")), ("csv", ())],
)
def test_a_new_label_beside_a_schema(run: Run, tmp_path: Path, command: str, named: tuple[str, ...]) -> None:
    old = convert(command, write_rows(tmp_path / "old", command, rows_of(*CITIES)), tmp_path / "0", "--label", "city")
    rows = rows_of(*CITIES, "Athens", "Oslo")
    today = write_rows(tmp_path / "new", command, rows)

    failed = run(command, "--input", today, "--output", tmp_path / "1", "--name", "n", *nightly(old, *named))
    check_mistake(failed, "class 'Athens' and 1 more are in the input but not in --labels_file")
    assert not (tmp_path / "1").exists()

    appended = convert(command, today, tmp_path / "2", *nightly(old, *named), "--on_new_label", "append")
    assert (appended.directory / "city.labels.txt").read_text() == "Bern\nRome\nAthens\nOslo\n"
    assert cities_of(appended) == {row["id"]: row["city"] for row in rows}

    tolerant = ("--on_new_label", "reject", "--max_reject_fraction", "0.5")
    rejected = convert(command, today, tmp_path / "3", *nightly(old, *named), *tolerant)
    assert cities_of(rejected) == {row["id"]: row["city"] for row in rows if row["city"] in CITIES}
    assert {(reject["stage"], reject["reason"]) for reject in rejected.rejects()} == {
        ("encode", f"class {new!r} is not in --labels_file") for new in ("Athens", "Oslo")
    }
    if command == "csv":
        assert min((reject["source"], reject["line"]) for reject in rejected.rejects()) == ("a.csv", 4)


def test_a_night_without_new_labels(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "in", "jsonl", rows_of(*CITIES))
    old = convert("jsonl", source, tmp_path / "0", "--label", "city")
    for number, choice in enumerate(("fail", "append", "reject")):
        again = convert("jsonl", source, tmp_path / f"{number + 1}", *nightly(old), "--on_new_label", choice)
        assert [path.read_bytes() for path in sorted(again.directory.glob("n-*"))] == [
            path.read_bytes() for path in sorted(old.directory.glob("n-*"))
        ]


def test_a_schema_of_strings_beside_a_labels_file(run: Run, tmp_path: Path) -> None:
    command = "parquet"
    old = convert(command, write_rows(tmp_path / "old", command, rows_of(*CITIES)), tmp_path / "0")  # without a label
    labels = write_files(tmp_path, {"labels.txt": b"Rome\nBern\n"}) / "labels.txt"
    flags = ("--schema", old.directory / "schema.pbtxt", "--label", "city", "--labels_file", labels)
    today = write_rows(tmp_path / "new", command, rows_of(*CITIES, "Oslo"))

    check_mistake(
        run(command, "--input", today, "--output", tmp_path / "1", "--name", "n", *flags),
        "class 'Oslo' is in the input",
    )
    appended = convert(command, today, tmp_path / "2", *flags, "--on_new_label", "append")
    assert (appended.directory / "city.labels.txt").read_text() == "Rome\nBern\nOslo\n"


@pytest.mark.parametrize("command", ["csv", "jsonl"])
def test_a_labels_file_that_is_not_the_schemas(run: Run, tmp_path: Path, command: str) -> None:
    source = write_rows(tmp_path / "old", command, rows_of("Athens", *CITIES))
    old = convert(command, source, tmp_path / "0", "--label", "city")
    labels = tmp_path / "labels.txt"
    labels.write_text("Rome\nBern\n")
    for choice in ("append", "reject"):
        flags = ("--schema", old.directory / "schema.pbtxt", "--labels_file", labels, "--on_new_label", choice)
        mistake = run(command, "--input", source, "--output", tmp_path / "1", "--name", "n", *flags)
        check_mistake(mistake, "--labels_file has 2 names", "'city' holds ids of 3 classes", "city.labels.txt")
    labels.write_text("Athens\nBern\nRome\nOslo\n")  # a name added by hand, as the error for a new class says
    more = convert(command, source, tmp_path / "2", "--schema", old.directory / "schema.pbtxt", "--labels_file", labels)
    assert (more.directory / "city.labels.txt").read_text() == "Athens\nBern\nRome\nOslo\n"


@pytest.mark.parametrize("command", ["csv", "jsonl"])
def test_a_label_that_the_schema_does_not_have(run: Run, tmp_path: Path, command: str) -> None:
    source = write_rows(tmp_path / "old", command, rows_of(*CITIES))
    old = convert(command, source, tmp_path / "0", "--drop", "city")
    mistake = run(
        command, "--input", source, "--output", tmp_path / "1", "--name", "n",
        "--schema", old.directory / "schema.pbtxt", "--label", "city",
    )  # fmt: skip
    check_mistake(mistake, "--label city: --schema has no such feature; the columns are id")


@pytest.mark.parametrize("command", ["text", "text --record file"])
def test_folders_that_are_new(run: Run, tmp_path: Path, command: str) -> None:
    names = ("ant", "bee", "cow")
    texts = {f"{name}/{n}.txt": b"words" for name in names for n in range(4)}
    source = write_files(tmp_path / "in", texts)
    (tmp_path / "labels.txt").write_text("cow\nant\n")
    flags = [*command.split(), "--input", source, "--name", "n", "--labels_file", tmp_path / "labels.txt"]

    check_mistake(run(*flags, "--output", tmp_path / "1"), "class 'bee' is in the input but not in --labels_file")
    assert run(*flags, "--output", tmp_path / "2", "--on_new_label", "append").status == 0
    appended = read_table(tmp_path / "2" / "n")
    assert (appended.directory / "label.labels.txt").read_text() == "cow\nant\nbee\n"
    assert sorted(appended.column("label")) == [0] * 4 + [1] * 4 + [2] * 4
    tolerant = ("--on_new_label", "reject", "--max_reject_fraction", "0.5")
    assert run(*flags, "--output", tmp_path / "3", *tolerant).status == 0
    assert sorted(read_table(tmp_path / "3" / "n").column("label")) == [0] * 4 + [1] * 4


def test_ids_of_existing_records_that_have_no_name(run: Run, tmp_path: Path) -> None:
    records = [encode_example({"id": [n], "kind": [n % 4]}) for n in range(40)]
    source = write_files(tmp_path / "in", {"a.tfrecord": b"".join(map(tfrecord.frame_record, records))})
    labels = tmp_path / "labels.txt"
    command = ("reshard", "--input", source, "--name", "n", "--label", "kind", "--labels_file", labels)

    labels.write_text("a\nb\n")
    mistake = run(*command, "--output", tmp_path / "1")
    check_mistake(mistake, "--labels_file names the ids 0 to 1", "a record has kind=3, as have 19 more with such ids")
    assert not (tmp_path / "1").exists()
    labels.write_text("a\nb\nc\nd\n")
    assert run(*command, "--output", tmp_path / "2").status == 0
    for choice in ("append", "reject"):
        check_mistake(
            run(*command, "--output", tmp_path / "3", "--on_new_label", choice),
            f"--on_new_label {choice}: reshard passes",
        )
    old = read_table(tmp_path / "2" / "n")
    labels.write_text("a\nb\n")
    again = run(*command, "--output", tmp_path / "3", "--schema", old.directory / "schema.pbtxt")
    check_mistake(again, "--labels_file has 2 names", "'kind' holds ids of 4 classes")


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


def notices_of(tmp_path: Path, lines: bytes, *flags: object) -> tuple[str, ...]:
    """What is said of lines with the schema of others: {"n": 1, "v": [1, 2]}."""
    first = convert(
        "jsonl", write_files(tmp_path / "in", {"a.jsonl": b'{"n":1,"v":[1,2]}\n{"n":2,"v":[3]}\n'}), tmp_path / "a"
    )
    later = write_files(tmp_path / "later", {"a.jsonl": lines})
    schema = ("--schema", first.directory / "schema.pbtxt")
    return convert("jsonl", later, tmp_path / "b", *schema, *flags).dataset.manifest.notices


def test_a_key_that_is_written_otherwise_is_said_twice(tmp_path: Path) -> None:
    said = notices_of(tmp_path, b'{"n":1,"w":[1]}\n{"n":2}\n{"n":3,"x":null}\n')

    assert said == (
        "left out what --schema does not have: columns 'w', 'x'",
        "--schema has feature 'v', of which no record has a value",
    )


def test_what_is_dropped_or_in_some_records_is_not_said(tmp_path: Path) -> None:
    assert notices_of(tmp_path, b'{"n":1,"w":[1]}\n{"n":2,"v":[4]}\n', "--drop", "w") == ()


def test_names_that_are_data_are_said_to_a_hundred(tmp_path: Path) -> None:
    lines = b"".join(b'{"n":1,"v":[1],"key%06d":1}\n' % number for number in range(3000))
    (said,) = notices_of(tmp_path, lines)

    assert said.startswith("left out what --schema does not have: columns 'key000000', 'key000001'")
    assert "key000100" not in said
