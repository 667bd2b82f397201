"""Labels and schemas of the night before: --on_new_label in every route that has labels, and `--schema` or `schema:
keep` where texts become tokens, rows sequences, and objects name their values."""

from typing import Any

import pytest

from shardmill.data import tfrecord
from tests.support.command import Run, tree_bytes
from tests.support.encoded import encode_example
from tests.support.jobs import Built, Jobs
from tests.support.table_results import encode_rows
from tests.support.tokenizer_files import WORDS, tokenizer_json

CITIES = ("Bern", "Rome")
SCHEMA = "--schema out/n/1.0.0/schema.pbtxt"
NIGHTLY = f"{SCHEMA} --labels_file out/n/1.0.0/city.labels.txt"  # the two files of the night before


def rows_of(*cities: str) -> list[dict[str, Any]]:
    return [{"id": number, "city": cities[number % len(cities)]} for number in range(40)]


def files(command: str, *cities: str) -> dict[str, bytes]:
    return {f"a.{command}": encode_rows(command, rows_of(*cities))}


def labels_in(built: Built, feature: str = "city") -> list[str]:
    return (built.directory / f"{feature}.labels.txt").read_text().splitlines()


def cities_of(built: Built) -> dict[int, str]:
    names = labels_in(built)
    return {row["id"]: names[row["city"]] for row in built.table.rows}


@pytest.mark.parametrize(("command", "named"), [("csv", "--label city --key id"), ("parquet", "")])
def test_a_new_label_beside_a_schema(jobs: Jobs, command: str, named: str) -> None:
    jobs.build(f"{command} --label city", files=files(command, *CITIES))
    rows = rows_of(*CITIES, "Athens", "Oslo")
    jobs.write(files(command, *CITIES, "Athens", "Oslo"))
    line = f"{command} {NIGHTLY} {named}"
    jobs.refuse(f"{line} --output 1", "class 'Athens' and 1 more are in the input but not in --labels_file")

    appended = jobs.build(f"{line} --output 2 --on_new_label append")
    assert labels_in(appended) == ["Bern", "Rome", "Athens", "Oslo"]
    assert cities_of(appended) == {row["id"]: row["city"] for row in rows}

    rejected = jobs.build(f"{line} --output 3 --on_new_label reject --max_reject_fraction 0.5")
    assert cities_of(rejected) == {row["id"]: row["city"] for row in rows if row["city"] in CITIES}
    assert {(reject["stage"], reject["reason"]) for reject in rejected.rejects} == {
        ("encode", f"class {new!r} is not in --labels_file") for new in ("Athens", "Oslo")
    }
    assert command != "csv" or min(reject["line"] for reject in rejected.rejects) == 4


def test_a_night_without_new_labels(jobs: Jobs) -> None:
    old = jobs.build("jsonl --label city", files=files("jsonl", *CITIES))
    for choice in ("fail", "append", "reject"):
        again = jobs.build(f"jsonl {NIGHTLY} --on_new_label {choice} --output {choice}")
        for name, data in tree_bytes(old.directory).items():
            assert not name.startswith("n-") or (again.directory / name).read_bytes() == data


def test_a_schema_of_strings_beside_a_labels_file(jobs: Jobs) -> None:
    jobs.build("parquet", files=files("parquet", *CITIES))  # without a label, so of strings
    line = f"parquet {SCHEMA} --label city --labels_file in/l"
    said = "class 'Oslo' is in the input"
    jobs.refuse(f"{line} --output 1", said, files=files("parquet", *CITIES, "Oslo") | {"l": "Rome\nBern\n"})
    assert labels_in(jobs.build(f"{line} --output 2 --on_new_label append")) == ["Rome", "Bern", "Oslo"]


