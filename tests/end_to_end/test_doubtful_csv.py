"""CSV files that a first look takes the wrong way: the job stops before it writes, and each flag it names helps."""

import shlex
from pathlib import Path

import pytest

import shardmill
from tests.support.command import Run

IRIS = "".join(f"{5 + n / 10:.1f},{3 + n % 7 / 10:.1f},setosa\n" for n in range(20))
ROWS = "".join(f"{n},{n / 2}\n" for n in range(20))
STRAY = "id,name,price\n" + "".join(
    {150: '150,"MEGA,30\n', 1900: '1900,12" pipe,630\n'}.get(n, f"{n},item{n},{2 * n}\n") for n in range(2000)
)


def convert(run: Run, folder: Path, text: str, *flags: str) -> tuple[int, str, list[dict[str, object]]]:
    """The exit status, what is printed, and the examples as they were stored."""
    (folder / "rows.csv").write_text(text)
    result = run(
        "csv", "--input", folder / "rows.csv", "--output", folder / "out", "--name", "n", "--overwrite", *flags
    )
    examples = list(shardmill.examples(folder / "out/n/1.0.0", split="train")) if result.status == 0 else []
    return result.status, result.out + result.err, examples


@pytest.mark.parametrize(
    ("text", "flags", "names", "count"),
    [
        (IRIS, "--columns column_1,column_2,column_3", {"column_1", "column_2", "column_3"}, 20),
        (IRIS, "--header none", {"column_1", "column_2", "column_3"}, 20),
        (IRIS, "--header first", {"5.0", "3.0", "setosa"}, 19),
        ("1,2,2,5\n" * 20, "--header none", {"column_1", "column_2", "column_3", "column_4"}, 20),
        ("# exported 2024-01-31, sensor 7\nn,x\n" + ROWS, "--comment '#'", {"n", "x"}, 20),
        ("# exported 2024-01-31, sensor 7\nn,x\n" + ROWS, "--skip_lines 1", {"n", "x"}, 20),
        ("sep=;\nn;x\n" + ROWS.replace(",", ";"), "--skip_lines 1 --delimiter ';'", {"n", "x"}, 20),
        ("n;x\n" + ROWS.replace(",", ";"), "--delimiter ';'", {"n", "x"}, 20),
        ("n   x\n" + ROWS.replace(",", " "), r"--delimiter '\s+'", {"n", "x"}, 20),
        ("n   x\n" + ROWS.replace(",", " "), "--delimiter ','", {"n   x"}, 20),
        (
            '"n" "x"\n' + "".join(f'"row {n}" {n} {n / 2}\n' for n in range(20)).replace("row ", "row"),
            r"--delimiter '\s+' --skip_lines 1 and names: --columns column_1,column_2,column_3",
            {"column_1", "column_2", "column_3"},
            20,
        ),
        ("n,x\n" + ROWS.replace(",", "|"), "--skip_lines 1 --delimiter '|' --columns n,x", {"n", "x"}, 20),
        (
            "20,2,malignant\n" + ROWS,
            "--skip_lines 1 and names: --columns column_1,column_2",
            {"column_1", "column_2"},
            20,
        ),
        (
            "All sensors of the plant, 2024\n\nplant,n,x\n" + ROWS.replace("\n", ",1\n"),
            "--skip_lines 2",
            {"plant", "n", "x"},
            20,
        ),
    ],
)
def test_each_flag_of_the_message_helps(
    run: Run, tmp_path: Path, text: str, flags: str, names: set[str], count: int
) -> None:
    status, said, _ = convert(run, tmp_path, text)
    assert status == 2
    assert flags in said
    assert not (tmp_path / "out").exists()

    status, said, examples = convert(run, tmp_path, text, *shlex.split(flags.replace("and names: ", "")))

    assert status == 0, said
    assert len(examples) == count
    assert set(examples[0]) == names


@pytest.mark.parametrize(
    ("columns", "text", "flags"),
    [
        ("n,x", ROWS.replace(",", "|"), "--columns n,x --delimiter '|'"),
        ("n,x", "n,x\n" + ROWS, "--columns n,x --skip_lines 1"),
        ("n,x,y", ROWS, "--columns n,x"),
    ],
)
def test_names_that_do_not_fit(run: Run, tmp_path: Path, columns: str, text: str, flags: str) -> None:
    status, said, _ = convert(run, tmp_path, text, "--columns", columns)

    assert (status, shlex.split(flags)[-1] in said or "2 fields, and --columns has 3" in said) == (2, True), said
    assert len(convert(run, tmp_path, text, *shlex.split(flags))[2]) == 20


