"""`--sequence_by id --order_by time`: the rows of an id as one example, in the order of their times."""

import random
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from shardmill.addons.sequences.rows import Sequences
from tests.support.command import Run, image, tree_bytes
from tests.support.jobs import Jobs, check_sentence
from tests.support.table_results import Table, encode_rows, parquet, to_csv

COLUMNS = ("user", "t", "x", "word", "kind")
BY = "--sequence_by user --order_by t"
BOTH = "--sequence_by id --order_by t"
Row = tuple[Any, ...]


def _rows() -> list[Row]:
    """Of 40 users, 1 to 25 rows each, in any order."""
    rng = random.Random(5)
    rows = [
        (user, t * 3 - 20, rng.randrange(1000) / 8, rng.choice(("antx", "bee cx", "x")), ("dog", "cat")[user % 3 > 0])
        for user in range(40)
        for t in range(1 + user * 7 % 25)
    ]
    rng.shuffle(rows)
    return rows


ROWS = _rows()


def _expected() -> dict[int, dict[str, Any]]:
    """By user, what the example holds; written without the code that is tested."""
    found: dict[int, dict[str, Any]] = {}
    for user in sorted({row[0] for row in ROWS}):
        mine = sorted((row for row in ROWS if row[0] == user), key=lambda row: row[1])
        found[user] = {
            "user": [user],
            "t": [row[1] for row in mine],
            "x": [row[2] for row in mine],
            "word": [row[3].encode() for row in mine],
            "kind": [("cat", "dog").index(mine[0][4])],
        }
    return found


def _found(table: Table) -> dict[int, dict[str, Any]]:
    """By user, each feature as a list."""
    rows = [{name: value if isinstance(value, list) else [value] for name, value in row.items()} for row in table.rows]
    assert len({row["user"][0] for row in rows}) == len(rows)
    return {row["user"][0]: row for row in rows}


FILES = {f"{place}.csv": to_csv(COLUMNS, ROWS[place::3]) for place in range(3)}


def test_an_example_is_all_rows_of_an_id_in_order(jobs: Jobs, run: Run) -> None:
    built = jobs.build(f"csv {BY} --label kind --splits train=0.7,test=0.3 --num_shards 3", files=FILES)

    table = built.table
    assert _found(table) == _expected()
    assert table.features == {"user": "int64", "t": "int64[]", "x": "float32[]", "word": "bytes[]", "kind": "int64"}
    assert all(max(sizes) - min(sizes) <= 1 and len(sizes) == 3 for sizes in table.sizes.values())
    assert built.manifest.input["records"] == built.manifest.input["in_examples"] == len(ROWS)
    assert built.stats["t"]["values_per_example"]["max"] == max(len(row["t"]) for row in table.splits["train"])
    counts = [table.stats(split)["kind"]["classes"] for split in ("train", "test")]
    assert {name: sum(found[name] for found in counts) for name in ("cat", "dog")} == {"cat": 26, "dog": 14}
    assert run("verify", built.directory).status == 0
    assert run("inspect", built.directory).status == 0


def test_an_id_in_the_folders_of_two_splits_is_said(jobs: Jobs) -> None:
    parts = {"train": [row for row in ROWS if row[0] < 25], "test": [row for row in ROWS if row[0] >= 22]}
    jobs.write({f"{split}/{n}.csv": to_csv(COLUMNS, rows[n::2]) for split, rows in parts.items() for n in range(2)})
    built = jobs.build(f"csv {BY}")
    said = "--sequence_by user: 3 values of it have rows in the folders of several splits, and a sequence in each"
    assert said in built.said
    users = {split: {row["user"] for row in rows} for split, rows in built.table.splits.items()}
    assert users["train"] & users["test"] == {22, 23, 24}
    again = jobs.build(f"csv {BY} --splits train=0.5,test=0.5 --output b")
    assert not [notice for notice in again.notices if "--sequence_by" in notice]
    assert sorted(row["user"] for row in again.table.rows) == list(range(40))