@pytest.mark.parametrize("command", ["text", "text --record file"])
def test_folders_that_are_new(jobs: Jobs, command: str) -> None:
    line = f"{command} --labels_file labels.txt"
    texts = {f"{name}/{n}.txt": "words" for name in ("ant", "bee", "cow") for n in range(4)}
    said = "class 'bee' is in the input but not in --labels_file"
    jobs.refuse(line, said, files=texts | {"../labels.txt": "cow\nant\n"})
    appended = jobs.build(f"{line} --on_new_label append")
    assert labels_in(appended, "label") == ["cow", "ant", "bee"]
    assert sorted(appended.table.column("label")) == [0] * 4 + [1] * 4 + [2] * 4
    rejected = jobs.build(f"{line} --on_new_label reject --max_reject_fraction 0.5 --output 3")
    assert sorted(rejected.table.column("label")) == [0] * 4 + [1] * 4


def test_ids_of_existing_records_that_have_no_name(jobs: Jobs) -> None:
    records = [encode_example({"id": [n], "kind": [n % 4]}) for n in range(40)]
    line = "reshard --label kind --labels_file labels.txt"
    jobs.write({"a.tfrecord": b"".join(map(tfrecord.frame_record, records)), "../labels.txt": "a\nb\n"})
    result = jobs.run(f"{line} --output 1")
    assert result.status == 2
    assert "--labels_file names the ids 0 to 1" in result.err
    assert "a record has kind=3, as have 19 more with such ids" in result.err
    assert not (jobs.folder / "1").exists()
    jobs.write({"../labels.txt": "a\nb\nc\nd\n"})
    jobs.build(line)
    for choice in ("append", "reject"):
        said = f"--on_new_label {choice}: reshard passes"
        jobs.refuse(f"{line} --on_new_label {choice} --output 3", said)
    jobs.write({"../labels.txt": "a\nb\n"})
    jobs.refuse(f"{line} {SCHEMA} --output 3", "--labels_file has 2 names…'kind' holds ids of 4 classes")


TEXTS = [" ".join(WORDS[n % 90 : n % 90 + n % 7 + 1]) for n in range(120)]
TABLE = "n,body,x\n" + "".join(f"{n},{text},{n / 4}\n" for n, text in enumerate(TEXTS))
EVENTS = "user,t,x,word,score\n" + "".join(f"{n % 7},{n * 31 % 90},{n / 4},w{n},{n}\n" for n in range(90))
FILES: dict[str, bytes | str] = {
    "texts/a.csv": TABLE,
    "events/a.csv": EVENTS,
    # Numbers that would be texts, and texts that would be numbers, if types were inferred again
    "more_texts/a.csv": "n,body,x\n" + "".join(f"{n},12,{n}\n" for n in range(20)) + "20,w1,one\n",
    "more_events/a.csv": "user,t,x,word,score\n"
    + "".join(f"{n % 7},{n},{n},{n},{n}\n" for n in range(40))
    + "1,50,one,2,3\n",
    "t.json": tokenizer_json(),
}
TOKENS = "--tokenizer in/t.json --tokenize body"
SEQUENCES = "--sequence_by user --order_by t"
SEQUENCE_TYPES = {"user": "int64", "t": "int64[]", "x": "float32[]", "word": "bytes[]", "score": "int64[]"}


def _without_configuration(built: Built) -> dict[str, bytes]:
    tree = tree_bytes(built.directory)
    return {name: data for name, data in tree.items() if name not in ("manifest.json", "_SUCCESS")}


@pytest.mark.parametrize(
    ("flags", "source", "types"),
    [
        (f"{TOKENS} --pack_to 16", "texts", {"input_ids": "int64[16]"}),
        (
            f"{TOKENS} --rename input_ids=ids --rename n=number",
            "texts",
            {"number": "int64", "ids": "int64[]", "x": "float32"},
        ),
        (SEQUENCES, "events", SEQUENCE_TYPES),
    ],
)
def test_a_published_schema_is_taken_again(flags: str, source: str, types: dict[str, str], jobs: Jobs) -> None:
    made = jobs.build(f"csv --input in/{source} {flags}", files=FILES)
    assert made.table.features == types

    again = jobs.build(f"csv --input in/{source} {flags} {SCHEMA} --output 2")
    assert _without_configuration(again) == _without_configuration(made)
    other = jobs.build(f"csv --input in/more_{source} {flags} {SCHEMA} --output 3 --max_reject_fraction 0.1")
    assert other.table.features == types
    if len(types) > 1:
        (reason,) = other.reasons.values()
        assert "'one'" in reason


