"""--on_new_label in every route that has labels: beside --schema as without it, and labels files that say something
else."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shardmill.data import tfrecord
from shardmill.data.example import encode_example
from tests.support.command import Run, check_mistake, image_tree, write_files
from tests.support.table_results import Table, convert, read_table

CITIES = ("Bern", "Rome")
Write = Callable[[Path, list[dict[str, Any]]], Path]


def _csv(folder: Path, rows: list[dict[str, Any]]) -> Path:
    text = "id,city\n" + "".join(f"{row['id']},{row['city']}\n" for row in rows)
    return write_files(folder, {"a.csv": text.encode()})


def _jsonl(folder: Path, rows: list[dict[str, Any]]) -> Path:
    return write_files(folder, {"a.jsonl": "".join(json.dumps(row) + "\n" for row in rows).encode()})


def _parquet(folder: Path, rows: list[dict[str, Any]]) -> Path:
    folder.mkdir()
    pq.write_table(pa.Table.from_pylist(rows), folder / "a.parquet")
    return folder


TABLES: Mapping[str, Write] = {"csv": _csv, "jsonl": _jsonl, "parquet": _parquet}


def rows_of(*cities: str) -> list[dict[str, Any]]:
    return [{"id": number, "city": cities[number % len(cities)]} for number in range(40)]


def cities_of(table: Table) -> dict[int, str]:
    names = (table.directory / "city.labels.txt").read_text().splitlines()
    return {row["id"]: names[row["city"]] for row in table.rows}


def nightly(table: Table, *flags: object) -> tuple[object, ...]:
    """The flags of the next night's run, with the two files of the one before."""
    return ("--schema", table.directory / "schema.pbtxt", "--labels_file", table.directory / "city.labels.txt", *flags)


@pytest.mark.parametrize("named", [("--label", "city", "--key", "id"), ()], ids=["with --label", "the schema's label"])
@pytest.mark.parametrize("command", TABLES)
def test_a_new_label_beside_a_schema(run: Run, tmp_path: Path, command: str, named: tuple[str, ...]) -> None:
    old = convert(command, TABLES[command](tmp_path / "old", rows_of(*CITIES)), tmp_path / "0", "--label", "city")
    rows = rows_of(*CITIES, "Athens", "Oslo")
    today = TABLES[command](tmp_path / "new", rows)

    failed = run(command, "--input", today, "--output", tmp_path / "1", "--name", "n", *nightly(old, *named))
    check_mistake(failed, "class 'Athens' and 1 more are in the input but not in --labels_file")
    assert not (tmp_path / "1").exists()

    appended = convert(command, today, tmp_path / "2", *nightly(old, *named), "--on_new_label", "append")
    assert (appended.directory / "city.labels.txt").read_text() == "Bern\nRome\nAthens\nOslo\n"
    assert cities_of(appended) == {row["id"]: row["city"] for row in rows}

    tolerant = ("--on_new_label", "reject", "--max_reject_fraction", "0.5")
    rejected = convert(command, today, tmp_path / "3", *nightly(old, *named), *tolerant)
    assert cities_of(rejected) == {row["id"]: row["city"] for row in rows if row["city"] in CITIES}
    assert {reject["reason"] for reject in rejected.rejects()} == {
        f"class {new!r} is not in --labels_file" for new in ("Athens", "Oslo")
    }


@pytest.mark.parametrize("command", ["jsonl"])
def test_a_night_without_new_labels(tmp_path: Path, command: str) -> None:
    source = TABLES[command](tmp_path / "in", rows_of(*CITIES))
    old = convert(command, source, tmp_path / "0", "--label", "city")
    for number, choice in enumerate(("fail", "append", "reject")):
        again = convert(command, source, tmp_path / f"{number + 1}", *nightly(old), "--on_new_label", choice)
        assert [path.read_bytes() for path in sorted(again.directory.glob("n-*"))] == [
            path.read_bytes() for path in sorted(old.directory.glob("n-*"))
        ]


@pytest.mark.parametrize("command", ["parquet"])
def test_a_schema_of_strings_beside_a_labels_file(run: Run, tmp_path: Path, command: str) -> None:
    old = convert(command, TABLES[command](tmp_path / "old", rows_of(*CITIES)), tmp_path / "0")  # no label, so a string
    labels = write_files(tmp_path, {"labels.txt": b"Rome\nBern\n"}) / "labels.txt"
    flags = ("--schema", old.directory / "schema.pbtxt", "--label", "city", "--labels_file", labels)
    today = TABLES[command](tmp_path / "new", rows_of(*CITIES, "Oslo"))

    check_mistake(
        run(command, "--input", today, "--output", tmp_path / "1", "--name", "n", *flags),
        "class 'Oslo' is in the input",
    )
    appended = convert(command, today, tmp_path / "2", *flags, "--on_new_label", "append")
    assert (appended.directory / "city.labels.txt").read_text() == "Rome\nBern\nOslo\n"


@pytest.mark.parametrize("command", ["csv", "jsonl"])
def test_a_labels_file_that_is_not_the_schemas(run: Run, tmp_path: Path, command: str) -> None:
    source = TABLES[command](tmp_path / "old", rows_of("Athens", *CITIES))
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
    source = TABLES[command](tmp_path / "old", rows_of(*CITIES))
    old = convert(command, source, tmp_path / "0", "--drop", "city")
    mistake = run(
        command, "--input", source, "--output", tmp_path / "1", "--name", "n",
        "--schema", old.directory / "schema.pbtxt", "--label", "city",
    )  # fmt: skip
    check_mistake(mistake, "--label city: --schema has no such feature; the columns are id")


@pytest.mark.parametrize(("command", "suffix"), [("images", "jpg"), ("text", "txt"), ("text --record file", "txt")])
def test_folders_that_are_new(run: Run, tmp_path: Path, command: str, suffix: str) -> None:
    if suffix == "jpg":
        source = write_files(tmp_path / "in", image_tree(["ant", "bee", "cow"], 4))
    else:
        source = write_files(
            tmp_path / "in", {f"{name}/{n}.txt": b"words" for name in ("ant", "bee", "cow") for n in range(4)}
        )
    (tmp_path / "labels.txt").write_text("cow\nant\n")
    flags = [*command.split(), "--input", source, "--name", "n", "--labels_file", tmp_path / "labels.txt"]

    check_mistake(run(*flags, "--output", tmp_path / "1"), "class 'bee' is in the input but not in --labels_file")
    assert run(*flags, "--output", tmp_path / "2", "--on_new_label", "append").status == 0
    appended = read_table(tmp_path / "2" / "n")
    assert (appended.directory / "label.labels.txt").read_text() == "cow\nant\nbee\n"
    assert sorted(appended.column("label")) == [0] * 4 + [1] * 4 + [2] * 4
    assert (
        run(*flags, "--output", tmp_path / "3", "--on_new_label", "reject", "--max_reject_fraction", "0.5").status == 0
    )
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