def test_fractions_of_sequences_are_exact_in_each_class(jobs: Jobs) -> None:
    """Three files hold ids with 1 to 25 rows; one id has two labels, and both of its rows are rejects."""
    rows = [(user, t, 0.5, "w", "dog" if user % 4 == 0 else "cat") for user in range(100) for t in range(1 + user % 25)]
    rows += [(200, 1, 0.5, "w", "cat"), (200, 2, 0.5, "w", "dog")]
    random.Random(3).shuffle(rows)
    jobs.write({f"{place}.csv": to_csv(COLUMNS, rows[place::3]) for place in range(3)})
    line = f"csv {BY} --label kind --splits train=0.6,validation=0.2,test=0.2 --max_reject_fraction 0.1"
    built = jobs.build(f"{line} --stratify_by label")
    table, small = built.table, jobs.build(f"{line} --stratify_by kind --block_size 1KiB --output b").table

    shares = {"train": (45, 15), "validation": (15, 5), "test": (15, 5)}
    for split, (cats, dogs) in shares.items():
        assert table.stats(split)["kind"]["classes"] == {"cat": cats, "dog": dogs}
    assert len({row["user"] for row in table.rows}) == len(table.rows) == 100
    users = [
        {split: sorted(row["user"] for row in found) for split, found in each.splits.items()} for each in (table, small)
    ]
    assert users[0] == users[1]
    assert [reason.split(":")[0] for reason in built.reasons.values()] == [
        "'kind' is not the same in all rows of user 200"
    ] * 2
    line = f"csv {BY} --splits a=0.5,b=0.5 --output c"
    jobs.refuse(f"{line} --stratify_by word", "--stratify_by word…give --label word")
    jobs.build(f"{line} --stratify_by kind --label kind --max_reject_fraction 0.1")


@pytest.mark.parametrize("command", ["parquet", "avro"])
def test_every_format_of_tables(command: str, jobs: Jobs) -> None:
    records = [dict(zip(COLUMNS, row, strict=True)) for row in ROWS]
    rows = encode_rows(command, records, **({"row_group_size": 50} if command == "parquet" else {}))
    assert _found(jobs.build(f"{command} {BY} --label kind", files={f"a.{command}": rows}).table) == _expected()


@pytest.mark.parametrize("command", ["csv", "jsonl", "parquet"])
def test_ids_of_texts_are_compared_as_they_are_stored(command: str, jobs: Jobs) -> None:
    """Ids that are one number, such as 1.1 and 1.10, are two sequences; two Unicode forms of a text are one id."""
    pairs = ["1.1", "1.10", "12e3", "12000", "True", "true", "+49151", "49151", "1.2.3", "1.2.30", "é", "e\u0301"]
    rows = encode_rows(command, [{"id": each, "t": place} for place, each in enumerate([*pairs, *pairs])])
    for flags in ("--splits a=0.5,b=0.5", "--splits a=0.5,b=0.5 --label id --output classes"):
        table = jobs.build(f"{command} {BOTH} {flags}", files={f"a.{command}": rows}).table
        found = {row["t"][0]: (row["t"], split) for split, rows in table.splits.items() for row in rows}
        expected = {place: [place, place + 12] for place in range(10)} | {10: [10, 11, 22, 23]}
        assert {first: times for first, (times, _) in found.items()} == expected
        assert all(found[place][1] == found[place + 1][1] for place in range(0, 8, 2))


def test_times_of_two_units_are_one_id(jobs: Jobs) -> None:
    ids = {unit: pa.array([5, 6], pa.timestamp("s")).cast(pa.timestamp(unit)) for unit in ("s", "us")}
    jobs.write({f"{unit}.parquet": parquet(pa.table({"id": each, "t": [1, 2]})) for unit, each in ids.items()})
    assert sorted(row["t"] for row in jobs.build(f"parquet {BOTH}").table.rows) == [[1, 1], [2, 2]]


