"""CSV as other programs write it, and CSV that a first look takes the wrong way: the job stops before it writes, and
each flag that it names helps."""

import pyarrow as pa
import pytest

from tests.support.jobs import Jobs
from tests.support.reading import plain
from tests.support.table_results import parquet

LISTS = "n,pixels,emb,tags,wide\n" + "".join(
    f"{n},{n} 80  82,\"[0.5, {n}, 1e3]\",\"['a', 'b{n}']\",{';'.join(map(str, range(n)))}\n" for n in range(1, 6)
)
OF_LISTS = "--list_separator 'pixels= ' --list_separator emb=, --list_separator tags=, --list_separator 'wide=;'"


def test_escapes_and_a_long_delimiter(jobs: Jobs) -> None:
    made = jobs.build(r"csv --no_shuffle --delimiter :: --escape '\'", files={"a.csv": 'u::t\n1::"a\\"::b"\n2::c\n'})
    assert [row["t"] for row in made.examples()] == [b'a"::b', b"c"]


def test_lists(jobs: Jobs) -> None:
    made = jobs.build(f"csv --no_shuffle {OF_LISTS}", files={"a.csv": LISTS})
    columns = {name: [plain(row[name]) for row in made.examples()] for name in ("pixels", "emb", "tags", "wide")}
    assert columns == {
        "pixels": [[n, 80, 82] for n in range(1, 6)],
        "emb": [[0.5, n, 1000] for n in range(1, 6)],
        "tags": [["a", f"b{n}"] for n in range(1, 6)],
        "wide": [list(range(n)) for n in range(1, 6)],
    }
    assert {feature.name: feature.dtype for feature in made.manifest.features}["pixels"] == "int64"
    more = {"a.csv": LISTS + '6,1 2,"[1,x]","[]",\n'}
    flags = f"csv {OF_LISTS} --max_reject_fraction 1 --version"
    assert len(jobs.build(f"{flags} 1.0.1", files=more).examples()) == 6
    more = {"a.csv": LISTS + '6,1 2,"[1,2,x]","[]",\n'}
    jobs.build(f"{flags} 1.0.2 --schema out/n/1.0.1/schema.pbtxt", files=more)


def test_hive_partitions(jobs: Jobs) -> None:
    folders = ("year=2023/city=New%20York", "year=2024/city=__HIVE_DEFAULT_PARTITION__")
    made = jobs.build("csv", files={f"{folder}/a.csv": f"n\n{number}\n" for number, folder in enumerate(folders)})
    assert "files lie in folders such as 'year=2023/city=New%20York', which are no columns; --hive_" in made.said
    made = jobs.build("csv --overwrite --no_shuffle --hive_partitioning --group_by year --splits train=1")
    assert {row["n"]: (row["year"], row.get("city")) for row in made.examples()} == {
        0: (2023, b"New York"),
        1: (2024, None),
    }
    flags = (
        "--hive_partitioning --missing 2023 --fill year=7 --fill city=1 --types city=int64 --max_reject_fraction 0.5"
    )
    made = jobs.build(f"csv --overwrite {flags}")
    assert "taken as missing values: in column 'year' '2023' 1 time" in made.notices
    assert made.reasons == {"year=2023/city=New%20York/a.csv:2": "column 'city': New York is no integer"}
    assert [(row["n"], row["year"], row["city"]) for row in made.examples()] == [(1, 2024, 1)]
    line = "csv --overwrite --input in/year=2023/city=New%20York --hive_partitioning"
    jobs.refuse(line, "no folder such as year=2024")


def test_folders_of_splits_are_no_hive_partitions(jobs: Jobs) -> None:
    words = "folders such as 'split=test' are a column and no splits; folders called train and test are splits"
    made = jobs.build("csv --hive_partitioning", files={f"split={name}/a.csv": "n\n1\n" for name in ("train", "test")})
    assert (made.splits, words in made.notices) == ({"train": 2}, True)
    for flags in ("--splits train=0.5,test=0.5", "--drop split"):
        assert words not in jobs.build(f"csv --hive_partitioning --overwrite {flags}").notices


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_a_column_that_is_also_a_folder_is_said(jobs: Jobs, kind: str) -> None:
    data = b"n,year\n1,1999\n" if kind == "csv" else parquet(pa.table({"n": [1], "year": [1999]}))
    found = jobs.build(f"{kind} --hive_partitioning", files={f"year=2024/a.{kind}": data})
    assert f"passed over 1 file column whose folder says its value, such as 'year=2024/a.{kind}: year'" in found.said
    assert [example["year"] for example in found.examples()] == [2024]
    assert [example["year"] for example in jobs.build(f"{kind} --overwrite").examples()] == [1999]


def test_a_row_that_begins_like_a_comment_survives_skip_lines(jobs: Jobs) -> None:
    files = {"a.csv": "# sensor 7\nname,n\n#1,1\n#2,2\nx,3\n"}
    assert len(jobs.build("csv --skip_lines 1", files=files).examples()) == 3
    assert len(jobs.build("csv --comment '#' --overwrite").examples()) == 1


def test_strip(jobs: Jobs) -> None:
    text = "age, work, n\n" + "".join(f"{n}, {'?' if n % 2 else 'State'}, {n}\n" for n in range(8))
    rows = jobs.build("csv --missing ?", files={"a.csv": text}).examples()
    assert sorted(row[" n"] for row in rows) == [f" {n}".encode() for n in range(8)]
    rows = jobs.build("csv --missing ? --strip --overwrite").examples()
    assert sorted(row["n"] for row in rows) == list(range(8))
    assert [row.get("work") for row in rows].count(b"State") == 4
    assert not any(row.get("work") == b"?" for row in rows)


