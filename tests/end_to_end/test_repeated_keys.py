"""--on_duplicate_key: records with the --key of another one, in other files and blocks, on every route with a key."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from shardmill.data import tfrecord
from shardmill.data.example import encode_example
from tests.support.archives import tar
from tests.support.command import Run, check_mistake, image, read_back, tree_bytes, write_files
from tests.support.objects_in_tables import notices
from tests.support.table_results import convert, encode_rows

Rows = Sequence[tuple[str | None, int]]
# Keys and values of three files; the last name is the first in order
FILES: dict[str, Rows] = {
    "c": [("k1", 1), ("k2", 2), (None, 3)],
    "b": [("k3", 4), ("k1", 5), ("k3", 6)],
    "a": [("k1", 7), ("k4", 8), (None, 9), *((f"u{number}", number) for number in range(10, 300))],
}
KEPT = sorted([7, 8, 9, 4, 2, 3, *range(10, 300)])
NOTICE = "5 records share 2 values of --key id, such as 'k1' in a"


def _encode(command: str, rows: Rows) -> bytes:
    """A file for a command."""
    records = [{"id": key, "x": x} for key, x in rows]
    if command == "webdataset":
        return tar((f"s{number}.json", json.dumps(record).encode()) for number, record in enumerate(records))
    if command == "reshard":
        examples = [encode_example({"x": [x]} | ({} if key is None else {"id": [key.encode()]})) for key, x in rows]
        return b"".join(map(tfrecord.frame_record, examples))
    return encode_rows(command, records, **({"row_group_size": 2} if command == "parquet" else {}))


def _notices(directory: Path) -> list[str]:
    return [notice for notice in notices(directory) if "share" in notice]


@pytest.mark.parametrize("command", ["csv", "jsonl", "parquet", "avro", "webdataset", "reshard"])
def test_repeated_keys_of_each_route(command: str, tmp_path: Path, run: Run) -> None:
    suffix = {"webdataset": "tar", "reshard": "tfrecord"}.get(command, command)
    source = write_files(tmp_path / "in", {f"{name}.{suffix}": _encode(command, rows) for name, rows in FILES.items()})
    flags = ("--key", "id", "--max_reject_fraction", "0.5")
    kept = convert(command, source, tmp_path / "allow", *flags)
    first = convert(command, source, tmp_path / "reject", *flags, "--on_duplicate_key", "reject")
    small = ("--block_size", "1KiB") if command != "parquet" else ()
    again = convert(
        command, source, tmp_path / "again", *flags, *small, "--on_duplicate_key", "reject", "--direct_num_workers", 2
    )

    assert len(kept.rows) == len(KEPT) + 3
    assert kept.rejects() == []
    assert [notice for notice in _notices(kept.directory) if NOTICE in notice and "all are kept" in notice]
    assert sorted(first.column("x")) == sorted(again.column("x")) == KEPT
    assert [notice for notice in _notices(first.directory) if NOTICE in notice]
    reasons = {reject["source"]: reject["reason"] for reject in first.rejects()}
    assert reasons.keys() == {f"b.{suffix}", f"c.{suffix}"}
    assert f"a.{suffix}:" in reasons[f"c.{suffix}"]
    check_mistake(
        run(
            *(command, "--input", source, "--output", tmp_path / "fail", "--name", "n", *flags),
            *("--on_duplicate_key", "fail"),
        ),
        NOTICE,
        "--on_duplicate_key reject",
    )
    assert not list(tmp_path.glob("fail/n/*/manifest.json"))


def test_without_repeated_keys_nothing_changes(tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", {"a.csv": _encode("csv", FILES["a"])})
    plain, checked = (
        convert("csv", source, tmp_path / action, "--key", "id", "--on_duplicate_key", action)
        for action in ("allow", "reject")
    )
    shards = [
        {name: data for name, data in tree_bytes(table.directory).items() if "tfrecord" in name}
        for table in (plain, checked)
    ]
    assert shards[0] == shards[1]
    assert _notices(plain.directory) == _notices(checked.directory) == []


def test_rejected_records_are_no_first_ones_and_fractions_are_exact(tmp_path: Path) -> None:
    """The first record of a key is the first that can be read; --stratify_by counts the records that are kept."""
    rows = "".join(f"k{number % 40},{number % 2},{number}\n" for number in range(80))
    source = write_files(tmp_path / "in", {"a.csv": f"id,class,x\nk0,0,bad\n{rows}".encode()})
    table = convert(
        *("csv", source, tmp_path / "out", "--key", "id", "--on_duplicate_key", "reject", "--types", "x=int64"),
        *("--stratify_by", "class", "--splits", "train=0.5,test=0.5", "--max_reject_fraction", "0.9"),
    )
    assert sorted(table.column("x")) == list(range(40))
    assert {name: len(found) for name, found in table.splits.items()} == {"train": 20, "test": 20}


def test_advice_names_a_limit_that_is_enough(tmp_path: Path, run: Run) -> None:
    source = write_files(tmp_path / "in", {"a.csv": b"id,x\n" + b"k,1\n" * 3 + b"l,2\n"})
    arguments = ("csv", "--input", source, "--output", tmp_path / "out", "--name", "n", "--key", "id")
    result = run(*arguments, "--on_duplicate_key", "fail")
    check_mistake(result, "--on_duplicate_key reject --max_reject_fraction 0.5 keeps")

    assert run(*arguments, "--on_duplicate_key", "reject", "--max_reject_fraction", "0.5").status == 0
    check_mistake(run(*arguments[:-2], "--on_duplicate_key", "reject"), "needs --key")


def test_several_rows_of_a_manifest(tmp_path: Path, run: Run) -> None:
    folder = write_files(tmp_path / "in", {f"{number}.jpg": image(number) for number in range(4)})
    (folder / "m.csv").write_text("file_name,n\n0.jpg,5\n1.jpg,6\n0.jpg,7\n2.jpg,8\n")
    (folder / "k.csv").write_text("file_name,n\n3.jpg,1\n0.jpg,2\n")
    arguments = [
        *("images", "--manifest", folder / "m.csv", "--manifest", folder / "k.csv", "--name", "n"),
        *("--max_reject_fraction", "0.5"),
    ]
    check_mistake(
        run(*arguments, "--output", tmp_path / "a", "--on_duplicate_key", "fail"),
        "'0.jpg'",
        "--on_duplicate_key reject",
    )
    assert run(*arguments, "--output", tmp_path / "b", "--on_duplicate_key", "reject").status == 0
    found = read_back(tmp_path / "b/n")
    assert sorted(int(found.example(f"{number}.jpg")["n"][0]) for number in range(4)) == [1, 5, 6, 8]
    assert [reject["line"] for reject in found.rejects()] == [4, 3]
    check_mistake(
        run("images", "--input", folder, "--output", tmp_path / "c", "--name", "n", "--on_duplicate_key", "fail"),
        "--manifest",
    )
