"""--on_duplicate_key: records with the --key of another one, in other files and blocks, on every route with a key."""

import json
from collections.abc import Sequence

import pytest

from shardmill.data import tfrecord
from tests.support.archives import tar
from tests.support.command import image, tree_bytes
from tests.support.encoded import encode_example
from tests.support.jobs import Built, Jobs, check_sentence
from tests.support.table_results import encode_rows

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
    return encode_rows(command, records)


def _shared(built: Built) -> list[str]:
    return [notice for notice in built.notices if "share" in notice]


@pytest.mark.parametrize("command", ["csv", "webdataset", "reshard"])
def test_repeated_keys_of_each_route(command: str, jobs: Jobs) -> None:
    suffix = {"webdataset": "tar", "reshard": "tfrecord"}.get(command, command)
    line = f"{command} --key id --max_reject_fraction 0.5"
    jobs.write({f"{name}.{suffix}": _encode(command, rows) for name, rows in FILES.items()})
    first = jobs.build(f"{line} --on_duplicate_key reject --output b")

    assert sorted(first.table.column("x")) == KEPT
    assert sorted(path.name for path in jobs.folder.iterdir()) == ["b", "in"]
    assert [notice for notice in _shared(first) if NOTICE in notice]
    reasons = {reject["source"]: reject["reason"] for reject in first.rejects}
    assert reasons.keys() == {f"b.{suffix}", f"c.{suffix}"}
    assert f"a.{suffix}:" in reasons[f"c.{suffix}"]
    if command != "csv":  # what follows is the same for any records
        return
    again = jobs.build(f"{line} --on_duplicate_key reject --output c --block_size 1KiB --direct_num_workers 2")
    assert sorted(again.table.column("x")) == KEPT
    kept = jobs.build(line)
    assert len(kept.table.rows) == len(KEPT) + 3
    assert kept.rejects == []
    assert [notice for notice in _shared(kept) if NOTICE in notice and "all are kept" in notice]
    check_sentence(jobs.run(f"{line} --on_duplicate_key fail --output d"), 2, f"{NOTICE}…--on_duplicate_key reject")
    assert not list(jobs.folder.glob("d/n/*/manifest.json"))


def test_keys_are_compared_as_they_are_stored(jobs: Jobs) -> None:
    jobs.write({"a.csv": "id,x\n1.1,0\n1.10,1\n2.5,2\n12e3,3\n12000,4\n1.1,5\n"})
    line = "csv --key id --max_reject_fraction 0.9 --on_duplicate_key reject --overwrite"
    for flags in ("--types id=bytes", "--types id=bytes --label id", ""):
        built = jobs.build(f"{line} {flags}")
        assert sorted(built.table.column("x")) == ([0, 1, 2, 3, 4] if flags else [0, 2, 3])
        assert [", as numbers (--types id=bytes compares texts); the" in said for said in _shared(built)] == [not flags]
    jobs.write({"l.jsonl": '{"id":["1.1","x"],"n":0}\n{"id":["1.10","x"],"n":1}\n{"id":["1.1","x"],"n":2}\n'})
    line = "--key id --max_reject_fraction 0.9 --on_duplicate_key reject --overwrite"
    assert sorted(jobs.build(f"jsonl --input in/l.jsonl --output l {line}").table.column("n")) == [0, 1]
    base = jobs.build("csv --input in/a.csv --types id=bytes --output base")
    resharded = jobs.build(f"reshard --input {base.directory} --output again {line}")
    assert sorted(resharded.table.column("x")) == [0, 1, 2, 3, 4]


def test_without_repeated_keys_nothing_changes(jobs: Jobs) -> None:
    jobs.write({"a.csv": _encode("csv", FILES["a"])})
    plain, checked = (
        jobs.build(f"csv --key id --on_duplicate_key {action} --output {action}") for action in ("allow", "reject")
    )
    shards = [
        {name: data for name, data in tree_bytes(built.directory).items() if "tfrecord" in name}
        for built in (plain, checked)
    ]
    assert shards[0] == shards[1]
    assert _shared(plain) == _shared(checked) == []


def test_rejected_records_are_no_first_ones_and_fractions_are_exact(jobs: Jobs) -> None:
    """The first record of a key is the first that can be read; --stratify_by counts the records that are kept."""
    rows = "".join(f"k{number % 40},{number % 2},{number}\n" for number in range(80))
    built = jobs.build(
        "csv --key id --on_duplicate_key reject --types x=int64 --stratify_by class --splits train=0.5,test=0.5"
        " --max_reject_fraction 0.9",
        files={"a.csv": f"id,class,x\nk0,0,bad\n{rows}"},
    )
    assert sorted(built.table.column("x")) == list(range(40))
    assert built.splits == {"train": 20, "test": 20}


def test_several_rows_of_a_manifest(jobs: Jobs) -> None:
    jobs.write({f"{number}.jpg": image(number) for number in range(4)})
    jobs.write(
        {"m.csv": "file_name,n\n0.jpg,5\n1.jpg,6\n0.jpg,7\n2.jpg,8\n", "k.csv": "file_name,n\n3.jpg,1\n0.jpg,2\n"}
    )
    line = "images --manifest in/m.csv --manifest in/k.csv --max_reject_fraction 0.5 --on_duplicate_key"
    check_sentence(jobs.run(f"{line} fail --output a"), 2, "'0.jpg'…--on_duplicate_key reject")
    built = jobs.build(f"{line} reject")
    assert sorted(int(built.contents.example(f"{number}.jpg")["n"][0]) for number in range(4)) == [1, 5, 6, 8]
    assert [reject["line"] for reject in built.rejects] == [4, 3]
    jobs.refuse("images --on_duplicate_key fail --output c", "--manifest")
    jobs.refuse("csv --on_duplicate_key reject --output b", "needs --key")