def test_a_row_that_begins_like_a_comment_survives_skip_lines(run: Run, tmp_path: Path) -> None:
    text = "# sensor 7\nname,n\n#1,1\n#2,2\n"

    assert len(convert(run, tmp_path, text, "--skip_lines", "1")[2]) == 2
    assert len(convert(run, tmp_path, text + "x,3\n", "--comment", "#")[2]) == 1


def test_strip(run: Run, tmp_path: Path) -> None:
    text = "age, work, n\n" + "".join(f"{n}, {'?' if n % 2 else 'State'}, {n}\n" for n in range(8))

    _, _, plain = convert(run, tmp_path, text, "--missing", "?")
    _, _, stripped = convert(run, tmp_path, text, "--missing", "?", "--strip")

    assert sorted(row[" n"] for row in plain) == [f" {n}".encode() for n in range(8)]  # type: ignore[type-var]
    assert sorted(row["n"] for row in stripped) == list(range(8))  # type: ignore[type-var]
    assert sum(row.get("work") == b"State" for row in stripped) == 4
    assert not any(row.get("work") == b"?" for row in stripped)


@pytest.mark.parametrize("header", [",a,b", "a,b,"])
def test_columns_without_names(run: Run, tmp_path: Path, header: str) -> None:
    rows = "".join(f"{n},{n}," if header.endswith(",") else f"{n},{n},{n}" for n in range(1)) + "\n"
    status, said, examples = convert(run, tmp_path, f"{header}\n{rows * 3}")

    assert status == 0
    assert set(examples[0]) == ({"a", "b"} if header.endswith(",") else {"index", "a", "b"})
    assert "the header has no name for column" in said


def test_rows_with_a_delimiter_too_many(run: Run, tmp_path: Path) -> None:
    status, said, examples = convert(run, tmp_path, "a,b\n1,2,\n3,4,\n5,6\n")

    assert (status, len(examples)) == (0, 3)
    assert (
        "2 rows have one more field than the header has names, which is empty and left out; the first is rows.csv"
        in said
    )


def test_one_stray_quote_costs_one_row(run: Run, tmp_path: Path) -> None:
    status, said, examples = convert(run, tmp_path, STRAY)

    assert status == 0
    assert sorted(row["id"] for row in examples) == [n for n in range(2000) if n != 150]  # type: ignore[type-var]
    assert "1 of 2,000 records rejected" in said
    assert "--quote ''" in said
    assert len(convert(run, tmp_path, STRAY, "--quote", "")[2]) == 2000


PAIRS = "Quality\ta\tb\n" + "".join(
    f"{n % 2}\t{chr(34) * (n % 7 == 3)}He said {n}{chr(34) * (n % 7 == 5)}\tno {n}\n" for n in range(2001)
)
FAR = "id,name\n" + "".join(
    {90000: '90000,"MEGA\n', 90090: '90090,pipe 12"\n'}.get(n, f"{n},item{n}\n") for n in range(10**5)
)
# The record is a block of its own, so that none of its rows can be compared with rows of the block
ALONE = "id,name,price\n" + "".join(
    {100: '100,"MEGA,30\n', 290: '290,end",30\n'}.get(n, f"{n},item {n % 7},{n * 3}\n") for n in range(300)
)
# Two rows in each of ten blocks, which alone are too little evidence
RARE = "one\ttwo\n" + "".join(
    f"{chr(34) * (n % 300 == 299)}left {n}\tright {n}{chr(34) * (n % 300 == 0 and n > 0)}\n" for n in range(3001)
)
TEXTS = "source\ttarget\n" + "".join(
    f"{chr(34) * (n % 9 == 1)}Ja {n}\tyes{n}{chr(34) * (n % 9 == 2)}\n" for n in range(500)
)