def test_neither_files_nor_blocks_nor_threads_nor_workers_show(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    line = f"csv {BY} --num_shards 2 --splits train=0.6,test=0.4"
    first = jobs.build(line, files=FILES)
    whole = tree_bytes(first.directory)
    workers = "--direct_running_mode multi_processing --direct_num_workers 2"
    for place, flags in enumerate(("--threads 4 --block_size 1KiB", workers)):
        assert tree_bytes(jobs.build(f"{line} {flags} --output b{place}").directory) == whole
    one = jobs.build(f"{line} --input one --output c", files={"../one/all.csv": to_csv(COLUMNS, sorted(ROWS))})
    assert _found(one.table) == _found(first.table)
    # A segment has whole sequences, however small it is
    make = Sequences.make_shards
    monkeypatch.setattr(Sequences, "make_shards", lambda self, layout: replace(make(self, layout), segment_bytes=1))
    assert tree_bytes(jobs.build(f"{line} --output d").directory) == whole


def test_numbers_of_fixed_length_and_texts_of_times(jobs: Jobs) -> None:
    times = ["2024-01-02T09:00:00Z", "2024-01-02T09:00:00.5", "2023-12-31", "2024-01-02 08:59"]
    rows = encode_rows("jsonl", [{"id": "a", "when": when, "xy": [n, n / 2]} for n, when in enumerate(times)])
    built = jobs.build("jsonl --sequence_by id --order_by when", files={"a.jsonl": rows})
    (row,) = built.table.rows
    assert row["when"] == [times[place].encode() for place in (2, 3, 0, 1)]
    assert row["xy"] == [2, 1, 3, 1.5, 0, 0, 1, 0.5]
    (feature,) = [each for each in built.manifest.features if each.name == "xy"]
    assert feature.shape == (None, 2)


@pytest.mark.parametrize("command", ["csv", "parquet", "csv --schema"])
def test_seconds_since_1970_are_in_order_by_all_of_their_digits(command: str, jobs: Jobs) -> None:
    """Those of two minutes are one float32, by which they had the order of their lines."""
    times = [1700000000.25, 1700000000.125, 1700000090.5, 1699999999.75, -1.5]
    rows: list[dict[str, Any]] = [{"id": 1, "t": time, "x": place} for place, time in enumerate(times)]
    command, *schema = command.split()
    built = jobs.build(f"{command} {BOTH}", files={f"a.{command}": encode_rows(command, rows)})
    if schema:
        late = encode_rows("csv", [*rows, {"id": 1, "t": "soon", "x": 9}])
        flags = "--schema out/n/1.0.0/schema.pbtxt --max_reject_fraction 1 --output again"
        built = jobs.build(f"csv {BOTH} {flags}", files={"a.csv": late})
        assert list(built.reasons.values()) == ["no time: column 't': 'soon' is not a number (float32)"]

    (row,) = built.table.rows
    assert row["x"] == [4, 3, 1, 0, 2]
    assert row["t"] == [np.float32(times[place]) for place in row["x"]]
    assert "order of their files" not in built.said


@pytest.mark.parametrize(("name", "flags"), [("csv", "--types t=bytes"), ("jsonl", "")])
def test_texts_of_numbers_order_rows_and_an_id_with_times_too_is_rejected(name: str, flags: str, jobs: Jobs) -> None:
    times = [(1, "2024"), (1, "123456789012345678901"), (1, "123456789012345678900.5"), (1, "999"), (1, "-1.5")]
    others = [(2, "2024"), (2, "2023-12-31"), (3, "2024"), (3, "2023-12-31"), (3, "999")]
    rows = encode_rows(name, [{"id": id_, "t": time} for id_, time in (*times, *others)])
    built = jobs.build(f"{name} {flags} {BOTH} --max_reject_fraction 0.3", files={f"a.{name}": rows})
    found = {row["id"]: [time.decode() for time in row["t"]] for row in built.table.rows}
    assert found == {1: [times[place][1] for place in (4, 3, 0, 2, 1)], 2: ["2023-12-31", "2024"]}
    said = "'t' is not of one kind in all rows of id 3: 999, then 2023-12-31; a sequence has one order"
    assert [reason.split(",")[:2] for reason in built.reasons.values()] == [said.split(",")] * 3


def test_rows_of_one_time_are_in_the_order_of_the_input_and_said(jobs: Jobs) -> None:
    built = jobs.build(
        f"csv {BOTH}", files={"b.csv": "id,t,x\n1,5,3\n1,4,9\n", "a.csv": "id,t,x\n1,5,1\n1,5,2\n2,5,7\n"}
    )
    assert sorted(row["x"] for row in built.table.rows) == [[7], [9, 1, 2, 3]]
    assert built.notices == [
        "2 rows have the t of another of the same id: such rows are in the order of their files and lines"
    ]


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        ("1,1,1\n,2,2", "no id: column 'id' has no value"),
        ("1,1,1\n1,,2", "no time: column 't' has no value"),
        ("1,1.5,1\n1,nan,2", "no time: column 't': 'NaN' is neither a number nor a date or time as ISO 8601"),
        ("1,2024-01-01,1\n1,yesterday,2", "no time: column 't': 'yesterday' is neither a number nor a date"),
        ("1,1,1\n1,2,", "column 'x' has no value, and a sequence has one for each of its rows; --fill x=VALUE"),
    ],
)
def test_bad_rows_are_rejects(rows: str, reason: str, jobs: Jobs) -> None:
    built = jobs.build(f"csv {BOTH} --max_reject_fraction 0.9", files={"a.csv": f"id,t,x\n{rows}\n"})
    assert [len(row["t"]) if isinstance(row["t"], list) else 1 for row in built.table.rows] == [1]
    assert built.reasons.keys() == {"a.csv:3"}
    assert built.reasons["a.csv:3"].startswith(reason)


