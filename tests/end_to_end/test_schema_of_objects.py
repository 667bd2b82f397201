"""A schema given for JSON lines, whose objects name their values themselves: what they have beside it, and what none
of them has, is said."""

from pathlib import Path

from tests.support.command import write_files
from tests.support.table_results import convert


def notices(tmp_path: Path, lines: bytes, *flags: object) -> tuple[str, ...]:
    """What is said of lines with the schema of others: {"n": 1, "v": [1, 2]}."""
    first = convert(
        "jsonl", write_files(tmp_path / "in", {"a.jsonl": b'{"n":1,"v":[1,2]}\n{"n":2,"v":[3]}\n'}), tmp_path / "a"
    )
    later = write_files(tmp_path / "later", {"a.jsonl": lines})
    schema = ("--schema", first.directory / "schema.pbtxt")
    return convert("jsonl", later, tmp_path / "b", *schema, *flags).dataset.manifest.notices


def test_a_key_that_is_written_otherwise_is_said_twice(tmp_path: Path) -> None:
    said = notices(tmp_path, b'{"n":1,"w":[1]}\n{"n":2}\n{"n":3,"x":null}\n')

    assert said == (
        "left out what --schema does not have: columns 'w', 'x'",
        "--schema has feature 'v', of which no record has a value",
    )


def test_what_is_dropped_or_in_some_records_is_not_said(tmp_path: Path) -> None:
    assert notices(tmp_path, b'{"n":1,"w":[1]}\n{"n":2,"v":[4]}\n', "--drop", "w") == ()


def test_names_that_are_data_are_said_to_a_hundred(tmp_path: Path) -> None:
    lines = b"".join(b'{"n":1,"v":[1],"key%06d":1}\n' % number for number in range(3000))
    (said,) = notices(tmp_path, lines)

    assert said.startswith("left out what --schema does not have: columns 'key000000', 'key000001'")
    assert "key000100" not in said
