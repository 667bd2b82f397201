"""Mistakes in the flags and the input of the commands of tables: one sentence, and nothing is written."""

import gzip
import io
import json
import zipfile
from pathlib import Path

import pyarrow as pa
import pytest

from tests.support.command import (
    Process,
    Run,
    bind_root_to_permissions,
    check_failure,
    check_mistake,
    check_refused,
    tree_bytes,
    write_files,
)
from tests.support.table_results import TOLERANT, check_consistent, convert, parquet, read_table


def zipped() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr(zipfile.ZipInfo("a.csv"), "a\n1\n")
    return out.getvalue()


GOOD = b"id,label,age\n1,ant,3\n2,bee,4\n3,ant,\n"
SCHEMA = 'feature { name: "%s" type: INT shape {} presence { min_fraction: 1.0 } }'
WRONG_CSV: list[tuple[dict[str, bytes], tuple[str, ...], tuple[str, ...]]] = [
    ({"a.csv": b'a,b\n1,2\n3,"x\n5,6\n'}, (), ("a.csv, line 3", "never closed", "--quote ''")),
    ({"a.csv.gz": gzip.compress(b'a,b\n1,2\n3,"x\n5,6\n', mtime=0)}, (), ("a.csv.gz, line 3", "never closed")),
    ({"a.csv": b'a,"b\n1,2\n3,4\n'}, (), ("a.csv, line 1", "never closed")),
    ({"a.csv": b"a,b\n"}, (), ("has no rows",)),
    ({"a.csv": b"a;b\n1;2\n"}, (), ("a.csv, line 1", "the header is one column, 'a;b'; give --delimiter ';'")),
    ({"a.csv": b"a,b,a\n1,2,3\n"}, (), ("a.csv, line 1", "names the column 'a' 2 times")),
    (
        {"a.csv": GOOD, "b.csv": b"id,label,height\n1,ant,3\n"},
        (),
        ("headers differ", "'b.csv' lacks 'age' and has 'height'", "'a.csv'"),
    ),
    (
        {"a.csv": GOOD, "b.csv": b""},
        ("--label", "labl"),
        ("--label labl: no such column", "did you mean label?", "id, label, age"),
    ),
    ({"a.csv": GOOD}, ("--key", "idd"), ("--key idd: no such column", "did you mean id?")),
    (
        {"a.csv": GOOD},
        ("--group_by", "agee", "--splits", "a=1"),
        ("--group_by agee: no such column", "did you mean age?"),
    ),
    ({"a.csv": GOOD}, ("--stratify_by", "labels", "--splits", "a=1"), ("--stratify_by labels", "did you mean label?")),
    ({"a.csv": GOOD}, ("--drop", "age,agge"), ("--drop agge: no such column", "did you mean age?")),
    ({"a.csv": GOOD}, ("--only", "lable"), ("--only lable: no such column", "did you mean label?")),
    ({"a.csv": GOOD}, ("--fill", "aeg=3"), ("--fill aeg: no such column", "did you mean age?")),
    ({"a.csv": GOOD}, ("--label", "label", "--drop", "label"), ("--label label is also in --drop",)),
    ({"a.csv": GOOD}, ("--drop", "id,label,age"), ("no column of --input", "--drop")),
    ({"a.csv": b"id,label\n1,\n2,NA\n"}, ("--label", "label"), ("--label label has no value in any row",)),
    ({"a.csv": b"id,label\n1, ant\n"}, ("--label", "label"), ("class name ' ant'", "rename the class")),
    (
        {"a.csv": GOOD, "l.txt": b"bee\n"},
        ("--label", "label", "--labels_file", "l.txt"),
        ("class 'ant' is in the input", "append"),
    ),
    (
        {"a.csv": GOOD, "l.txt": b"bee\n"},
        ("--label", "age", "--labels_file", "l.txt"),
        ("--labels_file", "--label age holds numbers"),
    ),
    ({"a.csv": GOOD, "l.txt": b"bee\n"}, ("--labels_file", "l.txt"), ("--labels_file was given, but no --label",)),
    (
        {"a.csv": GOOD, "s": (SCHEMA % "agge").encode()},
        ("--schema", "s"),
        ("--schema wants column 'agge'", "did you mean age?"),
    ),
    (
        {"a.csv": GOOD, "s": (SCHEMA % "id").encode()},
        ("--schema", "s", "--fill", "id=x"),
        ("--fill id=x", "'id' holds int64"),
    ),
    ({"a.csv": GOOD, "s": GOOD}, ("--schema", "s"), ("--schema s is not a tensorflow-metadata Schema",)),
    ({"a.csv": GOOD, "s": b"\x89PNG\0"}, ("--schema", "s"), ("--schema s is not a tensorflow-metadata Schema",)),
    ({"a.csv": GOOD, "s": b""}, ("--schema", "s"), ("--schema s has no features",)),
    ({"a.csv": GOOD, "s": (SCHEMA % "id" * 2).encode()}, ("--schema", "s"), ("--schema s has feature 'id' twice",)),
    ({"a.csv": GOOD, "s": b"feature { type: INT }"}, ("--schema", "s"), ("--schema s has a feature without a name",)),
    ({"a.csv": GOOD}, ("--schema", "none"), ("--schema none: No such file",)),
    ({"a.csv": b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\xff\n1\n"}, (), ("a.csv",)),
    ({"a.csv": zipped()}, (), ("a.csv is not CSV; it begins like a zip archive or a spreadsheet",)),
    ({"a.csv": parquet(pa.table({"a": [1]}))}, (), ("a.csv is not CSV; it begins like a Parquet file",)),
    ({"a.csv": gzip.compress(GOOD, mtime=0)}, (), ("a.csv is not CSV; it begins like gzip data: name it .csv.gz",)),
    (
        {"a.csv": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(99)},
        (),
        ("a.csv is not CSV; it begins like an old Excel file",),
    ),
    (
        {"a.csv": GOOD.decode().encode("utf-16")},
        (),
        ("a.csv is not CSV; it begins like UTF-16: give --encoding utf-16",),
    ),
    ({"a.csv": GOOD.decode().encode("utf-16-le")}, (), ("a.csv, line 1: there is a NUL byte in the header",)),
    (
        {"a.csv": GOOD},
        ("--encoding", "utf-16"),
        ("a.csv is not utf-16", "give the encoding of the file with --encoding"),
    ),
    ({"a.csv": b"id,caf\xe9\n1,2\n"}, (), ("the header is not utf-8; as cp1252, it is 'id,café'", "--encoding cp1252")),
    ({"a.csv": b"id,caf\x81\n1,2\n"}, (), ("a.csv, line 1: the header is not utf-8; give the encoding",)),
    ({"a.jsonl": b"{}"}, (), ("no CSV files in --input",)),
]


@pytest.mark.parametrize(("files", "flags", "words"), WRONG_CSV, ids=lambda value: ascii(value)[:50])
def test_wrong_csv_is_one_sentence_and_writes_nothing(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, bytes],
    flags: tuple[str, ...],
    words: tuple[str, ...],
) -> None:
    (tmp_path / "in").mkdir()
    monkeypatch.chdir(tmp_path / "in")
    check_refused(run, tmp_path / "in", files, "csv", flags, words)


WRONG_FLAGS: list[tuple[tuple[str, ...], tuple[str, ...]]] = [
    (("--delimiter", "ab"), ("--delimiter: 'ab': expected a character, several that are no letters or digits",)),
    (("--delimiter", ""), ("--delimiter: '' is not one ASCII character",)),
    (("--delimiter", "é"), ("--delimiter: 'é' is not one ASCII character",)),
    (("--delimiter", "x"), ("the delimiter 'x' is invalid",)),
    (("--quote", "ab"), ("--quote: 'ab' is not one ASCII character",)),
    (("--quote", ","), ("--quote ',' needs --delimiter",)),
    (("--delimiter", ";", "--quote", ";"), ("--delimiter and --quote are both ';'",)),
    (("--columns", "a,a"), ("--columns: 'a,a' names a column twice",)),
    (("--columns", "a,"), ("--columns: 'a,' is not a list of names",)),
    (("--columns", ""), ("--columns: '' is not a list of names",)),
    (("--drop", "a,a"), ("--drop: 'a,a' names a column twice",)),
    (("--only", ""), ("--only: '' is not a list of names",)),
    (("--block_size", "5"), ("--block_size 5: expected 1KiB to 1GiB",)),
    (("--block_size", "2GiB"), ("--block_size", "expected 1KiB to 1GiB")),
    (("--block_size", "much"), ("--block_size: 'much' is not a size",)),
    (("--encoding", "nope"), ("unknown encoding 'nope'",)),
    (("--encoding", ""), ("unknown encoding ''",)),
    (("--encoding", "base64"), ("'base64' is no encoding of text files",)),
    (("--missing", "-,?"), ("--missing: no value", "--missing=VALUE")),
    (("--fill", "a"), ("--fill: 'a' is not column=value",)),
    (("--fill", "=3"), ("--fill: '=3' is not column=value",)),
    (("--fill", "a=1", "--fill", "a=2"), ("--fill: a=… is given twice",)),
    (("--max_reject_fraction", "2"), ("--max_reject_fraction 2: expected 0 to 1",)),
    (("--max_reject_fraction", "nan"), ("--max_reject_fraction nan: expected 0 to 1",)),
    (("--delimeter", ";"), ("unknown flag --delimeter", "did you mean --delimiter?")),
    (("--record", "file"), ("unknown flag --record",)),
    (("--group_by", "id"), ("--group_by id needs --splits",)),
    (("--on_new_label", "append"), ("--on_new_label append needs --labels_file",)),
]


@pytest.mark.parametrize(("flags", "words"), WRONG_FLAGS, ids=lambda value: " ".join(value)[:40])
def test_wrong_flag_is_one_sentence(run: Run, tmp_path: Path, flags: tuple[str, ...], words: tuple[str, ...]) -> None:
    folder = write_files(tmp_path / "in", {"a.csv": GOOD})
    check_mistake(run("csv", "--input", folder, "--output", tmp_path / "out", "--name", "n", *flags), *words)
    assert not (tmp_path / "out").exists()


def test_spellings_of_a_missing_value(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {"a.csv": b'a,b\n1,NA\n-,x\n"?",y\n"",\n'})
    table = convert("csv", folder, tmp_path, "--missing=-,?", "--no_shuffle")
    assert table.rows == [{"a": 1, "b": b"NA"}, {"b": b"x"}, {"b": b"y"}, {}]


def test_classes_that_are_missing_or_new(run: Run, tmp_path: Path) -> None:
    rows = b"id,label\n0,ant\n1,bee\n2,cow\n3,\n4,NA\n5,cow\n"
    folder = write_files(tmp_path / "in", {"a.csv": rows})
    (tmp_path / "labels.txt").write_text("cow\nant\n")
    flags = ("--label", "label", "--labels_file", tmp_path / "labels.txt", *TOLERANT)
    missing = [(5, "no label: column 'label' has no value"), (6, "no label: column 'label' has no value")]
    appended = convert("csv", folder, tmp_path / "1", *flags, "--on_new_label", "append")
    assert {row["id"]: row["label"] for row in appended.rows} == {0: 1, 1: 2, 2: 0, 5: 0}
    assert [(reject["line"], reject["reason"]) for reject in appended.rejects()] == missing
    rejected = convert("csv", folder, tmp_path / "2", *flags, "--on_new_label", "reject")
    assert {row["id"]: row["label"] for row in rejected.rows} == {0: 1, 2: 0, 5: 0}
    new = (3, "class 'bee' is not in --labels_file")
    assert [(reject["line"], reject["reason"]) for reject in rejected.rejects()] == [new, *missing]
    for table in (appended, rejected):
        check_consistent(table)


def test_too_many_rejects(run: Run, tmp_path: Path) -> None:
    good = "".join(f"{number},x\n" for number in range(97))
    folder = write_files(tmp_path / "in", {"a.csv": f"a,b\n{good}1\n2\n3\n".encode()})
    out = tmp_path / "out" / "n"
    command = ("csv", "--input", folder, "--output", tmp_path / "out", "--name", "n")
    rejects = out / "1.0.0-rejects.jsonl"
    result = run(*command, "--max_reject_fraction", "0.02")
    check_failure(
        result, "3 of 100 records were rejected", "--max_reject_fraction 0.02", "the row has 1 field", str(rejects)
    )
    assert [json.loads(line)["line"] for line in rejects.read_text().splitlines()] == [99, 100, 101]
    assert list(tree_bytes(tmp_path / "out")) == ["n/1.0.0-rejects.jsonl"]
    assert run(*command, "--max_reject_fraction", "0.03").status == 0
    assert sorted(path.name for path in out.iterdir()) == ["1.0.0", "LATEST", "builds"]


@pytest.mark.parametrize("flags", [(), ("--label", "Report 2024")], ids=["", "label"])
def test_a_title_that_is_given_as_the_header(run: Run, tmp_path: Path, flags: tuple[str, ...]) -> None:
    folder = write_files(tmp_path / "in", {"a.csv": b"Report 2024\na,b\n1,2\n"})
    first = ("--header", "first")
    result = run("csv", "--input", folder, "--output", tmp_path / "out", "--name", "n", *first, *flags)
    check_mistake(result, "the header has 1 field, and the rows have 2", "give --skip_lines 1")
    assert not (tmp_path / "out").exists()


def test_output_that_is_published_or_inside_the_input(run: Run, tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {"a.csv": GOOD})
    command = ("csv", "--input", folder, "--name", "n", "--output")
    for output in (folder, folder / "out"):
        check_mistake(run(*command, output), "is inside --input")
    assert tree_bytes(folder) == {"a.csv": GOOD}
    assert run(*command, tmp_path / "out").status == 0
    before = tree_bytes(tmp_path / "out")
    check_mistake(run(*command, tmp_path / "out", "--seed", 7), "is a published data set; give --overwrite")
    assert tree_bytes(tmp_path / "out") == before


def test_file_without_read_permission_is_one_reject(tmp_path: Path) -> None:
    folder = write_files(tmp_path / "in", {"a.csv": b"a\n1\n", "b.csv": b"a\n2\n", "c/d.csv": b"a\n3\n"})
    (folder / "b.csv").chmod(0)
    (folder / "c").chmod(0)
    command = ("csv", "--input", folder, "--output", tmp_path, "--name", "n", *TOLERANT)
    result = Process(tmp_path / "process", *command, before=bind_root_to_permissions).result()
    (folder / "c").chmod(0o755)
    assert result.status == 0, result.err
    table = read_table(tmp_path / "n")
    assert table.rows == [{"a": 1}]
    file = {"records": 1, "size_bytes": 4, "count": "estimated"}  # by the one file that could be read
    lost = {"records": 1, "size_bytes": 0, "count": "at least"}
    assert table.rejects() == [
        {"source": "b.csv", "line": None, "stage": "index", "reason": "cannot be read: Permission denied", **file},
        {"source": "c/", "line": None, "stage": "index", "reason": "cannot list the folder: Permission denied", **lost},
    ]
    check_consistent(table)