@pytest.mark.parametrize(
    ("text", "flags", "lines", "count"),
    [
        (PAIRS, "--delimiter tab", "lines 5 to 7: one record", 2001),
        (PAIRS.replace("\n", "\r\n"), "--delimiter tab", "lines 5 to 7: one record", 2001),
        (FAR, "--block_size 64KiB", "lines 90002 to 90092: one record", 10**5),
        (TEXTS, "--delimiter tab", "lines 3 to 4: one record", 500),
        (ALONE, "--block_size 1KiB", "lines 102 to 292: one record", 300),
        (RARE, "--delimiter tab --block_size 1KiB", "lines 301 to 302: one record", 3001),
        (RARE.replace("\t", ","), "--block_size 1KiB", "lines 301 to 302: one record", 3001),
        (RARE, "--delimiter tab --schema schema.pbtxt --block_size 1KiB", "lines 301 to 302: one record", 3001),
    ],
)
def test_quotes_that_take_in_rows(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, flags: str, lines: str, count: int
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("schema.pbtxt").write_text('feature { name: "one" type: BYTES shape {} }')
    status, said, _ = convert(run, tmp_path, text, *flags.split())

    assert (status, lines in said) == (2, True), said
    assert not (tmp_path / "out").exists()
    assert "give --quote '' if quotes are part of the text, or --quote '\"' if fields have" in said
    assert len(convert(run, tmp_path, text, *flags.split(), "--quote", "")[2]) == count
    accepted = convert(run, tmp_path, text, *flags.split(), "--quote", '"', "--max_reject_fraction", "1")
    assert 0 < len(accepted[2]) < count


@pytest.mark.parametrize(
    "text",
    [
        "n,address\n" + "".join(f'{n},"Main Street {n},\nBerlin"\n' for n in range(20)),
        "n,text\n" + "".join(f'{n},"Hello, you\nfoo, bar"\n' for n in range(20)),
        "text,n\n" + "".join(f'"one, two\nthree {n}",{n}\n' for n in range(20)),
        "title,text\n" + "".join(f'song {n},"la, la\nla\n\nla, la, la"\n' for n in range(20)) + 'x,"a\nb, c"\n',
    ],
)
def test_fields_of_several_lines(run: Run, tmp_path: Path, text: str) -> None:
    status, said, examples = convert(run, tmp_path, text)

    assert (status, len(examples)) == (0, 21 if "title" in text else 20), said
    assert any(b"\n" in value for value in examples[0].values() if isinstance(value, bytes))


def accented(command: str) -> bytes:
    row = {"csv": "{},{}\n", "jsonl": '{{"n": {}, "name": "{}"}}\n', "text": "{} {}\n"}[command]
    rows = [row.format(n, {100: "José", 700: "Zoë’s café", 701: "10 £"}.get(n, f"name{n}")) for n in range(1000)]
    return ("n,name\n" * (command == "csv") + "".join(rows)).encode("cp1252")


@pytest.mark.parametrize("command", ["csv", "csv --schema", "jsonl", "text"])
def test_cp1252(run: Run, tmp_path: Path, command: str) -> None:
    command, _, schema = command.partition(" ")
    data, path = accented(command), tmp_path / {"csv": "a.csv", "jsonl": "a.jsonl", "text": "a.txt"}[command]
    flags: list[object] = [command, "--input", path, "--output", tmp_path / "out", "--name", "n", "--overwrite"]
    path.write_bytes(data)
    found = run(*flags, "--encoding", "cp1252")
    examples = list(shardmill.examples(tmp_path / "out/n/1.0.0", split="train"))
    assert (found.status, len(examples)) == (0, 1000)
    assert any("José".encode() in value for row in examples for value in row.values() if isinstance(value, bytes))
    if schema:
        flags += [schema, tmp_path / "out/n/1.0.0/schema.pbtxt"]

    found = run(*flags, "--version", "1.0.1")

    assert found.status == 2
    assert "3 rows are not UTF-8" in found.err
    assert "José" in found.err
    assert "give --encoding cp1252" in found.err
    assert not list((tmp_path / "out/n").glob("1.0.1*"))
    found = run(*flags, "--version", "1.0.2", "--encoding", "utf-8")
    assert (found.status, "3 of 1,000 records rejected" in found.out + found.err) == (0, True)
    assert "byte 0xe9 (é in cp1252)" in (tmp_path / "out/n/1.0.2/manifest.json").read_text()
    for other in ("Müller".encode(), b"\xff\x81"):  # UTF-8 elsewhere in the file, or bytes that are no text
        path.write_bytes(data.replace(b"name500", other))
        assert run(*flags, "--version", "1.0.3").status == 0


def test_rows_between_spaces_without_a_header(run: Run, tmp_path: Path) -> None:
    text = "".join(f" {n / 8}  {n * 2}\n" for n in range(20))
    status, said, _ = convert(run, tmp_path, text)
    assert (status, r"give --delimiter '\s+' if spaces" in said) == (2, True), said

    status, said, _ = convert(run, tmp_path, text, "--delimiter", r"\s+")
    assert (status, "looks like data, not names" in said) == (2, True), said
    assert len(convert(run, tmp_path, text, "--delimiter", r"\s+", "--header", "none")[2]) == 20


@pytest.mark.parametrize("text", ["full name\n" + "Ada Lovelace\n" * 9, "a b\nc\n1 2\n", "one two\n1 2 3 4\n4 5 6 7\n"])
def test_texts_with_spaces_are_one_column(run: Run, tmp_path: Path, text: str) -> None:
    assert convert(run, tmp_path, text)[0] == 0


@pytest.mark.parametrize(
    ("text", "flags", "columns"),
    [
        ("n,x\n" + ROWS.replace("\n", ",1\n"), "--columns column_1,column_2,column_3", 3),
        ("n,x,y\n" + ROWS, "--header none", 2),
        ("n,x\n" + ROWS.replace(",", ";"), "--delimiter ';'", 2),
    ],
)
def test_a_given_header_with_another_number_of_fields_stops(
    run: Run, tmp_path: Path, text: str, flags: str, columns: int
) -> None:
    status, said, _ = convert(run, tmp_path, text, "--header", "first")
    assert (status, flags in said, "in place of --header first" in said) == (2, True, True), said
    assert not (tmp_path / "out").exists()

    skip = ("--skip_lines", "1")
    names = ("--columns", "a,b") if "delimiter" in flags else ()
    status, said, examples = convert(
        run, tmp_path, text, *skip, *shlex.split(flags), *names, "--max_reject_fraction", ".1"
    )
    assert (status, len(examples[0])) == (0, columns), said


def test_a_record_that_may_be_two_rows_has_a_notice(run: Run, tmp_path: Path) -> None:
    text = "a,b\n" + "".join(f"word{n},thing{n}\n" for n in range(300)) + '"x,\ny",w\n'
    status, said, examples = convert(run, tmp_path, text)
    where = "rows.csv, lines 302 to 303: one record, and each of its lines has the 2 fields of a row"
    assert (status, len(examples)) == (0, 301)
    assert f"{where}; --quote '' makes rows of them, if quotes are part of the text" in said

    status, said, examples = convert(run, tmp_path, text, "--quote", "")
    assert (status, len(examples), where in said) == (0, 302, False)
    usual = text + "".join(f'"line {n}\nand another",{n}\n' for n in range(3))
    assert where not in convert(run, tmp_path, usual)[1]


def test_a_header_in_cp1252(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("n,prénom\n1,x\n2,Zoë\n".encode("cp1252"))
    flags = ("csv", "--input", tmp_path / "a.csv", "--output", tmp_path / "out", "--name", "n")
    found = run(*flags)
    assert (found.status, (tmp_path / "out").exists()) == (2, False)
    assert "the header is not utf-8; as cp1252, it is 'n,prénom': if that is right, give --encoding cp1252" in found.err

    assert run(*flags, "--encoding", "cp1252").status == 0
    names = [row["prénom"].decode() for row in shardmill.examples(tmp_path / "out/n", split="train")]
    assert sorted(names) == ["Zoë", "x"]


def test_a_text_file_in_cp1252(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("Un café".encode("cp1252"))
    flags = ("text", "--input", tmp_path / "a.txt", "--record", "file", "--output", tmp_path / "out", "--name", "n")
    found = run(*flags)
    assert found.status == 1
    assert "byte 6 is not utf-8: unexpected end of data; --encoding cp1252 reads it as 'Un café'" in found.err

    assert run(*flags, "--encoding", "cp1252").status == 0


def test_mistakes(run: Run, tmp_path: Path) -> None:
    assert "--columns and --header" in convert(run, tmp_path, IRIS, "--columns", "a,b,c", "--header", "none")[1]
    assert "--skip_lines -1: expected a number of lines" in convert(run, tmp_path, IRIS, "--skip_lines", "-1")[1]
    assert "--comment x: expected ASCII characters" in convert(run, tmp_path, IRIS, "--comment", "x")[1]