@pytest.mark.parametrize(
    ("source", "options", "row"),
    [
        ("texts", "tokenizer: in/t.json, tokenize: body", "120,w1,one\n"),
        ("events", "sequence_by: user, order_by: t", "1,91,one,w,1\n"),
    ],
)
def test_a_night_keeps_the_schema(source: str, options: str, row: str, jobs: Jobs, run: Run) -> None:
    jobs.write(FILES)

    def night(options: str) -> Any:
        csv = f"csv: {{input: in/{source}, max_reject_fraction: 1, {options}}}\n"
        jobs.write({"../r.yaml": f"name: n\noutput: out\nschema: keep\n{csv}"})
        return run("rebuild", "r.yaml")

    assert night(options).status == 0
    schema = (jobs.folder / "out/n/1.0.0/schema.pbtxt").read_text()
    jobs.write({f"{source}/a.csv": str(FILES[f"{source}/a.csv"]) + row})
    done = night(options)
    assert done.status == 0, done
    assert (jobs.folder / "out/n/1.0.1/schema.pbtxt").read_text() == schema
    refused = night("drop: []")
    assert refused.status == 2
    assert "schema: keep: the schema of 1.0.1 is that of" in refused.err


@pytest.mark.parametrize(("source", "flags"), [("texts", TOKENS), ("events", SEQUENCES)])
def test_a_schema_of_the_input_is_taken_too(source: str, flags: str, jobs: Jobs) -> None:
    """The schema was published for rows without sequences and texts without tokens."""
    jobs.build(f"csv --input in/{source}", files=FILES)
    made = jobs.build(f"csv --input in/{source} {flags} --output 2")
    again = jobs.build(f"csv --input in/{source} {flags} {SCHEMA} --output 3")
    assert _without_configuration(again) == _without_configuration(made)


def test_tokens_that_are_others_are_a_sentence(jobs: Jobs) -> None:
    line = f"csv --input in/texts {TOKENS}"
    jobs.build(f"{line} --pack_to 16", files=FILES | {"../x.pbtxt": 'feature { name: "n" type: INT }'})
    said = "--schema says that 'input_ids' is int64[16]; with these flags it is int64"
    jobs.refuse(f"{line} {SCHEMA} --pack_to 8 --output 2", f"{said}[8]")
    jobs.refuse(f"{line} {SCHEMA} --output 2", f"{said}[any number]")
    said = "--tokenizer: --schema has neither 'input_ids' nor the column of texts, 'body'"
    jobs.refuse(f"{line} --schema x.pbtxt --output 2", said)


@pytest.mark.parametrize(
    ("lines", "flags", "said"),
    [
        (
            '{"n":1,"w":[1]}\n{"n":2}\n{"n":3,"x":null}\n',
            "",
            [
                "left out what --schema does not have: columns 'w', 'x'",
                "--schema has feature 'v', of which no record has a value",
            ],
        ),
        ('{"n":1,"w":[1]}\n{"n":2,"v":[4]}\n', "--drop w", []),
    ],
)
def test_keys_of_objects_that_a_schema_lacks_or_has_alone_are_said(
    lines: str, flags: str, said: list[str], jobs: Jobs
) -> None:
    jobs.build("jsonl", files={"a.jsonl": '{"n":1,"v":[1,2]}\n{"n":2,"v":[3]}\n'})
    assert jobs.build(f"jsonl {SCHEMA} {flags} --output b", files={"a.jsonl": lines}).notices == said


def test_names_that_are_data_are_said_to_a_hundred(jobs: Jobs) -> None:
    jobs.build("jsonl", files={"a.jsonl": '{"n":1,"v":[1,2]}\n{"n":2,"v":[3]}\n'})
    lines = "".join(f'{{"n":1,"v":[1],"key{number:06}":1}}\n' for number in range(3000))
    (said,) = jobs.build(f"jsonl {SCHEMA} --output b", files={"a.jsonl": lines}).notices
    assert said.startswith("left out what --schema does not have: columns 'key000000', 'key000001'")
    assert "key000100" not in said