@pytest.mark.parametrize(("one", "other"), [("a", "b"), (0, 1)])
def test_a_sequence_of_two_labels_is_rejected_whole(jobs: Jobs, one: str | int, other: str | int) -> None:
    line = f"csv {BOTH} --label kind"
    rows = f"id,t,x,kind\n1,1,1,{one}\n2,1,5,{one}\n1,2,2,{other}\n3,1,4,{other}\n"
    jobs.fail(line, "2 of 4 records were rejected", files={"a.csv": rows})
    built = jobs.build(f"{line} --max_reject_fraction 0.5 --output b")
    assert sorted(row["id"] for row in built.table.rows) == [2, 3]
    said = f"'kind' is not the same in all rows of id 1: {one!r}, then {other!r}; a sequence has one label"
    assert built.reasons == {"a.csv:2": said, "a.csv:4": said}


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("--sequence_by id", "--sequence_by id needs --order_by"),
        ("--order_by t", "--order_by t needs --sequence_by"),
        ("--sequence_by id --order_by id", "are both id"),
        ("--sequence_by idd --order_by t", "--sequence_by idd: no such column…did you mean id?"),
        ("--sequence_by id --order_by tt", "--order_by tt: no such column…did you mean t?"),
        ("--sequence_by id --order_by ok", "--order_by ok: the column orders nothing"),
        (f"{BOTH} --drop t", "--drop t: sequences are made by that column"),
        (f"{BOTH} --group_by x --splits a=1", "--group_by x…the id decides"),
        (f"{BOTH} --stratify_by x --splits a=1", "--stratify_by x"),
        (f"{BOTH} --key x", "--sequence_by and --key"),
        (f"{BOTH} --no_shuffle", "--sequence_by and --no_shuffle"),
    ],
)
def test_mistakes(flags: str, said: str, jobs: Jobs) -> None:
    jobs.refuse(f"csv {flags}", said, files={"a.csv": "id,t,x,ok\n1,1,1,true\n1,2,2,false\n"})


@pytest.mark.parametrize(("of", "lists"), [("differing lengths", ([1], [1, 2])), ("texts", (["a", "b"], ["c", "d"]))])
def test_lists_that_no_example_can_have_lists_of(of: str, lists: tuple[list[Any], ...], jobs: Jobs) -> None:
    rows = encode_rows("jsonl", [{"id": 1, "t": n, "v": values} for n, values in enumerate(lists)])
    jobs.refuse(f"jsonl {BOTH}", f"column 'v' holds lists of {of}, …--drop v", files={"a.jsonl": rows})


def test_images_are_no_part_of_sequences(jobs: Jobs) -> None:
    rows = encode_rows("parquet", [{"id": 1, "t": n, "image": image(n)} for n in range(3)])
    jobs.refuse(f"parquet --image image {BOTH}", "column 'image' holds images…--drop image", files={"a.parquet": rows})


def test_an_id_of_very_many_rows_is_one_sentence(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shardmill.addons.sequences.shards.MAX_SEQUENCE_BYTES", 500)
    jobs.write(FILES)
    said = "--sequence_by user: one sequence has…expected 500 at most…is it an id?"
    check_sentence(jobs.run(f"csv {BY}"), 2, said)
    assert not list(jobs.folder.glob("out/**/_SUCCESS"))