def test_rows_with_one_more_delimiter(jobs: Jobs) -> None:
    made = jobs.build("csv", files={"a.csv": "a,b\n1,2,\n3,4,\n5,6\n"})
    assert [set(row) for row in made.examples()] == [{"a", "b"}] * 3
    words = "2 rows have one more field than the header has names, which is empty and left out; the first is a.csv"
    assert words in made.said


PAIRS = "Quality\ta\tb\n" + "".join(
    f"{n % 2}\t{chr(34) * (n % 7 == 3)}He said {n}{chr(34) * (n % 7 == 5)}\tno {n}\n" for n in range(2001)
)
# The record is a block of its own, so that none of its rows can be compared with rows of the block
ALONE = "id,name,price\n" + "".join(
    {100: '100,"MEGA,30\n', 290: '290,end",30\n'}.get(n, f"{n},item {n % 7},{n * 3}\n") for n in range(300)
)
# Two rows in each of ten blocks, which alone are too little evidence
RARE = "one\ttwo\n" + "".join(
    f"{chr(34) * (n % 300 == 299)}left {n}\tright {n}{chr(34) * (n % 300 == 0 and n > 0)}\n" for n in range(3001)
)


@pytest.mark.parametrize(
    ("text", "flags", "lines", "count"),
    [
        (PAIRS, "--delimiter tab", "lines 5 to 7: one record", 2001),
        (ALONE, "--block_size 1KiB", "lines 102 to 292: one record", 300),
        (RARE, "--delimiter tab --schema in/s --block_size 1KiB", "lines 301 to 302: one record", 3001),
    ],
)
def test_quotes_that_take_in_rows(jobs: Jobs, text: str, flags: str, lines: str, count: int) -> None:
    files = {"a.csv": text, "s": 'feature { name: "one" type: BYTES shape {} }'}
    remedy = "give --quote '' if quotes are part of the text, or --quote '\"' if fields have"
    jobs.refuse(f"csv --input in/a.csv {flags}", f"{lines}…{remedy}", files=files)
    assert len(jobs.build(f"csv --input in/a.csv {flags} --quote ''").examples()) == count
    accepted = jobs.build(f"csv --input in/a.csv {flags} --quote '\"' --max_reject_fraction 1 --overwrite")
    assert 0 < len(accepted.examples()) < count


def accented(command: str) -> bytes:
    row = {"csv": "{},{}\n", "text": "{} {}\n"}[command]
    rows = [row.format(n, {100: "José", 700: "Zoë’s café", 701: "10 £"}.get(n, f"name{n}")) for n in range(1000)]
    return ("n,name\n" * (command == "csv") + "".join(rows)).encode("cp1252")


@pytest.mark.parametrize("command", ["csv --schema out/n/1.0.0/schema.pbtxt", "text"])
def test_cp1252(jobs: Jobs, command: str) -> None:
    kind = command.split()[0]
    name, data = f"a.{kind.replace('text', 'txt')}", accented(kind)
    examples = jobs.build(f"{kind} --encoding cp1252", files={name: data}).examples()
    assert len(examples) == 1000
    assert any("José".encode() in value for row in examples for value in row.values() if isinstance(value, bytes))
    jobs.refuse(f"{command} --version 1.0.1", "3 rows are not UTF-8…José…give --encoding cp1252")
    made = jobs.build(f"{command} --version 1.0.2 --encoding utf-8")
    assert "3 of 1,000 records rejected" in made.said
    assert "byte 0xe9 (é in cp1252)" in (made.directory / "manifest.json").read_text()
    others = ("Müller".encode(), b"\xff\x81")  # UTF-8 elsewhere in the file, or bytes that are no text
    for other in others if kind == "csv" else others[:1]:
        jobs.build(f"{command} --version 1.0.3 --overwrite", files={name: data.replace(b"name500", other)})


def test_rows_between_spaces_without_a_header(jobs: Jobs) -> None:
    files = {"a.csv": "".join(f" {n / 8}  {n * 2}\n" for n in range(20))}
    jobs.refuse("csv", r"give --delimiter '\s+' if spaces", files=files)
    jobs.refuse(r"csv --delimiter '\s+'", "looks like data, not names")
    assert len(jobs.build(r"csv --delimiter '\s+' --header none").examples()) == 20


def test_a_record_that_may_be_two_rows_has_a_notice(jobs: Jobs) -> None:
    text = "a,b\n" + "".join(f"word{n},thing{n}\n" for n in range(300)) + '"x,\ny",w\n'
    where = "a.csv, lines 302 to 303: one record, and each of its lines has the 2 fields of a row"
    made = jobs.build("csv", files={"a.csv": text})
    assert len(made.examples()) == 301
    assert f"{where}; --quote '' makes rows of them, if quotes are part of the text" in made.said
    made = jobs.build("csv --quote '' --overwrite")
    assert (len(made.examples()), where in made.said) == (302, False)
    usual = text + "".join(f'"line {n}\nand another",{n}\n' for n in range(3))
    assert where not in jobs.build("csv --overwrite", files={"a.csv": usual}).said
