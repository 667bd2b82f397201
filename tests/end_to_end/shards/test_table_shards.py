"""Which row of a table goes into which split and shard, whatever else changes."""

import random
from collections import Counter
from pathlib import Path

import pytest

from shardmill.data.example import decode_example
from shardmill.data.tfrecord import frame_record
from shardmill.reading.dataset import open_dataset
from tests.support.command import Run, write_files
from tests.support.jobs import Jobs
from tests.support.table_results import (
    CITIES,
    CITY_HEADER,
    CITY_ROWS,
    CITY_SPLITS,
    Table,
    city_row,
    contents,
    convert,
    encode_rows,
    to_csv,
)

pytestmark = pytest.mark.slow


def test_rows_in_other_files_and_another_order_are_the_same_data_set(city_table: Table, tmp_path: Path) -> None:
    shuffled = random.Random(0).sample(CITY_ROWS, len(CITY_ROWS))
    parts = {"z.csv": shuffled[:3], "y.csv": shuffled[3:900], "x.csv": shuffled[900:]}
    files = {name: to_csv(CITY_HEADER, rows) for name, rows in parts.items()}
    other = convert("csv", write_files(tmp_path / "in", files), tmp_path, *CITY_SPLITS, "--num_shards", 3)
    assert contents(other.directory).keys() == contents(city_table.directory).keys()
    for name, data in contents(other.directory).items():
        if "tfrecord" in name:
            assert data == contents(city_table.directory)[name]


def test_new_rows_move_no_old_one(city_table: Table, city_rows: Path, tmp_path: Path) -> None:
    more = write_files(tmp_path / "in", {path.name: path.read_bytes() for path in city_rows.rglob("*.csv")})
    write_files(more, {"new.csv": to_csv(CITY_HEADER, [city_row(number) for number in range(1000, 1500)])})
    grown = convert("csv", more, tmp_path, *CITY_SPLITS)
    before = {found["id"]: split for split, rows in city_table.splits.items() for found in rows}
    after = {found["id"]: split for split, rows in grown.splits.items() for found in rows}
    assert {number: after[number] for number in before} == before


def by_split(table: Table, column: str) -> dict[str, set[object]]:
    return {split: {found[column] for found in rows} for split, rows in table.splits.items()}


def test_a_key_column_decides_the_split_whatever_else_changes(city_rows: Path, tmp_path: Path) -> None:
    keyed = convert("csv", city_rows, tmp_path / "a", *CITY_SPLITS, "--key", "id")
    changed = [[*values[:2], "0.5", *values[3:]] for values in CITY_ROWS]
    source = write_files(tmp_path / "in", {"a.csv": to_csv(CITY_HEADER, changed)})
    other = convert("csv", source, tmp_path / "b", *CITY_SPLITS, "--key", "id")
    assert by_split(other, "id") == by_split(keyed, "id")
    assert [r["id"] for r in other.splits["test"]] == [r["id"] for r in keyed.splits["test"]]


@pytest.mark.parametrize("balance", ["examples", "bytes"])
def test_strata_are_exact(city_rows: Path, tmp_path: Path, balance: str) -> None:
    table = convert(
        "csv", city_rows, tmp_path, *CITY_SPLITS, "--stratify_by", "city", "--balance", balance, "--num_shards", 2
    )
    for split, number in (("train", 200), ("test", 50)):
        assert Counter(found["city"] for found in table.splits[split]) == {city.encode(): number for city in CITIES}


def test_a_million_identical_rows_balance(run: Run, tmp_path: Path) -> None:
    source = write_files(tmp_path / "in", {"a.csv": b"x,word\n" + b"1,same\n" * 1_000_000})
    arguments = ("--name", "n", "--num_shards", 16, "--block_size", "1MiB")
    assert run("csv", "--input", source, "--output", tmp_path, *arguments).status == 0
    dataset = open_dataset(str(tmp_path / "n"))
    (train,) = dataset.manifest.splits
    assert [shard.examples for shard in train.shards] == [62_500] * 16
    record = next(iter(dataset.records(train.shards[0])))
    assert decode_example(record) == {"x": [1], "word": [b"same"]}
    same = frame_record(record) * 62_500
    assert [path.read_bytes() == same for path in sorted(tmp_path.rglob("*.tfrecord-*"))] == [True] * 16


def test_thousands_of_files_of_one_row(tmp_path: Path) -> None:
    files = {
        f"{n % 100}/{n}.csv": to_csv(CITY_HEADER[:2], [(n, 1)]) for n in range(2_000)
    }  # more than files may be open
    table = convert("csv", write_files(tmp_path / "in", files), tmp_path, "--num_shards", 8)
    assert table.sizes == {"train": [250] * 8}
    assert sorted(table.column("id")) == list(range(2_000))


@pytest.mark.parametrize("command", ["csv", "jsonl"])
def test_label_stands_for_the_label(jobs: Jobs, command: str) -> None:
    rows = [{"id": n, "city": "Rome" if n % 10 else "Bern"} for n in range(200)]
    jobs.write({f"a.{command}": encode_rows(command, rows)})
    splits = "--splits train=0.5,test=0.5 --stratify_by"
    table = jobs.build(f"{command} --label city {splits} label").table
    for found in table.splits.values():
        assert Counter(row["city"] for row in found) == {0: 10, 1: 90}
    for line in (
        f"--label city {splits} city --output named",
        f"--schema out/n/1.0.0/schema.pbtxt --labels_file out/n/1.0.0/city.labels.txt {splits} label --output nightly",
    ):
        assert jobs.build(f"{command} {line}").table.splits == table.splits

    said = "--stratify_by label: no such column…means the column of --label, which is not given"
    jobs.refuse(f"{command} {splits} label --output no", said)
    said = "--stratify_by label is ambiguous…give --stratify_by city"
    both = {"both.csv": "label,city\n1,Rome\n2,Bern\n"}
    jobs.refuse(f"csv --input in/both.csv --label city {splits} label --output no", said, files=both)


@pytest.mark.parametrize(
    ("flags", "is_said"),
    [("--shard_size 100", True), ("--shard_size 999kB", True), ("--shard_size 1MB", False), ("", False)],
)
def test_shards_that_are_very_small_are_said(jobs: Jobs, city_rows: Path, flags: str, is_said: bool) -> None:
    result = jobs.run(f"csv --input {city_rows} --dry_run {flags}")
    assert result.status == 0
    said = "shardmill: warning: --shard_size is " in result.err and "a number without a unit is bytes" in result.err
    assert said is is_said


@pytest.mark.parametrize("dry", ["", "--dry_run"])
def test_flags_of_other_runners_are_said(run: Run, jobs: Jobs, city_rows: Path, dry: str) -> None:
    flags = "--parallelism 4 --num_workers=3 --direct_num_workers 1"
    Path("r.yaml").write_text(f"name: r\noutput: sets\ncsv:\n  input: {city_rows}\nbeam:\n  parallelism: 4\n")
    results = [
        jobs.run(f"csv --input {city_rows} {flags} {dry}"),
        run("rebuild", "r.yaml", "--num_workers", "3", *dry.split()),
        *([] if dry else [run("verify", "out/n", *flags.split())]),
    ]
    for result in results:
        assert result.status == 0, result.err
        said = "the local runner, which runs this job, has no use for --parallelism and --num_workers;"
        assert said in result.err
